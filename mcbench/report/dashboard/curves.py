"""The figures of the chosen runs and sections, by the report's own functions, kept up to date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import ipywidgets as widgets

from mcbench.report.base import FIGURE, ROLES
from mcbench.report.dashboard.live_figure import LiveFigure
from mcbench.report.dashboard.plain_figure import PlainFigure
from mcbench.report.panels import PANELS
from mcbench.report.series import Arms
from mcbench.report.spread import add_stages
from mcbench.report.style import arm_styles

HEIGHT, LEGEND_ROW = 270, 19  # pixels
_ROW_CHARACTERS = 46  # of legend texts that fit side by side, their line samples included


def draw(section: str, arms: Arms, smoothing: int) -> tuple[dict[str, PlainFigure], list[str]]:
    """A section's figures by id, and what its panels lack."""
    figures: dict[str, PlainFigure] = {}
    missing = []
    with _plain():
        stages = PlainFigure()
        add_stages(stages, arms)
        for kind in (kind for kind in PANELS.values() if kind.section == section):
            plots = [plot for plot in kind.draw(arms, smoothing) if plot.figure.data]
            for plot in plots:
                title = plot.caption if plot.arm is None else f"{kind.title}<br>{plot.caption}"
                for shape in stages.layout.get("shapes", []) if kind.staged else []:
                    plot.figure.add_shape(**shape)
                _furnish(plot.figure, title)
                figures[plot.id] = plot.figure
            if not plots:
                missing.append(kind.needs)
    return figures, missing


@contextmanager
def _plain() -> Iterator[None]:
    """Figures are drawn as plain data."""
    token = FIGURE.set(PlainFigure)
    try:
        yield
    finally:
        FIGURE.reset(token)


def _furnish(figure: PlainFigure, title: str) -> None:
    """Size and title for a grid; the list of runs is the legend of what compares arms."""
    compares = all((trace.get("meta") or {}).get("role") in ROLES for trace in figure.data)
    below = 0 if compares else LEGEND_ROW * _legend_rows(figure)
    figure.update_layout(
        title={"text": title, "font": {"size": 14}, "y": 1, "yanchor": "top", "pad": {"t": 7}},
        height=HEIGHT + below,
        autosize=True,
        showlegend=not compares,
        legend={"x": 0, "xanchor": "left", "y": -0.24, "yanchor": "top", "font": {"size": 11}},
        margin={"t": 48 if "<br>" in title else 30, "r": 10, "b": 42 + below},
    )


def _legend_rows(figure: PlainFigure) -> int:
    """Rows of a legend below a figure; its columns are as wide as its longest text."""
    names = [str(trace["name"]) for trace in figure.data if trace.get("name")]
    columns = max(1, _ROW_CHARACTERS // (max(map(len, names), default=0) + 7))
    return -(-len(names) // columns) + 1


class SectionView:
    """One section: a heading, its figures side by side, and what was not recorded."""

    def __init__(self, name: str) -> None:
        self.figures: dict[str, LiveFigure] = {}
        self._missing = widgets.HTML().add_class("mcb-missing")
        self._grid = widgets.Box().add_class("mcb-figures")
        heading = widgets.HTML(escape(name)).add_class("mcb-heading")
        self.name = name
        self.box = widgets.VBox([heading, self._grid, self._missing]).add_class("mcb-section")

    def show(self, arms: Arms, smoothing: int) -> None:
        """Draw anew and send what changed."""
        drawn, missing = draw(self.name, arms, smoothing)
        kept: dict[str, LiveFigure] = {}
        for id_, plain in drawn.items():
            figure = self.figures.get(id_)
            if figure is None or not figure.follow(plain):
                title = plain.layout["title"]["text"].replace("<br>", ", ")
                figure = LiveFigure(plain, alt=f"{title}: {arm_names(arms)}")
            kept[id_] = figure
        # Identities are compared: figures compare by everything that they show.
        ids = list(map(id, kept.values()))
        old, self.figures = self.figures, kept
        if ids != list(map(id, old.values())):
            self._grid.children = tuple(kept.values())
            wide = self._grid.add_class if len(kept) in (2, 4) else self._grid.remove_class
            wide("mcb-pairs")
        for figure in old.values():
            if id(figure) not in ids:
                figure.close()
        self._missing.value = escape(f"Not recorded: {'; '.join(missing)}.") if missing else ""

    def close(self) -> None:
        """Take the figures away."""
        for figure in self.figures.values():
            figure.close()
        self.figures = {}


def arm_names(arms: Arms) -> str:
    """The names of the arms that have runs, for people."""
    styles = arm_styles(arms)
    return ", ".join(styles[arm].label for arm, runs in arms.items() if runs)


class CurvesView:
    """The chosen sections, one below the other."""

    def __init__(self) -> None:
        self.box = widgets.VBox()
        self.sections: dict[str, SectionView] = {}

    def show(self, arms: Arms, sections: Sequence[str], smoothing: int) -> None:
        """Draw the sections, in their order; figures are only sent where something changed."""
        for name in [name for name in self.sections if name not in sections]:
            self.sections.pop(name).close()
        for name in sections:
            self.sections.setdefault(name, SectionView(name)).show(arms, smoothing)
        boxes = tuple(self.sections[name].box for name in sections)
        if boxes != self.box.children:
            self.box.children = boxes

    @property
    def figures(self) -> list[LiveFigure]:
        """All that are shown."""
        return [f for section in self.sections.values() for f in section.figures.values()]

    def close(self) -> None:
        """Take all figures away."""
        for section in self.sections.values():
            section.close()


def chosen_arms(arms: Mapping[str, Sequence[Any]], chosen: Iterable[str]) -> Arms:
    """The arms with their chosen runs; arms without one stay, so that colours stay theirs."""
    ids = set(chosen)
    return {arm: [run for run in runs if run.run_id in ids] for arm, runs in arms.items()}
