"""A figure as plain data: what the drawing functions ask for, unchecked and therefore fast.

plotly checks every property of a figure, which takes some 50 ms each; a live view draws the same
figures several times a minute while a model trains beside it. This class takes the same calls and
keeps the same dictionaries, about fifty times faster. It is checked once, when a figure with new
traces becomes a :class:`~mcbench.report.dashboard.live_figure.LiveFigure`.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

_UNDERSCORED = ("paper_bgcolor", "plot_bgcolor")


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Nested dictionaries are merged; ``title_text`` means ``title``'s ``text``, as in plotly."""
    for name, value in changes.items():
        first, _, rest = name.partition("_")
        if rest and name not in _UNDERSCORED:
            _merge(into, {first: {rest: value}})
        elif isinstance(value, Mapping):
            inner = into.get(name)
            if not isinstance(inner, dict):
                inner = into[name] = {}
            _merge(inner, value)
        else:
            into[name] = value


class PlainFigure:
    """Traces in ``data``, everything else in ``layout``."""

    def __init__(self, layout: Mapping[str, Any] | None = None) -> None:
        self.data: list[dict[str, Any]] = []
        self.layout: dict[str, Any] = deepcopy(dict(layout or {}))

    def add_scatter(self, **trace: Any) -> None:
        self.data.append({"type": "scatter", **trace})

    def add_bar(self, **trace: Any) -> None:
        self.data.append({"type": "bar", **trace})

    def add_heatmap(self, **trace: Any) -> None:
        self.data.append({"type": "heatmap", **trace})

    def add_shape(self, **shape: Any) -> None:
        self.layout.setdefault("shapes", []).append(shape)

    def add_hline(self, y: float, **look: Any) -> None:
        ends = {"x0": 0, "x1": 1, "xref": "x domain", "y0": y, "y1": y, "yref": "y"}
        self.add_shape(type="line", **ends, **look)

    def update_layout(self, changes: Mapping[str, Any] | None = None, **more: Any) -> None:
        _merge(self.layout, {**(changes or {}), **more})

    def update_xaxes(self, **changes: Any) -> None:
        _merge(self.layout, {"xaxis": changes})

    def update_yaxes(self, **changes: Any) -> None:
        _merge(self.layout, {"yaxis": changes})


def thinned(x: np.ndarray, y: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most about ``most`` points of a line, in order: of each stretch its lowest and highest.

    Gaps (NaN) stay, so that lines that were apart stay apart.
    """
    if x.size <= most or y.dtype.kind not in "fiu":
        return x, y
    width = int(np.ceil(2 * x.size / most))
    count = -(-x.size // width)
    padded = np.full(count * width, np.nan)
    padded[: y.size] = y
    table = padded.reshape(count, width)
    empty = np.isnan(table).all(axis=1)
    low = np.where(np.isnan(table), np.inf, table).argmin(axis=1)
    high = np.where(np.isnan(table), -np.inf, table).argmax(axis=1)
    starts = np.arange(count) * width
    missing = np.isnan(y)
    gaps = np.flatnonzero(missing & ~np.concatenate([[False], missing[:-1]]))  # where each begins
    kept = np.concatenate([starts[~empty] + low[~empty], starts[~empty] + high[~empty], gaps])
    kept = np.unique(np.concatenate([[0, x.size - 1], kept]))
    return x[kept], y[kept]
