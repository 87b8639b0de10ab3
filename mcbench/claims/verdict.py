"""An insight: a claim with its statistic, its decision rule and a verdict computed from records.

A claim is a list of parts, numbers that are positive when the claim holds (:mod:`.evidence`). It is

- **supported** when every part's 95 % interval lies above 0 and the claim's p-value stays at or
  under 5 % after Holm's correction over all claims of the experiment;
- **contradicted** when some part's interval lies below 0 and the p-value of the opposite does;
- **inconclusive** otherwise, and always with too few seeds or without the runs that it needs.

All parts must hold, so the largest of their one-sided p-values is the claim's own
(intersection-union test). One failing part is enough against it, so there the smallest counts,
times the number of parts, and two-sided, as nobody predicted which part would turn around. The
effect and interval of a verdict are those of the part that decides: the weakest one, or the one
that contradicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcbench.claims.evidence import Evidence, Part, RunCurves, run_curves
from mcbench.claims.measurements import Measurements
from mcbench.claims.selection import Records, runs_of
from mcbench.claims.statistics import holm
from mcbench.errors import UserError

SUPPORTED, CONTRADICTED, INCONCLUSIVE = STATES = ("supported", "contradicted", "inconclusive")
ALPHA = 0.05

Runs = Mapping[str, Mapping[int, RunCurves]]


@dataclass(frozen=True)
class Verdict:
    """What the records say about a claim.

    ``effect`` and ``interval`` (95 %, NaN where there is none) are positive in the direction of the
    claim and belong to the part that decides; ``p`` is the claim's p-value after Holm's correction
    within its experiment; ``parts`` holds every part.
    """

    state: str
    effect: float
    interval: tuple[float, float]
    n_seeds: int
    note: str
    unit: str = ""
    p: float = 1.0
    parts: tuple[Part, ...] = ()

    @property
    def reason(self) -> str:
        """Why nothing is decided: what the note says before it describes the parts."""
        return self.note.removesuffix("; ".join(map(describe, self.parts))).rstrip("; ")


@dataclass(frozen=True)
class Finding:
    """A claim measured by itself: its parts, and the p-values for and against it.

    ``missing`` says why there can be no decision; empty where there can.
    """

    parts: tuple[Part, ...]
    p_for: float
    p_against: float
    n_seeds: int
    missing: str = ""


Statistic = Callable[[Evidence], list[Part]]
Rule = Callable[[Sequence[Part]], tuple[float, float]]


def every_part(parts: Sequence[Part]) -> tuple[float, float]:
    """The p-values for "all parts hold" and for "some part is reversed"."""
    p_for = max(part.estimate.p_above for part in parts)
    p_against = 2 * min(part.estimate.p_below for part in parts) * len(parts)
    return p_for, min(1.0, p_against)


@dataclass(frozen=True)
class Insight:
    """One executable claim.

    Attributes:
        claim: in our words.
        source: section and figure of the paper.
        arms: the arms of ``experiment`` that are compared; none where only measurements count.
        statistic: evidence -> parts; its docstring says what is computed.
        rule: parts -> p-values for and against.
        seeds: seeds that every arm needs for a decision; 0 where the claim has no seeds.
    """

    id: str
    section: str
    claim: str
    source: str
    experiment: str
    arms: tuple[str, ...]
    statistic: Statistic
    rule: Rule = every_part
    seeds: int = 3

    def assess(self, records: Records, measurements: Measurements = ()) -> Verdict:
        """The verdict, corrected for the other claims of the experiment on the same records."""
        from mcbench.claims import INSIGHTS

        family = [one for one in INSIGHTS.values() if one.experiment == self.experiment]
        return assess_family(family, records, measurements)[self.id]

    def measure(self, runs: Runs, measurements: Measurements = ()) -> Finding:
        """The parts on the runs of one setting, by arm and seed; decides nothing."""
        return measured(self, runs, measurements)


class Comparison(Protocol):
    """What can be measured: an insight, or a question of ours."""

    @property
    def experiment(self) -> str: ...
    @property
    def arms(self) -> tuple[str, ...]: ...
    @property
    def statistic(self) -> Statistic: ...
    @property
    def rule(self) -> Rule: ...
    @property
    def seeds(self) -> int: ...


def measured(one: Comparison, runs: Runs, measurements: Measurements = ()) -> Finding:
    """The parts of a comparison on the runs of one setting, or why there are none."""
    absent = [arm for arm in one.arms if not runs.get(arm)]
    if absent:
        return Finding((), 1.0, 1.0, 0, f"no finished run of {_names(absent)}")
    evidence = Evidence({arm: runs[arm] for arm in one.arms}, measurements, one.experiment)
    if one.arms and not evidence.seeds:
        return Finding((), 1.0, 1.0, 0, f"no seed was run in all of {_names(one.arms)}")
    try:
        parts = tuple(one.statistic(evidence))
    except UserError as error:
        return Finding((), 1.0, 1.0, len(evidence.seeds), str(error))
    count = len(evidence.seeds) if one.arms else min(part.estimate.seeds for part in parts)
    count = count if one.seeds else 0
    few = f"{count} of the {one.seeds} seeds it needs" if count < one.seeds else ""
    return Finding(parts, *one.rule(parts), count, few)


def assess_family(
    family: Sequence[Insight], records: Records, measurements: Measurements = ()
) -> dict[str, Verdict]:
    """Verdicts of all claims of one experiment, by id, corrected together.

    Claims that cannot be measured stay in the count, so that a verdict never depends on which
    other claims happen to have records.
    """
    runs = arms_of(family[0].experiment, {arm for one in family for arm in one.arms}, records)
    findings = {one.id: one.measure(runs, measurements) for one in family}
    p_for = holm([1.0 if f.missing else f.p_for for f in findings.values()])
    p_against = holm([1.0 if f.missing else f.p_against for f in findings.values()])
    return {
        name: decide(finding, float(p_for[index]), float(p_against[index]), len(family))
        for index, (name, finding) in enumerate(findings.items())
    }


def decide(finding: Finding, p_for: float, p_against: float, claims: int) -> Verdict:
    """State and note of a finding, given its corrected p-values and how many were corrected."""
    if not finding.parts:
        nothing = (float("nan"), float("nan"))
        return Verdict(INCONCLUSIVE, nothing[0], nothing, finding.n_seeds, finding.missing)
    weakest = max(finding.parts, key=lambda part: part.estimate.p_above)
    worst = min(finding.parts, key=lambda part: part.estimate.p_below)
    above = all(part.estimate.low > 0 for part in finding.parts)
    below = worst.estimate.high < 0
    state, shown, p = INCONCLUSIVE, weakest, p_for
    if below:
        shown, p = worst, p_against
    if not finding.missing and above and p_for <= ALPHA:
        state = SUPPORTED
    elif not finding.missing and below and p_against <= ALPHA:
        state = CONTRADICTED
    remarks = [finding.missing] if finding.missing else []
    if state == INCONCLUSIVE and not finding.missing and (above or below):
        remarks.append(f"not after Holm's correction over {claims} claims (p = {p:.3f})")
    note = "; ".join([*remarks, *(describe(part) for part in finding.parts)])
    found = shown.estimate
    return Verdict(
        state, found.value, (found.low, found.high), finding.n_seeds, note, shown.unit, p,
        finding.parts,
    )  # fmt: skip


def describe(part: Part) -> str:
    """``pass@1 at the end: +3.1 points [+1.0, +5.2]``."""
    found = part.estimate
    digits = 1 if part.unit in ("points", "tokens", "updates") else 3
    unit = f" {part.unit}" if part.unit else ""
    text = f"{part.name}: {found.value:+.{digits}f}{unit}"
    if found.low == found.low:
        text += f" [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"
    return text


def arms_of(experiment: str, arms: Iterable[str], records: Records) -> Runs:
    """The curves of :func:`mcbench.claims.selection.runs_of`."""
    found = runs_of(experiment, sorted(arms), records)
    return {
        arm: {seed: run_curves(one) for seed, one in runs.items()} for arm, runs in found.items()
    }


def _names(arms: Sequence[str]) -> str:
    return ("arm " if len(arms) == 1 else "arms ") + ", ".join(arms)


def assess_all(
    insights: Iterable[Insight], records: Records, measurements: Measurements = ()
) -> dict[str, Verdict]:
    """The verdicts of all insights, by id, in the order given."""
    families: dict[str, list[Insight]] = {}
    for insight in insights:
        families.setdefault(insight.experiment, []).append(insight)
    found: dict[str, Verdict] = {}
    for family in families.values():
        found |= assess_family(family, records, measurements)
    return {one.id: found[one.id] for family in families.values() for one in family}


def summary_rows(
    insights: Iterable[Insight], records: Records, measurements: Measurements = ()
) -> list[dict[str, Any]]:
    """One row an insight for the summary table; effect and interval as in :class:`Verdict`."""
    insights = list(insights)
    verdicts = assess_all(insights, records, measurements)
    return [
        {
            "id": one.id,
            "section": one.section,
            "claim": one.claim,
            "effect": verdicts[one.id].effect,
            "low": verdicts[one.id].interval[0],
            "high": verdicts[one.id].interval[1],
            "unit": verdicts[one.id].unit,
            "seeds": verdicts[one.id].n_seeds,
            "state": verdicts[one.id].state,
            "experiment": one.experiment,
            "note": verdicts[one.id].note,
            "reason": verdicts[one.id].reason,
        }
        for one in insights
    ]


def count_states(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many rows of the summary are in each state, all three of them."""
    found = Counter(row["state"] for row in rows)
    return {state: found[state] for state in STATES}
