"""The labelled suite under several judges: what each accepts of what it should, and should not.

A judge is a set of comparison rules (:data:`mcbench.evaluator.rule_sets.RULE_SETS`) under which
MicroCoder-Evaluator runs the programs, or LiveCodeBench's whole published method, which has no
sandbox: it is given the right and wrong programs, not the attacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcbench.claims.measurements import METHOD, SUITE_FILE, LabelledCase, SuiteRecord
from mcbench.errors import UserError, unknown
from mcbench.evaluator import Evaluator, outputs_match
from mcbench.evaluator.baselines import ProcessPerSample
from mcbench.evaluator.rule_sets import RULE_SETS
from mcbench.files import digest
from mcbench.runs.place import committed_records, in_project
from mcbench.runs.say import Say

PARTS = ("comparisons", "programs", "attacks")
JUDGES = (*RULE_SETS, METHOD)
_LEFT_OUT = {METHOD: ("comparisons", "attacks")}


def judge_suite(
    judges: Sequence[str] | None = None,
    path: Path | None = None,
    limit: int | None = None,
    progress: Say = print,
    also: Sequence[Path] = (),
) -> SuiteRecord:
    """Run the labelled suite under each judge, or read what an equal call saved.

    Args:
        judges: all of :data:`JUDGES` where None.
        path: where the record is kept; used again as long as suite and evaluator are the same.
        limit: so many cases a part and label, evenly spread; all where None.
        also: other files that may hold what an equal call saved; it is copied to ``path``.

    Raises:
        UserError: an unknown judge, or a limit below 1.
    """
    chosen = JUDGES if judges is None else tuple(judges)
    for judge in set(chosen) - set(JUDGES):
        raise unknown("judge", judge, JUDGES)
    if limit is not None and limit < 1:
        raise UserError(f"limit must be at least 1, got {limit}")
    content = digest([_sources(), repr((chosen, limit))])
    for saved in filter(Path.exists, [*([path] if path else []), *also]):
        record = SuiteRecord.read(saved)
        if record.digest == content:
            progress(f"labelled suite: judged before, reusing {saved.name}")
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
