"""Suggest the next edit, or stay silent: learning from what users accept (Cursor's Tab).

Source: "Improving Cursor Tab with online RL" (cursor.com/blog/tab-rl, 2025). A suggestion that is
accepted is worth .75, one that is rejected -.25, silence 0, so that to suggest pays where the
probability of acceptance is above .25; for any threshold t: 1 - t, -t, 0. What is known here and
nowhere else: that probability (:mod:`mcbench.nano.tab`), so that the best policy is known and what
a policy loses against it (regret, in reward a context). A malformed response was shown and is
never accepted.

Users drift with the reward ``accept_25_drift``: in the second half of the training they accept half
as often, so that the best policy falls silent where it suggested before.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from mcbench.data.schema import Problem
from mcbench.nano.problems import lot
from mcbench.nano.tab import load_tab
from mcbench.tasks.base import TESTS, Judged, Task

THRESHOLDS = {TESTS: 0.25, "accept_25": 0.25, "accept_45": 0.45, "accept_25_drift": 0.25}
DRIFT_AT, DRIFTED = 0.5, 0.5
"""The share of the training after which users accept so many times as often."""
_EDIT = re.compile(r" \d{1,3}")


def value(accepted: bool, threshold: float) -> float:
    """The reward of a suggestion."""
    return 1 - threshold if accepted else -threshold


def probability(problem: Problem, response: str, times: float = 1.0) -> float | None:
    """That the response is accepted; None for silence. ``times`` is how the users have drifted."""
    if not response:
        return None
    known = problem.metadata["accepted"]
    return times * known.get(response.strip(), 0.0) if _EDIT.fullmatch(response) else 0.0


def regret(problem: Problem, response: str, threshold: float, times: float = 1.0) -> float:
    """What the response loses in expectation against the policy that knows the users."""
    best = max(0.0, times * max(problem.metadata["accepted"].values()) - threshold)
    chance = probability(problem, response, times)
    return best - (0.0 if chance is None else chance - threshold)


def accepts(problem: Problem, place: int, response: str, chance: float) -> bool:
    """What one user does: a draw that depends on the context and the place in the batch alone."""
    return lot(f"{problem.id} {place} {response}") < chance


def judge(
    problems: Sequence[Problem],
    responses: Sequence[str],
    reward: str,
    evaluator: Any,
    progress: float = 0.0,
) -> list[Judged]:
    """Who does what the best policy would passes; ``tests`` rewards that, which no user could."""
    threshold = THRESHOLDS[reward]
    times = DRIFTED if reward.endswith("drift") and progress >= DRIFT_AT else 1.0
    judged = []
    for place, (problem, response) in enumerate(zip(problems, responses, strict=True)):
        chance = probability(problem, response, times)
        lost = regret(problem, response, threshold, times)
        passed = lost < 1e-9
        parts = {"shown": float(chance is not None), "regret": lost}
        if chance is not None:
            parts["accepted"] = chance
        worth = times * max(problem.metadata["accepted"].values()) > threshold
        parts["shown_above" if worth else "shown_below"] = parts["shown"]
        if reward == TESTS:
            earned = float(passed)
        elif chance is None:
            earned = 0.0
        else:
            earned = value(accepts(problem, place, response, chance), threshold)
        message = "" if passed else "silent" if chance is None else "shown"
        judged.append(Judged(earned, passed, parts, message))
    return judged


def switch(shown: dict[float, float]) -> float:
    """The acceptance probability at which the shown share crosses one half, between the two
    neighbours where it first does for good; the ends where it never does. ``shown``: share by
    probability.
    """
    chances = sorted(shown)
    for low, high in reversed(list(itertools.pairwise(chances))):
        if shown[low] < 0.5 <= shown[high]:
            return low + (high - low) * (0.5 - shown[low]) / (shown[high] - shown[low])
    return chances[0] if shown[chances[0]] >= 0.5 else chances[-1]


def summary(
    problems: Sequence[Problem], responses: Sequence[Sequence[str]], evaluator: Any
) -> dict[str, float]:
    """Of an evaluation: the shown share by probability of the best suggestion, where it switches,
    and the regret under each threshold and to users who have drifted.
    """
    asked = [(one, text) for one, texts in zip(problems, responses, strict=True) for text in texts]
    by_chance: dict[float, list[bool]] = defaultdict(list)
    for problem, text in asked:
        by_chance[max(problem.metadata["accepted"].values())].append(bool(text))
    shown = {chance: float(np.mean(by_chance[chance])) for chance in sorted(by_chance)}

    def mean_regret(*how: float) -> float:
        return float(np.mean([regret(problem, text, *how) for problem, text in asked]))

    return {
        **{f"shown_{100 * chance:.0f}": share for chance, share in shown.items()},
        "switch": switch(shown),
        "regret_25": mean_regret(0.25),
        "regret_45": mean_regret(0.45),
        "regret_drifted": mean_regret(0.25, DRIFTED),
    }


TASK = Task(
    "tab",
    ("tab:train", "tab:test"),
    lambda name: load_tab("train" if name.endswith("train") else "test"),
    tuple(THRESHOLDS),
    judge,
    summary,
    timed=True,
    # Right is what was accepted, wrong what was rejected; silence, worth 0, is neither.
    thresholds={
        name: (value(True, at) / 2, value(False, at) / 2)
        for name, at in THRESHOLDS.items()
        if name != TESTS
    },
    measure="right decisions",
)
