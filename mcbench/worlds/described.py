"""Described problems: a short text names the steps of a list pipeline; the program follows them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mcbench.data.schema import Difficulty, Form

MAX_DEPTH = 6
INDENT = "        "
READ = "a = list(map(int, input().split()))\n"


@dataclass(frozen=True)
class Op:
    """One step: its name in plans, its wordings in statements, its code; ``{k}`` is a constant."""

    name: str
    wordings: tuple[str, ...]
    code: str
    constants: Sequence[int] = ()


OPS = (
    Op("add", ("add {k} to each", "increase all by {k}"), "[v + {k} for v in a]", range(1, 10)),
    Op("times", ("multiply each by {k}", "scale all by {k}"), "[v * {k} for v in a]", range(2, 6)),
    Op(
        "less", ("subtract {k} from each", "lower all by {k}"), "[v - {k} for v in a]", range(1, 10)
    ),
    Op(
        "mod",
        ("take each modulo {k}", "reduce all modulo {k}"),
        "[v % {k} for v in a]",
        range(3, 10),
    ),
    Op(
        "above",
        ("keep values above {k}", "drop values up to {k}"),
        "[v for v in a if v > {k}]",
        range(2, 10),
    ),
    Op(
        "below",
        ("keep values below {k}", "drop values from {k} on"),
        "[v for v in a if v < {k}]",
        range(8, 18),
    ),
    Op("even", ("keep even values", "drop odd values"), "[v for v in a if v % 2 == 0]"),
    Op("odd", ("keep odd values", "drop even values"), "[v for v in a if v % 2 == 1]"),
    Op("sort", ("sort ascending", "put in ascending order"), "sorted(a)"),
    Op("fall", ("sort descending", "put in descending order"), "sorted(a)[::-1]"),
    Op("flip", ("reverse the list", "turn it around"), "a[::-1]"),
    Op("tail", ("drop the first value", "remove the first value"), "a[1:]"),
    Op("init", ("drop the last value", "remove the last value"), "a[:-1]"),
    Op("uniq", ("sort without repeats", "keep distinct values in order"), "sorted(set(a))"),
)
FINALS = (
    Op("all", ("give the list", "output the list"), "a"),
    Op("sum", ("give the sum", "output the total"), "sum(a)"),
    Op("len", ("give the count", "output the number of values"), "len(a)"),
    Op("max", ("give the largest or 0", "output the maximum or 0"), "max(a, default=0)"),
)

# each op as a function of the list and its constant, to search for shorter equal pipelines quickly
_STEP_FN = [eval(f"lambda a, k: {op.code}".replace("{k}", "k")) for op in OPS]
_FINAL_FN = [eval(f"lambda a: {op.code}") for op in FINALS]

Step = tuple[int, int | None]
"""(index into ``OPS``, constant or None)."""


HEADS = {
    "stdin": "Read integers on one line.",
    "call": "Complete class Solution: solve(self, a) for a list a.",
}
"""How a statement begins, by form."""


@dataclass(frozen=True)
class Described:
    """A pipeline: the steps, then what is output (index into ``FINALS``)."""

    steps: tuple[Step, ...]
    final: int
    form: Form
    wording: tuple[int, ...]
    kind: ClassVar = "described"

    @property
    def difficulty(self) -> Difficulty:
        return "easy" if len(self.steps) <= 2 else "medium" if len(self.steps) <= 4 else "hard"

    @property
    def key(self) -> str:
        """Names the reference program, whatever the form and the wording."""
        names = [OPS[op].name + ("" if k is None else str(k)) for op, k in self.steps]
        return "described:" + ",".join([*names, FINALS[self.final].name])

    def statement(self) -> str:
        texts = [
            OPS[op].wordings[w].format(k=k)
            for (op, k), w in zip(self.steps, self.wording, strict=False)
        ]
        texts.append(FINALS[self.final].wordings[self.wording[-1]])
        return f"{HEADS[self.form]}\nSteps: " + "; ".join(texts) + ".\nAnswer:\n"


def step_name(step: Step) -> str:
    """A step as plans and thoughts name it, after a space."""
    op, k = step
    return f" {OPS[op].name}" + ("" if k is None else f" {k}")


def step_line(step: Step) -> str:
    op, k = step
    return f"a = {OPS[op].code.format(k=k)}\n"


def shown(final: int) -> str:
    """What is printed of a result: a list as its values, separated by spaces."""
    result = FINALS[final].code
    return "*a" if result == "a" else result


def program(steps: tuple[Step, ...], final: int, form: Form) -> str:
    """The program text of a pipeline."""
    lines = map(step_line, steps)
    if form == "stdin":
        return READ + "".join(lines) + f"print({shown(final)})\n"
    head = "class Solution:\n    def solve(self, a):\n"
    return head + "".join(INDENT + line for line in [*lines, f"return {FINALS[final].code}\n"])


def draw_step(rng: random.Random) -> Step:
    op = rng.randrange(len(OPS))
    return op, rng.choice(OPS[op].constants) if OPS[op].constants else None


def draw(rng: random.Random) -> Described:
    """Draw a pipeline of depth 1 to ``MAX_DEPTH`` (not yet checked for shorter equivalents)."""
    depth = rng.randint(1, MAX_DEPTH)
    steps = tuple(draw_step(rng) for _ in range(depth))
    wording = tuple(rng.randrange(2) for _ in range(depth + 1))
    return Described(steps, rng.randrange(len(FINALS)), rng.choice(("stdin", "call")), wording)


def run(steps: tuple[Step, ...], final: int, a: list[int]) -> object:
    """The value that the pipeline computes for the list ``a``."""
    for op, k in steps:
        a = _STEP_FN[op](a, k)
    return _FINAL_FN[final](a)


def draw_input(rng: random.Random) -> list[int]:
    return [rng.randint(0, 20) for _ in range(rng.randint(3, 7))]


def shorter(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """Every pipeline that leaves out at least one of the steps, the longest first."""
    n = len(steps)
    masks = sorted(range(2**n - 1), key=int.bit_count, reverse=True)
    return [tuple(step for i, step in enumerate(steps) if mask >> i & 1) for mask in masks]
