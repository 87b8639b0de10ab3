"""The panels of the code evaluator: the labelled suite (E1), training under two sets of rules (E2
to E4) and the time of a training step (E5); the paper's Fig. 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims.evidence import Evidence, Series, difference
from mcbench.claims.measurements import METHOD, SuiteRecord
from mcbench.claims.statistics import Estimate, Statistic, area_under_curve, estimate, last_window
from mcbench.errors import UserError
from mcbench.report import figures
from mcbench.report.base import SMOOTHING, STACKED, Figure, add_curve, new_figure, pair_figure
from mcbench.report.ends import first_length, interval, signed
from mcbench.report.page import Panel, Plot
from mcbench.report.series import (
    Arms,
    Curve,
    Record,
    make_curve,
    seed_of,
    smooth,
    step_curves,
)
from mcbench.report.sources import Sources, arms_of
from mcbench.report.style import (
    BLUE,
    GREEN,
    GREY,
    NEUTRAL_GRID,
    ORANGE,
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
ERRORS = {
    "rejected": ("right", "Right ones refused", "Right cases refused, by group"),
    "accepted": ("wrong", "Wrong ones accepted", "Wrong cases accepted, by group"),
}
SUITE_COLUMNS = {
    "judge": "Rules",
    "part": "Part",
    "right": "Right cases",
    "rejected": "wrongly refused",
    "% rejected": "% refused",
    "wrong": "Wrong cases",
    "accepted": "wrongly accepted",
    "% accepted": "% accepted",
}
PART_COLORS = {"comparisons": BLUE, "programs": GREEN, "attacks": ORANGE}
NO_SUITE = "Not recorded: the labelled suite was not judged here."
GAP = ArmStyle("MicroCoder rules minus LiveCodeBench rules", BLUE, "solid")
SPLIT = {
    "inference": ("time/generate_s", GREY),
    "reward": ("time/reward_s", "#D55E00"),
    "update": ("time/update_s", BLUE),
}
PAPER_SAVING = 40
"""Percent of a training step that the paper's evaluator saves against a single-threaded one."""
NO_TIMES = (
    "No times are recorded yet. They need a machine that does nothing else, so they are measured "
    "on their own: python benchmarks/evaluator_timing.py"
)


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


def suite(sources: Sources) -> Panel:
    """False rejects and false accepts in percent, by judge and part of the suite."""
    title, record = "Errors in both directions", sources.suite
    if record is None:
        return Panel(title, missing=NO_SUITE)
    table = misjudged(record, "part")
    frame = table.assign(judge=table["judge"].map(judge_name))
    for errors, (label, *_) in ERRORS.items():
        frame[f"% {errors}"] = 100 * table[errors] / table[label].where(table[label] > 0)
    height = 90 + 62 * len(record.judges)
    figure = _suite_bars(table, [judge_name(judge) for judge in record.judges], height)
    return Panel(
        title,
        "Comparisons are pairs of expected and printed output; programs are right and wrong "
        "ones in many styles; attacks try to be accepted without solving anything. Under every "
        "set of rules the programs run in MicroCoder-Evaluator; only the entry with its "
        "execution runs them as LiveCodeBench does, and it is not given the attacks, "
        "because it has no sandbox. A problem's own rules (tolerance, letter case, order, a "
        "checker) are known to MicroCoder's rules only: the others have no place for them.",
        [Plot("suite-bars", "Errors in percent of the cases", figure, height)],
        frame[list(SUITE_COLUMNS)].rename(columns=SUITE_COLUMNS),
    )


def _suite_bars(table: pd.DataFrame, names: Sequence[str], height: int) -> Figure:
    figure = pair_figure(gap=0.08).update(
        barmode="group", bargap=0.3, hovermode="closest", height=height
    )
    order: dict[str, Any] = {"categoryorder": "array", "categoryarray": names[::-1]}
    for number, (errors, (label, title, _)) in zip(("", "2"), ERRORS.items(), strict=True):
        given = table[table[label] > 0]
        shares = 100 * given[errors] / given[label]
        for part, color in PART_COLORS.items():
            rows = given[given["part"] == part]
            counts = [f"{e}/{n}" for e, n in zip(rows[errors], rows[label], strict=True)]
            labels, values = list(rows["judge"].map(judge_name)), shares[rows.index].to_numpy()
            look = {"text": counts, "textposition": "outside", "cliponaxis": False}
            look |= {"xaxis": f"x{number}", "yaxis": f"y{number}"}
            figure.bars(
                part, labels, values, color, "%{y}: %{x:.1f} % (%{text})",
                lying=True, showlegend=not number, **look,
            )  # fmt: skip
        room = 1.2 * max(1.0, float(np.nan_to_num(shares.max())))  # for the counts beside the bars
        matched = {"matches": "y"} if number else {}
        axes: dict[str, Any] = {
            "xaxis": {"title": {"text": f"{title} (%)"}, "range": [0, room], "showgrid": True},
            "yaxis": {"showgrid": False, "showticklabels": not number, **order, **matched},
        }
        figure.update(**{f"{axis}{number}": look for axis, look in axes.items()})
    return figure


def errors_by_group(errors: str, sources: Sources) -> Panel:
    """Errors of one kind of :data:`ERRORS` by group of cases and judge, in percent; groups without
    any are left out.
    """
    record, (label, words, title) = sources.suite, ERRORS[errors]
    if record is None:
        return Panel(title, missing=NO_SUITE)
    table = misjudged(record, "part", "group")
    table = table[table[label] > 0]
    table["name"] = table["part"] + ": " + table["group"]
    totals = table.groupby("name", sort=False)[errors].sum()
    names = list(totals[totals > 0].index)
    if not names:
        return Panel(title, "None.")
    cells = table.assign(
        share=100 * table[errors] / table[label],
        text=table[errors].astype(str) + "/" + table[label].astype(str),
    )
    shape: dict[str, Any] = {"index": names, "columns": list(record.judges)}
    shares = cells.pivot(index="name", columns="judge", values="share").reindex(**shape)
    texts = cells.pivot(index="name", columns="judge", values="text").reindex(**shape)
    figure = new_figure(
        f"{words}, by group of cases (%)",
        "",
        x_title="",
        height=110 + 24 * len(names),
        hovermode="closest",
        xaxis={"tickangle": 0, "tickfont": {"size": 11}},
        yaxis={"autorange": "reversed", "showgrid": False, "tickmode": "linear"},
    )
    figure.add(
        "heatmap",
        z=shares.to_numpy(dtype=float),
        x=[judge_name(judge).replace(" with", "<br>with") for judge in record.judges],
        y=names,
        text=texts.fillna("").to_numpy(),
        texttemplate="%{text}",
        colorscale="Cividis",
        zmin=0,
        zmax=100,
        colorbar={"title": {"text": "%"}, "thickness": 10},
        hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
    )
    erring = table[table[errors] > 0].assign(judge=table["judge"].map(judge_name))
    plot = Plot(f"suite-{errors}", "Percent, and counts", figure, figure.layout["height"])
    frame = erring.drop(columns="name")
    return Panel(title, "Groups without such an error are left out.", [plot], frame)


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


# Time --------------------------------------------------------------------------------------------


def split_of(record: Record) -> dict[str, float]:
    """Seconds of a training step by part: one generation and the updates that follow it.

    Mean over generations, without the first where there are others (caches are cold). ``other`` is
    what the step takes beside the three parts. Empty for records without these times.
    """
    steps = record.steps
    needed = ["time/step_s", *(column for column, _ in SPLIT.values())]
    if not set(needed) <= set(steps.columns):
        return {}
    numbered = steps["time/generate_s"].notna().cumsum()
    groups = steps.groupby(numbered)[needed].sum()
    means = (groups.iloc[1:] if len(groups) > 1 else groups).mean()
    parts = {name: float(means[column]) for name, (column, _) in SPLIT.items()}
    return {**parts, "other": float(means["time/step_s"]) - sum(parts.values())}


def savings(arms: Arms) -> dict[str, Estimate]:
    """Percent of a step's time that each evaluator saves against a single thread, by seed."""
    totals = {
        arm: {seed_of(record): sum(split_of(record).values()) for record in records}
        for arm, records in arms.items()
    }
    base = totals.pop("single_threaded", {})
    found = {}
    for arm, times in totals.items():
        seeds = sorted(times.keys() & base.keys())
        if seeds:
            found[arm] = estimate(np.array([100 * (1 - times[s] / base[s]) for s in seeds]))
    return found


def timed_arms(sources: Sources) -> Arms:
    """The runs that recorded where the time of a step goes, by evaluator."""
    arms = arms_of(sources.timing) if sources.timing else {}
    kept = {arm: [one for one in records if split_of(one)] for arm, records in arms.items()}
    return {arm: records for arm, records in kept.items() if records}


def timing(sources: Sources) -> Panel:
    """Seconds of a training step with each evaluator, stacked by part (Fig. 6, right)."""
    title, arms = "The step split", timed_arms(sources)
    if not arms:
        return Panel(title, missing=f"{NO_TIMES}.")
    splits = {
        arm: {str(k): float(v) for k, v in pd.DataFrame(map(split_of, runs)).mean().items()}
        for arm, runs in arms.items()
    }
    return Panel(
        title,
        "Mean over generations and seeds. The dotted line is where the paper's claim would put "
        f"ours: about {PAPER_SAVING} % below single-threaded. How much an evaluator can save "
        "depends on what the rest of the step costs, so the split says more than the total. Ours "
        "judges while the trainer computes log-probabilities: its reward is what was still waited "
        "for, the rest is in other.",
        [Plot("step-split", "Seconds by part", _step_split(splits))],
        _step_table(arms, splits),
    )


def _step_split(splits: dict[str, dict[str, float]]) -> Figure:
    figure = new_figure("", "", x_title="Seconds per training step (a generation and its updates)")
    names = [style.label for style in arm_styles(splits).values()]
    colors = {name: color for name, (_, color) in SPLIT.items()}
    for part, color in {**colors, "other": "rgba(128,134,144,.35)"}.items():
        values = [split[part] for split in splits.values()]
        figure.bars(part, names, values, color, "%{x:.2f} s", lying=True)
    if "single_threaded" in splits:
        paper = sum(splits["single_threaded"].values()) * (1 - PAPER_SAVING / 100)
        figure.rule("x", paper, f"the paper: −{PAPER_SAVING} %")
    legend = {"traceorder": "normal", "x": 0, "xanchor": "left", "y": 1.1}
    return figure.update(**STACKED, legend=legend, margin={"t": 70})


def _step_table(arms: Arms, splits: dict[str, dict[str, float]]) -> pd.DataFrame:
    """The seconds, the reward's share, the saving with its interval."""
    styles, saved = arm_styles(arms), savings(arms)
    rows = []
    for arm, split in splits.items():
        total, one = sum(split.values()), saved.get(arm)
        rows.append(
            {
                "Evaluator": styles[arm].label,
                **{f"{part} (s)": round(value, 3) for part, value in split.items()},
                "step (s)": round(total, 3),
                "waited for rewards (%)": round(100 * split["reward"] / total, 1),
                "saved (%)": round(one.value, 1) if one else None,
                "95 % interval": interval(one.low, one.high) if one else "–",
                "Seeds": len(arms[arm]),
            }
        )
    return pd.DataFrame(rows)


PANELS: dict[str, Callable[[Sources], Panel]] = {
    "suite": suite,
    "refused": partial(errors_by_group, "rejected"),
    "accepted": partial(errors_by_group, "accepted"),
    "pairs": pairs,
    "gap": gap,
    "group-shares": group_shares,
    "timing": timing,
}
