"""How one generation's lengths and advantages are distributed, as numbers that fit a step's line.

``histogram/advantage`` counts responses by advantage after the mask (:data:`ADVANTAGE_EDGES`; the
outermost bins hold what lies beyond). ``histogram/length_right`` and ``..._wrong`` count responses
by length in :data:`LENGTH_BINS` equal bins from 0 to ``length/max_allowed``. ``length/correct_p10``
and its likes are percentiles in tokens, absent where there is no such response. A response that was
not scored (its reward is NaN) counts in none but the advantages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

ADVANTAGE_EDGES = np.linspace(-4.125, 4.125, 34)  # 33 bins, the middle one around 0
LENGTH_BINS = 16
PERCENTILES = (10, 50, 90)
ADVANTAGE, RIGHT, WRONG = "histogram/advantage", "histogram/length_right", "histogram/length_wrong"


def length_edges(limit: float) -> np.ndarray:
    """Edges (LENGTH_BINS + 1,) in tokens."""
    return np.linspace(0.0, limit, LENGTH_BINS + 1)


def distributions(
    lengths: ArrayLike,
    rewards: ArrayLike,
    advantages: ArrayLike,
    limit: float,
    correct_threshold: float = 1.0,
) -> dict[str, Any]:
    """All of the above for B responses.

    Args:
        limit: maximum response length in tokens.
        correct_threshold: the reward from which on a response counts as right.
    """
    tokens, reward = np.asarray(lengths), np.asarray(rewards, dtype=float)
    inside = np.clip(np.asarray(advantages), ADVANTAGE_EDGES[0], ADVANTAGE_EDGES[-1])
    right = reward >= correct_threshold
    groups = {"correct": right, "incorrect": ~right & ~np.isnan(reward)}
    found: dict[str, Any] = {ADVANTAGE: np.histogram(inside, ADVANTAGE_EDGES)[0].tolist()}
    for key, (name, chosen) in zip((RIGHT, WRONG), groups.items(), strict=True):
        found[key] = np.histogram(tokens[chosen], length_edges(limit))[0].tolist()
        if chosen.any():
            values = np.percentile(tokens[chosen], PERCENTILES)
            found |= {
                f"length/{name}_p{q}": float(v) for q, v in zip(PERCENTILES, values, strict=True)
            }
    return found
