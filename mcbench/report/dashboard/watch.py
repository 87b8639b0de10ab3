"""A folder of runs as a web page follows it: what changed since the page asked last.

A page asks again and again and names the version that it has of each part; it is sent what is
newer.
Nothing is remembered of a page, so that a reload, or many of them, change nothing. Only what was
appended to the files is read, and all pages share it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mcbench.errors import UserError
from mcbench.files import digest, write_json
from mcbench.report.base import SMOOTHING
from mcbench.report.dashboard.board import FIRST_SECTIONS, Board, ahead
from mcbench.report.dashboard.follower import Planned, StoreFollower
from mcbench.report.dashboard.progress import Progress, summary
from mcbench.report.dashboard.run_list import ASSETS, totals
from mcbench.report.dashboard.sample_browser import Named, Responses
from mcbench.report.encode import figure_spec
from mcbench.report.panels import PANELS, SECTIONS, drawn, left_out
from mcbench.report.rendering import environment, render
from mcbench.report.style import arm_styles
from mcbench.runs.config import Config

# As the dashboard in a notebook: looking and drawing may each take this share of a processor, and
# nobody waits longer than this for the table after a step, or for the figures.
SHARE, REST_S, LONGEST_REST_S, LONGEST_UNDRAWN_S = 0.0035, 1.0, 5.0, 20.0
_MOST_DRAWN = 8  # choices of runs and sections that are kept drawn


@dataclass
class _Drawing:
    """The figures of one choice: HTML of the sections by name, figures by id."""

    arms: str
    sections: dict[str, str]
    figures: dict[str, Any]
    at: float
    cost: float
    seen: int


VIEWS = "views"


def write_view(runs: Path, planned: Planned, records: Sequence[Path] = ()) -> Path:
    """Note which runs of a folder belong together, and what their arms are called, for a page of
    theirs; returns its file. The same runs have the same file.

    Args:
        records: folders of compact records that stand in for runs not in the folder.
    """
    path = runs / VIEWS / f"{digest(sorted(config.run_id for _, config in planned))}.json"
    rows = [{"arm": arm, "config": config.to_dict()} for arm, config in planned]
    write_json(path, {"runs": rows, "records": [str(one.absolute()) for one in records]})
    return path


def _read_view(path: Path) -> tuple[Path, Planned, list[Path]]:
    """The folder of runs, the runs and the records of a view's file."""
    try:
        found = json.loads(path.read_text())
        planned = [(str(one["arm"]), Config.from_dict(one["config"])) for one in found["runs"]]
        return path.parents[1], planned, [Path(one) for one in found["records"]]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        raise UserError(f"{path} is a file; name a folder of runs or a run directory") from None


class Watch:
    """Follows a folder of runs for any number of pages.

    Args:
        runs: a folder of runs, one run directory, or a file of :func:`write_view`.

    Raises:
        UserError: it is another file.
    """

    def __init__(self, runs: Path) -> None:
        planned: Planned | None = None
        records: list[Path] = []
        self.root = runs
        if runs.is_file():
            self.root, planned, records = _read_view(runs)
        self.store = StoreFollower(self.root, planned, records)
        self._asked_at = time.monotonic()
        self.board = Board(self.store)
        self.responses = Responses()
        self._first: list[str] = []  # runs that are drawn unless a reader takes them out
        self._looked_at, self._rest, self._changes = 0.0, 0.0, 0
        self._tables: dict[str | None, tuple[list[dict[str, Any]], list[Progress]]] = {}
        self._drawings: dict[tuple[Any, ...], _Drawing] = {}

    def page(self) -> str:
        """The page, without anything of the runs yet."""
        styles = Markup((ASSETS / "dashboard.css").read_text(encoding="utf-8"))
        return render(
            "watch.html", title=f"Runs in {self.root}", samples="live", styles=styles,
            sections=SECTIONS, first=FIRST_SECTIONS, window=SMOOTHING,
        )  # fmt: skip

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The parts that changed, each with its version, and when to ask again.

        Args:
            asked: ``model``; ``picked`` (run id -> whether a reader wants it drawn); ``sections``;
                ``browser``, as the browser of responses asks, or nothing where it is closed;
                ``have``: part -> the version that the page has; ``point``, an arm and a step of
                which it wants to know where responses are stored.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: nothing that the page asks.
        """
        self._asked_at = time.monotonic()
        self._look()
        models = list(self.board.sizes)
        model = asked.get("model")
        model = model if model in models else self.board.newest_model()
        rows, lines = self._table(model)
        picked = dict(asked.get("picked") or {})
        chosen = [one["id"] for one in rows if picked.get(one["id"], one["id"] in self._first)]
        sections = [name for name in SECTIONS if name in (asked.get("sections") or ())]
        parts: dict[str, Any] = {
            "status": self._status(lines, model),
            "models": {"all": models, "chosen": model},
            "rows": {"rows": rows, "chosen": chosen},
        }
        drawing = self._drawing(model, chosen, sections)
        parts |= {"arms": drawing.arms}
        parts |= {"sections": drawing.sections}
        parts |= {f"figure {name}": spec for name, spec in drawing.figures.items()}
        if browser := asked.get("browser"):
            named: Named = self.board.named(model)
            data, texts = self.responses.answer(browser, named)
            parts |= {"texts": texts, "data": data}
        found = {"parts": _newer(parts, asked.get("have") or {}), "rest_s": max(REST_S, self._rest)}
        if point := asked.get("point"):
            arm, step = str(point["arm"]), float(point["step"])
            found["point"] = self.board.stored_nearest(model, arm, step, chosen)
        return found

    def idle_s(self) -> float:
        """Seconds since anybody asked."""
        return time.monotonic() - self._asked_at

    def _look(self) -> None:
        """Read what is new, unless somebody just did."""
        if time.monotonic() - self._looked_at < max(REST_S, self._rest) / 2:
            return
        began = time.thread_time()
        self._changes += self.store.poll()
        self._tables.clear()
        for model in self.board.sizes:
            self._table(model)
        self._looked_at = time.monotonic()
        self._rest = min(LONGEST_REST_S, (time.thread_time() - began) / SHARE)

    def _table(self, model: str | None) -> tuple[list[dict[str, Any]], list[Progress]]:
        if model not in self._tables:
            self._tables[model] = self.board.rows(model)
            self._first += self.board.newly_drawn(self._tables[model][0])
        return self._tables[model]

    def _status(self, lines: Sequence[Progress], model: str | None) -> dict[str, str]:
        if not lines:
            return {"state": "No runs yet", "totals": f"waiting for {self.root}", "ahead": ""}
        leading = ahead(self.board.arms(model))
        return {"state": summary(lines), "totals": totals(lines), "ahead": leading}

    def _drawing(
        self, model: str | None, chosen: Sequence[str], sections: Sequence[str]
    ) -> _Drawing:
        """The figures of a choice, drawn anew where lines came and drawing is due."""
        key = model, tuple(chosen), tuple(sections)
        kept = self._drawings.pop(key, None)
        if kept is not None:
            wait = min(LONGEST_UNDRAWN_S, kept.cost / SHARE)
            if kept.seen == self._changes or time.monotonic() - kept.at < wait:
                self._drawings[key] = kept
                return kept
        began = time.thread_time()
        seen = self._changes
        # Arms without a chosen run stay, so that colours stay theirs.
        arms = {
            arm: [run for run in runs if run.run_id in chosen]
            for arm, runs in self.board.arms(model).items()
        }
        styles = arm_styles(arms)
        shown = {arm: styles[arm] for arm, runs in arms.items() if runs}
        macros: Any = environment().get_template("watch_parts.html").module
        figures: dict[str, Any] = {}
        html: dict[str, str] = {}
        for section in sections:
            panels = []
            for kind in (kind for kind in PANELS.values() if kind.section == section):
                plots, _, lacks = drawn(kind, arms, SMOOTHING)
                panels.append((kind.title, plots, left_out(plots) if plots else lacks))
                figures |= {plot.id: figure_spec(plot.figure) for plot in plots}
            html[section] = str(macros.section(section, panels, set(shown)))
        made = _Drawing(str(macros.toggles(shown)), html, figures, 0.0, 0.0, seen)
        made.at = time.monotonic()
        if kept is not None:  # the first time costs more than what follows
            made.cost = time.thread_time() - began
        while len(self._drawings) >= _MOST_DRAWN:
            del self._drawings[next(iter(self._drawings))]
        self._drawings[key] = made
        return made


def _newer(parts: Mapping[str, Any], have: Mapping[str, str]) -> dict[str, Any]:
    """The parts that differ from what the page has; None for figures that are no more."""
    found: dict[str, Any] = {}
    for name, value in parts.items():
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        if (version := digest([text])) != have.get(name):
            found[name] = {"version": version, "is": value}
    gone = [name for name in have if name.startswith("figure ") and name not in parts]
    return {**found, **dict.fromkeys(gone)}
