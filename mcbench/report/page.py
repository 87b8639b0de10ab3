"""One HTML page: prose, figures, tables, provenance. It opens from disk with no network.

The page is a pure function of its parts, so building it twice gives the same bytes. How parts look
is in ``templates/``, drawn by :mod:`mcbench.report.rendering`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from mcbench.files import write_atomic
from mcbench.report.base import SMOOTHING, Figure
from mcbench.report.rendering import Link as Link
from mcbench.report.rendering import plotly_script, render, script_json
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
    (``flat``: those figures, for their numbers).
    """

    title: str
    prose: str = ""
    plots: Sequence[Plot] = ()
    data: pd.DataFrame | None = None
    missing: str = ""
    flat: Sequence[Plot] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to show but what is missing."""
        return not (self.plots or self.flat or (self.data is not None and len(self.data)))


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


Block = Panel | Table | Facts | ScoreTable


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it.

    ``fold`` is what stands for the blocks until somebody opens them; they are drawn then.
    """

    id: str
    title: str
    prose: str = ""
    blocks: Sequence[Block] = ()
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
    settings: str = ""


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
    or ``none`` where nothing was measured. ``size`` is the effect in margins, ``apart`` says what
    differs from the original where the claim is another paper's.
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
    apart: str = ""


@dataclass(frozen=True)
class Head:
    """The first screen: what came out in a few lines, numbers, where the arms end, the claims'
    verdicts.

    ``summary`` says it in a sentence, ``lead`` on how much it rests and what is missing, ``notes``
    stand in boxes; ``exploded``, on losses that did, and ``equal``, on arms that trained alike, are
    folded. ``papers`` are those whose claims these are, ``settings`` what each arm changes.
    """

    finding: str = ""
    summary: str = ""
    tiles: Sequence[Tile] = ()
    ends: Ends | None = None
    verdicts: Sequence[Verdict] = ()
    lead: str = ""
    notes: Sequence[str] = ()
    exploded: Sequence[str] = ()
    equal: Sequence[str] = ()
    papers: Sequence[Link] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Something of a page, in HTML; under ``fold`` until a reader opens that.

    ``shows`` is what came out, as against prose and code.
    """

    html: str
    fold: str = ""
    shows: bool = False


@dataclass(frozen=True)
class Chapter:
    """What stands under a heading; ``contents`` are the ids and titles of what is inside."""

    id: str
    title: str
    parts: list[Part] = field(default_factory=list)
    contents: list[tuple[str, str]] = field(default_factory=list)

    @property
    def fold(self) -> str:
        """What it shows, where all of that is folded: then the chapter is folded as a whole."""
        shown = [part.fold for part in self.parts if part.shows]
        return "; ".join(dict.fromkeys(shown)) if all(shown) else ""


@dataclass
class Page:
    """A page as it is put together from an executed notebook (:mod:`mcbench.report.export`).

    Attributes:
        finding: what came out, in lines.
        summary: the same in a sentence, for the index.
        heads: first screens and what opens the page, as HTML.
        figures: plotly's JSON by id, as :func:`mcbench.report.encode.figure_spec` makes it.
        samples: data of sample browsers by id.
        arms: what the toolbar names, each as it is drawn.
        settings: what each of them changes.
        notebook: the path of the notebook, relative to the page; empty where it has none.
    """

    title: str
    kicker: str
    finding: str = ""
    summary: str = ""
    heads: list[str] = field(default_factory=list)
    chapters: list[Chapter] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Any] = field(default_factory=dict)
    arms: Mapping[str, ArmStyle] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    notebook: str = ""


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


def build_page(page: Page, plotly_src: str | None = None, place: Place | None = None) -> str:
    """The page as HTML.

    Args:
        page: what to show.
        plotly_src: relative path of a shared copy of plotly's script; None puts the script (about
            5 MB) into the page, so that the one file can be sent to somebody.
        place: in the folder of reports that the page is part of.
    """
    traces = [trace for spec in page.figures.values() for trace in spec["data"]]
    return render(
        "page.html",
        page=page,
        title=page.title,
        place=place,
        figures=script_json(page.figures),
        samples=script_json(page.samples) if page.samples else "",
        window=SMOOTHING if any(t.get("meta", {}).get("smooth") for t in traces) else 0,
        linked=any(spec["linked"] for spec in page.figures.values()),
        plotly_src=plotly_src if page.figures else None,
        plotly=plotly_script() if page.figures and not plotly_src else "",
    )


def build_index(
    entries: Sequence[Entry],
    sections: Sequence[Section] = (),
    verdicts: Sequence[Verdict] = (),
    story: Sequence[str] = (),
    chart: Ends | None = None,
    round_1: bool = False,
) -> str:
    """A page that lists others and the verdicts of all, with sections of its own below them.

    Args:
        story: what was found, a sentence each.
        chart: where the arms of the paper's main claim end.
        round_1: whether runs of the protocol's first round are shown, of which more is known since.
    """
    return render(
        "index.html",
        entries=entries,
        sections=sections,
        verdicts=verdicts,
        story=story,
        chart=chart,
        title="What was found",
        note=NANO_NOTE,
        round_1=round_1,
        samples="",
    )


def write_page(
    page: Page, path: Path, plotly_src: str | None = None, place: Place | None = None
) -> Path:
    """Write the page, its folder too, and return the absolute path."""
    write_atomic(path, build_page(page, plotly_src, place))
    return path.resolve()
