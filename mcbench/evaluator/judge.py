"""From a test to what the sandbox gets to know of it, and from what it reports to a verdict.

This is the trusted side: expected outputs are compared here, with what the program wrote.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator import encoding
from mcbench.evaluator.compare import MAX_LONGER, MIN_LONG, RULE_NAMES, Rules
from mcbench.evaluator.pool import Job
from mcbench.evaluator.rule_sets import RuleSet
from mcbench.evaluator.submission import (
    AssertTest,
    CallTest,
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
    strategy = None
    verdict: Verdict
    broken = _broken_limit(submission, outcome)
    if outputs is None:
        verdict, message = "OLE", "wrote more than the output limit"
    elif broken := broken or _bad_ending(outcome, outputs[1].decode("utf-8", "replace")):
        verdict, message = broken
    elif isinstance(test, AssertTest):
        verdict, strategy, message = _asserted(outputs[2])
    else:
        verdict, strategy, message = compare_outputs(test, outputs[0], outputs[2], rule_set)
    return TestResult(
        verdict=verdict,
        time_s=outcome["cpu_s"],
        wall_s=outcome["wall_s"],
        memory_mb=outcome["memory_mb"],
        strategy=strategy,
        message=message,
    )


def _broken_limit(submission: Submission, outcome: dict[str, Any]) -> tuple[Verdict, str] | None:
    stopped = outcome["stopped"]
    if stopped == "memory" or outcome["memory_mb"] > submission.memory_limit_mb:
        return "MLE", f"used more than {submission.memory_limit_mb:g} MiB"
    if stopped == "time" or outcome["cpu_s"] > submission.time_limit_s:
        return "TLE", f"used more than {submission.time_limit_s:g} s of CPU time"
    if stopped == "wall":
        return "TLE", f"did not end within {_wall_limit(submission):g} s"
    return None


def _bad_ending(outcome: dict[str, Any], stderr: str) -> tuple[Verdict, str] | None:
    status = outcome["status"]
    if status == 0:
        return None
    last_line = stderr.strip().rsplit("\n", 1)[-1][:300]
    if last_line.startswith("MemoryError"):  # the limit on address space
        return "MLE", last_line
    ended = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    return "RE", f"{ended}: {last_line}".rstrip(": ")


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
) -> tuple[Verdict, str | None, str]:
    """Verdict, strategy and message for what a program wrote that ended well."""
    rules = Rules(**{name: getattr(test, name) for name in RULE_NAMES if hasattr(test, name)})
    if isinstance(test, StdioTest):
        text = stdout.decode("utf-8", "surrogateescape")
        comparison = rule_set.compare_text(test.expected, text, rules, test)
    elif not returned:
        return "RE", None, "ended before the function returned"
    elif test.checker is None and _far_larger(test.expected, returned):
        return "WA", None, f"{len(returned)} bytes returned, far more than expected"
    else:
        try:
            value = encoding.loads(returned)
        except ValueError:
            return "RE", None, "the returned value is damaged"
        comparison = rule_set.compare_values(test.expected, value, rules, test)
    return ("AC" if comparison.accepted else "WA"), comparison.strategy, comparison.reason


def _asserted(result: bytes) -> tuple[Verdict, str | None, str]:
    """The verdict that the test's own process left; the submission's cannot reach that file."""
    if not result:
        return "RE", None, "the test was ended before it came to a verdict"
    verdict, message = json.loads(result)
    if message.startswith("MemoryError"):
        verdict = "MLE"
    return verdict, "assertions" if verdict == "AC" else None, message
