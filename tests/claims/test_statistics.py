"""The statistics against closed forms, and their intervals against simulated runs."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from mcbench.claims import statistics as st
from mcbench.errors import UserError

slow = partial(pytest.param, marks=pytest.mark.slow)
X = np.arange(0.0, 101.0, 10.0)


def test_windows_area_and_slope_of_a_straight_line() -> None:
    line = 3 + 0.5 * X
    assert st.slope(X, line) == pytest.approx(0.5)
    assert st.growth(X, line) == pytest.approx(50)
    assert st.area_under_curve(X, line) == pytest.approx(28)
    assert st.last_window(X, line) == pytest.approx(np.mean([43, 48, 53]))
    assert st.first_window(X, line) == pytest.approx(np.mean([3, 8]))
    uneven = np.array([0.0, 1.0, 4.0])
    assert st.area_under_curve(uneven, np.array([0.0, 2.0, 2.0])) == pytest.approx(7 / 4)


def test_a_curve_of_one_point_has_a_height_and_no_slope() -> None:
    x, y = np.array([5.0]), np.array([[2.0]])
    for statistic in (st.last_window, st.first_window, st.area_under_curve, st.peak):
        assert statistic(x, y) == [2.0]
    assert st.slope(x, y) == [0.0]
    assert st.drop_from_peak(x, y) == [0.0]


def test_peak_step_and_drop() -> None:
    tent = np.array([0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0.0])
    assert st.peak(X, tent) == 5
    assert st.peak_step(X, np.stack([tent, X])).tolist() == [50, 100]
    assert st.drop_from_peak(X, tent) == pytest.approx(5 - 1)
    twice = np.array([0, 4, 0, 1, 0, 0, 9, 0, 0, 0, 0.0])
    assert st.first_peak_step(X, twice, prominence=0.3) == 10
    assert st.first_peak_step(X, twice, prominence=0.5) == 60
    assert st.first_peak_step(X, X) == 100


def test_change_point_of_a_broken_line() -> None:
    broken = np.where(X <= 40, 2 * X, 80 - 0.5 * (X - 40))
    assert st.change_point(X, np.stack([broken, -broken])).tolist() == [40, 40]
    with pytest.raises(UserError, match="at least 5 points"):
        st.change_point(X[:4], X[:4])


def test_mean_between_two_shares_of_the_training() -> None:
    assert st.mean_between(X / 100, X, 0.2, 0.5) == pytest.approx(np.mean([30, 40, 50]))
    with pytest.raises(UserError, match="no point of the curve between 91% and 95%"):
        st.mean_between(X / 100, X, 0.91, 0.95)


def test_held_out_peak_is_chosen_without_the_seed_itself() -> None:
    y = np.zeros((3, 11))
    y[0, 3], y[1, 5], y[2, 5] = 9, 1, 1
    assert st.held_out_peak(X, y).tolist() == [5, 3, 3]
    y[:, [0, 1, 8, 9, 10]] = 99  # the first and the last window are no candidates
    assert st.held_out_peak(X, y).tolist() == [5, 3, 3]
    assert st.rise_to_peak(X, y).tolist() == [-99, -99, -99]
    with pytest.raises(UserError, match="between the first and last window"):
        st.held_out_peak(X[:2], y[:, :2])


def test_rise_fall_and_late_fall_of_a_tent() -> None:
    tent = np.array([[0, 0, 2, 4, 6, 4, 2, 2, 2, 2, 1.0]] * 2)
    assert st.rise_to_peak(X, tent) == pytest.approx([6, 6])
    assert st.fall_from_peak(X, tent) == pytest.approx([6 - 5 / 3] * 2)
    assert st.late_fall(X, tent) == pytest.approx([1, 1])


def test_rise_and_fall_are_zero_on_average_in_noise() -> None:
    y = np.random.default_rng(1).normal(size=(20000, 3, 11))
    assert st.rise_to_peak(X, y).mean() == pytest.approx(0, abs=0.03)
    assert st.fall_from_peak(X, y).mean() == pytest.approx(0, abs=0.03)
    assert st.drop_from_peak(X, y).mean() > 1  # why a seed's own peak is no measure of a fall


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("points", [6, 11, 41])
def test_falls_from_held_out_peaks_are_covered(seeds: int, points: int) -> None:
    """They depend on each other; the interval allows for it. The curves rise to a plateau."""
    x = np.linspace(0, 100, points)
    y = np.random.default_rng([seeds, points]).normal(size=(1000, seeds, points))
    falls = st.fall_from_peak(x, y + 3 * np.minimum(1, x / 40))
    found = [st.estimate(values, held_out=True) for values in falls]
    assert np.mean([f.low <= 0 <= f.high for f in found]) >= 0.93
    assert np.mean([f.low > 0 for f in found]) <= 0.05


def test_without_problems_the_interval_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 4.5, 6.0])
    found = st.estimate(values)
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    test = stats.ttest_1samp(values, 0, alternative="greater")
    assert found.p_above == pytest.approx(test.pvalue)
    assert found.p_above + found.p_below == pytest.approx(1)
    inner = stats.t.interval(0.90, 4, values.mean(), stats.sem(values))
    assert found.interval(0.90) == pytest.approx(inner)
    assert found.p_inside(inner[1]) == pytest.approx(0.05)
    assert found.p_inside(4.0) == pytest.approx(
        stats.ttest_1samp(values, 4.0, alternative="less").pvalue
    )


def test_a_slope_has_an_interval_over_seeds() -> None:
    rng = np.random.default_rng(4)
    covered = []
    for _ in range(1000):
        lines = 0.3 * X + rng.normal(0, 5, (3, 1)) + rng.normal(0, 4, (3, len(X)))
        found = st.estimate(st.slope(X, lines))
        covered.append(found.low <= 0.3 <= found.high)
    assert 0.93 <= np.mean(covered) <= 0.97


def test_a_single_seed_or_equal_seeds_give_no_interval() -> None:
    for values in ([3.0], [2.0, 2.0, 2.0]):
        found = st.estimate(np.array(values))
        assert np.isnan(found.low)
        assert (found.p_above, found.p_below) == (1, 1)
    stepped = st.estimate(np.array([20.0, 20.0, 20.0]), resolution=10)
    assert stepped.low == pytest.approx(20 - stats.t.ppf(0.975, 2) * 10 / 6)


def test_resampled_problems_recover_the_two_way_analysis_of_variance() -> None:
    rng = np.random.default_rng(2)
    gaps = rng.normal(size=(5, 400)) + 2 * rng.normal(size=400) + rng.normal(size=(5, 1))
    residual = gaps - gaps.mean(1, keepdims=True) - gaps.mean(0) + gaps.mean()
    single = (residual**2).sum() / (4 * 399) / (5 * 400)
    exact = gaps.mean(0).var(ddof=1) / 400 - single
    resampled = st.resample_problems(400, 4000) @ gaps.T / 400
    assert st._problem_variance(resampled) == pytest.approx(exact, rel=0.1)


def test_resampled_means_are_the_same_to_the_last_bit_in_whatever_order_they_are_added():
    passes = 50.0 * np.random.default_rng(1).integers(0, 3, 240)  # percent of two attempts
    counts, order = st.resample_problems(240), np.random.default_rng(2).permutation(240)
    assert np.array_equal(counts @ passes, counts[:, order] @ passes[order])
    assert (counts.sum(axis=1) == 240).all()


def test_the_same_data_give_the_same_interval() -> None:
    ours, theirs = np.random.default_rng(3).random((2, 3, 40))
    assert st.paired_difference(ours, theirs) == st.paired_difference(ours, theirs)
    with pytest.raises(UserError, match="equal shapes"):
        st.paired_difference(ours, theirs[:2])


def simulated_gaps(
    rng: np.random.Generator, seeds: int, sd_seed: float, sd_problem: float
) -> np.ndarray:
    """Differences of pass@1 in points between two arms, (S, P): 120 problems x 4 attempts.

    The true mean over seeds and problems is 0: both arms draw their probabilities alike.
    """
    base = rng.beta(2, 2, 120) * 0.6 + 0.2
    arms = []
    for _ in range(2):
        chance = base + sd_problem / 100 * rng.choice([-1, 1], 120)
        chance = chance + sd_seed / 100 * rng.normal(size=(seeds, 1))
        arms.append(rng.binomial(4, chance.clip(0, 1)) / 4 * 100)
    return arms[0] - arms[1]


@pytest.mark.parametrize("seeds", [3, slow(5)])
@pytest.mark.parametrize(("sd_seed", "sd_problem"), [(2, 8), slow(2, 0), slow(0, 8), slow(4, 4)])
def test_95_percent_intervals_cover_95_percent(
    seeds: int, sd_seed: float, sd_problem: float
) -> None:
    rng = np.random.default_rng([seeds, sd_seed, sd_problem])
    found = []
    for _ in range(1500):
        gaps = simulated_gaps(rng, seeds, sd_seed, sd_problem)
        found.append(st.paired_difference(gaps, np.zeros_like(gaps)))
    covered = np.mean([f.low <= 0 <= f.high for f in found])
    assert 0.93 <= covered <= 0.97
    assert np.mean([f.low > 0 for f in found]) <= 0.05  # "supported" with no effect


def test_holm_by_hand() -> None:
    assert st.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert st.holm([0.5, 0.9]).tolist() == [1.0, 1.0]
