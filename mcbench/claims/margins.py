"""What counts as no effect: a margin for every measure, and why it is that.

An effect is absent when its whole 90 % interval lies between minus and plus the margin. The numbers
are those of ``docs/protocol.md``, fixed before the runs that they judge, for the nano models.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Margin:
    """``value`` in the unit that the measure is told in, and the reason for it."""

    value: float
    reason: str


POINTS, TOKENS, UPDATES, TEMPERATURE = "points", "tokens", "updates", "T"
DISTINCT, DISTINCT_SLOPE, PROGRAMS = "Distinct-4", "Distinct-4 per unit of T", "unique programs"
CLIPPED, NATS, RANK, REGRET = "% of tokens", "nats", "rank corr.", "regret"

MARGINS: dict[str, Margin] = {
    POINTS: Margin(
        2.0,
        "pass@1, reward and shares of prompts: less than a single seed moves by chance (SD 2.1 "
        "points at the training length, 3.8 at twice it) and a seventh of what training gains",
    ),
    TOKENS: Margin(
        2.0,
        "response length: two hundredths of the limit, and less than a single seed moves by chance "
        "(SD 2.7)",
    ),
    DISTINCT: Margin(
        0.02, "a seventh of what training at T = 1 takes away (0.14); less than a seed's SD (0.023)"
    ),
    PROGRAMS: Margin(0.02, "a share of the responses to a prompt; less than a seed's SD (0.026)"),
    DISTINCT_SLOPE: Margin(0.02, "a tenth of the untrained model's slope (0.2)"),
    UPDATES: Margin(
        16.0, "the distance between two evaluations: no change of place is seen more finely"
    ),
    TEMPERATURE: Margin(0.1, "half of the smallest step between temperatures that anyone chooses"),
    CLIPPED: Margin(0.1, "a tenth of the one percent from which on a clip is said to act"),
    NATS: Margin(0.02, "token entropy: a twentieth of the untrained model's 0.4 nats"),
    RANK: Margin(0.1, "what is called a small correlation"),
    REGRET: Margin(
        0.5,
        "100 times the reward a context: a twentieth of what the untrained policy leaves (9.6). No "
        "measure of the protocol; chosen after the runs, whose first margin, of pass@1, is told "
        "beside",
    ),
}
"""By the unit of a part, which names its measure."""
