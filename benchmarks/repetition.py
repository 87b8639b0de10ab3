"""How many truncated responses repeat themselves, by the paper's rule and by the periodic one.

    python benchmarks/repetition.py [--runs DIR] [--records DIR]

Counted from the stored responses of runs, which compact records do not hold; so it is measured
once, where the run directories are, and kept with the other measurements.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcbench.claims.measurements import (
    FILE,
    REPETITION,
    add_measurements,
    read_measurements,
)
from mcbench.experiments.experiments import planned_runs
from mcbench.grpo.masking import repeats
from mcbench.runs.records import finished_records
from mcbench.runs.store import RunRecord

MASK = "truncation_mask"
"""The experiment whose runs are counted."""
RULES = ("window", "periodic")
PARTS = 4  # a run is divided into so many spans of equal length


def repetition_rows(record: RunRecord) -> list[dict[str, Any]]:
    """Counts over each quarter of a run: responses, truncated ones, and of those the repeating."""
    config = record.config
    steps = np.array(record.completion_steps())
    span = config.steps / PARTS
    rows = []
    for index in range(PARTS):
        counts = {"responses": 0, "truncated": 0, "window": 0, "periodic": 0}
        for step in steps[(steps - 1 >= index * span) & (steps - 1 < (index + 1) * span)]:
            for name, count in _counts(record, int(step), config.repeat_window).items():
                counts[name] += count
        rows.append(
            {
                "kind": REPETITION,
                "experiment": MASK,
                "run_id": record.run_id,
                "seed": record.seed,
                "step": round((index + 1) * span),
                **counts,
            }
        )
    return rows


def _counts(record: RunRecord, step: int, window: int) -> dict[str, int]:
    table = record.completions(step)
    cut = [torch.as_tensor(np.array(ids)) for ids in table["tokens"][table["truncated"]]]
    counts = {"responses": len(table), "truncated": len(cut)}
    if not cut:
        return {**counts, **dict.fromkeys(RULES, 0)}
    ids = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
    lengths = torch.tensor([len(one) for one in cut])
    found = {rule: int(repeats(ids, lengths, window, rule).sum()) for rule in RULES}
    return {**counts, **found}


def main() -> None:
    """Count for the recorded runs that have all their responses and were not counted before."""
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=Path, default=root / "runs")
    parser.add_argument("--records", type=Path, default=root / "reports" / "records")
    asked = parser.parse_args()
    path = asked.records / FILE
    done = {row["run_id"] for row in read_measurements(path) if row["kind"] == REPETITION}
    kept = {path.stem for path in asked.records.glob("*.parquet")} - done
    kept &= {one.config.run_id for one in planned_runs(MASK)}
    for one in finished_records(asked.runs):
        if one.run_id in kept and (one.path / "completions").is_dir():
            print(f"counting in {one.run_id}", flush=True)
            add_measurements(repetition_rows(one), path)


if __name__ == "__main__":
    main()
