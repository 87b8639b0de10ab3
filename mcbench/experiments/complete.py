"""All that the committed pages rest on: which of it is missing, and making exactly that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcbench.claims.measurements import FILE, REPETITION, SUITE_FILE, read_measurements
from mcbench.experiments.arms import TIMING
from mcbench.experiments.experiments import EXPERIMENTS, planned_together
from mcbench.experiments.graded_sets import DATA_FILE, data_record
from mcbench.experiments.labelled import judge_suite
from mcbench.experiments.match import largest, scopes
from mcbench.experiments.plan import Plan, make_plan
from mcbench.experiments.repetition import MASK, measure_repetition
from mcbench.experiments.temperature_grid import grid_checkpoints, measure_grid, missing_of_grid
from mcbench.experiments.training import train_missing
from mcbench.runs.records import finished_records
from mcbench.runs.say import say
from mcbench.runs.store import RunRecord, RunStore

POOL_SEEDS = (0, 1, 2, 3, 4)  # of planting defects in the noisy pool


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
    names = sorted(EXPERIMENTS, key=lambda name: name == TIMING)  # it is trained last
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
    for title, group, count in (
        ("all experiments", [name for name in EXPERIMENTS if name != TIMING], workers),
        (TIMING, [name for name in EXPERIMENTS if name == TIMING], 1),
    ):
        if group:
            train_missing(title, planned_together(group), runs_dir, say, count, keep=folder)
    for _, measure in _lacking(folder, Path(runs_dir), workers):
        measure()


def _lacking(folder: Path, runs_dir: Path, workers: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is missing beside the runs: in words, and what measures it."""
    if "code_evaluator" in EXPERIMENTS and not (suite := folder / SUITE_FILE).exists():
        yield (
            "the labelled suite under each judge",
            partial(judge_suite, None, suite, progress=say),
        )
    if "data_quality" in EXPERIMENTS and not (kept := folder / DATA_FILE).exists():
        work = runs_dir / "data_quality"
        yield (
            "the pipeline on the noisy pool",
            lambda: data_record(work, None, say, workers, POOL_SEEDS).write(kept),
        )
    rows = read_measurements(folder / FILE)
    if "temperature" in EXPERIMENTS and (left := missing_of_grid(grid_checkpoints(), rows)):
        count = sum(len(wanted) for _, wanted in left)
        yield (
            f"{count} evaluations of {len(left)} checkpoints over temperature",
            partial(measure_grid, folder, runs_dir=runs_dir, workers=workers, progress=say),
        )
    if MASK in EXPERIMENTS and (runs := _uncounted(folder, runs_dir, rows)):
        yield (
            f"repetition in {len(runs)} runs",
            partial(measure_repetition, runs, folder, say),
        )


def _uncounted(folder: Path, runs_dir: Path, rows: Sequence[Any]) -> list[RunRecord]:
    """Runs of the mask's arms that have all their responses here and were not counted."""
    done = {row["run_id"] for row in rows if row["kind"] == REPETITION}
    found = largest(scopes(EXPERIMENTS[MASK].arms, list(finished_records(folder))))
    arms = found[1] if found else {}
    ids = {record.run_id for runs in arms.values() for record in runs.values()} - done
    return [
        one for one in finished_records(runs_dir) if one.run_id in ids and one.has_all_responses
    ]
