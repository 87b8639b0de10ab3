"""A problem's own checker: a trusted function, or a program that runs in a sandbox of its own.

A checker program is foreign code, and sees what the submission never does: the expected answer. It
gets the printed output as data, in another process than the one that printed it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from numbers import Real
from typing import Any

from mcbench.evaluator.compare import Comparison
from mcbench.evaluator.pool import Job, size_of
from mcbench.evaluator.portable import read_all
from mcbench.evaluator.submission import Checker, CheckerProgram, StdioTest, TestResult
from mcbench.evaluator.wording import short


def run_checker(checker: Checker, expected: Any, actual: Any, test: Any) -> Comparison:
    """Ask the problem's own checker; one that raises has not accepted.

    It is at fault itself where it raises for the expected answer, too. An empty one may be a
    stand-in, on which any checker may fail: then only one that lacks a name or a module is.
    """
    more = (test,) if _takes_test(checker) else ()
    try:
        accepted = _says(checker(expected, actual, *more))
    except (Exception, SystemExit) as error:  # user code; the reason is reported
        kinds: Any = (NameError, ImportError) if _may_be_stand_in(expected) else object
        fault = False
        if isinstance(error, kinds):
            try:
                _says(checker(expected, expected, *more))
            except (Exception, SystemExit) as again:
                fault = isinstance(again, kinds)
        return Comparison(None, f"the checker raised {type(error).__name__}: {error}", fault)
    return Comparison("checker") if accepted else Comparison(None, "the checker refused")


def _says(found: Any) -> bool:
    """Whether a checker accepts; of a score, 1 or more does.

    Raises:
        TypeError: it says neither: nothing, or what is true whatever it holds (a tuple, a
            coroutine, NotImplemented).
    """
    if type(found).__name__ in ("bool", "bool_", "Match"):  # numpy's, too
        return bool(found)
    if isinstance(found, Real):
        score: Any = found
        return bool(score >= 1)
    raise TypeError(f"it returned {short(found)}, neither right nor wrong")


def _may_be_stand_in(expected: Any) -> bool:
    return expected is None or (isinstance(expected, str) and not expected.strip())


def _takes_test(checker: Checker) -> bool:
    """Whether it has a third parameter without default, or one named test."""
    try:
        parameters = inspect.signature(checker).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in kinds and p.default is p.empty]
    return len(required) >= 3 or [p.name for p in parameters][2:3] == ["test"]


# Programs ----------------------------------------------------------------------------------------

_CPU_S = 20.0
_MEMORY_MB = 1024
_WORD = 64  # bytes at the end of the output that hold the decision

# What runs in the sandbox: the files that the checker is told of, its arguments and standard input,
# and then what it decided as the last line of the output. An exception of its own ends it as one of
# a program.
_HARNESS = """\0
import io, json, os, sys
_line, _, _output = sys.stdin.buffer.read().partition(b"\\n")
_given = json.loads(_line)
for _name in ("input", "answer"):
    with open(_name, "w", encoding="utf-8", errors="surrogateescape", newline="") as _file:
        _file.write(_given[_name])
with open("output", "wb") as _file:
    _file.write(_output)
_score = _given["protocol"] == "score"
_real = sys.stdout
if _score:
    sys.argv = ["checker.py", "input", "answer", "output", *_given["args"]]
    sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
    sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True)
else:
    os.mkdir("feedback")
    sys.argv = ["checker.py", "input", "answer", "feedback" + os.sep, *_given["args"]]
    sys.stdin = io.TextIOWrapper(io.BytesIO(_output), "utf-8", "surrogateescape")
_status = None
try:
    exec(compile(_given["code"], "checker.py", "exec", dont_inherit=True),
         {"__name__": "__main__", "__builtins__": __builtins__, "__file__": "checker.py"})
except SystemExit as _end:
    if not _score:
        raise
    _status = _end.code
if not _score:
    sys.exit("it ended with status 0")
_said = sys.stdout.buffer.getvalue().decode("utf-8", "replace").split() or ["nothing"]
_word = _said[-1].lower()
try:
    _right = float(_word) >= 1
except ValueError:
    _right = _word in ("true", "yes", "ok", "accepted", "correct")
    if not _right and _word not in ("false", "no", "wrong", "rejected", "incorrect"):
        sys.exit(f"it said {_word[:40]}, which is no score")
if _status not in (None, 0):
    sys.exit(f"it ended with status {_status}")
_real.write("\\n" + ("right" if _right else "wrong") + "\\n")
_real.flush()
"""


def check(job: Job, test: StdioTest, run: Callable[[Job], Any]) -> TestResult:
    """The verdict of a test's checker on what ``job``'s program printed.

    One that fails is run again, on the expected answer: if it fails there, it is the problem's
    fault, IE. An empty expected answer is a stand-in, on which any checker may fail; then only one
    that lacks a module or a name is at fault.
    """
    # No longer than an answer can be: `judge` has looked.
    decided = _decision(job, test, read_all(job.stdout), run)
    if decided == "right":
        return TestResult("AC", strategy="checker")
    if decided == "wrong":
        return TestResult("WA", message="the checker refused")
    message = f"the checker failed on the answer: {decided}"
    if not _may_be_stand_in(test.expected) or _LACKING.match(decided):
        expected = test.expected.encode("utf-8", "surrogateescape")
        if _decision(job, test, expected, run) not in ("right", "wrong"):
            return TestResult("IE", message=f"the problem's own: {message}")
    return TestResult("WA", message=message)


def _decision(job: Job, test: StdioTest, printed: bytes, run: Callable[[Job], Any]) -> str:
    """That of a checker, "right" or "wrong"; or how it failed."""
    checker = test.checker
    assert isinstance(checker, CheckerProgram)
    given = {
        "code": checker.code,
        "protocol": checker.protocol,
        "args": list(checker.args),
        "input": test.stdin,
        "answer": test.expected,
    }
    request = job.request | {"cpu_s": _CPU_S, "memory_bytes": _MEMORY_MB << 20}
    data = json.dumps(given).encode() + b"\n" + printed
    with closing(Job(request, _HARNESS.encode(), data, job.flavour)) as checking:
        outcome = run(checking)
        by_status = checker.protocol == "icpc" and not outcome["stopped"]
        if by_status and outcome["status"] in _BY_STATUS:
            return _BY_STATUS[outcome["status"]]
        size = size_of(checking.stdout)
        said = os.pread(checking.stdout, _WORD, max(0, size - _WORD)).decode("utf-8", "replace")
        decided = said.split()[-1:]
        if outcome["status"] == 0 and not outcome["stopped"] and decided in (["right"], ["wrong"]):
            return decided[0]
        used_up = outcome["stopped"] and f"it used too much {outcome['stopped']}"
        ended = f"it ended with status {outcome['status']} and no decision"
        return checking.last_line() or used_up or ended


_BY_STATUS = {42: "right", 43: "wrong"}  # of the protocol icpc
_LACKING = re.compile("(ModuleNotFound|Import|Name)Error")
