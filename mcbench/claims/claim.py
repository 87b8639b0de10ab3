"""A claim: a statement, the arms that it compares, and the contrasts that measure it.

    [context.Z1]
    experiment = "context_length"
    claim = "A longer limit ends higher."
    arms = ["short", "long"]
    parts = [["pass@1", "pass@1, long minus short", "end(long) - end(short)"]]

is a row of a table (:mod:`mcbench.claims.table`); where a formula cannot say it, ``code`` computes
further parts (:mod:`mcbench.claims.in_code`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcbench.claims.contrast import Contrast
from mcbench.claims.evidence import Evidence, Part
from mcbench.errors import UserError

SAME = "nothing in the formula"
EARLIER = "trained with our earlier function"
"""Begins what differs from an original whose own function another claim trains."""
KNOWN_BY = ("code run beside", "code read", "paper", "second-hand")
WHOSE = ("paper", "rival", "landscape", "ours")


@dataclass(frozen=True)
class Claim:
    """One executable claim; :mod:`mcbench.claims.assess` holds the rule that decides it.

    Attributes:
        claim: in our words; the question, where it is ours.
        arms: the arms of ``experiment`` that are compared, ``home/arm`` where another experiment
            trains it; none where only measurements count.
        measured: what is computed, in words; the formulas where empty.
        contrasts: its parts; every arm that they name is one of ``arms``.
        experiment: whose runs decide it.
        source: section and figure of the paper; what the paper leaves open, where it is ours.
        differs: what is other here than in the original, beside models, tasks and scale; of
            another paper's claims (:data:`SAME` where it is nothing else).
        original: how the original is known: its ``code run beside``, its ``code read``, its
            ``paper``, or ``second-hand``.
        section: the heading it stands under; the experiment's name where empty.
        profile: by whose runs the protocol decides it.
        seeds: that every arm needs for a decision; 0 where the claim has no seeds.
        whose: the ``paper``'s, a ``rival``'s or of the ``landscape``'s systems, which predict the
            sign of every part, or ``ours``, which predict none.
        code: evidence -> parts that no formula says.

    Raises:
        UserError: a contrast names another arm; another paper's claim does not say what differs.
    """

    id: str
    claim: str
    arms: tuple[str, ...]
    measured: str = ""
    contrasts: Sequence[Contrast] = ()
    experiment: str = ""
    source: str = ""
    differs: str = ""
    original: str = ""
    section: str = ""
    profile: str = "nano-steady"
    seeds: int = 3
    whose: str = "paper"
    code: Callable[[Evidence], list[Part]] | None = None

    def __post_init__(self) -> None:
        told = "; ".join(f"{one.name}: {one.formula}" for one in self.contrasts)
        object.__setattr__(self, "section", self.section or self.experiment)
        object.__setattr__(self, "measured", self.measured or told)
        if self.whose in ("rival", "landscape") and (
            not self.differs or self.original not in KNOWN_BY
        ):
            raise UserError(
                "a claim of another paper says what differs from the original, and how that is "
                f"known ({', '.join(KNOWN_BY)})"
            )
        named = {term.arm for one in self.contrasts for term in one.parsed.terms}
        if missing := sorted(named - {*self.arms}):
            raise UserError(
                f"its parts name {', '.join(missing)}, which is none of its arms "
                f"({', '.join(self.arms)})"
            )

    def parts(self, evidence: Evidence) -> list[Part]:
        """Its parts on runs.

        Raises:
            UserError: runs lack what it is measured by.
        """
        found = [part for one in self.contrasts for part in one.parts(evidence)]
        return [*found, *(self.code(evidence) if self.code else ())]

    @property
    def apart(self) -> str:
        """What differs from the original and how sure that is, in a sentence; empty where nothing
        is said of it, as of most claims of the paper and of all questions.
        """
        if self.differs == SAME:
            return f"The formula is the original's ({self.original})."
        told = f"Differs from the original ({self.original}): {self.differs}."
        return told if self.differs else ""

    @property
    def again(self) -> str:
        """The claim that asks the same of the original's own function; empty where none does."""
        found = re.match(rf"{EARLIER} \((\w+) has ", self.differs)
        return found[1] if found else ""

    @property
    def directed(self) -> bool:
        """Whether it predicts the sign of every part."""
        return self.whose != "ours"
