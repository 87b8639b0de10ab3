"""Induced problems played over several turns: one example is shown, more come as feedback.

The statement shows one example of a hidden function ``feature(x) + k``, which leaves about seven
functions open: what a failing test tells is the only way to know which. The demonstrator is honest
but weak: it makes use of what it was told in half of its turns, gives up early, and now and then
writes no program.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from mcbench.data.schema import Problem
from mcbench.nano import induced
from mcbench.nano.corpus import answer, hypothesis, search_order
from mcbench.nano.problems import Split, induced_programs, name_of, split_of, test_of
from mcbench.nano.words import EOS, GIVE_UPS

SHOWN, PUBLIC = 1, 4
"""Of a problem's tests the first ``PUBLIC`` may be shown, and so many are in the statement."""
TURNS = 3
SIZES = {"train": 1000, "test": 120}
EVERY = induced_programs("train") + induced_programs("test")


def feedback(x: int, y: int) -> str:
    """What is said of a failing public test: its input and what was expected."""
    return f"\nin {x} out {y}\nAnswer:\n"


NO_PROGRAM_FEEDBACK = "\nAnswer:\n"


def draw(
    rng: random.Random, programs: tuple[tuple[int, int], ...], split: Split
) -> tuple[induced.Induced, tuple[int, ...]]:
    """A problem with the examples its statement shows, and all inputs in the order of its tests:
    the public ones first, of which the first are shown.
    """
    while True:
        feature, k = induced.draw_program(rng, programs)
        public = rng.sample(induced.DOMAIN[1:], PUBLIC)
        inputs = (*public, *(x for x in induced.DOMAIN if x not in public))
        table = induced.values(feature, k)
        examples = tuple((x, table[x]) for x in inputs[:SHOWN])
        task = induced.Induced(feature, k, examples, "stdin")
        if split_of(f"turns {task.key} {inputs[:PUBLIC]}") == split:
            return task, inputs


@cache
def load_turns(split: Split) -> tuple[Problem, ...]:
    """The problems of a split. Both have all hidden functions: one example leaves several, and to
    learn which of them occur in training would make every other a worse guess. What is kept apart
    is the function with its public examples in their order, by a hash; a statement, which shows one
    example, recurs, and so do the examples in another order (8 of the 120 of the test).
    """
    rng, programs = random.Random(f"turns-{split}"), EVERY
    found: dict[str, Problem] = {}
    while len(found) < SIZES[split]:
        task, inputs = draw(rng, programs, split)
        source = induced.program(task.feature, task.k, "stdin")
        name = name_of(f"{task.key} {inputs}")
        found.setdefault(
            name,
            Problem(
                id=f"turns/{name}",
                statement=task.statement(),
                form="stdin",
                tests=tuple(test_of(source, "stdin", x) for x in inputs),
                difficulty=task.difficulty,
                kind="induced",
                source="turns",
                references=(source,),
                metadata={"program": task.key, "public": PUBLIC},
            ),
        )
    return tuple(found.values())


HEED, GIVE_UP, LOOP, BLANK = 0.5, 0.25, 0.005, 0.05
"""Of the demonstrator: that a turn makes use of the feedback, not of the statement alone; that a
search ends before the next hypothesis, or falls into a loop with one; that a turn has no program.
"""


def attempt(
    rng: random.Random, examples: tuple[tuple[int, int], ...]
) -> tuple[str, tuple[int, int] | None]:
    """One turn: a search for a function that fits the examples, and the program (feature,
    constant) that it ends in; None without one.
    """
    text = ""
    last: tuple[int, int] | None = None
    for feature in search_order(rng):
        if last is not None and rng.random() < GIVE_UP:
            text += rng.choice(GIVE_UPS)
            break
        line, k, fits = hypothesis(rng, feature, examples)
        if rng.random() < LOOP:
            return text + line * 20, None
        text += line
        last = last if k is None else (feature, k)
        if fits:
            break
    if last is None or rng.random() < BLANK:
        return text, None
    return text + answer(rng, *last, "stdin"), last


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of (what was said so far, the next turn), without problems of the test
    split.
    """
    rng = random.Random(f"turns-corpus-{seed}")
    while True:
        task, inputs = draw(rng, EVERY, "train")
        table = induced.values(task.feature, task.k)
        public = tuple((x, table[x]) for x in inputs[:PUBLIC])
        said, known = task.statement(), public[:SHOWN]
        for _ in range(TURNS):
            heeded = known if rng.random() < HEED else known[:SHOWN]
            text, found = attempt(rng, heeded)
            yield said, text
            if found is None:
                said += f"{text}{EOS}{NO_PROGRAM_FEEDBACK}"
                continue
            guessed = induced.values(*found)
            failing = next(((x, y) for x, y in public if guessed[x] != y), None)
            if failing is None:
                break
            said += f"{text}{EOS}{feedback(*failing)}"
            known += (failing,) if failing not in known else ()
