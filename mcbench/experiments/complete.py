"""All that the committed pages rest on: which of it is missing, and making exactly that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcbench.experiments.experiments import EXPERIMENTS, planned_together
from mcbench.experiments.extras import EXTRAS
from mcbench.experiments.plan import Plan, make_plan
from mcbench.experiments.training import train_missing
from mcbench.runs.say import say
from mcbench.runs.store import RunStore


@dataclass(frozen=True)
class Missing:
    """What a folder of records lacks: runs, and names of measurements."""

    plan: Plan
    measurements: tuple[str, ...]


def missing_of(records: str | Path, runs_dir: str | Path = "runs") -> Missing:
    """Look up what is missing, and do nothing.

    Args:
        records: the folder of compact records and measurements.

    Raises:
        UserError: a record that cannot be read.
    """
    folder = Path(records)
    # A finished run is no record yet: `plan` counts it as finished, and its record is written.
    names = sorted(EXPERIMENTS, key=lambda name: EXPERIMENTS[name].alone)  # these are trained last
    plan = make_plan(planned_together(names), RunStore(runs_dir), [folder])
    lacking = _lacking(folder, Path(runs_dir), 1)
    return Missing(plan, tuple(told for told, _ in lacking))


def complete(records: str | Path, runs_dir: str | Path = "runs", workers: int = 1) -> None:
    """Train exactly the runs whose records are missing, and measure what is missing beside them.

    Interrupted at any point, the same call goes on from there: runs resume, records and
    measurements are kept as they are made.

    Args:
        records: as for :func:`missing_of`; gets the new records.
        workers: runs side by side; those that measure times are trained in turn.

    Raises:
        UserError: as :func:`missing_of`, or a run failed.
    """
    folder = Path(records)
    for alone, title in ((False, "all experiments"), (True, "experiments that measure times")):
        group = [name for name, one in EXPERIMENTS.items() if one.alone == alone]
        if group:
            count = 1 if alone else workers
            train_missing(title, planned_together(group), runs_dir, say, count, keep=folder)
    for _, measure in _lacking(folder, Path(runs_dir), workers):
        measure()


def _lacking(folder: Path, runs_dir: Path, workers: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is missing beside the runs: in words, and what measures it."""
    for name in dict.fromkeys(name for one in EXPERIMENTS.values() for name in one.measures):
        if (missing := EXTRAS[name](folder, runs_dir, workers)) is not None:
            yield missing
