"""Are the estimates of memory and time right? Every configuration is trained for three generations
in a process of its own; what that process measured is compared with what was estimated.

    python benchmarks/estimates.py --output benchmarks/estimates.json

The constants of the machine come from its probe, run before each configuration in a process of its
own. ``--clock cpu`` counts processor seconds of the training process, for a machine that has other
work as well; the rewards, judged in other processes, are then left out of both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

GENERATIONS = 3
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

# profile, recipe, changes: both sizes, and each length, batch and option on its own.
CONFIGURATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nano": ("nano", "microcoder", {}),
    "nano-m": ("nano-m", "microcoder", {}),
    "nano, 48 tokens": (
        "nano",
        "microcoder",
        {"max_completion_length": 48, "eval_lengths": [48, 96]},
    ),
    "nano, 192 tokens": (
        "nano",
        "microcoder",
        {"max_completion_length": 192, "eval_lengths": [192, 384]},
    ),
    "nano, 32 prompts": ("nano", "microcoder", {"train_batch_size": 32, "ppo_mini_batch_size": 4}),
    "nano, 16 responses a prompt": ("nano", "microcoder", {"num_generations": 16}),
    "nano, 64 responses a pass": (
        "nano",
        "microcoder",
        {"ppo_mini_batch_size": 8, "per_device_batch_size": 64},
    ),
    "nano, with a reference model": ("nano", "grpo", {}),
    "nano-m, gradient checkpointing": ("nano-m", "microcoder", {"gradient_checkpointing": True}),
    "nano-m, 32 prompts": ("nano-m", "microcoder", {"train_batch_size": 32}),
}


def measure(name: str, clock_name: str) -> dict[str, Any]:
    """In this process: seconds of a cycle and of an evaluation, mean length, peak of memory."""
    from mcbench.files import read_lines
    from mcbench.runs.train import plan, train

    config = configuration(name)
    marks = note_times(CLOCKS[clock_name])
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, folder, progress=lambda line: None)
        steps = read_lines(run.path / "steps.jsonl")
    lengths = [s["completions/mean_length"] for s in steps if "completions/mean_length" in s]
    begins, generated, ends = (marks[kind] for kind in ("begin", "generated", "end"))
    every = plan(config.profile).updates_per_generation
    first, last = begins[::every], ends[every - 1 :: every]
    generations = [later - earlier for earlier, later in zip(first, generated, strict=True)]
    updates = [later - earlier for earlier, later in zip(generated, last, strict=True)]
    records = [later - earlier for earlier, later in zip(last, first[1:], strict=False)]
    parts = [statistics.median(part) for part in (generations, updates, records)]
    return {
        "cycle_s": sum(parts),
        "generation_s": parts[0],
        "updates_s": parts[1],
        "record_s": parts[2],
        "evaluation_s": statistics.median(marks["evaluated"]),
        "mean_length": statistics.mean(lengths),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def note_times(clock: Callable[[], float]) -> dict[str, list[float]]:
    """When a run began its updates, had a batch sampled and scored, and ended its updates; and how
    long its evaluations took.
    """
    from mcbench.runs.recorder import Recorder
    from mcbench.runs.train import _Session

    marks: dict[str, list[float]] = {"begin": [], "generated": [], "end": [], "evaluated": []}

    def noted(owner: type, method: str, kind: str) -> None:
        original = getattr(owner, method)

        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            result = original(self, *arguments, **named)
            marks[kind].append(clock())
            return result

        setattr(owner, method, call)

    noted(Recorder, "on_step_begin", "begin")
    noted(Recorder, "on_generation", "generated")
    noted(Recorder, "on_step_end", "end")
    measured = _Session._measure

    def timed(self: Any, *arguments: Any, **named: Any) -> Any:
        started = clock()
        result = measured(self, *arguments, **named)
        marks["evaluated"].append(clock() - started)
        return result

    _Session._measure = timed  # type: ignore[method-assign]
    return marks


def configuration(name: str) -> Any:
    """Resolved, with as many updates as ``GENERATIONS`` have and one evaluation at the end."""
    from mcbench.runs.config import resolve
    from mcbench.runs.train import plan

    profile, recipe, changes = CONFIGURATIONS[name]
    steps = GENERATIONS * plan(resolve(profile, recipe, changes).profile).updates_per_generation
    return resolve(profile, recipe, {**changes, "eval_every": steps}, steps=steps)


def probed(clock_name: str) -> dict[str, Any]:
    """In this process: the constants of the machine."""
    from mcbench.scale.machine import probe

    return asdict(probe(CLOCKS[clock_name]))


def compare(name: str, machine: dict[str, Any], measured: dict[str, Any], clock: str) -> dict:
    """Estimated over measured."""
    from mcbench.scale.dry_run import read_machine
    from mcbench.scale.estimate import estimate

    here = read_machine(machine)
    if clock == "cpu":
        here = replace(here, submission_s=0.0, test_s=0.0)
    expected = estimate(configuration(name), here, mean_length=measured["mean_length"])
    memory, time = expected.memory.peak, expected.time
    updates = time.updates_per_cycle * time.update
    return {
        "estimated": {
            "peak_bytes": round(memory),
            "cycle_s": round(time.cycle, 3),
            "evaluation_s": round(expected.time.evaluation, 3),
            "generation_s": round(time.cycle - updates - time.record, 3),
            "updates_s": round(updates, 3),
            "memory": {k: round(v) for k, v in asdict(expected.memory).items()},
            "time": {k: round(v, 4) for k, v in asdict(expected.time).items()},
        },
        "measured": {k: round(v, 3) for k, v in measured.items()},
        "memory_ratio": round(memory / measured["peak_bytes"], 3),
        "cycle_ratio": round(time.cycle / measured["cycle_s"], 3),
        "evaluation_ratio": round(
            expected.time.evaluation / max(1e-9, measured["evaluation_s"]), 3
        ),
    }


def apart(*arguments: str) -> dict[str, Any]:
    """What this script prints when it is run with these arguments, on one thread."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--only", action="append", choices=CONFIGURATIONS)
    parser.add_argument("--output", type=Path, help="write the results here as JSON")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print(json.dumps(probed(options.clock)))
        return
    if options.measure:
        print(json.dumps(measure(options.measure, options.clock)))
        return
    rows = {}
    for name in options.only or CONFIGURATIONS:
        machine = apart("--probe", "--clock", options.clock)
        measured = apart("--measure", name, "--clock", options.clock)
        row = compare(name, machine, measured, options.clock)
        rows[name] = {**row, "load": os.getloadavg()[0], "machine": machine}
        print(
            f"{name:32} memory {row['memory_ratio']:.2f}  cycle {row['cycle_ratio']:.2f}  "
            f"evaluation {row['evaluation_ratio']:.2f}",
            flush=True,
        )
        if options.output is not None:  # after each: a long benchmark
            result = {"clock": options.clock, "generations": GENERATIONS, "configurations": rows}
            options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
