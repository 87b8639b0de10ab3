"""A claim: a statement, the runs that it compares and the statistic that measures it.

Every claim stands as a decorator above its statistic, in the module of its section::

    claim = partial(register, section="mask", experiment="truncation_mask", source="§2.3, Fig. 2")


    @claim("M3", "More masking reaches the first peak sooner.", ("rho_01", "all"))
    def first_peak(evidence: Evidence) -> list[Part]: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcbench.claims.evidence import Evidence, Part

Measure = Callable[[Evidence], list[Part]]


@dataclass(frozen=True)
class Claim:
    """One executable claim; :mod:`mcbench.claims.assess` holds the rule that decides it.

    Attributes:
        claim: in our words; the question, where it is ours.
        source: section and figure of the paper; what the paper leaves open, where it is ours.
        arms: the arms of ``experiment`` that are compared, ``home/arm`` where another experiment
            trains it; none where only measurements count.
        statistic: evidence -> parts; its docstring says what is computed.
        seeds: seeds that every arm needs for a decision; 0 where the claim has no seeds.
        whose: the ``paper``'s, a ``rival``'s or of the ``landscape``'s systems, which predict the
            sign of every part, or ``ours``, which predict none.
    """

    id: str
    claim: str
    arms: tuple[str, ...]
    statistic: Measure
    section: str
    experiment: str
    source: str
    seeds: int = 3
    whose: str = "paper"

    @property
    def told(self) -> str:
        """The claim; with its source, where that is another paper."""
        return (
            f"{self.claim} ({self.source})" if self.whose in ("rival", "landscape") else self.claim
        )

    @property
    def directed(self) -> bool:
        """Whether it predicts the sign of every part."""
        return self.whose != "ours"


CLAIMS: dict[str, Claim] = {}
"""All claims by id: the paper's in the order of its sections, its rivals', ours, then the
landscape's."""


def register(
    id: str,
    claim: str,
    arms: tuple[str, ...],
    *,
    section: str,
    experiment: str,
    source: str,
    seeds: int = 3,
    whose: str = "paper",
) -> Callable[[Measure], Measure]:
    """Decorate a statistic with its claim, which joins :data:`CLAIMS`."""

    def add(statistic: Measure) -> Measure:
        CLAIMS[id] = Claim(id, claim, arms, statistic, section, experiment, source, seeds, whose)
        return statistic

    return add


def claims_of(experiment: str) -> list[Claim]:
    """The claims that the runs of an experiment decide."""
    return [one for one in CLAIMS.values() if one.experiment == experiment]


def arms_elsewhere(experiment: str) -> list[str]:
    """The arms of other experiments, as ``home/arm``, that claims on this one need."""
    arms = [arm for one in claims_of(experiment) for arm in one.arms if "/" in arm]
    return list(dict.fromkeys(arms))
