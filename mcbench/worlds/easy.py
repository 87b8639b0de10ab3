"""Very easy Python functions, asked for in plain English: what a model of 135M parameters can
learn to write.

A family (``families.yaml``) is one small task with its wordings; its problems differ in constants,
names and words. Expected values come from running the reference program. The splits have no family
in common: what is held out is asked for in no training problem.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

from mcbench.data.schema import Problem
from mcbench.files import digest, read_data

PER_FAMILY = 12
HELD_OUT = 4
"""Every fourth family is kept for test."""
ASSERTS, TESTS = 8, 2
EXAMPLES = 0.5
"""Share of problems whose statement shows an input and what is returned."""
FRAMES = (
    "Write a Python function {name} that {ask}.",
    "Write a function called {name}. It {ask}.",
    "Define a function {name} which {ask}.",
    "I need a short Python function, {name}, that {ask}.",
    "Please write {name}, a function that {ask}.",
    "Your task is the function {name}: it {ask}.",
    "Can you write a Python function {name} that {ask}?",
    "Implement {name}({args}). It {ask}.",
)
_TEXT = (
    "apple pear fig plum tea sand boat stone noon level radar cat house tree reason return banana "
    "tom ann eve bob at is on"
)
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True)
class Family:
    """One task; see the head of ``families.yaml``."""

    name: str
    kind: str
    args: dict[str, str]
    code: str
    names: list[str]
    asks: list[str]
    k: tuple[Any, ...] | list[Any] = ("",)


@cache
def families() -> tuple[Family, ...]:
    """All of them, in the order of the file."""
    text = Path(__file__).with_name("families.yaml").read_text()
    return tuple(Family(name, **about) for name, about in read_data(text).items())


def split_of(place: int) -> Literal["train", "test"]:
    """The split that owns the family at a place."""
    return "test" if place % HELD_OUT == HELD_OUT - 1 else "train"


@cache
def load_easy(split: Literal["train", "test"]) -> tuple[Problem, ...]:
    """The problems of a split, family after family."""
    return tuple(
        problem
        for place, family in enumerate(families())
        if split_of(place) == split
        for problem in _problems(family)
    )


def _problems(family: Family) -> Iterator[Problem]:
    """A family's problems: its constants in turn, each with another name, wording and frame."""
    rng = random.Random(f"easy-{family.name}")
    wordings = list(product(family.names, family.asks, FRAMES))
    rng.shuffle(wordings)
    constants = rng.sample(list(family.k), len(family.k))
    for number in range(PER_FAMILY):
        constant = constants[number % len(constants)]
        yield _problem(family, constant, *wordings[number], rng)


def _problem(
    family: Family, constant: Any, name: str, ask: str, frame: str, rng: random.Random
) -> Problem:
    name = name.replace("<k>", str(constant).replace("-", "minus_"))
    args = ", ".join(family.args)
    starter = f"def {name}({args}):"
    shown, *asserts = [
        (f"{name}({', '.join(map(repr, values))})", result)
        for values, result in _calls(family, starter, constant, rng)
    ]
    statement = frame.format(name=name, args=args, ask=ask.replace("<k>", str(constant)))
    if rng.random() < EXAMPLES:
        statement += " For example, {} returns {!r}.".format(*shown)
    statement += f' Begin with "{starter}".'
    checks = [f"assert {call} == {result!r}" for call, result in asserts]
    tests = [{"code": "\n".join(checks[n::TESTS]), "entry_point": name} for n in range(TESTS)]
    return Problem(
        id=f"easy/{family.name}/{digest([statement])[:10]}",
        statement=statement,
        form="assert",
        tests=tuple(tests),
        fn_name=name,
        starter_code=starter,
        difficulty="easy",
        kind=family.kind,
        source="easy",
        references=(_source(family, starter, constant),),
        metadata={"family": family.name},
    )


def _source(family: Family, starter: str, constant: Any) -> str:
    return f"{starter}\n    return {family.code.replace('<k>', repr(constant))}\n"


def _calls(
    family: Family, starter: str, constant: Any, rng: random.Random
) -> list[tuple[list[Any], Any]]:
    """Different inputs with what the reference returns: one to show, and those of the tests, which
    tell it from a program that ignores its input and from the family's other constants.
    """
    mine = _program(_source(family, starter, constant))
    others = [_program(_source(family, starter, k)) for k in family.k if k != constant]
    while True:
        drawn = ([_INPUTS[kind](rng) for kind in family.args.values()] for _ in range(99))
        shown, *tested = list({repr(values): values for values in drawn}.values())[: ASSERTS + 1]
        results = [mine(*values) for values in tested]
        varied = any(one != results[0] for one in results)
        if varied and all([other(*values) for values in tested] != results for other in others):
            return [(shown, mine(*shown)), *zip(tested, results, strict=True)]


def _program(source: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return next(one for name, one in namespace.items() if name != "__builtins__")


def _numbers(rng: random.Random, least: int, most: int) -> list[int]:
    return [rng.randint(-5, 12) for _ in range(rng.randint(least, most))]


def _counts(rng: random.Random, least: int) -> dict[str, int]:
    """Different values, so that each belongs to one key."""
    count = rng.randint(least, 4)
    return dict(zip(rng.sample(_WORDS, count), rng.sample(range(13), count), strict=True))


def _mirrored(rng: random.Random) -> str:
    """A word, or as often one that reads the same in both directions."""
    word = rng.choice(_WORDS)
    return word + word[::-1] if rng.random() < 0.5 else word


_INPUTS: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda rng: rng.randint(-20, 20),
    "natural": lambda rng: rng.randint(0, 42),
    "small": lambda rng: rng.randint(0, 9),
    "large": lambda rng: rng.randint(1, 10 ** rng.randint(1, 5)),
    "list": partial(_numbers, least=0, most=6),
    "filled": partial(_numbers, least=1, most=6),
    "long": partial(_numbers, least=4, most=7),
    "text": lambda rng: rng.choice(_WORDS),
    "mirrored": _mirrored,
    "sentence": lambda rng: " ".join(rng.choices(_WORDS, k=rng.randint(1, 6))),
    "words": lambda rng: rng.sample(_WORDS, rng.randint(1, 5)),
    "repeated": lambda rng: rng.choices(rng.sample(_WORDS, 3), k=rng.randint(0, 5)),
    "counts": partial(_counts, least=0),
    "several": partial(_counts, least=1),
    "key": lambda rng: rng.choice(_WORDS),
}
