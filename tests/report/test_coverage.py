"""Coverage by hand: four problems, two attempts each."""

import pytest

from mcbench.report.coverage import coverage, reach
from mcbench.report.sources import arms_of

from .made import study


def rows(*passes: int, attempts: int = 2) -> list[dict[str, object]]:
    return [
        {"id": f"p{i}", "passes": count, "attempts": attempts} for i, count in enumerate(passes)
    ]


def test_problems_gained_and_lost_by_hand() -> None:
    found = reach(rows(2, 1, 0, 0), rows(1, 0, 2, 1))
    assert found is not None
    assert (found.k, found.covered, found.gained, found.lost) == (2, 75.0, 50.0, 25.0)
    assert found.pass_at == pytest.approx(75.0)  # with two attempts pass@2 is "any passed"
    more = reach(rows(5, attempts=16), rows(4, attempts=16))
    assert more is not None
    assert more.k == 8
    assert reach(rows(1), []) is None


def test_every_arm_has_a_row_for_each_length() -> None:
    made = study("truncation_mask")
    table = coverage(arms_of(made)).data
    assert table is not None
    assert len(table) == 2 * len(made.arms)
    assert (table["solved by any attempt (%)"] >= table["gained (%)"]).all()
