"""Experiments: arms and seeds, trained where missing and reused where finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.experiments.arms import ARMS, Arm
from mcbench.runs.config import Config, resolve
from mcbench.runs.profiles import profile_named
from mcbench.runs.store import Run, RunStore

Say = Callable[[str], None]


@dataclass(frozen=True)
class Experiment:
    """Arms by label, the profiles (sizes) they are trained at, and the seeds of the full run.

    ``ours`` names the arms that answer a question which the paper leaves open.
    """

    name: str
    title: str
    arms: Mapping[str, Arm]
    profiles: tuple[str, ...]
    seeds: tuple[int, ...]
    ours: tuple[str, ...] = ()


THREE, FIVE = (0, 1, 2), (0, 1, 2, 3, 4)


def _experiment(
    name: str,
    title: str,
    seeds: tuple[int, ...],
    profiles: tuple[str, ...] = ("nano",),
    ours: tuple[str, ...] = (),
) -> tuple[str, Experiment]:
    return name, Experiment(name, title, ARMS[name], profiles, seeds, ours)


EXPERIMENTS: dict[str, Experiment] = dict(
    (
        _experiment("cross_model", "Fig. 1: two model generations", THREE, ("nano-old", "nano")),
        _experiment(
            "truncation_mask",
            "Fig. 2: which truncated responses are masked",
            FIVE,
            ours=("when_correct", "when_non_incorrect"),
        ),
        _experiment(
            "temperature", "Fig. 3: constant, staged, ramped and chosen temperature", THREE
        ),
        _experiment(
            "kl_and_clip",
            "Fig. 4: KL term and upper clip",
            THREE,
            ours=("kl_high_clip", "no_kl_low_clip"),
        ),
        _experiment(
            "data_quality", "Fig. 5: training on a harder and on an easier set of equal size", FIVE
        ),
        _experiment(
            "code_evaluator",
            "Fig. 6: training under MicroCoder-Evaluator's rules and under LiveCodeBench's",
            FIVE,
        ),
        # One run after another on a machine that does nothing else.
        _experiment(
            "evaluator_timing", "Fig. 6, right: a training step with three evaluators", THREE
        ),
        _experiment(
            "results",
            "Fig. 7 and Table 1: three recipes, two model sizes",
            FIVE,
            ("nano", "nano-m"),
        ),
        _experiment("batch_size", "Fig. 8: problems a generation at one mini batch", THREE),
        _experiment(
            "context_length",
            "Fig. 9: maximum response length and its extension",
            THREE,
            ours=("short_masked",),
        ),
    )
)


@dataclass(frozen=True)
class PlannedRun:
    """A run of an experiment before it is trained."""

    label: str
    config: Config


def experiment_named(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UserError: an unknown name; the message lists the known ones.
    """
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def planned_runs(
    name: str,
    profile: str | Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    arms: Sequence[str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> list[PlannedRun]:
    """The runs of an experiment: seed by seed, so that the first seed of every arm comes first.

    Args:
        profile: one profile or several; the experiment's own where None. ``seeds`` and ``arms``
            likewise.
        changes: applied to every arm, for instance to shorten a trial.

    Raises:
        UserError: an unknown experiment, profile or arm, or changes that do not fit.
    """
    experiment = experiment_named(name)
    profiles = [profile] if isinstance(profile, str) else list(profile or experiment.profiles)
    labels = list(experiment.arms) if arms is None else list(arms)
    for label in labels:
        if label not in experiment.arms:
            raise unknown(f"arm of experiment {name!r}", label, experiment.arms)
    runs = []
    for seed in experiment.seeds if seeds is None else seeds:
        for size in profiles:
            for label in labels:
                config = _arm_config(size, experiment.arms[label], changes, seed, steps)
                text = label if len(profiles) == 1 else f"{size} {label}"
                runs.append(PlannedRun(f"{text} seed {seed}", config))
    if not runs:
        raise UserError("nothing to run: seeds, profiles and arms need at least one entry each")
    return runs


def _arm_config(
    size: str, arm: Arm, changes: Mapping[str, Any] | None, seed: int, steps: int | None
) -> Config:
    """The arm at a profile as the user changed it: an arm's shares are of the changed numbers."""
    changes = {**(changes or {}), **({} if steps is None else {"steps": steps})}
    profile = asdict(profile_named(size))
    scale = {**profile, **{name: value for name, value in changes.items() if name in profile}}
    return resolve(size, arm.recipe, {**arm.changes_at(scale), **changes}, seed=seed)


def run_experiment(
    name: str,
    profile: str | Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    arms: Sequence[str] | None = None,
    runs_dir: str = "runs",
    progress: Say | None = None,
    workers: int = 1,
    fresh: bool = False,
    changes: Mapping[str, Any] | None = None,
) -> list[Run]:
    """Train what is missing of an experiment and return its runs in the order of the plan.

    Finished runs are reused, which is said; ``fresh`` deletes them first. With ``workers`` above 1,
    that many runs train side by side, each in a process with one thread: a small model gains
    little from a second thread. (The number of threads changes rounding, so a single missing run is
    trained in such a process too.)

    Raises:
        UserError: as :func:`planned_runs`, or a run failed; the other runs are finished first.
    """
    plan = planned_runs(name, profile, seeds, steps, arms, changes)
    return run_planned(name, plan, runs_dir, progress, workers, fresh)


def run_planned(
    name: str,
    asked: Sequence[PlannedRun],
    runs_dir: str | Path = "runs",
    progress: Say | None = None,
    workers: int | None = None,
    fresh: bool = False,
    keep: str | Path | None = None,
    address: str | None = None,
    retries: int = 1,
    launch: str | None = None,
) -> list[Run]:
    """Train what is missing of planned runs, those of one experiment or of several.

    Args:
        name: begins the lines that say how much there is to do.
        keep: folder that gets a compact record of each run; a run whose record it holds counts as
            finished.
        workers, address, retries, launch: as for :func:`mcbench.scale.sweep.train_all`.

    Returns:
        The runs in the order asked; where only the record is kept, the run's state is ``absent``.

    Raises:
        UserError: as :func:`run_experiment`.
    """
    from mcbench.experiments.plan import make_plan
    from mcbench.runs.recorder import clock, say
    from mcbench.scale.sweep import check_numbers, train_all

    progress = progress or say
    check_numbers(workers, retries)
    store = RunStore(runs_dir)
    if fresh:
        for planned in asked:
            store.run(planned.config).delete()
            if keep:
                (Path(keep) / f"{planned.config.run_id}.parquet").unlink(missing_ok=True)
    plan = make_plan(asked, store, [keep] if keep else [])
    missing = plan.missing
    reused = len(plan.distinct) - len(missing)
    progress(
        f"{name}: {len(plan.distinct)} runs, {reused} finished before and reused, "
        f"{len(missing)} to train"
    )
    started = time.monotonic()
    try:
        train_all(
            missing, store, progress, workers=workers, address=address, retries=retries,
            launch=launch,
        )  # fmt: skip
    finally:  # interrupted or failed: what was finished is kept
        if keep:
            _keep(plan.distinct, store, Path(keep))
    if missing:
        progress(f"{name}: all runs finished, {clock(time.monotonic() - started)}")
    return [store.run(planned.config) for planned in asked]


def _keep(planned: Sequence[PlannedRun], store: RunStore, folder: Path) -> None:
    """A compact record of each finished run that has none."""
    from mcbench.runs.compact import write_compact

    folder.mkdir(parents=True, exist_ok=True)
    for one in planned:
        run, path = store.run(one.config), folder / f"{one.config.run_id}.parquet"
        if run.state == "finished" and not path.exists():
            write_compact(run, path)
