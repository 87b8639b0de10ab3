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
import subprocess
import sys
import tempfile
import time
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
    from mcbench.lab.files import read_lines
    from mcbench.lab.train import plan, train

    clock = CLOCKS[clock_name]
    config = configuration(name)
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, folder, progress=lambda line: marks.append(clock()))
        steps = read_lines(run.path / "steps.jsonl")
        evals = read_lines(run.path / "evals.jsonl")
    lengths = [s["completions/mean_length"] for s in steps if "completions/mean_length" in s]
    # Progress is reported after the base model's evaluation and after each generation's updates;
    # the last report comes after the last evaluation.
    begin, *ends = marks[: GENERATIONS + 1]
    cycles = [later - earlier for earlier, later in zip([begin, *ends], ends[:-1], strict=False)]
    cycle = sum(cycles) / len(cycles)
    assert plan(config.profile).updates_per_generation * GENERATIONS == config.profile.steps
    return {
        "cycle_s": cycle,
        "evaluation_s": max(0.0, ends[-1] - ends[-2] - cycle),
        "mean_length": sum(lengths) / len(lengths),
        "eval_mean_length": max(line["mean_length"] for line in evals),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def configuration(name: str) -> Any:
    """Resolved, with as many updates as ``GENERATIONS`` have and one evaluation at the end."""
    from mcbench.lab.config import resolve
    from mcbench.lab.train import plan

    profile, recipe, changes = CONFIGURATIONS[name]
    steps = GENERATIONS * plan(resolve(profile, recipe, changes).profile).updates_per_generation
    return resolve(profile, recipe, {**changes, "eval_every": steps}, steps=steps)


def probed(clock_name: str) -> dict[str, Any]:
    """In this process: the constants of the machine."""
    from mcbench.lab.machine import probe

    return asdict(probe(CLOCKS[clock_name]))


def compare(name: str, machine: dict[str, Any], measured: dict[str, Any], clock: str) -> dict:
    """Estimated over measured."""
    from mcbench.lab.dry_run import read_machine
    from mcbench.lab.estimate import estimate

    here = read_machine(machine)
    if clock == "cpu":
        here = replace(here, submission_s=0.0, test_s=0.0)
    expected = estimate(configuration(name), here, mean_length=measured["mean_length"])
    memory, seconds = expected.memory.peak, expected.time.cycle
    return {
        "estimated": {
            "peak_bytes": round(memory),
            "cycle_s": round(seconds, 3),
            "evaluation_s": round(expected.time.evaluation, 3),
            "memory": {k: round(v) for k, v in asdict(expected.memory).items()},
            "time": {k: round(v, 4) for k, v in asdict(expected.time).items()},
        },
        "measured": {k: round(v, 3) for k, v in measured.items()},
        "memory_ratio": round(memory / measured["peak_bytes"], 3),
        "cycle_ratio": round(seconds / measured["cycle_s"], 3),
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
    if options.output is not None:
        result = {"clock": options.clock, "generations": GENERATIONS, "configurations": rows}
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
