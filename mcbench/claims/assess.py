"""From finished runs to results: the rule that decides a claim.

A claim is measured in parts, numbers that are positive when it holds. One of the paper's is

- **supported** when every part's 95 % interval lies above 0 and the claim's p-value stays at or
  under 5 % after Holm's correction over all claims of the paper on the experiment;
- **contradicted** when some part's interval lies below 0 and the p-value of the opposite does;
- **inconclusive** otherwise, and always with too few seeds or without the runs that it needs.

All parts must hold, so the largest of their one-sided p-values is the claim's own
(intersection-union test). One failing part is enough against it, so there the smallest counts,
times the number of parts, and two-sided, as nobody predicted which part would turn around.

Our questions predict no direction. Each of their parts is **higher** or **lower** when its interval
excludes 0 and its two-sided p-value stays at or under 5 % after Holm's correction over the parts of
the question, **inconclusive** otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mcbench.claims.claim import CLAIMS, Claim, claims_of
from mcbench.claims.evidence import INCONCLUSIVE, Evidence, Part, RunCurves, run_curves
from mcbench.claims.measurements import Measurements
from mcbench.claims.statistics import Estimate, holm
from mcbench.errors import UserError

if TYPE_CHECKING:
    from mcbench.runs.store import RunRecord

SUPPORTED, CONTRADICTED = "supported", "contradicted"
HIGHER, LOWER = "higher", "lower"
STATES = (SUPPORTED, CONTRADICTED, INCONCLUSIVE)
"""The states of the paper's claims."""
ALPHA = 0.05

Curves = Mapping[str, Mapping[int, RunCurves]]


NOTHING = Part("", Estimate(np.nan, np.nan, np.nan, 1.0, 1.0, 0), "")


@dataclass(frozen=True)
class Result:
    """What runs say about a claim.

    ``decisive`` is the part that decides: of the paper's claims the weakest one, or the one that
    contradicts; of our questions the clearest one. ``p`` goes with it, after Holm's correction.
    ``parts`` holds every part with its own state; in a claim of the paper's that is by its interval
    alone. ``reason`` says why nothing is decided.
    """

    claim: Claim
    n_seeds: int
    state: str = INCONCLUSIVE
    reason: str = ""
    p: float = 1.0
    decisive: Part = NOTHING
    parts: tuple[Part, ...] = ()

    @property
    def effect(self) -> float:
        """Of the decisive part, in ``unit``; NaN where there is none."""
        return self.decisive.estimate.value

    @property
    def interval(self) -> tuple[float, float]:
        """The effect's 95 % interval; NaN where there is none."""
        return self.decisive.estimate.low, self.decisive.estimate.high

    @property
    def unit(self) -> str:
        """Of the effect, such as ``points``."""
        return self.decisive.unit

    @property
    def note(self) -> str:
        """The reason, if there is one, and every part."""
        return "; ".join([*filter(None, [self.reason]), *map(describe, self.parts)])


@dataclass(frozen=True)
class Finding:
    """A claim measured by itself; ``missing`` says why there can be no decision, where that is."""

    claim: Claim
    parts: tuple[Part, ...]
    n_seeds: int
    missing: str = ""

    @property
    def p_for(self) -> float:
        """The p-value for "all parts hold"."""
        return 1.0 if self.missing else max(part.estimate.p_above for part in self.parts)

    @property
    def p_against(self) -> float:
        """The p-value for "some part is reversed"."""
        if self.missing:
            return 1.0
        return min(1.0, 2 * min(part.estimate.p_below for part in self.parts) * len(self.parts))


def assess(
    experiment: str,
    runs: Mapping[str, Mapping[int, RunRecord]],
    measurements: Measurements = (),
) -> dict[str, Result]:
    """The results of all claims of an experiment, the paper's and ours, by id.

    The paper's that cannot be measured stay in the count that is corrected for, so that a result
    never depends on which other claims happen to have runs.

    Args:
        runs: finished runs of one setting, by arm and seed; arms of other experiments as
            ``home/arm`` (:func:`mcbench.claims.claim.arms_elsewhere`), those of ``cross_model`` are
            the model generations ``older`` and ``newer``.
    """
    claims = claims_of(experiment)
    needed = {arm for one in claims for arm in one.arms}
    curves = {
        arm: {seed: run_curves(record) for seed, record in of_arm.items()}
        for arm, of_arm in runs.items()
        if arm in needed
    }
    findings = [measure(one, curves, measurements) for one in claims]
    family = [found for found in findings if found.claim.directed]
    p_for = holm([found.p_for for found in family])
    p_against = holm([found.p_against for found in family])
    results = [
        decide(found, float(above), float(below), len(family))
        for found, above, below in zip(family, p_for, p_against, strict=True)
    ]
    results += [answer(found) for found in findings if not found.claim.directed]
    return {one.claim.id: one for one in results}


def measure(claim: Claim, curves: Curves, measurements: Measurements = ()) -> Finding:
    """The parts of a claim on the runs of one setting, or why there are none."""
    if absent := [arm for arm in claim.arms if not curves.get(arm)]:
        return Finding(claim, (), 0, f"no finished run of {_names(absent)}")
    evidence = Evidence({arm: curves[arm] for arm in claim.arms}, measurements, claim.experiment)
    if claim.arms and not evidence.seeds:
        return Finding(claim, (), 0, f"no seed was run in all of {_names(claim.arms)}")
    try:
        parts = tuple(claim.statistic(evidence))
    except UserError as error:
        return Finding(claim, (), len(evidence.seeds), str(error))
    count = len(evidence.seeds) if claim.arms else min(part.estimate.seeds for part in parts)
    count = count if claim.seeds else 0
    few = f"{count} of the {claim.seeds} seeds it needs" if count < claim.seeds else ""
    return Finding(claim, parts, count, few)


def decide(found: Finding, p_for: float, p_against: float, claims: int) -> Result:
    """The result of a claim of the paper's, given its p-values as corrected over ``claims``."""
    if not found.parts:
        return Result(found.claim, found.n_seeds, reason=found.missing)
    parts = found.parts
    if not found.missing:
        parts = tuple(replace(one, state=_side(one, SUPPORTED, CONTRADICTED)) for one in parts)
    weakest = max(parts, key=lambda part: part.estimate.p_above)
    worst = min(parts, key=lambda part: part.estimate.p_below)
    above = all(part.estimate.low > 0 for part in parts)
    below = worst.estimate.high < 0
    state, reason = INCONCLUSIVE, found.missing
    decisive, p = (worst, p_against) if below else (weakest, p_for)
    if not reason and (above or below):
        if p <= ALPHA:
            state = CONTRADICTED if below else SUPPORTED
        else:
            reason = f"not after Holm's correction over {claims} claims (p = {p:.3f})"
    return Result(found.claim, found.n_seeds, state, reason, p, decisive, parts)


def answer(found: Finding) -> Result:
    """The result of a question of ours."""
    if not found.parts:
        return Result(found.claim, found.n_seeds, reason=found.missing)
    ends = [part.estimate for part in found.parts]
    single = [min(1.0, 2 * min(one.p_above, one.p_below)) for one in ends]
    p = holm(single)
    parts = tuple(
        replace(part, state=_side(part, HIGHER, LOWER))
        if not found.missing and corrected <= ALPHA
        else part
        for part, corrected in zip(found.parts, p, strict=True)
    )
    at = int(np.argmin(single))
    return Result(
        found.claim, found.n_seeds, parts[at].state, found.missing, float(p[at]), parts[at], parts
    )


def _side(part: Part, above: str, below: str) -> str:
    """On which side of 0 the interval of a part lies."""
    if part.estimate.low > 0:
        return above
    return below if part.estimate.high < 0 else INCONCLUSIVE


def digits_of(unit: str) -> int:
    """Decimals that a number of this unit is shown with."""
    return 1 if unit in ("points", "tokens", "updates") else 3


def describe(part: Part) -> str:
    """``pass@1 at the end: +3.1 points [+1.0, +5.2]``."""
    found, digits = part.estimate, digits_of(part.unit)
    text = f"{part.name}: {found.value:+.{digits}f} {part.unit}".rstrip()
    if not np.isnan(found.low):
        text += f" [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"
    return text


def _names(arms: Sequence[str]) -> str:
    return ("arm " if len(arms) == 1 else "arms ") + ", ".join(arms)


def summary_rows(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Rows for a summary table, in the order of :data:`CLAIMS`: one for a claim of the paper's, one
    a part (``part`` names it) for a question of ours, or one where there is no part.
    """
    rows = []
    for one in (results[name] for name in CLAIMS if name in results):
        shared = {
            "id": one.claim.id,
            "section": one.claim.section,
            "claim": one.claim.claim,
            "experiment": one.claim.experiment,
            "directed": one.claim.directed,
            "seeds": one.n_seeds,
            "note": one.note,
            "reason": one.reason,
        }
        whole = one.claim.directed or not one.parts
        rows += [
            {
                **shared,
                "part": part.name,
                "state": part.state,
                "effect": part.estimate.value,
                "low": part.estimate.low,
                "high": part.estimate.high,
                "unit": part.unit,
            }
            for part in ([replace(one.decisive, name="", state=one.state)] if whole else one.parts)
        ]
    return rows


def count_states(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many of the paper's claims in a summary are in each state, all three of them."""
    found = Counter(row["state"] for row in rows if row["directed"])
    return {state: found[state] for state in STATES}
