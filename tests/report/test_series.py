from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mcbench.errors import UserError
from mcbench.report import figures, panels, series
from mcbench.runs.store import RunRecord

from .synthetic import make_record


def test_interval_is_students_t_over_seeds() -> None:
    runs = {seed: pd.Series([value], index=[1]) for seed, value in enumerate([1.0, 2.0, 3.0])}
    curve = series.make_curve("a", runs)
    assert curve is not None
    # s = 1, n = 3: half = 4.303 / sqrt(3)
    assert curve.mean[0] == 2.0
    assert curve.high[0] - curve.mean[0] == pytest.approx(2.4843, abs=1e-3)


def test_mean_stops_where_a_seed_ended() -> None:
    runs = {0: pd.Series([1.0, 2.0], index=[1, 2]), 1: pd.Series([3.0], index=[1])}
    curve = series.make_curve("a", runs)
    assert curve is not None
    assert curve.mean[0] == 2.0
    assert np.isnan(curve.mean[1])
    assert np.isnan(curve.low).all()  # two seeds carry no band


def test_steps_without_the_value_are_skipped_and_repeats_count_once() -> None:
    frame = pd.DataFrame({"step": [1, 2, 3, 3], "reward": [0.5, None, 0.1, 0.7]})
    assert series.by_step(frame, "reward").to_dict() == {1: 0.5, 3: 0.7}


def test_running_mean_shortens_at_the_ends() -> None:
    values = np.array([[0.0, 3.0, 6.0, 9.0]])
    assert series.running_mean(values, 3).tolist() == [[1.5, 3.0, 6.0, 7.5]]


def test_an_arm_that_never_logged_a_column_has_no_curve() -> None:
    arms = {"grpo_plus": [make_record("grpo_plus", 0)]}
    assert series.step_curves(arms, "kl") == []
    assert series.eval_lengths(arms) == [128, 256]


def test_a_run_that_has_only_begun_is_no_error() -> None:
    empty = make_record("grpo", 0)
    empty.step_lines.clear()
    empty.eval_lines.clear()
    assert series.step_curves({"grpo": [empty]}, "reward") == []
    assert series.eval_lengths({"grpo": [empty]}) == []


def test_a_wider_window_never_smooths_less() -> None:
    rng = np.random.default_rng(0)
    runs = {0: pd.Series(rng.normal(size=20), index=np.arange(20))}
    curve = series.make_curve("a", runs)
    assert curve is not None
    spreads = [series.smooth(curve, window).mean.std() for window in (1, 9, 19, 21, 41)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] == pytest.approx(0)  # all of 20 points within 41


@pytest.mark.parametrize("seeds", [3, 5, 40])
def test_the_quantile_is_students_t(seeds: int) -> None:
    assert series.t_quantile(seeds) == pytest.approx(stats.t.ppf(0.975, seeds - 1))


# Evaluations that measure something else ---------------------------------------------------------


def otherwise(record: RunRecord, **measured: Any) -> RunRecord:
    """The run with evaluations that were measured in another way."""
    return replace(record, eval_lines=[{**line, **measured} for line in record.eval_lines])


def test_evaluations_measured_in_another_way_are_never_averaged() -> None:
    runs = [make_record("grpo", seed) for seed in range(4)]
    short = otherwise(runs[3], dataset_hash="feedfacefeedface", attempts=2, pass_at_1=1.0)
    (alone,) = series.eval_curves({"grpo": runs[:3]}, "pass_at_1", 128)
    (mixed,) = series.eval_curves({"grpo": [*runs[:3], short]}, "pass_at_1", 128)
    assert mixed.seeds == (0, 1, 2)
    np.testing.assert_array_equal(mixed.mean, alone.mean)
    kept, told = series.comparable({"grpo": [*runs[:3], short]}, 128)
    assert kept == ("nano:test", "0a2389caf05cfe8d", 4, 1.0)
    assert told == (
        "Left out, because they were measured in another way than the 21 shown (nano:test, "
        "problems 0a2389ca, 4 attempts, T = 1): 7 of GRPO (problems feedface, 2 attempts)."
    )
    told = series.not_shown({"grpo": [*runs[:3], short]}, 128)
    assert told == "Evaluations on other problems at 2 attempts are not in this figure."
    assert series.not_shown({"grpo": runs}, 128) == ""


def test_evaluations_on_all_problems_at_the_run_s_own_temperature_are_shown() -> None:
    record = make_record("grpo", 0)
    steps = sorted({line["step"] for line in record.eval_lines})
    lines: list[dict[str, Any]] = []
    for line in record.eval_lines:
        part = {**line, "dataset_hash": "feedface"}  # in the order of runs/train.py
        lines += (
            [part] if line["step"] in steps[1:-1] else [line, part, {**line, "temperature": 0.6}]
        )
    arms = {"grpo": [replace(record, eval_lines=lines)]}
    kept, told = series.comparable(arms, 128)
    assert kept == ("nano:test", "0a2389caf05cfe8d", 4, 1.0)
    assert f"{len(steps)} of GRPO (problems feedface)" in told
    (curve,) = series.eval_curves(arms, "pass_at_1", 128)
    assert curve.x.tolist() == [steps[0], steps[-1]]


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"temperature": 0.6}, "at T = 0.6"),
        ({"attempts": 8}, "at 8 attempts"),
        ({"dataset_hash": None}, "without a record of how they were measured"),
        ({"dataset": "mine", "dataset_hash": "feedface"}, "on mine"),
    ],
)
def test_the_panel_says_what_is_left_out_and_why(measured: dict[str, Any], words: str) -> None:
    arms = {
        "grpo": [make_record("grpo", seed) for seed in range(2)],
        "mine": [otherwise(make_record("microcoder", 0), **measured)],
    }
    made = panels.panel("accuracy", arms)
    assert made.missing == f"Evaluations {words} of mine are not in this figure."
    assert {trace["legendgroup"] for trace in made.plots[0].figure.data} == {"grpo"}
    shown = figures.accuracy(arms, 128).layout["title"]
    assert words in shown["subtitle"]["text"]
    assert "subtitle" not in figures.accuracy({"grpo": arms["grpo"]}, 128).layout["title"]


# Unfinished runs ---------------------------------------------------------------------------------


def test_unfinished_runs_are_marked_in_labels_and_panels() -> None:
    done, begun = make_record("grpo", 0), make_record("grpo", 1, state="running")
    begun = replace(begun, step_lines=begun.step_lines[:40])
    failed = make_record("microcoder", 0, state="failed")
    arms = {"grpo": [done, begun], "microcoder": [failed]}
    made = panels.panel("reward", arms)
    names = {trace["name"] for trace in made.plots[0].figure.data}
    assert names == {
        "GRPO (1 of 2 seeds unfinished, step 40 of 60)",
        "MicroCoder-GRPO (failed, step 60 of 60)",
    }
    assert made.missing == (
        "Not finished: GRPO: 1 of 2 seeds unfinished, step 40 of 60; "
        "MicroCoder-GRPO: failed, step 60 of 60."
    )
    assert panels.panel("reward", {"grpo": [done]}).missing == ""


# Panels by name ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "captions"),
    [
        ("length", ["Response length"]),
        ("accuracy", ["pass@1 with up to 128 tokens (the training length)",
                      "pass@1 with up to 256 tokens"]),
        ("entropy", ["Token entropy"]),
        ("truncated", ["Truncated responses"]),
        ("mask_rules", ["GRPO"]),
    ],
)  # fmt: skip
def test_a_panel_shows_what_its_name_says(name: str, captions: list[str]) -> None:
    made = panels.panel(name, {"grpo": [make_record("grpo", 0)]})
    assert [plot.caption for plot in made.plots] == captions


def test_an_unknown_panel_is_refused_with_what_it_resembles() -> None:
    with pytest.raises(UserError, match="did you mean diversity"):
        panels.panel("divresity", {})


def test_runs_of_one_arm_and_seed_are_told_apart_by_their_settings() -> None:
    runs = [make_record("grpo", 0), make_record("grpo", 0, steps=20), make_record("grpo_plus", 0)]
    grouped = series.group_runs((series.arm_of(one), one) for one in runs)["nano-s"]
    assert list(grouped) == ["grpo (steps 60)", "grpo (steps 20)", "grpo_plus"]
    assert [one.config.steps for (one,) in grouped.values()][:2] == [60, 20]
