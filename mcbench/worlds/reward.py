"""A task's reward as a reward function of TRL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator.reward import LogExtra, text_of
from mcbench.worlds.base import Judged, Task


class TaskReward:
    """Judges responses as ``task`` does with its ``reward``.

    The hidden truth stays in ``problems``; a row of the data set only names its ``problem_id``.
    """

    def __init__(
        self, task: Task, reward: str, problems: Iterable[Problem], evaluator: Any
    ) -> None:
        task.check_reward(reward)
        self.task, self.reward, self.evaluator = task, reward, evaluator
        self.problems = {problem.id: problem for problem in problems}
        self.__name__ = reward  # the name under which TRL logs it

    def answer(self, problem_id: str) -> str:
        """A right response to a problem, to be imitated.

        Raises:
            UserError: the task has none.
        """
        if self.task.answer is None:
            raise UserError(f"the task {self.task.name!r} has no answers that could be imitated")
        return self.task.answer(self.problems[problem_id])

    @property
    def can_pose(self) -> bool:
        """Whether the task has problems that a model poses."""
        return self.task.poser is not None

    def asked(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row of who poses, in the place of a problem's."""
        assert self.task.poser is not None
        return self._row(row, self.task.poser.asked(self.problems[row["problem_id"]]))

    def posed(
        self, rows: Sequence[Mapping[str, Any]], completions: Sequence[Any]
    ) -> list[tuple[dict[str, Any] | None, Judged]]:
        """What each completion poses in the place of the problem of a row: a row that can be
        answered from now on, None where it is not valid; and what became of the completion.
        """
        assert self.task.poser is not None
        problems = [self.problems[row["problem_id"]] for row in rows]
        found = self.task.poser.posed(problems, list(map(text_of, completions)), self.evaluator)
        self.problems |= {one.id: one for one, _ in found if one is not None}
        return [
            (None if one is None else self._row(row, one), judged)
            for row, (one, judged) in zip(rows, found, strict=True)
        ]

    @staticmethod
    def _row(row: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
        if not isinstance(row["prompt"], str):
            raise UserError("problems that a model poses are plain texts: prompt_style=plain")
        return {**row, **problem.to_row()}

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        problem_id: Sequence[str],
        log_extra: LogExtra | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        trainer_state: Any = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward a completion; None where our own infrastructure failed."""
        problems = [self.problems[one] for one in problem_id]
        texts = [text_of(one) for one in completions]
        judge = self.task.judge
        assert judge is not None
        if self.task.timed and trainer_state is not None:
            progress = trainer_state.global_step / trainer_state.max_steps
            judge = partial(judge, progress=progress)
        judged = judge(problems, texts, self.reward, self.evaluator)
        if log_extra is not None:
            log_extra("verdicts", [one.verdict for one in judged])
            if any(one.notes for one in judged):
                log_extra("notes", [one.notes for one in judged])
        if log_metric is not None:
            for name, value in means(judged).items():
                log_metric(f"task/{name}", value)
        return [one.reward for one in judged]


def means(judged: Iterable[Judged]) -> Mapping[str, float]:
    """``passed`` and every part, over the responses that have it."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in judged:
        if one.passed is not None:
            found["passed"].append(one.passed)
        for name, value in one.parts.items():
            found[name].append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}
