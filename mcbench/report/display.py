"""What a notebook shows, so that its executed copy can be read as a page.

Every block becomes outputs of a cell: figures as plotly's own JSON, each with a line of text for
where no script runs, everything else as HTML. What a page needs to know beside that (an id, a
caption, what to fold) is in the output's metadata under ``mcbench``; any other program may leave it
aside. :mod:`mcbench.report.export` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from mcbench.report.base import PLOTLY, Figure
from mcbench.report.encode import in_house_style, thinned
from mcbench.report.numbers import figure_table
from mcbench.report.page import Block, Facts, Head, Panel, Plot, Section, Table
from mcbench.report.rendering import asset, in_words, macro
from mcbench.report.samples import Samples
from mcbench.report.table import ScoreTable

if TYPE_CHECKING:
    import plotly.graph_objects as go

    Shown: TypeAlias = Block | Section | Samples | Head | pd.DataFrame | go.Figure
    """What a notebook can show; a table without a heading is a frame."""

SAMPLES = "application/vnd.mcbench.samples+json"
KEY = "mcbench"


@dataclass(frozen=True)
class Output:
    """An output of a cell: its data by MIME type, and what a page needs to know about it."""

    data: dict[str, Any]
    about: dict[str, Any] = field(default_factory=dict)


def head_output(head: Head) -> Output:
    """The first screen, with the styles that it needs in a notebook, in JupyterLab's colours."""
    html = str(macro("head")(head))
    style = f"<style>.mcb {{ {asset('notebook.css')}{asset('blocks.css')} }}</style>"
    about = {"head": html, "summary": head.summary or head.finding, "settings": dict(head.settings)}
    return Output({"text/html": style + html, "text/plain": head.finding}, about)


def outputs_of(*shown: Shown, prefix: str = "", fold: str = "") -> list[Output]:
    """Blocks, sections, samples, frames and plotly's own figures as outputs, in order.

    Args:
        prefix: begins the ids of the figures, which are told apart by them on a page.
        fold: the line under which a page hides them until somebody opens it.
    """
    made: list[Output] = []
    for one in shown:
        if isinstance(one, Section):
            made.append(_top(one.title, one.prose, one.id))
            inside = outputs_of(*one.blocks, prefix=prefix)
            made += [_folded(each, one.fold) for each in inside]
        elif isinstance(one, Samples):
            made.append(_samples(one))
        elif isinstance(one, Panel):
            made += _panel(one, prefix)
        elif isinstance(one, Head):
            made.append(head_output(one))
        elif isinstance(one, pd.DataFrame):
            made.append(_table(Table(one)))
        elif hasattr(one, "to_plotly_json"):
            figure = in_house_style(one.to_plotly_json())
            made.append(_drawn(figure, figure.layout["title"].get("text") or "", {}))
        else:
            made.append(_table(one))
    return [_folded(each, fold) for each in made]


def _table(block: Table | Facts | ScoreTable) -> Output:
    told = block.frame().to_string() if isinstance(block, ScoreTable) else block.title
    return _html(str(macro("render")(block)), told)


def _folded(output: Output, fold: str) -> Output:
    return Output(output.data, {"fold": fold, **output.about}) if fold else output


def _html(fragment: str, told: str, **about: Any) -> Output:
    return Output({"text/html": fragment, "text/plain": told}, {"own": True, **about})


def _top(title: str, prose: str, anchor: str = "") -> Output:
    """A heading and prose, both also as text: a page has an ``anchor`` at the heading, or none
    where the chapter has the same.
    """
    html = str(macro("panel_top")(title, prose))
    return _html(html, title, top={"title": title, "prose": prose, "anchor": anchor})


def _panel(panel: Panel, prefix: str) -> list[Output]:
    """Its heading and prose, its figures, what is missing, its numbers."""
    made = [_top(panel.title, panel.prose)] if panel.title or panel.prose else []
    made += [_figure(panel, plot, prefix) for plot in panel.plots]
    if panel.missing:
        made.append(_html(str(macro("missing")(panel.missing)), f"{panel.title}: {panel.missing}"))
    if panel.data is not None and not panel.data.empty:
        numbers = str(macro("panel_numbers")(panel))
        made.append(_html(numbers, panel.data.to_string(index=False)))
    return made


def _figure(panel: Panel, plot: Plot, prefix: str) -> Output:
    about: dict[str, Any] = {"id": "-".join(filter(None, [prefix, plot.id]))}
    about |= {"title": panel.title, "caption": plot.caption}
    about |= {name: value for name in ("height", "arm") if (value := getattr(plot, name))}
    return _drawn(plot.figure, plot.caption, about)


def _drawn(figure: Figure, caption: str, about: dict[str, Any]) -> Output:
    line = " ".join(filter(None, [f"{caption}:", in_words(figure_table(figure))]))
    few = thinned(figure).update(title={"text": caption})  # of very many runs
    return Output({PLOTLY: few.to_dict(), "text/plain": line}, about)


def _samples(samples: Samples) -> Output:
    told = f"{samples.title}: {len(samples.data['columns']['arm'])} responses; a page shows them."
    html = str(macro("prose")(samples.prose))
    about = {"samples": samples.id, "own": True}
    return Output({SAMPLES: samples.data, "text/html": html, "text/plain": told}, about)


def show(*shown: Shown, prefix: str = "", fold: str = "") -> None:
    """Show blocks, frames or figures in a notebook, elsewhere their lines of text; arguments as for
    :func:`outputs_of`.
    """
    from IPython import get_ipython
    from IPython.display import display

    for one in outputs_of(*shown, prefix=prefix, fold=fold):
        if get_ipython() is None:
            print(one.data["text/plain"])
        else:
            display(one.data, metadata={KEY: one.about}, raw=True)


def cell_outputs(outputs: Sequence[Output]) -> list[Any]:
    """Outputs as nbformat has them."""
    from nbformat.v4 import new_output

    return [new_output("display_data", data=one.data, metadata={KEY: one.about}) for one in outputs]
