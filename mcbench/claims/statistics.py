"""Statistics of training runs: few seeds, many problems, curves over steps.

Axis letters: S seeds, P problems (prompts), N points of a curve, R resamples; ``...`` any leading
axes. Curves are given as ``x`` (N,), the steps, and ``y`` (..., N).

Why no percentile bootstrap over seeds: three or five seeds resampled with replacement undercover
badly, and a studentised one breaks because all resampled seeds are often the same. So seeds enter
through Student's t of one value a seed, problems through resampling them for all seeds together,
and :func:`estimate` adds the two; simulated runs confirm the coverage (the tests repeat it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy import optimize, signal, special

from mcbench.errors import UserError

CONFIDENCE = 0.95
RESAMPLES = 500
LAST = 0.25  # the last window: this share of the steps at the end
FIRST = 0.10  # the first window
# Seeds choose each other's peak, so values at held-out peaks are correlated and their mean varies
# up to twice as much as their scatter says (simulated: 2-8 seeds, 6-41 points, flat and rising).
HELD_OUT_INFLATION = 2.0
_NODES, _WEIGHTS = hermegauss(41)  # integrates over a standard normal
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

Curve = np.ndarray
Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]


# Summaries of one curve: (N,), (..., N) -> (...) ---------------------------------------------


def last_window(x: np.ndarray, y: Curve, share: float = LAST) -> np.ndarray:
    """Mean over the last ``share`` of the steps, the last point at least.

    What every claim, page and table of the project means by the end of training.
    """
    return y[..., _late(x, share)].mean(axis=-1)


def first_window(x: np.ndarray, y: Curve) -> np.ndarray:
    """Mean over the first :data:`FIRST` of the steps, the first point at least."""
    return y[..., _early(x)].mean(axis=-1)


def mean_between(done: np.ndarray, y: Curve, start: float, end: float) -> np.ndarray:
    """Mean over the points after ``start`` and up to ``end``, shares of the training that are
    ``done`` (N,) at each point.

    Raises:
        UserError: no point lies there.
    """
    inside = (done > start) & (done <= end + 1e-9)
    if not inside.any():
        raise UserError(f"no point of the curve between {start:.0%} and {end:.0%} of the training")
    return y[..., inside].mean(axis=-1)


def _early(x: np.ndarray) -> np.ndarray:
    return x <= x[0] + FIRST * (x[-1] - x[0])


def _late(x: np.ndarray, share: float) -> np.ndarray:
    late = x > x[-1] - share * (x[-1] - x[0])
    late[-1] = True
    return late


def area_under_curve(x: np.ndarray, y: Curve) -> np.ndarray:
    """Area by the trapezoid rule over the width: the mean height, in the curve's own unit."""
    if len(x) == 1:
        return y[..., 0]
    return np.trapezoid(y, x, axis=-1) / (x[-1] - x[0])


def slope(x: np.ndarray, y: Curve) -> np.ndarray:
    """Least-squares slope a step; 0 for a single point.

    One value a seed given to :func:`estimate` is the slope with its interval. The residuals of one
    training curve depend on each other, so a regression's own interval would be too narrow.
    """
    centred = x - x.mean()
    return y @ centred / max(float(centred @ centred), np.finfo(float).tiny)


def growth(x: np.ndarray, y: Curve) -> np.ndarray:
    """Slope times width: the rise over the whole curve by its straight line."""
    return slope(x, y) * (x[-1] - x[0])


def smooth(x: np.ndarray, y: Curve, share: float = FIRST) -> Curve:
    """Mean over the points within ``share`` of the width, centred; fewer points at the ends."""
    near = np.abs(x[:, None] - x[None, :]) <= share / 2 * (x[-1] - x[0]) + 1e-9
    return y @ (near / near.sum(axis=0))


def peak(x: np.ndarray, y: Curve) -> np.ndarray:
    """The highest smoothed value. Noise lifts it, so compare it only between like curves."""
    return smooth(x, y).max(axis=-1)


def peak_step(x: np.ndarray, y: Curve) -> np.ndarray:
    """The step of the highest smoothed value, the first where several are equal."""
    return x[smooth(x, y).argmax(axis=-1)]


def drop_from_peak(x: np.ndarray, y: Curve) -> np.ndarray:
    """Peak minus last-window value. Noise lifts it: see :func:`fall_from_peak` for an unbiased one.

    The difference of two arms is unbiased as long as their noise is alike.
    """
    return peak(x, y) - last_window(x, y)


def first_peak_step(x: np.ndarray, y: Curve, prominence: float = 0.5) -> np.ndarray:
    """The step of the first smoothed maximum that stands out, by a share of the curve's own range.

    A curve without one, such as one that rises to its end, has its peak where it is highest.
    """
    smoothed = smooth(x, y)
    rows = smoothed.reshape(-1, len(x))
    steps = []
    for row in rows:
        peaks, _ = signal.find_peaks(row, prominence=prominence * np.ptp(row))
        steps.append(x[peaks[0] if len(peaks) and np.ptp(row) else row.argmax()])
    return np.array(steps).reshape(smoothed.shape[:-1])


def change_point(x: np.ndarray, y: Curve) -> np.ndarray:
    """The step at which a curve bends: where the two straight lines of its least-squares broken
    line meet, at any inner point with two on either side.

    Raises:
        UserError: fewer than five points.
    """
    if len(x) < 5:
        raise UserError(f"a change point needs at least 5 points, got {len(x)}")
    errors = []
    for at in range(1, len(x) - 1):
        design = np.stack([np.ones(len(x)), x - x[at], np.maximum(x - x[at], 0)], axis=1)
        fit = y @ np.linalg.pinv(design).T
        errors.append(((y - fit @ design.T) ** 2).sum(axis=-1))
    return x[np.stack(errors).argmin(axis=0) + 1]


def held_out_peak(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """For each seed the index of the highest point between the first and the last window, found on
    the other seeds.

    A seed's own maximum is high by selection, so a fall from it says nothing. Chosen on the mean of
    the other seeds, the place is independent of the seed's own noise; :func:`estimate` has to be
    told (``held_out``), because the seeds' values then depend on each other.

    Args:
        y: (..., S, N); a single seed uses its own maximum.

    Returns:
        Indices (..., S) into x.

    Raises:
        UserError: no point lies between the windows.
    """
    inner = np.flatnonzero(~_early(x) & ~_late(x, LAST))
    if not len(inner):
        raise UserError(f"a peak needs points between the first and last window, got x = {x}")
    smoothed = smooth(x, y)[..., inner]
    seeds = y.shape[-2]
    if seeds > 1:
        smoothed = (smoothed.sum(axis=-2, keepdims=True) - smoothed) / (seeds - 1)
    return inner[smoothed.argmax(axis=-1)]


def _at(y: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(y, index[..., None], axis=-1)[..., 0]


def rise_to_peak(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Value at the :func:`held_out_peak` minus first-window value; (..., S, N) -> (..., S).

    0 on average in noise, negative when the curve only falls.
    """
    return _at(smooth(x, y), held_out_peak(x, y)) - first_window(x, y)


def fall_from_peak(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Value at the :func:`held_out_peak` minus last-window value; (..., S, N) -> (..., S).

    0 on average in noise, negative when the curve still rises.
    """
    return _at(smooth(x, y), held_out_peak(x, y)) - last_window(x, y)


HELD_OUT = (rise_to_peak, fall_from_peak)


def late_fall(x: np.ndarray, y: Curve) -> np.ndarray:
    """First minus last value of the last window: what is still lost when it should have settled."""
    late = smooth(x, y)[..., _late(x, LAST)]
    return late[..., 0] - late[..., -1]


# Intervals ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and what is known of its error.

    ``seed_variance`` and ``problem_variance`` are those of the mean. One seed, or seeds without any
    spread, have no variance (NaN): no interval, and p-values of 1.
    """

    value: float
    seeds: int
    seed_variance: float = np.nan
    problem_variance: float = 0.0

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The two-sided interval at a confidence; NaN where nothing is known of the error."""
        if np.isnan(self.seed_variance):
            return np.nan, np.nan
        inside = (1 + confidence) / 2
        scale = np.sqrt(self.seed_variance + self.problem_variance)
        seed_half = special.stdtrit(self.seeds - 1, inside) * np.sqrt(self.seed_variance)
        half = optimize.brentq(lambda h: self._below(h) - inside, 0.0, seed_half + 3 * scale)
        return self.value - half, self.value + half

    @cached_property
    def _usual(self) -> tuple[float, float]:
        return self.interval()

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self._usual[0]

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self._usual[1]

    @cached_property
    def p_above(self) -> float:
        """One-sided p-value of "not greater than 0" (small: the effect is positive)."""
        return self._below(-self.value)

    @cached_property
    def p_below(self) -> float:
        """One-sided p-value of "not less than 0" (small: the effect is negative)."""
        return self._below(self.value)

    @property
    def p_apart(self) -> float:
        """Two-sided p-value of "equal to 0"."""
        return min(1.0, 2 * min(self.p_above, self.p_below))

    def p_inside(self, margin: float) -> float:
        """p-value of "at least ``margin`` away from 0": the larger of two one-sided tests.

        It is at most 5 % just when the 90 % interval lies between -margin and margin.
        """
        return max(self._below(-(self.value + margin)), self._below(self.value - margin))

    def _below(self, distance: float) -> float:
        """Probability of an error of the mean of at most ``distance``; 1 without a variance."""
        if np.isnan(self.seed_variance):
            return 1.0
        return float(
            tail_probability(distance, self.seed_variance, self.problem_variance, self.seeds)
        )


def tail_probability(
    value: np.ndarray | float,
    seed_variance: np.ndarray | float,
    problem_variance: np.ndarray | float,
    seeds: int,
) -> np.ndarray:
    """P(√v_s·T + √v_p·Z ≤ value): T is Student's t with S - 1 degrees of freedom, Z normal.

    The Behrens–Fisher way of adding a variance known from few seeds to one known from many
    problems. Both variances are those of the mean; arrays broadcast.
    """
    seed_sd = np.sqrt(np.asarray(seed_variance, dtype=float))[..., None]
    shifted = np.asarray(value)[..., None] - np.sqrt(problem_variance)[..., None] * _NODES
    return special.stdtr(seeds - 1, shifted / seed_sd) @ _WEIGHTS


def estimate(
    values: np.ndarray,
    resampled: np.ndarray | None = None,
    resolution: float = 0.0,
    held_out: bool = False,
) -> Estimate:
    """Mean and interval of a statistic that was computed once per seed.

    Two sources of variance: seeds, by the spread of ``values`` with Student's t, and problems, by
    the spread of the mean over ``resampled`` problem sets. What single answers scatter is in both;
    it is taken out of the second as in a two-way analysis of variance.

    Args:
        values: (S,) the statistic, one value a seed (for instance a paired difference).
        resampled: (R, S) the same statistic on resampled problems, one resample for all seeds
            (:func:`resample_problems`, or :func:`resample_clusters`); None where problems are no
            source of variance.
        resolution: the spacing of values that can only fall on a grid, such as the step of a peak.
        held_out: whether the values depend on each other through :func:`held_out_peak`.
    """
    values = np.asarray(values, dtype=float)
    seeds = len(values)
    mean = float(values.mean())
    if seeds < 2 or not np.isfinite(values).all():
        return Estimate(mean, seeds)
    seed_variance = (values.var(ddof=1) + resolution**2 / 12) / seeds
    seed_variance *= HELD_OUT_INFLATION if held_out else 1.0
    if not seed_variance > (1e-9 * max(1.0, abs(mean))) ** 2:
        return Estimate(mean, seeds)
    problem_variance = 0.0 if resampled is None else _problem_variance(resampled)
    return Estimate(mean, seeds, float(seed_variance), problem_variance)


def _problem_variance(resampled: np.ndarray) -> float:
    """Variance of the mean (R, S) that the choice of problems adds to the seeds' own."""
    seeds = resampled.shape[1]
    means = resampled.mean(axis=1)
    single = (resampled - means[:, None]).var(axis=0, ddof=1).sum() / (seeds * (seeds - 1))
    return max(0.0, float(means.var(ddof=1) - single))


@lru_cache(maxsize=32)
def resample_problems(problems: int, draws: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """How often (R, P) each problem is drawn, with replacement: a row adds to ``problems``, and its
    product with problem-level values, divided by that, is a mean over a resampled set. The same
    seed gives the same counts.
    """
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(problems, np.full(problems, 1 / problems), size=draws).astype(float)
    counts.setflags(write=False)  # shared by all callers
    return counts


@lru_cache(maxsize=32)
def resample_clusters(clusters: tuple[str, ...]) -> np.ndarray:
    """As :func:`resample_problems`, but problems that hang together are drawn together: as many
    clusters as there are, with replacement, and all problems of each; ``clusters`` (P,) names them.

    The problems drawn (R, P) then add to another number in every row. Divided by that number, the
    product with problem-level values is a mean over problems in which a large cluster counts as
    much as its size (the ratio estimator), as it does in what is reported. Where every problem is
    its own cluster and they stand in order, these are the counts of :func:`resample_problems`.
    """
    names, place = np.unique(clusters, return_inverse=True)
    counts = resample_problems(len(names))[:, place]
    counts.setflags(write=False)
    return counts


def paired_difference(
    ours: np.ndarray, theirs: np.ndarray, clusters: tuple[str, ...] = ()
) -> Estimate:
    """Mean of ``ours - theirs``, paired by seed and problem: both (S, P).

    ``clusters`` (P,) names problems that are resampled together; without, each by itself.
    """
    if ours.shape != theirs.shape:
        raise UserError(f"pairs need equal shapes, got {ours.shape} and {theirs.shape}")
    gaps = ours - theirs
    counts = resample_clusters(clusters) if clusters else resample_problems(gaps.shape[1])
    return estimate(gaps.mean(axis=1), counts @ gaps.T / counts.sum(axis=1)[:, None])


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's step-down adjusted p-values, in the order given."""
    p = np.asarray(p_values, dtype=float)
    order = p.argsort(kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted
