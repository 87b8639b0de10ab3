"""The rule by which the learning rates of the two nano regimes were chosen."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from mcbench.claims.protocol import PILOTS
from mcbench.experiments.regimes import (
    FOLDER,
    clipped_by_update,
    is_clip_pilot,
    masked_shares,
    regime_table,
    rise_and_fall,
    steady,
    stress_rate,
)
from mcbench.nano.saturated import measured
from mcbench.report.calibration import regime_section
from mcbench.runs.problems import load_problems
from mcbench.runs.records import read_records
from mcbench.runs.resolve import resolve

ROOT = Path(__file__).parents[2]


def test_rise_and_fall_are_of_means_of_three_evaluations():
    curve = [0.4, 0.5, 0.9, 0.4, 0.5, 0.3, 0.1]
    assert rise_and_fall(curve) == pytest.approx((0.2, 0.3))  # .6, .6, .4, .3 after the base's .4
    assert rise_and_fall([0.4, 0.5, 0.5, 0.5])[1] == 0


def record(rate, curve, seed=100):
    """Two problems, of which small evaluations (odd places) have the first alone."""
    lines = []
    for place, (first, second) in enumerate(curve):
        rows = [{"id": "a", "passes": first, "attempts": 10}]
        if place % 2 == 0:
            rows.append({"id": "b", "passes": second, "attempts": 10})
        for temperature in (0.6, 1.0):
            for length in (96, 192):
                counted = rows if (temperature, length) == (1.0, 96) else []
                lines.append(
                    {"step": 16 * place, "temperature": temperature, "per_problem": counted,
                     "max_completion_length": length}
                )  # fmt: skip
    config = SimpleNamespace(
        learning_rate=rate, eval_lengths=(96, 192), eval_temperature=1.0, num_iterations=None
    )
    return SimpleNamespace(config=config, eval_lines=lines, seed=seed)


def test_the_largest_rate_that_rises_and_falls_is_stress():
    steady = [(4, 9), (6, 0), (6, 9), (6, 0), (6, 9)]
    falls = [(4, 9), (6, 0), (6, 9), (6, 0), (2, 9)]
    never = [(4, 9), (3, 0), (2, 9), (1, 0), (0, 9)]
    table = regime_table([record(1e-4, steady), record(2e-4, falls), record(4e-4, never)])
    assert table["rises and falls"].tolist() == [False, True, False]
    assert table["fall"].tolist() == pytest.approx([0, 0.6 - 14 / 30, 0.1])
    assert stress_rate(table) == 2e-4
    section = regime_section([record(1e-4, steady), record(2e-4, falls)])
    assert section.prose.endswith("means of 3 evaluations: 0.0002.")
    (plot,) = section.blocks[0].plots
    assert [trace["name"] for trace in plot.figure.data] == ["0.0001", "0.0002"]
    assert plot.figure.data[1]["y"].tolist() == pytest.approx([40, 60, 60, 60, 20])
    assert stress_rate(table[:1]) is None


def test_the_committed_pilots_are_unmasked_runs_of_seeds_that_decide_no_claim():
    pilots = read_records(ROOT / "reports" / "records" / FOLDER)
    assert {run.config.recipe for run in pilots} == {"grpo_plus"}
    assert {run.seed for run in pilots} <= set(PILOTS)
    assert {r.config.learning_rate for r in pilots if not is_clip_pilot(r)} >= {2e-4, 3e-4, 5e-4}


def test_the_mechanisms_are_measured_on_unmasked_runs():
    config = resolve("nano-steady", "grpo_plus", {"learning_rate": 2e-4})
    clipped = [0.0, 0.01] * (config.train_batch_size // config.ppo_mini_batch_size)
    steps = pd.DataFrame({"step": range(1, len(clipped) + 1), "clip_ratio/region_mean": clipped})
    steps["mask/eligible_incorrect"] = 0.25
    run = SimpleNamespace(config=config, steps=steps)
    assert clipped_by_update(run).tolist() == [0.0, 0.01] * 4
    assert masked_shares(run).to_dict() == {0.1: 0.025, 0.2: 0.05, 0.3: 0.075, 1.0: 0.25}
    assert steady([run]) == [run]


@pytest.mark.slow
def test_a_set_is_saturated_by_what_was_measured():
    problems = load_problems("nano-saturated:train")
    assert len(problems) == 176
    assert {(p.kind, p.difficulty) for p in problems} == {("described", "easy")}
    assert {p.id for p in problems} == set(measured()["ids"])
