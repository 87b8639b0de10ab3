"""The labelled suite under several judges: what each accepts of what it should, and should not.

A judge is a set of comparison rules (:data:`mcbench.evaluator.rule_sets.RULE_SETS`) under which
MicroCoder-Evaluator runs the programs, or LiveCodeBench's whole published method, which has no
sandbox: it is given the right and wrong programs, not the attacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcbench.claims.measurements import METHOD, SUITE_FILE
from mcbench.errors import UserError, unknown
from mcbench.evaluator import Evaluator, outputs_match
from mcbench.evaluator.baselines import ProcessPerSample
from mcbench.evaluator.rule_sets import RULE_SETS
from mcbench.files import digest, write_json
from mcbench.runs.place import committed_records, in_project
from mcbench.runs.say import Say

PARTS = ("comparisons", "programs", "attacks")
_LEFT_OUT = {METHOD: ("comparisons", "attacks")}


@dataclass(frozen=True)
class LabelledCase:
    """A case of the suite: whether it is right, and by judge whether it was accepted."""

    part: str
    group: str
    id: str
    right: bool
    accepted: dict[str, bool]


@dataclass(frozen=True)
class SuiteRecord:
    """All cases under all judges, and the hash of the suite and of the code that judged it."""

    judges: tuple[str, ...]
    cases: tuple[LabelledCase, ...]
    digest: str

    def write(self, path: Path) -> None:
        """Save as JSON; :meth:`read` is the inverse."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(
            path,
            {
                "digest": self.digest,
                "judges": list(self.judges),
                "cases": [
                    [c.part, c.group, c.id, c.right, [c.accepted.get(j) for j in self.judges]]
                    for c in self.cases
                ],
            },
        )

    @classmethod
    def read(cls, path: Path) -> SuiteRecord:
        """Read a saved record.

        Raises:
            UserError: no such file, or it is no record of the suite.
        """
        try:
            data = json.loads(path.read_text())
            judges = tuple(data["judges"])
            cases = []
            for part, group, name, right, marks in data["cases"]:
                pairs = zip(judges, marks, strict=True)
                accepted = {judge: mark for judge, mark in pairs if mark is not None}
                cases.append(LabelledCase(part, group, name, right, accepted))
            return cls(judges, tuple(cases), data["digest"])
        except OSError as error:
            raise UserError(f"suite record {path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no record of the labelled suite: {error}") from error


def known_judges() -> tuple[str, ...]:
    """Every judge there is."""
    return (*RULE_SETS, METHOD)


def judge_suite(
    judges: Sequence[str] | None = None,
    path: Path | None = None,
    limit: int | None = None,
    progress: Say = print,
    also: Sequence[Path] = (),
) -> SuiteRecord:
    """Run the labelled suite under each judge, or read what an equal call saved.

    Args:
        judges: all of :func:`known_judges` where None.
        path: where the record is kept; used again as long as suite and evaluator are the same.
        limit: so many cases a part and label, evenly spread; all where None.
        also: other files that may hold what an equal call saved; it is copied to ``path``.

    Raises:
        UserError: an unknown judge, or a limit below 1.
    """
    known = known_judges()
    chosen = known if judges is None else tuple(judges)
    for judge in set(chosen) - set(known):
        raise unknown("judge", judge, known)
    if limit is not None and limit < 1:
        raise UserError(f"limit must be at least 1, got {limit}")
    content = digest([_sources(), repr((chosen, limit))])
    for saved in filter(Path.exists, [*([path] if path else []), *also]):
        record = SuiteRecord.read(saved)
        if record.digest == content:
            progress(f"labelled suite: judged before, reusing {saved}")
            if path is not None and saved != path:
                record.write(path)
            return record
    given = {part: _thinned(_cases(part), limit) for part in PARTS}
    record = SuiteRecord(chosen, _judged(chosen, given, progress), content)
    if path is not None:
        record.write(path)
    return record


def suite_record(
    runs_dir: str | Path = "runs",
    judges: Sequence[str] | None = None,
    limit: int | None = None,
    use_records: bool = True,
) -> SuiteRecord:
    """The suite under each judge for a notebook: kept beside the runs, or the committed record.

    Raises:
        UserError: as :func:`judge_suite`.
    """
    committed = [one / SUITE_FILE for one in committed_records()] if use_records else []
    return judge_suite(judges, in_project(runs_dir) / SUITE_FILE, limit, also=committed)


def _judged(
    judges: Sequence[str], suite: dict[str, list[Any]], progress: Say
) -> tuple[LabelledCase, ...]:
    cases = []
    for part, given in suite.items():
        marks: list[dict[str, bool]] = [{} for _ in given]
        for judge in judges:
            if part in _LEFT_OUT.get(judge, ()):
                continue
            progress(f"labelled suite: {len(given)} {part} under {judge}")
            for mark, accepted in zip(marks, _accepted(judge, part, given), strict=True):
                mark[judge] = accepted
        for case, mark in zip(given, marks, strict=True):
            cases.append(LabelledCase(part, case.group, case.id, case.right, mark))
    return tuple(cases)


def _cases(part: str) -> Sequence[Any]:
    from mcbench.evaluator import suite  # half a second of programs

    return {
        "comparisons": suite.COMPARISONS,
        "programs": suite.EXECUTIONS,
        "attacks": suite.ATTACKS,
    }[part]


def _thinned(cases: Sequence[Any], limit: int | None) -> list[Any]:
    """``limit`` right and ``limit`` wrong cases, each evenly spread over those there are."""
    kept: list[Any] = []
    for label in (True, False):
        of_label = [case for case in cases if case.right is label]
        count = len(of_label) if limit is None else min(limit, len(of_label))
        kept += [of_label[i * len(of_label) // count] for i in range(count)]
    return kept


def _accepted(judge: str, part: str, cases: Sequence[Any]) -> list[bool]:
    if part == "comparisons":
        return [outputs_match(c.expected, c.actual, rules=judge, **c.options) for c in cases]
    chosen: Any = ProcessPerSample() if judge == METHOD else Evaluator(rules=judge)
    with chosen as evaluator:
        results = evaluator.evaluate([case.submission for case in cases], early_exit=True)
    return [result.passed for result in results]


def _sources() -> str:
    """Everything that decides a verdict: the evaluator's sources and the suite's programs."""
    folder = Path(__file__).parents[1] / "evaluator"
    files = sorted(f for f in folder.rglob("*") if f.suffix in {".py", ".txt"})
    return digest(part for f in files for part in (str(f.relative_to(folder)), f.read_bytes()))
