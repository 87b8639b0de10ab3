"""The landscape of tasks: what other systems train code models on, each from the one generator.

A task is a generator of problems with hidden truth, rewards with parts, and metrics that are no
reward (:mod:`.base`); one module each. Their sets are named like ``repair:train``; ``reward`` of a
run's configuration says which of the task's rewards trains.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcbench.data.schema import Problem
from mcbench.tasks import code, dense, repair, search, tab, traces, turns
from mcbench.tasks.base import TESTS, Judged, Task
from mcbench.tasks.reward import TaskReward, means

_ALL = (code.TASK, dense.TASK, repair.TASK, traces.TASK, turns.TASK, search.TASK, tab.TASK)
TASKS = {one.name: one for one in _ALL}
TASK_SETS = {name: task for task in TASKS.values() for name in task.sets}


def task_of(problems: Iterable[Problem]) -> Task:
    """The task of a set of problems: the one that their source names, else to write a program."""
    first = next(iter(problems), None)
    return TASKS.get(first.source if first else "", code.TASK)


__all__ = ["TASKS", "TASK_SETS", "TESTS", "Judged", "Task", "TaskReward", "means", "task_of"]
