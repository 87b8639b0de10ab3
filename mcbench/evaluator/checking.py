"""A problem's own checker: a trusted function, or a program that runs in a sandbox of its own.

A checker program is foreign code, and sees what the submission never does: the expected answer. It
gets the printed output as data, in another process than the one that printed it.
"""

from __future__ import annotations

import contextlib
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

    def ask(answer: Any) -> bool | BaseException:
        try:
            return _says(checker(expected, answer, *more))
        except (Exception, SystemExit) as error:  # user code; the reason is reported
            return error

    found = ask(actual)
    if isinstance(found, bool):
        return Comparison("checker") if found else Comparison(None, "the checker refused")
    kinds = (NameError, ImportError) if _may_be_stand_in(expected) else (BaseException,)
    fault = isinstance(found, kinds) and isinstance(ask(expected), kinds)
    return Comparison(None, f"the checker raised {type(found).__name__}: {found}", fault)


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
_MOST_SAID = 4096  # bytes at the end of the output that hold the decision

# Run before a checker, as a problem's preamble is: the files that it is told of, its arguments and
# standard input.
_PREPARE = """\
def _prepare():
    import io, json, os, sys
    line, _, output = sys.stdin.buffer.read().partition(b"\\n")
    given = json.loads(line)
    for name in ("input", "answer"):
        with open(name, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(given[name])
    with open("output", "wb") as file:
        file.write(output)
    os.mkdir("feedback")
    sys.argv = ["checker.py", "input", "answer", *given["args"]]
    read = output if given["reads"] else b""
    sys.stdin = io.TextIOWrapper(io.BytesIO(read), "utf-8", "surrogateescape")
_prepare()
del _prepare
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
    by_status = checker.protocol == "icpc"
    told = "feedback" + os.sep if by_status else "output"
    given: dict[str, Any] = {"args": [told, *checker.args], "reads": by_status}
    given |= {"input": test.stdin, "answer": test.expected}
    request = job.request | {"cpu_s": _CPU_S, "memory_bytes": _MEMORY_MB << 20}
    program = f"{_PREPARE}\0{checker.code}".encode("utf-8", "surrogatepass")
    data = json.dumps(given).encode() + b"\n" + printed
    with closing(Job(request, program, data, job.flavour)) as checking:
        outcome = run(checking)
        if outcome["stopped"]:
            return checking.last_line() or f"it used too much {outcome['stopped']}"
        if by_status and outcome["status"] in _BY_STATUS:
            return _BY_STATUS[outcome["status"]]
        if by_status or outcome["status"] != 0:
            ended = f"it ended with status {outcome['status']} and no decision"
            return checking.last_line() or ended
        start = max(0, size_of(checking.stdout) - _MOST_SAID)
        said = os.pread(checking.stdout, _MOST_SAID, start).decode("utf-8", "replace").split()
        return _decided(said[-1].lower() if said else "nothing")


def _decided(word: str) -> str:
    """What the last word means that a checker has said: a score, or right or wrong."""
    with contextlib.suppress(ValueError):
        return "right" if float(word) >= 1 else "wrong"
    if word in ("true", "yes", "ok", "accepted", "correct"):
        return "right"
    if word in ("false", "no", "wrong", "rejected", "incorrect"):
        return "wrong"
    return f"it said {word[:40]}, which is no score"


_BY_STATUS = {42: "right", 43: "wrong"}  # of the protocol icpc
_LACKING = re.compile("(ModuleNotFound|Import|Name)Error")
