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

from mcbench.evaluator.submission import CallTest, StdioTest, Test
from mcbench.evaluator.suite.cases import ProgramCase
from mcbench.evaluator.suite.reader import blocks

# Seconds of CPU; those that end by another limit get time to reach it on any machine.
_TIME_LIMIT = 0.2
_LONGER = {"mapped_memory": 2.0, "c_stack_crash": 2.0}
_REFUSED = ("WA", "RE", "TLE", "MLE", "OLE")

# The numbers of system calls that libc does not wrap, for the two common machines.
_SYSTEM_CALLS = """
import ctypes, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "open_by_handle_at": (304, 265), "kexec_load": (246, 104), "reboot": (169, 142),
    "bpf": (321, 280), "perf_event_open": (298, 241), "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282), "add_key": (248, 217),
}
def syscall(name, *args):
    number = NUMBERS[name][platform.machine() == "aarch64"]
    return libc.syscall(ctypes.c_long(number), *args)
managed = []
"""
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
    for name, code in blocks("programs/escape"):
        whole = _SYSTEM_CALLS + code + _REPORT
        yield ProgramCase(f"escape_{name}", "escape", whole, nothing, ("AC",))
    new = (StdioTest("", "new"),) * 6
    for name, code in blocks("programs/state"):
        whole = f"old = False\n{code}print('old' if old else 'new')\n"
        yield ProgramCase(f"state_{name}", "state", whole, new, ("AC",))


ATTACKS: tuple[ProgramCase, ...] = tuple(_attacks())
