"""Figures as plotly's JSON in the house style, and how arms are drawn in all of them.

Every figure that compares arms draws an arm with three traces, from back to front: ``seeds`` (a
thin line per seed, in one trace with gaps), ``band`` (the mean's 95 % t interval, from three seeds
on) and ``mean`` (the bold line). A trace names its part as ``meta["role"]`` and its arm as
``legendgroup``: a page smooths and switches arms by them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from mcbench.report.paper import Reference
from mcbench.report.series import Arms, Curve, smooth
from mcbench.report.style import NEUTRAL_GRID, NEUTRAL_TEXT, ArmStyle, arm_styles

STEPS = "Training step (optimizer updates)"
SMOOTHING = 5  # steps; per-step measurements come from one batch and are noisy
ROLES = ("seeds", "band", "mean")
PLOTLY = "application/vnd.plotly.v1+json"  # the MIME type of figures in notebooks
BREAK = "<br>"  # plotly's, in names and titles


def _axis(**look: Any) -> dict[str, Any]:
    return {
        "gridcolor": NEUTRAL_GRID,
        "zeroline": False,
        "showline": False,
        "automargin": True,
        "ticks": "outside",  # invisible: they keep the labels off the plot
        "ticklen": 6,
        "tickcolor": "rgba(0,0,0,0)",
        "exponentformat": "power",
        "title": {"standoff": 8, "font": {"size": 12}},
        **look,
    }


_LAYOUT: dict[str, Any] = {
    "template": "none",
    "title": {"x": 0, "xanchor": "left", "font": {"size": 15}},
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": NEUTRAL_TEXT},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "margin": {"l": 58, "r": 14, "t": 44, "b": 46},
    "height": 320,
    "hovermode": "x unified",
    "hoverlabel": {"font": {"size": 12}},
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": NEUTRAL_TEXT},
    # Below, where plotly's own buttons, which come up at the top on the right, never cover it.
    "legend": {"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0, "xanchor": "left"},
    "xaxis": _axis(showgrid=False),
    "yaxis": _axis(nticks=6),
}


@dataclass
class Figure:
    """A figure as plotly's JSON: a list of traces and a layout, plain dictionaries.

    Numbers may be numpy arrays. Drawing fills the two, which costs next to nothing.
    """

    data: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)

    def add(self, kind: str, **trace: Any) -> None:
        """Add a trace, such as a ``scatter`` or a ``bar``, with plotly's own properties; columns of
        a table become arrays.
        """
        values = {n: v.to_numpy() if isinstance(v, pd.Series) else v for n, v in trace.items()}
        self.data.append({"type": kind, **values})

    def line(
        self, x: Any, y: Any, name: str, style: ArmStyle, width: float = 1.6, **more: Any
    ) -> None:
        """Add a line in a style's colour and dash."""
        look = {"color": style.color, "dash": style.dash, "width": width}
        self.add("scatter", **{"x": x, "y": y, "name": name, "mode": "lines", "line": look} | more)

    def band(
        self, x: np.ndarray, low: np.ndarray, high: np.ndarray, fill: str, name: str, **more: Any
    ) -> None:
        """Add the area between two lines (N,), where both have a value."""
        known = ~(np.isnan(low) | np.isnan(high))
        x, low, high = x[known], low[known], high[known]
        self.add(
            "scatter",
            x=np.concatenate([x, x[::-1]]),
            y=np.concatenate([high, low[::-1]]),
            name=name,
            mode="lines",
            fill="toself",
            fillcolor=fill,
            line={"width": 0},
            hoverinfo="skip",
            **more,
        )

    def update(self, **layout: Any) -> Figure:
        """Change the layout; nested dictionaries are merged. Returns the figure."""
        _merge(self.layout, layout)
        return self

    def axis_title(self, axis: str) -> str:
        """What is written at an axis such as ``xaxis``, on one line."""
        text = self.layout.get(axis, {}).get("title", {}).get("text")
        return (text or "").replace(BREAK, " ")

    def rule(self, value: float) -> None:
        """A dotted line across the figure at a value of the y axis."""
        line = {"color": NEUTRAL_TEXT, "width": 1.2, "dash": "dot"}
        self.add_shape(type="line", line=line, xref="x domain", x0=0, x1=1, y0=value, y1=value)

    def add_shape(self, **shape: Any) -> None:
        """Add a line or an area that is no data."""
        self.layout.setdefault("shapes", []).append(shape)

    def to_dict(self) -> dict[str, Any]:
        """As the JSON data that plotly's scripts read."""
        layout = {name: value for name, value in self.layout.items() if name != "template"}
        return {"data": rounded(self.data), "layout": rounded(layout)}

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> dict[str, Any]:
        title = self.layout["title"]["text"]
        return {PLOTLY: self.to_dict(), "text/plain": title}


def rounded(value: Any) -> Any:
    """As JSON data that any program reads: lists in place of arrays, which plotly would pack;
    numbers with six digits, which no screen tells apart, and None in place of NaN.
    """
    if isinstance(value, dict):
        return {str(name): rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(item) for item in value]
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if not math.isfinite(number):
            return None
        whole = number.is_integer() and abs(number) < 1e15
        return int(number) if whole else float(f"{number:.6g}")
    return value.item() if isinstance(value, np.generic) else value


def role_of(trace: Mapping[str, Any]) -> str:
    """Which part of an arm's curve a trace is (:data:`ROLES`); empty for any other."""
    return str((trace.get("meta") or {}).get("role", ""))


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            _merge(into.setdefault(name, {}), value)
        else:
            into[name] = value


def new_figure(title: str, y_title: str, *, x_title: str = STEPS, **layout: Any) -> Figure:
    """An empty figure in the house style: no box, no ticks, hairline grid, transparent ground."""
    figure = Figure(layout=deepcopy(_LAYOUT))
    figure.update(
        title={"text": title},
        xaxis={"title": {"text": x_title}},
        yaxis={"title": {"text": y_title}},
    )
    return figure.update(**layout)


def add_curve(
    figure: Figure,
    curve: Curve,
    style: ArmStyle,
    *,
    markers: bool = False,
    hover: str = "%{y:.3g}",
    smoothed: bool = False,
    legend: bool = True,
) -> None:
    """One arm's three traces. Seeds stay as measured; mean and band are of running means over
    :data:`SMOOTHING` entries where ``smoothed``, which a page's reader can change.
    """
    shown = smooth(curve, SMOOTHING) if smoothed else curve
    count = curve.runs.shape[0]
    seeds = seeds_in_one(curve.x, curve.runs)
    name = f"{style.label} ({curve.note})" if curve.note else style.label

    def part(role: str) -> dict[str, Any]:
        meta: dict[str, Any] = {"role": role, "seeds": count, "smooth": smoothed}
        meta |= {"label": style.label} if role == "mean" else {}
        named = legend and role == "mean"
        return {"legendgroup": curve.arm, "showlegend": named, "meta": meta}

    thin = replace(style, color=style.fill(0.28), dash="solid")
    figure.line(**seeds, name=name, style=thin, width=1, hoverinfo="skip", **part("seeds"))
    figure.band(curve.x, shown.low, shown.high, style.fill(0.14), name, **part("band"))
    look: dict[str, Any] = {"mode": "lines+markers"} if markers else {}
    look |= {"marker": {"size": 6, "color": style.color}, "hovertemplate": hover}
    figure.line(curve.x, shown.mean, name, style, 2.4, **look, **part("mean"))


def seeds_in_one(x: np.ndarray, runs: np.ndarray) -> dict[str, np.ndarray]:
    """``x`` and ``y`` of one trace that draws all seeds: x (N,), runs (S, N), gaps between them."""
    gap = np.full((len(runs), 1), np.nan)
    many = np.tile(np.asarray(x, dtype=float), (len(runs), 1))
    return {"x": np.hstack([many, gap]).ravel()[:-1], "y": np.hstack([runs, gap]).ravel()[:-1]}


def seeds_of(trace: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """x (N,) and the runs (S, N) of a curve's ``seeds`` trace."""
    y = np.append(np.asarray(trace["y"], dtype=float), np.nan)
    runs = y.reshape(trace["meta"]["seeds"], -1)[:, :-1]
    return np.asarray(trace["x"], dtype=float)[: runs.shape[1]], runs


PAPERS = ("diamond-open", "square-open", "x-thin-open", "triangle-up-open")


def add_reference(
    figure: Figure, reference: Reference, last_step: float | None = None, place: int = 0
) -> None:
    """The paper's curve: a hairline through the points that were read, with open marks that no arm
    has, other ones at another ``place``. Over training its steps are stretched to ``last_step``,
    because its runs are of another length; None leaves x as it is.
    """
    x = np.array(reference.x, dtype=float)
    if last_step is not None:
        x = x / x.max() * last_step
    scaled = "" if last_step is None else f", its {reference.x[-1]:.0f} steps stretched to ours"
    mark = {"symbol": PAPERS[place % len(PAPERS)], "size": 8, "color": NEUTRAL_TEXT}
    figure.add(
        "scatter",
        x=x,
        y=np.array(reference.y),
        name=f"paper, {reference.label} ({reference.source}, read by eye{scaled})",
        mode="lines+markers",
        line={"color": NEUTRAL_GRID.replace("0.22", "0.75"), "width": 1},
        marker=mark | {"line": {"width": 1.2, "color": NEUTRAL_TEXT}},
        hovertemplate="%{y:.3g}",
        legendgroup="paper",
        meta={"role": "paper", "short": f"paper: {reference.label}"},
    )


def compare(
    curves: Sequence[Curve],
    arms: Arms,
    title: str,
    y_title: str,
    *,
    x_title: str = STEPS,
    from_zero: bool = False,
    **look: Any,
) -> Figure:
    """One figure with a curve per arm; ``look`` as for :func:`add_curve`."""
    figure = new_figure(title, y_title, x_title=x_title)
    styles = arm_styles(arms)
    for curve in curves:
        add_curve(figure, curve, styles[curve.arm], **look)
    return figure.update(yaxis={"rangemode": "tozero"}) if from_zero else figure
