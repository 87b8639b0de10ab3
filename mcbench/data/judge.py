"""What programs answer to the tests of a problem, and what that says of both."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcbench.data.audit import StageFailed
from mcbench.data.schema import Problem
from mcbench.evaluator import Evaluator, Submission
from mcbench.evaluator.compare import RULE_NAMES, Rules, compare_text, compare_values
from mcbench.evaluator.submission import Result, TestResult

_MAX_ANSWER = 1 << 20  # characters of an answer that are kept; no test wants more


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
    """One program and the problem whose tests it is to answer, under the problem's limits."""

    code: str
    problem: Problem

    def submission(self, number: int, captures: Sequence[_Capture]) -> Submission:
        """The job for the evaluator; what the program answers goes to ``captures``."""
        code, tests = self.code, self.problem.tests
        if _is_judged(self.problem):  # equal submissions are run once, a repetition runs again
            code = f"{code}\n# {number}\n"
        else:
            tests = tuple(
                {**test, "expected": "", "checker": capture}
                for test, capture in zip(tests, captures, strict=True)
            )
        return self.problem.submission(code, tests=tests)


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
        captures = [[_Capture() for _ in job.problem.tests] for job in jobs]
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


def accepts(test: dict[str, Any], expected: Any, value: Any) -> bool:
    """Whether ``value`` answers ``expected`` under the test's own options."""
    if "code" in test or ("stdin" in test and isinstance(value, bool)):  # judged, not compared
        return bool(value is (expected if isinstance(expected, bool) else True))
    rules = Rules(**{name: test[name] for name in RULE_NAMES if name in test})
    if "stdin" in test:
        return isinstance(value, str) and compare_text(expected, value, rules).accepted
    return compare_values(expected, value, rules).accepted


def holds(test: dict[str, Any], answer: Answer) -> bool:
    """Whether an answer is what the test wants."""
    return answer.ended_well and accepts(test, expected_of(test), answer.value)


@dataclass(frozen=True)
class Reference:
    """A reference and its answers: for every test those of the repetitions."""

    code: str
    answers: Sequence[Sequence[Answer]]

    def passes(self, number: int, test: dict[str, Any]) -> bool:
        return all(holds(test, answer) for answer in self.answers[number])

    def _passed(self, problem: Problem) -> tuple[int, int]:
        """Tests that it passes, and how many there are."""
        return sum(map(self.passes, range(len(problem.tests)), problem.tests)), len(problem.tests)

    def may_be_right(self, problem: Problem) -> bool:
        """A source calls it right; one that fails most of the tests is not."""
        passed, known = self._passed(problem)
        return 2 * passed >= known and any(column[0].ended_well for column in self.answers)

    def slowest(self) -> float:
        """Seconds of its slowest test."""
        return max(answer.time_s for column in self.answers for answer in column)

    def answers_otherwise(self, kept: dict[int, dict[str, Any]]) -> int:
        """Tests that it does not pass, of a program that ends well on all and passes most."""
        if not all(column[0].ended_well for column in self.answers):
            return 0
        failed = sum(not self.passes(number, test) for number, test in kept.items())
        return failed if 2 * failed <= len(kept) else 0

    def endings(self, problem: Problem) -> str:
        passed, known = self._passed(problem)
        verdicts = Counter(answer.verdict for column in self.answers for answer in column)
        well = verdicts.pop("AC", 0)
        others = [f"{n} with {verdict}" for verdict, n in sorted(verdicts.items())]
        ended = ", ".join([f"{well} runs ended well", *others])
        return f"passes {passed} of {known} tests ({ended})"


def disagreement(references: Sequence[Reference], kept: dict[int, dict[str, Any]]) -> str:
    """Says so where a reference that ends well everywhere answers some tests otherwise."""
    if any("code" in test for test in kept.values()):
        return ""
    other = max((reference.answers_otherwise(kept) for reference in references), default=0)
    return f"a reference gives other answers to {other} of {len(kept)} tests" if other else ""


def varies(test: dict[str, Any], answers: Sequence[Answer]) -> bool:
    """Whether one program answered a test in several ways."""
    first = answers[0]
    return any(
        answer.ended_well != first.ended_well
        or (answer.ended_well and not accepts(test, first.value, answer.value))
        for answer in answers[1:]
    )


def most_trivial(record: Problem) -> tuple[str, float]:
    """The trivial program that passes most tests, and the share that it passes.

    Candidates: one that answers always the same (the most frequent answer), one that answers its
    input (its first argument), and, for ``stdin``, its last line. Assertions are not looked into.
    """
    tests = record.tests
    if record.form == "assert":
        return "none", 0.0
    keys = Counter(json.dumps(expected_of(test), sort_keys=True) for test in tests)
    constant = json.loads(keys.most_common(1)[0][0])
    candidates = {f"a constant program ({str(constant).strip()[:40]!r})": [constant] * len(tests)}
    if record.form == "stdin":
        candidates["an echo program"] = [test["stdin"] for test in tests]
        candidates["an echo of the last line"] = [
            (test["stdin"].strip().rsplit("\n", 1))[-1] for test in tests
        ]
    else:
        candidates["an echo program"] = [next(iter(test["args"]), None) for test in tests]
    shares = {
        name: sum(accepts(t, expected_of(t), v) for t, v in zip(tests, values, strict=True))
        / len(tests)
        for name, values in candidates.items()
    }
    name = max(shares, key=lambda candidate: shares[candidate])
    return name, shares[name]
