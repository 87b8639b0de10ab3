"""Evaluator actors on Ray against the local sandboxes: same verdicts, throughput, overhead.

    python benchmarks/ray_evaluator.py --output benchmarks/ray_evaluator.json
    python benchmarks/ray_evaluator.py --address auto --actors 8 64    # on a cluster
    python benchmarks/ray_evaluator.py --quick                         # does it work?

1. The labelled suite (all programs and attacks) with the most actors and on local sandboxes:
   which verdicts differ.
2. Throughput on right programs with each number of actors, and of as many local sandboxes. More
   actors than cores cannot be faster: the ratio to expect is that of the cores.
3. Overhead: a batch of one program on one actor, less the same on one local sandbox.

Methods take turns, round after round; the first round warms up, medians count.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evaluator_programs import draw_programs

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.suite import ATTACKS, EXECUTIONS
from mcbench.evaluator import Evaluator, Result, StdioTest, Submission
from mcbench.ray_session import ray_session

ONE = [Submission("print(int(input()) + 1)", [StdioTest("1", "2")])]


def seconds(evaluator: Evaluator, submissions: Sequence[Submission]) -> float:
    """One call; all programs are right."""
    began = time.perf_counter()
    results = evaluator.evaluate(submissions)
    took = time.perf_counter() - began
    if not all(result.passed for result in results):
        raise SystemExit("a right program was not accepted")
    return took


def explained(results: Sequence[Result]) -> list[Any]:
    """All of the results but times and memory."""
    return [[(t.verdict, t.strategy, t.message) for t in result.tests] for result in results]


def suite(address: str, actors: int, every: int) -> dict[str, Any]:
    """The labelled programs on actors and on this machine's sandboxes."""
    cases = (EXECUTIONS + ATTACKS)[::every]
    submissions = [case.submission for case in cases]
    with Evaluator(workers=2) as local:
        here = local.evaluate(submissions)
    with Evaluator(workers=actors, backend="ray", address=address) as remote:
        there = remote.evaluate(submissions)
    verdicts = zip(cases, here, there, strict=True)
    messages = zip(cases, explained(here), explained(there), strict=True)
    return {
        "programs": len(cases),
        "actors": actors,
        "different_verdicts": [case.id for case, a, b in verdicts if a.verdicts != b.verdicts],
        "different_messages": [case.id for case, a, b in messages if a != b],
    }


def throughput(
    address: str, actors: Sequence[int], programs: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Programs a second by method."""
    submissions = [program.submission for program in draw_programs(programs)]
    with ExitStack() as stack:
        methods = {
            f"{kind} {count}": stack.enter_context(
                Evaluator(workers=count, backend=kind, address=address)
            )
            for count in actors
            for kind in ("local", "ray")
        }
        took: dict[str, list[float]] = {name: [] for name in methods}
        for _ in range(rounds + 1):
            for name, evaluator in methods.items():
                took[name].append(seconds(evaluator, submissions))
    return {
        name: {"programs_per_s": programs / statistics.median(values[1:]), "rounds": rounds}
        for name, values in took.items()
    }


def overhead(address: str, calls: int) -> dict[str, float]:
    """Milliseconds of a call with one small program."""
    with (
        Evaluator(workers=1) as local,
        Evaluator(workers=1, backend="ray", address=address) as remote,
    ):
        pairs = [(seconds(local, ONE), seconds(remote, ONE)) for _ in range(calls + 5)][5:]
    here, there = (1000 * statistics.median(side) for side in zip(*pairs, strict=True))
    return {"local_ms": here, "ray_ms": there, "overhead_ms": there - here}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, in one cluster."""
    few = options.quick
    actors = [1, 2] if few else options.actors
    with ray_session(options.address, sum(actors) + 1):
        compared = suite(options.address, max(actors), 20 if few else 1)
        fast = throughput(options.address, actors, 20 if few else 400, 1 if few else 5)
        extra = overhead(options.address, 20 if few else 200)
    rate = {name: figures["programs_per_s"] for name, figures in fast.items()}
    one = rate[f"ray {actors[0]}"]
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "ray": version("ray"),
        "suite": compared,
        "throughput": fast,
        "ray_ratio_to_first": {str(n): rate[f"ray {n}"] / one for n in actors},
        "ray_ratio_to_local": {str(n): rate[f"ray {n}"] / rate[f"local {n}"] for n in actors},
        "batch_of_one": extra,
    }


def main() -> None:
    """Measure and print; write with --output."""
    parser = argparse.ArgumentParser(description="Evaluator actors on Ray against local sandboxes")
    parser.add_argument("--address", default="local", help="of the cluster (default: local)")
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    result = measure(options)
    text = json.dumps(result, indent=1)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")
    if result["suite"]["different_verdicts"]:
        raise SystemExit("verdicts differ")


if __name__ == "__main__":
    main()
