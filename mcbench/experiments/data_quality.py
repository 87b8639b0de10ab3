"""Everything that the notebook on data quality needs, measured or reused in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcbench.experiments.experiments import planned_runs, run_experiment
from mcbench.experiments.graded_sets import DataRecord, data_record
from mcbench.runs.store import RunRecord, read_run

DATA_FILE = "data_quality.json"
"""The pipeline's record, beside the runs'."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """What the pipeline did, and the runs on both sets."""

    data: DataRecord
    trained: tuple[RunRecord, ...]


def run_data_quality(
    profile: str = "nano",
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    runs_dir: str | Path = "runs",
    workers: int = 1,
    fresh: bool = False,
    pool_size: int | None = None,
    pool_seeds: Sequence[int] = (0,),
    progress: Say | None = None,
) -> Measured:
    """Run the noisy pool through the pipeline and train what is missing of ``data_quality``.

    Args:
        seeds, steps, workers, fresh: as for :func:`mcbench.experiments.experiments.run_experiment`.
        pool_size: of the pool's problems; all where None. Runs train on the committed sets in any
            case, which are those of the whole pool.
        pool_seeds: of the planting: precision and recall are measured for each.

    Raises:
        UserError: as that function, or a pool that is too small.
    """
    from mcbench.runs.recorder import say

    progress = progress or say
    folder = Path(runs_dir)
    planned_runs("data_quality", profile, seeds, steps)  # refuses before anything is run
    record = data_record(folder / "data_quality", pool_size, progress, workers, pool_seeds)
    record.write(folder / DATA_FILE)
    runs = run_experiment(
        "data_quality", profile, seeds, steps, None, str(folder), progress, workers, fresh
    )
    return Measured(record, tuple(read_run(run.path) for run in runs))
