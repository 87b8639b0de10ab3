"""What is missing of planned runs is trained; what is finished or recorded is found again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from mcbench.errors import UserError
from mcbench.experiments.experiments import PlannedRun
from mcbench.experiments.plan import Plan, make_plan
from mcbench.runs.canonical import check_trainable
from mcbench.runs.compact import read_compact, write_compact
from mcbench.runs.config import Config
from mcbench.runs.say import Say, clock, say
from mcbench.runs.store import RunRecord, RunStore, read_run
from mcbench.scale.apart import train_apart, under_way
from mcbench.scale.sweep import check_all, check_numbers, train_all


def train_missing(
    name: str,
    asked: Sequence[PlannedRun],
    runs_dir: str | Path = "runs",
    progress: Say = say,
    workers: int | None = None,
    fresh: bool = False,
    records: Sequence[str | Path] = (),
    keep: str | Path | None = None,
    address: str | None = None,
    retries: int = 1,
    launch: str | None = None,
    train: bool = True,
    apart: bool = False,
) -> list[RunRecord]:
    """Train what is missing of planned runs and return the record of each, in the order asked.

    Args:
        name: begins the lines that say how much there is to do.
        fresh: delete the runs of the folder first, once nothing refuses to train them again; no
            record stands in for them.
        records: folders of compact records that count as finished runs.
        keep: a folder of compact records that also gets those of new runs.
        train: whether anything is trained; else what is missing is left out.
        apart: by a process that outlives this one (:mod:`mcbench.scale.apart`); where one trains
            these runs already, ``fresh`` deletes nothing.
        workers, address, retries, launch: as for :func:`mcbench.scale.sweep.train_all`.

    Raises:
        UserError: a run can only be read, and nothing is trained; or one failed, and the others
            are finished first.
    """
    check_numbers(workers, retries)
    store = RunStore(runs_dir)
    records = () if fresh else records
    folders = [Path(folder) for folder in (*records, *([keep] if keep else []))]
    if fresh and not train:
        raise UserError("fresh deletes the runs and train=False trains none again; choose one")
    plan = make_plan(asked, store, folders)
    if train:
        _check_trainable(plan.distinct if fresh else plan.missing)
    if fresh and not (apart and under_way([one.config.run_id for one in asked], store)):
        check_all(plan.distinct, store, address, launch)
        for one in plan.distinct:
            store.run(one.config).delete()
            if keep:
                _compact(one, Path(keep)).unlink(missing_ok=True)
        plan = make_plan(asked, store, folders)
    progress(_how_much(name, plan, store) + ("" if train else ", which is left out"))
    started = time.monotonic()
    try:
        (train_apart if apart else train_all)(
            plan.missing if train else [], store, progress, workers=workers, address=address,
            retries=retries, launch=launch,
        )  # fmt: skip
    finally:  # interrupted or failed: what was finished is kept
        if keep:
            _keep(plan.distinct, store, Path(keep), records)
    if plan.missing and train:
        progress(f"{name}: all runs finished, {clock(time.monotonic() - started)}")
    return [found for one in asked if (found := find_record(one, store, folders)) is not None]


def _check_trainable(planned: Sequence[PlannedRun]) -> None:
    for one in planned:
        try:
            check_trainable(one.config)
        except UserError as error:
            raise UserError(f"arm {one.arm}, seed {one.config.seed}: {error}") from None


def _how_much(name: str, plan: Plan, store: RunStore) -> str:
    here = sum(store.run(one.config).state == "finished" for one in plan.distinct)
    kept = len(plan.distinct) - len(plan.missing) - here
    parts = [f"{name}: {len(plan.distinct)} runs"]
    parts += [f"{here} finished before and reused"] if here or not kept else []
    parts += [f"{kept} from records"] if kept else []
    return ", ".join([*parts, f"{len(plan.missing)} to train"])


def find_record(
    planned: PlannedRun, store: RunStore, records: Sequence[Path] = ()
) -> RunRecord | None:
    """The finished run in the store, else its compact record; None where there is neither."""
    run = store.run(planned.config)
    if run.state == "finished":
        return read_run(run.path)
    return next(
        (read_compact(path) for folder in records if (path := _compact(planned, folder)).exists()),
        None,
    )


def _compact(planned: PlannedRun, folder: Path) -> Path:
    return folder / f"{planned.config.run_id}.parquet"


def _keep(
    planned: Sequence[PlannedRun], store: RunStore, folder: Path, records: Sequence[str | Path]
) -> None:
    """A compact record of each finished run that has none, copied where ``records`` hold it.

    Responses are kept of an arm's first seed, in the first cell of a grid: pages show those of one
    run an arm.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first: dict[tuple[str, str, str], Config] = {}
    for one in sorted(planned, key=lambda one: one.config.seed):
        first.setdefault((one.arm, one.config.profile, one.config.model), one.config)
    shown = {config.run_id for config in first.values()}
    for one in planned:
        run, path = store.run(one.config), _compact(one, folder)
        if path.exists():
            continue
        known = [_compact(one, Path(other)) for other in records]
        if found := next(filter(Path.exists, known), None):
            write_compact(read_compact(found), path)
        elif run.state == "finished":
            write_compact(run, path, samples=one.config.run_id in shown)
