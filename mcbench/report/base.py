"""The house style of figures, and how arms are drawn in all of them.

Every figure that compares arms draws an arm with three traces, from back to front: ``seeds`` (a
thin line per seed, in one trace with gaps), ``band`` (the mean's 95 % t interval, from three seeds
on) and ``mean`` (the bold line). A trace names its part as ``meta["role"]`` and its arm as
``legendgroup``: a page smooths and switches arms by them, and a live view can update traces in
place, because every curve has all three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mcbench.report.paper import Reference
from mcbench.report.series import Arms, Curve, smooth
from mcbench.report.style import NEUTRAL_GRID, NEUTRAL_TEXT, ArmStyle, arm_styles

STEPS = "Training step (optimizer updates)"
SMOOTHING = 5  # steps; per-step measurements come from one batch and are noisy
ROLES = ("seeds", "band", "mean")
# What makes an empty figure; a live view draws on plain data, which is much faster.
FIGURE: ContextVar[Callable[..., Any]] = ContextVar("figure", default=go.Figure)


_AXIS: dict[str, Any] = {
    "gridcolor": NEUTRAL_GRID,
    "zeroline": False,
    "showline": False,
    "automargin": True,
    "ticks": "outside",  # invisible: they keep the labels off the plot
    "ticklen": 6,
    "tickcolor": "rgba(0,0,0,0)",
    "exponentformat": "power",
}
_TITLE: dict[str, Any] = {"standoff": 8, "font": {"size": 12}}
_LAYOUT: dict[str, Any] = {
    "template": "none",
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": NEUTRAL_TEXT},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "margin": {"l": 58, "r": 14, "t": 44, "b": 46},
    "height": 320,
    "hovermode": "x unified",
    "hoverlabel": {"font": {"size": 12}},
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": NEUTRAL_TEXT},
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 1, "xanchor": "right"},
}


def new_figure(title: str, y_title: str, *, x_title: str = STEPS, y_format: str = "") -> go.Figure:
    """An empty figure in the house style: no box, no ticks, hairline grid, transparent ground."""
    x_axis = {**_AXIS, "showgrid": False, "title": {**_TITLE, "text": x_title}}
    y_axis = {**_AXIS, "nticks": 6, "tickformat": y_format, "title": {**_TITLE, "text": y_title}}
    # In one go: each later update of a figure costs as much as all of this.
    layout = {**_LAYOUT, "title": _heading(title), "xaxis": x_axis, "yaxis": y_axis}
    return FIGURE.get()(layout=layout)


def _heading(title: str) -> dict[str, Any]:
    return {"text": title, "x": 0, "xanchor": "left", "font": {"size": 15}}


def restyle(figure: go.Figure, title: str) -> None:
    """The house style for a figure that exists, such as one with several panels."""
    figure.update_layout(**_LAYOUT, title=_heading(title))
    figure.update_xaxes(**_AXIS, title=_TITLE, showgrid=False)
    figure.update_yaxes(**_AXIS, title=_TITLE, nticks=6)


def add_curve(
    figure: go.Figure,
    curve: Curve,
    style: ArmStyle,
    *,
    markers: bool = False,
    legend: bool = True,
    hover: str = "%{y:.3g}",
    smoothing: int = 1,
    row: int | None = None,
    col: int | None = None,
) -> None:
    """One arm's three traces. Seeds stay as measured; mean and band are of running means over
    ``smoothing`` entries.
    """
    place: dict[str, Any] = {"row": row, "col": col} if row else {}
    shown = smooth(curve, smoothing)
    count = curve.runs.shape[0]
    gap = np.full((count, 1), np.nan)
    seeds_x = np.hstack([np.tile(curve.x.astype(float), (count, 1)), gap]).ravel()[:-1]
    seeds_y = np.hstack([curve.runs, gap]).ravel()[:-1]
    band = ~np.isnan(shown.low)
    band_x, high, low = curve.x[band], shown.high[band], shown.low[band]
    for role, values, look in (
        (
            "seeds",
            {"x": seeds_x, "y": seeds_y},
            {"line": {"color": style.fill(0.28), "width": 1}, "hoverinfo": "skip"},
        ),
        (
            "band",
            {
                "x": np.concatenate([band_x, band_x[::-1]]),
                "y": np.concatenate([high, low[::-1]]),
            },
            {
                "fill": "toself",
                "fillcolor": style.fill(0.14),
                "line": {"width": 0},
                "hoverinfo": "skip",
            },
        ),
        (
            "mean",
            {"x": curve.x, "y": shown.mean},
            {
                "line": {"color": style.color, "width": 2.4, "dash": style.dash},
                "marker": {"size": 6, "color": style.color},
                "hovertemplate": hover,
            },
        ),
    ):
        figure.add_scatter(
            **values,
            **look,
            name=style.label,
            mode="lines+markers" if markers and role == "mean" else "lines",
            legendgroup=curve.arm,
            showlegend=legend and role == "mean",
            meta={"role": role, "seeds": count, "smooth": smoothing > 1},
            **place,
        )


def add_reference(figure: go.Figure, reference: Reference, last_step: float | None = None) -> None:
    """The paper's curve, faint. Over training its steps are stretched to ``last_step``, because
    its runs are of another length; None leaves x as it is.
    """
    x = np.array(reference.x, dtype=float)
    if last_step is not None:
        x = x / x.max() * last_step
    scaled = "" if last_step is None else f", its {reference.x[-1]:.0f} steps stretched to ours"
    figure.add_scatter(
        x=x,
        y=np.array(reference.y),
        mode="lines",
        name=f"paper, {reference.label} ({reference.source}, read by eye{scaled})",
        line={"color": NEUTRAL_GRID.replace("0.22", "0.75"), "width": 1.6, "dash": "dot"},
        hovertemplate="%{y:.3g}",
        legendgroup="paper",
        showlegend=True,
        meta={"role": "paper"},
    )


def compare(
    curves: Sequence[Curve],
    arms: Arms,
    title: str,
    y_title: str,
    *,
    x_title: str = STEPS,
    y_format: str = "",
    hover: str = "%{y:.3g}",
    markers: bool = False,
    smoothing: int = 1,
    from_zero: bool = False,
) -> go.Figure:
    """One figure with a curve per arm."""
    figure = new_figure(title, y_title, x_title=x_title, y_format=y_format)
    styles = arm_styles(arms)
    for curve in curves:
        add_curve(
            figure, curve, styles[curve.arm], markers=markers, hover=hover, smoothing=smoothing
        )
    if from_zero:
        figure.update_yaxes(rangemode="tozero")
    return figure
