"""From a test to what the sandbox gets to know of it, and from what it reports to a verdict.

This is the trusted side: expected outputs are compared here, with what the program wrote.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator import encoding
from mcbench.evaluator.compare import MAX_LONGER, MIN_LONG, RULE_NAMES, Rules
from mcbench.evaluator.pool import Job
from mcbench.evaluator.rule_sets import RuleSet
from mcbench.evaluator.submission import (
    AssertTest,
    CallTest,
    CheckerProgram,
    StdioTest,
    Submission,
    Test,
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
    return Job(key, request, submission.code.encode("utf-8", "surrogatepass"), data)


def judge(
    submission: Submission,
    test: Test,
    outcome: dict[str, Any],
    outputs: tuple[bytes, bytes, bytes] | None,
    rule_set: RuleSet,
) -> TestResult:
    """The verdict on a raw outcome: limits first, then how it ended, then what it answered."""
    if outputs is None:
        result = TestResult("OLE", message="wrote more than the output limit")
    elif broken := _broken_limit(submission, outcome) or _bad_ending(outcome, outputs[1]):
        result = broken
    elif isinstance(test, AssertTest):
        result = _asserted(outputs[2])
    else:
        result = compare_outputs(test, outputs[0], outputs[2], rule_set)
    used = {"time_s": outcome["cpu_s"], "wall_s": outcome["wall_s"]}
    return replace(result, **used, memory_mb=outcome["memory_mb"])


def _broken_limit(submission: Submission, outcome: dict[str, Any]) -> TestResult | None:
    stopped = outcome["stopped"]
    if stopped == "memory" or outcome["memory_mb"] > submission.memory_limit_mb:
        return TestResult("MLE", message=f"used more than {submission.memory_limit_mb:g} MiB")
    if stopped == "time" or outcome["cpu_s"] > submission.time_limit_s:
        limit = f"{submission.time_limit_s:g} s of CPU time"
        return TestResult("TLE", message=f"used more than {limit}")
    if stopped == "wall":
        return TestResult("TLE", message=f"did not end within {_wall_limit(submission):g} s")
    return None


def _bad_ending(outcome: dict[str, Any], stderr: bytes) -> TestResult | None:
    status = outcome["status"]
    if status == 0:
        return None
    last_line = stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1][:300]
    if last_line.startswith("MemoryError"):  # the limit on address space
        return TestResult("MLE", message=last_line)
    ended = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    return TestResult("RE", message=f"{ended}: {last_line}".rstrip(": "))


def _far_larger(expected: Any, returned: bytes) -> bool:
    if len(returned) <= MIN_LONG:
        return False
    try:
        size = len(encoding.dumps(expected))
    except (TypeError, ValueError):
        return False  # compared in full, to fail for the right reason
    return len(returned) > MAX_LONGER * size + MIN_LONG


def compare_outputs(
    test: StdioTest | CallTest, stdout: bytes, returned: bytes, rule_set: RuleSet
) -> TestResult:
    """Verdict, strategy and message for what a program wrote that ended well."""
    rules = Rules(**{name: getattr(test, name) for name in RULE_NAMES if hasattr(test, name)})
    if isinstance(test, StdioTest):
        text = stdout.decode("utf-8", "surrogateescape")
        if isinstance(test.checker, CheckerProgram) and rule_set.name == "microcoder":
            return TestResult("AC")  # to be checked in a run of its own
        comparison = rule_set.compare_text(test.expected, text, rules, test)
    elif not returned:
        return TestResult("RE", message="ended before the function returned")
    elif test.checker is None and _far_larger(test.expected, returned):
        return TestResult("WA", message=f"{len(returned)} bytes returned, far more than expected")
    else:
        try:
            value = encoding.loads(returned)
        except ValueError:
            return TestResult("RE", message="the returned value is damaged")
        comparison = rule_set.compare_values(test.expected, value, rules, test)
    verdict: Verdict = "AC" if comparison.accepted else "WA"
    return TestResult(verdict, strategy=comparison.strategy, message=comparison.reason)


def _asserted(result: bytes) -> TestResult:
    """The verdict that the test's own process left; the submission's cannot reach that file."""
    if not result:
        return TestResult("RE", message="the test was ended before it came to a verdict")
    verdict, message = json.loads(result)
    if message.startswith("MemoryError"):
        verdict = "MLE"
    strategy = "assertions" if verdict == "AC" else None
    return TestResult(verdict, strategy=strategy, message=message)
