"""From a test to what the sandbox gets to know of it, and from what it reports to a verdict.

This is the trusted side: expected outputs are compared here, with what the program wrote.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator import encoding, leetcode
from mcbench.evaluator.compare import MAX_LONGER, MIN_LONG, RULE_NAMES, Rules, has_real_numbers
from mcbench.evaluator.encoding import Weight, weight
from mcbench.evaluator.link import ENDED_EARLY
from mcbench.evaluator.pool import Job, Outputs, size_of
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


def _wall_limit(submission: Submission) -> float:
    return 2 * submission.time_limit_s + 1.0


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


def job_for(key: tuple[int, int], submission: Submission, output_bytes: int) -> Job:
    """What the sandbox gets to know: the program, its input and its limits.

    Raises:
        UserError: an argument of the test cannot be sent.
    """
    test = submission.tests[key[1]]
    request: dict[str, Any] = {"kind": "stdio"}
    if isinstance(test, AssertTest):
        request = {"kind": "assert"}
        data = json.dumps(asdict(test)).encode()
    else:
        data = input_of(test, key[1])
        if isinstance(test, CallTest):
            request = {"kind": "call", "fn_name": test.fn_name, "result_arg": test.result_arg}
    request |= {
        "cpu_s": submission.time_limit_s,
        "wall_s": _wall_limit(submission),
        "memory_bytes": int(submission.memory_limit_mb * 2**20),
        "output_bytes": output_bytes,
    }
    program = f"{submission.preamble}\0{submission.code}"
    return Job(key, request, program.encode("utf-8", "surrogatepass"), data)


def judge(
    submission: Submission, job: Job, outcome: dict[str, Any], rule_set: RuleSet
) -> TestResult:
    """The verdict on a raw outcome: limits first, then how it ended, then what it answered."""
    test, outputs = submission.tests[job.key[1]], job.outputs()
    if outputs.largest > job.request["output_bytes"]:
        result = TestResult("OLE", message="wrote more than the output limit")
    elif broken := _broken_limit(submission, outcome) or _bad_ending(
        outcome, outputs, submission.code
    ):
        result = broken
    elif isinstance(test, AssertTest):
        result = _asserted(outputs, submission.code)
    else:
        written = outputs.stdout if isinstance(test, StdioTest) else outputs.result
        result = compare_output(test, written, rule_set)
        if result.verdict == "WA" and _is_real(submission, test):
            result = compare_output(test, written, rule_set, real=True)
    used = {"time_s": outcome["cpu_s"], "wall_s": outcome["wall_s"]}
    return replace(result, **used, memory_mb=outcome["memory_mb"])


def _broken_limit(submission: Submission, outcome: dict[str, Any]) -> TestResult | None:
    stopped = outcome["stopped"]
    if stopped == "memory" or outcome["memory_mb"] > submission.memory_limit_mb:
        return TestResult("MLE", message=f"used more than {submission.memory_limit_mb:g} MiB")
    if stopped == "crowded":
        return TestResult("MLE", message="too many processes, sockets or memory mappings")
    if stopped == "time" or outcome["cpu_s"] > submission.time_limit_s:
        limit = f"{submission.time_limit_s:g} s of CPU time"
        return TestResult("TLE", message=f"used more than {limit}")
    if stopped == "wall":
        return TestResult("TLE", message=f"did not end within {_wall_limit(submission):g} s")
    return None


def _bad_ending(outcome: dict[str, Any], outputs: Outputs, code: str) -> TestResult | None:
    status = outcome["status"]
    if status == 0:
        return None
    error = outputs.last_line()
    if error.startswith("MemoryError"):  # the limit on address space
        return TestResult("MLE", message=error)
    if error.startswith(_FILE_TOO_LARGE) or status == -signal.SIGXFSZ:
        return TestResult("OLE", message=f"wrote more than the output limit to a file: {error}")
    ended = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    told = f"{ended}: {error}".rstrip(": ")
    return TestResult("RE", message=told + _line_told(outputs, code))


_FILE_TOO_LARGE = f"OSError: [Errno {errno.EFBIG}]"
_IN_PROGRAM = re.compile(r'File "main\.py", line ([0-9]{1,9})')


def _line_told(outputs: Outputs, code: str) -> str:
    """Where in the program its last error was, by what it wrote to standard error."""
    found = _IN_PROGRAM.findall(outputs.last_error())
    if not found:
        return ""
    number = int(found[-1])
    line = next(islice(code.splitlines(), number - 1, None), "").strip()
    return f" (line {number}: {line[:_SHOWN]})"


_SHOWN = 80  # characters of a line of the program, in a message


# What a program wrote, and may have forged, is read and decoded here, in the trusted process, in
# proportion to what an answer can weigh: the expected one, written in the longest way, and some
# more to see what a wrong one is. A checker knows only what it is told, so it is given more.
_LIGHT = Weight(16 << 10, 512, 8192)
_LIGHT_FOR_CHECKERS = Weight(384 << 10, 512, 40_000)
_TEXT_FOR_CHECKERS = 2 << 20


def _most_text(test: StdioTest) -> int:
    """Bytes that an answer in text can have."""
    if test.checker is None and not test.keep_output:
        return MAX_LONGER * len(test.expected.encode("utf-8", "surrogatepass")) + MIN_LONG
    return MAX_LONGER * (len(test.expected) + len(test.stdin)) + _TEXT_FOR_CHECKERS


def _heaviest_value(test: CallTest) -> Weight:
    """What an answer can weigh: a number may come as a Decimal or Fraction, a list as a deque."""
    least, like = _LIGHT, test.expected
    if test.checker is not None:
        least, like = _LIGHT_FOR_CHECKERS, [test.expected, list(test.args)]
    try:
        expected = weight(encoding.dumps(like, items_of=leetcode.items_of))
    except (TypeError, ValueError):
        return least  # nothing that can be returned is equal to it
    size, containers, items = expected
    return Weight(
        MAX_LONGER * size + least.size,
        2 * containers + items + least.containers,
        5 * (containers + items) + least.items,
    )


def _text(data: bytes, expected: str) -> str | None:
    """The text that was printed; None for much that is none, where no such is expected."""
    if len(data) > MIN_LONG:  # each byte that is no text takes far longer than one that is
        try:
            return data.decode()
        except UnicodeDecodeError:
            with contextlib.suppress(UnicodeEncodeError):
                expected.encode()
                return None
    return data.decode("utf-8", "surrogateescape")


def _is_real(submission: Submission, test: StdioTest | CallTest) -> bool:
    """Whether it is another test that shows that the problem's answers are real numbers."""
    if not isinstance(test, StdioTest) or test.checker is not None or test.keep_output:
        return False
    others = (other.expected for other in submission.tests if isinstance(other, StdioTest))
    return not has_real_numbers(test.expected) and any(map(has_real_numbers, others))


def compare_output(
    test: StdioTest | CallTest, written: int, rule_set: RuleSet, real: bool = False
) -> TestResult:
    """Verdict, strategy and message for what a program that ended well wrote into a file.

    A file that cannot hold the answer is not read, one that weighs more than it is not decoded.
    """
    output = None
    options = {name: getattr(test, name) for name in RULE_NAMES if hasattr(test, name)}
    rules = Rules(**options, real=real)
    size = size_of(written)
    too_long = TestResult("WA", message=f"{size} bytes, far more than an answer has")
    if isinstance(test, StdioTest):
        if size > MIN_LONG and size > _most_text(test):
            return too_long
        text = _text(os.pread(written, size, 0), test.expected)
        if text is None:
            return TestResult("WA", message=f"{size} bytes, and not UTF-8")
        if isinstance(test.checker, CheckerProgram) and rule_set.name == "microcoder":
            return TestResult("AC")  # to be checked in a run of its own
        comparison = rule_set.compare_text(test.expected, text, rules, test)
        output = text if test.keep_output else None
    elif not size:
        return TestResult("RE", message="ended before the function returned")
    else:
        heaviest = _LIGHT if size <= _LIGHT.size else _heaviest_value(test)
        if size > heaviest.size:
            return too_long
        returned = os.pread(written, size, 0)
        if size > _LIGHT.size and not weight(returned).within(heaviest):
            return too_long
        try:
            value = encoding.loads(returned)
        except ValueError:
            return TestResult("RE", message="the returned value is damaged")
        comparison = rule_set.compare_values(test.expected, value, rules, test)
    verdict: Verdict = "AC" if comparison.accepted else "IE" if comparison.fault else "WA"
    return TestResult(
        verdict, strategy=comparison.strategy, message=comparison.reason, output=output
    )


def _asserted(outputs: Outputs, code: str) -> TestResult:
    """The verdict that the test's own process left; the submission's cannot reach that file."""
    written = outputs.result
    if not 0 < size_of(written) <= MIN_LONG:
        return TestResult("RE", message="the test was ended before it came to a verdict")
    verdict, message = json.loads(os.pread(written, MIN_LONG, 0))
    if message == ENDED_EARLY and (error := outputs.last_line()):
        message = f"{error}{_line_told(outputs, code)}"
    if message.startswith("MemoryError"):
        verdict = "MLE"
    elif message.startswith(_FILE_TOO_LARGE):
        verdict = "OLE"
    strategy = "assertions" if verdict == "AC" else None
    return TestResult(verdict, strategy=strategy, message=message)
