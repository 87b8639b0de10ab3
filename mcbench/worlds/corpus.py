"""Demonstrations that the nano base models are trained on: a statement and a response.

The demonstrator is honest but weak, so that reinforcement learning has something to find: it gives
up a search with a fixed probability a hypothesis, skips the plan half of the time and then makes
more mistakes, and now and then falls into a loop.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from mcbench.worlds import described, induced
from mcbench.worlds.problems import draw_induced, induced_programs, split_of
from mcbench.worlds.words import FAILS, FENCE_CLOSE, FENCE_OPEN, GIVE_UPS, NONES, OKS, OPENERS


@dataclass(frozen=True)
class Style:
    """The habits of a demonstrator, all of them probabilities.

    Attributes:
        described_share: share of described problems.
        give_up: of writing a guess instead of the next hypothesis.
        loop: of falling into a loop before a hypothesis.
        plan: of writing a plan before the program of a described problem.
        slip_planned, slip_unplanned: of a wrong program line, with and without a plan.
    """

    described_share: float = 0.35
    give_up: float = 0.10
    loop: float = 0.006
    plan: float = 0.5
    slip_planned: float = 0.06
    slip_unplanned: float = 0.20


MODERN = Style()
LOOPING = Style(loop=0.03)
"""As MODERN, with five times as many searches that fall into a loop, so that repetition is there to
be found and trained away."""
OLD = Style(give_up=0.4, loop=0.0, plan=0.1)
"""An older generation: it answers at once, in short responses."""

ORDER_WEIGHT = {"easy": 4.0, "medium": 2.0, "hard": 1.0}
"""Simple hypotheses tend to be tried first, so hard problems need long searches."""


def fenced(code: str) -> str:
    return FENCE_OPEN + code + FENCE_CLOSE


def search_order(rng: random.Random) -> list[int]:
    """A weighted random permutation of the features (exponential clocks)."""
    clocks = [rng.expovariate(ORDER_WEIGHT[f.difficulty]) for f in induced.FEATURES]
    return sorted(range(len(clocks)), key=clocks.__getitem__)


def hypothesis(
    rng: random.Random, feature: int, examples: tuple[tuple[int, int], ...]
) -> tuple[str, int | None, bool]:
    """One line of a search: its text, the constant inferred (if any), whether all examples fit."""
    fn = induced.FEATURES[feature].fn
    (x, y), *others = examples
    line = f"{rng.choice(OPENERS)} {induced.FEATURES[feature].expr}: {x} {fn(x)} {y}"
    k = y - fn(x)
    if k not in induced.CONSTANTS:
        return line + rng.choice(NONES), None, False
    line += f" k {k}"
    rng.shuffle(others)
    for x, y in others:
        value = fn(x) + k
        line += f"; {x} {fn(x)} {value} {y}"
        if value != y:
            return line + rng.choice(FAILS), k, False
        line += rng.choice(OKS)
    return line + "\n", k, True


def answer(rng: random.Random, feature: int, k: int, form: induced.Form) -> str:
    return fenced(induced.program(feature, k, form, rng.random() < 0.5, rng.random() < 0.5))


def induced_response(rng: random.Random, problem: induced.Induced, style: Style) -> str:
    """A search through the features in random order, cut short when the demonstrator gives up."""
    text = ""
    last = (rng.randrange(len(induced.FEATURES)), rng.choice(induced.CONSTANTS))
    for feature in search_order(rng):
        if rng.random() < style.give_up:
            return text + rng.choice(GIVE_UPS) + answer(rng, *last, problem.form)
        line, k, fits = hypothesis(rng, feature, problem.examples)
        if rng.random() < style.loop:
            return text + line * 40  # cut at the length limit, never ends
        text += line
        if fits and k is not None:
            return text + answer(rng, feature, k, problem.form)
        if k is not None:
            last = (feature, k)
    return text + rng.choice(GIVE_UPS) + answer(rng, *last, problem.form)


def described_response(rng: random.Random, problem: described.Described, style: Style) -> str:
    """The program, after a plan or without one; each line may slip."""
    planned = rng.random() < style.plan
    text = ""
    if planned:
        names = map(described.step_name, problem.steps)
        text = "plan:" + ",".join([*names, f" {described.FINALS[problem.final].name}"]) + "\n"
    slip = style.slip_planned if planned else style.slip_unplanned
    steps = tuple(
        described.draw_step(rng) if rng.random() < slip else step for step in problem.steps
    )
    return text + fenced(described.program(steps, problem.final, problem.form))


def demonstrations(seed: int, style: Style) -> Iterator[tuple[str, str]]:
    """An endless stream of (statement, response) without problems of the test split.

    Described pipelines of the test split and example sets of the test split never occur.
    """
    rng = random.Random(f"corpus-{seed}")
    programs = induced_programs("train") + induced_programs("test")
    while True:
        if rng.random() < style.described_share:
            task = described.draw(rng)
            if split_of(task.key) == "train":
                yield task.statement(), described_response(rng, task, style)
        else:
            puzzle = draw_induced(rng, programs, "train")
            yield puzzle.statement(), induced_response(rng, puzzle, style)
