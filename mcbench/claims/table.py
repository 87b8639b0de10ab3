"""All claims by id: the paper's in the order of its sections, its rivals', ours, the landscape's.

One more is one more row, in the file of those that it belongs to.
"""

from __future__ import annotations

from mcbench.claims.claim import Claim
from mcbench.claims.landscape import LANDSCAPE
from mcbench.claims.paper import PAPER
from mcbench.claims.questions import QUESTIONS
from mcbench.claims.rivals import RIVALS

CLAIMS: dict[str, Claim] = {one.id: one for one in (*PAPER, *RIVALS, *QUESTIONS, *LANDSCAPE)}


def claims_of(experiment: str) -> list[Claim]:
    """The claims that the runs of an experiment decide."""
    return [one for one in CLAIMS.values() if one.experiment == experiment]


def arms_elsewhere(experiment: str) -> list[str]:
    """The arms of other experiments, as ``home/arm``, that claims on this one need."""
    arms = [arm for one in claims_of(experiment) for arm in one.arms if "/" in arm]
    return list(dict.fromkeys(arms))
