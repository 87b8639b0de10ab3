"""The panels of training under two sets of rules (E2 to E4), and how often each judge of the
labelled suite erred; notebook 06 draws the suite (E1) and the time of a training step (E5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from mcbench.claims.evidence import Evidence, Series, difference
from mcbench.claims.measurements import METHOD, SuiteRecord
from mcbench.claims.statistics import Statistic, area_under_curve, last_window
from mcbench.errors import UserError
from mcbench.report import figures
from mcbench.report.base import SMOOTHING, Figure, add_curve, new_figure
from mcbench.report.ends import first_length, interval, signed
from mcbench.report.page import Panel, Plot
from mcbench.report.series import (
    Curve,
    make_curve,
    smooth,
    step_curves,
)
from mcbench.report.sources import Sources
from mcbench.report.style import (
    BLUE,
    NEUTRAL_GRID,
    ArmStyle,
    arm_styles,
    spoken,
)

OURS, THEIRS = "microcoder_rules", "livecodebench_rules"  # as the arms are drawn
JUDGES = {
    "microcoder": "MicroCoder",
    "livecodebench": "LiveCodeBench",
    METHOD: "LiveCodeBench with its execution",
    "deepcoder": "DeepCoder",
    "verl_prime": "verl (prime)",
    "sandbox_fusion": "SandboxFusion",
}
GAP = ArmStyle("MicroCoder rules minus LiveCodeBench rules", BLUE, "solid")


# The labelled suite ------------------------------------------------------------------------------


def judge_name(judge: str) -> str:
    """A judge's name for people."""
    return JUDGES.get(judge, judge)


def misjudged(record: SuiteRecord, *by: str) -> pd.DataFrame:
    """How often each judge erred, by judge and by any of ``part`` and ``group``.

    Columns: ``right`` and ``wrong`` (cases of that label that the judge was given), ``rejected``
    (right ones it refused) and ``accepted`` (wrong ones it accepted).
    """
    rows = [
        {
            "judge": judge,
            "part": case.part,
            "group": case.group,
            "right": int(case.right),
            "wrong": int(not case.right),
            "rejected": int(case.right and not case.accepted[judge]),
            "accepted": int(not case.right and case.accepted[judge]),
        }
        for judge in record.judges
        for case in record.cases
        if judge in case.accepted
    ]
    counts = ["right", "wrong", "rejected", "accepted"]
    table = pd.DataFrame(rows, columns=["judge", "part", "group", *counts])
    return table.groupby(["judge", *by], sort=False)[counts].sum().reset_index()


def suite_sentence(record: SuiteRecord) -> str:
    """Both kinds of error under our rules and under LiveCodeBench's."""
    table = misjudged(record).set_index("judge")
    told = [
        f"{judge_name(judge)}'s rules refuse {row['rejected']} of {row['right']} right cases and "
        f"accept {row['accepted']} of {row['wrong']} wrong ones"
        for judge in ("microcoder", "livecodebench")
        if judge in table.index
        for row in [table.loc[judge]]
    ]
    return f"On the labelled suite {', '.join(told)}." if told else ""


# Training ----------------------------------------------------------------------------------------


def pairs(sources: Sources) -> Panel:
    """What the claims do not say: misjudgement alone, and the ends of the curves in percent."""
    title = "Both arms in numbers"
    try:
        frame = paired_numbers(sources.evidence)
    except UserError as error:
        return Panel(title, missing=spoken(f"Not compared: {error}."))
    return Panel(title, "Rewards are paired by seed, pass rates by seed and problem.", data=frame)


def paired_numbers(evidence: Evidence) -> pd.DataFrame:
    """Rewards and pass rates of both arms in percent, and their difference with its interval.

    In the first generation both arms sample the same responses from the same model, so the gap in
    reward is made by the rules alone.

    Raises:
        UserError: an arm is missing, no seed is in both, or an arm was not evaluated.
    """
    if missing := [arm for arm in (OURS, THEIRS) if arm not in evidence.arms]:
        label = arm_styles(missing)[missing[0]].label
        raise UserError(f"there is no finished run under the {label}; both arms are needed")
    if not evidence.seeds:
        raise UserError("the two arms share no seed, so nothing can be paired")
    measured: list[tuple[str, Callable[[str], Series], Statistic]] = [
        ("Training reward, first generation", evidence.reward, lambda x, y: y[..., 0]),
        ("Training reward, whole run", evidence.reward, lambda x, y: y.mean(axis=-1)),
    ]
    for which, longest in (("shortest", False), ("longest", True)):
        rate = partial(evidence.accuracy, longest=longest)
        name = f"Held-out pass@1, {which} test length"
        every = partial(rate, shape=True)  # as E3 has it
        measured.append((f"{name}, whole run (every evaluation)", every, area_under_curve))
        measured.append((f"{name}, at the end", rate, last_window))
    rows = []
    for name, read, statistic in measured:
        ours, theirs = read(OURS), read(THEIRS)
        gap = difference(name, "points", ours, theirs, statistic).estimate
        rows.append(
            {
                "In percent": name,
                "MicroCoder rules": f"{statistic(ours.x, ours.y).mean():.1f}",
                "LiveCodeBench rules": f"{statistic(theirs.x, theirs.y).mean():.1f}",
                "Difference": signed(gap.value),
                "95 % interval": interval(gap.low, gap.high),
                "Seeds": gap.seeds,
            }
        )
    return pd.DataFrame(rows)


def gap(sources: Sources) -> Panel:
    """The difference between the arms over training, seed by seed."""
    title, arms = "The gap over training", sources.arms
    curves = {
        "accuracy": _accuracy_gap(sources.evidence),
        "reward": gap_curve(step_curves(arms, "reward", scale=100)),
    }
    captions = {
        "accuracy": f"Held-out pass@1, up to {first_length(arms)} tokens, at every evaluation",
        "reward": "Training reward",
    }
    plots = [
        Plot(f"rules-gap-{name}", captions[name], _gap_figure(found, name))
        for name, found in curves.items()
        if found
    ]
    if not plots:
        return Panel(title, missing="Not recorded: a seed under both sets of rules.")
    return Panel(
        title,
        "MicroCoder rules minus LiveCodeBench rules, seed by seed. The shaded thirds are compared: "
        "the paper claims that the gap is largest early.",
        plots,
    )


def gap_curve(curves: Sequence[Curve]) -> Curve | None:
    """The difference of two arms' curves, paired by seed; None where they share nothing."""
    runs = {one.arm: _by_seed(one.seeds, one.x, one.runs) for one in curves}
    return _gap(runs.get(OURS, {}), runs.get(THEIRS, {}))


def _accuracy_gap(evidence: Evidence) -> Curve | None:
    """The gap that E4 compares: evaluations of a few problems count, on the problems of all."""
    if not evidence.seeds or not {OURS, THEIRS} <= set(evidence.arms):
        return None
    try:
        both = [evidence.accuracy(arm, shape=True) for arm in (OURS, THEIRS)]
    except UserError:
        return None
    return _gap(*(_by_seed(evidence.seeds, one.x, one.y) for one in both))


def _by_seed(seeds: Sequence[int], x: np.ndarray, y: np.ndarray) -> dict[int, pd.Series]:
    return {seed: pd.Series(row, index=x) for seed, row in zip(seeds, y, strict=True)}


def _gap(ours: Mapping[int, pd.Series], theirs: Mapping[int, pd.Series]) -> Curve | None:
    return make_curve("gap", {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs})


def _gap_figure(curve: Curve, name: str) -> Figure:
    evaluated = name == "accuracy"
    curve = curve if evaluated else smooth(curve, SMOOTHING)
    figure = new_figure(f"Gap in {name}", "Difference (points)")
    figure.rule("y", 0)
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
    add_curve(figure, curve, GAP, markers=evaluated, hover="%{y:+.1f} points", legend=False)
    return figure


def group_shares(sources: Sources) -> Panel:
    """How many prompts each arm solved in all, some or none of their responses."""
    shares: dict[str, dict[str, float]] = {}
    for column, name, _ in figures.GROUPS:
        for curve in step_curves(sources.arms, column, scale=100):
            label = arm_styles(sources.arms)[curve.arm].label
            shares.setdefault(label, {})[f"{name} (%)"] = float(np.nanmean(curve.mean))
    rows = [{"Arm": label, **values} for label, values in shares.items()]
    return Panel("Group outcomes, mean over training", data=pd.DataFrame(rows))


PANELS: dict[str, Callable[[Sources], Panel]] = {
    "pairs": pairs,
    "gap": gap,
    "group-shares": group_shares,
}
