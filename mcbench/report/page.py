"""One HTML page: prose, figures, tables, provenance. It opens from disk with no network.

The page is a pure function of its parts, so building it twice gives the same bytes. How parts look
is in ``templates/``, drawn by :mod:`mcbench.report.rendering`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mcbench.errors import UserError
from mcbench.files import write_atomic
from mcbench.report.base import SMOOTHING, Figure
from mcbench.report.encode import figure_spec
from mcbench.report.rendering import Link as Link
from mcbench.report.rendering import render, script_json
from mcbench.report.style import ArmStyle
from mcbench.report.table import ScoreTable

NANO_NOTE = (
    "This is the nano world: models of less than two million parameters on generated problems. It "
    "shows whether the mechanisms move as the paper says, on a scale that runs anywhere. It is no "
    "evidence about Qwen3 or any other large model."
)


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

    ``missing`` says what is not drawn, because it was not recorded or because it never changes
    (``flat``: those figures, for their numbers); ``text`` is shown as it is, line by line.
    """

    title: str
    prose: str = ""
    plots: Sequence[Plot] = ()
    data: pd.DataFrame | None = None
    missing: str = ""
    text: str = ""
    flat: Sequence[Plot] = ()


@dataclass(frozen=True)
class Table:
    """A frame under a heading, or folded away under the line ``fold``."""

    frame: pd.DataFrame
    title: str = ""
    fold: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and values, one a line."""

    rows: Sequence[tuple[str, str]]
    title: str = ""
    fold: str = ""


@dataclass(frozen=True)
class Code:
    """Text that is shown as it is."""

    text: str
    title: str = ""
    fold: str = ""


Block = Panel | Table | Facts | Code | ScoreTable


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it.

    ``samples`` are responses for the sample browser (:mod:`mcbench.report.samples`), shown last.
    ``fold`` is what stands for the blocks until somebody opens them; they are drawn then.
    """

    id: str
    title: str
    prose: str = ""
    blocks: Sequence[Block] = ()
    samples: Mapping[str, Any] | None = None
    fold: str = ""


@dataclass(frozen=True)
class Tile:
    """One number of the headline."""

    name: str
    value: str
    unit: str = ""
    under: str = ""
    style: ArmStyle | None = None


@dataclass(frozen=True)
class Track:
    """An interval on a line, in percent of its width: ``points`` are single seeds."""

    value: float
    low: float | None = None
    high: float | None = None
    points: Sequence[float] = ()


@dataclass(frozen=True)
class End:
    """Where one arm ends: its mean over seeds with the interval, as a picture and as text."""

    style: ArmStyle
    text: str
    under: str = ""
    track: Track | None = None


@dataclass(frozen=True)
class Ends:
    """Where the arms end, on one axis; ``base`` is the model before training, in its percent."""

    title: str
    rows: Sequence[End]
    axis: tuple[str, str] = ("", "")
    base: float | None = None
    base_text: str = ""


@dataclass(frozen=True)
class Verdict:
    """One claim, its state and the part that decides it, drawn in multiples of its margin.

    ``side`` says where the interval lies: ``for`` the claim, ``against`` it, ``both`` sides of 0,
    or ``none`` where nothing was measured. ``size`` is the effect in margins.
    """

    id: str
    claim: str
    state: str
    part: str
    text: str
    side: str
    size: float
    track: Track | None = None
    href: str = ""
    section: str = ""


@dataclass(frozen=True)
class Page:
    """All that a page shows.

    ``finding`` says in a sentence or two what came out, and stands first, above the ``ends`` of the
    arms and the ``verdicts``; ``lead`` is what is measured, ``notes`` stand in boxes; ``equal``, on
    arms that trained alike, is folded under them. ``notebook`` names the one that makes the page.
    """

    title: str
    kicker: str
    lead: str
    sections: Sequence[Section]
    tiles: Sequence[Tile] = ()
    finding: str = ""
    ends: Ends | None = None
    verdicts: Sequence[Verdict] = ()
    notebook: str = ""
    arms: Mapping[str, ArmStyle] | None = None
    notes: Sequence[str] = (NANO_NOTE,)
    equal: Sequence[str] = ()

    @property
    def panels(self) -> list[Panel]:
        """Those of all sections, in order."""
        return [one for section in self.sections for one in section.blocks if type(one) is Panel]


@dataclass(frozen=True)
class Entry:
    """One page of a folder: its path relative to the index, its title, what was found."""

    href: str
    title: str
    summary: str = ""


@dataclass(frozen=True)
class Place:
    """Where a page lies in a folder of reports: its index, the pages before and after it."""

    home: str
    before: Entry | None = None
    after: Entry | None = None


def slug(name: str) -> str:
    """A name as part of an HTML id."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def flat(value: object) -> str:
    """A nested value on one line, for :class:`Facts`."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name} {flat(item)}" for name, item in sorted(value.items()) if item is not None
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(flat, value)) or "none"
    return "not set" if value is None else str(value)


def facts(values: Iterable[tuple[str, object]], title: str = "", fold: str = "") -> Facts:
    """Names and nested values, each flat on one line."""
    return Facts([(name, flat(value)) for name, value in values], title, fold)


def reproduction(command: str) -> Code:
    """The command that makes a page again."""
    return Code(command, "Make this page again")


def build_page(page: Page, plotly_src: str | None = None, place: Place | None = None) -> str:
    """The page as HTML.

    Args:
        page: what to show.
        plotly_src: relative path of a shared copy of plotly's script; None puts the script (about
            5 MB) into the page, so that the one file can be sent to somebody.
        place: in the folder of reports that the page is part of.

    Raises:
        UserError: two figures have the same id.
    """
    specs = _figure_specs(page)
    samples = {one.id: one.samples for one in page.sections if one.samples is not None}
    traces = [trace for spec in specs.values() for trace in spec["data"]]
    return render(
        "page.html",
        page=page,
        title=page.title,
        place=place,
        figures=script_json(specs),
        samples=script_json(samples) if samples else "",
        window=SMOOTHING if any(t.get("meta", {}).get("smooth") for t in traces) else 0,
        linked=any(spec["linked"] for spec in specs.values()),
        plotly_src=plotly_src if specs else None,
        plotly=_plotly() if specs and not plotly_src else "",
    )


def _plotly() -> str:
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def _figure_specs(page: Page) -> dict[str, dict[str, Any]]:
    """The figures as JSON data, less what the page says itself (title, and the legend of arms)."""
    specs: dict[str, dict[str, Any]] = {}
    for plot in (plot for panel in page.panels for plot in panel.plots):
        if plot.id in specs:
            raise UserError(f"two figures of the page have the id {plot.id!r}")
        specs[plot.id] = figure_spec(plot.figure)
    return specs


def build_index(
    entries: Sequence[Entry],
    sections: Sequence[Section] = (),
    verdicts: Sequence[Verdict] = (),
    finding: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A page that lists others and the verdicts of all, with sections of its own below them; the
    ``notes`` stand in boxes.
    """
    return render(
        "index.html",
        entries=entries,
        sections=sections,
        verdicts=verdicts,
        finding=finding,
        title="Reports",
        notes=[NANO_NOTE, *notes],
        samples="",
    )


def write_page(
    page: Page, path: Path, plotly_src: str | None = None, place: Place | None = None
) -> Path:
    """Write the page, its folder too, and return the absolute path."""
    write_atomic(path, build_page(page, plotly_src, place))
    return path.resolve()


def write_plotly(path: Path) -> Path:
    """Write the copy of plotly's script that several pages share."""
    write_atomic(path, _plotly())
    return path
