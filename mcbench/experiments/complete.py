"""The runs that the committed pages rest on: which are missing, and training exactly those.

What is measured beside runs, or needs an idle machine, is made by the scripts in ``benchmarks/``.
"""

from __future__ import annotations

from pathlib import Path

from mcbench.experiments.experiments import EXPERIMENTS, PlannedRun, planned_together
from mcbench.experiments.plan import Plan, make_plan
from mcbench.experiments.training import train_missing
from mcbench.runs.say import say
from mcbench.runs.store import RunStore


def planned_of_all() -> list[PlannedRun]:
    """The runs of all experiments but those that measure times."""
    return planned_together([name for name, one in EXPERIMENTS.items() if not one.alone])


def missing_of(records: str | Path, runs_dir: str | Path = "runs") -> Plan:
    """Look up what a folder of compact records lacks, and do nothing.

    Raises:
        UserError: a record that cannot be read.
    """
    # A finished run is no record yet: `plan` counts it as finished, and its record is written.
    return make_plan(planned_of_all(), RunStore(runs_dir), [Path(records)])


def complete(records: str | Path, runs_dir: str | Path = "runs", workers: int = 1) -> None:
    """Train exactly the runs whose records are missing.

    Interrupted at any point, the same call goes on from there: runs resume, and records are kept as
    they are made.

    Args:
        records: as for :func:`missing_of`; gets the new records.
        workers: runs side by side.

    Raises:
        UserError: as :func:`missing_of`, or a run failed.
    """
    folder = Path(records)
    train_missing("all experiments", planned_of_all(), runs_dir, say, workers, keep=folder)
