"""A FigureWidget for live views: light to create, light to update.

plotly's FigureWidget sends five megabytes of script with every figure and answers every change with
the figure's whole resolved state. Here the script travels once (:class:`PlotlySource`), and the
page does not answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import plotly
import plotly.graph_objects as go
import traitlets
from plotly.basewidget import BaseFigureWidget
from plotly.serializers import custom_serializers

from mcbench.report.dashboard.plain_figure import PlainFigure, thinned

ASSETS = Path(__file__).parent / "assets"
MOST_POINTS = 1200  # of a trace; a panel is a few hundred pixels wide
# What of a trace changes while a run trains.
_VALUES = ("x", "y", "z")


class PlotlySource(anywidget.AnyWidget):
    """plotly's script for the page; shows nothing."""

    _esm = (ASSETS / "plotly_source.js").read_text(encoding="utf-8")
    version = traitlets.Unicode(plotly.__version__).tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        super().__init__(source=str(BaseFigureWidget._esm))


class LiveFigure(go.FigureWidget):
    """A figure that follows a :class:`PlainFigure` drawn again and again."""

    _esm = (ASSETS / "live_figure.js").read_text(encoding="utf-8")
    plotly_version = traitlets.Unicode(plotly.__version__).tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)

    def __init__(self, plain: PlainFigure, alt: str = "") -> None:
        values = [_values(trace) for trace in plain.data]
        traces = [{**t, **v} for t, v in zip(plain.data, values, strict=True)]
        super().__init__(data=traces, layout=plain.layout)
        self._config = {"displaylogo": False, "responsive": True, "displayModeBar": False}
        self._view_count = None  # else the page reports its views, even of a closed figure
        self.alt = alt
        self._look = _look(plain)
        self._shown = values
        self._plain_layout = plain.layout

    def follow(self, plain: PlainFigure) -> bool:
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


def _values(trace: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a trace as they are sent: thinned, in single precision."""
    found = {name: np.asarray(trace[name]) for name in _VALUES if name in trace}
    if trace["type"] == "scatter" and set(found) == {"x", "y"}:
        found["x"], found["y"] = thinned(found["x"], found["y"], MOST_POINTS)
    for name, values in found.items():
        if values.ndim == 2:  # travels as JSON, which has no NaN
            found[name] = values.astype(object)
            found[name][np.isnan(values)] = None
        elif values.dtype.kind in "fiu":
            found[name] = values.astype(np.float32)
    return found


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def _look(plain: PlainFigure) -> list[dict[str, Any]]:
    """The traces without their values."""
    return [{k: v for k, v in trace.items() if k not in _VALUES} for trace in plain.data]
