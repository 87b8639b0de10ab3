"""Which problem a run trains on when: the prompts of the whole run, laid out beforehand."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.runs.config import Config


def prompt_schedule(
    problems: Sequence[Problem],
    count: int,
    seed: int,
    stages: Sequence[tuple[float, str]] = ((0.0, "all"),),
) -> list[Problem]:
    """The ``count`` training problems of a run in order: shuffled passes over the set, or over its
    problems of one kind, stage by stage.

    The same seed gives the same order to every recipe, and a longer run begins like a shorter one.

    Args:
        stages: (share of the run at which it begins, kind), or "all" of them.

    Raises:
        UserError: no problems of a kind.
    """
    rng = random.Random(f"prompts-{seed}")
    schedule: list[Problem] = []
    ends = [round(start * count) for start, _ in stages[1:]] + [count]
    for (_, kind), end in zip(stages, ends, strict=True):
        chosen = [one for one in problems if kind == "all" or one.kind == kind]
        if not chosen:
            raise UserError(f"kind_stages: the training set has no problems of kind {kind!r}")
        while len(schedule) < end:
            schedule += rng.sample(chosen, len(chosen))
        schedule = schedule[:end]
    return schedule


def training_prompts(problems: Sequence[Problem], config: Config, count: int) -> list[Problem]:
    """The trainer's data set: the run's ``count`` prompts in order, then with ``draw_from_set`` all
    others, which only :mod:`mcbench.grpo.batches` comes to.
    """
    schedule = admitting_schedule(problems, config, count)
    if not config.draw_from_set:
        return schedule
    there = {problem.id for problem in schedule}
    return [*schedule, *(one for one in problems if one.id not in there)]


def admitting_schedule(problems: Sequence[Problem], config: Config, count: int) -> list[Problem]:
    """As :func:`prompt_schedule`, without the problems of pass rate 0 at first: every
    ``config.readmit[0]`` updates ``config.readmit[1]`` of them join, in the order of the set
    (Kimi-Dev, Yang et al. 2025, has 500 every 100 updates).
    """
    if config.readmit is None:
        stages = config.kind_stages or ((0.0, "all"),)
        return prompt_schedule(problems, count, config.seed, stages)
    every, many = config.readmit
    first = [problem for problem in problems if problem.pass_rate != 0]
    later = [problem for problem in problems if problem.pass_rate == 0]
    if not first:
        raise UserError("readmit needs a problem that the base solved (its pass_rate above 0)")
    per_stage = max(1, every // config.generation_period) * config.train_batch_size
    schedule: list[Problem] = []
    while len(schedule) < count:
        stage = len(schedule) // per_stage
        known = [*first, *later[: stage * many]]
        schedule += prompt_schedule(known, per_stage, config.seed + 1_000_003 * stage)
    return schedule[:count]
