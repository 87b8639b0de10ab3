"""What judges the training responses of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.runs.config import Config

PUBLISHED: dict[str, Callable[[int], AbstractContextManager[Any]]] = {}
"""What judges in our evaluator's place where it is timed against others, by the names that a
configuration has for them, from a number of workers; filled by ``benchmarks/evaluator_timing.py``.
"""


def check_judge(config: Config) -> None:
    """Refuse a published method outside the benchmark that times it."""
    if config.reward_evaluator not in ("microcoder", *PUBLISHED):
        raise UserError(
            f"reward_evaluator {config.reward_evaluator!r} is a published method, there to be "
            "timed: python benchmarks/evaluator_timing.py trains with it"
        )


def reward_evaluator(config: Config, ours: Any) -> AbstractContextManager[Any]:
    """What judges the training responses of a profile.

    ``ours``, an evaluator with our rules, is used where the profile asks for no other.

    Raises:
        UserError: a published method outside the benchmark that times it.
    """
    workers = config.reward_workers
    if config.reward_evaluator == config.reward_rules == "microcoder":
        return nullcontext(ours)
    if config.reward_evaluator == "microcoder":
        return Evaluator(workers=workers, rules=config.reward_rules, backend=config.reward_backend)
    check_judge(config)
    return PUBLISHED[config.reward_evaluator](workers)
