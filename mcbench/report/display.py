"""What a notebook shows, so that its executed copy can be read as a page.

Every block becomes outputs of a cell: figures as plotly's own JSON, each with a line of text for
where no script runs, everything else as HTML. What a page needs to know beside that (an id, a
caption, what to fold) is in the output's metadata under ``mcbench``; any other program may leave it
aside. :mod:`mcbench.report.export` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcbench.report.base import PLOTLY
from mcbench.report.encode import thinned
from mcbench.report.numbers import figure_table
from mcbench.report.page import Block, Head, Panel, Plot, Section
from mcbench.report.rendering import asset, in_words, macro
from mcbench.report.samples import Samples
from mcbench.report.table import ScoreTable

SAMPLES = "application/vnd.mcbench.samples+json"
KEY = "mcbench"


@dataclass(frozen=True)
class Output:
    """An output of a cell: its data by MIME type, and what a page needs to know about it."""

    data: dict[str, Any]
    about: dict[str, Any] = field(default_factory=dict)


def head_output(head: Head) -> Output:
    """The first screen, with the styles that it needs in a notebook."""
    html = str(macro("head")(head))
    about = {"head": html, "summary": head.summary or head.finding, "settings": dict(head.settings)}
    return Output({"text/html": f"{notebook_style()}{html}", "text/plain": head.finding}, about)


def outputs_of(*shown: Block | Section | Samples, prefix: str = "", fold: str = "") -> list[Output]:
    """Blocks, sections and samples as outputs, in order.

    Args:
        prefix: begins the ids of the figures, which are told apart by them on a page.
        fold: the line under which a page hides them until somebody opens it.
    """
    made: list[Output] = []
    for one in shown:
        if isinstance(one, Section):
            top = str(macro("panel_top")(one))
            made.append(_html(top, one.title, panel=one.title, anchor=one.id))
            inside = outputs_of(*one.blocks, prefix=prefix)
            made += [_folded(each, one.fold) for each in inside]
        elif isinstance(one, Samples):
            made.append(_samples(one))
        elif isinstance(one, Panel):
            made += _panel(one, prefix)
        else:
            told = one.frame().to_string() if isinstance(one, ScoreTable) else one.title
            made.append(_html(str(macro("render")(one)), told))
    return [_folded(each, fold) for each in made]


def _folded(output: Output, fold: str) -> Output:
    return Output(output.data, {"fold": fold, **output.about}) if fold else output


def _html(fragment: str, told: str, **about: Any) -> Output:
    return Output({"text/html": fragment, "text/plain": told}, {"own": True, **about})


def _panel(panel: Panel, prefix: str) -> list[Output]:
    """Its heading and prose, its figures, what is missing, its numbers."""
    made = [_html(str(macro("panel_top")(panel)), panel.title, panel=panel.title)]
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
    line = " ".join(filter(None, [f"{plot.caption}:", in_words(figure_table(plot.figure))]))
    few = thinned(plot.figure).update(title={"text": plot.caption})  # of very many runs
    return Output({PLOTLY: few.to_dict(), "text/plain": line}, about)


def _samples(samples: Samples) -> Output:
    told = f"{samples.title}: {len(samples.data['columns']['arm'])} responses; a page shows them."
    html = str(macro("prose")(samples.prose))
    about = {"samples": samples.id, "own": True}
    return Output({SAMPLES: samples.data, "text/html": html, "text/plain": told}, about)


def display(outputs: Iterable[Output]) -> None:
    """Show outputs in a notebook; elsewhere their lines of text."""
    from IPython import get_ipython
    from IPython.display import display as show

    for one in outputs:
        if get_ipython() is None:
            print(one.data["text/plain"])
        else:
            show(one.data, metadata={KEY: one.about}, raw=True)


def show(*blocks: Block | Section | Samples, prefix: str = "", fold: str = "") -> None:
    """Show blocks in a notebook; arguments as for :func:`outputs_of`."""
    display(outputs_of(*blocks, prefix=prefix, fold=fold))


def notebook_style() -> str:
    """The styles of blocks, in the colours of JupyterLab's theme."""
    return f"<style>.mcb {{ {asset('notebook.css')}{asset('blocks.css')} }}</style>"


def cell_outputs(outputs: Sequence[Output]) -> list[Any]:
    """Outputs as nbformat has them."""
    from nbformat.v4 import new_output

    return [new_output("display_data", data=one.data, metadata={KEY: one.about}) for one in outputs]
