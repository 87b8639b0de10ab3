"""A folder of runs as a live page follows it, in a browser or in a notebook's frame.

A page that a server serves asks again and again and names the version that it has of each part; it
is sent what is newer. One in a notebook's frame is sent what its kernel finds
(:mod:`mcbench.report.dashboard.dashboard`). Nothing is remembered of a page, so that a reload, or
many of them, change nothing. Only what was appended to the files is read, and all pages share it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.files import digest, write_json
from mcbench.report.base import SMOOTHING
from mcbench.report.dashboard.board import FIRST_SECTIONS, Board, Seen, ahead
from mcbench.report.dashboard.follower import Planned, RunFollower, StoreFollower
from mcbench.report.dashboard.progress import summary, totals
from mcbench.report.dashboard.sample_browser import Responses
from mcbench.report.encode import figure_spec
from mcbench.report.panels import PANELS, SECTIONS, drawn, left_out
from mcbench.report.rendering import environment, plotly_script, render
from mcbench.report.style import arm_styles
from mcbench.runs.config import Config

# Looking and drawing may each take this share of a processor: both, and what is beside them, stay
# below one percent. Nobody waits longer than this for the table after a step, or for the figures.
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


_Choice = tuple[str | None, tuple[str, ...], tuple[str, ...]]
"""Model, the ids of the runs that are drawn, and sections."""
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


def _read_view(path: Path) -> tuple[Path, Planned | None, list[Path]]:
    """The folder of runs, the runs and the records of a view's file, or a folder alone."""
    if not path.is_file():
        return path, None, []
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
        planned: the runs to follow, begun or not; those of the view, else all of the folder, where
            None.
        records: folders of compact records that stand in for planned runs not in the folder.

    Raises:
        UserError: it is another file.
    """

    def __init__(
        self, runs: Path, planned: Planned | None = None, records: Sequence[Path] = ()
    ) -> None:
        if planned is None or runs.is_file():
            runs, planned, records = _read_view(runs)
        self.root = runs
        self.store = StoreFollower(runs, planned, records)
        self._asked_at = time.monotonic()
        self.board = Board(self.store)
        self.responses = Responses()
        self.rest_s = REST_S  # until the next look is due
        self._looked_at, self._changes = -math.inf, 0
        self._drawings: dict[_Choice, _Drawing] = {}

    def page(self, framed: bool = False) -> str:
        """The page, without anything of the runs yet.

        Args:
            framed: for a frame in a notebook; all scripts are in it, and less of a head.
        """
        return render(
            "watch.html", title=f"Runs in {self.root}", samples="live", sections=SECTIONS,
            first=FIRST_SECTIONS, window=SMOOTHING, plotly=plotly_script() if framed else None,
        )  # fmt: skip

    def parts(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What a page shows, by name, of the runs as they were seen last.

        Args:
            asked: ``model``; ``picked`` (run id -> whether a reader wants it drawn); ``sections``;
                ``browser``, as the browser of responses asks, and ``open``, whether it is.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: nothing that the page asks.
        """
        model, seen, chosen = self._chosen(asked)
        sections = [name for name in SECTIONS if name in (asked.get("sections") or ())]
        drawing = self._drawing((model, tuple(chosen), tuple(sections)), seen.arms)
        parts: dict[str, Any] = {
            "status": self._status(seen),
            "models": {"all": list(self.board.sizes), "chosen": model},
            "rows": {"rows": seen.rows, "chosen": chosen},
            "arms": drawing.arms,
            "sections": drawing.sections,
            "figures": drawing.figures,
        }
        if asked.get("open"):
            parts["data"], parts["texts"] = self.responses.answer(asked["browser"], seen.named)
        return parts

    def stored_at(self, point: Mapping[str, Any], asked: Mapping[str, Any]) -> Any:
        """Run and step of the responses stored nearest to a point: an arm and a step."""
        _, seen, chosen = self._chosen(asked)
        if point.get("arm") is None:  # of a figure that is of no arm
            return None
        return seen.stored_nearest(str(point["arm"]), float(point["step"]), chosen)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The parts that changed, each with its version, and when to ask again.

        Args:
            asked: as for :meth:`parts`; ``have``: part -> the version that the page has; ``point``,
                of which it wants to know where responses are stored.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: nothing that the page asks.
        """
        self._asked_at = time.monotonic()
        if time.monotonic() - self._looked_at >= self.rest_s / 2:  # else somebody just did
            self.look()
        parts = self.parts(asked)
        figures = parts.pop("figures")
        parts |= {f"figure {name}": spec for name, spec in figures.items()}
        found = {"parts": _newer(parts, asked.get("have") or {}), "rest_s": self.rest_s}
        if point := asked.get("point"):
            found["point"] = self.stored_at(point, asked)
        return found

    def idle_s(self) -> float:
        """Seconds since anybody asked."""
        return time.monotonic() - self._asked_at

    def look(self) -> None:
        """Read what is new."""
        began = time.thread_time()
        self._changes += self.board.look()
        self._looked_at = time.monotonic()
        cost = time.thread_time() - began
        self.rest_s = min(LONGEST_REST_S, max(REST_S, cost / SHARE))

    def _chosen(self, asked: Mapping[str, Any]) -> tuple[str | None, Seen, list[str]]:
        """The model that is shown, its runs, and the ids of those that are drawn."""
        model = asked.get("model")
        model = model if model in self.board.sizes else self.board.newest_model()
        seen = self.board.sizes.get(model or "", Seen({}, [], []))
        picked = dict(asked.get("picked") or {})
        ids = [one["id"] for one in seen.rows]
        return model, seen, [one for one in ids if picked.get(one, one in self.board.first)]

    def _status(self, seen: Seen) -> dict[str, str]:
        if not seen.lines:
            return {"state": "No runs yet", "totals": f"waiting for {self.root}", "ahead": ""}
        told = {"state": summary(seen.lines), "totals": totals(seen.lines)}
        return {**told, "ahead": ahead(seen.arms)}

    def _drawing(self, key: _Choice, arms: Mapping[str, Sequence[RunFollower]]) -> _Drawing:
        """The figures of a choice, drawn anew where lines came and drawing is due."""
        _, chosen, sections = key
        kept = self._drawings.pop(key, None)
        if kept is not None:
            wait = min(LONGEST_UNDRAWN_S, kept.cost / SHARE)
            if kept.seen == self._changes or time.monotonic() - kept.at < wait:
                self._drawings[key] = kept
                return kept
        began = time.thread_time()
        # Arms without a chosen run stay, so that colours stay theirs.
        arms = {arm: [run for run in runs if run.run_id in chosen] for arm, runs in arms.items()}
        shown = {arm: style for arm, style in arm_styles(arms).items() if arms[arm]}
        macros: Any = environment().get_template("watch_parts.html").module
        figures: dict[str, Any] = {}
        html: dict[str, str] = {}
        for section in sections:
            panels = []
            for kind in (kind for kind in PANELS.values() if kind.section == section):
                plots, _, lacks = drawn(kind, arms)
                panels.append((kind.title, plots, left_out(plots) if plots else lacks))
                figures |= {plot.id: figure_spec(plot.figure) for plot in plots}
            html[section] = str(macros.section(section, panels, set(shown)))
        toggles = str(macros.toggles(shown))
        # The first time costs more than what follows.
        cost = 0.0 if kept is None else time.thread_time() - began
        made = _Drawing(toggles, html, figures, time.monotonic(), cost, self._changes)
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
