"""The page of a notebook that did not come to its end: which cell, why, and what there was by then.

Two ways lead here. In the kernel, :func:`begin` (the first call of every notebook) keeps a page up
to date while cells run, so that plain papermill leaves one too, even where the kernel is killed.
``mcbench run`` writes it once more from the executed notebook, when it knows how it ended. The page
stands beside the report as ``<name>.unfinished.html``; saving the report removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.experiments.notebook import check_injected
from mcbench.report import site
from mcbench.report.base import Figure
from mcbench.report.page import Block, Code, Page, Panel, Plot, Section, facts
from mcbench.report.samples import plain
from mcbench.runs.place import in_project

PLOTLY_MIME = "application/vnd.plotly.v1+json"
TEXT_LINES = 200  # of one cell; what came before is counted
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Cell:
    """A cell that was begun: its count ``[n]``, source, outputs as nbformat has them, its error."""

    count: int
    source: str
    outputs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def error(self) -> dict[str, Any] | None:
        """The output of type ``error``, where there is one."""
        return next((out for out in self.outputs if out["output_type"] == "error"), None)


def cells_of(notebook: Any) -> list[Cell]:
    """The begun code cells of an executed notebook (nbformat)."""
    return [
        Cell(cell.execution_count or 0, cell.source, list(cell.outputs))
        for cell in notebook.cells
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count)
    ]


# The page ----------------------------------------------------------------------------------------


def unfinished_page(
    name: str, cells: Sequence[Cell], reason: str, parameters: Mapping[str, Any]
) -> Page:
    """The page of an unfinished notebook.

    Args:
        name: of the notebook.
        cells: those that were begun, the last one being where it stopped.
        reason: why, in a sentence.
    """
    last = cells[-1] if cells else Cell(0, "")
    blocks: list[Block] = [Code(plain(last.source), "The cell")]
    if (error := last.error) is not None:
        lines = _ANSI.sub("", "\n".join(error.get("traceback") or []))
        why = f"{error['ename']}: {error['evalue']}"
        blocks += [
            Code(plain(why, 4000), "The error"),
            Code(plain(lines, 20_000), fold="Traceback"),
        ]
    if parameters:
        blocks.append(facts(sorted(parameters.items()), "Parameters"))
    so_far = [panel for place, cell in enumerate(cells) if (panel := _shown(cell, place))]
    nothing = Panel("Nothing", "No cell showed anything before.")
    return Page(
        title=f"{name}: not finished",
        kicker="stopped",
        lead=reason,
        notes=(),
        sections=[
            Section("stopped", f"Where it stopped: cell [{last.count}]", blocks=blocks),
            Section("so-far", "Computed so far", blocks=so_far or [nothing]),
        ],
    )


def _shown(cell: Cell, place: int) -> Panel | None:
    """What the cell at a place showed: figures, then text; None where that is nothing. Cells are
    told apart by their place: where a kernel keeps no history, all have one execution count.
    """
    plots: list[Plot] = []
    texts: list[str] = []
    for index, output in enumerate(cell.outputs):
        data = output.get("data", {})
        if PLOTLY_MIME in data:
            traces = [{"type": "scatter", **trace} for trace in data[PLOTLY_MIME]["data"]]
            layout = data[PLOTLY_MIME]["layout"]
            title = layout.get("title", {}).get("text") or f"Figure {len(plots) + 1}"
            tall = layout["height"] if layout.get("height", 0) > 320 else None
            figure = Figure(traces, layout)
            plots.append(Plot(f"cell-{place}-{index}", str(title), figure, tall))
        elif output["output_type"] == "stream":
            texts.append(_joined(output["text"]))
        elif "text/plain" in data:
            texts.append(_joined(data["text/plain"]))
    lines = "\n".join(part.rstrip("\n") for part in texts).split("\n")
    if len(lines) > TEXT_LINES:
        lines = [f"… ({len(lines) - TEXT_LINES} lines before)", *lines[-TEXT_LINES:]]
    text = plain("\n".join(lines))
    return Panel(f"Cell [{cell.count}]", plots=plots, text=text) if plots or text else None


def _joined(text: Any) -> str:
    return _ANSI.sub("", text if isinstance(text, str) else "".join(text))


def write_unfinished(
    report: Path, cells: Sequence[Cell], reason: str, parameters: Mapping[str, Any]
) -> Path:
    """Write the page of a notebook that has not written ``report``; returns its path."""
    page = unfinished_page(report.stem, cells, reason, parameters)
    return site.save(page, site.unfinished(report))


def after_failure(
    notebook: str | Path, output: Path, parameters: Mapping[str, Any], reason: str
) -> Path:
    """Write the page for a notebook that ``mcbench run`` executed to ``output`` and that failed."""
    import nbformat

    known = {"report", "runs_dir"} & parameters.keys()
    name = f"{Path(notebook).stem}.html"
    report = report_path(name, parameters) if known else output.with_suffix(".html")
    cells = cells_of(nbformat.read(output, as_version=4)) if output.is_file() else []
    return write_unfinished(report, cells, reason, parameters)


# In the kernel -----------------------------------------------------------------------------------


def begin(report: str) -> Path:
    """Check the parameters of this notebook; in batch, keep the page of an unfinished notebook.

    Args:
        report: file name of the page that the notebook writes, such as ``07_results.html``; its
            folder is that of the parameter ``report``, or ``runs_dir``.

    Returns:
        Where to save the report.

    Raises:
        UserError: as :func:`mcbench.experiments.notebook.check_injected`.
    """
    from IPython import get_ipython

    given = check_injected()
    shell = get_ipython()
    path = report_path(report, shell.user_ns if shell else {})
    # Jupyter's server names its sessions; papermill and nbclient do not.
    if shell is not None and "JPY_SESSION_NAME" not in os.environ:
        _Watch(shell, path, given).start()
    return path


def report_path(report: str, parameters: Mapping[str, Any]) -> Path:
    """The page that a notebook with these parameters writes."""
    return in_project(
        parameters.get("report") or Path(parameters.get("runs_dir") or "runs") / report
    )


class _Tee:
    """A stream that also keeps what was written since the cell began."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.kept: list[str] = []

    def write(self, text: str) -> int:
        self.kept.append(text)
        del self.kept[: -50 * TEXT_LINES]
        return int(self.stream.write(text) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Watch:
    """Follows the cells of a kernel and writes the unfinished page before and after each."""

    def __init__(self, shell: Any, report: Path, parameters: Mapping[str, Any]) -> None:
        self.shell = shell
        self.report = report
        self.parameters = parameters
        self.new_folder = not report.parent.exists()
        self.cells: list[Cell] = []
        self.shown: list[dict[str, Any]] = []

    def start(self) -> None:
        sys.stdout = self.stdout = _Tee(sys.stdout)
        self.shell.events.register("pre_run_cell", lambda info: self.before(info.raw_cell))
        self.shell.events.register("post_run_cell", self.after)
        self.shell.display_pub.register_hook(self._shown)
        self.before(self.shell.user_ns["In"][-1])  # the cell that is running now

    def _shown(self, message: dict[str, Any]) -> dict[str, Any]:
        if message.get("header", {}).get("msg_type") == "display_data":
            data = json.loads(json.dumps(message["content"]["data"], default=str))
            self.shown.append({"output_type": "display_data", "data": data})
        return message

    def before(self, source: str) -> None:
        self.stdout.kept.clear()
        self.shown = []
        self.cells.append(Cell(self.shell.execution_count, source))
        self._write(
            f"Cell [{self.cells[-1].count}] was running when this page was written. If nothing "
            "runs any more, the kernel died in it: out of memory, or killed."
        )

    def after(self, result: Any) -> None:
        from IPython.utils.dir2 import get_real_method

        cell = self.cells[-1]
        cell.outputs = [*self.shown]
        if self.stdout.kept:
            text = "".join(self.stdout.kept)
            cell.outputs.insert(0, {"output_type": "stream", "text": text})
        # What displays itself, as plotly figures do, was shown; formatted it would be once more.
        itself = get_real_method(result.result, "_ipython_display_")
        if result.result is not None and itself is None:
            data, _ = self.shell.display_formatter.format(result.result)
            cell.outputs.append({"output_type": "execute_result", "data": data})
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, UserError):
            site.unfinished(self.report).unlink(missing_ok=True)
            if self.new_folder:  # wrong input leaves nothing behind
                with contextlib.suppress(OSError):
                    self.report.parent.rmdir()
        elif error is not None:
            raised = {"ename": type(error).__name__, "evalue": str(error)}
            lines = traceback.format_exception(error)
            cell.outputs.append({"output_type": "error", "traceback": lines, **raised})
            self._write(f"Cell [{cell.count}] failed with {raised['ename']}: {error}")

    def _write(self, reason: str) -> None:
        try:
            write_unfinished(self.report, self.cells, reason, self.parameters)
        except Exception as error:  # a notebook must not fail over this page
            self.stdout.stream.write(f"no page for what is unfinished: {error!r}\n")
