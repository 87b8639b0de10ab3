"""Programs with a branch, for rewards denser than 1 or 0 (:mod:`mcbench.worlds.dense`).

A problem reads integers, takes one step if a condition holds and another if not, then one or two
more, and prints a result. The base model slips as programs of weak models do: a wrong step, a
name or an index that does not exist (a runtime error), a colon or bracket that is missing (no
program at all). The prompt ends where the program begins, which is the whole response: code up to
the closing fence, so that a line of the response is a line of the program.

Kinds: ``branch`` gives nothing of the program, ``half`` the branch (StepCoder's curriculum: the cut
is where a conditional ends), ``most`` all but the last step and what is printed. Only ``branch`` is
tested.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from mcbench.data.schema import Problem
from mcbench.worlds import described
from mcbench.worlds.described import OPS, READ, Step, draw_step
from mcbench.worlds.problems import Split, execute, split_of, test_of
from mcbench.worlds.words import FENCE_CLOSE, FENCE_OPEN

NAME = "branches"
SIZES = {"train": 400, "test": 120}
KINDS = {"branch": 0, "half": 5, "most": 6}
"""Lines of the program that are given; ``most`` where there is a further step."""
CONDITIONS = (
    ("the first value is even", "a[0] % 2 == 0"),
    ("the first value is above 9", "a[0] > 9"),
    ("the last value is odd", "a[-1] % 2 == 1"),
    ("there are over 4 values", "len(a) > 4"),
    ("the sum is above 50", "sum(a) > 50"),
)
HEAD = "Read integers on one line.\nIf "
INDENT = "    "
WRONG, CRASH, BREAK = 0.08, 0.05, 0.03
"""Of a line of a demonstration: another step, a runtime error, no Python."""
LIMIT_S = 0.5
TESTS_EACH = 2
"""Tests that take either branch."""

PHRASES = (
    HEAD, "; else ", "; then ", f"\nAnswer:\n{FENCE_OPEN}", "if ", ":\n", "else:\n", INDENT,
    *(part for pair in CONDITIONS for part in pair), f"{INDENT}a = ", "a[9]", "b",
)  # fmt: skip

Branching = tuple[int, tuple[Step, ...], int]
"""Condition, the two steps of the branch and those that follow, final."""


def draw(rng: random.Random) -> Branching:
    """A task of one or two steps after its branch."""
    steps = tuple(draw_step(rng) for _ in range(rng.choice((3, 4))))
    return rng.randrange(len(CONDITIONS)), steps, rng.randrange(len(described.FINALS))


def statement(task: Branching) -> str:
    """What is asked, up to where the program begins."""
    where, steps, final = task
    told = [OPS[op].wordings[0].format(k=k) for op, k in steps]
    after = "; then ".join([*told[2:], described.FINALS[final].wordings[0]])
    asked = f"{CONDITIONS[where][0]}: {told[0]}; else {told[1]}; then {after}"
    return f"{HEAD}{asked}.\nAnswer:\n{FENCE_OPEN}"


def lines(task: Branching) -> list[str]:
    """The lines of the right program."""
    where, steps, final = task
    taken, other, *after = [described.step_line(step) for step in steps]
    branch = [f"if {CONDITIONS[where][1]}:\n", INDENT + taken, "else:\n", INDENT + other]
    return [READ, *branch, *after, f"print({described.shown(final)})\n"]


def _tests(task: Branching, rng: random.Random) -> list[str] | None:
    """Inputs that take either branch and tell the program from those with one step for both; None
    where there are none such.
    """
    where, steps, final = task
    source = "".join(lines(task))
    others = ["".join(lines((where, (one, one, *steps[2:]), final))) for one in steps[:2]]
    inputs: dict[bool, list[str]] = {True: [], False: []}
    for _ in range(20):
        values = described.draw_input(rng)
        text = " ".join(map(str, values))
        taken = bool(eval(CONDITIONS[where][1], {"a": values, "len": len, "sum": sum}))
        wrong = others[1] if taken else others[0]
        try:
            if execute(source, "stdin", text) != execute(wrong, "stdin", text):
                inputs[taken].append(text)
        except (IndexError, ValueError):  # of a list that is empty by then
            return None
    if min(map(len, inputs.values())) < TESTS_EACH:
        return None
    return [text for found in inputs.values() for text in found[:TESTS_EACH]]


def problem(task: Branching, inputs: list[str], kind: str) -> Problem:
    """The problem with its tests and, of the other kinds, the lines that are given."""
    code, source = lines(task), "".join(lines(task))
    given = "".join(code[: KINDS[kind]])
    number = random.Random(source).getrandbits(40)  # the same on every machine
    return Problem(
        id=f"{NAME}/{kind}/{number:x}",
        statement=statement(task) + given,
        form="stdin",
        tests=tuple(test_of(source, "stdin", text) for text in inputs),
        difficulty="easy" if len(task[1]) == 3 else "medium",
        kind=kind,
        source=NAME,
        references=(source,),
        time_limit_s=LIMIT_S,
        metadata={"given": given},
    )


@cache
def load(name: str) -> tuple[Problem, ...]:
    """The problems of ``branches:train`` and ``branches:test``; ``branches-steps:train`` has those
    of the first in every kind.
    """
    kinds = list(KINDS) if "steps" in name else ["branch"]
    split: Split = "test" if name.endswith(":test") else "train"
    rng, found = random.Random(f"{NAME}-{split}"), dict[str, list[Problem]]()
    while len(found) < SIZES[split]:
        task = draw(rng)
        source = "".join(lines(task))
        if split_of(source) != split or source in found:
            continue
        if inputs := _tests(task, rng):
            found[source] = [problem(task, inputs, kind) for kind in kinds]
    return tuple(one for made in found.values() for one in made)


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """Statements of the train split with what is given of a program, and the rest of it, each line
    of which may slip.
    """
    rng = random.Random(f"{NAME}-corpus-{seed}")
    while True:
        task = draw(rng)
        code = lines(task)
        if split_of("".join(code)) != "train":
            continue
        given = rng.choice((0, 0, *KINDS.values()))
        rest = "".join(_slipped(rng, line) for line in code[given:])
        yield statement(task) + "".join(code[:given]), rest + FENCE_CLOSE


def _slipped(rng: random.Random, line: str) -> str:
    draw_of, indent = rng.random(), line[: len(line) - len(line.lstrip())]
    if draw_of < BREAK:
        return line.replace(":\n", "\n") if line.endswith(":\n") else line.replace(")\n", "\n")
    if draw_of < BREAK + CRASH and "a" in line and not line.startswith(("if", "else", READ[:5])):
        return rng.choice((f"{indent}a = b\n", f"{indent}a = a[9]\n"))
    if draw_of < BREAK + CRASH + WRONG and line.lstrip().startswith("a = ") and line != READ:
        return indent + described.step_line(draw_step(rng))
    return line
