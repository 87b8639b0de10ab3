"""The two regimes of nano: the learning rates of ``nano-steady`` and ``nano-stress``.

Fixed before any arm but the unmasked one was looked at: the pilot seeds, the grid, the rule. Pilots
are plain GRPO+ at ``nano-steady``'s scale and rates of 2, 3, 5 and 8e-4, seeds 100 and 101, and
decide no claim (``mcbench train --profile nano-steady --recipe grpo_plus --seed 100 --set
learning_rate=3e-4``). **Steady** is the rate of ``nano``.
**Stress** is the largest rate of the grid at which, on the mean of the pilots, pass@1 at the
training length rises by at least 10 points over the base model and then loses at least 5 of them by
the end. Single evaluations move by several points, so both are read from means of three in a row.

The clip acts where it takes at least one percent of the tokens in the last update of a generation:
further pilots are at ``nano-clip``'s scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mcbench.runs.compact import read_compact
from mcbench.runs.config import preset
from mcbench.runs.place import committed_records
from mcbench.runs.store import RunRecord

PROFILE = "nano-steady"
LEAST_RISE, LEAST_FALL = 0.10, 0.05
EVALUATIONS = 3
"""In a row, of which the mean counts."""
LEAST_CLIPPED = 0.01
"""Of the tokens in the last update of a generation."""
FOLDER = "pilots"  # beside the compact records


def is_clip_pilot(record: RunRecord) -> bool:
    """Whether it is one of those at ``nano-clip``'s scale."""
    return (record.config.num_iterations or 1) > 1


def recorded_pilots() -> list[RunRecord]:
    """The pilots that the committed records hold."""
    folders = [folder / FOLDER for folder in committed_records()]
    return [read_compact(path) for one in folders for path in sorted(one.glob("*.parquet"))]


def steady(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The pilots at the profile's own rate and batch."""
    rate = preset(PROFILE).learning_rate
    return [r for r in records if r.config.learning_rate == rate and not is_clip_pilot(r)]


def clipped_by_update(record: RunRecord) -> pd.Series:
    """Share of tokens outside the clip range by update within a generation, the run's mean."""
    updates = record.config.generation_period
    clipped = record.steps.set_index("step")["clip_ratio/region_mean"]
    return clipped.groupby((clipped.index - 1) % updates + 1).mean()


def masked_shares(record: RunRecord, ratios: Sequence[float] = (0.1, 0.2, 0.3, 1.0)) -> pd.Series:
    """By rho, the share of an unmasked run's responses that Eq. 2 would mask, in expectation."""
    eligible = record.steps["mask/eligible_incorrect"].mean()
    return pd.Series({ratio: ratio * eligible for ratio in ratios})


def accuracy_curve(record: RunRecord) -> pd.Series:
    """pass@1 at the training length and the run's temperature by step, on the problems that every
    evaluation has, the small ones included.
    """
    config = record.config
    lines = [
        line
        for line in record.eval_lines
        if line["max_completion_length"] == min(config.eval_lengths)
        and line["temperature"] == config.eval_temperature
    ]
    shared = set.intersection(*({row["id"] for row in line["per_problem"]} for line in lines))
    return pd.Series({line["step"]: _rate(line, shared) for line in lines}).sort_index()


def _rate(line: Mapping[str, Any], problems: Iterable[str]) -> float:
    rows = [row for row in line["per_problem"] if row["id"] in problems and row["attempts"]]
    return float(np.mean([row["passes"] / row["attempts"] for row in rows]))


def rise_and_fall(accuracy: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """How far a curve rises over its first value (the base model), and how far it ends below its
    highest point.
    """
    means = np.convolve(accuracy[1:], np.full(EVALUATIONS, 1 / EVALUATIONS), "valid")
    return float(means.max() - accuracy[0]), float(means.max() - means[-1])


def mean_curves(records: Sequence[RunRecord]) -> dict[float, pd.Series]:
    """:func:`accuracy_curve` by learning rate, the mean of the seeds at the steps that all have."""
    curves: dict[float, list[pd.Series]] = {}
    for record in records:
        if is_clip_pilot(record):
            continue
        curves.setdefault(record.config.learning_rate, []).append(accuracy_curve(record))
    return {
        rate: pd.concat(found, axis=1).dropna().mean(axis=1)
        for rate, found in sorted(curves.items())
    }


def regime_table(records: Sequence[RunRecord]) -> pd.DataFrame:
    """One row a learning rate: seeds, rise and fall of the mean curve, whether both suffice."""
    seeds = Counter(r.config.learning_rate for r in records if not is_clip_pilot(r))
    rows = []
    for rate, curve in mean_curves(records).items():
        rise, fall = rise_and_fall(curve.to_numpy())
        stress = rise >= LEAST_RISE and fall >= LEAST_FALL
        rows.append((rate, seeds[rate], rise, fall, stress))
    return pd.DataFrame(rows, columns=["learning rate", "seeds", "rise", "fall", "rises and falls"])


def stress_rate(table: pd.DataFrame) -> float | None:
    """The largest rate that meets the rule; None where none does."""
    met = table.loc[table["rises and falls"], "learning rate"]
    return float(met.max()) if len(met) else None
