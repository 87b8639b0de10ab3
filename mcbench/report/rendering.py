"""The templates of pages and what they call: autoescape is on, so that text stays text.

What came from a run or a model reaches a page through these filters alone. Only this package's own
scripts and styles, and JSON made safe by :func:`script_json`, are put in as they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mcbench.claims.rules import HIGHER, LOWER, STATES
from mcbench.report import paper
from mcbench.report.base import Figure
from mcbench.report.numbers import figure_table
from mcbench.report.style import DASHES, NEUTRAL_TEXT, ArmStyle

COLOURED = {*STATES, HIGHER, LOWER}
LONG_TEXT = 32  # characters; longer cells of a table are broken into lines


def render(template: str, **values: Any) -> str:
    """A template of this package, filled in."""
    return environment().get_template(template).render(**values)


def macro(name: str) -> Any:
    """A macro of ``blocks.html``, to be called with what it shows."""
    return getattr(environment().get_template("blocks.html").module, name)


@cache
def environment() -> Environment:
    """The templates with their filters."""
    found = Environment(
        loader=PackageLoader("mcbench.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.globals.update(asset=lambda name: Markup(asset(name)), paper=paper.PAPER)
    found.tests["a"] = lambda value, name: type(value).__name__ == name
    found.filters.update(
        dashes=lambda style: DASHES[style.dash],
        heads=heads,
        in_words=in_words,
        kind=kind,
        legend=legend,
        numbers=figure_table,
        on_track=on_track,
        shown=shown,
    )
    return found


def asset(name: str) -> str:
    """A style or script that ships with this package."""
    return (files("mcbench.report") / "assets" / name).read_text(encoding="utf-8")


def plotly_script() -> Markup:
    """plotly's own."""
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def script_json(value: object) -> Markup:
    """JSON that may stand inside a ``<script>`` element whatever text it holds."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


# Tables ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """A cell of a table that leads somewhere."""

    text: str
    href: str


def heads(frame: pd.DataFrame) -> Iterator[tuple[str, bool]]:
    """The columns' names, and whether a column holds nothing but text."""
    for name in frame.columns:
        yield str(name), all(isinstance(value, (str, Link)) for value in frame[name])


def kind(value: object) -> str:
    """The class of a cell: numbers stand to the right, long text is broken into lines, states of
    claims have colours.
    """
    if isinstance(value, str) and value in COLOURED:
        return f"text state {value.replace(' ', '-')}"
    text = value.text if isinstance(value, Link) else value
    if isinstance(text, str):
        return "text long" if len(text) > LONG_TEXT else "text"
    return ""


def shown(value: object) -> str:
    """A value as the text of a cell; a dash where there is none."""
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Intervals in text -------------------------------------------------------------------------------

WIDEST = 30  # margins; the axis is logarithmic but near 0


def on_track(margins: float) -> float:
    """Where an effect of so many margins lies, in percent of the width; 0 is in the middle."""
    share = np.arcsinh(margins) / np.arcsinh(WIDEST)
    return round(50 + 50 * float(np.clip(share, -1, 1)), 2)


# Figures -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """An entry of a figure's legend: a line as it is drawn, or the fill of an area or bar."""

    name: str
    style: ArmStyle | None = None
    fill: str = ""


def legend(figure: Figure, arms: Collection[str]) -> list[Key]:
    """The figure's legend, less the arms that the page's toolbar names."""
    named = [
        trace
        for trace in figure.data
        if trace.get("name")
        and trace["type"] in ("scatter", "bar")
        and trace.get("showlegend") is not False
        and trace.get("legendgroup") not in arms
    ]
    if len(named) == 1 and named[0].get("legendgroup") != "paper":
        return []
    return [_key(trace) for trace in named]


def _key(trace: Mapping[str, Any]) -> Key:
    line = trace.get("line", {}) if trace["type"] == "scatter" else {}
    usual = 2 if "lines" in trace.get("mode", "") else 0  # plotly's, where a trace says nothing
    if line.get("width", usual) >= 1:
        dash = line.get("dash", "solid")
        return Key(trace["name"], ArmStyle("", str(line.get("color", NEUTRAL_TEXT)), dash))
    area = trace["type"] == "scatter" and "fillcolor" in trace
    fill = trace["fillcolor"] if area else trace.get("marker", {}).get("color")
    colors = [fill] if isinstance(fill, str) else list(fill if fill is not None else ())
    return Key(trace["name"], fill=str(colors[0]) if colors else NEUTRAL_TEXT)


def in_words(table: pd.DataFrame) -> str:
    """What a curve figure ends at, for those who hear it."""
    if table.empty or len(table.columns) > 8:
        return ""
    axis, names = table.columns[0], table.columns[1:]
    first, last = (shown(table[axis].iloc[place]) for place in (0, -1))
    known = {name: table[name].dropna() for name in names}
    ends = [f"{name} {shown(values.iloc[-1])}" for name, values in known.items() if len(values)]
    return f"{axis} from {first} to {last}; at the end {', '.join(ends)}." if ends else ""
