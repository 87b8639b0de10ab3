"""One experiment as a notebook or page needs it: its runs by arm, verdicts, the answer of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.lab.experiments import experiment_named, planned_runs, run_experiment
from mcbench.lab.insights import INSIGHTS, QUESTIONS, Answer, Verdict
from mcbench.lab.insights.questions import GENERATIONS
from mcbench.lab.insights.selection import Records, runs_of
from mcbench.lab.insights.verdict import assess_family
from mcbench.lab.repetition import measure_repetition
from mcbench.lab.store import RunStore, read_run
from mcbench.lab.temperature_grid import measure_grid

if TYPE_CHECKING:
    from mcbench.lab.store import RunRecord

Say = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """What is known about an experiment.

    ``arms`` has the finished runs of each arm by seed, all of one setting; ``verdicts`` are on the
    paper's claims about it, ``answers`` to our questions, both by id.
    """

    experiment: str
    arms: Mapping[str, Sequence[RunRecord]]
    verdicts: Mapping[str, Verdict]
    answers: Mapping[str, Answer]
    measurements: Sequence[Mapping[str, Any]] = ()


def shown_arms(experiment: str) -> tuple[str, ...]:
    """The arms of an experiment as they are selected from records; models apart where they are
    what is compared.
    """
    return GENERATIONS if experiment == "cross_model" else tuple(experiment_named(experiment).arms)


def study_of(
    experiment: str, records: Records, measurements: Sequence[Mapping[str, Any]] = ()
) -> Study:
    """An experiment from records of any experiments.

    Raises:
        UserError: an unknown experiment.
    """
    found = runs_of(experiment, shown_arms(experiment), records)
    family = [one for one in INSIGHTS.values() if one.experiment == experiment]
    return Study(
        experiment,
        {arm: list(runs.values()) for arm, runs in found.items()},
        assess_family(family, records, measurements) if family else {},
        {
            one.id: one.answer(records, measurements)
            for one in QUESTIONS.values()
            if one.experiment == experiment
        },
        measurements,
    )


def run_study(
    experiment: str,
    profile: str | Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    arms: Sequence[str] | None = None,
    runs_dir: str | Path = "runs",
    workers: int = 1,
    fresh: bool = False,
    changes: Mapping[str, Any] | None = None,
    temperatures: Sequence[float] = (),
    progress: Say | None = None,
) -> Study:
    """Train what is missing of an experiment, measure what it needs beside its runs, and assess.

    Runs of other experiments that a question of ours needs count where they are finished.

    Args:
        profile, seeds, steps, arms, workers, fresh, changes: as for
            :func:`mcbench.lab.experiments.run_experiment`.
        temperatures: of the checkpoints of the ``temperature`` experiment; none: not measured now.

    Raises:
        UserError: as that function.
    """
    from mcbench.lab.recorder import say

    progress = progress or say
    folder = Path(runs_dir)
    runs = run_experiment(
        experiment, profile, seeds, steps, arms, str(folder), progress, workers, fresh, changes
    )
    records = [read_run(run.path) for run in runs]
    measurements: list[Any] = []
    if experiment == "truncation_mask":
        measurements = measure_repetition(records, folder, experiment, progress)
    if experiment == "temperature" and temperatures:
        scale = profile if isinstance(profile, str) else (profile or ["nano"])[0]
        measurements = measure_grid(
            folder, scale, seeds, steps, folder, temperatures, workers, progress, changes
        )
    records += finished_elsewhere(experiment, profile, seeds, steps, changes, folder)
    return study_of(experiment, records, measurements)


def finished_elsewhere(
    experiment: str,
    profile: str | Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    changes: Mapping[str, Any] | None = None,
    folder: str | Path = "runs",
) -> list[RunRecord]:
    """Finished runs of the arms that questions on an experiment take from others; arguments as for
    :func:`run_study`, ``folder`` holds the runs.
    """
    store = RunStore(folder)
    names = [
        arm.split("/")
        for one in QUESTIONS.values()
        if one.experiment == experiment
        for arm in one.arms
        if "/" in arm
    ]
    runs = [
        store.run(planned.config)
        for home, arm in names
        for planned in planned_runs(home, profile, seeds, steps, [arm], changes)
    ]
    return [read_run(run.path) for run in runs if run.state == "finished"]
