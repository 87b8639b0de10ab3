"""Verify: do reference solutions, tests and statement agree, and do the tests notice mistakes?

Everything runs in the evaluator's sandbox. First the references answer every test, several times;
tests on which they fail, disagree, vary or are too slow go, and outputs that are missing come from
references that agree. Then what an empty, a constant and an echoing program would answer is
compared (nothing has to be run for that). At last mutants of a reference show how much the tests
notice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from mcbench.data.audit import Ledger
from mcbench.data.judge import Answer, Job, Judge, accepts, expected_of, failure, is_told
from mcbench.data.mutants import mutants
from mcbench.data.pipeline import Outcome, Stage
from mcbench.data.schema import ProblemRecord
from mcbench.errors import UserError, unknown

_WITHOUT_REFERENCE = ("drop", "flag")
_SLOW = ("TLE", "MLE", "OLE")
_MIN_MUTANTS = 3


@dataclass(frozen=True)
class VerifyConfig:
    """What a verified problem has to pass.

    Args:
        references: solutions that are run, at most.
        repeats: runs of each on every test; answers that vary are flaky.
        min_agreement: share of the references that must give a test's output.
        min_agreeing: references that must agree on an output that the source does not tell.
        min_tests: left at the end.
        max_dropped: a problem that loses a larger share of its tests is dropped as a whole.
        max_trivial: share of tests that a constant or echoing program may pass unflagged; one that
            passes all has the problem dropped.
        mutants: of a reference, at most; 0: none are made.
        mutation_tests: tests that they are run on, at most.
        min_strength: share of mutants that must be noticed (of at least three). A mutant that
            computes the same is never noticed, so 1 is out of reach.
        min_telling: tests that must notice a mutant which no test before them did.
        max_tests: kept, those that notice mutants first; None: all.
        without_reference: drop or flag a problem without a reference solution.
        time_limit_s, memory_limit_mb: where the problem states none.

    Raises:
        UserError: a value out of range.
    """

    references: int = 3
    repeats: int = 2
    min_agreement: float = 0.5
    min_agreeing: int = 2
    min_tests: int = 3
    max_dropped: float = 0.5
    max_trivial: float = 0.8
    mutants: int = 12
    mutation_tests: int = 20
    min_strength: float = 0.4
    min_telling: int = 1
    max_tests: int | None = None
    without_reference: str = "drop"
    time_limit_s: float = 4.0
    memory_limit_mb: float = 512

    def __post_init__(self) -> None:
        for name in ("references", "repeats", "min_agreeing", "min_tests", "mutation_tests"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1")
        for name in ("min_agreement", "max_dropped", "max_trivial", "min_strength"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} must lie between 0 and 1")
        if self.mutants < 0 or self.time_limit_s <= 0 or self.memory_limit_mb <= 0:
            raise UserError("mutants must not be negative, limits must be positive")
        if self.max_tests is not None and self.max_tests < self.min_tests:
            raise UserError("max_tests must be at least min_tests")
        if self.without_reference not in _WITHOUT_REFERENCE:
            raise unknown("without_reference", self.without_reference, _WITHOUT_REFERENCE)


@dataclass(frozen=True)
class Verify(Stage):
    """The stage; it runs in the calling process, and the sandboxes beside it."""

    judge: Judge = field(repr=False)
    config: VerifyConfig = VerifyConfig()

    name: ClassVar[str] = "verify"
    modules: ClassVar[tuple[str, ...]] = tuple(
        [f"mcbench.data.{name}" for name in ("verify", "judge", "mutants")]
        + [f"mcbench.evaluator.{name}" for name in ("compare", "evaluator", "child", "encoding")]
    )
    in_workers: ClassVar[bool] = False
    batch_rows: ClassVar[int | None] = 64

    def configuration(self) -> Any:
        """The judge is a means, not a setting."""
        return asdict(self.config)

    def run(self, batch: list[ProblemRecord]) -> Outcome:
        """References, then mutants; each in one call of the evaluator for the whole batch."""
        ledger = Ledger(self.name)
        ready: list[ProblemRecord] = []
        others: list[ProblemRecord] = []
        for record in batch:
            checked = self._runnable(record, ledger)
            if checked is not None:
                (ready if _can_run(checked) else others).append(checked)
        agreed = self._references(ready, ledger)
        strong = self._mutants(agreed, ledger)
        done = {record.id: record for record in [*strong, *others]}
        return [done[record.id] for record in batch if record.id in done], ledger.entries

    def _runnable(self, record: ProblemRecord, ledger: Ledger) -> ProblemRecord | None:
        if record.checker:
            return ledger.flag(record, "unverified", "a foreign checker judges the answers")
        if not record.tests:
            return ledger.drop(record, "too_few_tests", "no tests")
        if record.references:
            return record
        if self.config.without_reference == "drop":
            return ledger.drop(record, "no_reference", "no reference solution")
        return ledger.flag(record, "unverified", "no reference solution")

    def _limits(self, record: ProblemRecord) -> tuple[float, float]:
        return (
            record.time_limit_s or self.config.time_limit_s,
            record.memory_limit_mb or self.config.memory_limit_mb,
        )

    # References ----------------------------------------------------------------------------------

    def _references(
        self, records: Sequence[ProblemRecord], ledger: Ledger
    ) -> list[tuple[ProblemRecord, float]]:
        """Records whose tests their references pass, with the slowest time of the first one."""
        jobs = [
            Job(code, record, record.tests, *self._limits(record))
            for record in records
            for code in record.references[: self.config.references]
            for _ in range(self.config.repeats)
        ]
        answers = iter(self.judge.answers(jobs))
        kept = []
        for record in records:
            runs = [
                [next(answers) for _ in range(self.config.repeats)]
                for _ in record.references[: self.config.references]
            ]
            if reason := next(filter(None, (failure(row) for r in runs for row in r)), ""):
                ledger.drop(record, "not_judged", f"the evaluator itself failed twice: {reason}")
                continue
            checked = self._agree(record, [_Reference(record, r) for r in runs], ledger)
            if checked is not None:
                kept.append((checked, max((a.time_s for a in runs[0][0]), default=0.0)))
        return kept

    def _agree(
        self, record: ProblemRecord, references: list[_Reference], ledger: Ledger
    ) -> ProblemRecord | None:
        good = [reference for reference in references if reference.right]
        if not good:
            return ledger.drop(record, "wrong_reference", _endings(references))
        tests: list[dict[str, Any]] = []
        numbers: list[int] = []
        reasons: Counter[str] = Counter()
        for number, test in enumerate(record.tests):
            checked, reason = self._test(test, [(r.column(number), r) for r in good], number)
            if checked is None:
                reasons[reason] += 1
            else:
                tests.append(checked)
                numbers.append(number)
        told = ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items()))
        if sum(reasons.values()) > self.config.max_dropped * len(record.tests):
            return ledger.drop(record, "unreliable", f"tests dropped: {told}")
        if len(tests) < self.config.min_tests:
            return ledger.drop(record, "too_few_tests", f"{len(tests)} left; dropped: {told}")
        full = [
            code
            for code, reference in zip(record.references, references, strict=False)
            if all(reference.passes(n, t) for n, t in zip(numbers, tests, strict=True))
        ]
        if not full:
            return ledger.drop(record, "wrong_reference", "none passes all tests that are left")
        if told:
            record = ledger.change(record, "tests", f"dropped {told}", tests=tuple(tests))
        return self._note(record, tests, full, len(references), ledger)

    def _note(
        self,
        record: ProblemRecord,
        tests: list[dict[str, Any]],
        full: list[str],
        run: int,
        ledger: Ledger,
    ) -> ProblemRecord | None:
        """Write down generated outputs and wrong references; then look for trivial programs."""
        unknown_before = sum(not is_told(test) for test in record.tests)
        if unknown_before:
            detail = f"{unknown_before} outputs from references that agree"
            record = ledger.change(record, "outputs", detail, tests=tuple(tests))
        if len(full) < run:
            detail = f"{run - len(full)} of {run} fail a test"
            left = (*full, *record.references[run:])
            record = ledger.change(record, "references", detail, references=left)
        name, share = most_trivial(record)
        if share == 1:
            return ledger.drop(record, "trivial", f"{name} passes every test")
        if share > self.config.max_trivial:
            return ledger.flag(record, "nearly_trivial", f"{name} passes {share:.0%} of the tests")
        return record

    def _test(
        self, test: dict[str, Any], runs: list[tuple[list[Answer], _Reference]], number: int
    ) -> tuple[dict[str, Any] | None, str]:
        """The test, complete; or None and why it cannot be used."""
        answers = [column for column, _ in runs]
        if all(any(a.verdict in _SLOW for a in column) for column in answers):
            return None, "too slow"
        if any(_varies(test, column) for column in answers):
            return None, "flaky"
        values = [column[0].value for column in answers if column[0].ended_well]
        if not values:
            return None, "no reference answers"
        if not is_told(test):
            if reason := self._cannot_tell(test, values):
                return None, reason
            test = {**test, "expected": values[0]}
        passing = sum(reference.passes(number, test) for _, reference in runs)
        if not passing:
            return None, "no reference passes"
        if passing < self.config.min_agreement * len(runs):
            return None, "references disagree"
        if accepts(test, expected_of(test), "" if "stdin" in test else None):
            return None, "an empty program passes"
        return test, ""

    def _cannot_tell(self, test: dict[str, Any], values: list[Any]) -> str:
        """Why the output of a test cannot be taken from the references; empty if it can."""
        if not all(accepts(test, values[0], value) for value in values[1:]):
            return "references disagree"
        if len(values) < self.config.min_agreeing:
            return "too few references to tell the output"
        return "" if _is_json(values[0]) else "the output is no JSON"

    # Mutants -------------------------------------------------------------------------------------

    def _mutants(
        self, records: Sequence[tuple[ProblemRecord, float]], ledger: Ledger
    ) -> list[ProblemRecord]:
        """Test by test over all records at once: what an earlier test noticed is not run again."""
        alive = [
            dict.fromkeys(mutants(record.references[0], self.config.mutants))
            for record, _ in records
        ]
        made = [len(programs) for programs in alive]
        telling: list[list[int]] = [[] for _ in records]
        for number in range(self.config.mutation_tests):
            jobs = [
                job
                for (record, slowest), programs in zip(records, alive, strict=True)
                if number < len(record.tests)
                for job in self._mutant_jobs(record, slowest, programs, number)
            ]
            if not jobs:
                break
            places = {record.id: place for place, (record, _) in enumerate(records)}
            for job, (answer,) in zip(jobs, self.judge.answers(jobs), strict=True):
                test, place = job.tests[0], places[job.record.id]
                if not (answer.ended_well and accepts(test, expected_of(test), answer.value)):
                    del alive[place][job.code]
                    if number not in telling[place]:
                        telling[place].append(number)
        checked = (
            self._strength(record, count, count - len(left), tests, ledger)
            for (record, _), count, left, tests in zip(records, made, alive, telling, strict=True)
        )
        return [record for record in checked if record is not None]

    def _mutant_jobs(
        self, record: ProblemRecord, slowest: float, programs: Iterable[str], number: int
    ) -> list[Job]:
        limit, memory = self._limits(record)
        limit = min(limit, 0.5 + 5 * slowest)  # most endless loops are mutants
        tests = record.tests[number : number + 1]
        return [Job(code, record, tests, limit, memory) for code in programs]

    def _strength(
        self,
        record: ProblemRecord,
        made: int,
        noticed: int,
        telling: list[int],
        ledger: Ledger,
    ) -> ProblemRecord | None:
        """Store the share of noticed mutants; ``telling`` are the tests that noticed one first."""
        if made < _MIN_MUTANTS:
            if self.config.mutants:
                record = ledger.flag(record, "no_mutants", f"only {made} mutants")
            return self._cut(record, telling, ledger)
        strength = round(noticed / made, 6)
        detail = f"{strength:.0%} of {made} mutants are noticed, by {len(telling)} tests"
        if strength < self.config.min_strength or len(telling) < self.config.min_telling:
            return ledger.drop(record, "weak_tests", detail)
        record = ledger.change(record, "strength", detail, test_strength=strength)
        return self._cut(record, telling, ledger)

    def _cut(self, record: ProblemRecord, first: list[int], ledger: Ledger) -> ProblemRecord:
        limit = self.config.max_tests
        if limit is None or len(record.tests) <= limit:
            return record
        others = [n for n in range(len(record.tests)) if n not in first]
        chosen = sorted([*first, *others][:limit])
        tests = tuple(record.tests[n] for n in chosen)
        return ledger.change(
            record, "max_tests", f"kept {limit} of {len(record.tests)}", tests=tests
        )


def _can_run(record: ProblemRecord) -> bool:
    return "unverified" not in record.flags


class _Reference:
    """The answers of one reference: one row per repetition, one column per test."""

    def __init__(self, record: ProblemRecord, rows: list[list[Answer]]) -> None:
        self.rows = rows
        known = [n for n, test in enumerate(record.tests) if is_told(test)]
        passed = sum(self.passes(n, record.tests[n]) for n in known)
        ended = sum(answer.ended_well for answer in rows[0])
        # A source calls it right; one that fails most of the tests is not.
        self.right = 2 * passed >= len(known) if known else ended > 0
        self.right = self.right and ended > 0
        self.summary = f"passes {passed} of {len(known)} tests"

    def column(self, number: int) -> list[Answer]:
        return [row[number] for row in self.rows]

    def passes(self, number: int, test: dict[str, Any]) -> bool:
        return all(
            answer.ended_well and accepts(test, expected_of(test), answer.value)
            for answer in self.column(number)
        )


def _endings(references: list[_Reference]) -> str:
    verdicts = Counter(answer.verdict for r in references for row in r.rows for answer in row)
    ended = ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items()))
    return f"{references[0].summary} (endings: {ended.replace('AC', 'well')})"


def _varies(test: dict[str, Any], answers: list[Answer]) -> bool:
    first = answers[0]
    return any(
        answer.ended_well != first.ended_well
        or (answer.ended_well and not accepts(test, first.value, answer.value))
        for answer in answers[1:]
    )


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def most_trivial(record: ProblemRecord) -> tuple[str, float]:
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
