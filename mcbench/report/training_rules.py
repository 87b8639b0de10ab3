"""Training under two sets of rules: paired numbers and figures (the paper's claims E2 to E5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims import INSIGHTS, Verdict
from mcbench.claims.statistics import (
    Estimate,
    area_under_curve,
    estimate,
    last_window,
    paired_difference,
)
from mcbench.claims.verdict import assess_family
from mcbench.errors import UserError
from mcbench.experiments.labelled import SuiteRecord
from mcbench.report.base import SMOOTHING, Figure, add_curve, new_figure
from mcbench.report.series import (
    Arms,
    Curve,
    Record,
    by_step,
    eval_curves,
    eval_lengths,
    make_curve,
    seed_of,
    smooth,
    step_curves,
)
from mcbench.report.style import BLUE, GREY, NEUTRAL_GRID, ArmStyle, arm_styles
from mcbench.report.verdicts import interval, signed

OURS, THEIRS = "microcoder_rules", "livecodebench_rules"
EVALUATORS = ("single_threaded", "process_per_sample", "microcoder_evaluator")
GAP = ArmStyle("MicroCoder rules minus LiveCodeBench rules", BLUE, "solid")
PAPER_SAVING = 40
"""Percent of a training step that the paper's evaluator saves against a single-threaded one."""


def rule_arms(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Runs by the rules of their training reward, ours first, each arm in order of seeds."""
    return _grouped(records, "reward_rules", "_rules", (OURS, THEIRS))


def timing_arms(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Runs by what judged their training responses; those without times are left out."""
    return _grouped(filter(split_of, records), "reward_evaluator", "", EVALUATORS)


def _grouped(
    records: Iterable[Record], setting: str, suffix: str, order: Sequence[str]
) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=seed_of):
        value = record.meta["config"]["profile"].get(setting, "microcoder")
        name = "microcoder_evaluator" if (value, suffix) == ("microcoder", "") else value + suffix
        found.setdefault(name, []).append(record)
    names = [*filter(found.__contains__, order), *sorted(found.keys() - set(order))]
    return {name: found[name] for name in names}


# Numbers -----------------------------------------------------------------------------------------


def claims(record: SuiteRecord, arms: Arms) -> dict[str, Verdict]:
    """The verdicts on E1 to E4, by id, from the labelled suite and the runs of both arms.

    Raises:
        UserError: an arm is missing, or no seed is in both.
    """
    shared_seeds(arms)
    family = [one for one in INSIGHTS.values() if one.experiment == "code_evaluator"]
    records: Any = {"microcoder": arms[OURS], "livecodebench": arms[THEIRS]}
    return assess_family(family, records, record.measurements())


def shared_seeds(arms: Arms) -> list[int]:
    """Seeds that both arms have.

    Raises:
        UserError: an arm is missing, or no seed is in both.
    """
    if missing := [arm for arm in (OURS, THEIRS) if arm not in arms]:
        label = arm_styles(missing)[missing[0]].label
        raise UserError(f"there is no run under the {label}; the comparison needs both arms")
    seeds = sorted(set(map(seed_of, arms[OURS])) & set(map(seed_of, arms[THEIRS])))
    if not seeds:
        raise UserError("the two arms share no seed, so nothing can be paired")
    return seeds


@dataclass(frozen=True)
class Number:
    """A value in percent under either set of rules, and the difference: ours minus theirs."""

    name: str
    ours: float
    theirs: float
    difference: Estimate


def numbers(arms: Arms) -> list[Number]:
    """What the claims do not say: misjudgement alone, and the ends of the curves in percent.

    In the first generation both arms sample the same responses from the same model, so the gap in
    reward is made by the rules alone. Pass rates are paired by seed and problem, rewards by seed.

    Raises:
        UserError: as :func:`shared_seeds`, or the arms were evaluated at different steps.
    """
    seeds = shared_seeds(arms)
    ours, theirs = (100 * _rewards(arms[arm], seeds).to_numpy().T for arm in (OURS, THEIRS))
    rewards = [
        ("Training reward, first generation", ours[:, 0], theirs[:, 0]),
        ("Training reward, whole run", ours.mean(axis=1), theirs.mean(axis=1)),
    ]
    found = [Number(name, a.mean(), b.mean(), estimate(a - b)) for name, a, b in rewards]
    for length in eval_lengths(arms):
        x, passed, passed_theirs = _passed(arms, seeds, length)
        for name, statistic in (("whole run", area_under_curve), ("at the end", last_window)):
            a, b = statistic(x, passed), statistic(x, passed_theirs)
            text = f"Held-out pass@1 with up to {length} tokens, {name}"
            found.append(Number(text, a.mean(), b.mean(), paired_difference(a, b)))
    return found


def _rewards(records: Sequence[Record], seeds: Sequence[int]) -> pd.DataFrame:
    """Reward by generation (rows: the step that began it) and seed."""
    runs = {seed_of(r): by_step(r.steps, "reward") for r in records if seed_of(r) in seeds}
    return pd.DataFrame(runs)[list(seeds)].dropna()


def _passed(
    arms: Arms, seeds: Sequence[int], length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps (N,) and pass rates in percent (S, P, N) of both arms, problems in one order."""
    steps: set[tuple[int, ...]] = set()
    values = []
    for arm in (OURS, THEIRS):
        of_seed = {seed_of(record): record for record in arms[arm]}
        rows = []
        for seed in seeds:
            evals = of_seed[seed].evals
            evals = evals[evals["max_completion_length"] == length].sort_values("step")
            steps.add(tuple(evals["step"]))
            rates = [
                {p["id"]: 100 * p["passes"] / (p["attempts"] or np.nan) for p in problems}
                for problems in evals["per_problem"]
            ]
            rows.append(pd.DataFrame(rates).sort_index(axis=1).to_numpy().T)
        values.append(rows)
    if len(steps) > 1:
        raise UserError("the runs were evaluated at different steps and cannot be paired")
    ours, theirs = (np.array(rows) for rows in values)
    return np.array(steps.pop()), ours, theirs


def numbers_table(found: Sequence[Number]) -> pd.DataFrame:
    """The numbers for people."""
    return pd.DataFrame(
        {
            "In percent": [n.name for n in found],
            "MicroCoder rules": [f"{n.ours:.1f}" for n in found],
            "LiveCodeBench rules": [f"{n.theirs:.1f}" for n in found],
            "Difference": [signed(n.difference.value) for n in found],
            "95 % interval": [interval(n.difference.low, n.difference.high) for n in found],
            "Seeds": [n.difference.seeds for n in found],
        }
    )


# Figures -----------------------------------------------------------------------------------------


def gap_curve(curves: Sequence[Curve]) -> Curve | None:
    """The difference of two arms' curves, paired by seed; None where they share nothing."""
    by_arm = {curve.arm: curve for curve in curves}
    if not {OURS, THEIRS} <= by_arm.keys():
        return None
    ours, theirs = (_by_seed(by_arm[arm]) for arm in (OURS, THEIRS))
    return make_curve("gap", {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs})


def _by_seed(curve: Curve) -> dict[int, pd.Series]:
    return {
        seed: pd.Series(values, index=curve.x)
        for seed, values in zip(curve.seeds, curve.runs, strict=True)
    }


def accuracy_gap(arms: Arms, length: int) -> Figure:
    """Held-out pass@1 under our rules minus that under LiveCodeBench's, over training."""
    curve = gap_curve(eval_curves(arms, "pass_at_1", length, scale=100))
    return _gap_figure(curve, "Gap in held-out pass@1", "Difference (points)", markers=True)


def reward_gap(arms: Arms) -> Figure:
    """The same for the training reward; a running mean over ``SMOOTHING`` generations."""
    curve = gap_curve(step_curves(arms, "reward", scale=100))
    return _gap_figure(
        smooth(curve, SMOOTHING) if curve else None, "Gap in training reward", "Difference (points)"
    )


def _gap_figure(curve: Curve | None, title: str, y_title: str, *, markers: bool = False) -> Figure:
    figure = new_figure(title, y_title)
    figure.rule("y", 0)
    if curve is not None:
        end = float(curve.x[-1])
        for left, right in ((0, end / 3), (2 * end / 3, end)):
            figure.add_shape(
                type="rect",
                x0=left,
                x1=right,
                yref="y domain",
                y0=0,
                y1=1,
                fillcolor=NEUTRAL_GRID,
                line={"width": 0},
                layer="below",
            )
        add_curve(figure, curve, GAP, markers=markers, hover="%{y:+.1f} points", legend=False)
    return figure


# Time --------------------------------------------------------------------------------------------

PARTS = {
    "inference": ("time/generate_s", GREY),
    "reward": ("time/reward_s", "#D55E00"),
    "update": ("time/update_s", BLUE),
}


def split_of(record: Record) -> dict[str, float]:
    """Seconds of a training step by part: one generation and the updates that follow it.

    Mean over generations, without the first where there are others (caches are cold). ``other`` is
    what the step takes beside the three parts. Empty for records without these times.
    """
    steps = record.steps
    needed = ["time/step_s", *(column for column, _ in PARTS.values())]
    if not set(needed) <= set(steps.columns):
        return {}
    numbered = steps["time/generate_s"].notna().cumsum()
    groups = steps.groupby(numbered)[needed].sum()
    groups = groups.iloc[1:] if len(groups) > 1 else groups
    means = groups.mean()
    parts = {name: float(means[column]) for name, (column, _) in PARTS.items()}
    return {**parts, "other": float(means["time/step_s"]) - sum(parts.values())}


def mean_split(records: Sequence[Record]) -> dict[str, float]:
    """:func:`split_of`, mean over runs."""
    means = pd.DataFrame([split_of(record) for record in records]).mean()
    return {str(part): float(value) for part, value in means.items()}


def savings(arms: Arms, against: str = "single_threaded") -> dict[str, Estimate]:
    """Percent of a step's time that each evaluator saves against another, paired by seed."""
    totals = {
        arm: {seed_of(record): sum(split_of(record).values()) for record in records}
        for arm, records in arms.items()
    }
    base = totals.pop(against, {})
    found = {}
    for arm, times in totals.items():
        seeds = sorted(times.keys() & base.keys())
        if seeds:
            found[arm] = estimate(np.array([100 * (1 - times[s] / base[s]) for s in seeds]))
    return found


def step_split(arms: Arms) -> Figure:
    """Seconds of a training step with each evaluator, stacked by part (Fig. 6, right)."""
    figure = new_figure("", "", x_title="Seconds per training step (a generation and its updates)")
    splits = {arm: mean_split(records) for arm, records in arms.items()}
    names = [style.label for style in arm_styles(splits).values()]
    colors = {
        **{name: color for name, (_, color) in PARTS.items()},
        "other": "rgba(128,134,144,.35)",
    }
    for part, color in colors.items():
        figure.add(
            "bar",
            y=names,
            x=[split[part] for split in splits.values()],
            name=part,
            orientation="h",
            marker={"color": color},
            hovertemplate="%{x:.2f} s",
        )
    if "single_threaded" in splits:
        paper = sum(splits["single_threaded"].values()) * (1 - PAPER_SAVING / 100)
        figure.rule("x", paper, f"the paper: −{PAPER_SAVING} %")
    figure.update(
        barmode="stack",
        hovermode="y unified",
        bargap=0.45,
        legend={"traceorder": "normal", "x": 0, "xanchor": "left", "y": 1.1},
        margin={"t": 70},
    )
    figure.update(xaxis={"showgrid": True})
    figure.update(yaxis={"showgrid": False, "autorange": "reversed"})
    return figure


def step_table(arms: Arms) -> pd.DataFrame:
    """The seconds behind :func:`step_split`, the reward's share, the saving with its interval."""
    styles, saved = arm_styles(arms), savings(arms)
    rows: list[Mapping[str, Any]] = []
    for arm, records in arms.items():
        split = mean_split(records)
        total = sum(split.values())
        gain = saved.get(arm)
        rows.append(
            {
                "Evaluator": styles[arm].label,
                **{f"{part} (s)": round(value, 3) for part, value in split.items()},
                "step (s)": round(total, 3),
                "reward's share (%)": round(100 * split["reward"] / total, 1),
                "saved (%)": round(gain.value, 1) if gain else None,
                "95 % interval": interval(gain.low, gain.high) if gain else "–",
                "Seeds": len(records),
            }
        )
    return pd.DataFrame(rows)
