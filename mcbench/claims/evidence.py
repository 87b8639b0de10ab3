"""The parts of claims, from the curves of runs aligned by seed and by problem.

Axis letters: S seeds, N points of a curve, P problems, R resampled problem sets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mcbench.claims.curves import (
    DIVERSITY,
    HEAD_DIVERSITY,
    LENGTH,
    REWARD,
    UNIQUE,
    PassRates,
    RunCurves,
)
from mcbench.claims.margins import DISTINCT, MARGINS, POINTS, PROGRAMS
from mcbench.claims.measurements import Measurements, table_of
from mcbench.claims.statistics import (
    HELD_OUT,
    Estimate,
    Statistic,
    area_under_curve,
    estimate,
    last_window,
    resample_clusters,
    resample_problems,
)
from mcbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

MIN_POINTS = 5  # of a curve; a trial of a few steps decides nothing


@dataclass(frozen=True)
class Series:
    """One arm's curves: ``x`` (N,), ``y`` (S, N); ``resampled`` (R, S, N) where problems count."""

    x: np.ndarray
    y: np.ndarray
    resampled: np.ndarray | None = None

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


Term = tuple[float, Series, Statistic]


def part(
    name: str,
    unit: str,
    *terms: Term,
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
    values = constant + sum(factor * statistic(s.x, s.y) for factor, s, statistic in terms)
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


def minus(ours: Series, other: Series, statistic: Statistic) -> list[Term]:
    """Terms for a statistic of ours minus that of the other."""
    return [(1.0, ours, statistic), (-1.0, other, statistic)]


def difference(name: str, unit: str, ours: Series, other: Series, statistic: Statistic) -> Part:
    """The part ``statistic`` of ours minus of the other."""
    return part(name, unit, *minus(ours, other, statistic))


def mean_of(series: Sequence[Series], statistic: Statistic, factor: float = 1.0) -> list[Term]:
    """Terms for the mean of a statistic over several arms."""
    return [(factor / len(series), one, statistic) for one in series]


def trend_of(
    series: Sequence[Series],
    positions: Sequence[float],
    statistic: Statistic,
    factor: float = 1.0,
) -> list[Term]:
    """Terms for the least-squares line of a statistic over arms: its rise from the lowest to the
    highest position, times ``factor``.
    """
    centred = np.asarray(positions, float) - np.mean(positions)
    weights = factor * np.ptp(centred) * centred / (centred @ centred)
    return [(float(weight), one, statistic) for weight, one in zip(weights, series, strict=True)]


Terms = Callable[[Callable[[str], Series], Statistic], list[Term]]
"""What is compared, given the curve of an arm by its name and the statistic of its end."""


def gap(ours: str, other: str, statistic: Statistic | None = None) -> Terms:
    """The end of one arm, or another statistic, minus that of another arm."""
    return lambda of, end: minus(of(ours), of(other), statistic or end)


def alone(arm: str, statistic: Statistic, factor: float = 1.0) -> Terms:
    """A statistic of one arm."""
    return lambda of, _: [(factor, of(arm), statistic)]


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
        rows = [row for row in self.measurements if row["experiment"] == self.experiment]
        return tuple(sorted({int(row["seed"]) for row in rows if "seed" in row}))

    def reward(self, arm: str) -> Series:
        """Mean reward of a generation, in points (percent)."""
        return self.logged(arm, REWARD).percent()

    def length(self, arm: str) -> Series:
        """Mean response length of a generation, in tokens."""
        return self.logged(arm, LENGTH)

    def diversity(self, arm: str) -> Series:
        """Distinct-4 of a generation."""
        return self.logged(arm, DIVERSITY)

    def logged(self, arm: str, column: str) -> Series:
        """A column of the step records at the steps that all seeds have.

        Raises:
            UserError: a run lacks the column.
        """
        runs = [self.arms[arm][seed] for seed in self.seeds]
        if any(column not in run.logged for run in runs):
            raise NotLogged(f"arm {arm} has runs that did not log {column}")
        return _aligned([run.logged[column] for run in runs], f"{column} of arm {arm}")

    def difference(
        self,
        name: str,
        unit: str,
        column: str,
        arms: tuple[str, str],
        statistic: Statistic = last_window,
    ) -> Part:
        """A part: a column of the first arm minus that of the second; shares in points."""
        ours, other = (self.logged(arm, column) for arm in arms)
        if unit == POINTS:
            ours, other = ours.percent(), other.percent()
        return difference(name, unit, ours, other, statistic)

    def accuracy(
        self,
        arm: str,
        longest: bool = False,
        cool: bool = False,
        shape: bool = False,
        **kind: str,
    ) -> Series:
        """Held-out pass@1 in percent, with resampled problems: those that all runs of all arms were
        evaluated on.

        Args:
            longest: with responses of up to the longest evaluated length, not the training length.
            cool: sampled at the lowest evaluated temperature, not the highest.
            shape: at every evaluation, on the problems that all have; not only at those on all.
            kind: ``difficulty`` or ``kind`` of the problems that count.

        Raises:
            UserError: a run has no such evaluations.
        """
        key = (arm, longest, cool, shape, *sorted(kind.items()))
        if key not in self._accuracies:
            self._accuracies[key] = self._accuracy(arm, longest, cool, shape, kind)
        return self._accuracies[key]

    @cached_property
    def _accuracies(self) -> dict[Any, Series]:
        return {}

    @property
    def on_problems(self) -> bool:
        """Whether something rested on accuracy so far, and so on which problems were drawn."""
        return bool(self._accuracies)

    def _accuracy(
        self, arm: str, longest: bool, cool: bool, shape: bool, kind: Mapping[str, str]
    ) -> Series:
        rates = {
            (name, seed): _chosen(self.arms[name][seed], longest, cool, shape)
            for name in self.arms
            for seed in self.seeds
        }
        known = [one for one in rates.values() if one is not None]
        problems = _common_problems(known, kind) if len(known) == len(rates) else []
        if not problems:
            which = "".join(f" {value}" for value in kind.values())
            raise UserError(f"arm {arm} has runs without evaluations on common{which} problems")
        runs = [run for seed in self.seeds if (run := rates[arm, seed]) is not None]
        tables = [run.values[:, np.searchsorted(run.problems, problems)] for run in runs]
        curves = [(run.steps, table.mean(axis=1)) for run, table in zip(runs, tables, strict=True)]
        series = _aligned(curves, f"accuracy of arm {arm}")
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
        hows = [set(run.rates) for run in runs]
        lengths, temperatures = (set.union(*({h[i] for h in one} for one in hows)) for i in (0, 1))
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

    def accuracy_parts(
        self,
        name: str,
        terms: Terms,
        *,
        shape: bool = False,
        **options: Any,
    ) -> list[Part]:
        """A statement on pass@1 at the training length and at the longest, which decide, and beside
        them on induced problems, at the lower temperature, and by the area under the curve.

        Args:
            terms: what is compared, given an arm's accuracy by name and the statistic of its end.
            shape: the statement is about the course of a curve: every evaluation counts, and
                nothing stands beside it.
            options: as for :func:`part`.
        """
        made = []
        for at, view, beside in self.views:
            if beside and shape:
                continue

            def accuracy(arm: str, view: Mapping[str, Any] = view) -> Series:
                return self.accuracy(arm, shape=shape, **view)

            made.append(
                part(name + at, POINTS, *terms(accuracy, last_window), beside=beside, **options)
            )
            if not beside and not shape:
                area = terms(accuracy, area_under_curve)
                made.append(part(f"{name}{at}, area", POINTS, *area, beside=True, **options))
        return sorted(made, key=lambda one: one.beside)

    def higher(self, ours: str, *others: str) -> list[Part]:
        """Pass@1 at the end, an arm minus each of the others."""
        return [
            one
            for other in others
            for one in self.accuracy_parts(
                f"pass@1 at the end, {ours} minus {other}", gap(ours, other)
            )
        ]

    def no_lower(self, ours: str, *others: str) -> list[Part]:
        """How much better than the margin below another arm's pass@1 an arm ends."""
        margin = MARGINS[POINTS].value
        return [
            one
            for other in others
            for one in self.accuracy_parts(
                f"pass@1 at the end, {ours} minus {other}, plus {margin:g}",
                gap(ours, other),
                constant=margin,
                threshold=True,
            )
        ]

    def diversity_parts(self, name: str, terms: Terms, **options: Any) -> list[Part]:
        """A statement on diversity by unique programs and by Distinct-4 of the first tokens, which
        decide, and beside them by Distinct-4 of whole responses, which falls with their length.

        Args:
            terms: as for :meth:`accuracy_parts`, given an arm's curve of a measure.

        A measure that some run did not log is a part without a number, so that the claim stays
        open.
        """
        made = []
        for what, unit, column in (
            ("unique programs", PROGRAMS, UNIQUE),
            ("Distinct-4 of the first tokens", DISTINCT, HEAD_DIVERSITY),
            ("Distinct-4", DISTINCT, DIVERSITY),
        ):
            beside = column == DIVERSITY

            def of(arm: str, column: str = column) -> Series:
                return self.logged(arm, column)

            try:
                one = part(
                    f"{name}, {what}", unit, *terms(of, last_window), beside=beside, **options
                )
            except NotLogged:
                nothing = Estimate(np.nan, len(self.seeds))
                one = Part(f"{name}, {what} (not logged)", nothing, unit, beside=beside)
            made.append(one)
        return made

    def table(self, kind: str) -> pd.DataFrame:
        """Measurements of one kind.

        Raises:
            UserError: there are none.
        """
        return table_of(self.measurements, kind, self.experiment)


INDUCED = "induced"


class NotLogged(UserError):
    """Runs lack a column."""


def _chosen(run: RunCurves, longest: bool, cool: bool, shape: bool) -> PassRates | None:
    """A run's pass rates at one length and temperature; None where there are none."""
    if not run.rates:
        return None
    length = (max if longest else min)(length for length, _ in run.rates)
    temperatures = [temperature for at, temperature in run.rates if at == length]
    how = length, (min if cool else max)(temperatures)
    return run.shapes.get(how, run.rates[how]) if shape else run.rates[how]


def _longer_is_different(run: RunCurves) -> bool:
    """Whether any rate at the longest length is not that at the shortest."""
    short, long = (_chosen(run, longest, cool=False, shape=False) for longest in (False, True))
    return short is not None and long is not None and not np.array_equal(short.values, long.values)


def _common_problems(rates: Collection[PassRates], wanted: Mapping[str, str]) -> list[str]:
    """Problems that all runs were evaluated on; of one difficulty or kind, where that is given."""
    shared = set.intersection(*(set(run.problems) for run in rates))
    first = next(iter(rates))
    for name, value in wanted.items():
        labels = {"difficulty": first.difficulties, "kind": first.kinds}[name]
        found = dict(zip(first.problems, labels, strict=True))
        shared = {problem for problem in shared if found[problem] == value}
    return sorted(shared)


def _aligned(curves: Sequence[tuple[np.ndarray, np.ndarray]], what: str) -> Series:
    """Curves of several seeds at the steps that all of them have.

    Raises:
        UserError: those are too few to speak of a curve.
    """
    steps: Any = curves[0][0]
    for x, _ in curves[1:]:
        steps = np.intersect1d(steps, x)
    if len(steps) < MIN_POINTS:
        raise UserError(f"{what} has {len(steps)} points in common; {MIN_POINTS} are needed")
    return Series(steps, np.stack([y[np.isin(x, steps)] for x, y in curves]))
