"""From run records to curves: one value per step and seed, their mean, and an interval.

Axis letters: S seeds, N steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_T95_MANY = 2.0
MIN_SEEDS_FOR_BAND = 3  # with two seeds the t interval is wider than any axis


class Record(Protocol):
    """What a page needs of a run: ``run.json``, one row per step and per evaluation, responses."""

    @property
    def meta(self) -> Mapping[str, Any]: ...
    @property
    def steps(self) -> pd.DataFrame: ...
    @property
    def evals(self) -> pd.DataFrame: ...
    @property
    def distributions(self) -> Mapping[int, Mapping[str, Any]]: ...
    def completion_steps(self) -> list[int]: ...
    def completions(self, step: int) -> pd.DataFrame: ...


Arms = Mapping[str, Sequence[Record]]


@dataclass(frozen=True)
class Curve:
    """One arm's curve. ``x`` (N,), ``runs`` (S, N), ``mean``, ``low`` and ``high`` (N,).

    ``mean`` is NaN wherever a seed has no value, so that it never jumps because a run ended early;
    ``low`` and ``high`` bound the mean's 95 % t interval over seeds, NaN under
    ``MIN_SEEDS_FOR_BAND`` seeds.
    """

    arm: str
    seeds: tuple[int, ...]
    x: np.ndarray
    runs: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def half_width(values: np.ndarray) -> np.ndarray:
    """Half the 95 % t interval of the mean over axis 0 (S, ...); NaN under three seeds."""
    seeds = values.shape[0]
    if seeds < MIN_SEEDS_FOR_BAND:
        return np.full(values.shape[1:], np.nan)
    quantile = _T95[seeds - 2] if seeds - 2 < len(_T95) else _T95_MANY
    return quantile * values.std(axis=0, ddof=1) / np.sqrt(seeds)


def make_curve(arm: str, runs: Mapping[int, pd.Series]) -> Curve | None:
    """Align one series per seed (index: step) on the union of their steps; None without values."""
    if not runs:
        return None
    found = {seed: series.dropna() for seed, series in sorted(runs.items())}
    steps = [series.index.to_numpy() for series in found.values()]
    if all(np.array_equal(steps[0], other) for other in steps[1:]):  # as a rule, and much faster
        x, values = steps[0], np.array([series.to_numpy(dtype=float) for series in found.values()])
        order = np.argsort(x, kind="stable")
        x, values = x[order], values[:, order]
    else:
        table = pd.DataFrame(found).sort_index().dropna(how="all")
        x, values = table.index.to_numpy(), table.to_numpy(dtype=float).T
    if not x.size:
        return None
    mean = values.mean(axis=0)
    half = half_width(values)
    return Curve(arm, tuple(map(int, found)), x, values, mean, mean - half, mean + half)


def seed_of(record: Record) -> int:
    """The run's seed, from ``run.json``."""
    return int(record.meta["seed"])


def by_step(frame: pd.DataFrame, column: str) -> pd.Series:
    """Index: step. A step that was run again after a resume counts once, with its last value."""
    numbers = pd.to_numeric(frame[column], errors="coerce")
    series = pd.Series(numbers.to_numpy(dtype=float), index=frame["step"].to_numpy(dtype=int))
    series = series.dropna()
    return series[~series.index.duplicated(keep="last")]


def step_curves(arms: Arms, column: str, scale: float = 1.0) -> list[Curve]:
    """Curves of a column of ``steps.jsonl``; arms that never logged it are left out."""
    curves = []
    for arm, records in arms.items():
        runs = {
            seed_of(record): by_step(record.steps, column) * scale
            for record in records
            if column in record.steps.columns
        }
        if runs and (curve := make_curve(arm, runs)):
            curves.append(curve)
    return curves


def distribution_curves(arms: Arms, name: str) -> list[Curve]:
    """Curves of one number of :mod:`mcbench.runs.distributions`, such as ``length/correct_p50``."""
    curves = []
    for arm, records in arms.items():
        runs = {
            seed_of(record): pd.Series(
                {
                    step: found[name]
                    for step, found in record.distributions.items()
                    if name in found
                },
                dtype=float,
            )
            for record in records
        }
        if curve := make_curve(arm, runs):
            curves.append(curve)
    return curves


def eval_curves(arms: Arms, column: str, length: int, scale: float = 1.0) -> list[Curve]:
    """Curves of a column of ``evals.jsonl`` at one maximum response length (tokens)."""
    curves = []
    for arm, records in arms.items():
        runs = {}
        for record in records:
            frame = record.evals
            if column in frame.columns:
                rows = frame[frame["max_completion_length"] == length]
                runs[seed_of(record)] = by_step(rows, column) * scale
        if runs and (curve := make_curve(arm, runs)):
            curves.append(curve)
    return curves


def eval_lengths(arms: Arms) -> list[int]:
    """The maximum response lengths that were evaluated, shortest (the training length) first."""
    lengths: set[int] = set()
    for records in arms.values():
        for record in records:
            if not record.evals.empty:
                lengths.update(int(value) for value in record.evals["max_completion_length"])
    return sorted(lengths)


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centred mean over ``window`` entries of the last axis, shorter at both ends.

    Missing values are left out, and stay missing.
    """
    if window <= 1:
        return values
    missing = np.isnan(values)
    count = values.shape[-1]
    first = np.maximum(0, np.arange(count) - (window - 1) // 2)
    last = np.minimum(count, np.arange(count) + window // 2 + 1)

    def sums(numbers: np.ndarray) -> np.ndarray:
        zero = np.zeros((*numbers.shape[:-1], 1))
        totals = np.concatenate([zero, numbers.cumsum(axis=-1, dtype=float)], axis=-1)
        return totals[..., last] - totals[..., first]

    means = sums(np.where(missing, 0.0, values)) / np.maximum(1, sums(~missing))
    return np.where(missing, np.nan, means)


def smooth(curve: Curve, window: int) -> Curve:
    """The same runs; mean and interval over seeds of the runs' running means."""
    if window <= 1 or curve.x.size < 2 * window:
        return curve
    values = running_mean(curve.runs, window)
    mean, half = values.mean(axis=0), half_width(values)
    return replace(curve, mean=mean, low=mean - half, high=mean + half)


def last_window(curve: Curve, count: int) -> np.ndarray:
    """Mean of each seed's last ``count`` values, (S,)."""
    tails = [row[~np.isnan(row)][-count:] for row in curve.runs]
    return np.array([tail.mean() if tail.size else np.nan for tail in tails])
