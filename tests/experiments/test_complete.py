"""Completing a folder of records: exactly what is missing, and measurements once."""

import json

import pytest

from benchmarks import temperature_grid
from benchmarks.repetition import repetition_rows
from mcbench.claims import read_measurements
from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments import experiments
from mcbench.experiments.experiments import Experiment
from mcbench.experiments.study import planned_study
from mcbench.experiments.training import train_missing
from mcbench.runs.config import preset
from mcbench.runs.store import RunRecord


@pytest.fixture
def one_experiment(monkeypatch, tiny_settings):
    """The whole set is one experiment of two tiny runs."""
    own = {**tiny_settings, "steps": 2}
    both = {"plain": {"recipe": "grpo_plus", **own}, "masked": {"recipe": "microcoder", **own}}
    small = {"small": Experiment("small", "", "", both, (0,), ("tiny",))}
    monkeypatch.setattr(experiments, "EXPERIMENTS", small)


def complete(records, runs_dir):
    train_missing("all experiments", experiments.planned_of_all(), runs_dir, keep=records)


@pytest.mark.slow
def test_a_deleted_record_is_the_one_run_that_is_trained(one_experiment, tmp_path, capsys):
    records = tmp_path / "reports" / "records"
    records.mkdir(parents=True)
    runs = tmp_path / "runs"
    complete(records, runs)
    first, second = sorted(records.glob("*.parquet"))
    kept = second.read_bytes()
    first.unlink()

    elsewhere = tmp_path / "fresh"
    command = ["report", str(tmp_path / "reports"), "--complete", "--runs-dir", str(elsewhere)]
    assert main([*command, "--dry-run"]) == 0
    planned = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("to train:")
    ]
    assert [line.split()[2] for line in planned] == [first.stem]
    assert not elsewhere.exists()

    complete(records, elsewhere)
    assert [path.name for path in elsewhere.glob("*/run.json")] == ["run.json"]
    assert (elsewhere / first.stem).is_dir()
    assert first.exists()
    assert second.read_bytes() == kept


def test_a_dry_run_needs_something_to_plan(tmp_path):
    assert main(["report", str(tmp_path), "--dry-run"]) == 2


@pytest.mark.slow
def test_checkpoints_are_measured_once_and_go_on_where_interrupted(
    tiny_settings, tmp_path, monkeypatch
):
    lines = []
    settings = {name: value for name, value in tiny_settings.items() if name != "temperature"}

    def measure():
        return temperature_grid.measure_grid(
            tmp_path / "records", "tiny", [0], 4, tmp_path / "runs", (0.5, 1.0), 1, lines.append,
            settings,
        )  # fmt: skip

    real, made = temperature_grid.add_measurements, []

    def interrupted(rows, path):
        made.append(len(rows))
        if len(made) == 4:
            raise KeyboardInterrupt
        return real(rows, path)

    monkeypatch.setattr(temperature_grid, "add_measurements", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure()
    monkeypatch.setattr(temperature_grid, "add_measurements", real)
    rows = measure()
    assert "temperature grid: 6 measurements, 3 made before, 3 to make" in lines
    assert sorted((r["step"], r["temperature"]) for r in rows) == [
        (step, t) for step in (0, 2, 4) for t in (0.5, 1.0)
    ]
    before = (tmp_path / "records" / "measurements.jsonl").read_bytes()
    assert measure() == read_measurements(tmp_path / "records")
    assert (tmp_path / "records" / "measurements.jsonl").read_bytes() == before


def test_repetition_is_counted_by_both_rules(tmp_path):
    import pandas as pd

    loop = [1, 2, 3] * 4  # of period 3, which does not divide a window of 4
    window = [1, 2, 3, 4] * 3
    table = pd.DataFrame(
        {"tokens": [loop, window, list(range(12)), loop], "truncated": [True, True, True, False]}
    )
    config = preset("tiny").with_settings({"steps": 8, "repeat_window": 4})
    record = RunRecord(
        {"run_id": "r", "seed": 3, "state": "finished", "config": config.to_dict()},
        [], [], tmp_path,
    )  # fmt: skip
    (tmp_path / "completions").mkdir()
    table.to_parquet(tmp_path / "completions" / "step_000005.parquet")
    rows = repetition_rows(record)
    assert [row["step"] for row in rows] == [2, 4, 6, 8]
    assert [row["responses"] for row in rows] == [0, 0, 4, 0]
    found = {name: rows[2][name] for name in ("truncated", "window", "periodic")}
    assert found == {"truncated": 3, "window": 1, "periodic": 2}
    assert json.dumps(rows)


def test_an_unknown_experiment_is_an_error():
    with pytest.raises(UserError, match="unknown experiment"):
        experiments.planned_together(["results", "temprature"])


def test_a_study_needs_a_profile_that_it_can_compare():
    with pytest.raises(UserError, match="unknown profile for the arm 'older' 'nano-m'"):
        planned_study(None, "cross_model", "nano-m")
    with pytest.raises(UserError, match="a comparison is made at one profile at a time"):
        planned_study(None, "batch_size", ["nano", "nano-m"])
