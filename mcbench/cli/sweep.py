"""``mcbench sweep``: the missing runs of experiments, planned, trained and kept."""

from __future__ import annotations

from typing import Any

import click

from mcbench.cli.options import Integers, read_arms, settings_options
from mcbench.errors import UserError

ALL = "all"
FEW = 24  # runs that are listed unasked


@click.command()
@click.argument("experiments", nargs=-1, required=True, metavar="EXPERIMENT...")
@click.option("--profile", multiple=True, help="Only this profile; may be repeated.")
@click.option("--seeds", type=Integers(), help="Only these seeds.")
@click.option(
    "--arms",
    metavar="A,B or JSON",
    help="Only these arms of the experiment; or arms of your own, such as "
    '\'{"mine": {"recipe": "microcoder", "mask_ratio": 0.5}}\'.',
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Runs side by side (default: 1; on Ray as many as fit).",
)
@click.option(
    "--address",
    metavar="local|auto|HOST:PORT",
    help="Train on a Ray cluster: one that is started here and ended afterwards, the one that runs "
    "here or that RAY_ADDRESS names, or the one at that address.",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Further attempts for a run that crashed or lost its machine.",
)
@click.option("--launch", metavar="CONFIG", help="Several processes a run, as mcbench train.")
@click.option("--fresh", is_flag=True, help="Delete finished runs and train again.")
@click.option(
    "--keep",
    metavar="DIR",
    help="Also write a compact record of each run here; runs that have one here or in the "
    "project's reports/records are finished.",
)
@click.option("--list", "listed", is_flag=True, help="With --dry-run: a line for every run.")
@settings_options
def sweep(experiments: tuple[str, ...], **options: Any) -> None:
    """Train the missing runs of experiments (such as results), several at a time; 'all' is every
    one but evaluator_timing, whose runs benchmarks/evaluator_timing.py trains."""
    from mcbench.experiments.experiments import EXPERIMENTS, planned_together
    from mcbench.experiments.plan import make_plan
    from mcbench.experiments.training import train_missing
    from mcbench.runs.canonical import is_only_read
    from mcbench.runs.place import committed_records
    from mcbench.runs.resolve import parse_settings
    from mcbench.runs.store import RunStore

    names = list(experiments)
    if ALL in names:
        names = [name for name, one in EXPERIMENTS.items() if not one.alone or name in experiments]
    asked = planned_together(
        names,
        arms=read_arms(options["arms"]),
        profile=list(options["profile"]) or None,
        seeds=options["seeds"],
        steps=options["steps"],
        settings=parse_settings(options["changed"], "--set"),
    )
    if options["listed"] and not options["dry_run"]:
        raise UserError("--list goes with --dry-run; without both the runs are trained")
    keep, runs_dir, fresh = options["keep"], options["runs_dir"], options["fresh"]
    committed = committed_records() if keep else []
    folders = [*committed, keep] if keep else []
    plan = make_plan(asked, RunStore(runs_dir), folders, fresh)
    if gone := {one.config.run_id for one in plan.missing if is_only_read(one.config)}:
        told = "of functions that others have replaced: they are only read"
        print(f"left out: {len(gone)} run{'s' if len(gone) > 1 else ''} {told}")
        asked = [one for one in asked if one.config.run_id not in gone]
        plan = make_plan(asked, RunStore(runs_dir), folders, fresh)
    if options["dry_run"]:
        print(*plan.describe(options["workers"] or 1), sep="\n", flush=True)
        _check(plan, runs_dir)  # which loads TRL, for seconds
        if not keep:
            _print_recorded(plan)
        _print_runs(plan, options["listed"])
        return
    train_missing(
        ", ".join(names), asked, runs_dir, workers=options["workers"], fresh=fresh,
        records=committed, keep=keep, address=options["address"], retries=options["retries"],
        launch=options["launch"],
    )  # fmt: skip
    if keep:
        count = len({planned.config.run_id for planned in asked})
        print(f"{count} compact records in {keep}")


def _print_recorded(plan: Any) -> None:
    """How many runs have a committed record, which only ``--keep`` counts."""
    from mcbench.runs.place import COMMITTED, committed_records

    kept = {path.stem for folder in committed_records() for path in folder.glob("*.parquet")}
    if known := sum(one.config.run_id in kept for one in plan.distinct):
        print(
            f"{known} of {len(plan.distinct)} recorded in {COMMITTED}; --keep DIR counts them as "
            "finished"
        )


def _check(plan: Any, runs_dir: str) -> None:
    """Refuse what training would refuse."""
    from mcbench.runs.arguments import trainer_arguments
    from mcbench.runs.store import RunStore

    store = RunStore(runs_dir)
    for planned in plan.distinct:
        trainer_arguments(planned.config, store.run(planned.config).checkpoints)


def _print_runs(plan: Any, all_of_them: bool) -> None:
    """One line a run, of many only where they are asked for."""
    if len(plan.distinct) > FEW and not all_of_them:
        print(f"--list shows a line for each of the {len(plan.distinct)} runs")
        return
    for planned in plan.distinct:
        config = planned.config
        state = plan.states[config.run_id]
        print(f"{config.run_id}  {state:11}  {config.steps:5} steps  {planned.label}")
