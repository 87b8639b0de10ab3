"""What a task is: problems with hidden truth, rewards with parts, a metric that is no reward."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcbench.data.schema import Problem
from mcbench.errors import unknown
from mcbench.evaluator import Submission
from mcbench.evaluator.submission import Result
from mcbench.worlds.multi_turn import Environment

TESTS = "tests"
"""The reward that every task has first: what its metric says, as a number."""


@dataclass(frozen=True)
class Judged:
    """What became of one response.

    Attributes:
        reward: that trains; None where our own infrastructure failed.
        passed: the metric, whatever the reward is: pass@1 comes from it; None as above.
        parts: numbers by name whose means are logged as ``task/NAME``.
        message: what went wrong, in a few words; empty where it passed.
        notes: JSON for what gives tokens their credit (:mod:`mcbench.grpo.tokens`); often empty.
    """

    reward: float | None
    passed: bool | None
    parts: Mapping[str, float] = field(default_factory=dict)
    message: str = ""
    notes: str = ""

    @property
    def verdict(self) -> str:
        """``AC``, ``IE``, or what went wrong, in one word."""
        if self.passed is None:
            return "IE"
        return "AC" if self.passed else re.sub(r"[\s,]+", "-", self.message) or "WA"


Judge = Callable[..., list[Judged]]
"""``judge(problems, responses, reward, evaluator)``: response i answers problem i. Malformed
responses get the task's penalty, never an exception; one call of the evaluator judges all.
"""
Summary = Callable[[Sequence[Problem], Sequence[Sequence[str]], Any], dict[str, float]]
"""``summary(problems, responses to each, evaluator)``: what an evaluation tells beside pass@1."""


@dataclass(frozen=True)
class Poser:
    """How a model poses problems of a task that it then solves (self-play).

    ``asked(problem)`` is what who poses is shown in the place of a problem, as a problem whose
    statement is the prompt. ``posed(problems, responses, evaluator)`` is the problem that each
    response poses, None where it is not valid, and what became of the response: ``passed`` says
    whether it is, None where our own infrastructure failed.
    """

    asked: Callable[[Problem], Problem]
    posed: Callable[[Sequence[Problem], Sequence[str], Any], list[tuple[Problem | None, Judged]]]


PASS_AT_1 = "pass@1"
RIGHT_AT, WRONG_AT = 1.0, 0.0
"""The reward from which on a response is right, and that up to which it is wrong, unless a task
says otherwise; what is between is neither.
"""


@dataclass(frozen=True)
class Task:
    """A generator of problems, and what judges responses to them.

    ``load(name)`` gives the problems of one of ``sets``, whose ``source`` is the task's name.
    ``judge`` is None for the plain task, to write a program: `CodeReward` judges that in training,
    :func:`mcbench.runs.evaluate.judge` in evaluations. A ``timed`` task's judge is told the
    ``progress`` of the training, 0 to 1.
    ``environment(evaluator, feedback, training, reward)`` is what episodes of several turns are
    played in, and ``feedback`` what may be told in them. ``measure`` is what pages call the share
    of held-out responses that passed. ``thresholds`` are of the rewards that have other ones than
    :data:`RIGHT_AT` and :data:`WRONG_AT`. ``answer`` gives a right response, without its end token,
    where the task has one. ``poser`` is how a model poses its problems.
    """

    name: str
    sets: tuple[str, ...]
    load: Callable[[str], tuple[Problem, ...]]
    rewards: tuple[str, ...]
    judge: Judge | None = None
    summary: Summary | None = None
    timed: bool = False
    environment: Callable[..., Environment] | None = None
    feedback: tuple[str, ...] = ()
    measure: str = PASS_AT_1
    thresholds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    answer: Callable[[Problem], str] | None = None
    poser: Poser | None = None

    def thresholds_of(self, reward: str) -> tuple[float, float]:
        """From which value of a reward on a response is right, and up to which it is wrong."""
        return self.thresholds.get(reward, (RIGHT_AT, WRONG_AT))

    def check_reward(self, reward: str) -> None:
        """Refuse a reward that the task does not have."""
        if reward not in self.rewards:
            raise unknown(f"reward of the task {self.name!r}", reward, self.rewards)


def run_programs(
    problems: Sequence[Problem], programs: Sequence[str | None], evaluator: Any
) -> list[Result | None]:
    """Every program on the tests of its problem, in one call; None where there is no program."""
    pairs = zip(problems, programs, strict=True)
    given = [None if code is None else problem.submission(code) for problem, code in pairs]
    return run_submissions(given, evaluator)


def run_submissions(given: Sequence[Submission | None], evaluator: Any) -> list[Result | None]:
    """All in one call, each result in its place; None where there is no submission."""
    found = [one for one in given if one is not None]
    results = iter(evaluator.evaluate(found, early_exit=True) if found else [])
    return [None if one is None else next(results) for one in given]


def judged_alone(
    environment: Environment, problems: Sequence[Problem], responses: Sequence[str]
) -> list[Judged]:
    """What comes of each response as an episode of one turn."""
    environment.reset(problems)
    steps = environment.step(dict(enumerate(responses)), ())
    return [
        Judged(one.reward, one.passed, one.parts, "" if one.passed else one.verdict.split(",")[-1])
        for one in map(steps.__getitem__, range(len(responses)))
    ]


def outcome(result: Result) -> tuple[bool | None, str]:
    """Whether a program passed (None: our own failure), and the first verdict that says no."""
    if "IE" in result.verdicts:
        return None, "IE"
    return result.passed, "" if result.passed else result.verdicts[-1]
