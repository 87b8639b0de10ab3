"""Nano problems whose right answers come in several valid formats.

``nano-formats`` holds the problems of ``nano``, statement by statement in the same order. For a
fixed share of the stdin problems, chosen by hash, the expected output is written in another valid
way than the one in which the reference program prints it, as the outputs of real contest problems
often are:

- ``lines``: a list with one item per line instead of all on one line;
- ``spaces``: a list with doubled spaces between the items;
- ``float``: a number as a jury's floating point program prints it (``4.999999999999`` for 5); the
  test then states the absolute tolerance that the problem allows.

MicroCoder-Evaluator's rules accept every reference program on them. LiveCodeBench's rules, which
compare line by line and decimals exactly, reject those whose expected output differs in line
structure or in the last decimals; doubled spaces between numbers they accept.

``SHARE`` was chosen before anything was trained on these problems, from the reference programs
alone, so that LiveCodeBench's rules reject a quarter of them on the whole train split: the paper
puts the evaluators about 25 % apart. Half of the problems are call-based and stay as they are.
``tests/worlds/test_formats.py`` measures it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from mcbench.data.schema import Problem
from mcbench.worlds.problems import Split, load_split, lot

Format = Literal["plain", "lines", "spaces", "float"]

SHARE = 0.51
"""Share of the stdin problems whose expected outputs are written in another way."""
SPACES_SHARE = 0.25
"""Share of the reformatted lists that get doubled spaces; the others get one item per line."""
ATOL = 1e-6
"""Absolute tolerance that the tests of a ``float`` problem state."""
NOISE = 1e-12


def format_of(problem: Problem) -> Format:
    """How the expected outputs of this problem (of ``nano``) are written."""
    if problem.form != "stdin" or lot(f"chosen {problem.id}") >= SHARE:
        return "plain"
    if max(len(test["expected"].split()) for test in problem.tests) > 1:
        return "spaces" if lot(f"list {problem.id}") < SPACES_SHARE else "lines"
    return "float"


def write_list(expected: str, separator: str) -> str:
    """The items of a printed list with another separator."""
    return separator.join(expected.split()) + "\n"


def write_float(expected: str) -> str:
    """A printed integer as a program prints it that computed it with rounding errors.

    A hair nearer to zero, as a sum of binary fractions often comes out; zero itself a hair above.
    An output without a number stays as it is.
    """
    if not expected.strip():
        return expected
    number = int(expected)
    noise = -NOISE if number > 0 else NOISE
    return f"{number + noise:.12f}\n"


def _rewritten(test: dict[str, Any], form: Format) -> dict[str, Any]:
    expected = test["expected"]
    if form == "float":
        return {**test, "expected": write_float(expected), "atol": ATOL}
    return {**test, "expected": write_list(expected, "\n" if form == "lines" else "  ")}


def _with_format(problem: Problem) -> Problem:
    form, tests = format_of(problem), problem.tests
    return replace(
        problem,
        id=problem.id.replace("nano/", "nano-formats/", 1),
        tests=tests if form == "plain" else tuple(_rewritten(test, form) for test in tests),
        source="nano-formats",
        metadata={**problem.metadata, "format": form},
    )


def with_formats(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The same problems, with ids of their own and some expected outputs written in another way."""
    return tuple(map(_with_format, problems))


@cache
def load_formats(split: Split) -> tuple[Problem, ...]:
    """The problems of ``nano-formats:train`` or ``nano-formats:test``.

    Raises:
        UserError: an unknown split.
    """
    return with_formats(load_split(split))
