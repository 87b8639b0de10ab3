"""One experiment as a notebook or page needs it: its runs by arm, verdicts, the answer of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.claims import INSIGHTS, QUESTIONS, Answer, Verdict
from mcbench.claims.questions import GENERATIONS
from mcbench.claims.selection import GENERATIONS as PROFILES_OF
from mcbench.claims.selection import Records, runs_of
from mcbench.claims.verdict import assess_family
from mcbench.errors import UserError, unknown
from mcbench.experiments.experiments import (
    PlannedRun,
    experiment_named,
    planned_runs,
    run_experiment,
)
from mcbench.experiments.repetition import measure_repetition
from mcbench.experiments.temperature_grid import measure_grid
from mcbench.runs.store import RunStore, read_run

if TYPE_CHECKING:
    from mcbench.runs.store import RunRecord

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
            :func:`mcbench.experiments.experiments.run_experiment`; several profiles for
            ``cross_model`` only.
        temperatures: of the checkpoints of the ``temperature`` experiment; none: not measured now.

    Raises:
        UserError: as that function, or a profile of no model generation or several sizes.
    """
    from mcbench.runs.recorder import say

    progress = progress or say
    folder = Path(runs_dir)
    scale = profile if isinstance(profile, str) else experiment_named(experiment).profiles[0]
    if experiment == "cross_model":
        sizes = [profile] if isinstance(profile, str) else profile or ()
        known = [name for names in PROFILES_OF.values() for name in names]
        for size in sizes:
            if size not in known:
                raise unknown("profile of a model generation", size, known)
    elif profile is not None and not isinstance(profile, str):
        raise UserError(f"{experiment} is studied at one profile at a time, got {list(profile)}")
    runs = run_experiment(
        experiment, profile, seeds, steps, arms, str(folder), progress, workers, fresh, changes
    )
    records = [read_run(run.path) for run in runs]
    measurements: list[Any] = []
    if experiment == "truncation_mask":
        measurements = measure_repetition(records, folder, experiment, progress)
    if experiment == "temperature" and temperatures:
        measurements = measure_grid(
            folder, scale, seeds, steps, folder, temperatures, workers, progress, changes
        )
    # By the arm that each was trained for: with the user's changes they are not as defined.
    scope: dict[str, Any] = {"seeds": seeds, "steps": steps, "changes": changes}
    by_arm = _by_arm(experiment, profile, arms, scope, records)
    for home, arm in _elsewhere(experiment):
        plan = planned_runs(home, profile, arms=[arm], **scope)
        by_arm[f"{home}/{arm}"] = _finished(plan, folder)
    return study_of(experiment, by_arm, measurements)


def _by_arm(
    experiment: str,
    profile: str | Sequence[str] | None,
    arms: Sequence[str] | None,
    scope: Mapping[str, Any],
    records: Sequence[RunRecord],
) -> dict[str, list[RunRecord]]:
    """The records of each of :func:`shown_arms`; ``scope``: what else the runs are planned by."""
    found = {record.run_id: record for record in records}
    wanted = {arm: (arm, profile) for arm in arms or experiment_named(experiment).arms}
    if experiment == "cross_model":
        sizes = [profile] if isinstance(profile, str) else profile
        sizes = sizes or experiment_named(experiment).profiles
        wanted = {
            arm: (arm.partition("@")[0], [size for size in sizes if size in profiles])
            for arm, profiles in zip(GENERATIONS, PROFILES_OF.values(), strict=True)
        }
    return {
        name: [
            found[planned.config.run_id]
            for planned in planned_runs(experiment, size, arms=[arm], **scope)
        ]
        for name, (arm, size) in wanted.items()
        if size != []
    }


def _elsewhere(experiment: str) -> list[tuple[str, str]]:
    """Experiment and arm of what questions on this experiment take from others."""
    arms = [arm for one in QUESTIONS.values() if one.experiment == experiment for arm in one.arms]
    return [(home, name) for arm in arms for home, slash, name in [arm.partition("/")] if slash]


def _finished(plan: Sequence[PlannedRun], folder: str | Path) -> list[RunRecord]:
    runs = [RunStore(folder).run(planned.config) for planned in plan]
    return [read_run(run.path) for run in runs if run.state == "finished"]


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
    return [
        record
        for home, arm in _elsewhere(experiment)
        for record in _finished(planned_runs(home, profile, seeds, steps, [arm], changes), folder)
    ]
