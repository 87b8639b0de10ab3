"""What is shown of round 2: its hypotheses, and what they make of the paper's claims."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import pandas as pd

from mcbench.claims import CLAIMS, Result
from mcbench.claims.evidence import Part
from mcbench.claims.margins import POINTS
from mcbench.claims.round_2 import (
    ASKED_OTHERWISE,
    BESIDE,
    Blocks,
    Outcome,
    claim_states,
    measured,
)
from mcbench.claims.rules import INCONCLUSIVE, REFUTED, SUPPORTED
from mcbench.report.claims import in_brackets, in_margins, numbers
from mcbench.report.page import Section, Table, Verdict

TOLD = (
    "Twelve hypotheses, chosen after round 1 and registered before their runs, on fresh seeds; "
    "nothing is pooled with round 1. A block is not looked at before it is whole."
)
CHANGED = "24 or 36 seeds, both lengths, other features, one correction; rows say what else."
Outcomes = Mapping[str, Outcome]


def counted(outcomes: Outcomes) -> str:
    """How many hypotheses are in each state, and of how many nothing is measured."""
    unmeasured = sum(not one.estimate.seeds for one in outcomes.values())
    if unmeasured == len(outcomes):
        return "none measured yet"
    counts = Counter(one.state for one in outcomes.values())
    told = ", ".join(f"{counts[state]} {state}" for state in (SUPPORTED, REFUTED, INCONCLUSIVE))
    return told + (f" ({unmeasured} not measured yet)" if unmeasured else "")


def sentence(outcomes: Outcomes) -> str:
    """What the hypotheses came to and each that is decided, shortly, with its effect; empty before
    any is measured.
    """
    if all(not one.estimate.seeds for one in outcomes.values()):
        return ""
    told = [f"Round 2, twelve hypotheses on fresh seeds: {counted(outcomes)}."]
    for state in (SUPPORTED, REFUTED):
        if of := [_shortly(one) for one in outcomes.values() if one.state == state]:
            told.append(f"{state.capitalize()}, in {POINTS}: {'; '.join(of)}.")
    return " ".join(told)


def _shortly(one: Outcome) -> str:
    """Without what it is an average over, and what it is taken to mean."""
    says = re.split(r": |, on average", one.hypothesis.says.rstrip("."))[0]
    effect, interval = numbers(_part(one)).values()
    return f"{says} ({effect.removesuffix(f' {POINTS}')} [{interval}])"


def hypotheses_table(outcomes: Outcomes) -> pd.DataFrame:
    """One row each: what it says, its primary, state, p after correction, why it is open."""
    return pd.DataFrame([_row(one) for one in outcomes.values()])


def _row(one: Outcome) -> dict[str, str]:
    asked = one.hypothesis
    return {
        "Id": asked.id,
        "Hypothesis": asked.says,
        "State": one.state,
        **numbers(_part(one)),
        "Seeds": f"{one.estimate.seeds} of {len(asked.seeds)}",
        "p, corrected": "–" if one.p >= 1 else f"{one.p:.3f}",
        "Why there is no decision": one.reason or "–",
    }


def _part(one: Outcome) -> Part:
    """The primary as a claim's part, which is told alike."""
    return Part(one.hypothesis.id, one.estimate, POINTS)


def claims_table(outcomes: Outcomes, before: Mapping[str, Result] | None = None) -> pd.DataFrame:
    """The paper's claims that round 2 asks again or says not to be testable here, in their order.

    Args:
        before: round 1's results by claim, where they are known.
    """
    found = claim_states(outcomes)
    rows = [
        {
            "Claim": f"{name}: {claim.claim}",
            **({} if before is None else {"Round 1": _state(before.get(name))}),
            "Round 2": found[name][0],
            "By": found[name][1],
            "Asked otherwise": ASKED_OTHERWISE.get(name, "–"),
        }
        for name, claim in CLAIMS.items()
        if name in found
    ]
    return pd.DataFrame(rows)


def _state(one: Result | None) -> str:
    return one.state if one else "–"


def beside_table(blocks: Blocks) -> pd.DataFrame:
    """The contrasts that are told beside and decide nothing, of blocks that are there."""
    rows = [
        {"Contrast": one.hypothesis.id, "What": one.hypothesis.says, **numbers(_part(one))}
        for one in measured(BESIDE, blocks)
        if one.hypothesis.block in blocks
    ]
    return pd.DataFrame(rows)


def tiles(outcomes: Outcomes) -> list[Verdict]:
    """The hypotheses for a first screen, in multiples of the margin."""
    made = []
    for name, one in outcomes.items():
        side, size, track = in_margins(_part(one))
        text = in_brackets(_part(one)) if track else one.reason
        says = one.hypothesis.says
        made.append(Verdict(name, says, one.state, "", text, side, size, track, "#the-hypotheses"))
    return made


def section(outcomes: Outcomes, before: Mapping[str, Result]) -> Section:
    """The index's: both rounds' states of what is asked again, and every hypothesis."""
    return Section(
        "round-2",
        "Round 2",
        CHANGED,
        [
            Table(claims_table(outcomes, before), fold="Both rounds"),
            Table(hypotheses_table(outcomes), fold="Hypotheses"),
        ],
    )


def lines(outcomes: Outcomes, before: Mapping[str, Result]) -> list[str]:
    """The same as text, a line each."""
    told = [f"Round 2, twelve hypotheses: {counted(outcomes)}", TOLD, ""]
    for row in hypotheses_table(outcomes).to_dict("records"):
        found = f"{row['Effect']:>24}  {row['95 % interval']:<20}"
        why = row["Why there is no decision"]
        said = row["Hypothesis"] if why == "–" else f"{row['Hypothesis']} ({why})"
        told.append(f"{row['Id']:4}{row['State']:13}{found} {said}")
    told += ["", "What it makes of the paper's claims (round 1, round 2, by what)", CHANGED, ""]
    for row in claims_table(outcomes, before).to_dict("records"):
        name, said = row["Claim"].split(": ", 1)
        told.append(f"{name:4}{row['Round 1']:13}{row['Round 2']:18}{said} ({row['By']})")
        if row["Asked otherwise"] != "–":
            told.append(f"{'':35}{row['Asked otherwise']}")
    return told
