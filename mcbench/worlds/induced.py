"""Induced problems: find the hidden function behind a few input -> output examples.

The hidden function is ``feature(x) + k``. A response that works tries one feature after the other:
it infers ``k`` from the first example and checks the others. So a longer search truly finds more
functions, giving up early does not, and a response cut at the limit is an unfinished search.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from mcbench.data.schema import Difficulty, Form

DOMAIN = tuple(range(10))
"""Inputs of the hidden function. Examples and hidden tests are drawn from these."""
CONSTANTS = tuple(range(1, 10))
N_EXAMPLES = 4


@dataclass(frozen=True)
class Feature:
    """One hypothesis: an expression in ``x`` to which a constant is added, and its function."""

    expr: str
    difficulty: Difficulty
    fn: Callable[[int], int]


_EXPRESSIONS: dict[Difficulty, tuple[str, ...]] = {
    "easy": ("x", "2 * x", "3 * x", "x * x"),
    "medium": ("4 * x", "5 * x", "x // 2", "x % 3", "x % 4"),
    "hard": ("(x ^ 5)", "(x ^ 3)", "(x & 6)", "x * (9 - x)", "abs(x - 5)", "x // 3", "x % 5"),
}
FEATURES = tuple(
    Feature(expr, difficulty, eval(f"lambda x: {expr}"))
    for difficulty, expressions in _EXPRESSIONS.items()
    for expr in expressions
)


HEADS = {
    "stdin": "Read an integer x and print y.",
    "call": "Complete class Solution: solve(self, x) returns y.",
}
"""How a statement begins, by form."""


@dataclass(frozen=True)
class Induced:
    """A hidden function with the examples that are shown.

    Attributes:
        feature: index into ``FEATURES``.
        k: the constant that is added.
        examples: ``N_EXAMPLES`` pairs (x, y); they fit one function of the family only.
        form: ``stdin`` or ``call``.
    """

    feature: int
    k: int
    examples: tuple[tuple[int, int], ...]
    form: Form
    kind: ClassVar = "induced"

    @property
    def difficulty(self) -> Difficulty:
        return FEATURES[self.feature].difficulty

    @property
    def key(self) -> str:
        """Names the reference program, whatever the form and the examples."""
        return f"induced:{FEATURES[self.feature].expr}+{self.k}"

    def statement(self) -> str:
        examples = "".join(f"\nin {x} out {y}" for x, y in self.examples)
        return f"{HEADS[self.form]}{examples}\nAnswer:\n"


@cache
def values(feature: int, k: int) -> tuple[int, ...]:
    """The function's outputs over ``DOMAIN``."""
    return tuple(FEATURES[feature].fn(x) + k for x in DOMAIN)


def program(feature: int, k: int, form: Form, swap: bool = False, named: bool = False) -> str:
    """The program text for ``feature(x) + k``; ``swap`` and ``named`` choose an equal spelling."""
    expr = FEATURES[feature].expr
    total = f"{k} + {expr}" if swap else f"{expr} + {k}"
    if form == "stdin":
        body = f"y = {total}\nprint(y)\n" if named else f"print({total})\n"
        return "x = int(input())\n" + body
    indent = "        "
    body = f"{indent}y = {total}\n{indent}return y\n" if named else f"{indent}return {total}\n"
    return "class Solution:\n    def solve(self, x):\n" + body


def consistent(examples: tuple[tuple[int, int], ...]) -> set[tuple[int, ...]]:
    """The different functions of the family, as values over ``DOMAIN``, that fit the examples."""
    fits = set()
    for feature in range(len(FEATURES)):
        for k in CONSTANTS:
            table = values(feature, k)
            if all(table[x] == y for x, y in examples):
                fits.add(table)
    return fits


def draw_program(rng: random.Random, programs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """One of ``programs``, (feature, constant): difficulties are drawn evenly, then a program of
    that difficulty.
    """
    wanted = rng.choice(("easy", "medium", "hard"))
    return rng.choice([p for p in programs if FEATURES[p[0]].difficulty == wanted])


def draw(rng: random.Random, programs: Sequence[tuple[int, int]]) -> Induced:
    """Draw a problem whose reference is one of ``programs`` and whose examples are unambiguous.

    The identity and constant functions are not in the family (``k`` is at least 1, no feature is
    constant).
    """
    while True:
        feature, k = draw_program(rng, programs)
        table = values(feature, k)
        for _ in range(50):
            # x = 0 tells little and is left to the hidden tests
            examples = tuple((x, table[x]) for x in rng.sample(DOMAIN[1:], N_EXAMPLES))
            if len(consistent(examples)) == 1:
                return Induced(feature, k, examples, rng.choice(("stdin", "call")))
