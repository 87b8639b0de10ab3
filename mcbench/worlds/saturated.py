"""A nano training set that its base model has nearly solved, as the paper's easier set is.

Described problems of one or two steps. From a pool of them those are kept that the base model
nano-s2 solves almost always (``benchmarks/graded.py``); ``saturated.json``
has their ids, the problems are generated anew here.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from mcbench.data.schema import Problem
from mcbench.worlds.problems import described_problem, draw_described

POOL_SIZE = 2400
LEAST_SOLVED, LEAST_ALL_RIGHT = 0.85, 0.5
"""What a saturated set is: the base's pass@1, and the share of groups without a failure."""
SATURATED_FILE = Path(__file__).with_name("saturated.json")


def easy_problems() -> tuple[Problem, ...]:
    """The first :data:`POOL_SIZE` easy described problems of the train split."""
    rng = random.Random("nano-saturated")
    problems: dict[str, Problem] = {}
    while len(problems) < POOL_SIZE:
        task = draw_described(rng, "train")
        if task.difficulty != "easy" or task.statement() in problems:
            continue
        if problem := described_problem(task, rng):
            problems[problem.statement] = problem
    return tuple(problems.values())


def measured() -> dict[str, Any]:
    """``ids``; ``pass@1`` and ``all right`` (groups of 8 without a failure) of the base model with
    the content hash ``model``, in responses that selected nothing.
    """
    found: dict[str, Any] = json.loads(SATURATED_FILE.read_text())
    return found


@cache
def load_saturated() -> tuple[Problem, ...]:
    """The problems of ``nano-saturated:train``."""
    wanted = set(measured()["ids"])
    return tuple(problem for problem in easy_problems() if problem.id in wanted)
