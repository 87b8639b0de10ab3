"""From run records to the curves that claims compare, aligned by seed and by problem.

Axis letters: S seeds, N points of a curve, P problems, R resampled problem sets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mcbench.claims.measurements import Measurements, table_of
from mcbench.claims.statistics import HELD_OUT, Estimate, Statistic, estimate, resample_problems
from mcbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from mcbench.runs.store import RunRecord

REWARD, LENGTH, DIVERSITY = "reward", "completions/mean_length", "diversity/distinct_4"
CLIPPED, ENTROPY = "clip_ratio/region_mean", "entropy"
GROUPS = ("group/mixed", "group/all_fail")
DIVERSITIES = (
    *(f"diversity/distinct_{n}" for n in (1, 2, 3, 4)),
    "diversity/self_bleu",
    "diversity/unique_programs",
)
LOGGED = (REWARD, LENGTH, *DIVERSITIES, CLIPPED, ENTROPY, *GROUPS)
LEVELS = ("easy", "medium", "hard")
MIN_POINTS = 5  # of a curve; a trial of a few steps decides nothing


@dataclass(frozen=True)
class PassRates:
    """Held-out pass rates of a run at one maximum length.

    ``values`` (N, P) is the share of attempts that passed, in percent, at ``steps`` (N,) and for
    ``problems`` (P,), sorted, of these ``difficulties`` (P,).
    """

    steps: np.ndarray
    problems: tuple[str, ...]
    values: np.ndarray
    difficulties: tuple[str, ...]


@dataclass(frozen=True)
class RunCurves:
    """What claims read of one run.

    ``logged`` maps a column to its steps and values, (N,) each. ``rates`` are those with responses
    of up to the shortest evaluated length, which is the training length; ``longest`` those with the
    longest, where there are several.
    """

    logged: Mapping[str, tuple[np.ndarray, np.ndarray]]
    rates: PassRates
    longest: PassRates


def run_curves(record: RunRecord) -> RunCurves:
    """The curves of a record; what it does not hold stays empty."""
    logged = {}
    for column in LOGGED:
        points = {
            int(line["step"]): float(line[column])
            for line in record.step_lines
            if line.get(column) is not None
        }
        if points:
            steps = sorted(points)
            logged[column] = (np.array(steps, float), np.array([points[step] for step in steps]))
    lengths = {line["max_completion_length"] for line in record.eval_lines}
    shortest, longest = (pick(lengths, default=None) for pick in (min, max))
    return RunCurves(logged, _pass_rates(record, shortest), _pass_rates(record, longest))


def _pass_rates(record: RunRecord, length: int | None) -> PassRates:
    lines = {
        int(line["step"]): {row["id"]: row for row in line["per_problem"] if row["attempts"]}
        for line in record.eval_lines
        if line["max_completion_length"] == length
    }
    steps = sorted(lines)
    # A problem whose attempts were all lost to our own infrastructure is left out everywhere.
    problems = sorted(set.intersection(*map(set, lines.values()))) if lines else []
    values = [
        [100 * lines[step][one]["passes"] / lines[step][one]["attempts"] for one in problems]
        for step in steps
    ]
    return PassRates(
        np.array(steps, float),
        tuple(problems),
        np.array(values).reshape(len(steps), -1),
        tuple(str(lines[steps[0]][one].get("difficulty", "")) for one in problems),
    )


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

    ``state`` is given when the claim is assessed.
    """

    name: str
    estimate: Estimate
    unit: str
    state: str = INCONCLUSIVE


Term = tuple[float, Series, Statistic]


def part(
    name: str, unit: str, *terms: Term, constant: float = 0.0, resolution: float = 0.0
) -> Part:
    """``constant`` plus the sum of factor x statistic of a series: per seed, then over seeds.

    Args:
        terms: (factor, series, statistic); the series of all terms have the same seeds.
        resolution: the spacing of the values that a statistic can take, such as steps.
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
    return Part(name, estimate(values, resampled, spacing, held_out), unit)


def difference(name: str, unit: str, ours: Series, other: Series, statistic: Statistic) -> Part:
    """The part ``statistic`` of ours minus of the other."""
    return part(name, unit, (1, ours, statistic), (-1, other, statistic))


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


@dataclass(frozen=True)
class Evidence:
    """The runs of a claim's arms, ``arms[arm][seed]``, and measurements beside them."""

    arms: Mapping[str, Mapping[int, RunCurves]]
    measurements: Measurements = ()
    experiment: str = ""

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Those that every arm was run with."""
        return tuple(sorted(set.intersection(*map(set, self.arms.values())) if self.arms else ()))

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
            raise UserError(f"arm {arm} has runs that did not log {column}")
        return _aligned([run.logged[column] for run in runs], f"{column} of arm {arm}")

    def accuracy(self, arm: str, longest: bool = False, difficulty: str | None = None) -> Series:
        """Held-out pass@1 in percent, with resampled problems: those that all runs of all arms were
        evaluated on.

        Args:
            longest: with responses of up to the longest evaluated length, not the training length.
            difficulty: of the problems of this difficulty alone.

        Raises:
            UserError: a run has no evaluations.
        """
        rates = {
            (name, seed): self.arms[name][seed].longest if longest else self.arms[name][seed].rates
            for name in self.arms
            for seed in self.seeds
        }
        problems = _common_problems(rates.values(), difficulty)
        runs = [rates[arm, seed] for seed in self.seeds]
        if not all(len(run.steps) for run in runs) or not problems:
            kind = f" {difficulty}" if difficulty else ""
            raise UserError(f"arm {arm} has runs without evaluations on common{kind} problems")
        tables = [run.values[:, np.searchsorted(run.problems, problems)] for run in runs]
        curves = [(run.steps, table.mean(axis=1)) for run, table in zip(runs, tables, strict=True)]
        series = _aligned(curves, f"accuracy of arm {arm}")
        shared = [t[np.isin(run.steps, series.x)] for run, t in zip(runs, tables, strict=True)]
        weights = resample_problems(len(problems))
        resampled = np.einsum("snp,rp->rsn", np.stack(shared), weights, optimize=True)
        return Series(series.x, series.y, resampled)

    def table(self, kind: str) -> pd.DataFrame:
        """Measurements of one kind.

        Raises:
            UserError: there are none.
        """
        return table_of(self.measurements, kind, self.experiment)


def _common_problems(rates: Collection[PassRates], difficulty: str | None) -> list[str]:
    """Problems that all runs were evaluated on; of one difficulty, where that is given."""
    shared = set.intersection(*(set(run.problems) for run in rates))
    if difficulty is not None:
        first = next(iter(rates))
        level = dict(zip(first.problems, first.difficulties, strict=True))
        shared = {problem for problem in shared if level[problem] == difficulty}
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
