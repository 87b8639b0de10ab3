"""Times a training step under three evaluators, for the right half of Fig. 6 (E5).

    python benchmarks/evaluator_timing.py [--runs DIR] [--records DIR]

Trains the runs of the experiment ``evaluator_timing`` that have no record yet, one after another,
in this process: on a machine that does nothing else. Notebook 06 reads their records.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.published import ProcessPerSample, SingleThreaded
from mcbench.experiments.experiments import planned_runs
from mcbench.runs.compact import write_compact
from mcbench.runs.judge import PUBLISHED
from mcbench.runs.train import train

METHODS = {"process_per_sample": ProcessPerSample, "single_threaded": lambda _: SingleThreaded()}
PUBLISHED |= METHODS


def main() -> None:
    """Train what is missing and keep its records."""
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=Path, default=root / "runs")
    parser.add_argument("--records", type=Path, default=root / "reports" / "records")
    parser.add_argument("--steps", type=int, help="updates; the profile's number where left out")
    asked = parser.parse_args()
    for one in planned_runs("evaluator_timing", steps=asked.steps):
        kept = asked.records / f"{one.config.run_id}.parquet"
        if not kept.exists():
            write_compact(train(one.config, asked.runs, label=one.label), kept)


if __name__ == "__main__":
    main()
