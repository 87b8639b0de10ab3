"""Figures from run records, one function a figure.

Curves of a column over training are here, with those figures that need one arm each; how arms are
drawn is in :mod:`mcbench.report.base`, distributions over responses in
:mod:`mcbench.report.spread`, the list of all panels in :mod:`mcbench.report.panels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcbench.errors import unknown
from mcbench.files import rows_beside
from mcbench.report.base import SMOOTHING, STACKED, Figure, compare, new_figure
from mcbench.report.series import (
    Arms,
    Record,
    by_step,
    eval_curves,
    eval_lengths,
    measure,
    not_shown,
    smooth,
    step_curves,
)
from mcbench.report.style import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION, ArmStyle, arm_styles
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
_TOKENS = "%{y:.0f} tokens"


def line(arms: Arms, name: str) -> Figure:
    """A column of :data:`LINES` over training.

    Raises:
        UserError: no such line; the message names those there are.
    """
    if name not in LINES:
        raise unknown("line", name, LINES)
    spec = LINES[name]
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


def _mean_over_seeds(
    records: Sequence[Record], column: str, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Steps (N,) and the mean over seeds of a logged column (N,), running mean over steps."""
    curves = step_curves({"": records}, column, scale)
    if not curves:
        return np.array([]), np.array([])
    curve = smooth(curves[0], SMOOTHING)
    return curve.x, curve.mean


def add_spread(
    figure: Figure,
    records: Sequence[Record],
    columns: str,
    style: ArmStyle,
    name: str = "",
    alpha: float = 0.14,
) -> None:
    """A band between the outer percentiles of a length, logged as ``columns`` and the percentile,
    and the median between them; nothing where it was not logged.
    """
    found = [step_curves({"": records}, f"{columns}{percent}") for percent in PERCENTILES]
    if all(found):
        low, middle, high = (smooth(curve, SMOOTHING) for (curve,) in found)
        band = f"{name}10th–90th percentile"
        figure.band(middle.x, low.mean, high.mean, style.fill(alpha), band)
        figure.line(middle.x, middle.mean, f"{name}median", style, 2.2, hovertemplate=_TOKENS)


def length_spread(arm: str, records: Sequence[Record], limit: int | None = None) -> Figure:
    """One arm's lengths: 10th to 90th percentile, median, and the means of right and wrong ones."""
    style = replace(arm_styles([arm])[arm], dash="solid")
    figure = new_figure(style.label, "Length (tokens)")
    add_spread(figure, records, "length/p", style)
    means = (("correct", "right", "dash"), ("incorrect", "wrong", "dot")) if figure.data else ()
    for column, name, dash in means:
        x, y = _mean_over_seeds(records, f"length/{column}_mean")
        figure.line(x, y, f"mean, {name}", replace(style, dash=dash), hovertemplate=_TOKENS)
    return with_limit(figure, limit)


def with_limit(figure: Figure, limit: int | None) -> Figure:
    """A dotted line at the maximum length, and an axis from 0 to just above it."""
    if limit and figure.data:
        figure.rule("y", limit)
        figure.update(yaxis={"range": [0, limit * 1.06]})
    return figure


# The conditions of the truncation mask (Eq. 2), in percent of all responses.
MASK_RULES = {
    "mask/truncated": ("cut", GREY, "solid"),
    "mask/eligible_incorrect": ("cut, wrong, not repeating", VERMILLION, "dash"),
    "mask/eligible_non_incorrect": ("cut, not wrong, not repeating", SKY, "longdash"),
    "mask/eligible_correct": ("cut, right, not repeating", BLUE, "dashdot"),
    "mask/repeating": ("cut and repeating", ORANGE, "dot"),
    "mask/share": ("masked", GREEN, "solid"),
}


# What the importance correction leaves of the responses, by their length.
WEIGHTS = {
    "correction/weight_to_25": ("up to 25 % of the limit", SKY, "solid"),
    "correction/weight_to_50": ("up to 50 %", BLUE, "dash"),
    "correction/weight_to_75": ("up to 75 %", ORANGE, "dashdot"),
    "correction/weight_to_100": ("up to the limit", VERMILLION, "solid"),
}


def shares(
    looks: Mapping[str, tuple[str, str, str]],
    y_title: str,
    arm: str,
    records: Sequence[Record],
) -> Figure:
    """One arm's columns of :data:`MASK_RULES` or :data:`WEIGHTS` over training, in percent."""
    figure = new_figure(arm_styles([arm])[arm].label, y_title)
    for column, look in looks.items():
        x, y = _mean_over_seeds(records, column, 100)
        if x.size:
            width = 2.4 if column == "mask/share" else 1.6
            style = ArmStyle(*look)
            figure.line(x, y, style.label, style, width, hovertemplate="%{y:.1f} %")
    return figure.update(yaxis={"rangemode": "tozero"})


GROUPS = (
    ("group/all_pass", "all pass", 0.85),
    ("group/mixed", "mixed", 0.45),
    ("group/all_fail", "all fail", 0.14),
)


def group_outcomes(arm: str, records: Sequence[Record]) -> Figure:
    """One arm's prompts by outcome of their group; only mixed groups carry a gradient."""
    style = replace(arm_styles([arm])[arm], dash="solid")
    figure = new_figure(style.label, "Prompts (%)")
    for column, name, alpha in GROUPS:
        x, y = _mean_over_seeds(records, column, 100)
        if x.size:
            look = {"stackgroup": "outcome", "fillcolor": style.fill(alpha)}
            figure.line(x, y, name, style, 0.5, **look, hovertemplate="%{y:.0f} %")
    return figure.update(yaxis={"range": [0, 100]})


# All together ------------------------------------------------------------------------------------


def time_split(arms: Arms) -> Figure:
    """Seconds per update: sampling, scoring, and everything else (forward, backward, optimizer)."""
    figure = new_figure("Time per update", "", x_title="Seconds per update")
    styles = arm_styles(arms)
    split = {arm: parts for arm, records in arms.items() if (parts := time_parts(records))}
    for part, alpha in (("sampling", 0.9), ("scoring", 0.55), ("update", 0.25)):
        if split:
            labels = [styles[arm].label for arm in split]
            values = [own[part] for own in split.values()]
            colors = [styles[arm].fill(alpha) for arm in split]
            figure.bars(part, labels, values, colors, "%{x:.2f} s", lying=True)
    return figure.update(**STACKED, legend={"traceorder": "normal"})


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
