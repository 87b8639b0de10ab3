"""The plain task, write a program: what every set of problems is that belongs to no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mcbench.data.schema import Problem
from mcbench.worlds.base import TESTS, Task
from mcbench.worlds.easy import load_easy
from mcbench.worlds.formats import load_formats
from mcbench.worlds.graded import load_graded, load_saturated, load_solvable
from mcbench.worlds.problems import load_balanced, load_split

_SETS: dict[str, Callable[[], tuple[Problem, ...]]] = {
    "nano:train": partial(load_split, "train"),
    "nano:test": partial(load_split, "test"),
    "nano-balanced:train": partial(load_balanced, "train"),
    "nano-balanced:test": partial(load_balanced, "test"),
    "nano-formats:train": partial(load_formats, "train"),
    "nano-formats:test": partial(load_formats, "test"),
    "nano-harder:train": partial(load_graded, "harder"),
    "nano-easier:train": partial(load_graded, "easier"),
    "nano-saturated:train": load_saturated,
    "nano-solvable:train": load_solvable,
    "easy:train": partial(load_easy, "train"),
    "easy:test": partial(load_easy, "test"),
}
TASK = Task("code", tuple(_SETS), lambda name: _SETS[name](), (TESTS,))
