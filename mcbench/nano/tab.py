"""Contexts in which a next edit may be suggested, with the probability that it is accepted.

A context lists the last ten edits at such a place. The user's next one is drawn from them, each
equally likely: a suggestion is accepted with the share that it has among them, which is the hidden
truth, and the best suggestion is the most frequent edit. The demonstrator suggests one of the ten
at random, in a fixed share of all contexts, however sure it is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

from mcbench.data.schema import Problem
from mcbench.nano.problems import Split, name_of, split_of

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
