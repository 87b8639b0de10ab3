"""The page of the data pipeline: what it did to a noisy pool, and training on a harder and an
easier set (the paper's Fig. 5 and its claims D1 to D4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims import INSIGHTS, Verdict
from mcbench.claims.data import EASIER, HARDER
from mcbench.claims.statistics import area_under_curve, first_window, growth, last_window
from mcbench.claims.verdict import assess_family
from mcbench.errors import UserError
from mcbench.experiments.graded_sets import BOUNDS, DataRecord
from mcbench.report.base import Figure, new_figure
from mcbench.report.page import NANO_NOTE, Page, Panel, Plot, Section, Tile, data_table
from mcbench.report.panels import panel
from mcbench.report.provenance import provenance
from mcbench.report.series import (
    Arms,
    Curve,
    Record,
    eval_curves,
    eval_lengths,
    seed_of,
    step_curves,
)
from mcbench.report.style import BLUE, GREEN, GREY, NEUTRAL_TEXT, VERMILLION, arm_styles
from mcbench.report.verdicts import interval, signed, verdict_lines, verdict_section

REQUIRED = 0.95
"""Precision and recall that every stage has to reach."""
NAMES = {HARDER: "Harder set", EASIER: "Easier set"}
_SET_OF = {f"nano-{level}:train": name for level, name in NAMES.items()}
_PANELS = ("reward", "accuracy", "lengths", "diversity", "groups")


def set_arms(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Runs by the set they trained on, the harder one first, each arm in order of seeds.

    Raises:
        UserError: an arm is missing, or no seed is in both.
    """
    arms: dict[str, list[Record]] = {name: [] for name in NAMES.values()}
    for record in sorted(records, key=seed_of):
        name = _SET_OF.get(record.config.train_set)
        if name is not None:
            arms[name].append(record)
    if missing := [name for name, runs in arms.items() if not runs]:
        raise UserError(f"there is no run on the {missing[0].lower()}; the comparison needs both")
    if not shared_seeds(arms):
        raise UserError("the two arms share no seed, so nothing can be paired")
    return arms


def shared_seeds(arms: Arms) -> list[int]:
    """Seeds that both arms have."""
    return sorted(set.intersection(*(set(map(seed_of, runs)) for runs in arms.values())))


def claims(arms: Arms) -> dict[str, Verdict]:
    """The verdicts on D1 to D4, by id."""
    family = [one for one in INSIGHTS.values() if one.experiment == "data_quality"]
    records: Any = {level: arms[name] for level, name in NAMES.items()}
    return assess_family(family, records)


def sentences(arms: Arms) -> list[str]:
    """The verdicts, one a line."""
    return verdict_lines(claims(arms))


# The paper's numbers beside ours -----------------------------------------------------------------


def beside_the_paper(arms: Arms) -> pd.DataFrame:
    """One row a claim: what the paper reports, and the same numbers here, means over seeds.

    Raises:
        UserError: the runs hold no evaluation.
    """
    lengths = eval_lengths(arms)
    if not lengths:
        raise UserError("the runs hold no evaluation yet, so there is nothing to compare")
    accuracy = eval_curves(arms, "pass_at_1", lengths[0], scale=100)
    reward = step_curves(arms, "reward", scale=100)
    length = step_curves(arms, "completions/mean_length")
    gains = _of_both(accuracy, lambda x, y: last_window(x, y) - first_window(x, y))
    ratio = f" ({gains[0] / gains[1]:.1f} times)" if min(gains) > 0 else ""
    rewards = _of_both(reward, growth)
    rows = [
        (
            "D1",
            "gain of test accuracy on the harder set about three times the easier one's "
            "(LiveCodeBench v6, 300 steps)",
            f"{_pair(gains, ' points')}{ratio}",
        ),
        ("D2", "lower training reward on the harder set",
         _pair(_of_both(reward, area_under_curve), " %", False)),
        (
            "D3",
            "reward grows alike, test accuracy on the harder set only",
            f"reward {_pair(rewards, ' points')}; pass@1 "
            f"{_pair(_of_both(accuracy, growth), ' points')}",
        ),
        (
            "D4",
            "responses start similar or shorter, grow faster and end longer on the harder set",
            f"at the start {_pair(_of_both(length, first_window), '', False)}; growth "
            f"{_pair(_of_both(length, growth), '')}; at the end "
            f"{_pair(_of_both(length, last_window), ' tokens', False)}",
        ),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["Claim", "The paper", "Here, harder | easier set"])


def _of_both(
    curves: Sequence[Curve], statistic: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> list[float]:
    """A statistic of the harder and of the easier set's curve, mean over seeds."""
    by_arm = {curve.arm: curve for curve in curves}
    found = (by_arm.get(name) for name in NAMES.values())
    return [
        float("nan") if curve is None else float(np.nanmean(statistic(curve.x, curve.runs)))
        for curve in found
    ]


def _pair(values: Sequence[float], unit: str, sign: bool = True) -> str:
    texts = [signed(v) if sign else f"{v:.1f}" for v in values]
    return f"{texts[0]} | {texts[1]}{unit}"


# The pipeline ------------------------------------------------------------------------------------


def funnel(record: DataRecord) -> Figure:
    """Problems left after each stage, and dropped by it."""
    figure = new_figure("The funnel", "", x_title="Problems")
    stages = [row["stage"] for row in record.funnel]
    dropped = [row["in"] - row["out"] for row in record.funnel]
    for name, values, color in (
        ("left", [row["out"] for row in record.funnel], BLUE),
        ("dropped by the stage", dropped, VERMILLION),
    ):
        figure.add(
            "bar",
            y=stages,
            x=values,
            name=name,
            orientation="h",
            marker={"color": color},
            text=[str(value) if value else "" for value in values],
            textposition="inside",
            hovertemplate="%{x} problems",
        )
    figure.update(barmode="stack", bargap=0.35, hovermode="y unified")
    figure.update(xaxis={"showgrid": True})
    figure.update(yaxis={"showgrid": False, "autorange": "reversed"})
    return figure


def rules_table(record: DataRecord) -> pd.DataFrame:
    """What every rule did to how many problems."""
    rows = [
        {
            "Stage": row["stage"],
            "Rule": rule,
            "Problems in": row["in"],
            **{name: actions.get(name, 0) for name in ("drop", "change", "flag")},
        }
        for row in record.funnel
        for rule, actions in sorted(row["rules"].items())
    ]
    return pd.DataFrame(rows).rename(
        columns={"drop": "dropped", "change": "changed", "flag": "flagged"}
    )


def examples_table(record: DataRecord) -> pd.DataFrame:
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
    return pd.DataFrame(rows)


def score_table(record: DataRecord) -> pd.DataFrame:
    """Precision and recall of every stage over all plantings together, and the worst of each."""
    rows = []
    for stage in _stages(record):
        scores = [s for found in record.scores.values() for s in found if s.stage == stage]
        planted, found, wrong = (
            sum(getattr(s, name) for s in scores) for name in ("planted", "found", "wrong")
        )
        worst = min(min(s.precision, s.recall) for s in scores)
        rows.append(
            {
                "Stage": stage,
                "Planted": planted,
                "found": found,
                "wrongly acted on": wrong,
                "Precision": f"{found / max(found + wrong, 1):.3f}",
                "lowest precision": f"{min(s.precision for s in scores):.3f}",
                "Recall": f"{found / max(planted, 1):.3f}",
                "lowest recall": f"{min(s.recall for s in scores):.3f}",
                f"at least {REQUIRED:g}": "yes" if worst >= REQUIRED else "NO",
            }
        )
    return pd.DataFrame(rows)


def _stages(record: DataRecord) -> list[str]:
    return list(dict.fromkeys(s.stage for found in record.scores.values() for s in found))


def score_figure(record: DataRecord) -> Figure:
    """Precision and recall of every stage, a point per planting, and what is required."""
    figure = new_figure("Precision and recall by stage", "", x_title="Stage")
    for name, color, symbol in (("precision", BLUE, "circle"), ("recall", GREEN, "diamond")):
        pairs = [(s.stage, getattr(s, name)) for found in record.scores.values() for s in found]
        figure.add(
            "scatter",
            x=[stage for stage, _ in pairs],
            y=[value for _, value in pairs],
            name=name,
            mode="markers",
            marker={"size": 11, "color": color, "symbol": symbol, "opacity": 0.6},
            hovertemplate="%{y:.3f}",
        )
    lowest = min(min(trace["y"]) for trace in figure.data)
    figure.rule("y", REQUIRED, f"required: {REQUIRED:g}")
    figure.update(yaxis={"range": [min(0.9, lowest - 0.02), 1.01]})
    figure.update(scattermode="group")
    return figure


def planted_table(record: DataRecord) -> pd.DataFrame:
    """The planted defects of one pool: how many, which stage has to act, and how."""
    told = {"repair": "repair it", "drop": "drop it", "drop_test": "drop the test"}
    rows = [
        (name.replace("_", " "), count, stage, told.get(action, action))
        for name, (count, stage, action) in record.planted.items()
    ]
    return pd.DataFrame(rows, columns=["Defect", "Problems", "Stage", "It has to"])


# Difficulty --------------------------------------------------------------------------------------


def difficulty(record: DataRecord) -> Figure:
    """Measured pass rates of what was verified and of both sets, in percent of the problems."""
    figure = new_figure(
        "Measured difficulty",
        "Problems (%)",
        x_title=f"Responses of the base model that pass, of {record.attempts}",
    )
    styles = arm_styles(NAMES.values())
    colors = {"pool": GREY, **{level: styles[name].color for level, name in NAMES.items()}}
    for key, name in (("pool", "verified pool"), *NAMES.items()):
        counts = np.array(record.passes[key])
        figure.add(
            "bar",
            x=list(range(len(counts))),
            y=100 * counts / max(counts.sum(), 1),
            name=name,
            marker={"color": colors[key]},
            hovertemplate="%{y:.1f} %",
        )
    figure.update(barmode="group", bargap=0.2)
    return figure


def prediction(record: DataRecord) -> Figure:
    """Measured against predicted pass rate, tenths of the problems that calibrated nothing."""
    figure = new_figure(
        "Predicted and measured",
        "Measured pass rate (%)",
        x_title="Predicted from features and calibrated (%)",
    )
    figure.add("scatter",
        x=[0, 100], y=[0, 100], mode="lines", name="as predicted",
        line={"color": NEUTRAL_TEXT, "width": 1, "dash": "dot"}, hoverinfo="skip",
    )  # fmt: skip
    colors = (BLUE, GREEN)
    for (kind, found), color in zip(sorted(record.prediction.items()), colors, strict=True):
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
    figure.update(xaxis={"range": [0, 100], "showgrid": True})
    figure.update(yaxis={"range": [0, 100]})
    return figure


def prediction_table(record: DataRecord) -> pd.DataFrame:
    """How far the prediction is off, and how far the mean alone, which knows no problem."""
    rows = [
        {
            "Kind": kind,
            "Problems": found["problems"],
            "Rank correlation": found["rank"],
            "Mean error (points)": round(100 * found["error"], 1),
            "Error of the mean (points)": round(100 * found["error_of_mean"], 1),
        }
        for kind, found in sorted(record.prediction.items())
    ]
    return pd.DataFrame(rows)


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


# Sections ----------------------------------------------------------------------------------------


def claims_section(arms: Arms, verdicts: Mapping[str, Verdict]) -> Section:
    """D1 to D4 as claims with states, the paper's numbers beside ours."""
    seeds = shared_seeds(arms)
    section = verdict_section(
        verdicts,
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}, paired. The harder set's responses "
        "start longer than the easier one's before any training: the last part of D4 "
        "speaks of the sets, not of what training does.",
    )
    beside = f"<h3>The paper's numbers beside ours</h3>{data_table(beside_the_paper(arms))}"
    return replace(section, markup=section.markup + beside)


def pipeline_section(record: DataRecord) -> Section:
    """The noisy pool through the stages."""
    pools = len(record.scores)
    return Section(
        "pipeline",
        "The pipeline on a noisy pool",
        f"{record.pool} generated problems, {sum(row[0] for row in record.planted.values())} of "
        "them with one planted defect each, so that the truth is known: damaged and unfit "
        "statements, copies, problems of the held-out set, broken tests, wrong references and "
        "problems that a constant solves.",
        [
            Panel(
                "What went in and out of each stage",
                "",
                [Plot("data-funnel", "Problems", funnel(record))],
                rules_table(record),
            ),
            Panel(
                "Precision and recall against the planted truth",
                f"Each point is one of {pools} plantings with another seed. Recall: of what was "
                "planted for a stage, the share that it found. Precision: of what it acted on, the "
                "share that was planted for it; a defect that an earlier stage missed counts as "
                f"wrong here. Required of every stage and planting: {REQUIRED:g}.",
                [Plot("data-scores", "Precision and recall by stage", score_figure(record))],
                planted_table(record),
            ),
        ],
        markup=data_table(score_table(record))
        + "<details><summary>Examples of what was dropped, and why</summary>"
        + data_table(examples_table(record))
        + "</details>",
    )


def difficulty_section(record: DataRecord) -> Section:
    """Predict, calibrate, select; before and after."""
    bounds = "; ".join(
        f"{kind} problems are hard below {100 * hard:.3g} % and easy from {100 * easy:.3g} %"
        for kind, (hard, easy) in BOUNDS.items()
    )
    return Section(
        "difficulty",
        "Difficulty: predicted, calibrated, selected",
        f"Difficulty is measured: the base model's passes of {record.attempts} responses to every "
        f"problem. The sets are of equal size and hold the same kinds in the same numbers, because "
        f"kinds differ in difficulty: {bounds}. Problems that were never solved are in neither. "
        "What selected a problem flatters the contrast, so the table shows fresh responses too. "
        "All this was fixed before any run.",
        [
            Panel(
                "Before and after selection",
                "The pool after verification, and the two sets.",
                [Plot("data-difficulty", "Measured difficulty", difficulty(record))],
            ),
            Panel(
                "Prediction alone",
                "Five dimensions of statement and reference, calibrated kind by kind on every "
                "second problem and asked about the others. The dimensions are mcbench's own: the "
                "paper's are unpublished. Here every problem was measured, so the prediction "
                "decides nothing.",
                [Plot("data-prediction", "Predicted and measured pass rate", prediction(record))],
                prediction_table(record),
            ),
        ],
        markup=data_table(sets_table(record)),
    )


def training_section(arms: Arms) -> Section:
    """The training curves of both sets."""
    return Section(
        "training",
        "Training on either set",
        "GRPO+ with everything equal but the problems. Accuracy is measured on nano's held-out "
        "problems in both arms. Reward is measured on the arm's own problems, so its height says "
        "how hard they are.",
        [panel(name, arms, "data") for name in _PANELS],
    )


# The page ----------------------------------------------------------------------------------------


def _tiles(record: DataRecord, verdicts: Mapping[str, Verdict]) -> list[Tile]:
    styles = arm_styles(NAMES.values())
    tiles = [
        Tile(
            f"Base pass@1, {name.lower()}",
            f"{100 * record.base[level]['pass@1']:.1f}",
            "%",
            f"{sum(record.passes[level])} problems",
            styles[name],
        )
        for level, name in NAMES.items()
    ]
    scores = [s for found in record.scores.values() for s in found]
    lowest = min(min(s.precision, s.recall) for s in scores)
    tiles.append(Tile("Lowest precision or recall", f"{lowest:.3f}", "", f"required: {REQUIRED:g}"))
    for part in verdicts["D1"].parts:
        under = f"95 %: {interval(part.estimate.low, part.estimate.high)}"
        tiles.append(Tile(f"D1: {part.name}", signed(part.estimate.value), part.unit, under))
    return tiles


def lead(record: DataRecord, verdicts: Mapping[str, Verdict]) -> str:
    """The page in a few sentences."""
    states = ", ".join(f"{name} {verdict.state}" for name, verdict in verdicts.items())
    return (
        f"The pipeline turned a pool of {record.pool} problems into a harder and an easier set of "
        f"{sum(record.passes[HARDER])} each; the base model solves "
        f"{100 * record.base[HARDER]['pass@1']:.0f} % and "
        f"{100 * record.base[EASIER]['pass@1']:.0f} % of them. "
        f"The paper's claims on this scale: {states}."
    )


def data_quality_page(record: DataRecord, records: Iterable[Record], reproduce: str) -> Page:
    """The whole page.

    Args:
        record: what the pipeline did.
        records: runs on both sets, any number of seeds.
        reproduce: the command that makes the page again, shown as it is.

    Raises:
        UserError: an arm is missing, no seed is in both, or the runs hold no evaluation.
    """
    arms = set_arms(records)
    verdicts = claims(arms)
    return Page(
        title="Data quality",
        kicker="mcbench · Figure 5",
        lead=lead(record, verdicts),
        tiles=_tiles(record, verdicts),
        arms=arm_styles(arms),
        notes=(NANO_NOTE,),
        sections=[
            claims_section(arms, verdicts),
            pipeline_section(record),
            difficulty_section(record),
            training_section(arms),
            provenance({"sets": arms}, reproduce),
        ],
    )
