"""Figures as small JSON for a page.

Long arrays of numbers are stored as 16-bit integers between their lowest and highest value (base64;
65535 stands for a missing value), as 32-bit reals where a few huge values would leave the others no
digits, and evenly spaced ones as start, step and count. Of an arm's curve
only the seeds are stored, with the quantile of Student's t: the page's script draws mean and band
from them, because it also smooths them. ``assets/page.js`` reads all this.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from mcbench.report.base import (
    ROLES,
    STEPS,
    Figure,
    new_figure,
    role_of,
    rounded,
    seeds_in_one,
    seeds_of,
)
from mcbench.report.series import MIN_SEEDS_FOR_BAND, t_quantile

LONG = 16  # numbers; shorter arrays stay as they are
POINTS = 600  # along x; longer curves are stored as means of neighbours
VALUES, LEAST = 17_200, 160  # of a figure: with many runs there are fewer points, but so many
COARSE = 1e-3  # of the median size: a step of 16 bits above this is too large
_DROPPED = ("title", "height", "template", "legend")  # the page says these itself


def figure_spec(figure: Figure) -> dict[str, Any]:
    """A figure for the page's script: ``data``, ``layout`` and whether it is over training steps.

    Without title and legend, which the page has in its own text.
    """
    layout = {key: value for key, value in figure.layout.items() if key not in _DROPPED}
    shapes = layout.get("shapes", ())
    strips = [one for one in shapes if str(one.get("name", "")).startswith("stage:")]
    above = max((one.get("y1", 0) for one in strips), default=0)
    layout["margin"] = {"l": 54, "r": 12, "t": 14 + above, "b": 44}
    layout["showlegend"] = False
    return {
        "data": [_trace(trace) for trace in thinned(figure).data],
        "layout": encoded(layout),
        "linked": figure.axis_title("xaxis") == STEPS,
    }


def thinned(figure: Figure) -> Figure:
    """The same with few enough points in the curves of single seeds."""
    lines = sum(len(seeds_of(one)[1]) for one in figure.data if role_of(one) == "seeds")
    points, data = max(LEAST, min(POINTS, VALUES // max(1, lines))), []
    for trace in figure.data:
        if role_of(trace) == "seeds":
            x, runs = _thinned(*seeds_of(trace), points)
            trace = {**trace, **seeds_in_one(x, runs)}
        data.append(trace)
    return Figure(data, {**figure.layout})


def _trace(trace: dict[str, Any]) -> dict[str, Any]:
    role = role_of(trace)
    if role not in ROLES:
        return encoded(trace)
    rest = encoded({key: value for key, value in trace.items() if key not in ("x", "y")})
    if role != "seeds":
        return rest
    x, values = seeds_of(trace)
    t = t_quantile(len(values)) if len(values) >= MIN_SEEDS_FOR_BAND else None
    return {**rest, "curve": {"x": _numbers(x), "runs": _numbers(values), "t": rounded(t)}}


def _thinned(x: np.ndarray, runs: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points: means of equally many neighbours, at the last one's x."""
    every = -(-x.size // points)
    if every <= 1:
        return x, runs
    ends = np.unique(np.append(np.arange(every - 1, x.size, every), x.size - 1))
    starts = np.append(0, ends[:-1] + 1)
    missing = np.isnan(runs)
    sums = np.add.reduceat(np.where(missing, 0.0, runs), starts, axis=1)
    counts = np.add.reduceat((~missing).astype(float), starts, axis=1)
    with np.errstate(invalid="ignore"):
        return x[ends], np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def encoded(value: Any) -> Any:
    """``value`` as JSON data, its long arrays of numbers packed."""
    if isinstance(value, dict):
        return {str(key): encoded(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return _numbers(value)
    if isinstance(value, np.ndarray):
        return encoded(value.tolist())
    if isinstance(value, (list, tuple)):
        numeric = all(isinstance(item, (int, float)) and item is not True for item in value)
        if len(value) > LONG and numeric:
            return _numbers(np.asarray(value, dtype=float))
        return [encoded(item) for item in value]
    return rounded(value)


def _numbers(values: np.ndarray) -> Any:
    flat = np.asarray(values, dtype=float).ravel()
    if values.ndim == 1 and flat.size > 2:
        gaps = np.diff(flat)
        if np.allclose(gaps, gaps[0], rtol=1e-9, atol=0) and gaps[0] != 0:
            return {"evenly": [*rounded([flat[0], gaps[0]]), int(flat.size)]}
    if flat.size <= LONG:
        return rounded(values.astype(float))
    known = flat[np.isfinite(flat)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
    scale = (high - low) / 65534 or 1.0
    sizes = np.abs(known[known != 0])
    found: dict[str, Any]
    if high > low and scale > COARSE * np.median(sizes):
        found = {"f32": _base64(np.where(np.isfinite(flat), flat, np.nan), "<f4")}
    else:
        with np.errstate(invalid="ignore"):
            levels = np.where(np.isfinite(flat), np.rint((flat - low) / scale), 65535)
        found = {"u16": _base64(levels, "<u2"), "low": float(low), "scale": float(scale)}
    return found if values.ndim == 1 else {**found, "shape": list(values.shape)}


def _base64(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


# Figures of plotly's own -------------------------------------------------------------------------


def figure_of(data: Mapping[str, Any]) -> Figure:
    """A figure from plotly's JSON, its long lists of numbers as arrays."""
    traces = [{"type": "scatter", **_arrays(trace)} for trace in data.get("data", ())]
    layout = {name: value for name, value in data.get("layout", {}).items() if name != "template"}
    return Figure(traces, layout)


def in_house_style(data: Mapping[str, Any]) -> Figure:
    """The same, such as plotly express made it, in the style of all other figures; what the figure
    itself says of its layout stays, but for margins and the place of the legend.
    """
    figure = figure_of(data)
    kept = {k: v for k, v in figure.layout.items() if k not in ("margin", "legend")}
    for trace in figure.data:
        if "lines" in trace.get("mode", ""):
            trace["line"] = {"width": 2.4, **trace.get("line", {})}
    house = new_figure("", "").layout
    look = {  # of every axis, of which facets have several
        name: house[name[:5]] | {"title": {**house[name[:5]]["title"], "text": ""}}
        for name in kept
        if name[:5] in ("xaxis", "yaxis")
    }
    return Figure(figure.data, house).update(**look).update(**kept)


def _arrays(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "bdata" in value:  # as plotly packs arrays
            flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
            shape = [int(n) for n in str(value.get("shape", flat.size)).split(",")]
            return flat.reshape(shape)
        return {name: _arrays(item) for name, item in value.items()}
    long = isinstance(value, list) and len(value) > LONG
    if long and all(one is None or type(one) in (int, float) for one in value):
        return np.array([np.nan if one is None else one for one in value], dtype=float)
    return value
