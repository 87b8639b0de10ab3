"""The figures of the chosen runs and sections, by the report's own functions, kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from textwrap import wrap

import ipywidgets as widgets

from mcbench.report.base import ROLES, Figure, role_of
from mcbench.report.dashboard.live_figure import LiveFigure, answer_while_busy
from mcbench.report.panels import PANELS, drawn, left_out
from mcbench.report.series import Arms
from mcbench.report.style import arm_styles

Opened = Callable[[str, float], None]
HEIGHT, LEGEND_ROW = 270, 19  # pixels
MOST_LINES = 24  # thin ones that are told apart; of more runs the means alone are drawn
_SIDE_CHARACTERS = 26  # of a line that fit beside a figure's axis
_TITLE_CHARACTERS = 52  # of a line that fit into the narrowest column
_ROW_CHARACTERS = 46  # of legend texts that fit side by side, their line samples included


def draw(section: str, arms: Arms, smoothing: int) -> tuple[dict[str, Figure], list[str]]:
    """A section's figures by id, and what its panels lack."""
    figures: dict[str, Figure] = {}
    missing = []
    for kind in (kind for kind in PANELS.values() if kind.section == section):
        plots, _, lacks = drawn(kind, arms, smoothing)
        # Arms that are switched off lack figures too: only whole panels are said.
        missing.append(left_out(plots) if plots else lacks)
        for plot in plots:
            title = plot.caption if plot.arm is None else f"{kind.title}<br>{plot.caption}"
            figures[plot.id] = _furnished(plot.figure, title)
    return figures, list(filter(None, missing))


def _furnished(figure: Figure, title: str) -> Figure:
    """Size and title for a grid; the list of runs is the legend of what compares arms."""
    runs = sum(one["meta"].get("seeds", 0) for one in figure.data if role_of(one) == "mean")
    if runs > MOST_LINES:
        for trace in figure.data:
            if role_of(trace) == "seeds":
                trace["visible"] = False
        title += f" (means of {runs} runs)"
    for name in (name for name in figure.layout if name.startswith("yaxis")):
        heading = figure.layout[name].get("title", {})
        if text := heading.get("text"):
            heading["text"] = "<br>".join(wrap(text, _SIDE_CHARACTERS))
    compares = all(role_of(trace) in ROLES for trace in figure.data)
    below = 0 if compares else LEGEND_ROW * _legend_rows(figure)
    lines = [part for line in title.split("<br>") for part in wrap(line, _TITLE_CHARACTERS)]
    figure.layout["title"] = {"x": 0, "xanchor": "left"}
    return figure.update(
        title={
            "text": "<br>".join(lines),
            "font": {"size": 14},
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 24 if len(lines) > 1 else 7},
        },
        height=HEIGHT + below + 24 * max(0, len(lines) - 2),
        autosize=True,
        showlegend=not compares,
        legend={"x": 0, "xanchor": "left", "y": -0.24, "yanchor": "top", "font": {"size": 11}},
        margin={"t": 30 + 24 * (len(lines) - 1), "r": 10, "b": 42 + below},
    )


def _legend_rows(figure: Figure) -> int:
    """Rows of a legend below a figure; its columns are as wide as its longest text."""
    names = [trace["name"] for trace in figure.data if trace.get("name")]
    columns = max(1, _ROW_CHARACTERS // (max(map(len, names), default=0) + 7))
    return -(-len(names) // columns) + 1


class SectionView(widgets.VBox):
    """One section: a heading, its figures side by side, and what was not recorded."""

    def __init__(self, name: str, opened: Opened) -> None:
        self.name = name
        self._opened = opened
        self.figures: dict[str, LiveFigure] = {}
        self._missing = widgets.HTML().add_class("mcb-missing")
        self._grid = widgets.Box().add_class("mcb-figures")
        heading = widgets.HTML(escape(name)).add_class("mcb-heading")
        super().__init__([heading, self._grid, self._missing])
        self.add_class("mcb-section")

    def show(self, arms: Arms, smoothing: int) -> None:
        """Draw anew and send what changed."""
        found, missing = draw(self.name, arms, smoothing)
        kept: dict[str, LiveFigure] = {}
        for id_, figure in found.items():
            live = self.figures.get(id_)
            if live is None or not live.follow(figure):
                title = figure.layout["title"]["text"].replace("<br>", ", ")
                opened = self._opened if figure.over_steps else None
                live = LiveFigure(figure, f"{title}: {arm_names(arms)}", opened)
                answer_while_busy(live)
            kept[id_] = live
        # Identities are compared: figures compare by everything that they show.
        ids = list(map(id, kept.values()))
        old, self.figures = self.figures, kept
        if ids != list(map(id, old.values())):
            self._grid.children = tuple(kept.values())
            wide = self._grid.add_class if len(kept) in (2, 4) else self._grid.remove_class
            wide("mcb-pairs")
        for live in old.values():
            if id(live) not in ids:
                live.close()
        self._missing.value = escape(" ".join(missing))


def arm_names(arms: Arms) -> str:
    """The names of the arms that have runs, for people."""
    styles = arm_styles(arms)
    return ", ".join(styles[arm].label for arm, runs in arms.items() if runs)


class CurvesView(widgets.VBox):
    """The chosen sections, one below the other; ``opened`` is told arm and step of a point that was
    clicked.
    """

    def __init__(self, opened: Opened = lambda arm, step: None) -> None:
        self._opened = opened
        super().__init__()

    def show(self, arms: Arms, sections: Sequence[str], smoothing: int) -> None:
        """Draw the sections, in their order; figures are only sent where something changed."""
        old = self.sections
        shown = {name: old.get(name) or SectionView(name, self._opened) for name in sections}
        for view in shown.values():
            view.show(arms, smoothing)
        if list(shown) != list(old):
            self.children = tuple(shown.values())
        for name in old.keys() - shown.keys():
            for figure in old[name].figures.values():
                figure.close()

    @property
    def sections(self) -> dict[str, SectionView]:
        """Those that are shown, by name."""
        return {view.name: view for view in self.children}
