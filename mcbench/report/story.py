"""What claims came to in sentences: which are decided, with what effect, and which are open."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from mcbench.claims import CLAIMS, STATES, Result
from mcbench.claims.claim import EARLIER
from mcbench.claims.margins import MARGINS
from mcbench.claims.rules import HIGHER, INCONCLUSIVE, LOWER, MIXED
from mcbench.report.claims import Results, asked_again, in_brackets, ours, papers
from mcbench.report.page import Link
from mcbench.report.paper import OTHERS, PAPER
from mcbench.report.style import spoken

SHOWN_AS = {
    "supported": "Seen here",
    "mixed": "Seen in part",
    "contradicted": "Reversed here",
    "no effect": "Without effect here",
}
"""How a sentence begins that tells which claims are in a state; ``inconclusive`` tells nothing."""


def decided_sentences(results: Results, count: int = 2, named: bool = False) -> list[str]:
    """The clearest claims of each state that decides, a sentence a state, each with its effect;
    empty if nothing is decided. What was asked again of the original's function stands back.

    Args:
        count: of claims a sentence.
        named: also what the effect is of, which gives its sign, where no list below says so.
    """
    told = []
    for state, begins in SHOWN_AS.items():
        found = [
            one
            for one in papers(results).values()
            if one.state == state and not asked_again(one, results)
        ]
        found.sort(key=lambda one: (one.p, one.claim.id))
        if found:
            clauses = (_with_effect(one, named) for one in found[:count])
            told.append(f"{begins}: {'; '.join(clauses)}.")
    return told


def asked_sentence(results: Results, count: int = 2) -> str:
    """Of our questions the largest effects, one each, on pass rates if there are any; empty
    without.
    """
    asked = [
        (name, part)
        for name, one in ours(results).items()
        for part in one.parts
        if name != MAIN and not part.beside and part.state in (HIGHER, LOWER)
    ]
    asked = [one for one in asked if one[1].name.startswith("pass@1")] or asked
    asked.sort(key=lambda one: -abs(one[1].estimate.value) / MARGINS[one[1].unit].value)
    of_each = {name: next(part for other, part in asked if other == name) for name, _ in asked}
    largest = [*of_each.values()][:count]
    words = (f"{spoken(part.name)}, {in_brackets(part)}" for part in largest)
    effects = "effect" if len(largest) == 1 else "effects"
    return f"Asked by us, with the largest {effects}: {'; '.join(words)}." if largest else ""


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


def again_sentence(results: Results) -> str:
    """What became of claims that were asked again of the originals' functions; empty without."""
    again = {one.claim.again for one in papers(results).values() if asked_again(one, results)}
    counts = Counter(results[name].state for name in again)
    told = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"Asked again with the originals' functions on fresh seeds: {told}." if told else ""


(MAIN,) = (name for name, one in CLAIMS.items() if one.section == "main_claim")
"""Our question that is the paper's main claim; it was added after the runs."""


def story(results: Results) -> list[str]:
    """What was found in a few sentences, for who has a minute: the paper's main claim, its claims,
    the clearest that shows and that does not, the largest effect of our own questions.
    """
    told = [main_claim(results), states_sentence(results)]
    if MAIN in results and not told[0]:
        told[0] = f"The paper's main claim is open: {spoken(results[MAIN].reason)}."
    own = {
        name: one
        for name, one in results.items()
        if one.claim.whose == "paper" or not one.claim.directed
    }
    clearest = decided_sentences(own, count=1, named=True)
    return [one for one in [*told, *clearest, asked_sentence(own, count=1)] if one]


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
        f"{name}, {in_brackets(part)}" for name, part in zip(told, ends_, strict=True)
    )
    return (
        "The paper's main claim, that MicroCoder-GRPO ends highest, "
        f"{seen} here (all over tokens, without T(D), {one.n_seeds} seeds, asked after the "
        f"runs): {words}."
    )


def _with_effect(one: Result, named: bool) -> str:
    """A claim as a clause, with the effect that decides it, and what that is of."""
    words = one.claim.claim.rstrip(".")
    begins_a_sentence = words[0].isupper() and (words[1:2].islower() or words.startswith("A "))
    words = words[0].lower() + words[1:] if begins_a_sentence else words
    words += f", {EARLIER}" if one.claim.differs.startswith(EARLIER) else ""
    effect = in_brackets(one.decisive)
    name = re.sub(r" \([^()]*\)", "", spoken(one.decisive.name))
    effect = f"{name}, {effect}" if named else effect
    return f"{words} ({'against it: ' if one.state == MIXED else ''}{effect})"


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
        return f"None of the {whose} {every} decided."
    counts[INCONCLUSIVE] -= waiting
    told = [f"{count} {state}" for state, count in counts.items() if count]
    told += [f"{waiting} without runs yet"] if waiting else []
    are = "is" if told[0].startswith("1 ") else "are"
    told[0] = told[0].replace(" ", f" {are} ", 1)
    return f"Of the {whose} {len(found)} claims {', '.join(told)}."


def papers_of(results: Results) -> list[Link]:
    """The papers that claim what was measured, as links where their place is known."""
    found = {"MicroCoder-GRPO": PAPER["url"]} if main_claim(results) else {}
    for one in papers(results).values():
        if one.claim.whose == "paper" or one.claim.source.startswith("MicroCoder-GRPO"):
            found.setdefault("MicroCoder-GRPO", PAPER["url"])
        known = [name for name in OTHERS if one.claim.source.startswith(name)]
        found |= {name: OTHERS[name] for name in known}
    return [Link(name, url) for name, url in found.items()]
