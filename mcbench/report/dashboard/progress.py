"""How far a run is: its state in words, its speed, the time it still needs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from mcbench.report.dashboard.follower import RunFollower
from mcbench.runs.alarm import WATCHED, WINDOW, exploded, warning

STATES = ("planned", "starting", "running", "interrupted", "failed", "finished", "deleted")
_WINDOW = 48  # updates from which the speed is taken; several generations, so that it is steady
_QUIET_S = 60.0


@dataclass(frozen=True)
class Progress:
    """One run's line.

    ``state`` is one of :data:`STATES`: ``planned`` has no run.json yet, ``starting`` no line,
    ``interrupted`` resumes with the same command. ``rate`` is in updates per second,
    ``left_s`` in seconds, ``reward`` and ``accuracy`` are shares; None where unknown.
    """

    state: str
    step: int
    steps: int
    rate: float | None = None
    left_s: float | None = None
    reward: float | None = None
    accuracy: float | None = None
    note: str = ""

    @property
    def share(self) -> float:
        """Of the planned updates that are made, 0 to 1."""
        return min(1.0, self.step / self.steps) if self.steps else 0.0


def progress_of(run: RunFollower, now: float | None = None) -> Progress:
    """The run as last polled; ``now`` in seconds since 1970."""
    now = time.time() if now is None else now
    step = int(run.step_columns.last("step") or 0)
    steps = run.config.steps if run.meta else 0
    if not run.present:
        state = "deleted" if run.was_there else "planned"
        note = "its folder is gone" if run.was_there else "not started yet"
        return Progress(state, step, steps, note=note)
    state = _state(run, step)
    rate = _rate(run) if state in ("running", "interrupted", "failed") else None
    left = (steps - step) / rate if rate and state == "running" else None
    return Progress(
        state,
        step,
        steps,
        rate,
        left,
        run.step_columns.last("reward"),
        next(reversed(run.accuracy.values()), None),
        _note(run, state, step, now),
    )


def _state(run: RunFollower, step: int) -> str:
    recorded = str(run.meta.get("state"))
    if recorded != "running":
        return recorded if recorded in STATES else "interrupted"
    if run.lock.owner() is None:
        return "interrupted"
    return "running" if step else "starting"


def _rate(run: RunFollower) -> float | None:
    """Updates per second over the last ones, evaluations between them included."""
    steps, seconds = run.step_columns.values("step"), run.step_columns.values("elapsed_s")
    steps, seconds = steps[-_WINDOW:], seconds[-_WINDOW:]
    if steps.size < 2 or not seconds[-1] > seconds[0]:
        return None
    return float((steps[-1] - steps[0]) / (seconds[-1] - seconds[0]))


def _note(run: RunFollower, state: str, step: int, now: float) -> str:
    notes = []
    if state == "failed":
        notes.append(str(run.meta.get("error") or "no reason recorded"))
    elif state == "interrupted":
        notes.append("the same command resumes it")
    elif state == "starting":
        notes.append("no step yet: loading, or measuring the base model")
    elif state == "running":
        quiet = now - (run.step_columns.last("time") or now)
        if quiet > max(_QUIET_S, 10 * (run.step_columns.last("step_time") or 0.0)):
            notes.append(f"no step for {span(quiet)}: evaluating, or stuck")
    if alarm := warning(islice(run.step_columns.newest("alarm/gap"), WINDOW)):
        notes.append(alarm)
    columns = run.step_columns
    logged = [name for name in WATCHED if columns.last(name) is not None]
    if alarm := exploded({name: columns.values(name) for name in logged}):
        notes.append(alarm)
    resumes = int(run.meta.get("resumes") or 0)
    if resumes and state not in ("failed", "interrupted"):
        notes.append("resumed" if resumes == 1 else f"resumed {resumes} times")
    if run.damaged:
        notes.append(run.damaged)
    return "; ".join(notes)


def span(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h 05 min``, ``2 d 4 h``."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def speed(rate: float) -> str:
    """Updates a second, or seconds an update where that reads better."""
    return f"{rate:.1f} steps/s" if rate >= 1 else f"{1 / rate:.1f} s/step"


def summary(lines: Sequence[Progress]) -> str:
    """``2 running, 1 finished, 1 failed``."""
    counts = Counter(line.state for line in lines)
    ordered = dict.fromkeys(("running", *STATES))
    return ", ".join(f"{counts[s]} {s}" for s in ordered if counts[s]) or "no runs yet"


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
