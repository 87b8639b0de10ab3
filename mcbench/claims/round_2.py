"""Round 2: twelve hypotheses, chosen after round 1 and registered before their own runs.

Each has one number, its primary: a contrast of arms in pass@1, mean of both test lengths. ``end``
is the mean over updates 384, 416, 448 and 480; ``fall`` what is lost from the mean over updates
160, 192 and 224 to that end, a fixed place in every arm. Seeds are paired; held-out problems are
resampled by feature. A hypothesis is

- **refuted** where its 90 % interval lies inside the margin (it is shown equivalent to nothing), or
  else where its 95 % interval lies on the side that it does not predict;
- **supported** where the 95 % interval lies on the side that it predicts, or on either side where
  it predicts none;
- **inconclusive** otherwise, or with fewer than all of its seeds.

All p-values are two-sided, and Holm's correction is over the twelve, at 5 % of their own. That a
difference is there and that it is inside the margin have nulls that cannot both be true, so that
the smaller of the two p-values needs no correction within a hypothesis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mcbench.claims import protocol
from mcbench.claims.contrast import Term, parse
from mcbench.claims.curves import RunCurves, run_curves
from mcbench.claims.evidence import Evidence, part
from mcbench.claims.margins import MARGINS, POINTS
from mcbench.claims.rules import (
    ALPHA,
    INCONCLUSIVE,
    NO_EFFECT,
    NOT_TESTABLE_HERE,
    REFUTED,
    SUPPORTED,
    part_state,
    second_state,
)
from mcbench.claims.statistics import Estimate, Statistic, holm
from mcbench.errors import UserError
from mcbench.files import rows_beside

if TYPE_CHECKING:
    from mcbench.runs.store import RunRecord

HIGHER, APART = "higher", "apart"
FEATURE_INFLATION = 1.48
END, BEFORE = (384, 480), (160, 224)
"""First and last update of the evaluations whose mean counts."""


def between(x: np.ndarray, y: np.ndarray, updates: tuple[int, int]) -> np.ndarray:
    """Mean over the evaluations in a span of updates; (N,), (..., N) -> (...).

    Raises:
        UserError: there is none.
    """
    inside = (x >= updates[0]) & (x <= updates[1])
    if not inside.any():
        raise UserError(f"no evaluation from update {updates[0]} to {updates[1]}")
    return y[..., inside].mean(axis=-1)


def fall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What is lost from the middle of the training to its end; (N,), (..., N) -> (...)."""
    return between(x, y, BEFORE) - between(x, y, END)


end = partial(between, updates=END)


@dataclass(frozen=True)
class Hypothesis:
    """A row of the registered family, ``round_2.toml``.

    Attributes:
        block: of :data:`mcbench.experiments.experiments.ROUND_2`, which trains its arms.
        formula: the primary, in points: ends, or falls, of arms (:mod:`mcbench.claims.contrast`).
        why: where the prediction comes from.
        predicts: ``higher`` (than 0) or ``apart`` (from 0, on either side).
        asks: what of the paper's claims it asks again; empty where it is ours.
    """

    id: str
    says: str
    block: str
    formula: str
    why: str
    predicts: str = HIGHER
    asks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = protocol.ROUND_2_SEEDS

    @property
    def terms(self) -> tuple[Term, ...]:
        """The formula's."""
        return parse(self.formula, {"end": end, "fall": fall}).terms

    @property
    def weights(self) -> dict[str, float]:
        """The factor of each arm."""
        return {one.arm: one.factor for one in self.terms}

    @property
    def statistic(self) -> Statistic:
        """The one that is taken of every arm."""
        (found,) = {one.statistic for one in self.terms}
        return found


def _rows(table: str) -> tuple[Hypothesis, ...]:
    found = []
    for name, row in _TABLES[table].items():
        seeds = protocol.ROUND_2_EVALUATOR[: row.pop("seeds", len(protocol.ROUND_2_SEEDS))]
        found.append(Hypothesis(name, asks=tuple(row.pop("asks", ())), seeds=seeds, **row))
    return tuple(found)


_TABLES = rows_beside(__file__, "round_2.toml")
HYPOTHESES = _rows("hypotheses")
BESIDE = _rows("beside")
"""Measured and told with their intervals; no part of the family, and decide nothing."""
ASKED_OTHERWISE: Mapping[str, str] = _TABLES["asked_otherwise"]
"""Claims of the paper that are asked again, and what of the question is another one."""
NOT_TESTABLE: Mapping[str, str] = _TABLES["not_testable"]
"""Claims of the paper that the nano world cannot decide, and why."""


NOTHING = Estimate(np.nan, 0)
NOT_WHOLE = "its block is not whole yet"


@dataclass(frozen=True)
class Outcome:
    """What runs say of a hypothesis; ``p`` is two-sided and corrected by Holm over the family."""

    hypothesis: Hypothesis
    state: str = INCONCLUSIVE
    estimate: Estimate = NOTHING
    p: float = 1.0
    reason: str = ""


Curves = Mapping[str, Mapping[int, RunCurves]]
Blocks = Mapping[str, Mapping[str, Mapping[int, "RunRecord"]]]
"""Finished runs by block, arm and seed."""


def primary(hypothesis: Hypothesis, curves: Curves) -> Estimate:
    """The contrast over the seeds that all of its arms have.

    Raises:
        UserError: an arm has no run, or its runs no evaluation in the window.
    """
    if absent := [arm for arm in hypothesis.weights if not curves.get(arm)]:
        raise UserError(f"no finished run of {', '.join(absent)}")
    wanted = set(hypothesis.seeds)
    chosen = {
        arm: {seed: one for seed, one in curves[arm].items() if seed in wanted}
        for arm in hypothesis.weights
    }
    evidence = Evidence(chosen, by_feature=True)
    if not evidence.seeds:
        raise UserError("no seed of round 2 was run in all of its arms")
    terms = [
        (one.factor / 2, evidence.accuracy(one.arm, longest=longest), one.statistic)
        for one in hypothesis.terms
        for longest in (False, True)
    ]
    return widened(part(hypothesis.id, POINTS, *terms).estimate)


def widened(found: Estimate) -> Estimate:
    """An estimate whose variance over features is what so few of them need: 16/15 for the bias of
    resampling 16, and the square of Student's t over the normal quantile with 15 degrees of
    freedom at Holm's strictest level (3.37 / 2.87). Without it the family errs in 7 % of simulated
    rounds in place of 5 (``benchmarks/round_2.py``).
    """
    return replace(found, problem_variance=FEATURE_INFLATION * found.problem_variance)


def decided(found: Estimate, predicts: str, margin: float) -> tuple[str, float]:
    """The state of one hypothesis and its two-sided p-value, before any correction."""
    # Inside the margin counts first, as in round 1, whatever side of 0 it is on.
    state = part_state(found, margin, below=SUPPORTED if predicts == APART else REFUTED)
    p = min(found.p_inside(margin), found.p_apart)
    return (REFUTED if state == NO_EFFECT else state), p


def outcome(hypothesis: Hypothesis, curves: Curves) -> Outcome:
    """One hypothesis by itself."""
    try:
        found = primary(hypothesis, curves)
    except UserError as error:
        return Outcome(hypothesis, reason=str(error))
    if found.seeds < len(hypothesis.seeds):
        few = f"{found.seeds} of its {len(hypothesis.seeds)} seeds"
        return Outcome(hypothesis, estimate=found, reason=few)
    state, p = decided(found, hypothesis.predicts, MARGINS[POINTS].value)
    return Outcome(hypothesis, state, found, p)


def corrected(outcomes: list[Outcome]) -> list[Outcome]:
    """After Holm over all twelve, measured or not: what is over 5 % is inconclusive."""
    made = []
    for one, p in zip(outcomes, holm([one.p for one in outcomes]), strict=True):
        if one.state != INCONCLUSIVE and p > ALPHA:
            reason = f"{one.state} by itself, not after correction (p = {p:.3f})"
            made.append(replace(one, state=INCONCLUSIVE, p=float(p), reason=reason))
        else:
            made.append(replace(one, p=float(p)))
    return made


def measured(family: Sequence[Hypothesis], blocks: Blocks) -> list[Outcome]:
    """Each by itself, from blocks that are whole; what is of another one stays open."""
    curves = {
        block: {arm: {s: run_curves(one) for s, one in runs.items()} for arm, runs in arms.items()}
        for block, arms in blocks.items()
    }
    return [
        outcome(one, curves[one.block]) if one.block in curves else Outcome(one, reason=NOT_WHOLE)
        for one in family
    ]


def assess(blocks: Blocks) -> dict[str, Outcome]:
    """The whole family by id; nothing of round 1 counts."""
    return {one.hypothesis.id: one for one in corrected(measured(HYPOTHESES, blocks))}


def claim_states(outcomes: Mapping[str, Outcome]) -> dict[str, tuple[str, str]]:
    """By claim of the paper that round 2 asks again, or that cannot be decided here: its state and
    why. A claim is refuted where any hypothesis about it is, supported where all are.
    """
    asked: dict[str, list[Outcome]] = {}
    for one in outcomes.values():
        for claim in one.hypothesis.asks:
            asked.setdefault(claim, []).append(one)
    found = {claim: (NOT_TESTABLE_HERE, why) for claim, why in NOT_TESTABLE.items()}
    for claim, about in asked.items():
        told = ", ".join(f"{one.hypothesis.id} {one.state}" for one in about)
        state = second_state([one.state for one in about])
        if state != INCONCLUSIVE or claim not in found:
            found[claim] = state, told
    return found
