"""What some experiments measure beside their runs, named in ``measures``: what of it is missing,
and how it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mcbench.claims.measurements import FILE, REPETITION, SUITE_FILE, read_measurements
from mcbench.experiments.experiments import planned_runs
from mcbench.experiments.labelled import judge_suite
from mcbench.experiments.repetition import MASK, measure_repetition
from mcbench.experiments.temperature_grid import grid_checkpoints, measure_grid, missing_of_grid
from mcbench.runs.records import finished_records
from mcbench.runs.say import say

Missing = tuple[str, Callable[[], Any]] | None
"""What is missing in words, and what makes it."""


def _suite(folder: Path, runs_dir: Path, workers: int) -> Missing:
    if (path := folder / SUITE_FILE).exists():
        return None
    return "the labelled suite under each judge", partial(judge_suite, None, path, progress=say)


def _grid(folder: Path, runs_dir: Path, workers: int) -> Missing:
    left = missing_of_grid(grid_checkpoints(), read_measurements(folder / FILE))
    if not left:
        return None
    count = sum(len(wanted) for _, wanted in left)
    return (
        f"{count} evaluations of {len(left)} checkpoints over temperature",
        partial(measure_grid, folder, runs_dir=runs_dir, workers=workers, progress=say),
    )


def _repetition(folder: Path, runs_dir: Path, workers: int) -> Missing:
    """Of the recorded runs that have all their responses here."""
    done = {r["run_id"] for r in read_measurements(folder / FILE) if r["kind"] == REPETITION}
    kept = {path.stem for path in folder.glob("*.parquet")} - done
    kept &= {one.config.run_id for one in planned_runs(MASK)}
    runs = [
        one for one in finished_records(runs_dir) if one.run_id in kept and one.has_all_responses
    ]
    if not runs:
        return None
    return f"repetition in {len(runs)} runs", partial(measure_repetition, runs, folder, say)


EXTRAS: Mapping[str, Callable[[Path, Path, int], Missing]] = {
    "suite": _suite,
    "temperature_grid": _grid,
    "repetition": _repetition,
}
"""By the names that experiments give them; each is asked with a folder of records, the run folder
and the number of workers.
"""
