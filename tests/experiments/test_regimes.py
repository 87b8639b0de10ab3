"""The rule by which the learning rates of the two nano regimes were chosen."""

from types import SimpleNamespace

import pytest

from mcbench.experiments.regimes import pilots, regime_table, rise_and_fall, stress_rate
from mcbench.report.calibration import regime_section


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
    config = SimpleNamespace(learning_rate=rate, eval_lengths=(96, 192), eval_temperature=1.0)
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


def test_pilots_are_unmasked_runs_of_seeds_that_decide_no_claim():
    runs = pilots()
    assert {run.config.recipe for run in runs} == {"grpo_plus"}
    assert min(run.config.seed for run in runs) >= 100
    assert len({run.config.run_id for run in runs}) == len(runs)
