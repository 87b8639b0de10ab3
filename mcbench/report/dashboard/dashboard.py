"""The live dashboard in a notebook: curves, progress and responses of runs that are being trained.

It shows the page of ``mcbench watch`` in a frame. A thread of the notebook's process looks for new
lines and sends what changed, so that the curves move while a cell trains. It uses little of the
processor that trains: the more a look costs, the longer the thread rests until the next.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets
from IPython.display import display

from mcbench.jupyter import address
from mcbench.report.dashboard.board import FIRST_SECTIONS
from mcbench.report.dashboard.follower import Planned
from mcbench.report.dashboard.progress import progress_of, summary
from mcbench.report.dashboard.watch import Watch, write_view
from mcbench.report.display import KEY
from mcbench.report.rendering import asset
from mcbench.report.served import page_likely
from mcbench.runs.place import in_project

_open: dict[str, Dashboard] = {}


class LivePage(anywidget.AnyWidget):
    """The page in its frame. ``asked`` is what a reader chose, as :meth:`Watch.parts` takes it; the
    parts that it answers are traits, so that a page which is opened anew has all of them.
    """

    _esm = asset("frame.js")
    _css = asset("dashboard.css")
    page = traitlets.Unicode().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    models = traitlets.Dict().tag(sync=True)
    rows = traitlets.Dict().tag(sync=True)
    arms = traitlets.Unicode().tag(sync=True)
    sections = traitlets.Dict().tag(sync=True)
    figures = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    texts = traitlets.Dict().tag(sync=True)


class Dashboard:
    """Follows the runs of a folder.

    Shown by a notebook when it ends a cell. Running that cell again replaces the dashboard;
    :meth:`close` ends it. Without a page that could show widgets (papermill, nbconvert) it is a
    line of text and follows nothing.

    Args:
        runs: a folder of runs, or one run directory; relative to the project's root.
        planned: the runs to follow, begun or not: pairs of an arm's name, or nothing, and a
            configuration; all runs of the folder where None.
        records: folders of compact records that stand in for planned runs not in the folder.
        live: whether to follow; where None, whether a page is likely there.

    Raises:
        UserError: it is another file.
    """

    def __init__(
        self,
        runs: str | Path = "runs",
        *,
        planned: Planned | None = None,
        records: Sequence[Path] = (),
        live: bool | None = None,
    ) -> None:
        self.watch = Watch(in_project(runs), planned, records)
        self.live = page_likely() if live is None else live
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None
        if not self.live:
            self.watch.look()
        else:
            _replace(self)
            page = self.watch.page(framed=True)
            self.page = LivePage(page=page, asked={"sections": list(FIRST_SECTIONS)})
            self.box = widgets.VBox(self._widgets()).add_class("mcb-dashboard")
            self.page.observe(lambda change: self._asked.set(), "asked")
            self.page.on_msg(lambda page, message, buffers: self._open_stored(message))
            answer_while_busy(self.page)
            self.refresh()
            self._thread = threading.Thread(target=self._follow, name="dashboard", daemon=True)
            self._thread.start()

    def _widgets(self) -> list[Any]:
        return [self.page]

    def _open_stored(self, point: Any) -> None:
        """Show the responses stored nearest to a point of a curve."""
        with self._lock:
            if (found := self.watch.stored_at(point, self.page.asked)) is not None:
                self.page.send({"opened": found})

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._asked.wait(self.watch.rest_s)
            self._asked.clear()
            if self._stop.is_set():
                return
            try:
                self.refresh()
            except Exception as error:  # said on the page; the next look may do better
                told = f"The last look failed: {type(error).__name__}: {error}"
                with contextlib.suppress(Exception):
                    self.page.status = {"state": told}

    def refresh(self) -> None:
        """Look for what is new and show what is asked for, unless paused."""
        with self._lock, self.page.hold_sync():
            if not self.page.asked.get("paused"):
                self.watch.look()
                for name, value in self.watch.parts(self.page.asked).items():
                    setattr(self.page, name, value)

    def close(self) -> None:
        """Stop following and take the widgets off the page. Idempotent."""
        self._stop.set()
        self._asked.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=10)
        for key in [key for key, dashboard in _open.items() if dashboard is self]:
            del _open[key]
        if thread is not None:
            self._thread = None
            for widget in (*self.box.children, self.box):
                widget.close()

    @property
    def is_following(self) -> bool:
        """Whether its thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        lines = [progress_of(run) for run in self.watch.store.runs.values() if run.meta]
        text = f"{summary(lines)} in {self.watch.root}"
        bundle: dict[str, Any] = {"text/plain": f"Dashboard: {text}"}
        if self.live:
            found = self.box._repr_mimebundle_()
            data = found[0] if isinstance(found, tuple) else found
            bundle = {**data, **bundle}
        return bundle


def answer_while_busy(widget: Any) -> None:
    """Have the widget's messages handled in a thread while a cell runs.

    JupyterLab sends them to a subshell for that. ipykernel 7.4 moves them back to the thread that
    used the widget last, which is the one that trains; this hook of its decides, and without it the
    page's wish counts.
    """
    if widget.comm is not None:
        widget.comm._reply_subshell_for = None


def _cell() -> str | None:
    """The id of the notebook cell that is running, where the page tells it."""
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent() if kernel else {}
    return (parent.get("metadata") or {}).get("cellId")


def _replace(dashboard: Dashboard) -> None:
    """Close what the same cell showed before, so that running it twice leaves one thread."""
    key = _cell() or str(dashboard.watch.root)
    if key in _open:
        _open[key].close()
    _open[key] = dashboard


# Where the runs of a cell are shown --------------------------------------------------------------

_LOOK = "width: 100%; height: 720px; border: 0; resize: vertical"


def link_live(runs: Path, planned: Planned, records: Sequence[Path] = ()) -> None:
    """Below a dashboard of this kernel: where the same runs are shown without it, if they are."""
    if page := address(write_view(runs, planned, records)):
        link = f'<a href="{escape(page)}" target="_blank">These runs in a page of their own</a>'
        _show(f"<p>{link}, which needs no kernel.</p>", "")


def show_live(runs: Path, planned: Planned, records: Sequence[Path] = ()) -> None:
    """Show runs while they train; arguments as for :func:`write_view`.

    Where the server has no such pages (VS Code, an older JupyterLab that is still running), it is
    the dashboard of this kernel, which ends with it.
    """
    view = write_view(runs, planned, records)
    command = f"mcbench watch {os.path.relpath(view)}"
    if (page := address(view)) is None:
        display(Dashboard(runs, planned=planned, records=records))
        print(f"this view ends with the page; one that does not: {command}")
        return
    _show(
        f'<iframe src="{escape(page)}" title="Runs while they train" style="{_LOOK}"></iframe>'
        f'<p><a href="{escape(page)}" target="_blank">Open this view alone</a>; without '
        f"JupyterLab: <code>{escape(command)}</code></p>",
        f"a live view: {command}",
    )


def _show(html: str, told: str) -> None:
    """In this notebook, on no page."""
    display({"text/html": html, "text/plain": told}, metadata={KEY: {"live": True}}, raw=True)
