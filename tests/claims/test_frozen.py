"""Every claim on the committed records is what it was when the table beside this was written.

``python tests/claims/test_frozen.py`` says how many of its numbers differ in any digit, and with
``--write`` writes it anew: for records that are new, never to make this test pass.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcbench.claims import Result, read_measurements
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.round_2 import outcomes
from mcbench.experiments.study import studies
from mcbench.runs.records import finished_records
from mcbench.runs.store import RunRecord

RECORDS = Path(__file__).parents[2] / "reports" / "records"
TABLE = Path(__file__).with_name("frozen.json")


def _told(one: Result) -> list[Any]:
    """A result, its parts, and what is another with whole features resampled."""
    decisive, there = one.decisive.name, one.by_feature
    parts = [
        [part.name, found.value, found.low, found.high, part.unit, part.state, part.seeds_needed,
         part.margin, part.beside]
        for part in one.parts
        for found in [part.estimate]
    ]  # fmt: skip
    told = [one.state, one.p, one.n_seeds, one.basis, one.reason, decisive, one.features, parts]
    if there is None:
        return told
    ends = [[part.estimate.low, part.estimate.high, part.state] for part in there.parts]
    return [*told, [there.state, there.p, there.reason, there.decisive.name, ends]]


def table(records: list[RunRecord]) -> dict[str, list[Any]]:
    """The results by experiment, profile and claim, and round 2's by hypothesis."""
    rows = read_measurements(RECORDS)
    first = {
        f"{study.name} {study.profile} {name}": _told(one)
        for experiment in EXPERIMENTS
        for study in studies(experiment, records, rows)
        for name, one in study.results.items()
    }
    second = {
        f"round 2 {name}": [one.state, one.p, found.value, found.low, found.high, found.seeds]
        for name, one in outcomes([RECORDS]).items()
        if (found := one.estimate).seeds
    }
    return first | second


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _flat(one)
    else:
        yield value


def _same(was: Any, now: Any) -> bool:
    """Texts and counts exactly; numbers to twelve digits, as the last ones are the processor's."""
    if isinstance(was, float) and isinstance(now, float) and not math.isnan(was):
        return math.isclose(was, now, rel_tol=1e-12, abs_tol=1e-12)
    return repr(was) == repr(now)


@pytest.mark.slow
def test_every_part_of_every_claim_is_what_it_was(committed: list[RunRecord]) -> None:
    was, now = json.loads(TABLE.read_text()), table(committed)
    assert list(now) == list(was)
    for name, frozen in was.items():
        before, after = list(_flat(frozen)), list(_flat(now[name]))
        wrong = [pair for pair in zip(before, after, strict=True) if not _same(*pair)]
        assert not wrong, name


def main() -> None:
    """Compare to the last digit, or write."""
    made = table(list(finished_records(RECORDS)))
    if "--write" in sys.argv:
        lines = (f" {json.dumps(name)}: {json.dumps(one)}" for name, one in made.items())
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    was = json.loads(TABLE.read_text())
    changed = [name for name in {**was, **made} if repr(was.get(name)) != repr(made.get(name))]
    numbers = sum(isinstance(one, float) for one in _flat(list(made.values())))
    print(f"{len(made)} results of {len(was)}, {numbers} numbers; changed: {changed or 'none'}")


if __name__ == "__main__":
    main()
