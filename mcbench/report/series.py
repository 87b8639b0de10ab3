"""From run records to arms and curves: one value per step and seed, their mean, and an interval.

Axis letters: S seeds, N steps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from mcbench.report.style import KNOWN, arm_styles
from mcbench.runs.config import SETTINGS, Config, family_of
from mcbench.worlds import TASK_SETS
from mcbench.worlds.base import PASS_AT_1, TESTS

MIN_SEEDS_FOR_BAND = 3  # with two seeds the t interval is wider than any axis
# What has to agree, beside the length, for two evaluations to measure the same.
EVALUATION = ("dataset", "dataset_hash", "attempts", "temperature")
How = tuple[Any, ...]
"""Of an evaluation, its values of :data:`EVALUATION`."""
# Settings that say how long or on what a run trains and is measured, not what algorithm it runs.
_SCALE = {"steps", "model", "max_completion_length"}
_SCALE |= {name for name in SETTINGS if family_of(name) == "evaluation"}


class Record(Protocol):
    """What a page needs of a run: ``run.json``, one row per step and per evaluation, responses."""

    @property
    def meta(self) -> Mapping[str, Any]: ...
    @property
    def config(self) -> Config: ...
    @property
    def steps(self) -> pd.DataFrame: ...
    @property
    def evals(self) -> pd.DataFrame: ...
    @property
    def distributions(self) -> Mapping[int, Mapping[str, Any]]: ...
    def completion_steps(self) -> list[int]: ...
    def completions(self, step: int) -> pd.DataFrame: ...


Arms = Mapping[str, Sequence[Record]]
AnyRecord = TypeVar("AnyRecord", bound=Record)


# Runs and arms -----------------------------------------------------------------------------------


def seed_of(record: Record) -> int:
    """The run's seed, from ``run.json``."""
    return int(record.meta["seed"])


def arm_of(record: Record) -> str:
    """The arm's name: the recipe, and the settings of its algorithm where they are not its own."""
    told = sorted(record.config.differences().items())
    extra = ", ".join(f"{name}={json.dumps(value)}" for name, value in told if name not in _SCALE)
    return f"{record.config.recipe} ({extra})" if extra else record.config.recipe


def size_names(sizes: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The names of (model, profile) pairs: the model, and the profile where several train one."""
    known = list(dict.fromkeys(sizes))
    counts = Counter(model for model, _ in known)
    return {(m, profile): f"{m} ({profile})" if counts[m] > 1 else m for m, profile in known}


def group_runs(
    named: Iterable[tuple[str, AnyRecord]],
) -> dict[str, dict[str, list[AnyRecord]]]:
    """model -> arm -> runs by seed, of pairs of an arm's name and a run.

    Models in the order of the records, under :func:`size_names`; arms in the order GRPO, GRPO+,
    MicroCoder-GRPO, others. Where runs of one arm share a seed, their settings tell them apart.
    """
    order = {arm: index for index, arm in enumerate(KNOWN)}
    named = list(named)
    sizes = size_names((r.config.model, r.config.profile) for _, r in named)
    grouped: dict[str, dict[str, list[AnyRecord]]] = {size: {} for size in sizes.values()}
    for arm, record in sorted(named, key=lambda n: (order.get(n[0], 99), n[0], seed_of(n[1]))):
        size = sizes[record.config.model, record.config.profile]
        grouped[size].setdefault(arm, []).append(record)
    return {size: _told_apart(arms) for size, arms in grouped.items()}


def _told_apart(arms: Mapping[str, list[AnyRecord]]) -> dict[str, list[AnyRecord]]:
    found: dict[str, list[AnyRecord]] = {}
    for arm, records in arms.items():
        if len({seed_of(record) for record in records}) == len(records):
            found[arm] = records
            continue
        own = [record.config.model_dump(exclude={"seed"}) for record in records]
        apart = [name for name in own[0] if any(one[name] != own[0][name] for one in own)]
        for record, one in zip(records, own, strict=True):
            told = ", ".join(f"{name} {one[name]}" for name in apart)
            found.setdefault(f"{arm} ({told})", []).append(record)
    return found


def unfinished(records: Sequence[Record]) -> str:
    """Which runs of an arm are not finished, and how far they came; empty where all are."""
    left = [one for one in records if one.meta.get("state", "finished") != "finished"]
    if not left:
        return ""
    done = min(int(one.steps["step"].to_numpy()[-1]) if len(one.steps) else 0 for one in left)
    states = {one.meta["state"] for one in left}
    word = "unfinished" if "running" in states or len(states) > 1 else states.pop()
    which = f"{len(left)} of {len(records)} seeds " if len(records) > 1 else ""
    return f"{which}{word}, step {done} of {left[0].config.steps}"


def unfinished_runs(arms: Arms) -> str:
    """A sentence on all runs that are not finished; empty where all are."""
    styles = arm_styles(arms)
    found = {styles[arm].label: unfinished(records) for arm, records in arms.items()}
    told = "; ".join(f"{label}: {note}" for label, note in found.items() if note)
    return f"Not finished: {told}." if told else ""


# Curves ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """One arm's curve. ``x`` (N,), ``runs`` (S, N), ``mean``, ``low`` and ``high`` (N,).

    ``mean`` is NaN wherever a seed has no value, so that it never jumps because a run ended early;
    ``low`` and ``high`` bound the mean's 95 % t interval over seeds, NaN under
    ``MIN_SEEDS_FOR_BAND`` seeds. ``note`` says which runs are unfinished.
    """

    arm: str
    seeds: tuple[int, ...]
    x: np.ndarray
    runs: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    note: str = ""


def t_quantile(seeds: int) -> float:
    """Of Student's t, for the two-sided 95 % interval of a mean over so many seeds."""
    return float(stdtrit(seeds - 1, 0.975))


def half_width(values: np.ndarray) -> np.ndarray:
    """Half the 95 % t interval of the mean over axis 0 (S, ...); NaN under three seeds."""
    seeds = values.shape[0]
    if seeds < MIN_SEEDS_FOR_BAND:
        return np.full(values.shape[1:], np.nan)
    return t_quantile(seeds) * values.std(axis=0, ddof=1) / np.sqrt(seeds)


def make_curve(arm: str, runs: Mapping[int, pd.Series]) -> Curve | None:
    """Align one series per seed (index: step) on the union of their steps; None without values."""
    if not runs:
        return None
    found = {
        seed: series.dropna() if np.isnan(series.to_numpy(dtype=float)).any() else series
        for seed, series in sorted(runs.items())
    }
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


def by_step(frame: pd.DataFrame, column: str, scale: float = 1.0) -> pd.Series:
    """What is known of a column, times ``scale``; index: step. A step that was run again after a
    resume counts once, with its last value.
    """
    numbers = frame[column]
    if numbers.dtype.kind not in "fiu":
        numbers = pd.to_numeric(numbers, errors="coerce")
    values, steps = numbers.to_numpy(dtype=float), frame["step"].to_numpy(dtype=int)
    known = ~np.isnan(values)
    series = pd.Series(values[known] * scale, index=steps[known])
    if (np.diff(steps) > 0).all():
        return series
    return series[~series.index.duplicated(keep="last")]


def _curves(arms: Arms, values: Callable[[Record], pd.Series | None]) -> list[Curve]:
    """A curve for every arm of which some run has values."""
    curves = []
    for arm, records in arms.items():
        found = {seed_of(record): values(record) for record in records}
        runs = {seed: series for seed, series in found.items() if series is not None}
        if curve := make_curve(arm, runs):
            curves.append(replace(curve, note=unfinished(records)))
    return curves


def step_curves(arms: Arms, column: str, scale: float = 1.0) -> list[Curve]:
    """Curves of a column of ``steps.jsonl``; arms that never logged it are left out."""

    def values(record: Record) -> pd.Series | None:
        steps = record.steps
        return by_step(steps, column, scale) if column in steps.columns else None

    return _curves(arms, values)


# Evaluations -------------------------------------------------------------------------------------


def eval_lengths(arms: Arms) -> list[int]:
    """The maximum response lengths that were evaluated, shortest (the training length) first;
    without those at which every evaluation gives what it gives at a shorter one.
    """
    found: dict[int, list[float]] = {}
    for frame in [record.evals for records in arms.values() for record in records]:
        if not frame.empty:
            lengths = frame["max_completion_length"].astype(int)
            for length in lengths.unique().tolist():
                found.setdefault(length, []).extend(frame["pass_at_1"][lengths == length])
    different = {tuple(found[length]): length for length in sorted(found, reverse=True)}
    return sorted(different.values())


def passes(arms: Arms) -> bool:
    """Whether the reward of all runs is the share of responses that pass every test."""
    configs = [record.config for runs in arms.values() for record in runs]
    return all(
        one.reward == TESTS and not one.soft_overlong and one.kl_target is None for one in configs
    )


def measure(arms: Arms) -> str:
    """What the share of held-out responses that passed is called."""
    sets = {record.config.test_set for records in arms.values() for record in records}
    found = {TASK_SETS[name].measure if name in TASK_SETS else PASS_AT_1 for name in sets}
    return found.pop() if len(found) == 1 else PASS_AT_1


def measured_how(record: Record, length: int) -> list[How | None]:
    """How each of the run's evaluations was measured, None of those at another length."""
    frame = record.evals
    if frame.empty:
        return []
    names = ("max_completion_length", *EVALUATION)
    found = [frame[n].tolist() if n in frame.columns else [None] * len(frame) for n in names]
    return [
        tuple(None if value != value else value for value in kind) if at == length else None
        for at, *kind in zip(*found, strict=True)
    ]


def _by_kind(arms: Arms, length: int) -> dict[How, list[tuple[str, int]]]:
    """The evaluations at a length by how they were measured: the arm of each, and its problems."""
    found: dict[How, list[tuple[str, int]]] = {}
    for arm, record in ((arm, record) for arm, records in arms.items() for record in records):
        kinds = measured_how(record, length)
        for kind, problems in zip(kinds, record.evals.get("per_problem", kinds), strict=True):
            if kind is not None:
                found.setdefault(kind, []).append((arm, len(problems)))
    return found


def _begun(record: Record, length: int) -> list[How]:
    """How the base model was measured first at the run's own temperature, if it was: on all
    problems; what is of a part of them, or at other temperatures, comes after it.
    """
    own = (None, record.config.eval_temperature)
    found = zip(measured_how(record, length), record.evals.get("step", ()), strict=True)
    return [kind for kind, step in found if kind is not None and step == 0 and kind[3] in own][:1]


def comparable(arms: Arms, length: int) -> tuple[How | None, str]:
    """How most evaluations at a length were measured, and a sentence on those measured otherwise,
    for the section on where a page comes from.

    Means over evaluations of other problems, or with other attempts or temperatures, would mean
    nothing; so only those of the first kind are drawn. The sentence is empty where all are.
    """
    found = _by_kind(arms, length)
    if not found:
        return None, ""
    # Evaluations on a part of the problems are more, and at other temperatures there are as many.
    own = {kind for records in arms.values() for one in records for kind in _begun(one, length)}
    kept = max(found, key=lambda kind: (kind in own, len(found[kind]), kind[2] or 0))
    styles = arm_styles(arms)
    others = []
    for kind in (kind for kind in found if kind != kept):
        counts = Counter(arm for arm, _ in found[kind])
        by_name = [(styles[arm].label, count) for arm, count in counts.items()]
        if len(by_name) == len(arms) > 1:
            by_name = [("all arms", counts.total())]
        others += [f"{count} of {name} ({_measured(kind, kept)})" for name, count in by_name]
    return kept, (
        f"Left out, because they were measured in another way than the {len(found[kept])} shown "
        f"({_measured(kept)}): {'; '.join(others)}."
        if others
        else ""
    )


def not_shown(arms: Arms, length: int) -> str:
    """Which evaluations :func:`comparable` leaves out, in a line; empty where it leaves none."""
    found, styles = _by_kind(arms, length), arm_styles(arms)
    kept, _ = comparable(arms, length)
    if kept is None:
        return ""
    problems = {kind: first for kind, ((_, first), *_) in found.items()}
    told: dict[str, None] = {}
    for kind in (kind for kind in found if kind != kept):
        labels = {styles[arm].label for arm, _ in found[kind]}
        who = "" if len(labels) == len(arms) else f" of {', '.join(sorted(labels))}"
        told[_unlike(kind, kept, problems) + who] = None
    return f"Evaluations {' or '.join(told)} are not in this figure." if told else ""


def _unlike(kind: How, kept: How, counts: Mapping[How, int]) -> str:
    """In what an evaluation differs from those that are shown: ``on 60 problems``, ``at T = 1``."""
    if None in kind:
        return "without a record of how they were measured"
    problems = f"{counts[kind]}" if counts[kind] != counts[kept] else "other"
    on = f"on {problems} problems" if kind[0] == kept[0] else f"on {kind[0]}"
    words = (on, f"at {kind[2]:.0f} attempts", f"at T = {kind[3]:g}")
    pairs = zip(words, kind[1:], kept[1:], strict=True)
    return " ".join(word for word, value, other in pairs if value != other)


def _measured(kind: How, unlike: How | None = None) -> str:
    """How an evaluation was measured; where ``unlike`` is given, what differs from it."""
    words = {"dataset": "{}", "dataset_hash": "problems {:.8}"}
    words |= {"attempts": "{:.0f} attempts", "temperature": "T = {:g}"}
    pairs = zip(EVALUATION, kind, unlike or [None] * len(kind), strict=True)
    told = [
        words[name].format(value) if value is not None else f"{name.replace('_', ' ')} not recorded"
        for name, value, other in pairs
        if value != other
    ]
    return ", ".join(told) or "not recorded how"


def evaluations(record: Record, length: int, kept: How | None) -> pd.DataFrame:
    """The run's evaluations at one maximum response length (tokens) that were measured as ``kept``,
    which :func:`comparable` gave; a frame without rows where there are none.
    """
    kinds = measured_how(record, length) if kept is not None else []
    return record.evals.iloc[[place for place, kind in enumerate(kinds) if kind == kept]]


def eval_curves(arms: Arms, column: str, length: int, scale: float = 1.0) -> list[Curve]:
    """Curves of a column of ``evals.jsonl`` at one maximum response length (tokens), of those
    evaluations that :func:`comparable` keeps.
    """
    kept, _ = comparable(arms, length)

    def values(record: Record) -> pd.Series | None:
        rows = evaluations(record, length, kept)
        return by_step(rows, column, scale) if len(rows) and column in rows.columns else None

    return _curves(arms, values)


# Smoothing ---------------------------------------------------------------------------------------


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centred mean over ``window`` entries of the last axis, shorter at both ends.

    Missing values are left out, and stay missing. From twice as many entries as there are on, all
    become the mean of all.
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
    if window <= 1:
        return curve
    values = running_mean(curve.runs, window)
    mean, half = values.mean(axis=0), half_width(values)
    return replace(curve, mean=mean, low=mean - half, high=mean + half)
