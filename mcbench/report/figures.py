"""Figures from run records, one function a figure.

Curves of a column over training are here, with those figures that need one arm each; how arms are
drawn is in :mod:`mcbench.report.base`, distributions over responses in
:mod:`mcbench.report.spread`, the list of all panels in :mod:`mcbench.report.panels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcbench.errors import unknown
from mcbench.files import rows_beside
from mcbench.report.base import SMOOTHING, Figure, compare, new_figure
from mcbench.report.series import (
    Arms,
    Curve,
    Record,
    by_step,
    eval_curves,
    eval_lengths,
    measure,
    not_shown,
    passes,
    smooth,
    step_curves,
)
from mcbench.report.style import COLORS, ArmStyle, arm_styles
from mcbench.runs.distributions import PERCENTILES


@dataclass(frozen=True)
class Line:
    """A logged column as a figure: its column, title, axis title, factor, hover text.

    ``smoothed``: measured on one batch a step, so that the bold line is a running mean.
    """

    column: str
    title: str
    y_title: str
    scale: float = 1.0
    hover: str = "%{y:.3g}"
    from_zero: bool = False
    smoothed: bool = True


LINES = {name: Line(**row) for name, row in rows_beside(__file__, "lines.toml").items()}
"""By name, rows of ``lines.toml``."""


def line(arms: Arms, name: str) -> Figure:
    """A column of :data:`LINES` over training.

    Raises:
        UserError: no such line; the message names those there are.
    """
    if name not in LINES:
        raise unknown("line", name, LINES)
    spec = LINES["reward-mean" if name == "reward" and not passes(arms) else name]
    return compare(
        step_curves(arms, spec.column, spec.scale),
        arms,
        spec.title,
        spec.y_title,
        hover=spec.hover,
        from_zero=spec.from_zero,
        smoothed=spec.smoothed,
    )


def logged(arms: Arms, name: str, title: str) -> Figure:
    """What a task tells over training beside the reward."""
    curves = step_curves(arms, f"task/{name}")
    return compare(curves, arms, title, title, hover="%{y:.3f}", smoothed=True)


def told(arms: Arms, name: str, title: str) -> Figure:
    """What evaluations of a task tell beside pass@1, at the training length."""
    curves = eval_curves(arms, f"parts/{name}", eval_lengths(arms)[0])
    return compare(curves, arms, title, title, hover="%{y:.3f}")


def accuracy(arms: Arms, length: int, title: str = "") -> Figure:
    """Held-out pass@1, or what the task measures, in percent at one maximum response length.

    Evaluations of other problems, or with other attempts or temperatures than most, are left out;
    the figure's subtitle says which.
    """
    name = measure(arms)
    figure = compare(
        eval_curves(arms, "pass_at_1", length, scale=100),
        arms,
        title or f"Held-out {name}, up to {length} tokens",
        f"{name} (%)",
        markers=True,
        hover="%{y:.1f} %",
    )
    left_out = not_shown(arms, length)
    return figure.update(title={"subtitle": {"text": left_out}}) if left_out else figure


# One arm each ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmFigure:
    """A figure of one arm, a table ``each_arm`` of ``panels.toml``.

    ``bands`` are percentiles logged as ``columns`` and their number: an area between the outer
    ones, the median as a line. ``lines`` are columns times ``scale``, areas on top of each other
    where they have a ``fill``. Each has the colour that it names, or the arm's. All are running
    means over steps, and means over seeds. ``limited``: with a line at the maximum length, and an
    axis from 0 to just above it.
    """

    id: str
    y_title: str
    hover: str
    scale: float = 1.0
    bands: Sequence[Mapping[str, Any]] = ()
    lines: Sequence[Mapping[str, Any]] = ()
    y_axis: Mapping[str, Any] = field(default_factory=dict)
    limited: bool = False

    def draw(self, arm: str, records: Sequence[Record], limit: int | None, own: ArmStyle) -> Figure:
        """The figure; without a trace where nothing of it was logged."""
        figure = new_figure(own.label, self.y_title)

        def means(column: str, scale: float = 1.0) -> list[Curve]:
            return [smooth(one, SMOOTHING) for one in step_curves({arm: records}, column, scale)]

        def look(row: Mapping[str, Any]) -> ArmStyle:
            color = COLORS[row["color"]] if "color" in row else own.color
            return ArmStyle(row.get("name", ""), color, row.get("dash", "solid"))

        for row in self.bands:
            style = look(row)
            found = [means(f"{row['columns']}{percent}") for percent in PERCENTILES]
            if all(found):
                (low,), (middle,), (high,) = found
                name, fill = f"{style.label}10th–90th percentile", style.fill(row["fill"])
                figure.band(middle.x, low.mean, high.mean, fill, name)
                name, hover = f"{style.label}median", self.hover
                figure.line(middle.x, middle.mean, name, style, 2.2, hovertemplate=hover)
        for row in self.lines:
            style = look(row)
            looks: dict[str, Any] = {"width": row.get("width", 1.6), "hovertemplate": self.hover}
            if "fill" in row:
                looks |= {"stackgroup": "outcome", "fillcolor": style.fill(row["fill"])}
            for curve in means(row["column"], self.scale):
                figure.line(curve.x, curve.mean, style.label, style, **looks)
        if self.limited and limit and figure.data:
            figure.rule(limit)
            figure.update(yaxis={"range": [0, limit * 1.06]})
        return figure.update(yaxis=self.y_axis)


# All together ------------------------------------------------------------------------------------


def time_split(arms: Arms) -> Figure:
    """Seconds per update: sampling, scoring, and everything else (forward, backward, optimizer)."""
    figure = new_figure("Time per update", "", x_title="Seconds per update")
    styles = arm_styles(arms)
    split = {arm: parts for arm, records in arms.items() if (parts := time_parts(records))}
    for part, alpha in (("sampling", 0.9), ("scoring", 0.55), ("update", 0.25)) if split else ():
        figure.add(
            "bar",
            name=part,
            x=[own[part] for own in split.values()],
            y=[styles[arm].label for arm in split],
            orientation="h",
            marker={"color": [styles[arm].fill(alpha) for arm in split]},
            hovertemplate="%{x:.2f} s",
        )
    return figure.update(
        barmode="stack",
        hovermode="y unified",
        bargap=0.45,
        xaxis={"showgrid": True},
        yaxis={"showgrid": False, "autorange": "reversed"},  # the first on top
        legend={"traceorder": "normal"},
    )


def time_parts(records: Sequence[Record]) -> dict[str, float]:
    """Mean seconds per update by part; empty when times were not logged."""
    rows = [record for record in records if "time/step_s" in record.steps.columns]
    if not rows:
        return {}

    def per_update(column: str) -> float:
        sums = [by_step(r.steps, column).sum() for r in rows if column in r.steps.columns]
        return float(np.sum(sums)) / updates if sums else 0.0

    updates = sum(by_step(record.steps, "time/step_s").size for record in rows)
    sampling, scoring = per_update("time/generate_s"), per_update("time/reward_s")
    rest = max(0.0, per_update("time/step_s") - sampling - scoring)
    return {"sampling": sampling, "scoring": scoring, "update": rest}
