"""A FigureWidget for live views: light to create, light to update.

plotly's FigureWidget sends five megabytes of script with every figure and answers every change with
the figure's whole resolved state. Here the script travels once (:class:`PlotlySource`), and the
page does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import plotly
import plotly.graph_objects as go
import traitlets
from plotly.basewidget import BaseFigureWidget
from plotly.serializers import custom_serializers

from mcbench.report.base import Figure

ASSETS = Path(__file__).parent / "assets"
MOST_POINTS = 1200  # of a trace; a panel is a few hundred pixels wide
# What of a trace changes while a run trains; its name says how far an unfinished run came.
_NUMBERS = ("x", "y", "z")
_CHANGING = (*_NUMBERS, "name")


class PlotlySource(anywidget.AnyWidget):
    """plotly's script for the page; shows nothing."""

    _esm = (ASSETS / "plotly_source.js").read_text(encoding="utf-8")
    version = traitlets.Unicode(plotly.__version__).tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        super().__init__(source=str(BaseFigureWidget._esm))


class LiveFigure(go.FigureWidget):
    """A figure that follows one drawn again and again; it is what plotly checks."""

    _esm = (ASSETS / "live_figure.js").read_text(encoding="utf-8")
    plotly_version = traitlets.Unicode(plotly.__version__).tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, plain: Figure, alt: str = "", opened: Callable[[str, float], None] | None = None
    ) -> None:
        values = [_values(trace) for trace in plain.data]
        traces = [{**t, **v} for t, v in zip(plain.data, values, strict=True)]
        super().__init__(data=traces, layout=plain.layout)
        self._config = {"displaylogo": False, "responsive": True, "displayModeBar": False}
        self._view_count = None  # else the page reports its views, even of a closed figure
        self.alt = alt
        self._opened = opened  # is told arm and step of a point that was clicked
        self._look = _look(plain)
        self._shown = values
        self._plain_layout = plain.layout

    @traitlets.observe("_js2py_pointsCallback")
    def _clicked(self, change: Any) -> None:
        sent = change["new"] or {}
        if sent.get("event_type") == "plotly_click" and self._opened:
            points = sent["points"]
            trace = self._data[points["trace_indexes"][0]]
            self._opened(trace.get("legendgroup", ""), points["xs"][0])

    def follow(self, plain: Figure) -> bool:
        """Show the new values; False where the traces are others, so that a new figure is due."""
        if _look(plain) != self._look:
            return False
        changed = {}
        for index, trace in enumerate(plain.data):
            values = _values(trace)
            if not all(_same(value, self._shown[index][n]) for n, value in values.items()):
                changed[index] = self._shown[index] = values
                self._data[index].update(values)
        for names in {tuple(values) for values in changed.values()}:
            indexes = [index for index, values in changed.items() if tuple(values) == names]
            restyle = {name: [changed[index][name] for index in indexes] for name in names}
            self._send_restyle_msg(restyle, trace_indexes=indexes)
        self._follow_layout(plain.layout)
        return True

    def _follow_layout(self, layout: dict[str, Any]) -> None:
        changed = {
            name: value
            for name, value in layout.items()
            if name != "meta" and value != self._plain_layout.get(name)
        }
        if changed:
            self._layout.update(changed)
            self._send_relayout_msg(changed)
        self._plain_layout = layout

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        """As it is now, also for a page that is opened later."""
        state = super().get_state(key, drop_defaults)
        if key is None and hasattr(self, "_shown"):
            to_json = custom_serializers["to_json"]
            state["_widget_data"] = to_json(self._data, self)
            state["_widget_layout"] = to_json(self._layout, self)
        return state


def _values(trace: dict[str, Any]) -> dict[str, Any]:
    """What changes of a trace as it is sent, arrays thinned and in single precision."""
    found = {name: np.asarray(trace[name]) for name in _NUMBERS if name in trace}
    if trace["type"] == "scatter" and set(found) == {"x", "y"}:
        found["x"], found["y"] = thinned(found["x"], found["y"], MOST_POINTS)
    for name, values in found.items():
        if values.ndim == 2:  # travels as JSON, which has no NaN
            found[name] = values.astype(object)
            found[name][np.isnan(values)] = None
        elif values.dtype.kind in "fiu":
            found[name] = values.astype(np.float32)
    return {**found, "name": trace.get("name", "")}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        return one == other
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def _look(plain: Figure) -> list[dict[str, Any]]:
    """The traces without what changes."""
    return [{k: v for k, v in trace.items() if k not in _CHANGING} for trace in plain.data]


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


def answer_while_busy(widget: Any) -> None:
    """Have the widget's messages handled in a thread while a cell runs.

    JupyterLab sends them to a subshell for that. ipykernel 7.4 moves them back to the thread that
    used the widget last, which is the one that trains; this hook of its decides, and without it the
    page's wish counts.
    """
    if widget.comm is not None:
        widget.comm._reply_subshell_for = None
