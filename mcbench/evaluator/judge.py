"""From a test to what the sandbox gets to know of it, and from what it reports to a verdict.

This is the trusted side. Here is accepted what equals the expected output byte by byte, and
compared what is small and plain; all else, which may have been forged to take time or memory, is
compared by a further job, in a sandbox that only does that.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator import compare, encoding, leetcode
from mcbench.evaluator.checking import check, run_checker
from mcbench.evaluator.compare import Comparison, Rules
from mcbench.evaluator.link import ENDED_EARLY, UNASKED
from mcbench.evaluator.pool import COMPARING, Job, size_of
from mcbench.evaluator.portable import read_all, wall_limit
from mcbench.evaluator.rule_sets import RuleSet
from mcbench.evaluator.submission import (
    AssertTest,
    CallTest,
    CheckerProgram,
    StdioTest,
    Submission,
    TestResult,
    Verdict,
)


def input_of(test: StdioTest | CallTest, number: int) -> bytes:
    """What the program reads, or the encoded arguments of the call.

    Raises:
        UserError: an argument cannot be sent.
    """
    if isinstance(test, StdioTest):
        return test.stdin.encode("utf-8", "surrogateescape")
    try:
        return encoding.dumps(list(test.args))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"test {number}: an argument cannot be sent: {error}") from None


def job_for(submission: Submission, number: int, output_bytes: int, flavour: str = "plain") -> Job:
    """What the sandbox gets to know of a test: the program, its input and its limits.

    Raises:
        UserError: an argument of the test cannot be sent.
    """
    test = submission.tests[number]
    request: dict[str, Any] = {"kind": "stdio"}
    if isinstance(test, AssertTest):
        request = {"kind": "assert"}
        data = json.dumps(asdict(test)).encode()
    else:
        data = input_of(test, number)
        if isinstance(test, CallTest):
            request = {"kind": "call", "fn_name": test.fn_name, "result_arg": test.result_arg}
    request |= {
        "cpu_s": submission.time_limit_s,
        "memory_bytes": int(submission.memory_limit_mb * 2**20),
        "output_bytes": output_bytes,
    }
    program = f"{submission.preamble}\0{submission.code}"
    return Job(request, program.encode("utf-8", "surrogatepass"), data, flavour)


# Has a job run, whose files hold then what it has written; returns how it ended.
Run = Callable[[Job], dict[str, Any]]


def judge(
    submission: Submission, number: int, job: Job, run: Run, peer: RuleSet | None
) -> TestResult:
    """The verdict on a test, whose ``job`` is run: limits first, then how it ended, then what it
    answered. ``peer`` are the rules of another evaluator, if its comparison is asked for.
    """
    outcome = run(job)
    found = _found(submission, number, job, outcome, run, peer)
    used = {"time_s": outcome["cpu_s"], "wall_s": outcome["wall_s"]}
    return replace(found, **used, memory_mb=outcome["memory_mb"])


def _found(
    submission: Submission, number: int, job: Job, outcome: dict[str, Any], run: Run,
    peer: RuleSet | None,
) -> TestResult:  # fmt: skip
    """The verdict without what the test has used."""
    test = submission.tests[number]
    if job.largest > job.request["output_bytes"]:
        return TestResult("OLE", message="wrote more than the output limit")
    broken = _broken_limit(submission, outcome) or _bad_ending(outcome, job, submission.code)
    if not (broken or isinstance(test, AssertTest)):
        return _answered(submission, test, job, run, peer)
    result = broken or _asserted(job, submission.code, run)
    if result.verdict == "RE" and submission.preamble:
        return _of_preamble(submission.preamble, job, run) or result
    return result


def _broken_limit(submission: Submission, outcome: dict[str, Any]) -> TestResult | None:
    stopped = outcome["stopped"]
    seconds, mb = submission.time_limit_s, submission.memory_limit_mb
    if stopped == "memory" or outcome["memory_mb"] > mb:
        return TestResult("MLE", message=f"used more than {mb:g} MiB")
    if stopped == "crowded":
        return TestResult("MLE", message="too many processes, sockets, files or memory mappings")
    if stopped == "time" or outcome["cpu_s"] > seconds:
        return TestResult("TLE", message=f"used more than {seconds:g} s of CPU time")
    if stopped == "wall":
        return TestResult("TLE", message=f"did not end within {wall_limit(seconds):g} s")
    return None


def _bad_ending(outcome: dict[str, Any], job: Job, code: str) -> TestResult | None:
    status = outcome["status"]
    if status == 0:
        return None
    error = job.last_line()
    if error.startswith("MemoryError"):  # the limit on address space
        return TestResult("MLE", message=error)
    if error.startswith(_FILE_TOO_LARGE) or status == -signal.SIGXFSZ:
        return TestResult("OLE", message=f"wrote more than the output limit to a file: {error}")
    ended = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    told = f"{ended}: {error}".rstrip(": ")
    return TestResult("RE", message=told + _line_told(job, code))


def _of_preamble(preamble: str, job: Job, run: Run) -> TestResult | None:
    """IE where the problem's own preamble fails without the submission, too."""
    if (error := job.last_error()) and "preamble.py" not in error:
        return None
    alone = f"{preamble}\0".encode("utf-8", "surrogatepass")
    with closing(Job(job.request | {"kind": "stdio"}, alone, b"", job.flavour)) as again:
        status = run(again)["status"]
        told = again.last_line() or f"it ended with status {status}"
    return TestResult("IE", message=f"the problem's preamble fails: {told}") if status else None


_FILE_TOO_LARGE = f"OSError: [Errno {errno.EFBIG}]"
_IN_PROGRAM = re.compile(r'File "main\.py", line ([0-9]{1,9})')


def _line_told(job: Job, code: str) -> str:
    """Where in the program its last error was, by what it wrote to standard error."""
    found = _IN_PROGRAM.findall(job.last_error())
    if not found:
        return ""
    number = int(found[-1])
    line = next(islice(code.splitlines(), number - 1, None), "").strip()
    return f" (line {number}: {line[:_SHOWN]})"


_SHOWN = 80  # characters of a line of the program, in a message


# What a program wrote, and may have forged --------------------------------------------------------

_SMALL = 16 << 10  # bytes that are compared here
_FEW = 500  # brackets in them, and so levels
# Of a process that compares, beside what it has for each MiB of the expected answer.
_CPU_S, _DECODING_S, _CPU_S_PER_MIB = 2.0, 0.5, 4.0
_MEMORY, _MEMORY_PER_BYTE = 512 << 20, 64
_FOR_FUNCTIONS = 2 << 20  # bytes that a checker is asked about, beside a multiple of the test's own


def _answered(
    submission: Submission, test: StdioTest | CallTest, job: Job, run: Run, peer: RuleSet | None
) -> TestResult:
    """The verdict on what a program that ended well wrote."""
    is_text = isinstance(test, StdioTest)
    written = job.stdout if is_text else job.result
    size = size_of(written)
    if not is_text and not size:
        return TestResult("RE", message="ended before the function returned")
    by_function = peer is not None or test.checker is not None
    if size > _most_bytes(test, by_function):
        return TestResult("WA", message=f"{size} bytes, far more than an answer has")
    if not by_function:
        found = _by_rules(submission, test, job, written, run)
    elif not peer and isinstance(test.checker, CheckerProgram):
        return check(job, test, run)
    else:
        found = Comparison("decoded")
        if not (is_text or _is_plain(written, size)):
            found = _compared_apart(test, written, None, job, run)
        if found.accepted:
            found = _by_function(test, read_all(written), peer)
    return result_of(test, written, found)


def _by_rules(
    submission: Submission, test: StdioTest | CallTest, job: Job, written: int, run: Run
) -> Comparison:
    is_text, size, expected = isinstance(test, StdioTest), size_of(written), _as_written(test)
    if expected is None:
        return Comparison(None, "no function can return the expected value")
    if size == len(expected) and read_all(written) == expected:
        return Comparison("exact")
    rules = rules_of(test)
    if not rules.stated_tolerance and _is_real(submission, test):
        rules = replace(rules, real=True)
    if not test.any_order and (size <= _SMALL if is_text else _is_plain(written, size)):
        return compare.compare_written(read_all(written), test.expected, rules, is_text)
    return _compared_apart(test, written, rules, job, run)


def _is_plain(written: int, size: int) -> bool:
    """Whether a value is so small and simple that it can be decoded here, whatever it is."""
    if size > _SMALL or (data := read_all(written)).count(b"[") > _FEW:
        return False
    try:
        encoding.loads(data, plain=True)
    except ValueError:
        return False
    return True


def _most_bytes(test: StdioTest | CallTest, by_function: bool) -> float:
    """Bytes that an answer can have: what is printed; what is shown to a checker."""
    if isinstance(test, StdioTest):
        expected = len(test.expected.encode("utf-8", "surrogatepass"))
        if by_function or test.keep_output:
            return compare.MAX_LONGER * (expected + len(test.stdin)) + _FOR_FUNCTIONS
        return compare.MAX_LONGER * expected + compare.MIN_LONG
    if not by_function:
        return math.inf
    known = _encoded([test.expected, list(test.args)]) or b""
    return compare.MAX_LONGER * len(known) + _FOR_FUNCTIONS


def _encoded(value: Any) -> bytes | None:
    """As a program would have returned it; None if none can."""
    try:
        return encoding.dumps(value, items_of=leetcode.items_of)
    except (TypeError, ValueError):
        return None


def _as_written(test: StdioTest | CallTest) -> bytes | None:
    """The expected answer as a program would have written it."""
    if isinstance(test, StdioTest):
        return test.expected.encode("utf-8", "surrogatepass")
    return _encoded(test.expected)


def rules_of(test: StdioTest | CallTest) -> Rules:
    """The options of a test that a comparison knows."""
    stated = (name for name in compare.RULE_NAMES if hasattr(test, name))
    return Rules(**{name: getattr(test, name) for name in stated})


def _is_real(submission: Submission, test: StdioTest | CallTest) -> bool:
    """Whether it is another test that shows that the problem's answers are real numbers."""
    if not isinstance(test, StdioTest) or test.keep_output:
        return False
    others = (other.expected for other in submission.tests if isinstance(other, StdioTest))
    shows = compare.has_real_numbers
    return not shows(test.expected) and any(map(shows, others))


def result_of(
    test: StdioTest | CallTest, written: int | bytes, comparison: Comparison
) -> TestResult:
    """The result of a program that ended well, with what was found about what it wrote."""
    verdict: Verdict = "AC" if comparison.accepted else "IE" if comparison.fault else "WA"
    output = None
    if isinstance(test, StdioTest) and test.keep_output:
        output = compare.as_text(written if isinstance(written, bytes) else read_all(written))
    strategy, reason = comparison.strategy, comparison.reason
    return TestResult(verdict, strategy=strategy, message=reason, output=output)


def _by_function(test: StdioTest | CallTest, data: bytes, peer: RuleSet | None) -> Comparison:
    """By the checker, or by another evaluator's rules: in this process."""
    is_text = isinstance(test, StdioTest)
    try:
        value: Any = compare.as_text(data) if is_text else encoding.loads(data)
    except ValueError:  # more digits than this process reads
        return compare.DAMAGED
    if peer:
        return peer.compare(test.expected, value, is_text)
    assert callable(test.checker)
    return run_checker(test.checker, test.expected, value, test)


def _compared_apart(
    test: StdioTest | CallTest, written: int, rules: Rules | None, job: Job, run: Run
) -> Comparison:
    """Compare in a process of its own, which gets the file as it is; without rules, decode it.

    Where that fails, the expected answer is compared with itself: if it fails there too, that is
    the problem's fault; else the answer was made to take too much.
    """
    own = (rules and _as_written(test)) or b""
    asked = json.dumps([isinstance(test, StdioTest), rules and asdict(rules)])
    data = asked.encode() + b"\n" + own
    cpu_s = (_CPU_S if rules else _DECODING_S) + _CPU_S_PER_MIB * len(data) / 2**20
    memory_bytes = _MEMORY + _MEMORY_PER_BYTE * len(data)
    request = job.request | {"kind": "compare", "cpu_s": cpu_s, "memory_bytes": memory_bytes}

    def ask(answer: int | bytes) -> Comparison:
        with closing(Job(request, answer, data, COMPARING)) as comparing:
            outcome = run(comparing)
            if outcome["status"] == 0 and not outcome["stopped"] and size_of(comparing.result):
                return Comparison(*json.loads(read_all(comparing.result)))
            error = comparing.last_line()
        error = error or f"it takes too much {outcome['stopped'] or 'memory'}"
        return Comparison(None, f"the answer cannot be compared: {error}", fault=True)

    found = ask(written)
    if not found.fault:
        return found
    if rules and (again := ask(own)).fault:
        return replace(again, reason=f"of the expected one, too, {found.reason}")
    return replace(found, fault=False)


def _asserted(job: Job, code: str, run: Run) -> TestResult:
    """The verdict that the test's own process left; the submission's cannot reach that file."""
    written = job.result
    if not 0 < size_of(written) <= compare.MIN_LONG:
        return TestResult("RE", message="the test was ended before it came to a verdict")
    verdict, message = json.loads(os.pread(written, compare.MIN_LONG, 0))
    if verdict == UNASKED:
        verdict = "IE" if _fails_alone(job, run) else "RE"
    if message == ENDED_EARLY and (error := job.last_line()):
        message = f"{error}{_line_told(job, code)}"
    if message.startswith("MemoryError"):
        verdict = "MLE"
    elif message.startswith(_FILE_TOO_LARGE):
        verdict = "OLE"
    strategy = "assertions" if verdict == "AC" else None
    return TestResult(verdict, strategy=strategy, message=message)


def _fails_alone(job: Job, run: Run) -> bool:
    """Whether a test fails before it asks also where the submission does nothing: that one may have
    filled the disk, or taken all processes.
    """
    with closing(Job(job.request, _ANYTHING, job.data, job.flavour)) as again:
        outcome = run(again)
        found = b"" if outcome["stopped"] else read_all(again.result)
    return found != b"" and bool(json.loads(found)[0] == UNASKED)


# A submission that has every name.
_ANYTHING = b"""\0
def __getattr__(name):
    return lambda *args, **named: None
"""
