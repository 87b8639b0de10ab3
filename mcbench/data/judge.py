"""Judging programs for a problem, and running programs on its tests without judging them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcbench.data.audit import StageFailed
from mcbench.data.schema import Problem
from mcbench.evaluator import Evaluator, Submission
from mcbench.evaluator.compare import RULE_NAMES, Rules, compare_text, compare_values
from mcbench.evaluator.submission import Result, TestResult, make_test

_MAX_ANSWER = 1 << 20  # characters of an answer that are kept; no test wants more


def submission(
    problem: Problem, code: str, time_limit_s: float = 2.0, memory_limit_mb: float = 512
) -> Submission:
    """A program with all tests of a problem; the limits are for problems that set none."""
    limits = problem.time_limit_s or time_limit_s, problem.memory_limit_mb or memory_limit_mb
    return _submission(problem, code, problem.tests, *limits)


def _submission(
    problem: Problem, code: str, tests: Sequence[dict[str, Any]], *limits: float
) -> Submission:
    about = problem.form, problem.fn_name
    checker = problem.checker, problem.checker_protocol
    made = [make_test(*about, test, *checker) for test in tests]
    return Submission(f"{problem.preamble}\n{code}" if problem.preamble else code, made, *limits)


@dataclass(frozen=True)
class Answer:
    """What a program did with one input: how it ended, and its output if it ended well.

    The value of assertions is whether they hold, that of a problem with a checker whether it
    accepts. ``reason`` says why the evaluator itself failed
    (verdict IE).
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

    value: Any = None

    def __call__(self, expected: Any, actual: Any) -> bool:
        if isinstance(actual, str) and len(actual) > _MAX_ANSWER:
            return False
        self.value = actual
        return True

    def answer(self, result: TestResult, problem: Problem) -> Answer:
        if result.verdict == "IE":
            return Answer("IE", reason=result.message)
        if _is_judged(problem) and result.verdict in ("AC", "WA"):
            return Answer("AC", result.verdict == "AC", result.time_s)
        if result.verdict == "AC":
            return Answer("AC", self.value, result.time_s)
        return Answer("OLE" if result.verdict == "WA" else result.verdict, None, result.time_s)


@dataclass(frozen=True)
class Job:
    """One program and the inputs it is to answer."""

    code: str
    problem: Problem
    tests: Sequence[dict[str, Any]]
    time_limit_s: float
    memory_limit_mb: float

    def submission(self, number: int, captures: Sequence[_Capture]) -> Submission:
        """The job for the evaluator; what the program answers goes to ``captures``."""
        code, tests = self.code, self.tests
        if _is_judged(self.problem):  # equal submissions are run once, a repetition runs again
            code = f"{code}\n# {number}\n"
        else:
            tests = [
                {**test, "expected": "", "checker": capture}
                for test, capture in zip(tests, captures, strict=True)
            ]
        limits = self.time_limit_s, self.memory_limit_mb
        return _submission(self.problem, code, tests, *limits)


def _is_judged(problem: Problem) -> bool:
    """Whether the tests say themselves if a program is right: nothing is there to compare."""
    return problem.form == "assert" or problem.runs_checker


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
        captures = [[_Capture() for _ in job.tests] for job in jobs]
        numbered = enumerate(zip(jobs, captures, strict=True))
        results = self._judged([job.submission(number, kept) for number, (job, kept) in numbered])
        found = [
            [
                capture.answer(one, job.problem)
                for one, capture in zip(result.tests, kept, strict=True)
            ]
            for job, result, kept in zip(jobs, results, captures, strict=True)
        ]
        if jobs and all(map(failure, found)):
            raise StageFailed(
                f"the evaluator failed on all of {len(jobs)} programs ({failure(found[0])}), which "
                "says nothing about them; see mcbench doctor, then run the same command again"
            )
        return found

    def endings(self, submissions: Sequence[Submission]) -> list[TestResult | None]:
        """The test at which each submission fails, as a reward judges it; None where it passes.

        Submissions on which the evaluator itself failed are run a second time.
        """
        results = self._judged(submissions, early_exit=True)
        return [None if result.passed else result.tests[-1] for result in results]

    def _judged(self, submissions: Sequence[Submission], early_exit: bool = False) -> list[Result]:
        start = time.monotonic()
        results = self.evaluator.evaluate(submissions, early_exit)
        failed = [n for n, result in enumerate(results) if "IE" in result.verdicts]
        again = self.evaluator.evaluate([submissions[n] for n in failed], early_exit)
        self.seconds += time.monotonic() - start
        self.tests += sum(len(result.tests) for result in [*results, *again])
        for number, result in zip(failed, again, strict=True):
            results[number] = result
        return results


def failure(answers: Sequence[Answer]) -> str:
    """Why the evaluator failed on one of the answers; empty where it did not."""
    return next((a.reason or "no reason given" for a in answers if a.verdict == "IE"), "")


def expected_of(test: dict[str, Any]) -> Any:
    """What a test expects; of assertions, that they hold."""
    return True if "code" in test else test["expected"]


def is_told(test: dict[str, Any]) -> bool:
    """Whether the source tells what is expected."""
    return "code" in test or "expected" in test


def accepts(test: dict[str, Any], expected: Any, value: Any) -> bool:
    """Whether ``value`` answers ``expected`` under the test's own options."""
    if "code" in test or ("stdin" in test and isinstance(value, bool)):  # judged, not compared
        return bool(value is (expected if isinstance(expected, bool) else True))
    rules = Rules(**{name: test[name] for name in RULE_NAMES if name in test})
    if "stdin" in test:
        return isinstance(value, str) and compare_text(expected, value, rules).accepted
    return compare_values(expected, value, rules).accepted
