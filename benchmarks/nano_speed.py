"""Time of an update and of an evaluation on nano, against another checkout of this repository.

    git worktree add ../before COMMIT
    python benchmarks/nano_speed.py --before ../before        # three rounds, about five minutes

Both train the same run of 32 updates in turn, each in a process of its own with one thread; who
goes first alternates. An update is the mean over the second and third of its four generations,
sampling, rewards and record included; the evaluation is the one after the last update (120 problems
x 4 attempts up to 192 tokens, judged at two lengths). Nothing else should run meanwhile;
``processor`` is the processor time of the training process alone, without the sandboxes, and
suffers less where something does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
RUN = """
import json, sys, time, torch
torch.set_num_threads(1)
try:
    from mcbench.runs.resolve import resolve
except ImportError:  # before it had a file of its own
    from mcbench.runs.config import resolve
from mcbench.runs.store import read_run
from mcbench.runs.train import train
marks = {}
def progress(line):
    if "] step " in line:
        step = int(line.partition("] step ")[2].partition("/")[0])
        marks[step] = time.perf_counter(), time.process_time()
config = resolve("nano", "grpo_plus", {"eval_every": 32}, seed=100, steps=32)
record = read_run(train(config, sys.argv[1], progress).path)
found = {"mean_length": record.steps["completions/mean_length"].mean()}
for place, clock in enumerate(("wall", "processor")):
    update = (marks[24][place] - marks[8][place]) / 16
    found[f"update_{clock}"] = update
    found[f"evaluation_{clock}"] = marks[32][place] - marks[24][place] - 8 * update
print(json.dumps(found))
"""


def timed_runs(checkout: Path, count: int) -> dict[str, float]:
    """Seconds of an update and of the last evaluation, the mean of so many runs side by side."""
    env = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", RUN]
        processes = [
            subprocess.Popen(
                [*command, f"{folder}/{n}"],
                env=env,
                cwd=checkout,
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(count)
        ]
        said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"a run of {checkout} failed")
    runs: list[dict[str, float]] = [json.loads(one.splitlines()[-1]) for one in said]
    return {key: statistics.mean(one[key] for one in runs) for key in runs[0]}


def measure(before: Path, rounds: int, count: int) -> dict[str, Any]:
    checkouts = {"before": before, "now": HERE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for number in range(rounds):
        for name in list(checkouts)[:: -1 if number % 2 else 1]:
            found[name].append(timed_runs(checkouts[name], count))
            print(f"round {number + 1}/{rounds} {name}: {found[name][-1]}", flush=True)
    medians = {
        name: {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        for name, runs in found.items()
    }
    return {
        "settings": {
            "rounds": rounds,
            "side_by_side": count,
            "threads": 1,
            "cores": os.cpu_count(),
        },
        "seconds": medians,
        "ratio": {
            key: statistics.median(
                now[key] / then[key]
                for now, then in zip(found["now"], found["before"], strict=True)
            )
            for key in medians["now"]
            if key != "mean_length"
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side-by-side", type=int, default=1, help="runs at once, as sweeps do")
    parser.add_argument("--output", type=Path, help="write the result here as JSON")
    options = parser.parse_args()
    result = measure(options.before.resolve(), options.rounds, options.side_by_side)
    print(json.dumps(result, indent=2))
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
