"""Nano training sets that were selected by how often a base model solves their problems.

Two of equal size, a harder and an easier one, are selected by the data pipeline from one pool of
generated problems, by the passes of nano-s: ``benchmarks/graded_sets.py`` does that and
says how. What it selected is kept in ``graded.json``, as ids with the measured passes; the problems
themselves are generated anew here, so that they are the same on every machine without running the
pipeline. A third holds the problems of ``nano-balanced:train`` that nano-s2 solves sometimes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mcbench.data.schema import Problem
from mcbench.errors import unknown
from mcbench.worlds.problems import load_balanced, load_split

LEVELS = ("harder", "easier")
POOL_SIZE, POOL_SEED = 1800, 1
"""The pool: a draw of its own from the programs and example sets of the train split."""
GRADED_FILE = Path(__file__).with_name("graded.json")
SOLVABLE_FILE = Path(__file__).with_name("solvable.json")


@dataclass(frozen=True)
class Grades:
    """What was measured, and what was selected by it.

    ``passes``: problem id -> passes of ``attempts`` responses of the base model with the content
    hash ``model``. ``sets``: level -> ids in the order of the pool. ``base``: level -> what that
    model does on the set in other responses than those it was selected by: pass@1, pass@8, entropy
    (nats a token), Distinct-4, mean length (tokens), share truncated.
    """

    model: str
    attempts: int
    passes: dict[str, int]
    sets: dict[str, tuple[str, ...]]
    base: dict[str, dict[str, float]]

    def rates(self) -> dict[str, float]:
        """Pass rate by problem id."""
        return {name: count / self.attempts for name, count in self.passes.items()}

    def write(self, path: Path) -> None:
        """As JSON, one problem a line."""
        content = {**vars(self), "sets": {k: list(v) for k, v in self.sets.items()}}
        path.write_text(json.dumps(content, indent=0) + "\n")


@cache
def grades() -> Grades:
    """The committed ones."""
    content = json.loads(GRADED_FILE.read_text())
    content["sets"] = {level: tuple(ids) for level, ids in content["sets"].items()}
    return Grades(**content)


def pool_problems() -> tuple[Problem, ...]:
    """The generated problems that both sets are selected from."""
    return load_split("train", POOL_SIZE, POOL_SEED)


@cache
def load_graded(level: str) -> tuple[Problem, ...]:
    """The problems of ``nano-harder:train`` or ``nano-easier:train``.

    Raises:
        UserError: an unknown level.
    """
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    wanted = set(grades().sets[level])
    return tuple(problem for problem in pool_problems() if problem.id in wanted)


@cache
def load_solvable() -> tuple[Problem, ...]:
    """The problems of ``nano-solvable:train``: those of ``nano-balanced:train`` that its base model
    solves sometimes (DeepCoder's offline difficulty filter, DAPO's dynamic sampling done once
    beforehand). ``solvable.json`` holds the passes of ``attempts`` responses to each, a digit a
    problem in the order of the set, and the content hash of the ``model``.
    """
    found = json.loads(SOLVABLE_FILE.read_text())
    pairs = zip(load_balanced("train"), map(int, found["passes"]), strict=True)
    return tuple(problem for problem, passes in pairs if 0 < passes < found["attempts"])
