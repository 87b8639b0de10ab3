"""What claims read of a run: its logged columns and its held-out pass rates, as curves.

Axis letters: N points of a curve, P problems.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mcbench.runs.store import RunRecord

REWARD, LENGTH, DIVERSITY = "reward", "completions/mean_length", "diversity/distinct_4"
HEAD_DIVERSITY, UNIQUE = "diversity/distinct_4_first", "diversity/unique_programs"
CLIPPED, ENTROPY = "clip_ratio/region_mean", "entropy"
ALL_ENTROPY = "entropy/all_responses"  # TRL's leaves out what is removed from the loss
GROUPS = ("group/mixed", "group/all_fail")
CUT, WRONG_LENGTH = "mask/truncated", "length/incorrect_mean"
DIVERSITIES = (
    *(f"diversity/distinct_{n}" for n in (1, 2, 3, 4)),
    "diversity/self_bleu",
    UNIQUE,
)
SHORT_WEIGHT, LONG_WEIGHT = "correction/weight_to_50", "correction/weight_to_100"
LOGGED = (
    *(REWARD, LENGTH, *DIVERSITIES, HEAD_DIVERSITY, CLIPPED, ENTROPY, ALL_ENTROPY, *GROUPS),
    *(CUT, WRONG_LENGTH, SHORT_WEIGHT, LONG_WEIGHT),
)
LEVELS = ("easy", "medium", "hard")


@dataclass(frozen=True)
class PassRates:
    """Held-out pass rates of a run at one maximum length and temperature.

    ``values`` (N, P) is the share of attempts that passed, in percent, at ``steps`` (N,) and for
    ``problems`` (P,), sorted, of these ``difficulties`` and ``kinds`` (P,). ``clusters`` (P,) says
    which problems hang together (:func:`features_of`); empty where each stands for itself.
    """

    steps: np.ndarray
    problems: tuple[str, ...]
    values: np.ndarray
    difficulties: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()


Points = tuple[np.ndarray, np.ndarray]
"""Steps and values, (N,) each."""
How = tuple[int, float]
"""How answers were drawn: the maximum length and the temperature."""


@dataclass(frozen=True)
class RunCurves:
    """What claims read of one run.

    ``logged`` maps a column to its steps and values, (N,) each. ``rates`` are the held-out pass
    rates of the evaluations on all problems, by length and temperature; ``shapes`` those of all
    evaluations, on the problems that every one of them has, where some have fewer.
    """

    logged: Mapping[str, Points]
    rates: Mapping[How, PassRates]
    shapes: Mapping[How, PassRates] = field(default_factory=dict)


def run_curves(record: RunRecord, columns: Collection[str] = ()) -> RunCurves:
    """The curves of a record, with further ``columns`` of it; what it does not hold stays empty."""
    rates, shapes = {}, {}
    features = features_of(record.config.test_set) if record.eval_lines else {}
    for how in {_how(line) for line in record.eval_lines}:
        lines = [line for line in record.eval_lines if _how(line) == how]
        most = max(len(line["per_problem"]) for line in lines)
        whole = [line for line in lines if len(line["per_problem"]) == most]
        rates[how] = _pass_rates(whole, features)
        if len(whole) < len(lines):
            shapes[how] = _pass_rates(lines, features)
    return RunCurves(_logged(record, columns), rates, shapes)


def _logged(record: RunRecord, columns: Collection[str]) -> dict[str, Points]:
    """The columns of the steps; and what evaluations of a task tell beside pass@1, as
    ``eval/NAME``, at the shortest length.
    """
    wanted = {*LOGGED, *columns}
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for line in record.step_lines:
        for name, value in line.items():
            if value is not None and (name in wanted or name.startswith("task/")):
                found[name][int(line["step"])] = float(value)
    lines = [line for line in record.eval_lines if line.get("parts")]
    shortest = min((int(line["max_completion_length"]) for line in lines), default=0)
    for line in lines:
        if int(line["max_completion_length"]) == shortest:
            for name, value in line["parts"].items():
                found[f"eval/{name}"][int(line["step"])] = float(value)
    return {name: _in_order(points) for name, points in found.items()}


def _in_order(points: Mapping[int, float]) -> Points:
    steps = sorted(points)
    return np.array(steps, float), np.array([points[step] for step in steps])


def _how(line: Mapping[str, Any]) -> How:
    return int(line["max_completion_length"]), float(line.get("temperature", 1.0))


def _pass_rates(lines: Sequence[Mapping[str, Any]], features: Mapping[str, str]) -> PassRates:
    judged = {
        int(line["step"]): {row["id"]: row for row in line["per_problem"] if row["attempts"]}
        for line in lines
    }
    steps = sorted(judged)
    # A problem whose attempts were all lost to our own infrastructure is left out everywhere.
    problems = sorted(set.intersection(*map(set, judged.values())))
    values = [
        [100 * judged[step][one]["passes"] / judged[step][one]["attempts"] for one in problems]
        for step in steps
    ]
    asked = [judged[steps[0]][one] for one in problems]
    return PassRates(
        np.array(steps, float),
        tuple(problems),
        np.array(values).reshape(len(steps), -1),
        tuple(str(row.get("difficulty", "")) for row in asked),
        tuple(str(row.get("kind", "")) for row in asked),
        tuple(features.get(one, one) for one in problems),
    )


@cache
def features_of(test_set: str) -> Mapping[str, str]:
    """By id, what problems of an embedded set share: the feature of an induced problem
    (:func:`mcbench.worlds.problems.feature_of`), with other constants and examples, or the family
    of an easy function. Every other problem stands for itself, and so does each of a set that is
    not embedded.
    """
    from mcbench.runs.problems import SETS, load_problems
    from mcbench.worlds.problems import feature_of

    problems = load_problems(test_set) if test_set in SETS else ()
    shared = ((one.id, one.metadata.get("family") or feature_of(one)) for one in problems)
    return {problem: feature for problem, feature in shared if feature}


def features_in(runs: Iterable[RunCurves]) -> int:
    """Of how many features the held-out problems of runs are; 0 where no two share one."""
    of = {
        problem: cluster
        for run in runs
        for rates in run.rates.values()
        for problem, cluster in zip(rates.problems, rates.clusters, strict=False)
        if problem != cluster
    }
    features = len(set(of.values()))
    return features if features < len(of) else 0


RECORDED = 1e-3
"""Relative difference that compact records, of four digits, cannot tell."""


def duplicates(arms: Mapping[str, Mapping[int, RunCurves]]) -> dict[str, str]:
    """Arms that trained exactly as an earlier one did: all that was logged is equal, for every seed
    that both have, to the digits that compact records keep.
    """
    found: dict[str, str] = {}
    names = list(arms)
    for place, arm in enumerate(names):
        for earlier in names[:place]:
            seeds = arms[arm].keys() & arms[earlier].keys()
            if seeds and all(_logged_alike(arms[arm][s], arms[earlier][s]) for s in seeds):
                found[arm] = found.get(earlier, earlier)
                break
    return found


def _logged_alike(ours: RunCurves, other: RunCurves) -> bool:
    if not ours.logged or ours.logged.keys() != other.logged.keys():
        return False
    pairs = [(ours.logged[name], other.logged[name]) for name in ours.logged]
    return all(
        np.array_equal(x, x_other) and np.allclose(y, y_other, RECORDED, 0.0, equal_nan=True)
        for (x, y), (x_other, y_other) in pairs
    )


def alike(same: Mapping[str, str]) -> str:
    """A sentence on duplicates; empty without any."""
    told = [f"{arm} trained as {other} did" for arm, other in same.items()]
    return f"{', '.join(told)}, update by update" if told else ""
