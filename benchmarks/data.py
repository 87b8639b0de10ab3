"""Time and memory of a build of generated problems, without the verification.

    python benchmarks/data.py --problems 100000 --output benchmarks/data.json

The problems are clean, so every stage sees all of them: the most work there can be. Verification is
bounded by the evaluator, which has a benchmark of its own; with --verify N a build of N problems
reports how much of the stage's time passes inside the evaluator. Memory is the sum of the resident
memory of all processes, sampled ten times a second.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcbench.data.build import build
from mcbench.data.config import BuildConfig
from tests.data.generated import generate

EVALUATION = 500  # generated problems to decontaminate against


class Memory(threading.Thread):
    """Samples the resident memory of this process and its children until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.done = threading.Event()

    def run(self) -> None:
        me = psutil.Process()
        while not self.done.wait(0.1):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, total)


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, kinds))


def measure(problems: int, workers: int, verify: bool) -> dict[str, object]:
    """Build once in an empty folder; seconds count from the first stage's first shard."""
    begun: dict[str, float] = {}

    def progress(stage: str, done: int, of: int) -> None:
        begun.setdefault(stage, time.monotonic())

    with tempfile.TemporaryDirectory() as folder:
        config = BuildConfig(
            name="benchmark",
            out=f"{folder}/out",
            cache=f"{folder}/cache",
            workers=workers,
            skip=() if verify else ("verify",),
        )
        evaluation = list(generate(EVALUATION, seed=5, name="evaluation"))
        memory = Memory()
        memory.start()
        start, cpu = time.monotonic(), cpu_seconds()
        built = build(config, generate(problems), evaluation, progress)
        end = time.monotonic()
        memory.done.set()
        memory.join()
        size = sum(p.stat().st_size for p in Path(folder, "out").rglob("*") if p.is_file())
    return {
        "problems": problems,
        "kept": built.manifest["rows"],
        "seconds": round(end - start, 1),
        "seconds_to_first_shard": round(min(begun.values()) - start, 1),
        "cpu_seconds": round(cpu_seconds() - cpu, 1),
        "peak_memory_mib": memory.peak >> 20,
        "set_mib": size >> 20,
        "evaluator_seconds": round(built.evaluator_s, 1),
        "tests_run": built.tests_run,
    }


def main() -> None:
    """Measure and print, and write the record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--verify", type=int, default=0, metavar="N")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    record = {
        "workers": options.workers,
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "text": measure(options.problems, options.workers, verify=False),
    }
    if options.verify:
        record["verified"] = measure(options.verify, options.workers, verify=True)
    text = json.dumps(record, indent=1)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
