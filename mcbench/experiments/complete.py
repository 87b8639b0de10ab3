"""All that the committed pages rest on: which of it is missing, and making exactly that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcbench.claims.measurements import FILE, REPETITION, SUITE_FILE, read_measurements
from mcbench.experiments.arms import TIMING
from mcbench.experiments.experiments import EXPERIMENTS, PlannedRun, planned_together
from mcbench.experiments.graded_sets import DATA_FILE, data_record
from mcbench.experiments.labelled import judge_suite
from mcbench.experiments.match import largest, scopes
from mcbench.experiments.plan import Plan, make_plan
from mcbench.experiments.repetition import measure_repetition
from mcbench.experiments.temperature_grid import (
    TEMPERATURES,
    grid_checkpoints,
    measure_grid,
    missing_of_grid,
)
from mcbench.experiments.training import train_missing
from mcbench.runs.compact import read_compact
from mcbench.runs.say import Say, say
from mcbench.runs.store import RunRecord, RunStore, read_run

POOL_SEEDS = (0, 1, 2, 3, 4)  # of planting defects in the noisy pool
MASK = "truncation_mask"


@dataclass(frozen=True)
class Missing:
    """What a folder of records lacks: runs, and names of measurements."""

    plan: Plan
    measurements: tuple[str, ...]


def all_runs(experiments: Sequence[str] | None = None) -> list[PlannedRun]:
    """The runs of the whole set; those that measure times come last.

    Raises:
        UserError: an unknown experiment.
    """
    names = _names(experiments)
    return planned_together(sorted(names, key=lambda name: name == TIMING))


def _names(experiments: Sequence[str] | None) -> list[str]:
    """Of all experiments, where None, those that the pages have records of."""
    if experiments is not None:
        return list(experiments)
    return [name for name, one in EXPERIMENTS.items() if one.recorded]


def missing_of(
    records: str | Path, runs_dir: str | Path = "runs", experiments: Sequence[str] | None = None
) -> Missing:
    """Look up what is missing, and do nothing.

    Args:
        records: the folder of compact records and measurements.
        experiments: all where None.

    Raises:
        UserError: an unknown experiment, or a record that cannot be read.
    """
    folder, store = Path(records), RunStore(runs_dir)
    plan = make_plan(all_runs(experiments), store, [folder])
    # A finished run is no record yet: `plan` counts it as finished, and its record is written.
    names = _names(experiments)
    rows = read_measurements(folder / FILE)
    lacking = []
    if "code_evaluator" in names and not (folder / SUITE_FILE).exists():
        lacking.append("the labelled suite under each judge")
    if "data_quality" in names and not (folder / DATA_FILE).exists():
        lacking.append("the pipeline on the noisy pool")
    if "temperature" in names and (left := missing_of_grid(grid_checkpoints(), rows)):
        count = sum(len(wanted) for _, wanted in left)
        lacking.append(f"{count} evaluations of {len(left)} checkpoints over temperature")
    if MASK in names and (runs := _uncounted(folder, store, rows)):
        lacking.append(f"repetition in {len(runs)} runs")
    return Missing(plan, tuple(lacking))


def complete(
    records: str | Path,
    runs_dir: str | Path = "runs",
    workers: int = 1,
    progress: Say | None = None,
    experiments: Sequence[str] | None = None,
) -> None:
    """Train exactly the runs whose records are missing, and measure what is missing beside them.

    Interrupted at any point, the same call goes on from there: runs resume, records and
    measurements are kept as they are made.

    Args:
        records: as for :func:`missing_of`; gets the new records.
        workers: runs side by side; those that measure times are trained in turn.

    Raises:
        UserError: as :func:`missing_of`, or a run failed.
    """
    progress = progress or say
    folder = Path(records)
    names = _names(experiments)
    for title, group, count in (
        ("all experiments", [name for name in names if name != TIMING], workers),
        (TIMING, [name for name in names if name == TIMING], 1),
    ):
        if group:
            train_missing(title, planned_together(group), runs_dir, progress, count, keep=folder)
    _measure(folder, Path(runs_dir), workers, progress, names)


def _measure(folder: Path, runs_dir: Path, workers: int, progress: Say, names: list[str]) -> None:
    if "code_evaluator" in names and not (folder / SUITE_FILE).exists():
        judge_suite(None, folder / SUITE_FILE, progress=progress)
    if "data_quality" in names and not (folder / DATA_FILE).exists():
        work = runs_dir / "data_quality"
        data_record(work, None, progress, workers, POOL_SEEDS).write(folder / DATA_FILE)
    if "temperature" in names:
        measure_grid(
            folder, runs_dir=runs_dir, temperatures=TEMPERATURES, workers=workers, progress=progress
        )
    if MASK in names:
        rows = read_measurements(folder / FILE)
        measure_repetition(_uncounted(folder, RunStore(runs_dir), rows), folder, MASK, progress)


def _uncounted(folder: Path, store: RunStore, rows: Sequence[Any]) -> list[RunRecord]:
    """Runs of the mask's arms that have all their responses here and were not counted."""
    done = {row["run_id"] for row in rows if row["kind"] == REPETITION}
    kept = [read_compact(path) for path in sorted(folder.glob("*.parquet"))]
    found = largest(scopes(EXPERIMENTS[MASK].arms, kept))
    arms = found[1] if found else {}
    ids = {record.run_id for runs in arms.values() for record in runs.values()} - done
    done_runs = [
        read_run(one.path) for one in store if one.run_id in ids and one.state == "finished"
    ]
    return [record for record in done_runs if record.has_all_responses]
