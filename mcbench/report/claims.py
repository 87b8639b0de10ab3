"""Results of claims for people: lines, tables, sections of a page, the summary of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims import CLAIMS, STATES, Result, assess
from mcbench.claims.assess import digits_of
from mcbench.claims.claim import Claim
from mcbench.claims.evidence import Part
from mcbench.claims.margins import MARGINS
from mcbench.claims.protocol import ELSEWHERE, PROTOCOL
from mcbench.claims.round_2 import NOT_TESTABLE
from mcbench.claims.rules import ALPHA, HIGHER, INCONCLUSIVE, LOWER, MOST_SEEDS
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import Study, results_of, studies
from mcbench.report.ends import interval, signed
from mcbench.report.page import Block, Facts, Link, Section, Table, Track, Verdict
from mcbench.report.paper import OTHERS, PAPER
from mcbench.report.rendering import on_track
from mcbench.report.style import spoken
from mcbench.runs.store import RunRecord

MEANING = (
    "Supported: every part of the claim shows with a 95 % interval above 0. No effect: the 90 % "
    "interval of every part lies inside the margin of its measure. Contradicted: some part is "
    "reversed and none holds. Mixed: some part holds, another is reversed or shows no effect. All "
    "of these after Holm's correction over the claims of the experiment; inconclusive is anything "
    "else, also too few seeds or missing runs. These states are about models of less than two "
    "million parameters on generated problems, trained for some hundred updates: they say whether "
    "the mechanism shows here, and nothing about the paper's models."
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


def papers_of(results: Results) -> list[Link]:
    """The papers that claim what was measured, as links where their place is known."""
    found = {"MicroCoder-GRPO": PAPER["url"]} if main_claim(results) else {}
    for one in papers(results).values():
        if one.claim.whose == "paper" or one.claim.source.startswith("MicroCoder-GRPO"):
            found.setdefault("MicroCoder-GRPO", PAPER["url"])
        known = [name for name in OTHERS if one.claim.source.startswith(name)]
        found |= {name: OTHERS[name] for name in known}
    return [Link(name, url) for name, url in found.items()]


def ours(results: Results) -> dict[str, Result]:
    """The results of our questions."""
    return {name: one for name, one in results.items() if not CLAIMS[name].directed}


def on_features(features: int, elsewhere: str) -> str:
    """On which features a state holds, given the other one that it has elsewhere; empty without."""
    return f"on these {features} features; on others {elsewhere}" if elsewhere else ""


def features_sentence(results: Results) -> str:
    """What “on these features” means; empty where no state of any part or claim would change."""
    moved = [
        one.features for one in results.values() if one.elsewhere or any(map(one.moved, one.parts))
    ]
    return f" {FEATURES.format(count=max(moved))}" if moved else ""


def rests_on(basis: str, features: str) -> str:
    """What a result rests on: its seeds, and its features where others would change it."""
    return "; ".join(filter(None, [basis, features])) or "–"


def place_of(claim: Claim) -> str:
    """Where a page shows a claim's verdict, or answers a question, relative to the index."""
    part = f"claim-{claim.id}" if claim.directed else "beyond"
    return f"{EXPERIMENTS[claim.experiment].notebook}.html#{part}"


def numbers(value: float, low: float, high: float, unit: str) -> dict[str, str]:
    """An effect and its interval as texts; decimals follow the unit."""
    digits = digits_of(unit)
    effect = signed(value, digits)
    return {
        "Effect": effect if effect == "–" else f"{effect} {unit}".strip(),
        "95 % interval": interval(low, high, digits),
    }


def result_table(results: Results, beside: bool = False) -> pd.DataFrame:
    """One row per part of each claim: positive in the direction of the claim, or of its name.

    Args:
        beside: the parts that are told beside those that decide, not these.
    """
    rows = []
    for name, one in results.items():
        for part in one.parts:
            if part.beside == beside:
                found = part.estimate
                shown = numbers(found.value, found.low, found.high, part.unit)
                shown["95 % interval"] += _elsewhere(one, part)
                rows.append({"Claim": name, "State": part.state, "What": spoken(part.name), **shown,
                             "Margin": _margin(part), "Seeds to decide": _seeds(part)})  # fmt: skip
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


def _margin(part: Part) -> str:
    return "–" if part.margin is None else f"±{part.margin:g}"


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
                "Rests on": rests_on(
                    BASES.get(one.basis, one.basis), on_features(one.features, one.elsewhere)
                ),
                "Why there is no decision": _why(name, one) or "–",
            }
            for name, one in results.items()
        ]
    )


def _why(name: str, one: Result) -> str:
    """Why nothing is decided; of what round 1 asked and nano cannot decide also that."""
    known = NOT_TESTABLE.get(name) if one.basis.startswith(PROTOCOL) else None
    return "; ".join(filter(None, [spoken(one.reason), known and f"not testable here: {known}"]))


def verdicts(results: Results, index: bool = False) -> list[Verdict]:
    """The papers' claims for the first screen, each with the part that decides it, in multiples of
    the margin that counts as no effect; they lead to their numbers, on an ``index`` to their page.
    """
    made = []
    for name, one in papers(results).items():
        found, margin = one.decisive.estimate, MARGINS[one.unit].value
        low, high = (edge / margin for edge in one.interval)
        known = not np.isnan(low)
        size = found.value / margin
        side = "none" if not known else "for" if low > 0 else "against" if high < 0 else "both"
        shown = numbers(found.value, *one.interval, one.unit)
        text = f"{shown['Effect']} [{shown['95 % interval']}]" if known else spoken(one.reason)
        text += f" on these {one.features} features" if known and one.elsewhere else ""
        text += f"; {spoken(one.reason)}" if known and one.reason else ""
        track = Track(on_track(size), on_track(low), on_track(high)) if known else None
        made.append(
            Verdict(
                name, one.claim.claim, one.state, spoken(one.decisive.name), text, side,
                0.0 if np.isnan(size) else round(size, 3), track,
                place_of(one.claim) if index else "#verdicts",
                one.claim.section.replace("_", " "), one.claim.apart,
            )
        )  # fmt: skip
    return made


SHOWN_AS = {
    "supported": "Seen here",
    "mixed": "Seen in part",
    "contradicted": "Reversed here",
    "no effect": "Without effect here",
}
"""How a sentence begins that tells which claims are in a state; ``inconclusive`` tells nothing."""


def decided_sentences(results: Results, count: int = 2) -> list[str]:
    """The clearest claims of each state that decides, a sentence a state, each with its effect;
    empty if nothing is decided.

    Args:
        count: of claims a sentence.
    """
    told = []
    for state, begins in SHOWN_AS.items():
        found = [one for one in papers(results).values() if one.state == state]
        found.sort(key=lambda one: (one.p, one.claim.id))
        if found:
            told.append(f"{begins}: {'; '.join(map(_with_effect, found[:count]))}.")
    return told


def asked_sentence(results: Results, count: int = 2) -> str:
    """Of our questions the largest effects, on pass rates if there are any; empty without."""
    asked = [
        part
        for one in ours(results).values()
        for part in one.parts
        if one.claim.id != MAIN and part.state in (HIGHER, LOWER)
    ]
    asked = [part for part in asked if part.name.startswith("pass@1")] or asked
    asked.sort(key=lambda part: -abs(part.estimate.value) / MARGINS[part.unit].value)
    largest = asked[:count]
    words = (f"{spoken(part.name)}, {_in_brackets(part.estimate, part.unit)}" for part in largest)
    return f"Asked by us, with the largest effects: {'; '.join(words)}." if largest else ""


def states_sentence(results: Results) -> str:
    """How many claims of the paper, its rivals and the landscape are in each state; empty without
    any.
    """
    whose = {"paper's": "paper", "rivals'": "rival", "landscape's": "landscape"}
    told = [
        _states_of(name, [one for claim, one in results.items() if CLAIMS[claim].whose == who])
        for name, who in whose.items()
    ]
    return " ".join(filter(None, told))


MAIN = "Q17"
"""Our question that is the paper's main claim; it was added after the runs."""


def story(results: Results) -> list[str]:
    """What was found in a few sentences, for who has a minute: the paper's main claim, its claims,
    the clearest that show and do not, the largest effects of our own questions.
    """
    told = [main_claim(results) or _still_open(results[MAIN])] if MAIN in results else []
    told.append(states_sentence(results))
    own = {
        name: one
        for name, one in results.items()
        if one.claim.whose == "paper" or not one.claim.directed
    }
    return [one for one in [*told, *decided_sentences(own), asked_sentence(own)] if one]


def _still_open(one: Result) -> str:
    return f"The paper's main claim is open: {spoken(one.reason)}."


def main_claim(results: Results) -> str:
    """What became of the paper's main claim, for the four ends that it names; empty without any."""
    one = results.get(MAIN)
    ends_ = [part for part in one.parts if part.name.startswith("pass@1")] if one else []
    if not one or not ends_:
        return ""
    higher = sum(part.state == HIGHER for part in ends_)
    seen = "is seen" if higher == len(ends_) else "is not seen" if not higher else "is seen in part"
    told = [part.name.removeprefix("pass@1 ").removesuffix(", both over tokens") for part in ends_]
    words = "; ".join(
        f"{name}, {_in_brackets(part.estimate, part.unit)}"
        for name, part in zip(told, ends_, strict=True)
    )
    return (
        "The paper's main claim, that MicroCoder-GRPO ends highest, "
        f"{seen} here (all averaged over tokens, {one.n_seeds} seeds, asked after the runs): "
        f"{words}."
    )


def _with_effect(one: Result) -> str:
    """A claim as a clause, with the effect that decides it."""
    words = one.claim.claim.rstrip(".")
    begins_a_sentence = words[0].isupper() and (words[1:2].islower() or words.startswith("A "))
    words = words[0].lower() + words[1:] if begins_a_sentence else words
    return f"{words} ({_in_brackets(one.decisive.estimate, one.unit)})"


def _in_brackets(found: Any, unit: str) -> str:
    shown = numbers(found.value, found.low, found.high, unit)
    return f"{shown['Effect']} [{shown['95 % interval']}]"


def _states_of(whose: str, found: Sequence[Result]) -> str:
    if not found:
        return ""
    waiting = sum(not (one.n_seeds or one.parts) for one in found)
    if waiting == len(found):
        every, they = (
            ("claim is", "it") if len(found) == 1 else (f"{len(found)} claims are", "each")
        )
        return f"The {whose} {every} open: {they} needs runs that are not there yet."
    counts = {state: sum(one.state == state for one in found) for state in STATES}
    if counts[INCONCLUSIVE] == len(found):
        every = "claim is" if len(found) == 1 else f"{len(found)} claims is"
        return f"None of the {whose} {every} decided by these runs."
    counts[INCONCLUSIVE] -= waiting
    told = [f"{count} {state}" for state, count in counts.items() if count]
    told += [f"{waiting} without runs yet"] if waiting else []
    are = "is" if told[0].startswith("1 ") else "are"
    told[0] = told[0].replace(" ", f" {are} ", 1)
    return f"Of the {whose} {len(found)} claims {', '.join(told)}."


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
    (kind,) = {CLAIMS[name].whose for name in names}
    whose = {"paper": "The paper's", "rival": "Other papers'", "landscape": "The landscape's"}[kind]
    title = f"{whose} claims {names[0]} to {names[-1]}" if len(names) > 1 else f"{whose} claim"
    rule = RULE.format(fixed=LANDSCAPE_FIXED if kind == "landscape" else FIXED)
    return [Section("verdicts", title, rule + features_sentence(found), blocks)]


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
                    **numbers(one.effect, *one.interval, one.unit),
                    "Seeds": seeds,
                    "Rests on": rests_on(one.basis, on_features(one.features, one.elsewhere)),
                    "Why there is no decision": _why(one.claim.id, one),
                }
            )
            continue
        for part in one.parts or [one.decisive]:
            found, there = part.estimate, one.moved(part)
            rows["ours"].append(
                {
                    "Id": link,
                    "Question": one.claim.claim,
                    "What": spoken(part.name or one.note),
                    "State": part.state,
                    **numbers(found.value, found.low, found.high, part.unit),
                    "Seeds": seeds,
                    "Rests on": rests_on(
                        one.basis, on_features(one.features, there.state if there else "")
                    ),
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
