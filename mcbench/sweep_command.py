"""``mcbench sweep``: the missing runs of experiments, planned, trained and kept."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcbench.experiments.plan import Plan

ALL = "all"
TIMING = "evaluator_timing"  # needs an idle machine


def add_sweep(
    command: Callable[..., argparse.ArgumentParser],
    integers: Callable[[str], list[int]],
    add_changes: Callable[[argparse.ArgumentParser], None],
) -> None:
    """Add the command; ``command`` makes a parser from name, function and help text."""
    parser = command(
        "sweep", run_sweep, "Train the missing runs of experiments, several at a time."
    )
    parser.add_argument(
        "experiments",
        nargs="+",
        metavar="EXPERIMENT",
        help=f"such as results; {ALL}: every one but {TIMING}, which needs an idle machine",
    )
    parser.add_argument("--profile", action="append", help="only this profile; may be repeated")
    parser.add_argument("--seeds", type=integers, metavar="0,1,2", help="only these seeds")
    parser.add_argument(
        "--arms",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="only these arms of the experiment",
    )
    parser.add_argument(
        "--workers", type=int, help="runs side by side (default: 1; on Ray as many as fit)"
    )
    parser.add_argument(
        "--address",
        metavar="local|auto|HOST:PORT",
        help="train on a Ray cluster: one that is started here and ended afterwards, the one that "
        "runs here or that RAY_ADDRESS names, or the one at that address",
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=1,
        help="further attempts for a run that crashed or lost its machine (default: 1)",
    )
    parser.add_argument(
        "--launch",
        metavar="CONFIG",
        help="train each run with several processes, as mcbench train --launch",
    )
    parser.add_argument("--fresh", action="store_true", help="delete finished runs and train again")
    parser.add_argument(
        "--keep",
        metavar="DIR",
        help="also write a compact record of each run here; runs that have one are finished",
    )
    add_changes(parser)


def run_sweep(options: argparse.Namespace) -> None:
    """Train, or with ``--dry-run`` print the plan."""
    from mcbench.experiments.experiments import EXPERIMENTS, run_planned
    from mcbench.experiments.plan import make_plan, planned_together
    from mcbench.runs.config import parse_settings
    from mcbench.runs.store import RunStore

    names = options.experiments
    if ALL in names:
        names = [name for name in EXPERIMENTS if name != TIMING or name in options.experiments]
    asked = planned_together(
        names,
        options.arms,
        profile=options.profile,
        seeds=options.seeds,
        steps=options.steps,
        changes=parse_settings(options.set, "--set"),
    )
    if options.dry_run:
        plan = make_plan(asked, RunStore(options.runs_dir), [options.keep] if options.keep else [])
        print_plan(plan, options.runs_dir, options.workers or 1)
        return
    run_planned(
        ", ".join(names), asked, options.runs_dir, workers=options.workers, fresh=options.fresh,
        keep=options.keep, address=options.address, retries=options.retries, launch=options.launch,
    )  # fmt: skip
    if options.keep:
        count = len({planned.config.run_id for planned in asked})
        print(f"{count} compact records in {options.keep}")


def print_plan(plan: Plan, runs_dir: str, workers: int) -> None:
    """One line a run, then the counts; refuses what training would refuse."""
    from mcbench.runs.store import RunStore
    from mcbench.runs.train import trainer_arguments

    store = RunStore(runs_dir)
    for planned in plan.distinct:
        config = planned.config
        trainer_arguments(config, store.run(config).checkpoints)
        state = plan.states[config.run_id]
        print(f"{config.run_id}  {state:8}  {config.steps:5} steps  {planned.label}")
    print(*plan.describe(workers), sep="\n")
