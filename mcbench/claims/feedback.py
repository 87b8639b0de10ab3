"""What is claimed of feedback: attempts that are told what failed (F), and users who accept or not
(A), on the tasks of :mod:`mcbench.tasks.turns` and :mod:`mcbench.tasks.tab`.
"""

from __future__ import annotations

from functools import partial

from mcbench.claims.evidence import Evidence, Part, difference, part
from mcbench.claims.landscape import claim, higher, no_lower
from mcbench.claims.margins import POINTS
from mcbench.claims.statistics import last_window

turns = partial(claim, experiment="multi_turn")
users = partial(claim, experiment="online_feedback")
TAB = "Improving Cursor Tab with online RL (Cursor 2025)"


@turns(
    "F1",
    "Three attempts that are told what failed solve more than three independent ones, and than "
    "three that are told of another problem's failure.",
    ("independent", "shuffled", "rlef"),
    source="RLEF (Gehring et al. 2025), sections 3.2 and 3.3",
)
def told_what_failed(evidence: Evidence) -> list[Part]:
    """Last-window share of solved problems: feedback minus independent attempts, of which the first
    counts that passes the public tests; and minus shuffled feedback.
    """
    return [higher(evidence, "solved", "rlef", other) for other in ("independent", "shuffled")]


@turns(
    "F2",
    "Sampling from weights that are up to four generations old costs no accuracy.",
    ("rlef", "stale_1", "stale_2", "stale_4"),
    source="SkyRL-Agent (Cao et al. 2025): asynchronous rollouts, staleness at most 4",
)
def old_weights(evidence: Evidence) -> list[Part]:
    """Last-window share of solved problems: each staleness minus none, plus the margin."""
    arms = ("stale_1", "stale_2", "stale_4")
    return [no_lower(evidence, "solved", arm, "rlef") for arm in arms]


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
    switch = evidence.logged("on_policy", "eval/switch").percent()
    return [
        part("switch at the end, minus 20 %", POINTS, (1.0, switch, last_window), constant=-20.0,
             threshold=True),
        part("30 % minus the switch at the end", POINTS, (-1.0, switch, last_window),
             constant=30.0, threshold=True),
    ]  # fmt: skip


@users(
    "A2",
    "With 1 - p and -p for another threshold p the policy suggests from there on.",
    ("threshold_45",),
    source=f"{TAB}; p = .45 is ours",
)
def switches_at_another(evidence: Evidence) -> list[Part]:
    """The same for p = .45: above 40 and below 50."""
    switch = evidence.logged("threshold_45", "eval/switch").percent()
    return [
        part("switch at the end, minus 40 %", POINTS, (1.0, switch, last_window), constant=-40.0,
             threshold=True),
        part("50 % minus the switch at the end", POINTS, (-1.0, switch, last_window),
             constant=50.0, threshold=True),
    ]  # fmt: skip


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
    off, on = (
        evidence.logged(arm, "eval/regret_25").percent() for arm in ("off_policy", "on_policy")
    )
    name = "regret at the end, off-policy minus on-policy"
    return [difference(name, POINTS, off, on, last_window)]


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
    old, both = (
        evidence.logged(arm, "eval/regret_drifted").percent() for arm in ("on_policy", "drift")
    )
    name = "regret to the changed users at the end, without them minus with them"
    return [difference(name, POINTS, old, both, last_window)]


@users(
    "A5",
    "Rewards divided by their deviation in a group, as GRPO's are, move the switch away from .25, "
    "and leave more regret.",
    ("on_policy", "normalised"),
    source="ours, written after a look at the first run (normalised, seed 30, which counts): where "
    "few responses of a group suggest, the division makes an acceptance and a rejection equally "
    "large",
)
def deviation_moves_the_threshold(evidence: Evidence) -> list[Part]:
    """Last-window switch, in percent, and regret, 100 times the reward a context: with the division
    minus without.
    """
    found = []
    for name, column in (("switch", "eval/switch"), ("regret", "eval/regret_25")):
        a, b = (evidence.logged(arm, column).percent() for arm in ("normalised", "on_policy"))
        what = f"{name} at the end, normalised minus on_policy"
        found.append(difference(what, POINTS, a, b, last_window))
    return found
