"""From finished runs to results: claims are measured, then decided by :mod:`mcbench.claims.rules`.

A claim of the paper's predicts the sign of every part. Our questions predict no direction: each of
their parts is **no effect** by the same margins, **higher** or **lower** when its 95 % interval
excludes 0, after Holm's correction over the parts of the question (two-sided), **inconclusive**
otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mcbench.claims import protocol, rules
from mcbench.claims.claim import Claim
from mcbench.claims.curves import RunCurves, alike, duplicates, features_in, run_curves
from mcbench.claims.evidence import Evidence, Part
from mcbench.claims.margins import POINTS, TOKENS, UPDATES
from mcbench.claims.measurements import Measurements
from mcbench.claims.rules import ALPHA, HIGHER, INCONCLUSIVE, LOWER, STATES
from mcbench.claims.statistics import Estimate, holm
from mcbench.claims.table import claims_of
from mcbench.errors import UserError

if TYPE_CHECKING:
    from mcbench.runs.store import RunRecord

Curves = Mapping[str, Mapping[int, RunCurves]]

NOTHING = Part("", Estimate(np.nan, 0), POINTS)


@dataclass(frozen=True)
class Result:
    """What runs say about a claim: first measured by itself (:func:`measure`), then decided with
    the others of its experiment (:func:`decide`, :func:`answer`).

    ``decisive`` is the part that decides (:func:`mcbench.claims.rules.decisive`); of our questions
    the clearest one. ``p`` goes with the state, after Holm's correction. ``parts`` holds every part
    with its own state, which is by its intervals alone in a claim of the paper's. ``reason`` says
    why nothing is decided and how many seeds would; ``basis`` what the seeds are to the protocol,
    ``same`` which arms are one, ``second`` what round 2 makes of the claim.
    ``by_feature`` is the same claim on other features: where held-out problems share ``features``,
    assessed with whole features resampled (:class:`mcbench.claims.evidence.Evidence`); else None.
    """

    claim: Claim
    n_seeds: int
    state: str = INCONCLUSIVE
    reason: str = ""
    p: float = 1.0
    decisive: Part = NOTHING
    parts: tuple[Part, ...] = ()
    basis: str = ""
    same: str = ""
    second: str = ""
    features: int = 0
    by_feature: Result | None = None

    @property
    def deciding(self) -> tuple[Part, ...]:
        """The parts that are not only told beside the others."""
        return tuple(part for part in self.parts if not part.beside)

    @property
    def elsewhere(self) -> str:
        """The state on other features, where it is another; empty where it is not, and for our
        questions, whose parts have the states that count.
        """
        other = self.by_feature if self.claim.directed else None
        return other.state if other and other.state != self.state else ""

    def on_other_features(self, part: Part) -> Part:
        """One of ``parts`` as ``by_feature`` has it; itself without."""
        others = self.by_feature.parts if self.by_feature else ()
        return next((one for one in others if one.name == part.name), part)

    def moved(self, part: Part) -> Part | None:
        """One of ``parts`` on other features, where its state is another there."""
        there = self.on_other_features(part)
        return there if there.state != part.state else None

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
    def part_states(self) -> str:
        """How many deciding parts are in each state, such as ``2 supported, 1 no effect``."""
        counts = Counter(part.state for part in self.deciding)
        order = (*STATES, HIGHER, LOWER)
        return ", ".join(f"{counts[state]} {state}" for state in order if counts[state])

    @property
    def note(self) -> str:
        """The reason, if there is one, and every part."""
        return "; ".join([*filter(None, [self.reason]), *map(describe, self.parts)])


def assess(
    experiment: str,
    runs: Mapping[str, Mapping[int, RunRecord]],
    measurements: Measurements = (),
    margins: float = 1.0,
    profile: str | None = None,
    by_feature: bool = True,
    whole: bool = True,
) -> dict[str, Result]:
    """The results of all claims of an experiment, the paper's and ours, by id.

    The paper's that cannot be measured stay in the count that is corrected for, so that a result
    never depends on which other claims happen to have runs.

    Args:
        runs: finished runs of one setting, by arm and seed; arms of other experiments as
            ``home/arm`` (:func:`mcbench.claims.table.arms_elsewhere`), those of ``cross_model`` are
            the model generations ``older`` and ``newer``.
        margins: what every margin is multiplied by; a verdict has 1.
        profile: that of the runs, where they are as long as it says; else None. The protocol names
            the one that decides.
        by_feature: whether results say what they would be on other features, which takes claims on
            accuracy twice as long.
        whole: whether a decision needs all seeds of the protocol, where seeds are its own; a
            verdict does.
    """
    runs = {arm: protocol.counted(seeds) for arm, seeds in runs.items()}
    measurements = protocol.counted_rows(measurements)
    claims = claims_of(experiment)
    needed = {arm for one in claims for arm in one.arms}
    columns = {name for one in claims for contrast in one.contrasts for name in contrast.columns}
    curves = {
        arm: {seed: run_curves(record, columns) for seed, record in of_arm.items()}
        for arm, of_arm in runs.items()
        if arm in needed
    }
    late = {arm for arm, of in runs.items() if not protocol.of_first_round(of.values())}

    def results(by_feature: bool) -> dict[str, Result]:
        how = (curves, measurements, margins, profile, by_feature, whole)
        return _decided([measure(one, *how) for one in claims], late)

    found = results(by_feature=False)
    features = features_in(run for of_arm in curves.values() for run in of_arm.values())
    if not (features and by_feature):
        return found
    others = results(by_feature=True)
    return {
        name: replace(one, features=features, by_feature=others[name])
        for name, one in found.items()
    }


def _decided(findings: Sequence[Result], late: set[str]) -> dict[str, Result]:
    """The results of measured claims, by id; arms that are ``late`` are of no first round."""
    family = [found for found in findings if found.claim.directed]
    corrected = holm([found.p for found in family])
    results = [
        decide(found, float(p), len(family)) for found, p in zip(family, corrected, strict=True)
    ]
    results += [answer(found) for found in findings if not found.claim.directed]
    return {
        one.claim.id: replace(one, basis="")
        if one.basis == "first round" and late & {*one.claim.arms}
        else one
        for one in results
    }


def measure(
    claim: Claim,
    curves: Curves,
    measurements: Measurements = (),
    margins: float = 1.0,
    profile: str | None = None,
    by_feature: bool = False,
    whole: bool = True,
) -> Result:
    """The parts of a claim on the runs of one setting, or why there are none; state and p-value are
    those before any correction.
    """
    if absent := [arm for arm in claim.arms if not curves.get(arm)]:
        return Result(claim, 0, reason=f"no finished run of {_names(absent)}")
    arms = {arm: curves[arm] for arm in claim.arms}
    evidence = Evidence(arms, measurements, claim.experiment, by_feature)
    if claim.arms and not evidence.seeds:
        return Result(claim, 0, reason=f"no seed was run in all of {_names(claim.arms)}")
    basis = protocol.basis(evidence.seeds, deciding=profile == claim.profile)
    try:
        parts = tuple(replace(part, margins=margins) for part in claim.parts(evidence))
    except UserError as error:
        return Result(claim, len(evidence.seeds), reason=str(error), basis=basis)
    count = len(evidence.seeds) if claim.arms else min(part.estimate.seeds for part in parts)
    count = count if claim.seeds else 0
    needed = protocol.needed(evidence.seeds, claim.seeds) if whole else claim.seeds
    few = f"{count} of the {needed} seeds it needs" if count < needed else ""
    same = alike(duplicates(arms))
    if same and claim.directed and not few:
        few = f"{same}: there is nothing to compare"
    if claim.directed and not few:
        parts = tuple(
            replace(part, state=rules.part_state(part.estimate, part.margin)) for part in parts
        )
    found = Result(claim, count, reason=few, parts=parts, basis=basis, same=same)
    state = INCONCLUSIVE if few else rules.claim_state([part.state for part in found.deciding])
    return replace(found, state=state, p=rules.claim_p(state, found.deciding))


def decide(found: Result, p: float, claims: int) -> Result:
    """The result of a claim of the paper's, given its p-value as corrected over ``claims``."""
    if not found.parts:
        return found
    state, reason = found.state, found.reason
    decisive = rules.decisive(state, found.deciding)
    if state != INCONCLUSIVE and p > ALPHA:
        reason = f"{state} by itself, not after correction for {claims} claims (p = {p:.3f})"
        state = INCONCLUSIVE
    elif (
        not reason and state == INCONCLUSIVE and decisive.estimate.low * decisive.estimate.high > 0
    ):
        reason = "this part alone is apart from 0, others are open"
    parts = tuple(_with_seeds(part, claims, 1) for part in found.parts)
    if state == INCONCLUSIVE and not found.reason:
        reason = "; ".join(filter(None, [reason, _seeds_needed(found.state, parts)]))
    decisive = next(part for part in parts if part.name == decisive.name)
    return replace(found, state=state, reason=reason, p=p, decisive=decisive, parts=parts)


def _with_seeds(part: Part, tests: int, sides: int) -> Part:
    """A part with the number of seeds that would decide it."""
    needed = rules.seeds_to_decide(part.estimate, part.margin, tests, sides)
    return replace(part, seeds_needed=needed)


def _seeds_needed(state: str, parts: Sequence[Part]) -> str:
    """How many seeds would decide a claim: those of its undecided parts, or of all where only the
    correction stands against it.
    """
    open_parts = [one for one in parts if not one.beside
                  and (state != INCONCLUSIVE or one.state == INCONCLUSIVE)]  # fmt: skip
    if any(np.isnan(one.estimate.seed_variance) for one in open_parts):
        return "some parts could not be measured"
    counts = [one.seeds_needed for one in open_parts]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return f"no number of seeds up to {rules.MOST_SEEDS} would decide it"
    return f"about {max(known)} seeds would decide it" if known else ""


def answer(found: Result) -> Result:
    """The result of a question of ours."""
    if not found.parts:
        return found
    deciding = found.deciding or found.parts
    kinds, single = zip(*map(rules.answer_state, deciding), strict=True)
    p = _holm_of_distinct(single, deciding) if found.same else holm(single)
    decided = [
        replace(
            _with_seeds(part, len(deciding), 2),
            state=kind if not found.reason and corrected <= ALPHA else INCONCLUSIVE,
        )
        for part, kind, corrected in zip(deciding, kinds, p, strict=True)
    ]
    at = int(np.argmin(single))
    left = iter(decided)
    parts = tuple(one if one.beside and found.deciding else next(left) for one in found.parts)
    state, reason = decided[at].state, found.reason or found.same
    return replace(
        found, state=state, reason=reason, p=float(p[at]), decisive=decided[at], parts=parts
    )


def _holm_of_distinct(p: Sequence[float], parts: Sequence[Part]) -> np.ndarray:
    """Holm's correction where some arms are one: parts that compare the same runs are one test, and
    those that compare a run with itself are none.
    """
    shown = [(one.unit, one.estimate.value, one.estimate.p_below) for one in parts]
    nothing = [one.estimate.value == 0 and np.isnan(one.estimate.low) for one in parts]
    first = {key: at for at, key in reversed(list(enumerate(shown))) if not nothing[at]}
    tested = sorted(first.values())
    corrected = dict(zip(tested, holm([p[at] for at in tested]), strict=True))
    return np.array([
        1.0 if nothing[at] else corrected[first[key]] for at, key in enumerate(shown)
    ])  # fmt: skip


def digits_of(unit: str) -> int:
    """Decimals that a number of this unit is shown with."""
    return 1 if unit in (POINTS, TOKENS, UPDATES) else 3


def describe(part: Part) -> str:
    """``pass@1 at the end: +3.1 points [+1.0, +5.2]``."""
    found, digits = part.estimate, digits_of(part.unit)
    text = f"{part.name}: {found.value:+.{digits}f} {part.unit}".rstrip()
    if not np.isnan(found.low):
        text += f" [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"
    return text


def _names(arms: Sequence[str]) -> str:
    return ("arm " if len(arms) == 1 else "arms ") + ", ".join(arms)
