"""What is claimed of feedback: attempts that are told what failed (F), and users who accept or not
(A), on the tasks of :mod:`mcbench.tasks.turns`, :mod:`mcbench.tasks.search` and
:mod:`mcbench.tasks.tab`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mcbench.claims.evidence import Evidence, Part, difference, part
from mcbench.claims.landscape import base, claim, higher, no_lower
from mcbench.claims.margins import POINTS, REGRET
from mcbench.claims.statistics import last_window

turns = partial(claim, experiment="multi_turn")
searches = partial(claim, experiment="retrieval")
users = partial(claim, experiment="online_feedback")
GREP = "SWE-grep (Cognition 2025): reward and turns of its sub-agent"
NAMED_F05, DEFINITION_F05 = 0.4962, 0.8709
"""What all lines that hold the name asked for are worth, and the lines of its definition alone,
mean over ``search:test``."""
TAB = "Improving Cursor Tab with online RL (Cursor 2025)"


@turns(
    "F1",
    "Three attempts that are told what failed solve more than three independent ones, and than "
    "three that are told of another problem's failure.",
    ("independent", "shuffled", "rlef"),
    source="RLEF (Gehring et al. 2025): feedback in turns, and its control by random feedback",
)
def told_what_failed(evidence: Evidence) -> list[Part]:
    """Last-window share of solved problems: feedback minus independent attempts, of which the first
    counts that passes the public tests; and minus shuffled feedback.
    """
    return [higher(evidence, "solved", "rlef", other) for other in ("independent", "shuffled")]


@turns(
    "F2",
    "Sampling from weights that are up to four generations old costs no accuracy.",
    ("rlef", "stale_1", "stale_2", "stale_3", "stale_4"),
    source="SkyRL-Agent (Cao et al. 2025): asynchronous rollouts, staleness at most 4",
)
def old_weights(evidence: Evidence) -> list[Part]:
    """Last-window share of solved problems: each staleness minus none, plus the margin."""
    arms = ("stale_1", "stale_2", "stale_3", "stale_4")
    return [no_lower(evidence, "solved", arm, "rlef") for arm in arms]


@searches(
    "F3",
    "Rewarded with F0.5 a sub-agent finds more than it did, than one search for the name, and than "
    "the definition alone.",
    ("search",),
    source=GREP,
)
def finds_more(evidence: Evidence) -> list[Part]:
    """Last-window F0.5 of held-out answers, mean of files and lines, in percent: minus the base,
    minus that of every line that holds the name, and minus that of the definition's lines.
    """
    found = evidence.logged("search", "eval/f05").percent()
    return [
        part("F0.5, at the end minus the base", POINTS, (1.0, found, last_window),
             (-1.0, found, base)),
        *(
            part(f"F0.5 at the end minus {name}", POINTS, (1.0, found, last_window),
                 constant=-100 * worth, threshold=True)
            for name, worth in (("one search", NAMED_F05), ("the definition", DEFINITION_F05))
        ),
    ]  # fmt: skip


@searches(
    "F4",
    "F0.5 of what is found helps the solver more than a reward of the solver's success.",
    ("search", "search_solved"),
    source=f"{GREP}; the control is ours: it is rewarded with the very measure",
)
def helps_the_solver(evidence: Evidence) -> list[Part]:
    """Last-window share of held-out queries that the solver solves with what it was shown."""
    return [higher(evidence, "solved", "search", "search_solved")]


@users(
    "A1",
    "With .75 and -.25 the policy learns to suggest from an acceptance of .25 on.",
    ("on_policy",),
    source=TAB,
)
def switches_at_the_threshold(evidence: Evidence) -> list[Part]:
    """Last-window acceptance at which half of the suggestions are shown, in percent: above 20 and
    below 30, the shares of contexts beside 25.
    """
    return _switch_within(evidence, "on_policy", 20, 30)


def _switch_within(evidence: Evidence, arm: str, low: int, high: int) -> list[Part]:
    """How far the last-window switch is above one percentage, and below another."""
    switch = evidence.logged(arm, "eval/switch").percent()
    return [
        part(f"switch at the end, minus {low} %", POINTS, (1.0, switch, last_window),
             constant=-low, threshold=True),
        part(f"{high} % minus the switch at the end", POINTS, (-1.0, switch, last_window),
             constant=high, threshold=True),
    ]  # fmt: skip


@users(
    "A2",
    "With 1 - p and -p for another threshold p the policy suggests from there on.",
    ("threshold_45",),
    source=f"{TAB}; p = .45 is ours",
)
def switches_at_another(evidence: Evidence) -> list[Part]:
    """The same for p = .45: above 40 and below 50."""
    return _switch_within(evidence, "threshold_45", 40, 50)


@users(
    "A3",
    "Data of the policy itself leave less regret than data that another policy collected.",
    ("on_policy", "off_policy"),
    source=TAB,
)
def own_data(evidence: Evidence) -> list[Part]:
    """Last-window regret to the best policy, 100 times the reward a context: off-policy minus
    on-policy.
    """
    name = "regret at the end, off-policy minus on-policy"
    return _regret(evidence, name, "eval/regret_25", "off_policy", "on_policy")


def _regret(evidence: Evidence, name: str, column: str, ours: str, other: str) -> list[Part]:
    """Last-window regret, 100 times the reward a context: ours minus the other's. Beside it, what
    the margin of pass@1 makes of it, which these claims were first judged by.
    """
    a, b = (evidence.logged(arm, column).percent() for arm in (ours, other))
    found = difference(name, REGRET, a, b, last_window)
    return [
        found,
        replace(found, name=f"{name}, by the margin of pass@1", unit=POINTS, beside=True),
    ]


@users(
    "A4",
    "On-policy training follows users who change: it ends with less regret to the new ones than a "
    "policy that met only the old ones.",
    ("on_policy", "drift"),
    source=f"{TAB}; that users change half-way is ours",
)
def follows_users(evidence: Evidence) -> list[Part]:
    """Last-window regret to users who accept half as often, 100 times the reward a context: trained
    on the old users minus trained on both.
    """
    name = "regret to the changed users at the end, without them minus with them"
    return _regret(evidence, name, "eval/regret_drifted", "on_policy", "drift")


@users(
    "A5",
    "Rewards divided by their deviation in a group, as GRPO's are, move the switch upwards from "
    ".25, and leave more regret.",
    ("on_policy", "normalised"),
    source="ours, written after a look at the first run (normalised, seed 30, which counts): where "
    "few responses of a group suggest, the division makes an acceptance and a rejection equally "
    "large",
)
def deviation_moves_the_threshold(evidence: Evidence) -> list[Part]:
    """Last-window switch, in percent, and regret, 100 times the reward a context: with the division
    minus without.
    """
    arms = ("normalised", "on_policy")
    what = "{} at the end, normalised minus on_policy"
    switch = evidence.difference(what.format("switch"), POINTS, "eval/switch", arms)
    return [switch, *_regret(evidence, what.format("regret"), "eval/regret_25", *arms)]
