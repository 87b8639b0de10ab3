"""Everything that the notebook on the code evaluator needs, measured or reused in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcbench.experiments.experiments import planned_runs, run_experiment
from mcbench.experiments.labelled import SuiteRecord, judge_suite
from mcbench.runs.store import RunRecord, RunStore, read_run

SUITE_FILE = "labelled_suite.json"
"""The labelled suite's record, beside the runs'."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """The labelled suite under each judge, the runs under both sets of rules, the timed runs."""

    suite: SuiteRecord
    trained: tuple[RunRecord, ...]
    timed: tuple[RunRecord, ...]


def run_code_evaluator(
    profile: str = "nano",
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    runs_dir: str | Path = "runs",
    workers: int = 1,
    fresh: bool = False,
    judges: Sequence[str] | None = None,
    suite_limit: int | None = None,
    timing_seeds: Sequence[int] = (),
    progress: Say | None = None,
) -> Measured:
    """Judge the suite, train what is missing of ``code_evaluator``, and collect the times.

    Args:
        seeds, steps, workers, fresh: as for :func:`mcbench.experiments.experiments.run_experiment`.
        judges, suite_limit: as for :func:`mcbench.experiments.labelled.judge_suite`.
        timing_seeds: seeds of ``evaluator_timing`` to run now, one run after another; those that
            finished before under ``runs_dir`` are collected in any case.

    Raises:
        UserError: as those functions.
    """
    from mcbench.runs.recorder import say

    progress = progress or say
    folder = Path(runs_dir)
    planned_runs("code_evaluator", profile, seeds, steps)  # refuses before anything is run
    suite = judge_suite(judges, folder / SUITE_FILE, suite_limit, progress=progress)
    runs = run_experiment(
        "code_evaluator", profile, seeds, steps, None, str(folder), progress, workers, fresh
    )
    if timing_seeds:
        run_experiment(
            "evaluator_timing", profile, timing_seeds, None, None, str(folder), progress, 1, fresh
        )
    return Measured(
        suite, tuple(read_run(run.path) for run in runs), _finished_times(profile, folder)
    )


def _finished_times(profile: str, folder: Path) -> tuple[RunRecord, ...]:
    store = RunStore(folder)
    runs = [store.run(planned.config) for planned in planned_runs("evaluator_timing", profile)]
    return tuple(read_run(run.path) for run in runs if run.state == "finished")
