"""Difficulty: the five dimensions, the calibration on pass rates, the selection."""

import ast
import math

import pytest

from mcbench.data import Problem
from mcbench.data.difficulty import (
    Calibration,
    Difficulty,
    DifficultyConfig,
    Predict,
    read_pass_rates,
)
from mcbench.data.features import (
    DIMENSIONS,
    cyclomatic,
    dimensions,
    halstead_volume,
    reading,
    scale,
    technique,
    weighted,
)
from mcbench.errors import UserError

from .generated import generate

LOOPS = """
def f(a, b):
    for x in a:
        for y in b:
            if x < y and y < 9 or not x:
                return f(a[1:], b)
    return [v for v in a if v]
"""


def test_cyclomatic_complexity_counts_decisions():
    assert cyclomatic(ast.parse("print(1)")) == 1
    # two for, one if, two boolean operators, a comprehension and its if
    assert cyclomatic(ast.parse(LOOPS)) == 1 + 2 + 1 + 2 + 2


def test_halstead_volume():
    # x = x + 1: five tokens, four of them different
    assert halstead_volume("x = x + 1  # comment\n") == pytest.approx(5 * math.log2(4))


def test_technique_counts_nesting_recursion_tables_and_methods():
    assert technique(ast.parse("print(1)")) == 0
    assert technique(ast.parse(LOOPS)) == pytest.approx(2 * 0.12 + 0.25)
    assert technique(ast.parse("import heapq\nt[1][2] = 3")) == pytest.approx(0.2 + 0.15)


@pytest.mark.parametrize(
    ("statement", "digits"),
    [
        ("1 ≤ n ≤ 10^5", 5),
        ("n is at most 2 * 10^5", 5 + math.log10(2)),
        ("n <= 100,000 and m ≤ 7", 5),
        ("values up to 10^18, n up to 50", 18),
        ("nothing is said", math.log10(20)),
    ],
)
def test_scale_is_the_largest_bound(statement, digits):
    tests = ({"stdin": "1" * 20, "expected": "1"},)
    assert scale(Problem("p", statement, "stdin", tests)) == pytest.approx(digits / 18)


def test_reading_grows_with_words_and_quantities():
    assert reading("word " * 10) == 0
    assert 0 < reading("word " * 100) < reading("word " * 100 + "1 2 3") < 1
    assert reading("word " * 2000) == 1


def test_dimensions_of_what_is_known():
    record = Problem("p", "Print n.", "stdin", references=("print(1)\n", LOOPS))
    assert tuple(dimensions(record)) == DIMENSIONS
    assert dimensions(record)["control"] == 0  # of the simplest reference
    assert set(dimensions(Problem("p", "x", "stdin", references=("def",)))) == {
        "reading", "scale",
    }  # fmt: skip
    found = weighted({"reading": 0.2, "scale": 0.8}, {"reading": 3, "scale": 1, "control": 9})
    assert found == pytest.approx(0.35)


# Predict -----------------------------------------------------------------------------------------


def predicted(count=60, **options):
    config = DifficultyConfig(**options)
    records, _ = Predict(config).run(list(generate(count)))
    return config, records


def test_the_prediction_is_the_weighted_mean_and_is_logged():
    _, (record,) = predicted(1, weights={"reading": 3.0, "control": 1.0})
    values = record.dimensions
    wanted = (3 * values["reading"] + values["control"]) / 4
    assert record.difficulty_score == pytest.approx(wanted, abs=1e-6)


# Calibrate ---------------------------------------------------------------------------------------


def test_isotonic_regression_pools_what_is_out_of_order():
    scores = [i / 10 for i in range(10)]
    rates = [1.0, 0.8, 0.9, 0.7, 0.5, 0.5, 0.3, 0.1, 0.3, 0.0]
    fit = Calibration.fit(scores, rates)
    import numpy as np

    found = fit(np.array(scores)).tolist()
    assert found == pytest.approx([1, 0.85, 0.85, 0.7, 0.5, 0.5, 0.3, 0.2, 0.2, 0], abs=1e-6)
    assert fit(np.array([-1.0, 5.0])).tolist() == [1.0, 0.0]


def labelled(measured, **options):
    config, records = predicted(**options)
    stage = Difficulty(config, measured)
    return stage, stage.summarise(records), {r.id: r for r in records}


def test_without_pass_rates_labels_are_thirds_of_the_prediction():
    stage, summary, records = labelled({})
    rows = stage.label(summary).to_dict("records")
    assert {r["provenance"] for r in rows} == {"predicted"}
    hard = [records[r["id"]].difficulty_score for r in rows if r["difficulty"] == "hard"]
    others = [records[r["id"]].difficulty_score for r in rows if r["difficulty"] != "hard"]
    assert min(hard) >= max(others)
    assert len(hard) == 20


def test_measured_rates_are_kept_and_the_rest_is_estimated():
    _, records = predicted()
    truth = {r.id: round(1 - r.difficulty_score, 3) for r in records}
    measured = {name: truth[name] for name in list(truth)[::2]}
    stage, summary, _ = labelled(measured)
    rows = {r["id"]: r for r in stage.label(summary).to_dict("records")}
    for name, row in rows.items():
        expected = "measured" if name in measured else "calibrated"
        assert row["provenance"] == expected
        assert row["pass_rate"] == pytest.approx(truth[name], abs=0.05)
        easy = row["pass_rate"] >= 2 / 3
        assert (row["difficulty"] == "easy") == easy


def test_a_bound_belongs_to_the_easier_label():
    _, records = predicted()
    measured = {r.id: (1 / 3, 2 / 3)[i % 2] for i, r in enumerate(records)}
    stage, summary, _ = labelled(measured)
    assert set(stage.label(summary).difficulty) == {"medium", "easy"}


def test_too_few_measurements_are_refused():
    stage, summary, _ = labelled({"generated/0-1": 0.5})
    with pytest.raises(UserError, match=r"1 problems .* at least 10"):
        stage.label(summary)


# Select ------------------------------------------------------------------------------------------


def test_the_largest_set_of_the_target_distribution_is_selected():
    stage, *_ = labelled({}, target={"easy": 0.2, "medium": 0.4, "hard": 0.4})
    assert stage.quota({"easy": 50, "medium": 40, "hard": 60}) == {
        "easy": 20, "medium": 40, "hard": 40,
    }  # fmt: skip
    with pytest.raises(UserError, match="wants 40% hard problems and there are none"):
        stage.quota({"easy": 5, "medium": 5})
    stage, *_ = labelled({}, target={"hard": 1.0}, size=7)
    assert stage.quota({"easy": 3, "hard": 60}) == {"easy": 0, "medium": 0, "hard": 7}
    assert labelled({})[0].quota({"easy": 3}) is None


def test_what_is_always_or_never_solved_is_dropped():
    _, records = predicted()
    measured = {r.id: (0.0, 0.5, 1.0)[i % 3] for i, r in enumerate(records)}
    stage, summary, _ = labelled(measured, min_pass_rate=0.1, max_pass_rate=0.9)
    decisions = stage.decide(summary)
    dropped = {i for i, d in decisions.items() if any(note[0] == "drop" for note in d.notes)}
    assert dropped == {i for i, rate in measured.items() if rate != 0.5}


def test_pass_rates_from_a_file(tmp_path):
    path = tmp_path / "rates.jsonl"
    path.write_text('{"id": "a", "pass_rate": 0.25, "n": 8}\n{"id": "b", "pass_rate": 1}\n')
    assert read_pass_rates(path) == {"a": 0.25, "b": 1.0}
    for line, message in (("{}", "line 1 of"), ('{"id": "a", "pass_rate": 2}', "between 0 and 1")):
        path.write_text(line)
        with pytest.raises(UserError, match=message):
            read_pass_rates(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_pass_rates(tmp_path / "none")
