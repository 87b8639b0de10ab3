"""Results of claims for people: lines, tables, sections of a page, the summary of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims import CLAIMS, STATES, Result, assess
from mcbench.claims.assess import digits_of
from mcbench.claims.claim import Claim
from mcbench.claims.evidence import Part
from mcbench.claims.margins import MARGINS
from mcbench.claims.protocol import ELSEWHERE
from mcbench.claims.rules import ALPHA, INCONCLUSIVE, MOST_SEEDS
from mcbench.experiments.experiments import EXPERIMENTS, REGISTERED
from mcbench.experiments.study import Study, results_of, studies
from mcbench.files import rows_beside
from mcbench.report.ends import interval, signed
from mcbench.report.page import Block, Facts, Link, Section, Table, Track, Verdict
from mcbench.report.paper import OTHERS
from mcbench.report.rendering import on_track
from mcbench.report.style import spoken
from mcbench.runs.store import RunRecord

MEANING = (
    "Supported: every part of the claim shows with a 95 % interval above 0. No effect: the 90 % "
    "interval of every part lies inside the margin of its measure. Contradicted: some part is "
    "reversed and none holds. Mixed: some part holds, another is reversed or shows no effect. All "
    "of these after Holm's correction over the claims of the experiment; inconclusive is anything "
    "else, also too few seeds or missing runs. These states are about models of less than two "
    "million parameters (Q18 to Q20: one of 135M) on generated problems, trained for some hundred "
    "updates: they say whether the mechanism shows here, and nothing about the paper's models."
)
RULE = (
    "Numbers are positive in the direction of the claim. Each part has a state of its own: no "
    "effect where its 90 % interval lies inside the margin, supported or contradicted where its "
    "95 % interval lies above or below 0. {fixed}; a state holds at this scale only."
)
FIXED = (
    "The rules and margins were fixed in code before the runs of the protocol (docs/protocol.md)"
)
LANDSCAPE_FIXED = (
    "The rules and margins are fixed in code (mcbench/claims) and no part of the protocol; a claim "
    "that was written after a look at runs says so in its source there"
)
OUR_RULE = (
    "A question of ours that the paper leaves open. It predicts no direction: a part shows no "
    "effect when its 90 % interval lies inside the margin of its measure, is higher or lower when "
    "its 95 % interval excludes 0, after Holm's correction over the question's parts (two-sided), "
    "and inconclusive otherwise."
)
FEATURES = (
    "“On these {count} features”: many held-out problems ask for one of {count} expressions, such "
    "as 2 * x; the first interval draws problems anew, the one “on other features” whole "
    "expressions, and it is shown where that would change the state."
)
BASES = {
    "protocol": "",
    "first round": "first round: seeds 0 to 4, looked at before the protocol; no verdict of it",
    ELSEWHERE: "the protocol's seeds, at another profile or length than it names; no verdict of it",
}
"""What is said of the seeds a result rests on, :func:`mcbench.claims.protocol.basis`."""
Results = Mapping[str, Result]


def papers(results: Results) -> dict[str, Result]:
    """The results of the papers' claims, which predict a direction: this one's or its rivals'."""
    return {name: one for name, one in results.items() if CLAIMS[name].directed}


def ours(results: Results) -> dict[str, Result]:
    """The results of our questions."""
    return {name: one for name, one in results.items() if not CLAIMS[name].directed}


def features_sentence(results: Results) -> str:
    """What “on these features” means; empty where no state of any part or claim would change."""
    moved = [
        one.features for one in results.values() if one.elsewhere or any(map(one.moved, one.parts))
    ]
    return f" {FEATURES.format(count=max(moved))}" if moved else ""


def rests_on(basis: str, features: int, elsewhere: str) -> str:
    """What a result rests on: its seeds, and its features where it has another state on others."""
    on_these = f"on these {features} features; on others {elsewhere}" if elsewhere else ""
    return "; ".join(filter(None, [basis, on_these])) or "–"


def place_of(claim: Claim) -> str:
    """Where a page shows a claim's verdict, or answers a question, relative to the index."""
    part = f"claim-{claim.id}" if claim.directed else "beyond"
    return f"{EXPERIMENTS[claim.experiment].notebook}.html#{part}"


def numbers(part: Part) -> dict[str, str]:
    """A part's effect and its interval as texts; decimals follow the unit."""
    found, digits = part.estimate, digits_of(part.unit)
    effect = signed(found.value, digits)
    return {
        "Effect": effect if effect == "–" else f"{effect} {part.unit}".strip(),
        "95 % interval": interval(found.low, found.high, digits),
    }


def in_brackets(part: Part) -> str:
    """``+1.0 points [+0.2 to +1.8]``."""
    return "{} [{}]".format(*numbers(part).values())


def result_table(results: Results, beside: bool = False) -> pd.DataFrame:
    """One row per part of each claim: positive in the direction of the claim, or of its name.

    Args:
        beside: the parts that are told beside those that decide, not these.
    """
    rows = []
    for name, one in results.items():
        for part in one.parts:
            if part.beside == beside:
                shown = numbers(part)
                shown["95 % interval"] += _elsewhere(one, part)
                rows.append({"Claim": name, "State": part.state, "What": spoken(part.name), **shown,
                             "Margin": "–" if part.margin is None else f"±{part.margin:g}",
                             "Seeds to decide": _seeds(part)})  # fmt: skip
        if not one.parts and not beside:
            nothing = dict.fromkeys(COLUMNS[3:], "–")
            rows.append({"Claim": name, "State": one.state, "What": spoken(one.note), **nothing})
    return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = ["Claim", "State", "What", "Effect", "95 % interval", "Margin", "Seeds to decide"]


def _elsewhere(one: Result, part: Part) -> str:
    """The interval and state of a part on other features, where its state or that of the claim
    which it decides is another.
    """
    there = one.moved(part)
    if there is None and one.elsewhere and part.name == one.decisive.name:
        there = one.on_other_features(part)
    if there is None:
        return ""
    ends = interval(there.estimate.low, there.estimate.high, digits_of(part.unit))
    return f" (on other features: {ends}, {there.state})"


def _seeds(part: Part) -> str:
    """How many seeds would decide a part that is open."""
    if part.state != INCONCLUSIVE or np.isnan(part.estimate.seed_variance):
        return "–"
    return str(part.seeds_needed or f"over {MOST_SEEDS}")


def state_table(results: Results) -> pd.DataFrame:
    """One row a claim: its state, what it rests on, why there is no decision."""
    return pd.DataFrame(
        [
            {
                "Claim": f"{name}: {one.claim.claim}",
                "State": one.state,
                "Seeds": str(one.n_seeds or "–"),
                "p, corrected": "–" if one.p >= 1 else f"{one.p:.3f}",
                "Rests on": rests_on(BASES.get(one.basis, one.basis), one.features, one.elsewhere),
                "Why there is no decision": _why(one) or "–",
            }
            for name, one in results.items()
        ]
    )


def _why(one: Result) -> str:
    """Why nothing is decided, and what round 2 makes of what round 1 asked."""
    return "; ".join(filter(None, [spoken(one.reason), one.second]))


def asked_again(one: Result, results: Results) -> bool:
    """Whether runs of the original's own function answer what a claim asked of our earlier one."""
    return bool(one.claim.again in results and results[one.claim.again].parts)


def in_margins(part: Part) -> tuple[str, float, Track | None]:
    """A part in multiples of its margin: on which side of 0 its interval lies, its size, and both
    as a picture; without an interval there is none.
    """
    found, margin = part.estimate, MARGINS[part.unit].value
    size, low, high = (value / margin for value in (found.value, found.low, found.high))
    shown = 0.0 if np.isnan(size) else round(size, 3)
    if np.isnan(low):
        return "none", shown, None
    side = "for" if low > 0 else "against" if high < 0 else "both"
    return side, shown, Track(on_track(size), on_track(low), on_track(high))


def verdicts(results: Results, index: bool = False) -> list[Verdict]:
    """The papers' claims for the first screen, each with the part that decides it, in multiples of
    the margin that counts as no effect; they lead to their numbers, on an ``index`` to their page.
    What was asked again of the original's function stands with the new claim.
    """
    made = []
    for name, one in papers(results).items():
        if asked_again(one, results):
            continue
        side, size, track = in_margins(one.decisive)
        known = track is not None
        text = in_brackets(one.decisive) if known else spoken(one.reason)
        text += f" on these {one.features} features" if known and one.elsewhere else ""
        text += f"; {why}" if known and (why := _why(one)) else ""
        text += "".join(
            f"; by our earlier function {before.state} ({before.claim.id})"
            for before in results.values()
            if before.claim.again == name and asked_again(before, results)
        )
        made.append(
            Verdict(
                name, one.claim.claim, one.state, spoken(one.decisive.name), text, side,
                size, track,
                place_of(one.claim) if index else "#verdicts",
                one.claim.section.replace("_", " "), one.claim.apart,
            )
        )  # fmt: skip
    return made


def claim_sections(results: Results) -> list[Section]:
    """The paper's claims with their states, and why there is no decision; none without any."""
    found = papers(results)
    if not found:
        return []
    names = list(found)
    blocks: list[Block] = [
        Table(state_table(found)),
        Table(result_table(found), "Every part"),
    ]
    beside = result_table(found, beside=True)
    if len(beside):
        blocks.append(Table(beside, fold="Measured beside them; these decide nothing"))
    called = {"paper": "the paper's", "rival": "other papers'", "landscape": "the landscape's"}
    whose = " and ".join(called[kind] for kind in dict.fromkeys(CLAIMS[n].whose for n in names))
    whose = whose[0].upper() + whose[1:]
    title = f"{whose} claims {names[0]} to {names[-1]}" if len(names) > 1 else f"{whose} claim"
    rule = RULE.format(fixed=_fixed(names)) + features_sentence(found)
    return [Section("verdicts", title, rule, blocks)]


def _fixed(names: Sequence[str]) -> str:
    """When the rules of claims were fixed, and of which in the protocol where not of all."""
    in_code = [
        name for name in names
        if CLAIMS[name].whose == "landscape" and CLAIMS[name].experiment not in REGISTERED
    ]  # fmt: skip
    if not in_code:
        return FIXED
    others = [name for name in names if name not in in_code]
    return LANDSCAPE_FIXED + (
        f"; those of {', '.join(others)} are in the protocol" if others else ""
    )


def our_sections(results: Results) -> list[Section]:
    """Beyond the paper: what it leaves open, and what these runs say; none without a question."""
    blocks: list[Block] = []
    for name, one in ours(results).items():
        claim = CLAIMS[name]
        measured = claim.measured.replace("``", "")
        about = [("question", f"{name}: {claim.claim}"), ("left open", claim.source)]
        about += [("measured", measured), ("seeds", str(one.n_seeds))]
        about += [("rests on", told)] if (told := BASES.get(one.basis, one.basis)) else []
        about += [("inconclusive", spoken(one.reason))] if one.reason else []
        blocks.append(Facts(about))
        if one.parts:
            blocks.append(Table(result_table({name: one}).drop(columns="Claim")))
    if not blocks:
        return []
    rule = OUR_RULE + features_sentence(ours(results))
    return [Section("beyond", "Beyond the paper (ours)", rule, blocks)]


# All of them -------------------------------------------------------------------------------------


def all_results(found: Mapping[str, Sequence[Study]]) -> dict[str, Result]:
    """The results of all claims, each by the study that decides it."""
    results: dict[str, Result] = {}
    for name in EXPERIMENTS:
        known = found.get(name)
        results |= results_of(known) if known else assess(name, {})
    return {name: results[name] for name in CLAIMS if name in results}


def results_on(
    records: Sequence[RunRecord], measurements: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Result]:
    """The results of all claims on records of any experiments."""
    return all_results({name: studies(name, records, measurements) for name in EXPERIMENTS})


def summary_tables(results: Results) -> dict[str, pd.DataFrame]:
    """By whose they are: claims of the ``paper``, ``rival`` and ``landscape``, one row each, and
    questions of ``ours``, one row a part; an id links to the place on the page that explains it.
    """
    rows: dict[str, list[dict[str, Any]]] = {"paper": [], "rival": [], "landscape": [], "ours": []}
    for one in (results[name] for name in CLAIMS if name in results):
        link, seeds = Link(one.claim.id, place_of(one.claim)), str(one.n_seeds or "–")
        if one.claim.directed:
            rows[one.claim.whose].append(
                {
                    "Id": link,
                    "Claim": one.claim.claim,
                    "State": one.state,
                    "Parts": one.part_states or "–",
                    **numbers(one.decisive),
                    "Seeds": seeds,
                    "Rests on": rests_on(one.basis, one.features, one.elsewhere),
                    "Why there is no decision": _why(one),
                }
            )
            continue
        for part in one.parts or [one.decisive]:
            there = one.moved(part)
            rows["ours"].append(
                {
                    "Id": link,
                    "Question": one.claim.claim,
                    "What": spoken(part.name or one.note),
                    "State": part.state,
                    **numbers(part),
                    "Seeds": seeds,
                    "Rests on": rests_on(one.basis, one.features, there.state if there else ""),
                }
            )
    return {whose: pd.DataFrame(found) for whose, found in rows.items()}


def _told(results: Results, whose: str = "paper") -> str:
    """How many of the claims of one kind are in each state."""
    counts = Counter(one.state for one in results.values() if one.claim.whose == whose)
    return ", ".join(f"{counts[state]} {state}" for state in STATES)


def whole_sentence(results: Results) -> str:
    """What the states mean as one set, as the correction is within experiments."""
    found = [name for name in results if CLAIMS[name].whose == "paper"]
    experiments = len({CLAIMS[name].experiment for name in found})
    return (
        f"The {len(found)} claims stand in {experiments} experiments, and in each the chance that "
        f"any claim is supported wrongly is at most {100 * ALPHA:.0f} %: of all that are supported "
        f"fewer than one ({experiments * ALPHA:.2f}) is expected to be so by chance alone, and the "
        "same holds for each other state; a single one may still be."
    )


def summary_lines(results: Results) -> list[str]:
    """A text table, one line a claim of the paper and one a part of our questions."""
    tables = summary_tables(results)
    lines = [f"{len(tables['paper'])} claims: {_told(results)}", whole_sentence(results)]
    for whose, named in (("paper", ""), ("rival", "its rivals"), ("landscape", "the landscape")):
        told = f"{len(tables[whose])} claims of {named}: {_told(results, whose)}"
        lines += ["", told, ""] if named else [""]
        lines += [_claim_line(row) for row in tables[whose].to_dict("records")]
    lines += ["", "Beyond the paper (ours)", ""]
    for name, rows in tables["ours"].groupby("Question", sort=False):
        lines.append(f"{rows['Id'].iloc[0].text:4}{name}")
        lines += [_line(row, "", row["What"]) for row in rows.to_dict("records")]
    return [*lines, "", MEANING + features_sentence(results)]


def _claim_line(row: Mapping[Any, Any]) -> str:
    reason = row["Why there is no decision"]
    said = f"{row['Claim']} ({reason})" if reason else row["Claim"]
    return _line(row, row["Id"].text, f"{said} Parts: {row['Parts']}.")


def _line(row: Mapping[Any, Any], name: str, said: str) -> str:
    found = f"{row['Effect']:>24}  {row['95 % interval']:<20}"
    seeds = "1 seed" if row["Seeds"] == "1" else f"{row['Seeds']} seeds"
    said += f" (rests on: {row['Rests on']})" if "features" in row["Rests on"] else ""
    return f"{name:4}{row['State']:13}{found} {seeds:8} {row['Id'].href:42} {said}"


def summary_section(results: Results) -> Section:
    """Counts and what they mean, tables of the paper's claims, its rivals' and our questions."""
    tables = summary_tables(results)
    told = f"What its rivals claim: {_told(results, 'rival')}"
    together = whole_sentence(results)
    return Section(
        "claims",
        f"The paper's {len(tables['paper'])} claims in numbers",
        "",
        [
            Facts(
                [("states", MEANING + features_sentence(results)), ("together", together)],
                fold="What the states mean",
            ),
            Table(tables["paper"], fold="All claims with their numbers"),
            Table(tables["rival"], fold=told),
            Table(tables["ours"], fold="Beyond the paper (ours)"),
        ],
    )


# Other systems: what each adds, and what it showed on its nano task -------------------------------


@dataclass(frozen=True)
class System:
    """A published system: what it adds, the claims that say so here, and its source where
    :data:`mcbench.report.paper.OTHERS` has none.
    """

    name: str
    adds: str
    claims: Sequence[str]
    source: str = ""

    @property
    def where(self) -> Link | str:
        """Its source, as a link where it has an address."""
        url = OTHERS.get(self.name)
        return Link(url.removeprefix("https://"), url) if url else self.source


SYSTEMS = [System(**row) for row in rows_beside(__file__, "systems.toml")["system"]]


def landscape_section(results: Results) -> Section:
    """A row for every system and claim, with the state that the committed runs give it."""
    rows = []
    for system in SYSTEMS:
        for name in system.claims:
            claim = CLAIMS[name]
            found = results.get(name)
            told = {"State": found.state if found else "not run"}
            if found and found.parts:
                told |= numbers(found.decisive)
            rows.append(
                {
                    "System": system.name,
                    "Source": system.where,
                    "Adds": system.adds,
                    "Claim": Link(f"{name}: {claim.claim}", place_of(claim)),
                    **told,
                    "Seeds": str(found.n_seeds) if found else "–",
                    "Differs from the original": claim.differs,
                    "How the original is known": claim.original,
                }
            )
    return Section(
        "landscape",
        "The landscape",
        "Each on a small task, beside a control that could win.",
        [Table(pd.DataFrame(rows), fold="Systems and claims")],
    )
