"""A problem's own checker program: run in a sandbox of its own, after the program it judges.

The checker is foreign code, and sees what the submission never does: the expected answer. It gets
the printed output as data, in another process than the one that printed it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import Any

from mcbench.evaluator.pool import Job, size_of
from mcbench.evaluator.submission import CheckerProgram, StdioTest, TestResult

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


def check_job(job: Job, test: StdioTest, ran: TestResult, output_bytes: int) -> Job:
    """The run of the checker on what ``job``'s program printed; ``ran`` is how that went."""
    stdout = job.outputs().stdout  # no longer than an answer can be: `judge` has looked
    return _job(job.key, test, os.pread(stdout, size_of(stdout), 0), ran, output_bytes)


def control_job(job: Job, test: StdioTest, failed: TestResult, output_bytes: int) -> Job:
    """The run of a checker that ``failed`` on the expected answer: is it at fault?"""
    right = test.expected.encode("utf-8", "surrogateescape")
    return _job(job.key, test, right, failed, output_bytes)


def _job(
    key: tuple[int, int], test: StdioTest, printed: bytes, ran: TestResult, output_bytes: int
) -> Job:
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
        "output_bytes": output_bytes,
    }
    data = json.dumps(given).encode() + b"\n" + printed
    return Job(key, request, _HARNESS.encode(), data, ran=ran)


def checked(job: Job, outcome: dict[str, Any]) -> TestResult:
    """The verdict on the program, from how its checker ended.

    One that fails, and does so on the expected answer as well, is the problem's fault: IE.
    """
    assert job.ran is not None
    stdout = job.outputs().stdout
    last = os.pread(stdout, _WORD, max(0, size_of(stdout) - _WORD))
    said = last.decode("utf-8", "replace").split()
    ended_well = outcome["status"] == 0 and not outcome["stopped"]
    if job.ran.message.startswith(FAILED):  # a control run, of the expected answer
        if ended_well:
            return job.ran
        return replace(job.ran, verdict="IE", message=f"the problem's own: {job.ran.message}")
    if ended_well and said[-1:] == ["right"]:
        return replace(job.ran, strategy="checker")
    if ended_well and said[-1:] == ["wrong"]:
        return replace(job.ran, verdict="WA", message="the checker refused")
    error = job.outputs().last_line() or f"it used too much {outcome['stopped']}"
    return replace(job.ran, verdict="WA", message=f"{FAILED}: {error}")


FAILED = "the checker failed on the answer"
_LACKING = re.compile(f"{FAILED}: (ModuleNotFound|Import|Name)Error")


def may_be_at_fault(result: TestResult, test: Any) -> bool:
    """Whether a checker that failed is to be asked about the expected answer.

    An empty one is a stand-in, on which any checker may fail that an answer made to fail.
    """
    if not result.message.startswith(FAILED):
        return False
    return bool(test.expected.strip()) or _LACKING.match(result.message) is not None
