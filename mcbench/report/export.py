"""An executed notebook as a page: its prose, its outputs in their order, its code folded.

What :mod:`mcbench.report.display` showed is put in as it is; of anything else the richest form that
needs no network and no kernel is taken. Cells tagged ``parameters`` or ``keyboard`` are for the
person who runs the notebook: a page has them at its end. Prose tagged ``fold`` stands under its
first bold words until a reader opens it. Nothing of when or how fast a cell ran is
read, so executing a notebook twice gives the same page.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from markdown_it import MarkdownIt

from mcbench.errors import UserError
from mcbench.experiments.notebook import assignments
from mcbench.report.base import PLOTLY, ROLES, role_of
from mcbench.report.display import KEY, SAMPLES
from mcbench.report.encode import figure_of, figure_spec
from mcbench.report.page import Chapter, Page, Part, Plot, slug
from mcbench.report.rendering import macro
from mcbench.report.samples import plain
from mcbench.report.style import ArmStyle
from mcbench.runs.place import in_project

ASIDE = {"parameters", "keyboard"}
PRINTED = 200  # lines of one cell's text; what came before is counted
WIDGET = "application/vnd.jupyter.widget-view+json"
STOPPED = "stopped"
_SHOWN = ("display_data", "execute_result")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_LEFT_OUT = {"runs_dir", "train", "workers", "fresh"}  # of the command that makes a page again


def page_of(notebook: Any, name: str = "", source: str = "", reason: str = "") -> Page:
    """The page of an executed notebook.

    Args:
        notebook: as nbformat has it.
        name: what a notebook without a heading is called.
        source: the path of the notebook as a reader of the page finds it; empty: none.
        reason: why it did not come to its end, where the notebook itself does not say so.

    Raises:
        UserError: none of its cells was executed.
    """
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not any(cell.outputs or cell.execution_count for cell in code):
        raise UserError(
            f"no cell of {name or 'this notebook'} was executed: run it first (mcbench run, "
            "papermill or JupyterLab), and save it"
        )
    return _Reader(notebook).read(name, source, reason or stopped(notebook))


def stopped(notebook: Any) -> str:
    """Where an executed notebook stopped and why, in a sentence; empty where it came to its end."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        if error := next((out for out in cell.outputs if out.output_type == "error"), None):
            return f"Cell [{number}] failed with {error.ename}: {error.evalue}"
    if "papermill" in notebook.metadata:  # which executes every cell, or stops
        for number, cell in enumerate(code, 1):
            timing = cell.metadata.get("execution", {})  # the kernel may have died after it began
            ended = cell.execution_count and (not timing or "shell.execute_reply" in timing)
            if cell.source.strip() and not ended:
                return (
                    f"Cell [{number}] was running when this notebook was saved last. If nothing "
                    "runs any more, the kernel died in it: out of memory, or killed."
                )
    return ""


class _Reader:
    """Goes through the cells once, in order."""

    def __init__(self, notebook: Any) -> None:
        self.notebook = notebook
        self.page = Page("", "executed notebook", arms=_arms(notebook))
        self.opening: list[str] = []
        self.aside: list[str] = []
        self.ids: set[str] = set()

    def read(self, name: str, source: str, reason: str) -> Page:
        number = 0
        for cell in self.notebook.cells:
            tags = set(cell.metadata.get("tags", ()))
            if cell.cell_type == "markdown":
                self._prose(cell.source, tags)
            elif cell.cell_type == "code":
                number += 1
                if "injected-parameters" in tags:  # the command at the end has them
                    self._errors(cell)
                    continue
                self._code(cell, number, bool(tags & ASIDE))
        page, command, own = self.page, _again(self.notebook), "".join(self.aside)
        end = [Part(str(macro("printed")(command)), "The command", True)] if command else []
        end += [Part(own, "The notebook's own cells: parameters, watching", True)] if own else []
        if end:
            page.chapters.append(Chapter(self._id("again"), "Make this page again", end))
        if reason:
            page.kicker = STOPPED
            page.heads.insert(0, str(macro("note")(f"Not finished. {reason}")))
        page.heads += self.opening
        page.title, page.summary = page.title or name, page.summary or page.finding
        page.notebook = source
        return page

    # Prose ---------------------------------------------------------------------------------------

    def _prose(self, text: str, tags: Collection[str]) -> None:
        tokens = _MARKDOWN.parse(text)
        if "fold" in tags and (bold := _BOLD.match(text)):
            rest = _MARKDOWN.render(text[bold.end() :])
            self._add(Part(str(macro("fold_of")(bold[1].rstrip(".:"), rest))))
            return
        if ASIDE & {*tags}:
            html = _MARKDOWN.renderer.render(_lower(tokens), _MARKDOWN.options, {})
            self.aside.append(html)
            return
        start = 0
        for place, token in enumerate(tokens):
            if token.type == "heading_open" and token.tag in ("h1", "h2"):
                self._put(tokens[start:place])
                title, start = tokens[place + 1].content, place + 3
                if token.tag == "h2":
                    self.page.chapters.append(Chapter(self._id(slug(title)), title))
                elif not self.page.title:
                    self.page.title = title
        self._put(tokens[start:])

    def _put(self, tokens: Sequence[Any]) -> None:
        """Prose below the last heading, its own headings with ids."""
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                title = tokens[place + 1].content
                token.attrSet("id", self._id(slug(title)))
                if self.page.chapters:
                    self.page.chapters[-1].contents.append((str(token.attrGet("id")), title))
        if html := _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}):
            self._add(Part(html))

    def _add(self, part: Part) -> None:
        if not self.page.chapters:
            self.opening.append(part.html)
            return
        self.page.chapters[-1].parts.append(part)

    def _id(self, wanted: str) -> str:
        """An id that nothing else on the page has."""
        found, number = wanted or "part", 2
        while found in self.ids:
            found, number = f"{wanted}-{number}", number + 1
        self.ids.add(found)
        return found

    # Code and outputs ----------------------------------------------------------------------------

    def _code(self, cell: Any, number: int, aside: bool) -> None:
        heads = [out for out in cell.outputs if "head" in _about(out)]
        for about in map(_about, heads):
            self.page.heads.append(about["head"])
            self.page.settings |= about.get("settings", {})
            self.page.summary = self.page.summary or about.get("summary", "")
        told = " ".join(_text(out.data["text/plain"]) for out in heads)
        self.page.finding = self.page.finding or told
        printed = _printed(cell.outputs)
        hidden = any(_about(out).keys() & {"head", "own", "id"} for out in cell.outputs)
        source = {"title": f"Code [{number}]", "source": plain(cell.source)}
        code = str(macro("code")({**source, "printed": printed if hidden or aside else ""}))
        if aside:
            self.aside.append(code)
            self._errors(cell)
            return
        if not hidden and printed:
            self._add(Part(str(macro("printed")(printed)), shows=True))
        shown = [out for out in cell.outputs if out.output_type in _SHOWN]
        for fold, group in groupby(shown, lambda out: _about(out).get("fold", "")):
            if html := "".join(self._group(group, number)):
                self._add(Part(html, fold, shows=True))
        self._errors(cell)
        self._add(Part(code))

    def _errors(self, cell: Any) -> None:
        for out in cell.outputs:
            if out.output_type == "error":
                lines = plain(_ANSI.sub("", "\n".join(out.get("traceback", ()))), 20_000)
                error = {"ename": plain(out.ename), "evalue": plain(str(out.evalue), 4000)}
                html = str(macro("stopped")({**error, "traceback": lines}))
                self._add(Part(html, shows=True))

    def _group(self, outputs: Iterable[Any], number: int) -> Iterator[str]:
        """The outputs under one fold as HTML; figures that follow each other stand in a grid."""
        for drawn, group in groupby(outputs, lambda out: PLOTLY in out.data):
            if drawn:
                figures = "".join(self._figure(out, number) for out in group)
                yield f'<div class="grid">{figures}</div>'
            else:
                yield from map(self._html, group)

    def _figure(self, out: Any, number: int) -> str:
        about = _about(out)
        figure = figure_of(out.data[PLOTLY])
        title = figure.layout.get("title") or {}
        caption = about.get("caption") or (title.get("text") if isinstance(title, dict) else title)
        found = self._id(about.get("id") or f"cell-{number}")
        tall = figure.layout.get("height", 0)
        height = about.get("height") or (tall if "id" not in about and tall > 320 else None)
        plot = Plot(found, str(caption or f"Figure of cell [{number}]"), figure, height,
                    about.get("arm"))  # fmt: skip
        self.page.figures[found] = figure_spec(figure)
        return str(macro("figure")(plot, self.page.arms, about.get("title", "")))

    def _html(self, out: Any) -> str:
        about, data = _about(out), out.data
        if "head" in about or "live" in about or WIDGET in data:
            return ""
        if SAMPLES in data:
            found = self._id(about["samples"])
            self.page.samples[found] = data[SAMPLES]
            return str(macro("browser")({"id": found, "prose": _text(data["text/html"])}))
        if "text/html" in data:
            if "top" in about:
                return self._top(**about["top"])
            html = _text(data["text/html"])
            return html if about.get("own") else f'<div class="scroll own">{html}</div>'
        if "image/svg+xml" in data or "image/png" in data:
            kind = "image/png" if "image/png" in data else "image/svg+xml"
            inside = _text(data[kind]).strip()
            if kind == "image/svg+xml":
                inside = base64.b64encode(inside.encode()).decode()
            return f'<img alt="" src="data:{kind};base64,{inside}">'
        if "text/markdown" in data:
            return str(_MARKDOWN.render(_text(data["text/markdown"])))
        text = _short(_ANSI.sub("", _text(data.get("text/plain", ""))))
        return str(macro("printed")(text)) if text else ""

    def _top(self, title: str, prose: str, anchor: str) -> str:
        """A heading, unless it is that of the chapter, and prose."""
        if not title or (self.page.chapters and title == self.page.chapters[-1].title):
            return str(macro("panel_top")("", prose))
        found = self._id(anchor or slug(title))
        if self.page.chapters:
            self.page.chapters[-1].contents.append((found, title))
        return str(macro("panel_top")(title, prose, found))


def _about(out: Any) -> dict[str, Any]:
    """What :mod:`mcbench.report.display` says of an output."""
    return dict(out.get("metadata", {}).get(KEY, {}))


def _lower(tokens: Sequence[Any]) -> Sequence[Any]:
    """Headings of a part that stands inside another: small ones, in no contents."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h3"
    return tokens


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value)


def _printed(outputs: Sequence[Any]) -> str:
    """What a cell wrote to its standard output; of a line that was written over, its last state."""
    written = "".join(
        _text(out.text) for out in outputs if out.output_type == "stream" and out.name == "stdout"
    )
    lines = [line.rsplit("\r", 1)[-1] for line in _ANSI.sub("", written).rstrip("\n").split("\n")]
    return _short("\n".join(lines))


def _short(text: str) -> str:
    lines = text.split("\n")
    if len(lines) > PRINTED:
        lines = [f"… ({len(lines) - PRINTED} lines before)", *lines[-PRINTED:]]
    return plain("\n".join(lines))


def _arms(notebook: Any) -> dict[str, ArmStyle]:
    """The arms that figures draw as curves over seeds, as they are drawn, in order."""
    found: dict[str, ArmStyle] = {}
    for cell in notebook.cells:
        for out in cell.get("outputs", ()):
            for trace in out.get("data", {}).get(PLOTLY, {}).get("data", ()):
                if role_of(trace) == ROLES[-1] and "label" in trace["meta"]:
                    line = trace["line"]
                    style = ArmStyle(trace["meta"]["label"], line["color"], line["dash"])
                    found.setdefault(trace["legendgroup"], style)
    return found


# Where it comes from -----------------------------------------------------------------------------


def _again(notebook: Any) -> str:
    """The command that executes the notebook again, with the parameters that were given."""
    source = notebook.metadata.get("papermill", {}).get("input_path")
    if not source:
        return ""
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    defaults = assignments(cells[0].source, source) if cells else {}
    given = notebook.metadata.get(KEY, {}).get("parameters")
    if given is None:
        given = notebook.metadata["papermill"].get("parameters", {})
    path, project = in_project(source).resolve(), in_project(".").resolve()
    inside = path.is_relative_to(project)
    words = ["mcbench", "run", str(path.relative_to(project)) if inside else path.name]
    for name, value in given.items():
        if name not in _LEFT_OUT and (name not in defaults or defaults[name] != value):
            text = value if isinstance(value, str) else json.dumps(value)
            words += ["-p", name, shlex.quote(text)]
    return " ".join(words)
