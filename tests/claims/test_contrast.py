"""Rows: formulas over arms by hand, and what is said of one that is none."""

from pathlib import Path

import numpy as np
import pytest

from mcbench.claims import CLAIMS, Claim, Contrast, assess
from mcbench.claims import statistics as st
from mcbench.claims.assess import measure
from mcbench.claims.contrast import parse
from mcbench.claims.curves import PassRates, RunCurves
from mcbench.claims.evidence import Evidence
from mcbench.claims.rules import answer_state
from mcbench.claims.table import TABLES, claims_in, read_claims
from mcbench.errors import UserError

from .effects import make_runs

STEPS = np.arange(0, 101, 10.0)


def run(level: float) -> RunCurves:
    """A length of ``level`` that grows by a tenth of it a step, and 60 % of four problems."""
    rates = PassRates(STEPS, tuple("abcd"), np.full((11, 4), level), ("easy",) * 4)
    return RunCurves({"eval/x": (STEPS, level + STEPS / 100)}, {(96, 1.0): rates})


@pytest.mark.parametrize(
    ("formula", "terms", "constant"),
    [
        ("end(a) - end(b)", [(1, "a"), (-1, "b")], 0),
        ("5 - fall(a)", [(-1, "a")], 5),
        ("0.5 * (end(a, b) - end(x/c))", [(0.25, "a"), (0.25, "b"), (-0.5, "x/c")], 0),
        ('-end("rho 0.5") + 2', [(-1, "rho 0.5")], 2),
        # The straight line through 0, 0.1 and 0.2 rises from first to last by their difference.
        ("growth(a=0, b=0.1, c=0.2)", [(-1, "a"), (0, "b"), (1, "c")], 0),
    ],
)
def test_terms_of_a_formula(formula: str, terms: list, constant: float) -> None:
    found = parse(formula)
    assert [(one.factor, one.arm) for one in found.terms] == [
        (pytest.approx(factor, abs=1e-15), arm) for factor, arm in terms
    ]
    assert found.constant == constant


def test_a_contrast_by_hand() -> None:
    evidence = Evidence({"a": {0: run(40), 1: run(42)}, "b": {0: run(30), 1: run(30)}})
    (pair,) = Contrast("eval/x", "", "end(a) - 2 * start(b) + 3").parts(evidence)
    end = 1 - 0.1  # the mean of 0.8, 0.9 and 1.0
    assert pair.estimate.value == pytest.approx(100 * (41 + end - 2 * 30.05) + 3)
    assert (pair.name, pair.unit) == ("eval/x: end(a) - 2 * start(b) + 3", "points")
    accuracy, area = Contrast("pass@1", "gap", "end(a) - end(b)").parts(evidence)
    assert (accuracy.estimate.value, accuracy.beside, area.beside) == (11, False, True)
    assert area.name == "gap, area"
    assert len(Contrast("pass@1", "growth", "growth(a)").parts(evidence)) == 1  # a course
    (place,) = Contrast("eval/x", "", "-peak_step(a)").parts(evidence)
    assert place.unit == "updates"
    assert {one.statistic for one in parse("rise(a) + fall(a)").terms} == set(st.HELD_OUT)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (("pass@1", "", "end(a) +"), "no sum of statistics of arms, such as end"),
        (("pass@1", "", "end()"), "no sum of statistics"),
        (("pass@1", "", "3"), "no sum of statistics"),
        (("pass@1", "", "last(a)"), "unknown statistic 'last'"),
        (("accuracy", "", "end(a)"), "unknown measure 'accuracy'"),
        (("pass@1", "", "end(a)", ("thresh",)), "unknown flag of a contrast 'thresh'"),
        (("pass@1", "", 'end(a, of="eval/x")'), "no term has another"),
    ],
)
def test_a_contrast_that_is_none_is_refused_where_it_stands(row: tuple, why: str) -> None:
    with pytest.raises(UserError, match=why):
        Contrast(*row)


ROW = """
[own.Z1]
experiment = "context_length"
claim = "A longer limit ends higher."
arms = ["short", "long"]
parts = [["pass@1", "long minus short", "end(long) - end(short)"]]
"""


def test_a_claim_of_ones_own_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('whose = "ours"\n' + ROW)
    (one,) = read_claims(path).values()
    assert (one.section, one.seeds, one.directed) == ("own", 3, False)
    assert one.measured == "long minus short: end(long) - end(short)"
    monkeypatch.setitem(CLAIMS, one.id, one)
    runs = make_runs("C1", 1)
    found, papers = assess("context_length", runs)["Z1"], assess("context_length", runs)["C1"]
    steps = [part.estimate.value for part in papers.parts if part.name.endswith(("e", "g"))]
    assert found.state == "higher"
    assert found.parts[0].estimate.value == pytest.approx(sum(steps))


def test_what_is_told_beside_decides_no_question_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measure of accuracy brings parts beside: their p-values are no tests of the question."""
    path = tmp_path / "mine.toml"
    path.write_text('whose = "ours"\n' + ROW)
    (one,) = read_claims(path).values()
    monkeypatch.setitem(CLAIMS, one.id, one)
    found = assess("context_length", make_runs("C1", 1))["Z1"]
    assert len(found.parts) > len(found.deciding) > 0
    single = [answer_state(part)[1] for part in found.deciding]
    assert found.p == pytest.approx(min(single) * len(single))
    assert found.decisive in found.deciding
    assert {part.state for part in found.parts if part.beside} == {"inconclusive"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("arms = ", "arm = "), "unknown key of claim Z1 'arm'"),
        (('["short", "long"]', '["short"]'), "claim Z1: its parts name long, which is none of"),
        (('"long minus short", ', ""), "claim Z1: a part is a measure, what it says, a formula"),
        (('experiment = "context_length"', ""), "claim Z1 has no experiment"),
        (("[own.Z1]", "[own.Z1"), "mine.toml is no table of claims"),
        (("[own.Z1]", '[own.Z1]\nwhose = "me"'), "unknown whose of claim Z1 'me'"),
        (("[own.Z1]", '[own.Z1]\ncode = "nothing"'), "unknown code of claim Z1 'nothing'"),
        (("[own.Z1]", '[own.Z1]\nseeds = "5"'), "claim Z1: seeds must be a whole number, got '5'"),
        (("[own.Z1]", "[own.C1]"), "claim C1 of .*mine.toml: there is one of this id already"),
        (("parts = [[", "parts = 3 #"), "claim Z1: a part is a measure, what it says"),
    ],
)
def test_a_row_that_is_none_says_which_and_why(
    tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(ROW.replace(*change))
    with pytest.raises(UserError, match=why):
        read_claims(path)


def test_no_claim_stands_in_two_tables() -> None:
    folder = Path(Claim.__module__.replace(".", "/")).parent
    rows = [name for one in TABLES for name in claims_in(folder / f"{one}.toml")]
    assert sorted(rows) == sorted(CLAIMS)


def test_a_column_that_only_a_row_names_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records hold more columns than claims of the paper read."""
    row = Contrast("gradient/cut", "", "end(harder) - end(easier)")
    own = Claim("Z2", "?", ("harder", "easier"), "", [row], "data_quality", whose="ours")
    runs = make_runs("D2", 1)
    for arm, of_arm in runs.items():
        for record in of_arm.values():
            for line in record.step_lines:
                line["gradient/cut"] = 0.3 if arm == "harder" else 0.1
    monkeypatch.setitem(CLAIMS, own.id, own)
    assert assess("data_quality", runs)["Z2"].effect == pytest.approx(20)
    assert measure(own, {}).reason == "no finished run of arms harder, easier"
