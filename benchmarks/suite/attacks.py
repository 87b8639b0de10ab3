"""Programs that try to be accepted without solving the problem, or to harm the judge.

The groups, each a table ``programs/<group>.txt``:

- ``forgery``, ``forgery_call``: answer without knowing. Outside a sandbox they spoil at most the
  working folder and the descriptors they inherit.
- ``harm``: attack the judge, its machine or later tests. Run them in a sandbox only.
- ``escape``: try what a sandbox must refuse and print what was permitted: "nothing" is the one
  accepted output, and exactly that is expected.
- ``state``: look for what an earlier test left, then leave it: every test must find the world new.

What forgery and harm face as the expected answer is drawn anew in every process, so that no file
of this package tells it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from benchmarks.suite.cases import ProgramCase
from benchmarks.suite.reader import blocks
from mcbench.evaluator.submission import CallTest, StdioTest, Test

# Seconds of CPU; those that end by another limit get time to reach it on any machine.
_TIME_LIMIT = 0.2
_LONGER = {"mapped_memory": 2.0, "c_stack_crash": 2.0}
_REFUSED = ("WA", "RE", "TLE", "MLE", "OLE")

# Where the attack on the sockets of the host looks for one; whoever runs it has to listen there.
HOST_SOCKETS = ("/var/tmp/mcbench-suite.socket", "\0mcbench-suite.socket")

_REPORT = 'print(*managed or ["nothing"])\n'


def _attacks() -> Iterator[ProgramCase]:
    for group in ("forgery", "harm", "forgery_call"):
        for name, code in blocks(f"programs/{group}"):
            answer = secrets.token_hex(16)
            test: Test = StdioTest("1\n", answer)
            if group == "forgery_call":
                test = CallTest("f", [1], answer)
            limit = _LONGER.get(name, _TIME_LIMIT)
            yield ProgramCase(f"{group}_{name}", group, code, (test,), _REFUSED, limit, 128)
    nothing = (StdioTest("", "nothing"),)
    (_, preamble), *escapes = blocks("programs/escape")
    for name, code in escapes:
        whole = preamble + code + _REPORT
        yield ProgramCase(f"escape_{name}", "escape", whole, nothing, ("AC",))
    new = (StdioTest("", "new"),) * 6
    for name, code in blocks("programs/state"):
        whole = f"old = False\n{code}print('old' if old else 'new')\n"
        yield ProgramCase(f"state_{name}", "state", whole, new, ("AC",))


ATTACKS: tuple[ProgramCase, ...] = tuple(_attacks())
