"""Worlds that run on two CPU cores: problems with hidden truth, and the models that train on them.

A task is a generator of problems, rewards with parts, and metrics that are no reward
(:mod:`.base`); one module each: to write a program (:mod:`.code`), and what other systems train
code models on. Their sets are named like ``repair:train``; ``reward`` of a run's configuration says
which of the task's rewards trains.

Most problems come from one generator (:mod:`.problems`), in the words of one small tokenizer, for
base models that are built here (:mod:`.nano`, :mod:`.build`). A pretrained model
(:mod:`.pretrained`) writes easy functions asked for in plain English (:mod:`.easy`); it is real
text, and still small: 4-bit weights, no evidence about models a hundred times as large.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcbench.data.schema import Problem
from mcbench.worlds import code, dense, repair, search, self_play, tab, traces, turns
from mcbench.worlds.base import TESTS, Judged, Task
from mcbench.worlds.reward import TaskReward, means

_MODULES = (code, dense, repair, self_play, traces, turns, search, tab)
TASKS: dict[str, Task] = {one.TASK.name: one.TASK for one in _MODULES}
TASK_SETS = {name: task for task in TASKS.values() for name in task.sets}


def task_of(problems: Iterable[Problem]) -> Task:
    """The task of a set of problems: the one that their source names, else to write a program."""
    first = next(iter(problems), None)
    return TASKS.get(first.source if first else "", code.TASK)


__all__ = ["TASKS", "TASK_SETS", "TESTS", "Judged", "Task", "TaskReward", "means", "task_of"]
