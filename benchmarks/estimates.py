"""Are the estimates of memory right, and the times that are scaled from recorded runs? Every
configuration is trained for three generations in a process of its own; what that process measured
is compared with the formula of memory, and with the pace of its profile as it comes, scaled as
``mcbench.scale.pace`` does.

    python benchmarks/estimates.py --output benchmarks/estimates.json
    python benchmarks/estimates.py --again --output benchmarks/estimates.json   # same measurements

``--clock cpu`` counts processor seconds of the training process, for a machine that has other work
as well; the rewards, judged in other processes, are then left out. ``--again`` compares what is
already measured in the output file.
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
    from mcbench.runs.train import train

    config = configuration(name)
    marks = note_times(CLOCKS[clock_name])
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, folder, progress=lambda line: None)
        steps = read_lines(run.path / "steps.jsonl")
    sampled = [s for s in steps if "completions/mean_length" in s]
    begins, generated, ends = (marks[kind] for kind in ("begin", "generated", "end"))
    every = config.batch().updates_per_generation
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
        "mean_length": statistics.mean(s["completions/mean_length"] for s in sampled),
        "cut": statistics.mean(s["completions/clipped_ratio"] for s in sampled),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def note_times(clock: Callable[[], float]) -> dict[str, list[float]]:
    """When a run began its updates, had a batch sampled and scored, and ended its updates; and how
    long its evaluations took.
    """
    from mcbench.runs.held_out import HeldOut
    from mcbench.runs.recorder import Recorder

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
    measured = HeldOut._measure

    def timed(self: Any, *arguments: Any, **named: Any) -> Any:
        started = clock()
        result = measured(self, *arguments, **named)
        marks["evaluated"].append(clock() - started)
        return result

    HeldOut._measure = timed  # type: ignore[method-assign]
    return marks


def configuration(name: str) -> Any:
    """Resolved, with as many updates as ``GENERATIONS`` have and one evaluation at the end."""
    from mcbench.runs.resolve import resolve

    profile, recipe, changes = CONFIGURATIONS[name]
    steps = GENERATIONS * resolve(profile, recipe, changes).batch().updates_per_generation
    return resolve(profile, recipe, {**changes, "eval_every": steps}, steps=steps)


def compare(name: str, measured: dict[str, Any], of_profile: dict[str, Any]) -> dict[str, Any]:
    """Estimated over measured; ``of_profile`` is what its profile as it comes measured."""
    from mcbench.scale.estimate import estimate
    from mcbench.scale.machine import processor_here
    from mcbench.scale.pace import length_ratio, responses_of_update

    config = configuration(name)
    usual = configuration(config.profile)
    memory = estimate(config, processor_here())
    update_s = of_profile["cycle_s"] / usual.batch().updates_per_generation
    update_s *= responses_of_update(config) / responses_of_update(usual)
    limits = usual.max_completion_length, config.max_completion_length
    update_s *= length_ratio(of_profile["mean_length"], of_profile["cut"], *limits)
    cycle_s = update_s * config.batch().updates_per_generation
    return {
        "estimated": {
            "peak_bytes": round(memory.peak),
            "cycle_s": round(cycle_s, 3),
            "memory": {k: round(v) for k, v in {**memory.kept, **memory.passing}.items()},
        },
        "measured": {k: round(v, 3) for k, v in measured.items()},
        "memory_ratio": round(memory.peak / measured["peak_bytes"], 3),
        "cycle_ratio": round(cycle_s / measured["cycle_s"], 3),
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
    parser.add_argument("--again", action="store_true", help="compare what --output holds")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.clock)))
        return
    rows: dict[str, Any] = {}
    result = {"clock": options.clock, "generations": GENERATIONS, "configurations": rows}
    before = json.loads(options.output.read_text())["configurations"] if options.again else {}
    chosen = list(before or options.only or CONFIGURATIONS)
    profiles = [CONFIGURATIONS[name][0] for name in chosen]  # as they come, to scale from
    for name in dict.fromkeys([*profiles, *chosen]):
        load = before[name]["load"] if before else os.getloadavg()[0]
        measured = (
            before[name]["measured"]
            if before
            else apart("--measure", name, "--clock", options.clock)
        )
        profile = CONFIGURATIONS[name][0]
        of_profile = measured if name == profile else rows[profile]["measured"]
        rows[name] = {**compare(name, measured, of_profile), "load": load}
        ratios = (f"{what} {rows[name][f'{what}_ratio']:.2f}" for what in ("memory", "cycle"))
        print(f"{name:32} {'  '.join(ratios)}", flush=True)
        if options.output is not None:  # after each: a long benchmark
            options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
