"""What counts as no effect: a margin for every measure, rows of ``margins.toml``.

An effect is absent when its whole 90 % interval lies between minus and plus the margin.
"""

from __future__ import annotations

from typing import NamedTuple

from mcbench.files import rows_beside


class Margin(NamedTuple):
    """``value`` in the unit that the measure is told in, and the reason for it."""

    value: float
    reason: str


POINTS, TOKENS, UPDATES, TEMPERATURE = "points", "tokens", "updates", "T"
DISTINCT, DISTINCT_SLOPE, PROGRAMS = "Distinct-4", "Distinct-4 per unit of T", "unique programs"
CLIPPED, NATS, RANK, REGRET = "% of tokens", "nats", "rank corr.", "regret"
MARGINS = {unit: Margin(**row) for unit, row in rows_beside(__file__, "margins.toml").items()}
"""By the unit of a part, which names its measure."""
