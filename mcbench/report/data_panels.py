"""The panels of the data pipeline: what it did to a noisy pool, difficulty, and the paper's Fig. 5
beside ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps

import numpy as np
import pandas as pd

from mcbench.claims.evidence import Evidence, Series
from mcbench.claims.statistics import (
    Statistic,
    area_under_curve,
    first_window,
    growth,
    last_window,
)
from mcbench.errors import UserError
from mcbench.experiments.data_record import BOUNDS, DataRecord
from mcbench.report.base import STACKED, Figure, new_figure
from mcbench.report.ends import signed
from mcbench.report.page import Panel, Plot
from mcbench.report.sources import Sources
from mcbench.report.style import BLUE, GREEN, GREY, NEUTRAL_TEXT, VERMILLION, arm_styles, spoken

REQUIRED = 0.95
"""Precision and recall that every stage has to reach."""
SAID = {
    "D1": "gain of test accuracy on the harder set about three times the easier one's "
    "(LiveCodeBench v6, 300 steps)",
    "D2": "lower training reward on the harder set",
    "D3": "reward grows alike, test accuracy on the harder set only",
    "D4": "responses start similar or shorter, grow faster and end longer on the harder set",
}
"""What the paper reports."""
Draw = Callable[[DataRecord], Panel]
NAMES = {"harder": "Harder set", "easier": "Easier set"}


def beside(sources: Sources) -> Panel:
    """One row a claim: what the paper reports, and the same numbers here, means over seeds."""
    title, found = "D1 to D4 in numbers", sources.evidence
    if not set(NAMES.values()) <= set(found.arms) or not found.seeds:
        return Panel(title, missing="Not recorded: a seed that was run on both sets.")
    try:
        return Panel(title, data=_beside(found))
    except UserError as error:
        return Panel(title, missing=spoken(f"Not compared: {error}."))


def _beside(found: Evidence) -> pd.DataFrame:
    def both(read: Callable[[str], Series], statistic: Statistic) -> list[float]:
        series = (read(name) for name in NAMES.values())
        return [float(statistic(one.x, one.y).mean()) for one in series]

    gains = both(found.accuracy, lambda x, y: last_window(x, y) - first_window(x, y))
    rewards = both(found.reward, growth)
    rates = both(partial(found.accuracy, shape=True), growth)  # as D3 has them
    start, end = (_pair(both(found.length, one), False) for one in (first_window, last_window))
    ratio = f" ({gains[0] / gains[1]:.1f} times)" if min(gains) > 0 else ""
    told = {
        "D1": f"{_pair(gains)} points{ratio}",
        "D2": f"{_pair(both(found.reward, area_under_curve), False)} %",
        "D3": f"reward {_pair(rewards)} points; pass@1 {_pair(rates)} points",
        "D4": f"at the start {start}; growth {_pair(both(found.length, growth))}; at the end {end} "
        "tokens",
    }
    rows = [
        {"Claim": name, "The paper": said, "Here, harder | easier set": told[name]}
        for name, said in SAID.items()
    ]
    return pd.DataFrame(rows)


def _pair(values: Sequence[float], sign: bool = True) -> str:
    return " | ".join(signed(value) if sign else f"{value:.1f}" for value in values)


def _of_record(title: str) -> Callable[[Draw], Callable[[Sources], Panel]]:
    """A panel of the pipeline's record under a title; says so where there is no record."""

    def decorate(draw: Draw) -> Callable[[Sources], Panel]:
        @wraps(draw)
        def panel(sources: Sources) -> Panel:
            if sources.data is None:
                return Panel(title, missing="Not recorded: the pipeline was not run here.")
            return replace(draw(sources.data), title=title)

        return panel

    return decorate


# The pipeline ------------------------------------------------------------------------------------


@_of_record("What went in and out of each stage")
def funnel(record: DataRecord) -> Panel:
    """Problems left after each stage, those that it dropped, and by which rule."""
    figure = new_figure("The funnel", "", x_title="Problems")
    stages = [row["stage"] for row in record.funnel]
    for name, values, color in (
        ("left", [row["out"] for row in record.funnel], BLUE),
        ("dropped by the stage", [row["in"] - row["out"] for row in record.funnel], VERMILLION),
    ):
        look = {"text": [str(value or "") for value in values], "textposition": "inside"}
        figure.bars(name, stages, values, color, "%{x} problems", lying=True, **look)
    figure.update(**STACKED)
    words = {"drop": "dropped", "change": "changed", "flag": "flagged"}
    rules = [
        {
            "Stage": row["stage"],
            "Rule": rule,
            "Problems in": row["in"],
            **{word: actions.get(name, 0) for name, word in words.items()},
        }
        for row in record.funnel
        for rule, actions in sorted(row["rules"].items())
    ]
    planted = sum(row[0] for row in record.planted.values())
    return Panel(
        "",
        f"{record.pool} generated problems, {planted} of them with a planted defect.",
        [Plot("data-funnel", "Problems", figure)],
        pd.DataFrame(rules),
    )


@_of_record("Examples of what was dropped, and why")
def dropped(record: DataRecord) -> Panel:
    """Problems that were dropped: by which rule, why, and what had been planted in them."""
    rows = [
        {
            "Stage": row["stage"],
            "Rule": row["rule"],
            "Planted": row["planted"].replace("_", " ") or "nothing",
            "Why": row["detail"],
            "Statement": row["excerpt"] or "(empty)",
        }
        for row in record.dropped
    ]
    return Panel("", data=pd.DataFrame(rows))


def score_table(record: DataRecord) -> pd.DataFrame:
    """Precision and recall of every stage over all plantings together, and the worst of each."""
    rows = []
    every = [one for found in record.scores.values() for one in found]
    for stage in dict.fromkeys(one.stage for one in every):
        scores = [one for one in every if one.stage == stage]
        planted, found, wrong = (
            sum(getattr(one, name) for one in scores) for name in ("planted", "found", "wrong")
        )
        worst = min(min(one.precision, one.recall) for one in scores)
        rows.append(
            {
                "Stage": stage,
                "Planted": planted,
                "found": found,
                "wrongly acted on": wrong,
                "Precision": f"{found / max(found + wrong, 1):.3f}",
                "lowest precision": f"{min(one.precision for one in scores):.3f}",
                "Recall": f"{found / max(planted, 1):.3f}",
                "lowest recall": f"{min(one.recall for one in scores):.3f}",
                f"at least {REQUIRED:g}": "yes" if worst >= REQUIRED else "NO",
            }
        )
    return pd.DataFrame(rows)


@_of_record("Precision and recall against the planted truth")
def scores(record: DataRecord) -> Panel:
    """Precision and recall of every stage, a point per planting, and what is required."""
    figure = new_figure("Precision and recall by stage", "", x_title="Stage")
    every = [one for found in record.scores.values() for one in found]
    for name, color, symbol in (("precision", BLUE, "circle"), ("recall", GREEN, "diamond")):
        figure.add(
            "scatter",
            x=[one.stage for one in every],
            y=[getattr(one, name) for one in every],
            name=name,
            mode="markers",
            marker={"size": 11, "color": color, "symbol": symbol, "opacity": 0.6},
            hovertemplate="%{y:.3f}",
        )
    lowest = min(min(trace["y"]) for trace in figure.data)
    figure.rule("y", REQUIRED, f"required: {REQUIRED:g}")
    figure.update(scattermode="group", yaxis={"range": [min(0.9, lowest - 0.02), 1.01]})
    return Panel(
        "",
        f"Each point is one of {len(record.scores)} plantings with another seed. Recall: of what "
        "was planted for a stage, the share that it found. Precision: of what it acted on, the "
        "share that was planted for it; a defect that an earlier stage missed counts as wrong "
        f"here. Required of every stage and planting: {REQUIRED:g}.",
        [Plot("data-scores", "Precision and recall by stage", figure)],
        score_table(record),
    )


@_of_record("The planted defects")
def planted(record: DataRecord) -> Panel:
    """The planted defects of one pool: how many, which stage has to act, and how."""
    told = {"repair": "repair it", "drop": "drop it", "drop_test": "drop the test"}
    rows = [
        (name.replace("_", " "), count, stage, told.get(action, action))
        for name, (count, stage, action) in record.planted.items()
    ]
    frame = pd.DataFrame(rows, columns=["Defect", "Problems", "Stage", "It has to"])
    return Panel("", data=frame)


# Difficulty --------------------------------------------------------------------------------------


@_of_record("Before and after selection")
def difficulty(record: DataRecord) -> Panel:
    """Measured pass rates of what was verified and of both sets, in percent of the problems."""
    figure = new_figure(
        "Measured difficulty",
        "Problems (%)",
        x_title=f"Responses of the base model that pass, of {record.attempts}",
        barmode="group",
        bargap=0.2,
    )
    styles = arm_styles(NAMES.values())
    colors = {"pool": GREY, **{level: styles[name].color for level, name in NAMES.items()}}
    for key, name in (("pool", "verified pool"), *NAMES.items()):
        counts = np.array(record.passes[key])
        shares = 100 * counts / max(counts.sum(), 1)
        figure.bars(name, list(range(len(counts))), shares, colors[key], "%{y:.1f} %")
    bounds = "; ".join(
        f"{kind} problems are hard below {100 * hard:.3g} % and easy from {100 * easy:.3g} %"
        for kind, (hard, easy) in BOUNDS.items()
    )
    return Panel(
        "",
        "The pool after verification, and the two sets. Difficulty is measured: the base model's "
        f"passes of {record.attempts} responses to every problem; {bounds}.",
        [Plot("data-difficulty", "Measured difficulty", figure)],
        sets_table(record),
    )


def sets_table(record: DataRecord) -> pd.DataFrame:
    """Both sets: size, kinds, and what the base model does on them in fresh responses."""
    rows = []
    for level, name in NAMES.items():
        base = record.base[level]
        counts = np.array(record.passes[level])
        selected = counts @ np.arange(len(counts)) / max(counts.sum() * record.attempts, 1)
        rows.append(
            {
                "Set": name,
                "Problems": int(counts.sum()),
                **record.kinds[level],
                "pass@1 when selected (%)": round(100 * selected, 1),
                **{f"{key} (%)": round(100 * base[key], 1) for key in ("pass@1", "pass@8")},
                "Entropy (nats)": round(base["entropy"], 3),
                "Distinct-4": round(base["distinct_4"], 3),
                "Length (tokens)": round(base["mean length"], 1),
                "Truncated (%)": round(100 * base["truncated"], 1),
                "in the set runs train on": record.trained[level],
            }
        )
    return pd.DataFrame(rows)


@_of_record("Prediction alone")
def prediction(record: DataRecord) -> Panel:
    """Measured against predicted pass rate, tenths of the problems that calibrated nothing."""
    figure: Figure = new_figure(
        "Predicted and measured",
        "Measured pass rate (%)",
        x_title="Predicted from features and calibrated (%)",
        xaxis={"range": [0, 100], "showgrid": True},
        yaxis={"range": [0, 100]},
    )
    figure.add(
        "scatter",
        x=[0, 100],
        y=[0, 100],
        mode="lines",
        name="as predicted",
        line={"color": NEUTRAL_TEXT, "width": 1, "dash": "dot"},
        hoverinfo="skip",
    )
    rows = []
    for (kind, found), color in zip(sorted(record.prediction.items()), (BLUE, GREEN), strict=True):
        points = 100 * np.array(found["bins"])
        figure.add(
            "scatter",
            x=points[:, 0],
            y=points[:, 1],
            mode="markers",
            name=f"a tenth of the {kind} problems",
            marker={"size": 9, "color": color},
            hovertemplate="%{y:.0f} %",
        )
        rows.append(
            {
                "Kind": kind,
                "Problems": found["problems"],
                "Rank correlation": found["rank"],
                "Mean error (points)": round(100 * found["error"], 1),
                "Error of the mean (points)": round(100 * found["error_of_mean"], 1),
            }
        )
    return Panel(
        "",
        "Five dimensions of statement and reference, calibrated kind by kind on every second "
        "problem and asked about the others. The dimensions are mcbench's own: the paper's are "
        "unpublished. Here every problem was measured, so the prediction decides nothing.",
        [Plot("data-prediction", "Predicted and measured pass rate", figure)],
        pd.DataFrame(rows),
    )


PANELS: dict[str, Callable[[Sources], Panel]] = {
    "beside": beside,
    "funnel": funnel,
    "dropped": dropped,
    "scores": scores,
    "planted": planted,
    "difficulty": difficulty,
    "prediction": prediction,
}
