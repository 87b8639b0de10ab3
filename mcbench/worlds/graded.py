"""Nano training sets that were selected by how often a base model solves their problems.

Problems are generated anew, so that they are the same on every machine; which were selected, and
what was measured, is kept beside this module (``benchmarks/graded.py`` makes the three files):

- ``graded.json``: two sets of equal size, a harder and an easier one, that the data pipeline
  selected from one pool by the passes of nano-s (``benchmarks/graded_sets.py`` says how). Keys:
  ``model`` (the base's content hash), ``attempts`` and ``passes`` (of so many responses, by problem
  id), ``sets`` (ids in the order of the pool, by level) and ``base`` (by level what the model does
  on the set in other responses than those it was selected by: pass@1, pass@8, entropy in nats a
  token, Distinct-4, mean length in tokens, share truncated).
- ``saturated.json``: described problems of one or two steps that nano-s2 solves almost always, as
  the paper's easier set. Keys: ``ids``; ``pass@1`` and ``all right`` (groups of 8 without a
  failure) of ``model`` in responses that selected nothing.
- ``solvable.json``: how often nano-s2 solves what is in ``nano-balanced:train``: ``passes`` of
  ``attempts`` responses of ``model``, a digit a problem in the order of the set.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from mcbench.data.schema import Problem
from mcbench.errors import unknown
from mcbench.worlds.problems import described_problem, draw_described, load_balanced, load_split

LEVELS = ("harder", "easier")
POOL_SIZE, POOL_SEED = 1800, 1
"""The pool: a draw of its own from the programs and example sets of the train split."""
EASY_POOL_SIZE = 2400
LEAST_SOLVED, LEAST_ALL_RIGHT = 0.85, 0.5
"""What a saturated set is: the base's pass@1, and the share of groups without a failure."""


def file_of(name: str) -> Path:
    """Where ``graded``, ``saturated`` or ``solvable`` is kept."""
    return Path(__file__).with_name(f"{name}.json")


@cache
def measured(name: str) -> dict[str, Any]:
    """What was measured and selected, as the module says."""
    found: dict[str, Any] = json.loads(file_of(name).read_text())
    return found


def pool_problems() -> tuple[Problem, ...]:
    """The generated problems that the harder and the easier set are selected from."""
    return load_split("train", POOL_SIZE, POOL_SEED)


def easy_problems() -> tuple[Problem, ...]:
    """The first :data:`EASY_POOL_SIZE` easy described problems of the train split, from which the
    saturated set is selected.
    """
    rng = random.Random("nano-saturated")
    problems: dict[str, Problem] = {}
    while len(problems) < EASY_POOL_SIZE:
        task = draw_described(rng, "train")
        if task.difficulty != "easy" or task.statement() in problems:
            continue
        if problem := described_problem(task, rng):
            problems[problem.statement] = problem
    return tuple(problems.values())


def _selected(pool: Iterable[Problem], ids: Collection[str]) -> tuple[Problem, ...]:
    wanted = set(ids)
    return tuple(problem for problem in pool if problem.id in wanted)


@cache
def load_graded(level: str) -> tuple[Problem, ...]:
    """The problems of ``nano-harder:train`` or ``nano-easier:train``.

    Raises:
        UserError: an unknown level.
    """
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    return _selected(pool_problems(), measured("graded")["sets"][level])


@cache
def load_saturated() -> tuple[Problem, ...]:
    """The problems of ``nano-saturated:train``."""
    return _selected(easy_problems(), measured("saturated")["ids"])


@cache
def load_solvable() -> tuple[Problem, ...]:
    """The problems of ``nano-solvable:train``: those of ``nano-balanced:train`` that its base model
    solves sometimes (DeepCoder's offline difficulty filter, DAPO's dynamic sampling done once
    beforehand).
    """
    found = measured("solvable")
    pairs = zip(load_balanced("train"), map(int, found["passes"]), strict=True)
    return tuple(problem for problem, passes in pairs if 0 < passes < found["attempts"])
