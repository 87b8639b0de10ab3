"""The labelled suite under several judges: what each accepts of what it should, and should not.

    python benchmarks/labelled.py                 reports/records/labelled_suite.json.gz
    python benchmarks/labelled.py --judges microcoder livecodebench --limit 3 --records FOLDER

A judge is a set of comparison rules (of ``mcbench.evaluator.rule_sets`` and ``peer_rules.py``)
under which MicroCoder-Evaluator runs the programs, or LiveCodeBench's whole published method, which
has no sandbox: it is given the right and wrong programs, not the attacks. E1 and notebook 06 read
the record.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import mcbench.evaluator
from benchmarks import peer_rules, suite
from benchmarks.published import ProcessPerSample
from mcbench.claims.measurements import SUITE_FILE
from mcbench.errors import UserError, unknown
from mcbench.evaluator import Evaluator, outputs_match
from mcbench.files import digest, pack_json

METHOD = "livecodebench_method"  # a whole method of execution, not a set of rules
PARTS = {"comparisons": suite.COMPARISONS, "programs": suite.EXECUTIONS, "attacks": suite.ATTACKS}
JUDGES = ("microcoder", "livecodebench", *peer_rules.PEERS, METHOD)
_LEFT_OUT = {METHOD: ("comparisons", "attacks")}


def judge_suite(judges: Sequence[str] = JUDGES, limit: int | None = None) -> dict[str, Any]:
    """Run the labelled suite under each judge.

    Args:
        limit: so many cases a part and label, evenly spread; all where None.

    Returns:
        ``judges``; ``cases`` as part, group, id, whether it is right, and for each judge whether it
        was accepted (None: not given); ``digest`` of the suite and of the code that judged it.

    Raises:
        UserError: an unknown judge, or a limit below 1.
    """
    for judge in set(judges) - set(JUDGES):
        raise unknown("judge", judge, JUDGES)
    if limit is not None and limit < 1:
        raise UserError(f"limit must be at least 1, got {limit}")
    given = {part: _thinned(cases, limit) for part, cases in PARTS.items()}
    content = digest([_sources(), repr((tuple(judges), limit))])
    return {"digest": content, "judges": list(judges), "cases": _judged(judges, given)}


def _judged(judges: Sequence[str], suite: dict[str, list[Any]]) -> list[list[Any]]:
    cases: list[list[Any]] = []
    for part, given in suite.items():
        marks: list[dict[str, bool]] = [{} for _ in given]
        for judge in judges:
            if part in _LEFT_OUT.get(judge, ()):
                continue
            print(f"labelled suite: {len(given)} {part} under {judge}", flush=True)
            for mark, accepted in zip(marks, _accepted(judge, part, given), strict=True):
                mark[judge] = accepted
        for case, mark in zip(given, marks, strict=True):
            marked = [mark.get(judge) for judge in judges]
            cases.append([part, case.group, case.id, case.right, marked])
    return cases


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
    folders = [Path(mcbench.evaluator.__file__).parent, Path(suite.__file__).parent]
    files = sorted(f for one in folders for f in one.rglob("*") if f.suffix in {".py", ".txt"})
    return digest(part for f in files for part in (f.name, f.read_bytes()))


def main() -> None:
    """Judge the suite and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--judges", nargs="+", default=JUDGES)
    parser.add_argument("--limit", type=int, help="cases a part and label, evenly spread")
    records = Path(__file__).parents[1] / "reports" / "records"
    parser.add_argument("--records", type=Path, default=records, help="where the record is written")
    asked = parser.parse_args()
    pack_json(asked.records / SUITE_FILE, judge_suite(asked.judges, asked.limit))


if __name__ == "__main__":
    main()
