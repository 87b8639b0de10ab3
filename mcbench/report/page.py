"""One HTML page: prose, figures, tables, provenance. It opens from disk with no network.

The page is a pure function of its parts, so building it twice gives the same bytes. Everything that
came from a run or a model is escaped; only this package's own markup is not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from plotly.offline import get_plotlyjs

from mcbench.errors import UserError
from mcbench.report.base import SMOOTHING, Figure
from mcbench.report.encode import figure_spec
from mcbench.report.numbers import figure_table
from mcbench.report.style import NEUTRAL_TEXT, ArmStyle

NANO_NOTE = (
    "This is the nano world: models of less than two million parameters on generated problems. It "
    "shows whether the mechanisms move as the paper says, on a scale that runs anywhere. It is no "
    "evidence about Qwen3 or any other large model."
)
LONG_TEXT = 32  # characters; longer cells of a table are broken into lines
_DASHES = {
    "solid": "",
    "dot": "2 3",
    "dash": "7 4",
    "dashdot": "7 3 2 3",
    "longdash": "11 4",
    "longdashdot": "11 3 2 3",
}


@dataclass(frozen=True)
class Plot:
    """A figure, its id on the page (unique, stable) and the line above it.

    ``height`` in pixels is for figures with many rows; all others are of one height. ``arm`` is for
    figures of one arm, which disappear with it.
    """

    id: str
    caption: str
    figure: Figure
    height: int | None = None
    arm: str | None = None


@dataclass(frozen=True)
class Panel:
    """What a few figures say; ``data`` are numbers beside those behind each figure.

    ``missing`` says what could not be drawn, because it was not recorded; ``text`` is shown as it
    is, line by line.
    """

    title: str
    prose: str
    plots: Sequence[Plot]
    data: pd.DataFrame | None = None
    missing: str = ""
    text: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with panels. ``markup`` is this package's own HTML, shown before the panels.

    ``samples`` are responses for the sample browser (:mod:`mcbench.report.samples`), shown last.
    """

    id: str
    title: str
    prose: str = ""
    panels: Sequence[Panel] = ()
    markup: str = ""
    samples: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Tile:
    """One number of the headline."""

    name: str
    value: str
    unit: str = ""
    under: str = ""
    style: ArmStyle | None = None


@dataclass(frozen=True)
class Page:
    """All that a page shows; ``notes`` stand at the top, in boxes."""

    title: str
    kicker: str
    lead: str
    sections: Sequence[Section]
    tiles: Sequence[Tile] = ()
    arms: Mapping[str, ArmStyle] | None = None
    notes: Sequence[str] = (NANO_NOTE,)


def key_svg(style: ArmStyle) -> str:
    """A short line in the arm's colour and dash, as in the figures."""
    dash = _DASHES[style.dash]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        '<svg class="key" viewBox="0 0 30 8" aria-hidden="true">'
        f'<line x1="0" y1="4" x2="30" y2="4" stroke="{style.color}" stroke-width="3"{dashes}/>'
        "</svg>"
    )


def data_table(frame: pd.DataFrame) -> str:
    """A frame as an HTML table, every cell escaped."""
    texts = [all(isinstance(value, str) for value in frame[name]) for name in frame.columns]
    head = "".join(
        f'<th scope="col"{" class=text" if text else ""}>{escape(str(name))}</th>'
        for name, text in zip(frame.columns, texts, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(data_cell(value) for value in row) + "</tr>"
        for row in frame.itertuples(index=False)
    )
    return (
        f'<div class="scroll"><table class="data"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def data_cell(value: object) -> str:
    """A value as a cell of a data table: escaped, numbers to the right, long text in lines."""
    kind = ""
    if isinstance(value, str):
        kind = ' class="text long"' if len(value) > LONG_TEXT else ' class="text"'
    return f"<td{kind}>{_text(value)}</td>"


def _text(value: object) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values, one a line."""
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table class="facts"><tbody>{lines}</tbody></table>'


def flat(value: object) -> str:
    """A nested value on one line, for :func:`facts`."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name} {flat(item)}" for name, item in sorted(value.items()) if item is not None
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(flat, value)) or "none"
    return "–" if value is None else str(value)


def reproduction(command: str) -> str:
    """The command that makes a page again, as markup."""
    return f"<h3>Make this page again</h3><pre>{escape(command)}</pre>"


def script_json(value: object) -> str:
    """JSON that may stand inside a ``<script>`` element whatever text it holds."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _tile_html(tile: Tile) -> str:
    key = key_svg(tile.style) if tile.style else ""
    unit = f"<small>{escape(tile.unit)}</small>" if tile.unit else ""
    return (
        f'<div class="tile"><div class="name">{key}{escape(tile.name)}</div>'
        f'<div class="value">{escape(tile.value)}{unit}</div>'
        f'<div class="under">{escape(tile.under)}</div></div>'
    )


def _swatch(trace: Mapping[str, Any]) -> str:
    """A line, an area or a bar as a trace draws it."""
    line = trace.get("line", {})
    if trace["type"] == "scatter" and line.get("width", 0) >= 1:
        return key_svg(ArmStyle("", line.get("color", NEUTRAL_TEXT), line.get("dash", "solid")))
    fill = trace.get("fillcolor") or trace.get("marker", {}).get("color") or NEUTRAL_TEXT
    color = fill if isinstance(fill, str) else fill[0]
    return (
        '<svg class="key" viewBox="0 0 30 8" aria-hidden="true">'
        f'<rect width="30" height="8" fill="{escape(str(color))}"/></svg>'
    )


def _key_html(figure: Figure, arms: Collection[str]) -> str:
    """The figure's legend, less the arms that the page's toolbar names."""
    named = [
        trace
        for trace in figure.data
        if trace.get("name")
        and trace["type"] in ("scatter", "bar")
        and trace.get("showlegend", True)
        and trace.get("legendgroup") not in arms
    ]
    if not named or (len(named) == 1 and named[0].get("legendgroup") != "paper"):
        return ""
    entries = "".join(f"<li>{_swatch(trace)}{escape(trace['name'])}</li>" for trace in named)
    return f'<ul class="entries">{entries}</ul>'


def _plot_html(panel: Panel, plot: Plot, arms: Collection[str]) -> str:
    height = f' style="height:{plot.height}px"' if plot.height else ""
    own = f' data-arm="{escape(plot.arm)}"' if plot.arm else ""
    table = figure_table(plot.figure)
    text = f"{panel.title}: {plot.caption}. {_in_words(table)}".strip()
    numbers = ""
    if not table.empty:
        summary = '<summary aria-label="Numbers of this figure">Numbers</summary>'
        numbers = f'<details class="numbers">{summary}{data_table(table)}</details>'
    return (
        f"<figure{own}><figcaption>{escape(plot.caption)}</figcaption>"
        f"{_key_html(plot.figure, arms)}"
        f'<div class="plot" id="{escape(plot.id)}"{height} role="img" '
        f'aria-label="{escape(text)}"></div>{numbers}</figure>'
    )


def _in_words(table: pd.DataFrame) -> str:
    """What a curve figure ends at, for those who hear it."""
    if table.empty or len(table.columns) > 8:
        return ""
    axis, names = table.columns[0], table.columns[1:]
    first, last = (_text(table[axis].iloc[place]) for place in (0, -1))
    ends = [
        f"{name} {_text(values.iloc[-1])}"
        for name, values in ((name, table[name].dropna()) for name in names)
        if len(values)
    ]
    return f"{axis} from {first} to {last}; at the end {', '.join(ends)}." if ends else ""


def _panel_html(panel: Panel, arms: Collection[str]) -> str:
    plots = "".join(_plot_html(panel, plot, arms) for plot in panel.plots)
    table = ""
    if panel.data is not None and not panel.data.empty:
        unfolded = "" if panel.plots else " open"  # all that the panel has
        table = (
            f"<details{unfolded}><summary>The numbers</summary>{data_table(panel.data)}</details>"
        )
    prose = f"<p>{escape(panel.prose)}</p>" if panel.prose else ""
    missing = f'<p class="missing">{escape(panel.missing)}</p>' if panel.missing else ""
    text = f"<pre tabindex=0>{escape(panel.text)}</pre>" if panel.text else ""
    grid = f'<div class="{_grid(len(panel.plots))}">{plots}</div>' if plots else ""
    below = f"{grid}{missing}{text}{table}"
    return f'<div class="panel"><h3>{escape(panel.title)}</h3>{prose}{below}</div>'


def _grid(count: int) -> str:
    """Two or three figures a row, so that the last row is full where that is possible."""
    return "grid" if count % 3 == 0 or count == 1 else "grid even"


def _section_html(section: Section, arms: Collection[str]) -> str:
    prose = f"<p>{escape(section.prose)}</p>" if section.prose else ""
    panels = "".join(_panel_html(panel, arms) for panel in section.panels)
    browser = ""
    if section.samples is not None:
        browser = f'<div class="browser" data-samples="{escape(section.id)}"></div>'
    return (
        f'<section id="{escape(section.id)}"><h2>{escape(section.title)}</h2>'
        f"{prose}{section.markup}{panels}{browser}</section>"
    )


def _toolbar_html(page: Page, specs: Mapping[str, Mapping[str, Any]]) -> str:
    """Arms to switch, smoothing and step; each only where a figure follows it."""
    buttons = "".join(
        f'<button type="button" aria-pressed="true" value="{escape(arm)}">'
        f"{key_svg(style)}{escape(style.label)}</button>"
        for arm, style in (page.arms or {}).items()
    )
    traces = [trace for spec in specs.values() for trace in spec["data"]]
    controls = ""
    if any(trace.get("meta", {}).get("smooth") for trace in traces):
        controls += _slider("smoothing", "Smoothing", 1, 41, SMOOTHING, "entries of a running mean")
    hint = ""
    if any(spec["linked"] for spec in specs.values()):
        hint = "Drag in a figure to zoom all over training, double-click to reset."
        hint = f'<p class="hint">{hint}</p>'
        controls += _slider("step", "Step", 0, 1, 1, "training step")
    if not buttons and not controls:
        return ""
    group = f'<div class="toggles" role="group" aria-label="Arms">{buttons}</div>'
    return (
        f'<nav class="arms" aria-label="Figures"><div>{group if buttons else ""}'
        f'<div class="sliders">{controls}</div></div></nav>{hint}'
    )


def _slider(name: str, label: str, low: int, high: int, value: int, unit: str) -> str:
    return (
        f'<label title="{unit}">{label}<input type="range" id="{name}" min="{low}" '
        f'max="{high}" value="{value}"><output for="{name}"></output></label>'
    )


def _contents_html(page: Page) -> str:
    if len(page.sections) < 2:
        return ""
    links = "".join(
        f'<a href="#{escape(section.id)}">{escape(section.title)}</a>' for section in page.sections
    )
    return f'<nav class="contents" aria-label="Contents">{links}</nav>'


def _figure_specs(page: Page) -> dict[str, dict[str, Any]]:
    """The figures as JSON data, less what the page says itself (title, and the legend of arms)."""
    specs: dict[str, dict[str, Any]] = {}
    for section in page.sections:
        for panel in section.panels:
            for plot in panel.plots:
                if plot.id in specs:
                    raise UserError(f"two figures of the page have the id {plot.id!r}")
                specs[plot.id] = figure_spec(plot.figure)
    return specs


def asset(name: str) -> str:
    """A text file that ships with this package."""
    return (files("mcbench.report") / "assets" / name).read_text(encoding="utf-8")


def build_page(page: Page, plotly_src: str | None = None) -> str:
    """The page as HTML.

    Args:
        page: what to show.
        plotly_src: relative path of a shared copy of plotly's script; None puts the script (about
            5 MB) into the page, so that the one file can be sent to somebody.

    Raises:
        UserError: two figures have the same id.
    """
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in page.notes)
    tiles = "".join(_tile_html(tile) for tile in page.tiles)
    tiles = f'<div class="tiles">{tiles}</div>' if tiles else ""
    specs = _figure_specs(page)
    samples = {one.id: one.samples for one in page.sections if one.samples is not None}
    arms = page.arms or {}
    body = (
        f'<header class="top"><p class="kicker">{escape(page.kicker)}</p>'
        f'<h1>{escape(page.title)}</h1><p class="lead">{escape(page.lead)}</p>'
        f"{tiles}{notes}{_contents_html(page)}</header>"
        f"{_toolbar_html(page, specs)}"
        f"<main>{''.join(_section_html(section, arms) for section in page.sections)}</main>"
        "<noscript><p class=note>The figures and the sample browser need JavaScript; the tables do "
        "not.</p></noscript>"
        '<footer class="meta">Made by mcbench from recorded measurements.</footer>'
    )
    data = _json_script("figure-data", specs) + (
        _json_script("sample-data", samples) if samples else ""
    )
    script = ""
    if specs:
        inside = f"<script>{get_plotlyjs()}</script>"
        script = f'<script src="{escape(plotly_src)}"></script>' if plotly_src else inside
    scripts = f"<script>{asset('page.js')}</script>"
    if samples:
        scripts += f'<script type="module">{asset("samples.js")}</script>'
    return _document(page.title, body, f"{data}{script}{scripts}")


def _json_script(name: str, value: object) -> str:
    return f'<script type="application/json" id="{name}">{script_json(value)}</script>'


def _document(title: str, body: str, tail: str = "") -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{asset('page.css')}{asset('samples.css')}</style></head>"
        f"<body>{body}{tail}</body></html>\n"
    )


def write_page(page: Page, path: Path, plotly_src: str | None = None) -> Path:
    """Write the page, its folder too, and return the absolute path."""
    html = build_page(page, plotly_src)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8")
    return path.resolve()


def write_plotly(path: Path) -> Path:
    """Write the copy of plotly's script that several pages share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(get_plotlyjs(), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Entry:
    """One page in the index: its path relative to the index, its title, what it holds."""

    href: str
    title: str
    summary: str


def build_index(entries: Sequence[Entry], markup: str = "", title: str = "Reports") -> str:
    """A page that lists others; ``markup`` is this package's own HTML, shown below them."""
    items = "".join(
        f'<li><h3><a href="{escape(entry.href)}">{escape(entry.title)}</a></h3>'
        f"<p>{escape(entry.summary)}</p></li>"
        for entry in entries
    )
    body = (
        f'<header class="top"><p class="kicker">mcbench</p><h1>{escape(title)}</h1>'
        f'<p class="note">{escape(NANO_NOTE)}</p></header>'
        f'<main><ul class="cards">{items}</ul>{markup}</main>'
    )
    return _document(title, body)
