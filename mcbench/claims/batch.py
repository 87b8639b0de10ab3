"""Batch size and on-policy (paper §7.1, Fig. 8): B1 and B2."""

from __future__ import annotations

import numpy as np

from mcbench.claims.evidence import Evidence, Part, mean_of, part
from mcbench.claims.statistics import (
    Curve,
    change_point,
    fall_from_peak,
    last_window,
    rise_to_peak,
)
from mcbench.claims.verdict import Insight

SMALL, MEDIUM, LARGE = ARMS = ("small", "medium", "large")


def _settling_step(x: np.ndarray, y: Curve) -> np.ndarray:
    """Where a curve bends: the step of its change point."""
    return change_point(x, y).step


def on_policy(evidence: Evidence) -> list[Part]:
    """ "Converges sooner": the change point of Distinct-4 comes earlier in the small arm than on
    average in the other two. "Rises then falls": the small arm's length rises to its peak and falls
    from it, the peak's place found on the other seeds.
    """
    small, *others = (evidence.diversity(arm) for arm in ARMS)
    # Each arm has its own number of generations; the small one's are the finest.
    spacing = max(float(np.diff(one.x).max()) for one in (small, *others))
    length = evidence.length(SMALL)
    return [
        part(
            "diversity settles sooner",
            "updates",
            *mean_of(others, _settling_step),
            (-1, small, _settling_step),
            resolution=spacing,
        ),
        part("length rises", "tokens", (1, length, rise_to_peak)),
        part("length falls", "tokens", (1, length, fall_from_peak)),
    ]


def intermediate(evidence: Evidence) -> list[Part]:
    """Last-window pass@1: medium minus small, and medium minus large."""
    medium = evidence.accuracy(MEDIUM)
    return [
        part(
            f"pass@1 at the end, medium minus {arm}",
            "points",
            (1, medium, last_window),
            (-1, evidence.accuracy(arm), last_window),
        )
        for arm in (SMALL, LARGE)
    ]


_SOURCE = "§7.1, Fig. 8"
INSIGHTS = (
    Insight(
        "B1",
        "batch",
        "More on-policy (a small batch) is less stable: diversity converges sooner, length rises "
        "then falls.",
        _SOURCE,
        "batch_size",
        ARMS,
        on_policy,
    ),
    Insight(
        "B2",
        "batch",
        "The intermediate batch size performs best.",
        _SOURCE,
        "batch_size",
        ARMS,
        intermediate,
    ),
)
