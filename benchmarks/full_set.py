"""What the runs of the paper's claims and figures would cost at the scale of a GPU profile, by the
formulas of ``mcbench.scale.estimate``: GPU hours by experiment, runs that several share counted
once.

    python benchmarks/full_set.py --output benchmarks/full_set.json
    python benchmarks/full_set.py --gpu H200-141GB --mean-share 0.8

No run is made. The GPU's numbers are the published ones (``mcbench/scale/machine.py``).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from mcbench.claims import CLAIMS
from mcbench.experiments.experiments import EXPERIMENTS, planned_runs
from mcbench.runs.config import Config
from mcbench.scale.estimate import MEAN_SHARE, estimate
from mcbench.scale.machine import GPU_NAMES, Machine, nominal_gpu

# The profile that stands for a nano profile.
_SMALL = ("nano", "nano-steady", "nano-clip")
SCALES = {
    "qwen3-1.7b": {**dict.fromkeys(_SMALL, "qwen3-1.7b"), "nano-steady-m": "qwen3-4b"},
    "qwen3-4b": {**dict.fromkeys(_SMALL, "qwen3-4b"), "nano-steady-m": "qwen3-1.7b"},
}
FIGURES = {"cross_model", "results"}  # Fig. 1 and 7, which none of the 34 claims rests on
COUNTED = FIGURES | {claim.experiment for claim in CLAIMS.values() if claim.whose == "paper"}
# The older model is of this size; the recipes are compared at both.
SIZES = {"cross_model": ["qwen3-4b"], "results": list(SCALES)}
SEEDS = 5


def stages(config: Config) -> Iterator[tuple[Config, float]]:
    """The configuration with each of its lengths, and the share of the steps trained at it."""
    from mcbench.grpo.temperature import parse_stages

    steps, given = config.steps, config.length_stages
    if not given:
        yield config, 1.0
        return
    parsed = parse_stages(given, "length_stages")
    starts = [max(0, start) for start, _ in parsed] + [steps]
    if starts[0]:
        yield config, starts[0] / steps
    for (_, length), (start, end) in zip(parsed, pairwise(starts), strict=True):
        stage = config.model_copy(update={"max_completion_length": int(length)})
        yield stage, (end - start) / steps


def run_seconds(config: Config, node: Machine, share_of_limit: float) -> tuple[float, float]:
    """Of training and of the evaluations."""
    training = evaluating = 0.0
    for stage, share in stages(config):
        length = share_of_limit * stage.max_completion_length
        time = estimate(stage, node, node.devices, "fsdp2", length).time
        assert time is not None  # on GPUs
        training += share * time.cycles * time.cycle
        evaluating += share * time.evaluations * time.evaluation
    return training, evaluating


def full_set(scale: str, node: Machine, share: float) -> dict[str, Any]:
    """Node hours of one seed by experiment, and of everything."""
    counted: set[str] = set()
    rows = {}
    for name, experiment in EXPERIMENTS.items():
        if name not in COUNTED:
            continue
        profiles = [SCALES[scale][profile] for profile in experiment.profiles]
        profiles = SIZES.get(name, profiles)
        runs = {run.config.run_id: run.config for run in planned_runs(name, profiles, seeds=[0])}
        new = {key: config for key, config in runs.items() if key not in counted}
        counted |= new.keys()
        hours = [[part / 3600 for part in run_seconds(c, node, share)] for c in new.values()]
        rows[name] = {
            "runs": len(runs),
            "not shared": len(new),
            "training_h": round(sum(h[0] for h in hours), 1),
            "evaluation_h": round(sum(h[1] for h in hours), 1),
        }
    one_seed = sum(row["training_h"] + row["evaluation_h"] for row in rows.values())
    return {
        "experiments": rows,
        "runs": len(counted) * SEEDS,
        "node_hours": round(one_seed * SEEDS),
        "gpu_hours": round(one_seed * SEEDS * node.devices),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", choices=GPU_NAMES, default="H100-80GB")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--mean-share", type=float, default=MEAN_SHARE, help="of the limit")
    parser.add_argument("--output", type=Path, help="write the results here as JSON")
    options = parser.parse_args()
    node = nominal_gpu(options.gpu, options.devices, cores=64)
    result: dict[str, Any] = {"node": f"{options.devices} x {options.gpu}", "seeds": SEEDS}
    for scale in SCALES:
        result[scale] = full_set(scale, node, options.mean_share)
        print(f"{scale}: {result[scale]['runs']} runs, {result[scale]['gpu_hours']:,} GPU hours")
        for name, row in result[scale]["experiments"].items():
            print(f"  {name:18} {row}")
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
