"""Verify: do reference solutions, tests and statement agree, and do the tests notice mistakes?

Everything runs in the evaluator's sandbox. First the references answer every test, several times;
tests on which they fail, disagree, vary or are too slow go. Then what an empty, a constant and an
echoing program would answer is compared (nothing has to be run for that). At last mutants of a
reference show how much the tests notice.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from mcbench.data.audit import Ledger
from mcbench.data.judge import Judge, Reference, accepts, expected_of, most_trivial, varies
from mcbench.data.mutants import mutants
from mcbench.data.pipeline import BatchStage, Outcome
from mcbench.data.programs import cases, installed, is_python, missing_module
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator.submission import Result
from mcbench.settings import Settings, Share

_SLOW = ("TLE", "MLE", "OLE")
_NEXT = ("wrong_reference", "unreliable", "too_few_tests")  # other references may do better
_ROOM = 2.0  # of a reference's slowest run, in the problem's time limit
_MIN_MUTANTS, _MUTATION_TESTS = 3, 20  # that tell the strength, and that mutants are run on
_AGREEING = 0.5  # share of the references that must give a test's output
_DROPPED = 0.5  # a problem that loses a larger share of its tests is dropped as a whole
# Share of tests that a constant or echoing program may pass unflagged; one that passes all has the
# problem dropped.
_TRIVIAL = 0.8


class VerifyConfig(Settings):
    """What a verified problem has to pass.

    Args:
        references: solutions that are run at once; where none of them passes, the next.
        repeats: runs of each on every test; answers that vary are flaky.
        min_tests: left at the end.
        mutants: of a reference, at most; 0: none are made.
        min_strength: share of mutants that must be noticed (of at least three). A mutant that
            computes the same is never noticed, so 1 is out of reach.
        special_judges: flag or drop a problem of which references that are right give different
            answers: several answers are right, and no checker knows.
        without_reference: drop or flag a problem without a reference solution.
        time_limit_s, memory_limit_mb: where neither the problem nor its source states one.

    Raises:
        UserError: a value out of range.
    """

    references: PositiveInt = 3
    repeats: PositiveInt = 2
    min_tests: PositiveInt = 3
    mutants: NonNegativeInt = 12
    min_strength: Share = 0.4
    special_judges: Literal["flag", "drop"] = "flag"
    without_reference: Literal["drop", "flag"] = "drop"
    time_limit_s: PositiveFloat = 4.0
    memory_limit_mb: PositiveFloat = 512


@dataclass(frozen=True)
class Verify(BatchStage):
    """The stage; it runs in the calling process, and the sandboxes beside it."""

    judge: Judge = field(repr=False)
    config: VerifyConfig = field(default_factory=VerifyConfig)

    name: ClassVar[str] = "verify"
    in_workers: ClassVar[bool] = False

    def configuration(self) -> Any:
        """What can be imported counts, too: a reference that lacks a module is dropped."""
        return [super().configuration(), installed(tuple(sys.path))]

    def run(self, batch: list[Problem]) -> Outcome:
        """References, then mutants, then the reward; each in calls for the whole batch."""
        ledger = Ledger(self.name)
        ready: list[Problem] = []
        others: list[Problem] = []
        for record in batch:
            checked = self._runnable(record, ledger)
            if checked is not None:
                (others if "unverified" in checked.flags else ready).append(checked)
        agreed = self._references(ready, ledger)
        strong = self._rewarded(self._mutants(agreed, ledger), ledger)
        done = {record.id: record for record in [*strong, *others]}
        return [done[record.id] for record in batch if record.id in done], ledger.entries

    def _runnable(self, record: Problem, ledger: Ledger) -> Problem | None:
        if record.checker and not record.runs_checker:
            return ledger.drop(record, "checker", record.unjudged())
        if not record.tests:
            return ledger.drop(record, "too_few_tests", "no tests")
        programs = [code for code in record.references if is_python(code)]
        try:  # what the evaluator refuses costs itself and no more
            record.submission("pass")
        except UserError as error:
            return ledger.drop(record, "malformed", str(error))
        header = f"{record.preamble}\n"
        runnable = tuple(code for code in programs if not missing_module(header + code))
        if runnable:
            return replace(
                record,
                references=runnable,
                time_limit_s=record.time_limit_s or self.config.time_limit_s,
                memory_limit_mb=record.memory_limit_mb or self.config.memory_limit_mb,
            )
        if programs:
            module = missing_module(header + programs[0])
            detail = f"its reference needs {module}, which is not installed (pip install {module})"
            return ledger.drop(record, "missing_module", detail)
        told = "no reference solution"
        if record.references:
            told = f"none of {len(record.references)} references is Python 3"
        if self.config.without_reference == "drop":
            todo = "name a column with Python references, or verify: {without_reference: flag}"
            return ledger.drop(record, "no_reference", f"{told}; {todo}")
        return ledger.flag(record, "unverified", told)

    def _rewarded(self, records: Sequence[Problem], ledger: Ledger) -> list[Problem]:
        """The records whose first reference gets the reward that a model would get for it."""
        programs = [record.submission(record.references[0]) for record in records]
        kept = []
        for record, result in zip(records, self.judge.results(programs, True), strict=True):
            if result.passed:
                kept.append(record)
            else:
                end = result.tests[-1]
                ledger.drop(record, "reward", f"its reference ends {end.verdict}: {end.message}")
        return kept

    # References ----------------------------------------------------------------------------------

    def _references(
        self, records: Sequence[Problem], ledger: Ledger
    ) -> list[tuple[Problem, float]]:
        """Records whose tests their references pass, with the slowest time of the first one.

        Where none of a few references passes, the next few are tried.
        """
        kept: dict[str, tuple[Problem, float]] = {}
        waiting = list(records)
        while waiting:
            again = []
            for record, tried in zip(waiting, self._tried(waiting), strict=True):
                notes = Ledger(self.name)
                if checked := self._checked(record, tried, notes):
                    kept[record.id] = checked
                elif (others := self._untried(record)) and notes.entries[-1].rule in _NEXT:
                    again.append(replace(record, references=others))
                    continue
                ledger.entries += notes.entries
            waiting = again
        return [kept[record.id] for record in records if record.id in kept]

    def _untried(self, record: Problem) -> tuple[str, ...]:
        """The references after those that are run at once."""
        return record.references[self.config.references :]

    def _tried(self, records: Sequence[Problem]) -> list[list[Reference]]:
        """What the first references of each record answer."""
        repeats = range(self.config.repeats)
        codes = [record.references[: self.config.references] for record in records]
        programs = [
            (code, record)
            for record, of_record in zip(records, codes, strict=True)
            for code in of_record
            for _ in repeats
        ]
        answers = iter(self.judge.answers(programs))
        return [
            [
                Reference(code, list(zip(*(next(answers) for _ in repeats), strict=True)))
                for code in of_record
            ]
            for of_record in codes
        ]

    def _checked(
        self, record: Problem, references: list[Reference], ledger: Ledger
    ) -> tuple[Problem, float] | None:
        """The record as its references confirm it, under a limit which they keep with room to
        spare: the reward runs beside other work. Also the first one's slowest time.
        """
        answers = (a for one in references for column in one.answers for a in column)
        if reason := next((answer.lost for answer in answers if answer.lost), ""):
            detail = f"the evaluator itself failed twice: {reason}"
            ledger.drop(record, "not_judged", detail)
            return None
        problem = self._agree(record, references, ledger)
        if problem is None:
            return None
        left = set(map(id, problem.tests))
        kept = [number for number, test in enumerate(record.tests) if id(test) in left]
        slowest = next(r for r in references if r.code == problem.references[0]).slowest(kept)
        assert problem.time_limit_s is not None
        if slowest > problem.time_limit_s / _ROOM:
            raised = math.ceil(_ROOM * slowest)
            change = f"{problem.time_limit_s:g} s to {raised} s"
            detail = f"{change}, since a reference takes {slowest:.1f} s"
            problem = ledger.change(problem, "time_limit", detail, time_limit_s=float(raised))
        return problem, slowest

    def _agree(
        self, problem: Problem, references: list[Reference], ledger: Ledger
    ) -> Problem | None:
        good = [reference for reference in references if reference.may_be_right()]
        if not good:
            faults = [column[0].fault for column in references[0].answers if column[0].fault]
            if 2 * len(faults) > len(problem.tests):  # no program could pass half of them
                told = f"{len(faults)} of {len(problem.tests)} tests fail themselves: {faults[0]}"
                return ledger.drop(problem, "faulty_tests", told)
            return ledger.drop(problem, "wrong_reference", references[0].endings())
        found = [_unusable(problem, test, good, n) for n, test in enumerate(problem.tests)]
        kept = [number for number, reason in enumerate(found) if not reason]
        usable = tuple(problem.tests[number] for number in kept)
        reasons = Counter(filter(None, found))
        told = ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items()))
        if reasons.total() > _DROPPED * len(found):
            return ledger.drop(problem, "unreliable", f"tests dropped: {told}")
        if sum(map(cases, usable)) < self.config.min_tests:
            left = f"{len(kept)} of {len(found)} left" + (f"; dropped: {told}" if told else "")
            detail = f"{left}; at least {self.config.min_tests} are needed"
            return ledger.drop(problem, "too_few_tests", detail)
        if told:
            problem = ledger.change(problem, "tests", f"dropped {told}", tests=usable)
        return self._with_references(problem, references, kept, ledger)

    def _with_references(
        self, problem: Problem, references: list[Reference], kept: list[int], ledger: Ledger
    ) -> Problem | None:
        """The problem with those that pass all tests, and after them what was not tried."""
        right = [one.code for one in references if all(one.passed[number] for number in kept)]
        if not right:
            return ledger.drop(problem, "wrong_reference", "none passes all tests that are left")
        if wrong := len(references) - len(right):
            detail = f"{wrong} of {len(references)} fail a test"
            problem = ledger.change(problem, "references", detail)
        problem = replace(problem, references=(*right, *self._untried(problem)))
        other = max(reference.answers_otherwise(kept) for reference in references)
        if other and not problem.checker and problem.form != "assert":
            detail = f"a reference gives other answers to {other} of {len(kept)} tests"
            if self.config.special_judges == "drop":
                return ledger.drop(problem, "special_judge", detail)
            problem = ledger.flag(problem, "special_judge", detail)
        return self._not_trivial(problem, ledger)

    def _not_trivial(self, problem: Problem, ledger: Ledger) -> Problem | None:
        name, share = self._most_trivial(problem)
        if share == 1:
            return ledger.drop(problem, "trivial", f"{name} passes every test")
        if share > _TRIVIAL:
            return ledger.flag(problem, "nearly_trivial", f"{name} passes {share:.0%} of the tests")
        return problem

    def _most_trivial(self, problem: Problem) -> tuple[str, float]:
        """As `most_trivial`; where a checker judges, an empty program is run."""
        if not problem.runs_checker:
            return most_trivial(problem)
        (result,) = self.judge.results([problem.submission("pass\n")])
        return "an empty program", result.verdicts.count("AC") / len(result.tests)

    # Mutants -------------------------------------------------------------------------------------

    def _mutants(self, agreed: Sequence[tuple[Problem, float]], ledger: Ledger) -> list[Problem]:
        """The records whose tests notice mutants of the first reference."""
        made = [mutants(problem.references[0], self.config.mutants) for problem, _ in agreed]
        submissions = []
        for (problem, time_s), codes in zip(agreed, made, strict=True):
            assert problem.time_limit_s is not None
            # Most endless loops are mutants.
            limit = min(problem.time_limit_s, 0.5 + 5 * time_s)
            few = replace(problem, tests=problem.tests[:_MUTATION_TESTS], time_limit_s=limit)
            original = few.submission(problem.references[0])
            submissions += [replace(original, code=code) for code in codes]
        results = iter(self.judge.results(submissions, early_exit=True))
        checked = (
            self._strength(problem, list(islice(results, len(codes))), ledger)
            for (problem, _), codes in zip(agreed, made, strict=True)
        )
        return [problem for problem in checked if problem is not None]

    def _strength(self, problem: Problem, results: list[Result], ledger: Ledger) -> Problem | None:
        """Store the share of noticed mutants; a mutant's result ends with what noticed it."""
        made = len(results)
        if made < _MIN_MUTANTS:
            if self.config.mutants:
                problem = ledger.flag(problem, "no_mutants", f"only {made} mutants")
            return problem
        noticed = [len(result.tests) for result in results if not result.passed]
        strength = round(len(noticed) / made, 6)
        detail = f"{strength:.0%} of {made} mutants are noticed, by {len(set(noticed))} tests"
        if strength < self.config.min_strength:
            return ledger.drop(problem, "weak_tests", detail)
        return ledger.change(problem, "strength", detail, test_strength=strength)


def _unusable(
    problem: Problem, test: dict[str, Any], references: list[Reference], number: int
) -> str:
    """Why a test cannot be used; empty if it can."""
    answers = [reference.answers[number] for reference in references]
    if all(any(a.verdict in _SLOW for a in column) for column in answers):
        return "too slow"
    if any(varies(test, column) for column in answers):
        return "flaky"
    if all(column[0].fault for column in answers):
        return "fails itself"
    if not any(column[0].ended_well for column in answers):
        return "no reference answers"
    passing = sum(reference.passed[number] for reference in references)
    if not passing:
        return "no reference passes"
    if passing < _AGREEING * len(references):
        return "references disagree"
    empty = "" if "stdin" in test else None
    if not problem.checker and accepts(test, expected_of(test), empty):
        return "an empty program passes"
    return ""
