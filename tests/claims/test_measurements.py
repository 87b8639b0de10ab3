"""Measurements beside run records: their file, the labelled suite, and what claims make of them."""

import json
from pathlib import Path

import pytest

from benchmarks.temperature_grid import grid_measurements
from mcbench.claims import add_measurements, assess, read_measurements
from mcbench.claims.measurements import SUITE_FILE
from mcbench.errors import UserError
from mcbench.runs.evaluate import EvalResult

from .effects import make_measurements


def test_measurements_come_back_from_their_file(tmp_path: Path) -> None:
    rows = make_measurements(1, seeds=1)
    path = add_measurements(rows, tmp_path / "measurements.jsonl")
    again = add_measurements(reversed(rows), tmp_path / "again.jsonl")
    assert path.read_bytes() == again.read_bytes()
    for row in rows[5::-1]:  # one after another, some of them twice: what is there stays
        add_measurements([row], tmp_path / "again.jsonl")
    assert path.read_bytes() == again.read_bytes()
    found = read_measurements(tmp_path)
    assert len(found) == len(rows)
    assert all(row in found for row in rows)
    assert read_measurements(tmp_path / "absent.jsonl") == []
    with pytest.raises(UserError, match="temperature_grid measurement needs accuracy, got None"):
        add_measurements([{**rows[0], "accuracy": None}], path)
    with pytest.raises(UserError, match="temperature_grid measurement needs seed, got True"):
        add_measurements([{**rows[0], "seed": True}], path)
    with pytest.raises(UserError, match="unknown kind of measurement"):
        add_measurements([{"kind": "guess"}], path)


def test_the_labelled_suite_beside_the_records_counts(tmp_path: Path) -> None:
    """A case that a judge was not given (null) is no measurement."""
    cases = [
        ["comparisons", "any", str(i), i % 2 == 0, [i % 2 == 0, i % 8 == 0, None]]
        for i in range(120)
    ]
    judges = ["microcoder", "livecodebench", "other"]
    path = tmp_path / SUITE_FILE
    path.write_text(json.dumps({"digest": "", "judges": judges, "cases": cases}))
    rows = read_measurements(tmp_path)
    assert len(rows) == 240
    assert {row["rules"] for row in rows} == {"microcoder", "livecodebench"}
    found = assess("code_evaluator", {}, rows)["E1"]
    assert found.state == "supported"
    assert found.effect == pytest.approx(75)
    assert "right solutions accepted (100.0 % against 25.0 %): +75.0 points" in found.note
    path.write_text("{}")
    with pytest.raises(UserError, match="no record of the labelled suite"):
        read_measurements(tmp_path)


def test_evaluations_at_several_temperatures_become_measurements() -> None:
    rows = []
    for seed in range(3):
        for step in (0, 160):
            results = [
                EvalResult(96, t, 4, 0.4, 50.0, 0.1, 0.3 * t + 0.01 * seed * t, ())
                for t in (0.5, 1.0, 1.5)
            ]
            rows += grid_measurements("base", seed, step, results)
    found = assess("temperature", {}, rows)["T2"]
    assert found.effect == pytest.approx(0.31)
    assert found.state == "supported"


def test_incomplete_measurements_are_inconclusive() -> None:
    rows = make_measurements(1)
    without = [row for row in rows if row.get("rules") != "livecodebench"]
    note = assess("code_evaluator", {}, without)["E1"].note
    assert "not judged under the rules livecodebench" in note
    short = [row for row in rows if row.get("seed") != 32 or row["step"] < 160]
    assert "every seed needs the same" in assess("temperature", {}, short)["T1"].note
    two = [row for row in rows if row.get("seed", 30) < 32]
    assert assess("temperature", {}, two)["T2"].note.startswith("2 of the 3 seeds")
