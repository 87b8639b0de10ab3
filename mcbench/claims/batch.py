"""Batch size and on-policy (paper §7.1, Fig. 8): B1 and B2."""

from __future__ import annotations

from functools import partial

import numpy as np

from mcbench.claims.claim import register
from mcbench.claims.evidence import Evidence, Part, mean_of, part
from mcbench.claims.margins import TOKENS, UPDATES
from mcbench.claims.statistics import change_point, fall_from_peak, rise_to_peak

SMALL, MEDIUM, LARGE = ARMS = ("small", "medium", "large")
claim = partial(register, section="batch", experiment="batch_size", source="§7.1, Fig. 8")


@claim(
    "B1",
    "More on-policy (a small batch) is less stable: diversity converges sooner, length rises then "
    "falls.",
    ARMS,
)
def on_policy(evidence: Evidence) -> list[Part]:
    """ "Converges sooner": the change point of Distinct-4 comes earlier in the small arm than on
    average in the other two. "Rises then falls": the small arm's length rises to its peak and falls
    from it, the peak's place found on the other seeds.
    """
    small, *others = map(evidence.diversity, ARMS)
    # Each arm has its own number of generations; the small one's are the finest.
    spacing = max(float(np.diff(one.x).max()) for one in (small, *others))
    sooner = [*mean_of(others, change_point), (-1.0, small, change_point)]
    length = evidence.length(SMALL)
    return [
        part("diversity settles sooner", UPDATES, *sooner, resolution=spacing),
        part("length rises", TOKENS, (1, length, rise_to_peak)),
        part("length falls", TOKENS, (1, length, fall_from_peak)),
    ]


@claim("B2", "The intermediate batch size performs best.", ARMS)
def intermediate(evidence: Evidence) -> list[Part]:
    """Last-window pass@1: medium minus small, and medium minus large."""
    return evidence.higher(MEDIUM, SMALL, LARGE)
