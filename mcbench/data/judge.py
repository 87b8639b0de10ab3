"""Running programs on tests without judging them, and comparing what they answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcbench.data.audit import StageFailed
from mcbench.data.schema import ProblemRecord
from mcbench.evaluator import AssertTest, CallTest, Evaluator, StdioTest, Submission
from mcbench.evaluator.compare import RULE_NAMES, Rules, compare_text, compare_values
from mcbench.evaluator.submission import Test, TestResult

_MAX_ANSWER = 1 << 20  # characters of an answer that are kept; no test wants more
_NOTHING = object()


@dataclass(frozen=True)
class Answer:
    """What a program did with one input: how it ended, and its output if it ended well.

    ``reason`` says why the evaluator itself failed (verdict IE).
    """

    verdict: str
    value: Any = None
    time_s: float = 0.0
    reason: str = ""

    @property
    def ended_well(self) -> bool:
        """Whether there is a value."""
        return self.verdict == "AC"


class _Capture:
    """A checker that accepts everything and remembers it: the evaluator returns no outputs."""

    def __init__(self) -> None:
        self.value: Any = _NOTHING

    def __call__(self, expected: Any, actual: Any) -> bool:
        if isinstance(actual, str) and len(actual) > _MAX_ANSWER:
            return False
        self.value = actual
        return True


@dataclass(frozen=True)
class Job:
    """One program and the inputs it is to answer."""

    code: str
    record: ProblemRecord
    tests: Sequence[dict[str, Any]]
    time_limit_s: float
    memory_limit_mb: float


class Judge:
    """Runs jobs through an `Evaluator` and keeps count.

    ``tests`` and ``seconds`` are the runs of the evaluator so far and the time spent in it.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.tests = 0
        self.seconds = 0.0

    def answers(self, jobs: Sequence[Job]) -> list[list[Answer]]:
        """One answer per test of every job, in order. Equal jobs are run as often as they occur.

        Jobs on which the evaluator itself failed are run a second time.

        Raises:
            StageFailed: it failed on all of them.
        """
        found = self._answers(jobs)
        failed = [number for number, answers in enumerate(found) if failure(answers)]
        if not failed:
            return found
        again = self._answers([jobs[number] for number in failed])
        for number, answers in zip(failed, again, strict=True):
            found[number] = answers
        if all(map(failure, found)):
            raise StageFailed(
                f"the evaluator failed on all of {len(jobs)} programs ({failure(found[0])}), which "
                "says nothing about them; see mcbench doctor, then run the same command again"
            )
        return found

    def _answers(self, jobs: Sequence[Job]) -> list[list[Answer]]:
        captures = [[_Capture() for _ in job.tests] for job in jobs]
        submissions = [
            Submission(
                # Equal submissions are run once, and a repetition has to run again.
                f"{job.code}\n# {number}\n" if job.record.form == "assert" else job.code,
                [_test(job.record, t, c) for t, c in zip(job.tests, kept, strict=True)],
                job.time_limit_s,
                job.memory_limit_mb,
            )
            for number, (job, kept) in enumerate(zip(jobs, captures, strict=True))
        ]
        start = time.monotonic()
        results = self.evaluator.evaluate(submissions)
        self.seconds += time.monotonic() - start
        self.tests += sum(len(job.tests) for job in jobs)
        return [
            [
                _answer(result, capture, job.record.form)
                for result, capture in zip(r.tests, kept, strict=True)
            ]
            for job, r, kept in zip(jobs, results, captures, strict=True)
        ]


def failure(answers: Sequence[Answer]) -> str:
    """Why the evaluator failed on one of the answers; empty where it did not."""
    return next((a.reason or "no reason given" for a in answers if a.verdict == "IE"), "")


def _answer(result: TestResult, capture: _Capture, form: str) -> Answer:
    if result.verdict == "IE":
        return Answer("IE", reason=result.message)
    if form == "assert":  # the test itself says whether it holds
        ended = result.verdict in ("AC", "WA")
        value = result.verdict == "AC" if ended else None
        return Answer("AC" if ended else result.verdict, value, result.time_s)
    if result.verdict == "AC":
        return Answer("AC", capture.value, result.time_s)
    return Answer("OLE" if result.verdict == "WA" else result.verdict, None, result.time_s)


def _test(record: ProblemRecord, test: dict[str, Any], capture: _Capture) -> Test:
    if record.form == "stdin":
        return StdioTest(stdin=test["stdin"], expected="", checker=capture)
    if record.form == "assert":
        return AssertTest(test["code"], test.get("entry_point"), test.get("setup", ""))
    return CallTest(
        fn_name=record.fn_name,
        args=test["args"],
        expected=None,
        result_arg=test.get("result_arg"),
        checker=capture,
    )


def expected_of(test: dict[str, Any]) -> Any:
    """What a test expects; of assertions, that they hold."""
    return True if "code" in test else test["expected"]


def is_told(test: dict[str, Any]) -> bool:
    """Whether the source tells what is expected."""
    return "code" in test or "expected" in test


def accepts(test: dict[str, Any], expected: Any, value: Any) -> bool:
    """Whether ``value`` answers ``expected`` under the test's own options.

    The value of assertions is whether they hold.
    """
    if "code" in test:
        return bool(value is expected)
    rules = Rules(**{name: test[name] for name in RULE_NAMES if name in test})
    if "stdin" in test:
        return isinstance(value, str) and compare_text(expected, value, rules).accepted
    return compare_values(expected, value, rules).accepted
