"""The table of runs: how far each is, and which are drawn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from mcbench.report.dashboard.progress import Progress, span, speed
from mcbench.report.style import ArmStyle

ASSETS = Path(__file__).parent / "assets"


class RunList(anywidget.AnyWidget):
    """``rows`` are shown; ``chosen`` are the ids of those that are ticked."""

    _esm = (ASSETS / "run_list.js").read_text(encoding="utf-8")
    _css = (ASSETS / "dashboard.css").read_text(encoding="utf-8")
    rows: Any = traitlets.List().tag(sync=True)
    chosen = traitlets.List(traitlets.Unicode()).tag(sync=True)


def row(run_id: str, name: str, arm: str, style: ArmStyle, progress: Progress) -> dict[str, Any]:
    """One line of the table; everything in it is shown as text."""
    return {
        "id": run_id,
        "name": name,
        "arm": arm,
        "color": style.color,
        "dash": style.dash,
        "state": progress.state,
        "note": progress.note,
        "step": progress.step,
        "steps": progress.steps,
        "share": round(progress.share, 4),
        "count": f"{progress.step}/{progress.steps}" if progress.steps else "",
        "speed": speed(progress.rate) if progress.rate and progress.state == "running" else "",
        "left": span(progress.left_s) if progress.left_s is not None else "",
        "reward": percent(progress.reward),
        "accuracy": percent(progress.accuracy),
    }


def percent(share: float | None) -> str:
    """``38.3 %``, or nothing."""
    return "" if share is None else f"{100 * share:.1f} %"


def totals(rows: Iterable[Progress]) -> str:
    """All runs together: updates made and planned, and when the last one ends at this speed."""
    rows = [row for row in rows if row.steps]
    done, planned = sum(row.step for row in rows), sum(row.steps for row in rows)
    left = max((row.left_s for row in rows if row.left_s is not None), default=None)
    rate = sum(row.rate for row in rows if row.rate and row.state == "running")
    parts = [f"step {done:,} of {planned:,}"] if planned else []
    parts += [speed(rate)] if rate else []
    parts += [f"{span(left)} left for the runs under way"] if left is not None else []
    return " · ".join(parts)
