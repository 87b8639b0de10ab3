"""The live dashboard: curves, progress and responses of runs that are being trained.

A thread of the notebook's process looks for new lines and sends what changed to the page, so that
the curves move while a cell trains. It uses little of the processor that trains: one look costs
some milliseconds, and the more it costs, the longer the thread rests until the next.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from mcbench.errors import UserError, unknown
from mcbench.report.base import SMOOTHING
from mcbench.report.dashboard.board import FIRST_SECTIONS, Board, ahead
from mcbench.report.dashboard.curves import CurvesView
from mcbench.report.dashboard.follower import Planned, RunFollower, StoreFollower
from mcbench.report.dashboard.live_figure import PlotlySource, answer_while_busy
from mcbench.report.dashboard.progress import Progress, progress_of, summary
from mcbench.report.dashboard.run_list import RunList, totals
from mcbench.report.dashboard.sample_browser import SampleBrowser
from mcbench.report.panels import SECTIONS
from mcbench.report.served import page_likely
from mcbench.report.style import ArmStyle
from mcbench.runs.place import in_project

CURVES, RESPONSES = "Curves", "Responses"
# Looking and drawing may each take this share of a processor: both, and what is beside them, stay
# below one percent. Nobody waits longer than this for the table of runs after a step; the figures
# of many runs come less often, the last number at most.
SHARE, LONGEST_REST_S, LONGEST_UNDRAWN_S = 0.0035, 1.5, 20.0
_REST_S = 0.25

_open: dict[str, Dashboard] = {}


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
        sections: the sections of figures shown first (:data:`mcbench.report.panels.SECTIONS`).
        smoothing: steps of the running mean.
        live: whether to follow; where None, whether a page is likely there.

    Raises:
        UserError: no such folder, an unknown section, or a smoothing below 1.
    """

    def __init__(
        self,
        runs: str | Path = "runs",
        *,
        planned: Planned | None = None,
        records: Sequence[Path] = (),
        sections: Sequence[str] = FIRST_SECTIONS,
        smoothing: int = SMOOTHING,
        live: bool | None = None,
    ) -> None:
        for section in sections:
            if section not in SECTIONS:
                raise unknown("section", section, SECTIONS)
        if smoothing < 1:
            raise UserError(f"smoothing must be at least 1 step, got {smoothing}")
        root = in_project(runs)
        if root.exists() and not root.is_dir():
            raise UserError(f"{root} is a file; name a folder of runs or a run directory")
        self.store = StoreFollower(root, planned, records)
        self.board = Board(self.store)
        self.live = page_likely() if live is None else live
        self.problem = ""
        self.looks = 0
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._stale = True
        self._undrawn = False
        self._drawn_at = self._draw_cost = 0.0
        self._thread: threading.Thread | None = None
        self.store.poll()
        if self.live:
            _replace(self)
            self._build(sections, smoothing)
            self._thread = threading.Thread(target=self._follow, name="dashboard", daemon=True)
            self._thread.start()

    # What is shown -------------------------------------------------------------------------------

    def _build(self, sections: Sequence[str], smoothing: int) -> None:
        self.source = PlotlySource()
        self.status = widgets.HTML().add_class("mcb-status")
        self.shown = widgets.ToggleButtons(
            options=[CURVES, RESPONSES], style={"button_width": "auto"}
        )
        self.pause = widgets.ToggleButton(description="Pause", tooltip="stop following; runs go on")
        self.model = widgets.Dropdown(description="Model", style={"description_width": "auto"})
        self.model.layout.width = "auto"
        self.sections = {
            name: widgets.ToggleButton(value=name in sections, description=name)
            for name in SECTIONS
        }
        self.smoothing = widgets.IntSlider(
            value=smoothing,
            min=1,
            max=max(50, smoothing),
            description="Smoothing",
            style={"description_width": "auto"},
            layout={"width": "240px"},
            continuous_update=False,
        )
        self.list = RunList()
        self.curves = CurvesView(self._open_step)
        self.samples = SampleBrowser(self._named, self._lock)
        controls = widgets.Box([*self.sections.values(), self.smoothing]).add_class("mcb-controls")
        top = widgets.Box([self.status, self.model, self.shown, self.pause]).add_class(
            "mcb-bar-top"
        )
        self._curves_box = widgets.VBox([controls, self.curves])
        self._body = widgets.VBox([self._curves_box])
        self.box = widgets.VBox([top, self.list, self._body, self.source])
        self.box.add_class("mcb-dashboard")
        self._answer(
            [self.shown, self.pause, self.model, self.smoothing, *self.sections.values()], "value"
        )
        self._answer([self.list], "chosen")
        answer_while_busy(self.samples)
        self.refresh()
        self._draw_cost = 0.0  # the first time costs more than what follows

    def _answer(self, controls: Sequence[Any], trait: str) -> None:
        for control in controls:
            control.observe(self._control_changed, trait)
            answer_while_busy(control)

    def _control_changed(self, change: Any) -> None:
        if change["owner"] is self.pause:
            self.pause.description = "Resume" if self.pause.value else "Pause"
        self._stale = True
        self._changed.set()

    def _open_step(self, arm: str, step: float) -> None:
        """Show the responses that an arm stored nearest to a step."""
        found = self.board.stored_nearest(self.model.value, arm, step, self.list.chosen)
        if found is not None:
            run, nearest = found
            self.samples.asked = {**self.samples.asked, "run": run, "step": str(nearest)}
            self.shown.value = RESPONSES

    @property
    def arms(self) -> dict[str, list[RunFollower]]:
        """The arms of the chosen model, with all their runs."""
        return self.board.arms(self.model.value)

    def _named(self) -> dict[str, tuple[ArmStyle, RunFollower]]:
        return self.board.named(self.model.value)

    # Following -----------------------------------------------------------------------------------

    def _follow(self) -> None:
        rest = _REST_S
        while not self._stop.is_set():
            self._changed.wait(rest)
            self._changed.clear()
            if self._stop.is_set():
                return
            drawn_at, wait = self._drawn_at, min(LONGEST_UNDRAWN_S, self._draw_cost / SHARE)
            began = time.thread_time()
            try:
                self.refresh(draw=time.monotonic() - drawn_at >= wait)
            except Exception as error:
                self._report(error)
            cost = time.thread_time() - began
            if self._drawn_at != drawn_at:
                cost -= self._draw_cost
            rest = min(LONGEST_REST_S, max(_REST_S, cost / SHARE))

    def _report(self, error: Exception) -> None:
        """Say on the page what went wrong; the next look may do better."""
        self._stale = True
        self.problem = f"The last look failed: {type(error).__name__}: {error}"
        with contextlib.suppress(Exception):
            self._show_status([])

    def refresh(self, draw: bool = True) -> None:
        """Look for what is new and show it, unless paused; without ``draw`` in the table of runs
        alone, unless a reader changed what is drawn.
        """
        with self._lock:
            self.looks += 1
            if self.pause.value:
                self._show_status([])
                return
            self._undrawn |= self.store.poll()
            lines = self._show_runs()
            self.problem = ""
            self._show_status(lines)
            if not self._stale and not (self._undrawn and draw):
                return
            self._stale = self._undrawn = False
            began = time.thread_time()
            if self.shown.value == RESPONSES:
                self.samples.refresh()
                self._put(self.samples)
            else:
                # Arms without a chosen run stay, so that colours stay theirs.
                arms = {
                    arm: [run for run in runs if run.run_id in self.list.chosen]
                    for arm, runs in self.arms.items()
                }
                chosen = [name for name, button in self.sections.items() if button.value]
                self.curves.show(arms, chosen, self.smoothing.value)
                self._put(self._curves_box)
            self._draw_cost, self._drawn_at = time.thread_time() - began, time.monotonic()

    def _put(self, box: Any) -> None:
        if self._body.children != (box,):
            self._body.children = (box,)

    def _offer_models(self) -> None:
        sizes = list(self.board.sizes)
        if list(self.model.options) != sizes:
            chosen = self.model.value
            self.model.options = sizes
            self.model.value = chosen if chosen in sizes else self.board.newest_model()
        self.model.layout.display = None if len(sizes) > 1 else "none"

    def _show_runs(self) -> list[Progress]:
        self._offer_models()
        self.list.rows, lines = self.board.rows(self.model.value)
        if drawn := self.board.newly_drawn(self.list.rows):
            self.list.chosen = [*self.list.chosen, *drawn]
        return lines

    def _show_status(self, lines: Sequence[Progress]) -> None:
        if self.pause.value:
            text = "<b>Paused</b><span>the runs go on; this page stands still</span>"
        else:
            text = f"<b>{escape(summary(lines))}</b><span>{escape(totals(lines))}</span>"
            if leading := ahead(self.arms):
                text += f'<span class="mcb-ahead">{escape(leading)}</span>'
            if not lines:
                text = f"<b>No runs yet</b><span>waiting for {escape(str(self.store.root))}</span>"
        if self.problem:
            text = f'<span class="mcb-problem">{escape(self.problem)}</span>'
        if self.status.value != text:
            self.status.value = text

    def close(self) -> None:
        """Stop following and take the widgets off the page. Idempotent."""
        self._stop.set()
        self._changed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=10)
        for key in [key for key, dashboard in _open.items() if dashboard is self]:
            del _open[key]
        if self.live and self._thread is not None:
            self._thread = None
            # What is shown, and what could be.
            for widget in (*_tree(self.box), *_tree(self._curves_box), self.samples):
                widget.close()

    @property
    def is_following(self) -> bool:
        """Whether its thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        lines = [progress_of(run) for run in self.store.runs.values() if run.meta]
        text = f"{summary(lines)} in {self.store.root}"
        bundle: dict[str, Any] = {"text/plain": f"Dashboard: {text}"}
        if self.live:
            found = self.box._repr_mimebundle_()
            data = found[0] if isinstance(found, tuple) else found
            bundle = {**data, **bundle}
        return bundle


def _cell() -> str | None:
    """The id of the notebook cell that is running, where the page tells it."""
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent() if kernel else {}
    return (parent.get("metadata") or {}).get("cellId")


def _replace(dashboard: Dashboard) -> None:
    """Close what the same cell showed before, so that running it twice leaves one thread."""
    key = _cell() or str(dashboard.store.root)
    if key in _open:
        _open[key].close()
    _open[key] = dashboard


def _tree(widget: Any) -> Iterator[Any]:
    for child in getattr(widget, "children", ()):
        yield from _tree(child)
    yield widget
