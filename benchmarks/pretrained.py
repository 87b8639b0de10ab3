"""The pretrained base model before any training: what ``docs/protocol.md`` fixes for its gate.

    for T in 0.4 0.6 0.8 1 1.2; do
        mcbench evaluate smollm2-135m --test-set easy:train --attempts 8 --temperature $T \\
            --lengths 48,64,80,96,128,192 --folder base/train-$T
    done
    python benchmarks/pretrained.py gate base/train-*

``gate`` prints pass@1, the share of mixed groups and of cut answers at every temperature and limit,
and which pair the profile gets.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

PASS, MIXED, CUT = (0.15, 0.60), (0.5, 1.0), (0.15, 0.35)
LIMITS = (48, 64, 80, 96, 128)
KEPT = (0.7, 96)
"""Temperature and limit where no pair meets the gate."""


def answers(folders: Sequence[Path]) -> pd.DataFrame:
    """A row for every answer, temperature and limit of the folders of evaluations: whether it was
    ``cut`` there, and ``passed``.
    """
    return pd.DataFrame([row for folder in folders for row in _answers(folder)])


def _answers(folder: Path) -> Iterator[dict[str, Any]]:
    about = json.loads((folder / "evaluation.json").read_text())
    for chunk in sorted(folder.glob("samples/*.jsonl")):
        for problem in map(json.loads, chunk.read_text().splitlines()):
            for number, one in enumerate(problem["attempts"]):
                for limit, verdict in one["verdicts"].items():
                    length = one["tokens"]
                    yield {
                        "temperature": about["temperature"],
                        "limit": int(limit),
                        "problem": problem["id"],
                        "family": problem["id"].split("/")[1],
                        "attempt": number,
                        "text": one["text"],
                        "length": min(length, int(limit)),
                        "cut": length > int(limit) or (length == int(limit) and not one["ended"]),
                        "passed": {*verdict.split(",")} == {"AC"},
                        "distinct_4": problem["distinct_4"][limit],
                    }


def conditions(rows: pd.DataFrame) -> pd.DataFrame:
    """By temperature and limit: the three shares of the gate, Distinct-4 and length."""
    groups = rows.groupby(["temperature", "limit", "problem"])
    of_group = groups.agg(
        passed=("passed", "mean"),
        cut=("cut", "mean"),
        distinct_4=("distinct_4", "first"),
        length=("length", "mean"),
    )
    of_group["mixed"] = of_group.passed.between(0, 1, inclusive="neither")
    return of_group.groupby(["temperature", "limit"]).mean().reset_index()


def gate(table: pd.DataFrame) -> tuple[bool, float, int]:
    """Whether a pair meets the gate, and the temperature and limit that the profile gets."""
    good = table[
        table.limit.isin(LIMITS)
        & table.passed.between(*PASS)
        & table.mixed.between(*MIXED)
        & table.cut.between(*CUT)
    ]
    if good.empty:
        return False, *KEPT
    best = good.loc[good.mixed.idxmax()]
    return True, float(best.temperature), int(best.limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=["gate"])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    table = conditions(answers(options.folders))
    print(table.round(3).to_string(index=False))
    met, temperature, limit = gate(table)
    print(f"gate {'met' if met else 'not met'}: temperature {temperature:g}, limit {limit}")
    if options.output:
        options.output.write_text(
            json.dumps({"met": met, "temperature": temperature, "limit": limit})
        )


if __name__ == "__main__":
    main()
