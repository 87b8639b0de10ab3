"""The plain task, write a program: what every set of problems is that belongs to no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcbench.data.schema import Problem
from mcbench.evaluator import extract_code
from mcbench.evaluator.reward import NO_CODE
from mcbench.tasks.base import TESTS, Judged, Task, outcome, run_programs


def judge(
    problems: Sequence[Problem], responses: Sequence[str], reward: str, evaluator: Any
) -> list[Judged]:
    """1 where the last complete block of code passes all tests, else 0."""
    results = run_programs(problems, [extract_code(one) for one in responses], evaluator)
    judged = []
    for result in results:
        passed, message = (False, NO_CODE) if result is None else outcome(result)
        judged.append(Judged(None if passed is None else float(passed), passed, {}, message))
    return judged


def _load(name: str) -> tuple[Problem, ...]:
    raise KeyError(name)  # it has no sets of its own


TASK = Task("code", (), _load, (TESTS,), judge)
