"""Suggest the next edit, or stay silent: learning from what users accept (Cursor's Tab).

Source: "Improving Cursor Tab with online RL" (cursor.com/blog/tab-rl, 2025). A suggestion that is
accepted is worth .75, one that is rejected -.25, silence 0, so that to suggest pays where the
probability of acceptance is above .25; for any threshold t: 1 - t, -t, 0. What is known here and
nowhere else: that probability (:func:`shares`), so that the best policy is known and what
a policy loses against it (regret, in reward a context). A malformed response was shown and is
never accepted.

Users drift with the reward ``accept_25_drift``: in the second half of the training they accept half
as often, so that the best policy falls silent where it suggested before.

A context lists the last ten edits at such a place. The user's next one is drawn from them, each
equally likely: a suggestion is accepted with the share that it has among them, which is the hidden
truth, and the best suggestion is the most frequent edit. The demonstrator suggests one of the ten
at random, in a fixed share of all contexts, however sure it is.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from mcbench.data.schema import Problem
from mcbench.worlds.base import TESTS, Judged, Task
from mcbench.worlds.problems import Split, lot, name_of, split_of

EDITS, MOST = 10, 8
"""Edits in a context, and how often the most frequent occurs at most: acceptance .1 to .8."""
VALUES = tuple(range(1, 25))
SIZES = {"train": 3000, "test": 240}
SUGGESTS = 0.6
"""The share of contexts in which the demonstrator suggests something."""


def draw(rng: random.Random) -> tuple[int, ...]:
    """The edits of a context: one value 1 to ``MOST`` times, every other less often (or, if once,
    each once).
    """
    count = rng.randint(1, MOST)
    mode, *others = rng.sample(VALUES, len(VALUES))
    edits = [mode] * count
    for value in others:
        left = EDITS - len(edits)
        if not left:
            break
        edits += [value] * min(left, rng.randint(1, max(1, min(count - 1, 3))))
    rng.shuffle(edits)
    return tuple(edits)


def context(edits: tuple[int, ...]) -> str:
    """What the model is shown."""
    return "\nin" + "".join(f" {edit}" for edit in edits) + " out"


def shares(edits: tuple[int, ...]) -> dict[str, float]:
    """The probability that a suggestion is accepted, by suggestion; 0 for every other."""
    return {str(edit): count / len(edits) for edit, count in Counter(edits).items()}


@cache
def load_tab(split: Split) -> tuple[Problem, ...]:
    """The contexts of a split. A problem's metadata hold the probabilities of acceptance."""
    rng = random.Random(f"tab-{split}")
    found: dict[str, Problem] = {}
    while len(found) < SIZES[split]:
        edits = draw(rng)
        text = context(edits)
        if split_of(f"tab {sorted(edits)}") == split:
            accepted = shares(edits)
            found[text] = Problem(
                id=f"tab/{name_of(text)}",
                statement=text,
                form="stdin",
                tests=({"stdin": "", "expected": ""},),
                kind=f"{max(accepted.values()):.0%}",
                source="tab",
                metadata={"accepted": accepted},
            )
    return tuple(found.values())


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of (context, response), without contexts of the test split."""
    rng = random.Random(f"tab-corpus-{seed}")
    while True:
        edits = draw(rng)
        if split_of(f"tab {sorted(edits)}") == "train":
            yield context(edits), f" {rng.choice(edits)}" if rng.random() < SUGGESTS else ""


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
