"""What references answered to the tests of a problem, and what that says of both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcbench.data.judge import Answer, accepts, expected_of, is_told
from mcbench.data.schema import Problem


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
        """Tests that it passes, of those whose output the source tells."""
        known = [(n, test) for n, test in enumerate(problem.tests) if is_told(test)]
        return sum(self.passes(n, test) for n, test in known), len(known)

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
        ended = ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items()))
        return f"passes {passed} of {known} tests (endings: {ended.replace('AC', 'well')})"


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


def is_json(value: Any) -> bool:
    """Whether a value is the same after JSON."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


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
