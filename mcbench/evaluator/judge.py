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
import weakref
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator import compare, encoding, leetcode, portable
from mcbench.evaluator.checking import check_job, checked, run_checker
from mcbench.evaluator.compare import (
    MAX_LONGER,
    MIN_LONG,
    RULE_NAMES,
    Comparison,
    Rules,
    has_real_numbers,
)
from mcbench.evaluator.link import ENDED_EARLY
from mcbench.evaluator.pool import COMPARING, Job, Outputs, size_of, write_all
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


def job_for(
    key: tuple[int, int], submission: Submission, output_bytes: int, flavour: str = "plain"
) -> Job:
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
    return Job(key, request, program.encode("utf-8", "surrogatepass"), data, flavour)


def judge(
    submission: Submission, job: Job, outcome: dict[str, Any], rule_set: RuleSet
) -> TestResult | Job:
    """The verdict on a raw outcome (limits first, then how it ended, then what it answered), or the
    further job that is to find it.
    """
    test, outputs = submission.tests[job.key[1]], job.outputs()
    if job.stage.startswith("check"):
        assert isinstance(test, StdioTest)
        return checked(job, outcome, test)
    if job.stage != "run":
        assert not isinstance(test, AssertTest)
        return _compared(test, job, outcome, rule_set)
    used = outcome["cpu_s"], outcome["wall_s"], outcome["memory_mb"]
    ran = TestResult("AC", *used)
    if outputs.largest > job.request["output_bytes"]:
        return replace(ran, verdict="OLE", message="wrote more than the output limit")
    broken = _broken_limit(submission, outcome) or _bad_ending(outcome, outputs, submission.code)
    if broken or isinstance(test, AssertTest):
        result = broken or _asserted(outputs, submission.code)
        return replace(
            ran, verdict=result.verdict, strategy=result.strategy, message=result.message
        )
    written = outputs.stdout if isinstance(test, StdioTest) else outputs.result
    return _answered(submission, test, job, ran, written, rule_set)


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


# What a program wrote, and may have forged --------------------------------------------------------

_SMALL = 16 << 10  # bytes that are compared here
_FEW = 500  # brackets in them, and so levels
# Of a process that compares, beside what it has for each MiB of the expected answer.
_CPU_S, _DECODING_S, _CPU_S_PER_MIB = 2.0, 0.5, 4.0
_MEMORY, _MEMORY_PER_BYTE = 512 << 20, 64
_FOR_FUNCTIONS = 2 << 20  # bytes that a checker is asked about, beside a multiple of the test's own


def _answered(
    submission: Submission,
    test: StdioTest | CallTest,
    job: Job,
    ran: TestResult,
    written: int,
    rule_set: RuleSet,
) -> TestResult | Job:
    """The verdict on what a program that ended well wrote into a file, or who is to find it."""
    size = size_of(written)
    if isinstance(test, CallTest) and not size:
        return replace(ran, verdict="RE", message="ended before the function returned")
    theirs = rule_set.name != "microcoder" or test.checker is not None
    if size > _most_bytes(test, theirs):
        return replace(ran, verdict="WA", message=f"{size} bytes, far more than an answer has")
    if isinstance(test.checker, CheckerProgram) and rule_set.name == "microcoder":
        assert isinstance(test, StdioTest)
        return check_job(job, test, ran)
    if theirs:
        if isinstance(test, StdioTest) or _is_plain(written, size):
            return _by_function(test, ran, written, rule_set)
        return _comparison_job(test, job, ran, written, [])
    tried = [rules_of(test, real) for real in (False, True)[: 1 + _is_real(submission, test)]]
    comparison = _compared_here(test, written, size, tried)
    if comparison is None:
        return _comparison_job(test, job, ran, written, tried)
    return result_of(test, ran, written, comparison)


def _most_bytes(test: StdioTest | CallTest, theirs: bool) -> float:
    """Bytes that an answer can have: what is printed; what is shown to a checker."""
    if isinstance(test, StdioTest):
        expected = len(test.expected.encode("utf-8", "surrogatepass"))
        if theirs or test.keep_output:
            return MAX_LONGER * (expected + len(test.stdin)) + _FOR_FUNCTIONS
        return MAX_LONGER * expected + MIN_LONG
    if not theirs:
        return math.inf
    return MAX_LONGER * len(_encoded([test.expected, list(test.args)]) or b"") + _FOR_FUNCTIONS


def _encoded(value: Any) -> bytes | None:
    """As a program would have returned it; None if none can."""
    try:
        return encoding.dumps(value, items_of=leetcode.items_of)
    except (TypeError, ValueError):
        return None


def rules_of(test: StdioTest | CallTest, real: bool = False) -> Rules:
    """The options of a test that a comparison knows."""
    options = {name: getattr(test, name) for name in RULE_NAMES if hasattr(test, name)}
    return Rules(**options, real=real)


def _is_real(submission: Submission, test: StdioTest | CallTest) -> bool:
    """Whether it is another test that shows that the problem's answers are real numbers."""
    if not isinstance(test, StdioTest) or test.keep_output:
        return False
    others = (other.expected for other in submission.tests if isinstance(other, StdioTest))
    return not has_real_numbers(test.expected) and any(map(has_real_numbers, others))


def _compared_here(
    test: StdioTest | CallTest, written: int, size: int, tried: list[Rules]
) -> Comparison | None:
    """Of what equals the expected answer, or is small and plain; None where it is neither."""
    is_text = isinstance(test, StdioTest)
    own = _as_written(test)
    if own is None:
        return Comparison(None, "no function can return the expected value")
    if size == len(own) and os.pread(written, size, 0) == own:
        return Comparison("exact")
    if tried[0].any_order or not (_is_plain(written, size) if not is_text else size <= _SMALL):
        return None
    data = os.pread(written, size, 0)
    for rules in tried:
        comparison = compare.compare_written(data, test.expected, rules, is_text)
        if comparison.accepted:
            break
    return comparison


def _as_written(test: StdioTest | CallTest) -> bytes | None:
    """The expected answer as a program would have written it."""
    if isinstance(test, StdioTest):
        return test.expected.encode("utf-8", "surrogatepass")
    return _encoded(test.expected)


def _is_plain(written: int, size: int) -> bool:
    """Whether a value is so small and simple that it can be decoded here, whatever it is."""
    if size > _SMALL:
        return False
    data = os.pread(written, size, 0)
    try:
        if data.count(b"[") <= _FEW:
            encoding.loads(data, plain=True)
            return True
    except ValueError:
        pass
    return False


def result_of(
    test: StdioTest | CallTest, ran: TestResult, written: int | bytes, comparison: Comparison
) -> TestResult:
    """The result of a program that ran so, with what was found about what it wrote."""
    verdict: Verdict = "AC" if comparison.accepted else "IE" if comparison.fault else "WA"
    output = None
    if isinstance(test, StdioTest) and test.keep_output:
        data = written if isinstance(written, bytes) else os.pread(written, size_of(written), 0)
        output = compare.as_text(data)
    return replace(
        ran,
        verdict=verdict,
        strategy=comparison.strategy,
        message=comparison.reason,
        output=output,
    )


def _by_function(
    test: StdioTest | CallTest, ran: TestResult, written: int, rule_set: RuleSet
) -> TestResult:
    """By the checker, or by another evaluator's rules: in this process."""
    data = os.pread(written, size_of(written), 0)
    is_text = isinstance(test, StdioTest)
    try:
        value: Any = compare.as_text(data) if is_text else encoding.loads(data)
    except ValueError:
        return replace(ran, verdict="WA", message=compare.DAMAGED)
    if rule_set.name == "microcoder":
        assert callable(test.checker)
        comparison = run_checker(test.checker, test.expected, value, test)
    else:
        comparison = rule_set.compare(test.expected, value, is_text)
    return result_of(test, ran, written, comparison)


# By a further job --------------------------------------------------------------------------------


def _comparison_job(
    test: StdioTest | CallTest, job: Job, ran: TestResult, written: int, tried: list[Rules]
) -> Job:
    """Compare in a process of its own, which gets the file as it is; without rules, decode it."""
    asked = json.dumps([isinstance(test, StdioTest), [asdict(rules) for rules in tried]])
    data = asked.encode() + b"\n" + ((_as_written(test) or b"") if tried else b"")
    cpu_s = (_CPU_S if tried else _DECODING_S) + _CPU_S_PER_MIB * len(data) / 2**20
    request = {
        "kind": "compare",
        "cpu_s": cpu_s,
        "wall_s": 2 * cpu_s + 1,
        "memory_bytes": _MEMORY + _MEMORY_PER_BYTE * len(data),
        "output_bytes": job.request["output_bytes"],
    }
    stage = "compare" if tried else "decode"
    return _with_file(os.dup(written), job.key, request, data, stage, ran)


def _with_file(
    written: int, key: tuple[int, int], request: dict[str, Any], data: bytes, stage: str,
    ran: TestResult,
) -> Job:  # fmt: skip
    """A job that compares, and has the file as long as it is there."""
    job = Job(key, request, b"", data, COMPARING, stage, ran, written)
    weakref.finalize(job, os.close, written)
    return job


def _compared(
    test: StdioTest | CallTest, job: Job, outcome: dict[str, Any], rule_set: RuleSet
) -> TestResult | Job:
    """The verdict by such a job. One that fails is run again, on the expected answer itself: if it
    fails there too, that is the problem's fault, IE; else the answer was made to take too much.
    """
    assert job.ran is not None
    written = job.outputs().result
    if outcome["status"] == 0 and not outcome["stopped"] and size_of(written):
        if job.stage == "compare again":
            return job.ran
        if job.stage == "decode":
            return _by_function(test, job.ran, job.written, rule_set)
        strategy, reason = json.loads(os.pread(written, size_of(written), 0))
        return result_of(test, job.ran, job.written, Comparison(strategy, reason))
    error = job.outputs().last_line() or f"it takes too much {outcome['stopped'] or 'memory'}"
    failed = replace(job.ran, verdict="WA", message=f"the answer cannot be compared: {error}")
    if job.stage == "decode":
        return failed
    if job.stage == "compare again":
        return replace(failed, verdict="IE", message=f"of the expected one, too, {failed.message}")
    expected = portable.memory_file("expected")
    write_all(expected, _as_written(test) or b"")
    return _with_file(expected, job.key, job.request, job.data, "compare again", failed)


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
