"""The parts of claims, from the curves of runs aligned by seed and by problem.

Axis letters: S seeds, N points of a curve, P problems, R resampled problem sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from mcbench.claims.curves import LENGTH, REWARD, PassRates, RunCurves
from mcbench.claims.margins import MARGINS
from mcbench.claims.measurements import Measurements
from mcbench.claims.statistics import (
    HELD_OUT,
    Estimate,
    Statistic,
    estimate,
    resample_clusters,
    resample_problems,
)
from mcbench.errors import UserError

MIN_POINTS = 5  # of a curve; a trial of a few steps decides nothing


@dataclass(frozen=True)
class Series:
    """One arm's curves: ``x`` (N,), ``y`` (S, N); ``resampled`` (R, S, N) where problems count."""

    x: np.ndarray
    y: np.ndarray
    resampled: np.ndarray | None = None

    def take(self, statistic: Statistic) -> np.ndarray:
        """A statistic of every seed's curve."""
        return statistic(self.x, self.y)

    def percent(self) -> Series:
        """Shares as percent."""
        return Series(self.x, 100 * self.y)


INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Part:
    """One statement of a claim, as a number that is positive when the statement holds.

    ``threshold`` marks a comparison with something else than nothing ("twice as much"), which
    therefore has no margin. What is ``beside`` is measured and told, and decides nothing. ``state``
    and ``seeds_needed`` (for a decision; None where unknown) are given when the claim is assessed.
    ``margins`` multiplies the margin: 1 in every verdict, another number only to ask what if.
    """

    name: str
    estimate: Estimate
    unit: str
    threshold: bool = False
    beside: bool = False
    state: str = INCONCLUSIVE
    seeds_needed: int | None = None
    margins: float = 1.0

    @property
    def margin(self) -> float | None:
        """Within which there is no effect; None where a threshold is asked for."""
        return None if self.threshold else self.margins * MARGINS[self.unit].value


def part(
    name: str,
    unit: str,
    *terms: tuple[float, Series, Statistic],
    constant: float = 0.0,
    resolution: float = 0.0,
    threshold: bool = False,
    beside: bool = False,
) -> Part:
    """``constant`` plus the sum of factor x statistic of a series: per seed, then over seeds.

    Args:
        terms: (factor, series, statistic); the series of all terms have the same seeds.
        resolution: the spacing of the values that a statistic can take, such as steps.
        threshold, beside: see :class:`Part`.
    """
    values = constant + sum(factor * series.take(statistic) for factor, series, statistic in terms)
    resampled = None
    if any(s.resampled is not None for _, s, _ in terms):
        resampled = constant + sum(
            factor * statistic(s.x, s.y if s.resampled is None else s.resampled)
            for factor, s, statistic in terms
        )
    spacing = resolution * float(np.sqrt(sum(factor**2 for factor, _, _ in terms)))
    assert isinstance(values, np.ndarray)
    assert resampled is None or isinstance(resampled, np.ndarray)
    held_out = any(statistic in HELD_OUT for _, _, statistic in terms)
    found = estimate(values, resampled, spacing, held_out)
    return Part(name, found, unit, threshold, beside)


def difference(name: str, unit: str, ours: Series, other: Series, statistic: Statistic) -> Part:
    """The part ``statistic`` of ours minus of the other."""
    return part(name, unit, (1.0, ours, statistic), (-1.0, other, statistic))


class View(NamedTuple):
    """Which held-out pass@1 is read.

    Attributes:
        longest: with responses of up to the longest evaluated length, not the training length.
        cool: sampled at the lowest evaluated temperature, not the highest.
        shape: at every evaluation, on the problems that all have; not only at those on all.
        solved: the share of problems that any attempt solves, in place of pass@1.
        difficulty, kind: of the problems that count; all where empty.
    """

    longest: bool = False
    cool: bool = False
    shape: bool = False
    solved: bool = False
    difficulty: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Evidence:
    """The runs of a claim's arms, ``arms[arm][seed]``, and measurements beside them.

    Intervals of accuracy hold for other problems like these, and what is like these is a choice.
    Problems resampled one by one ask for the same features as these: an induced problem is one of
    few hidden expressions, with a constant and examples of its own. With ``by_feature`` all
    problems of an expression are drawn together
    (:func:`mcbench.claims.statistics.resample_clusters`), so that the intervals hold for other
    expressions, too. That takes the expressions, which were written by hand, for a random sample,
    and each described problem for one of its own. The spread over so few of them is taken as known
    (a normal distribution), so that such an interval is rather too narrow than too wide.
    """

    arms: Mapping[str, Mapping[int, RunCurves]]
    measurements: Measurements = ()
    experiment: str = ""
    by_feature: bool = False

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Those that every arm was run with; without arms those that were measured."""
        if self.arms:
            return tuple(sorted(set.intersection(*map(set, self.arms.values()))))
        rows = [row for row in self.measurements if row.get("experiment") == self.experiment]
        return tuple(sorted({int(row["seed"]) for row in rows if "seed" in row}))

    def reward(self, arm: str) -> Series:
        """Mean reward of a generation, in points (percent)."""
        return self.logged(arm, REWARD).percent()

    def length(self, arm: str) -> Series:
        """Mean response length of a generation, in tokens."""
        return self.logged(arm, LENGTH)

    def logged(self, arm: str, column: str) -> Series:
        """A column of the step records at the steps that all seeds have.

        Raises:
            UserError: a run lacks the column.
        """
        runs = [self.arms[arm][seed] for seed in self.seeds]
        if any(column not in run.logged for run in runs):
            raise NotLogged(f"arm {arm} has runs that did not log {column}")
        return _aligned([run.logged[column] for run in runs], f"{column} of arm {arm}")

    def accuracy(self, arm: str, **how: Any) -> Series:
        """Held-out pass@1 in percent, with resampled problems: those that all runs of all arms were
        evaluated on; ``how`` is what a :class:`View` holds.

        Raises:
            UserError: a run has no such evaluations.
        """
        key = arm, View(**how)
        if key not in self._accuracies:
            self._accuracies[key] = self._accuracy(*key)
        return self._accuracies[key]

    @cached_property
    def _accuracies(self) -> dict[tuple[str, View], Series]:
        return {}

    def _accuracy(self, arm: str, view: View) -> Series:
        rates = {
            (name, seed): _chosen(self.arms[name][seed], view)
            for name in self.arms
            for seed in self.seeds
        }
        known = [one for one in rates.values() if one is not None]
        problems = _common_problems(known, view) if len(known) == len(rates) else []
        if not problems:
            which = "".join(f" {value}" for value in (view.difficulty, view.kind) if value)
            raise UserError(f"arm {arm} has runs without evaluations on common{which} problems")
        runs = [run for seed in self.seeds if (run := rates[arm, seed]) is not None]
        tables = [run.values[:, np.searchsorted(run.problems, problems)] for run in runs]
        tables = [100.0 * (table > 0) for table in tables] if view.solved else tables
        curves = [(run.steps, table.mean(axis=1)) for run, table in zip(runs, tables, strict=True)]
        course = view._replace(shape=True)
        evaluated = [_chosen(self.arms[arm][seed], course) for seed in self.seeds]
        steps = [one.steps for one in evaluated if one is not None]
        series = _aligned(curves, f"accuracy of arm {arm}", steps)
        shared = [t[np.isin(run.steps, series.x)] for run, t in zip(runs, tables, strict=True)]
        # Divided last: products of passes in percent and whole numbers add up exactly, in whatever
        # order the threads of a machine take them.
        counts = self._drawn(known[0], problems)
        total = np.einsum("snp,rp->rsn", np.stack(shared), counts, optimize=True)
        return Series(series.x, series.y, total / counts.sum(axis=1)[:, None, None])

    def _drawn(self, rates: PassRates, problems: Sequence[str]) -> np.ndarray:
        """How often each problem is drawn (R, P), alone or with all of its feature."""
        if not self.by_feature:
            return resample_problems(len(problems))
        cluster = dict(zip(rates.problems, rates.clusters or rates.problems, strict=True))
        return resample_clusters(tuple(cluster[one] for one in problems))

    @cached_property
    def views(self) -> list[tuple[str, dict[str, Any], bool]]:
        """The ways in which accuracy is measured here: what to add to a name, arguments for
        :meth:`accuracy`, and whether it is beside those that decide (all problems at the highest
        temperature, at the training length and at the longest).
        """
        runs = [self.arms[arm][seed] for arm in self.arms for seed in self.seeds]
        lengths = {length for run in runs for length, _ in run.rates}
        temperatures = {temperature for run in runs for _, temperature in run.rates}
        kinds = {kind for run in runs for rates in run.rates.values() for kind in rates.kinds}
        long: list[tuple[str, dict[str, Any]]] = [("", {})]
        if len(lengths) > 1 and any(map(_longer_is_different, runs)):
            long.append((" at the longest length", {"longest": True}))
        beside: list[tuple[str, dict[str, Any]]] = []
        if len(kinds) > 1 and INDUCED in kinds:
            beside.append((", induced problems", {"kind": INDUCED}))
        if len(temperatures) > 1:
            beside.append((f", at T = {min(temperatures):g}", {"cool": True}))
        return [
            (at + which, {**length, **more}, bool(which))
            for which, more in [("", {}), *beside]
            for at, length in long
        ]


INDUCED = "induced"


class NotLogged(UserError):
    """Runs lack a column."""


def _chosen(run: RunCurves, view: View) -> PassRates | None:
    """A run's pass rates at one length and temperature; None where there are none."""
    if not run.rates:
        return None
    length = (max if view.longest else min)(length for length, _ in run.rates)
    temperatures = [temperature for at, temperature in run.rates if at == length]
    how = length, (min if view.cool else max)(temperatures)
    return run.shapes.get(how, run.rates[how]) if view.shape else run.rates[how]


def _longer_is_different(run: RunCurves) -> bool:
    """Whether any rate at the longest length is not that at the shortest."""
    short, long = (_chosen(run, View(longest)) for longest in (False, True))
    return short is not None and long is not None and not np.array_equal(short.values, long.values)


def _common_problems(rates: Sequence[PassRates], view: View) -> list[str]:
    """Problems that all runs were evaluated on; of one difficulty or kind, where that is asked."""
    shared, first = set.intersection(*(set(run.problems) for run in rates)), rates[0]
    for labels, wanted in (
        (first.difficulties, view.difficulty),
        (first.kinds, view.kind),
    ):
        if wanted:
            found = dict(zip(first.problems, labels, strict=True))
            shared = {problem for problem in shared if found[problem] == wanted}
    return sorted(shared)


def _aligned(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
    what: str,
    evaluated: Sequence[np.ndarray] | None = None,
) -> Series:
    """Curves of several seeds at the steps that all of them have.

    Args:
        evaluated: the steps of evaluations of any size, where the curves have only some of them.

    Raises:
        UserError: those are too few to speak of a curve.
    """
    steps = _in_all([x for x, _ in curves])
    points = len(_in_all(evaluated) if evaluated else steps)
    if points < MIN_POINTS:
        raise UserError(f"{what} has {points} points in common; {MIN_POINTS} are needed")
    return Series(steps, np.stack([y[np.isin(x, steps)] for x, y in curves]))


def _in_all(steps: Sequence[np.ndarray]) -> np.ndarray:
    return reduce(np.intersect1d, steps)
