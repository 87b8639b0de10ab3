"""Checkpoints sampled at several temperatures: what T1, T2 and the D(T) curves need.

    python benchmarks/temperature_grid.py [--profile nano] [--seeds 0 1 2] [--workers 2]

For each seed of the constant arm at T = 1: the untrained model, the model after half of the steps
and the one after all of them. A run of half the steps is the beginning of the full one, so the
middle checkpoint is the end of such a run. What is in the file of measurements is not measured
again, and every evaluation is written as it is made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcbench.claims.measurements import FILE, GRID, add_measurements, read_measurements
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.experiments.experiments import PlannedRun, planned_runs
from mcbench.experiments.training import train_missing
from mcbench.runs.evaluate import evaluate, select_problems
from mcbench.runs.problems import load_problems
from mcbench.runs.sampling import load_model, transformers_policy
from mcbench.runs.say import Say, say
from mcbench.runs.scores import EvalResult
from mcbench.runs.shares import boundary
from mcbench.runs.store import RunStore

ARM = "t_10"
TEMPERATURES = (0.2, 0.6, 1.0, 1.4, 1.8)


@dataclass(frozen=True)
class Checkpoint:
    """A model of the grid: ``source`` is the run that ends with it, None for the untrained one;
    ``full`` the whole run, under whose id its measurements are kept.
    """

    step: int
    source: PlannedRun | None
    full: PlannedRun

    @property
    def run_id(self) -> str:
        return self.full.config.run_id


def grid_checkpoints(
    profile: str = "nano",
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Checkpoint]:
    """Start, middle and end of the arm's run for each seed; arguments as for ``planned_runs``.

    Raises:
        UserError: as that function.
    """
    found = []
    for full in planned_runs("temperature", profile, seeds, steps, [ARM], settings):
        config = full.config
        half = boundary(config.model_dump(), 0.5)
        (middle,) = planned_runs("temperature", profile, [config.seed], half, [ARM], settings)
        ends = {0: None, half: middle, config.steps: full}
        found += [Checkpoint(step, run, full) for step, run in ends.items()]
    return found


def missing_of_grid(
    checkpoints: Sequence[Checkpoint],
    rows: Sequence[Mapping[str, Any]],
    temperatures: Sequence[float] = TEMPERATURES,
) -> list[tuple[Checkpoint, list[float]]]:
    """The checkpoints that are yet to be measured, and at which temperatures."""
    done = {(r["run_id"], r["step"], r["temperature"]) for r in rows if r["kind"] == GRID}
    missing = [
        (one, [t for t in temperatures if (one.run_id, one.step, t) not in done])
        for one in checkpoints
    ]
    return [(one, left) for one, left in missing if left]


def measure_grid(
    folder: str | Path,
    profile: str = "nano",
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    runs_dir: str | Path = "runs",
    temperatures: Sequence[float] = TEMPERATURES,
    workers: int = 1,
    progress: Say | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Mapping[str, Any]]:
    """Measure what is missing, training the runs it needs, and return the rows of the grid.

    Args:
        folder: holds the file of measurements.
        workers: runs side by side where some have to be trained.

    Raises:
        UserError: wrong arguments, or a run failed.
    """
    progress = progress or say
    path = Path(folder) / FILE
    checkpoints = grid_checkpoints(profile, seeds, steps, settings)
    rows = read_measurements(path)
    missing = missing_of_grid(checkpoints, rows, temperatures)
    total = len(checkpoints) * len(temperatures)
    left = sum(len(wanted) for _, wanted in missing)
    progress(f"temperature grid: {total} measurements, {total - left} made before, {left} to make")
    needed = [one.source for one, _ in missing if one.source is not None]
    if needed:
        train_missing("temperature grid", needed, runs_dir, progress, workers)
    store = RunStore(runs_dir)
    for number, (one, wanted) in enumerate(missing, start=1):
        progress(
            f"temperature grid: model {number} of {len(missing)}, seed {one.full.config.seed}, "
            f"step {one.step}"
        )
        for row in _measure(one, wanted, store):
            rows.append(row)
            add_measurements([row], path)
    ids = {one.run_id for one in checkpoints}
    return [row for row in rows if row["kind"] == GRID and row["run_id"] in ids]


def _measure(one: Checkpoint, temperatures: Sequence[float], store: RunStore) -> Iterator[Any]:
    """One row a temperature, as each is measured."""
    config = one.full.config
    location = config.model
    if one.source is not None:
        path = store.run(one.source.config).final_model
        if not path.exists():
            raise UserError(f"{path} is missing; delete the run {path.parent.parent} to train it")
        location = str(path)
    policy = transformers_policy(*load_model(location), config.eval_batch_size)
    problems = select_problems(load_problems(config.test_set), config.test_limit)
    with Evaluator(workers=config.reward_workers) as evaluator:
        for temperature in temperatures:
            results = evaluate(
                policy,
                problems,
                evaluator=evaluator,
                lengths=[config.max_completion_length],
                attempts=config.eval_attempts,
                temperature=temperature,
                seed=config.seed,
                prompt_style=config.prompt_style,
            )
            yield from grid_measurements(one.run_id, config.seed, one.step, results)


def grid_measurements(
    run_id: str, seed: int, step: int, results: Iterable[EvalResult]
) -> list[dict[str, Any]]:
    """A checkpoint's evaluations at several temperatures, at the training length, as rows for T1
    and T2.
    """
    return [
        {
            "kind": GRID,
            "experiment": "temperature",
            "run_id": run_id,
            "seed": seed,
            "step": step,
            "temperature": result.temperature,
            "distinct_4": result.distinct_4,
            "accuracy": result.pass_at_1,
        }
        for result in results
    ]


def main() -> None:
    """Measure what is missing of the grid."""
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", default="nano")
    parser.add_argument("--seeds", type=int, nargs="+", help="the experiment's where left out")
    parser.add_argument("--temperatures", type=float, nargs="+", default=TEMPERATURES)
    parser.add_argument("--runs", type=Path, default=root / "runs")
    parser.add_argument("--records", type=Path, default=root / "reports" / "records")
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    measure_grid(asked.records, asked.profile, asked.seeds, None, asked.runs, asked.temperatures,
                 asked.workers)  # fmt: skip


if __name__ == "__main__":
    main()
