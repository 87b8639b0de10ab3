"""What programs answer to the tests of a problem, and what that says of both."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mcbench.data.audit import StageFailed
from mcbench.data.schema import Problem
from mcbench.evaluator import Evaluator, Submission
from mcbench.evaluator.compare import (
    RULE_NAMES,
    Rules,
    compare_text,
    compare_values,
    has_real_numbers,
)
from mcbench.evaluator.submission import Result, TestResult

_MAX_ANSWER = 1 << 20  # characters of an answer that are kept; no test wants more


@dataclass(frozen=True)
class Answer:
    """What a program did with one input: how it ended, and its output if it ended well.

    The value of assertions is whether they hold, that of a problem with a checker whether it
    accepts. ``right``: it is what the test wants. Of verdict IE ``lost`` says why the evaluator
    itself failed, ``fault`` what is wrong with the test.
    """

    verdict: str
    value: Any = None
    time_s: float = 0.0
    right: bool = False
    lost: str = ""
    fault: str = ""

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


def _is_judged(problem: Problem) -> bool:
    """Whether the tests say themselves if a program is right: nothing is there to compare."""
    return problem.form == "assert" or problem.runs_checker


def _asked(code: str, problem: Problem, captures: Sequence[_Capture], number: int) -> Submission:
    """A program for the evaluator; what it answers goes to ``captures``."""
    if _is_judged(problem):  # equal submissions are run once, a repetition runs again
        return problem.submission(f"{code}\n# {number}\n")
    tests = [
        {**test, "expected": "", "checker": capture}
        for test, capture in zip(problem.tests, captures, strict=True)
    ]
    return problem.submission(code, tests=tests)


def _answer(
    problem: Problem, test: dict[str, Any], end: TestResult, capture: _Capture, real: bool
) -> Answer:
    if _is_judged(problem) and end.verdict in ("AC", "WA"):
        right = end.verdict == "AC"
        return Answer("AC", right, end.time_s, right)
    if end.verdict == "AC":
        right = accepts(test, expected_of(test), capture.value, real)
        return Answer("AC", capture.value, end.time_s, right)
    if end.verdict == "IE":
        told = end.message or "no reason given"
        lost, fault = (told, "") if end.lost else ("", told)
        return Answer("IE", None, end.time_s, lost=lost, fault=fault)
    return Answer("OLE" if end.verdict == "WA" else end.verdict, None, end.time_s)


class Judge:
    """Runs programs through an `Evaluator` and keeps count.

    ``tests`` and ``seconds`` are the runs of the evaluator so far and the time spent in it.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.tests = 0
        self.seconds = 0.0

    def answers(self, programs: Sequence[tuple[str, Problem]]) -> list[list[Answer]]:
        """One answer per test of the problem of every program, in order, under its limits.

        Equal programs are run as often as they occur.

        Raises:
            StageFailed: as :meth:`results`.
        """
        captures = [[_Capture() for _ in problem.tests] for _, problem in programs]
        numbered = enumerate(zip(programs, captures, strict=True))
        asked = [_asked(*program, kept, number) for number, (program, kept) in numbered]
        results = self.results(asked)
        answers = []
        for (_, problem), result, kept in zip(programs, results, captures, strict=True):
            real = shows_reals(problem.tests)
            each = zip(problem.tests, result.tests, kept, strict=True)
            answers.append([_answer(problem, *of, real) for of in each])
        return answers

    def results(self, submissions: Sequence[Submission], early_exit: bool = False) -> list[Result]:
        """The evaluator's results; submissions on which it failed itself are run a second time.

        Raises:
            StageFailed: it failed on all of them, and by no fault of a test's.
        """
        start = time.monotonic()
        results = self.evaluator.evaluate(submissions, early_exit)
        failed = [n for n, result in enumerate(results) if _lost(result)]
        again = self.evaluator.evaluate([submissions[n] for n in failed], early_exit)
        self.seconds += time.monotonic() - start
        self.tests += sum(len(result.tests) for result in [*results, *again])
        for number, result in zip(failed, again, strict=True):
            results[number] = result
        if results and all(map(_lost, results)):
            reason = _lost(results[0])[0].message
            raise StageFailed(
                f"the evaluator failed on all of {len(results)} programs "
                f"({reason or 'no reason given'}), which says nothing about them; see mcbench "
                "doctor, then run the same command again"
            )
        return results


def _lost(result: Result) -> list[TestResult]:
    """The tests that the evaluator could not judge."""
    return [test for test in result.tests if test.lost]


def shows_reals(tests: Sequence[dict[str, Any]]) -> bool:
    """Whether a program's tests show that its answers are real numbers."""
    return any("stdin" in test and has_real_numbers(test["expected"]) for test in tests)


def expected_of(test: dict[str, Any]) -> Any:
    """What a test expects; of assertions, that they hold."""
    return True if "code" in test else test["expected"]


def accepts(test: dict[str, Any], expected: Any, value: Any, real: bool = False) -> bool:
    """Whether ``value`` answers ``expected`` under the test's own options.

    Args:
        real: some test of the problem :func:`shows_reals`, as the evaluator asks.
    """
    if "code" in test or ("stdin" in test and isinstance(value, bool)):  # judged, not compared
        return bool(value is (expected if isinstance(expected, bool) else True))
    rules = Rules(**{name: test[name] for name in RULE_NAMES if name in test})
    if "stdin" in test:
        rules = replace(rules, real=real and not rules.stated_tolerance)
        return isinstance(value, str) and compare_text(expected, value, rules).accepted
    return compare_values(expected, value, rules).accepted


@dataclass(frozen=True)
class Reference:
    """A reference and its answers: for every test those of the repetitions."""

    code: str
    answers: Sequence[Sequence[Answer]]

    @cached_property
    def passed(self) -> list[bool]:
        """For every test whether it passes it, every time."""
        return [all(answer.right for answer in column) for column in self.answers]

    def may_be_right(self) -> bool:
        """A source calls it right; one that fails most of the tests is not."""
        ends = any(column[0].ended_well for column in self.answers)
        return ends and 2 * sum(self.passed) >= len(self.answers)

    def slowest(self, kept: Sequence[int]) -> float:
        """Seconds of the slowest of some tests."""
        return max(answer.time_s for number in kept for answer in self.answers[number])

    def answers_otherwise(self, kept: Sequence[int]) -> int:
        """Tests that it does not pass, of a program that ends well on all and passes most."""
        if not all(column[0].ended_well for column in self.answers):
            return 0
        failed = sum(not self.passed[number] for number in kept)
        return failed if 2 * failed <= len(kept) else 0

    def endings(self) -> str:
        verdicts = Counter(answer.verdict for column in self.answers for answer in column)
        well = verdicts.pop("AC", 0)
        others = [f"{n} with {verdict}" for verdict, n in sorted(verdicts.items())]
        ended = ", ".join([f"{well} runs ended well", *others])
        return f"passes {sum(self.passed)} of {len(self.answers)} tests ({ended})"


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
