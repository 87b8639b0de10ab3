import numpy as np
import pandas as pd
import pytest

from mcbench.report import series

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
