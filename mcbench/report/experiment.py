"""The panels of a study, and the numbers behind them, by name: those of
:mod:`mcbench.report.panels`, and coverage.
"""

from __future__ import annotations

import pandas as pd

from mcbench.report import paper
from mcbench.report.base import add_reference, role_of
from mcbench.report.coverage import coverage
from mcbench.report.figures import LINES
from mcbench.report.page import Panel
from mcbench.report.panels import panel
from mcbench.report.sources import Sources

COVERAGE = "coverage"


def block_of(sources: Sources, name: str) -> Panel:
    """A panel of the study in view, with the paper's curves.

    Raises:
        UserError: no such panel; the message names those there are.
    """
    if name == COVERAGE:
        return coverage(sources.arms)
    made = panel(name, sources.arms, also=(COVERAGE,))
    _add_papers_curves(made, sources)
    return made


def _add_papers_curves(made: Panel, sources: Sources) -> None:
    steps = [r.steps["step"].max() for runs in sources.arms.values() for r in runs if len(r.steps)]
    for plot in made.plots:
        line = LINES.get(plot.id)
        for place, reference in enumerate(paper.CURVES.get(sources.study.name, ())):
            if line is not None and line.column == reference.measure:
                add_reference(plot.figure, reference, float(max(steps)), place)


def frame(sources: Sources, name: str) -> pd.DataFrame:
    """The data behind a panel: its own table, or one row a point that its figures draw.

    Of figures the columns are ``figure``, ``series``, ``x`` and ``y``; of an arm's curve each seed
    as it was measured is there as ``seeds``, and the bold line as ``mean`` (column ``part``).

    Raises:
        UserError: no such panel; the message names those there are.
    """
    made = block_of(sources, name)
    if made.data is not None and not made.data.empty:
        return made.data
    rows = [
        pd.DataFrame(
            {
                "figure": plot.caption,
                "series": str(trace.get("name") or ""),
                "part": role_of(trace),
                "x": list(trace["x"]),
                "y": list(trace["y"]),
            }
        )
        for plot in (*made.plots, *made.flat)
        for trace in plot.figure.data
        if trace["type"] in ("scatter", "bar") and not trace.get("fill")
    ]
    if not rows:
        return pd.DataFrame(columns=["figure", "series", "part", "x", "y"])
    return pd.concat(rows, ignore_index=True).dropna(subset=["y"]).reset_index(drop=True)


def papers_numbers(experiment: str) -> pd.DataFrame:
    """What the paper reports for an experiment, read by eye where it is a figure."""
    rows = paper.NUMBERS.get(experiment, ())
    return pd.DataFrame(rows, columns=["Arm", "Measure", "The paper"])
