"""A problem's own checker: a trusted function, or a program that runs in a sandbox of its own.

A checker program is foreign code, and sees what the submission never does: the expected answer. It
gets the printed output as data, in another process than the one that printed it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from dataclasses import replace
from typing import Any

from mcbench.evaluator.compare import Comparison
from mcbench.evaluator.pool import Job, size_of
from mcbench.evaluator.submission import Checker, CheckerProgram, StdioTest, TestResult


def run_checker(checker: Checker, expected: Any, actual: Any, test: Any) -> Comparison:
    """Ask the problem's own checker; one that raises has not accepted.

    It is at fault itself where it lacks a name or a module, also for the expected answer.
    """
    more = (test,) if _takes_test(checker) else ()
    try:
        accepted = bool(checker(expected, actual, *more))
    except Exception as error:  # user code; the reason is reported
        fault = False
        if isinstance(error, (NameError, ImportError)):
            try:
                checker(expected, expected, *more)
            except (NameError, ImportError):
                fault = True
            except Exception:
                pass
        return Comparison(None, f"the checker raised {type(error).__name__}: {error}", fault)
    return Comparison("checker") if accepted else Comparison(None, "the checker refused")


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
_status = 0
try:
    exec(compile(_given["code"], "checker.py", "exec", dont_inherit=True),
         {"__name__": "__main__", "__builtins__": __builtins__, "__file__": "checker.py"})
except SystemExit as _end:
    _status = _end.code
if _score:
    _said = sys.stdout.buffer.getvalue().decode("utf-8", "replace").split() or [""]
    _word = _said[-1].lower()
    try:
        _right = float(_word) >= 1
    except ValueError:
        _right = _word in ("true", "yes", "ok", "accepted", "correct")
    _right = _right and _status in (None, 0)
else:
    _right = _status == 42
_real.write("\\n" + ("right" if _right else "wrong") + "\\n")
_real.flush()
"""


def check_job(job: Job, test: StdioTest, ran: TestResult) -> Job:
    """The run of the checker on what ``job``'s program printed; ``ran`` is how that went."""
    stdout = job.outputs().stdout  # no longer than an answer can be: `judge` has looked
    return _job(job, "check", test, os.pread(stdout, size_of(stdout), 0), ran)


def _job(job: Job, stage: str, test: StdioTest, printed: bytes, ran: TestResult) -> Job:
    checker = test.checker
    assert isinstance(checker, CheckerProgram)
    given = {
        "code": checker.code,
        "protocol": checker.protocol,
        "args": list(checker.args),
        "input": test.stdin,
        "answer": test.expected,
    }
    request = {
        "kind": "stdio",
        "cpu_s": _CPU_S,
        "wall_s": 2 * _CPU_S,
        "memory_bytes": _MEMORY_MB << 20,
        "output_bytes": job.request["output_bytes"],
    }
    data = json.dumps(given).encode() + b"\n" + printed
    return Job(job.key, request, _HARNESS.encode(), data, job.flavour, stage, ran)


def checked(job: Job, outcome: dict[str, Any], test: StdioTest) -> TestResult | Job:
    """The verdict on the program, from how its checker ended.

    One that fails is run again, on the expected answer: if it fails there, it is the problem's
    fault, IE. An empty expected answer is a stand-in, on which any checker may fail; then only one
    that lacks a module or a name is at fault.
    """
    assert job.ran is not None
    ended_well = outcome["status"] == 0 and not outcome["stopped"]
    if job.stage == "check again":
        if ended_well:
            return job.ran
        return replace(job.ran, verdict="IE", message=f"the problem's own: {job.ran.message}")
    stdout = job.outputs().stdout
    last = os.pread(stdout, _WORD, max(0, size_of(stdout) - _WORD))
    said = last.decode("utf-8", "replace").split()[-1:]
    if ended_well and said == ["right"]:
        return replace(job.ran, strategy="checker")
    if ended_well and said == ["wrong"]:
        return replace(job.ran, verdict="WA", message="the checker refused")
    error = job.outputs().last_line() or f"it used too much {outcome['stopped']}"
    failed = replace(job.ran, verdict="WA", message=f"the checker failed on the answer: {error}")
    if not test.expected.strip() and not _LACKING.match(error):
        return failed
    return _job(job, "check again", test, test.expected.encode("utf-8", "surrogateescape"), failed)


_LACKING = re.compile("(ModuleNotFound|Import|Name)Error")
