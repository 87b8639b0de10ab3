"""Time of an update and of an evaluation on nano, against another checkout of this repository.

    git worktree add ../before COMMIT
    python benchmarks/nano_speed.py --before ../before        # three rounds, about five minutes

Both train the same run in turn, each in a process of its own with one thread; who goes first
alternates. An update is the mean over all of them, generation included; the evaluation is the one
after the last update (120 problems x 4 attempts up to 192 tokens, judged at two lengths), with the
last checkpoint, which both write. Nothing else should run meanwhile.
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
import json, sys, torch
torch.set_num_threads(1)
from mcbench.runs.config import resolve
from mcbench.runs.store import read_run
from mcbench.runs.train import train
steps, folder = int(sys.argv[1]), sys.argv[2]
config = resolve("nano", "grpo_plus", {"eval_every": steps}, seed=100, steps=steps)
record = read_run(train(config, folder, lambda line: None).path)
lines = record.step_lines
print(json.dumps({
    "update": sum(line["time/step_s"] for line in lines) / len(lines),
    "evaluation": record.meta["ended"] - lines[-1]["time"],
    "mean_length": record.steps["completions/mean_length"].mean(),
}))
"""


def timed_run(checkout: Path, steps: int) -> dict[str, float]:
    """Seconds of an update and of the last evaluation of a run with that checkout."""
    env = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", RUN, str(steps), folder]
        done = subprocess.run(
            command, env=env, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(before: Path, rounds: int, steps: int) -> dict[str, Any]:
    checkouts = {"before": before, "now": HERE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for number in range(rounds):
        for name in list(checkouts)[:: -1 if number % 2 else 1]:
            found[name].append(timed_run(checkouts[name], steps))
            print(f"round {number + 1}/{rounds} {name}: {found[name][-1]}", flush=True)
    medians = {
        name: {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        for name, runs in found.items()
    }
    return {
        "settings": {"rounds": rounds, "updates": steps, "threads": 1, "cores": os.cpu_count()},
        "seconds": medians,
        "ratio": {
            key: statistics.median(
                now[key] / then[key]
                for now, then in zip(found["now"], found["before"], strict=True)
            )
            for key in ("update", "evaluation")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=16, help="of each run, two generations")
    parser.add_argument("--output", type=Path, help="write the result here as JSON")
    options = parser.parse_args()
    result = measure(options.before.resolve(), options.rounds, options.updates)
    print(json.dumps(result, indent=2))
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
