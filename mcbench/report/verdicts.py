"""Verdicts on claims for people: one line or one row each."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from mcbench.lab.insights import Verdict

FULL_SEEDS = 5  # below this many, conclusions are called exploratory


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; a dash where there is none."""
    return "–" if np.isnan(value) else f"{value:+.{digits}f}".replace("-", "−")


def interval(low: float, high: float, digits: int = 1) -> str:
    """``+1.0 to +5.2``; a dash where there is none."""
    return "–" if np.isnan(low) else f"{signed(low, digits)} to {signed(high, digits)}"


def verdict_table(verdicts: Mapping[str, Verdict]) -> pd.DataFrame:
    """One row per part of each claim; numbers are positive in the direction of the claim."""
    rows = []
    for name, verdict in verdicts.items():
        shared = {"Claim": name, "State": verdict.state}
        for part in verdict.parts:
            found = part.estimate
            rows.append(
                {
                    **shared,
                    "What": part.name,
                    "Effect": f"{signed(found.value)} {part.unit}",
                    "95 % interval": interval(found.low, found.high),
                }
            )
        if not verdict.parts:
            rows.append({**shared, "What": verdict.note, "Effect": "–", "95 % interval": "–"})
    return pd.DataFrame(rows)


def verdict_lines(verdicts: Mapping[str, Verdict]) -> list[str]:
    """One line per claim: id, state, numbers, and what the state rests on."""
    lines = []
    for name, verdict in verdicts.items():
        few = 0 < verdict.n_seeds < FULL_SEEDS and verdict.parts
        note = re.sub(r"-(?=\d)", "−", verdict.note)
        lines.append(f"{name} {verdict.state}{' (exploratory)' if few else ''}: {note}")
    return lines
