"""The rules that turn estimates into states: of a part, of a claim, of a part of a question.

A claim is measured in parts, numbers that are positive when it holds. A part is

- **no effect** when its whole 90 % interval lies inside the margin of its measure (two one-sided
  tests; :mod:`mcbench.claims.margins`), whatever side of 0 it is on;
- **supported** when its 95 % interval lies above 0, **contradicted** when it lies below 0;
- **inconclusive** otherwise. A part that compares with a threshold (such as "twice as much") has no
  margin, as 0 does not mean there that nothing happens.

All deciding parts must hold for a claim. It is

- **supported** when all of them are; **no effect** when none of them shows one;
- **mixed** when some part is supported and another is contradicted or shows no effect;
- **contradicted** when some part is and none is supported: one failing part is enough;
- **inconclusive** otherwise.

Of round 2 there are two more states. A claim is **refuted** when a required part is contradicted or
shows no effect, because a conjunction with one part shown equivalent to nothing is wrong, too; it
is **not testable here** where the nano world has no room for a part, with the reason.

Each state has a p-value: of "all parts hold" the largest of their own (intersection-union test), of
"some part is reversed" Simes' over all parts, which the reverse of a supported claim always passes,
so that a contradiction is as strict as support and no stricter. After Holm's correction over the
claims of the experiment it must be at most 5 %, or the claim stays inconclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from scipy import special

from mcbench.claims.evidence import Part
from mcbench.claims.statistics import Estimate

SUPPORTED, CONTRADICTED, NO_EFFECT = "supported", "contradicted", "no effect"
MIXED, INCONCLUSIVE = "mixed", "inconclusive"
REFUTED, NOT_TESTABLE_HERE = "refuted", "not testable here"
"""Of round 2 alone: the states of round 1 stay as they were given."""
HIGHER, LOWER = "higher", "lower"
STATES = (SUPPORTED, CONTRADICTED, NO_EFFECT, MIXED, INCONCLUSIVE)
"""The states of the paper's claims."""
ALPHA = 0.05
POWER = 0.8  # probability with which the seeds that are asked for decide
MOST_SEEDS = 1000  # beyond these the number means nothing


def part_state(
    found: Estimate, margin: float | None, above: str = SUPPORTED, below: str = CONTRADICTED
) -> str:
    """The state of one part; ``margin`` is None where it compares with a threshold."""
    if margin is not None and found.p_inside(margin) <= ALPHA:
        return NO_EFFECT
    if found.low > 0:
        return above
    return below if found.high < 0 else INCONCLUSIVE


def claim_state(states: Collection[str]) -> str:
    """The state of a claim from those of its deciding parts, before any correction."""
    found = set(states)
    if found in ({SUPPORTED}, {NO_EFFECT}):
        return found.pop()
    if SUPPORTED in found and found & {CONTRADICTED, NO_EFFECT}:
        return MIXED
    return CONTRADICTED if CONTRADICTED in found else INCONCLUSIVE


def second_state(states: Collection[str]) -> str:
    """The state of a claim in round 2, from those of its required parts."""
    found = set(states)
    if found & {REFUTED, CONTRADICTED, NO_EFFECT}:
        return REFUTED
    return SUPPORTED if found == {SUPPORTED} else INCONCLUSIVE


def p_values(part: Part) -> dict[str, float]:
    """Of one part, the p-value of each state that it can have."""
    found = part.estimate
    return {
        SUPPORTED: found.p_above,
        CONTRADICTED: found.p_below,
        NO_EFFECT: 1.0 if part.margin is None else found.p_inside(part.margin),
    }


def answer_state(part: Part) -> tuple[str, float]:
    """The state of a part where no direction is predicted, before any correction, and its p-value:
    two-sided unless the state is no effect.
    """
    state = part_state(part.estimate, part.margin, HIGHER, LOWER)
    return state, p_values(part)[NO_EFFECT] if state == NO_EFFECT else part.estimate.p_apart


def claim_p(state: str, parts: Sequence[Part]) -> float:
    """The p-value that goes with a claim's state; 1 for an inconclusive one."""
    if state == INCONCLUSIVE:
        return 1.0
    by_part = [p_values(part) for part in parts]
    if state in (SUPPORTED, NO_EFFECT):
        return max(one[state] for one in by_part)
    some = {name: simes([one[name] for one in by_part]) for name in by_part[0]}
    if state == CONTRADICTED:
        return some[CONTRADICTED]
    return max(some[SUPPORTED], min(some[CONTRADICTED], some[NO_EFFECT]))


def simes(p: Sequence[float]) -> float:
    """Simes' p-value of "some of these hypotheses are false".

    The smallest of count x p(i) / i over the p-values in order.
    """
    ordered = np.sort(np.asarray(p, dtype=float))
    return float((len(p) * ordered / np.arange(1, len(p) + 1)).min())


def decisive(state: str, parts: Sequence[Part]) -> Part:
    """The part that a claim's state hangs on: of those that must all hold the weakest, else the
    one that speaks most clearly against it.
    """
    if state == MIXED:
        against = [one for one in parts if one.state in (CONTRADICTED, NO_EFFECT)]
        return min(against, key=lambda one: p_values(one)[one.state])
    if state == CONTRADICTED:
        return min(parts, key=lambda one: one.estimate.p_below)
    kind = NO_EFFECT if state == NO_EFFECT else SUPPORTED
    return max(parts, key=lambda one: p_values(one)[kind])


def seeds_to_decide(
    found: Estimate, margin: float | None, tests: int = 1, sides: int = 1
) -> int | None:
    """How many seeds would decide a part with 80 % probability, in either direction or as no
    effect, if effect and scatter are what was observed.

    Args:
        tests: the claims that Holm's correction is over, at its strictest.
        sides: 2 where no direction is predicted, so that a difference is corrected for both.

    Returns:
        None where no number up to :data:`MOST_SEEDS` would, because the choice of problems alone
        leaves it open, or where the scatter is not known.
    """
    if np.isnan(found.seed_variance):
        return None
    seeds = np.arange(max(found.seeds + 1, 2), MOST_SEEDS + 1)
    error = np.sqrt(found.seed_variance * found.seeds / seeds + found.problem_variance)
    strict = special.stdtrit(seeds - 1, 1 - ALPHA / tests)
    apart = special.stdtrit(seeds - 1, 1 - ALPHA / (sides * tests))
    sided = np.maximum(apart, special.stdtrit(seeds - 1, 1 - ALPHA / 2))
    power = special.stdtr(seeds - 1, abs(found.value) / error - sided)
    if margin is not None:
        room = [special.stdtr(seeds - 1, (margin + side * found.value) / error - strict)
                for side in (-1, 1)]  # fmt: skip
        power = np.maximum(power, room[0] + room[1] - 1)
    enough = np.flatnonzero(power >= POWER)
    return int(seeds[enough[0]]) if len(enough) else None
