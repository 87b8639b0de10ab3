"""Figures as small JSON for a page.

Long arrays of numbers are stored as 16-bit integers between their lowest and highest value (base64;
65535 stands for a missing value), evenly spaced ones as start, step and count. Of an arm's curve
only the seeds are stored: the page's script draws mean and band from them, because it also smooths
them. ``assets/page.js`` reads all this.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mcbench.report.base import STEPS

LONG = 16  # numbers; shorter arrays stay as they are
POINTS = 600  # along x; longer curves are stored as means of neighbours
_DROPPED = ("title", "height", "template", "legend")  # the page says these itself


def figure_spec(figure: go.Figure) -> dict[str, Any]:
    """A figure for the page's script: ``data``, ``layout`` and whether it is over training steps.

    Without title and legend, which the page has in its own text.
    """
    raw = with_arrays(figure.to_plotly_json())
    layout = {key: value for key, value in raw["layout"].items() if key not in _DROPPED}
    layout["margin"] = {"l": 54, "r": 12, "t": 14, "b": 44}
    layout["showlegend"] = False
    axis = layout.get("xaxis", {}).get("title", {}).get("text")
    return {
        "data": [_trace(trace) for trace in raw["data"]],
        "layout": encoded(layout),
        "linked": axis == STEPS,
    }


def with_arrays(value: Any) -> Any:
    """The same with arrays where plotly put its own base64 form."""
    if isinstance(value, dict) and value.keys() >= {"dtype", "bdata"}:
        shape = [int(n) for n in str(value.get("shape", "-1")).split(",")]
        return np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).reshape(shape)
    if isinstance(value, dict):
        return {key: with_arrays(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_arrays(item) for item in value]
    return value


def _trace(trace: dict[str, Any]) -> dict[str, Any]:
    meta = trace.get("meta") or {}
    role = meta.get("role")
    if role in ("band", "mean"):
        return encoded({key: value for key, value in trace.items() if key not in ("x", "y")})
    if role != "seeds":
        return encoded(trace)
    count = meta["seeds"]
    length = (len(trace["x"]) + 1) // count - 1
    runs = np.append(np.asarray(trace["y"], dtype=float), np.nan).reshape(count, length + 1)
    x = np.asarray(trace["x"], dtype=float)[:length]
    x, values = _thinned(x, runs[:, :-1])
    curve = {"x": _numbers(x), "runs": _numbers(values)}
    rest = {key: value for key, value in trace.items() if key not in ("x", "y")}
    return {**encoded(rest), "curve": curve}


def _thinned(x: np.ndarray, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most :data:`POINTS` points: means of equally many neighbours, at the last one's x."""
    every = -(-x.size // POINTS)
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
    if isinstance(value, (float, np.floating)):
        return _short(float(value))
    if isinstance(value, np.integer):
        return int(value)
    return value


def _short(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.6g}")


def _numbers(values: np.ndarray) -> Any:
    flat = np.asarray(values, dtype=float).ravel()
    if values.ndim == 1 and flat.size > 2:
        gaps = np.diff(flat)
        if np.allclose(gaps, gaps[0], rtol=1e-9, atol=0) and gaps[0] != 0:
            return {"evenly": [_short(flat[0]), _short(gaps[0]), int(flat.size)]}
    if flat.size <= LONG:
        return [_short(item) for item in flat] if values.ndim == 1 else _rows(values)
    known = flat[np.isfinite(flat)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
    scale = (high - low) / 65534 or 1.0
    with np.errstate(invalid="ignore"):
        levels = np.where(np.isfinite(flat), np.rint((flat - low) / scale), 65535)
    packed = base64.b64encode(levels.astype("<u2").tobytes()).decode("ascii")
    found: dict[str, Any] = {"u16": packed, "low": float(low), "scale": float(scale)}
    return found if values.ndim == 1 else {**found, "shape": list(values.shape)}


def _rows(values: np.ndarray) -> list[list[float | int | None]]:
    return [[_short(item) for item in row] for row in values.astype(float)]
