"""The panels that one experiment alone has, and Table 1, by the names that pages and notebooks use.

Those of ``data_quality`` and ``code_evaluator`` have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims.measurements import GRID, REPETITION
from mcbench.experiments.study import OWN
from mcbench.report import data_panels, evaluator_panels
from mcbench.report.coverage import coverage
from mcbench.report.page import Panel, Plot
from mcbench.report.panels import panel
from mcbench.report.series import Record
from mcbench.report.sources import Sources, arms_of
from mcbench.report.spread import over_temperature
from mcbench.report.style import arm_styles
from mcbench.report.table import ScoreTable, paper_table, results_table
from mcbench.worlds.search import DEFINITION_F05, NAMED_F05

# 02: the readings of the mask ---------------------------------------------------------------------

READINGS = {
    "mask/truncated": "cut at the limit",
    "mask/eligible_incorrect": "reading: incorrect",
    "mask/eligible_correct": "reading: correct",
    "mask/eligible_non_incorrect": "reading: non-incorrect",
    "mask/repeating": "cut and repeating",
    "mask/share": "masked",
}


def readings(sources: Sources) -> Panel:
    """Percent of all responses that each reading of the condition makes candidates for the mask,
    mean over steps and seeds, by arm.
    """
    rows = []
    for arm, style in arm_styles(sources.arms).items():
        row: dict[str, Any] = {"Arm": style.label}
        for column, name in READINGS.items():
            logged = [r.steps[column] for r in sources.arms[arm] if column in r.steps.columns]
            values = [series.mean() for series in logged]
            row[f"{name} (%)"] = round(100 * float(np.mean(values)), 2) if values else None
        rows.append(row)
    return Panel(
        "What each reading of the condition would mask",
        "Candidates in percent of all responses, counted in every arm whatever it masks. §2.2 "
        "and Eq. 2 say incorrect, §2.3 correct, a later equation non-incorrect. With a reward "
        "of 0 or 1 the last two differ only in responses that could not be judged.",
        data=pd.DataFrame(rows),
    )


def repetition(sources: Sources) -> Panel:
    """Truncated responses that repeat themselves by either rule, by arm, over its runs whose
    responses were counted.
    """
    names = {record.meta["run_id"]: arm for arm, runs in sources.arms.items() for record in runs}
    rows = [
        {"arm": names[row["run_id"]], **row}
        for row in sources.study.measurements
        if row["kind"] == REPETITION and row["run_id"] in names
    ]
    title = "Repetition: exact window against any period"
    prose = (
        "The paper's rule compares the last m tokens with the m before them, so that it misses "
        "loops whose period does not divide m; the periodic rule accepts any period up to m."
    )
    if not rows:
        missing = "Not recorded: repetition is counted from responses, which these runs lack."
        return Panel(title, prose, missing=missing)
    counted: dict[str, Any] = {
        "Runs counted": ("run_id", "nunique"),
        "Responses": ("responses", "sum"),
        "cut at the limit": ("truncated", "sum"),
        "repeating, window rule": ("window", "sum"),
        "repeating, periodic rule": ("periodic", "sum"),
        "found by the periodic rule alone": ("alone", "sum"),
    }
    frame = pd.DataFrame(rows).assign(alone=lambda found: found["periodic"] - found["window"])
    table = frame.groupby("arm", sort=False).agg(**counted)
    labels = {arm: style.label for arm, style in arm_styles(sources.arms).items()}
    return Panel(title, prose, data=table.rename(labels).rename_axis("Arm").reset_index())


# 03: checkpoints over temperature -----------------------------------------------------------------


def grid_values(
    rows: Sequence[Mapping[str, Any]], column: str, scale: float = 1
) -> dict[str, dict[int, dict[float, float]]]:
    """Checkpoint -> seed -> temperature -> value."""
    found: dict[str, dict[int, dict[float, float]]] = {}
    for row in sorted(rows, key=lambda row: (row["step"], row["seed"], row["temperature"])):
        seeds = found.setdefault(f"after {row['step']} steps", {})
        seeds.setdefault(row["seed"], {})[row["temperature"]] = scale * row[column]
    return found


def grid(sources: Sources) -> Panel:
    """D(T) and accuracy over temperature of the models at the start, middle and end."""
    rows = [row for row in sources.study.measurements if row["kind"] == GRID]
    title = "Checkpoints over temperature"
    if not rows:
        return Panel(title, missing="Not recorded: no checkpoint was measured.")
    accuracy = over_temperature(
        grid_values(rows, "accuracy", 100), "pass@1 (%)", title="Accuracy", paper=False
    )
    return Panel(
        title,
        "Held-out problems, sampled at each temperature with the model before training, after "
        "half and after all of the steps at T = 1. The paper claims that the temperatures at "
        "which accuracy holds reach higher during training (T1), that diversity rises with "
        "temperature (T2) and that it falls as training goes on.",
        [
            Plot("grid-diversity", "D(T)", over_temperature(grid_values(rows, "distinct_4"))),
            Plot("grid-accuracy", "Accuracy over temperature", accuracy),
        ],
    )


# 08: how far off-policy ---------------------------------------------------------------------------


def clip_by_update(sources: Sources) -> Panel:
    """Percent of tokens clipped by the number of the update within its generation, by arm."""
    rows = []
    for arm, style in arm_styles(sources.arms).items():
        counts = pd.concat([_by_position(record) for record in sources.arms[arm]])
        rows += [
            {"Arm": style.label, "Update of its generation": position, "Tokens clipped (%)": value}
            for position, value in counts.groupby(level=0).mean().round(4).items()
        ]
    return Panel(
        "How far off-policy",
        "The first update of a generation is on-policy, so that nothing can be clipped; the "
        "share grows with each further update on the same responses.",
        data=pd.DataFrame(rows),
        missing="" if rows else "Not recorded: clip ratios.",
    )


def _by_position(record: Record) -> pd.Series:
    steps = record.steps
    if "clip_ratio/region_mean" not in steps.columns or "reward" not in steps.columns:
        return pd.Series(dtype=float)
    position = steps.groupby(steps["reward"].notna().cumsum()).cumcount() + 1
    return 100 * steps["clip_ratio/region_mean"].groupby(position).mean()


# 02 and 09: the correction for the sampler --------------------------------------------------------


def correction(sources: Sources) -> Panel:
    """The weight left by length in the arms that have a correction, and in those with noise."""
    every = {**sources.arms, **(arms_of(sources.correction) if sources.correction else {})}
    weighted = {
        arm: runs
        for arm, runs in every.items()
        if any("correction/weight" in record.steps for record in runs)
    }
    return panel("correction", weighted or sources.arms)


# 23: the sub-agent that searches ------------------------------------------------------------------


def search(sources: Sources) -> Panel:
    """What its answers are worth to the solver, and what the task tells, over training."""
    title = "A sub-agent that searches a repository"
    if sources.search is None or not (arms := arms_of(sources.search)):
        return Panel(title, missing="Not recorded: no run of the sub-agent.")
    solved, told = (panel(name, arms) for name in ("accuracy", "task"))
    prose = (
        "Accuracy is the share of held-out queries that the solver solves with what it was shown. "
        "f05 is the mean of F0.5 on files and on lines, f05_1 to f05_3 what the lines that were "
        "shown until that turn would be worth as an answer. Every line that names the function "
        f"asked for is worth {NAMED_F05:.3f} on average and lets the solver solve nothing; its "
        f"definition alone is worth {DEFINITION_F05:.3f}, and solves 38 %."
    )
    plots = [replace(plot, id=f"search-{plot.id}") for plot in (*solved.plots, *told.plots)]
    return Panel(title, prose, plots, missing=solved.missing)


# Table 1 -----------------------------------------------------------------------------------------


def table_one(sources: Sources) -> Panel | ScoreTable:
    """Table 1 of these runs."""
    made = results_table(sources.sizes)
    return made or Panel("These runs", missing="Not recorded: an evaluation.")


def papers_table_one(sources: Sources) -> ScoreTable:
    """The paper's Table 1, the same whatever the runs are."""
    return paper_table()


Draw = Callable[[Sources], Panel | ScoreTable]
TABLES: dict[str, Draw] = {"table-1": table_one, "table-1-paper": papers_table_one}
_OWN: dict[str, Mapping[str, Draw]] = {
    "truncation_mask": {"readings": readings, "repetition": repetition, "correction": correction},
    "temperature": {"grid": grid},
    "data_quality": {"beside": data_panels.beside},
    "code_evaluator": evaluator_panels.PANELS,
    "results": TABLES,
    "batch_size": {"clip-by-update": clip_by_update},
    "context_length": {"correction": correction},
    "multi_turn": {"search": search},
    OWN: TABLES,
}


def own_panels(experiment: str) -> dict[str, Draw]:
    """By name: how often problems are solved, which is asked of all, and what is the experiment's
    alone.
    """
    return {"coverage": coverage, **_OWN.get(experiment, {})}
