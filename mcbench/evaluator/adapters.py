"""The judge as a reward of trainers other than TRL, for which `CodeReward` is one.

Each function is called as its trainer calls rewards, and is named in that trainer's configuration
(``docs/evaluator.md``). These trainers know no missing reward: where our own infrastructure fails,
it is 0, as for a wrong program. A thread that judges keeps a sandbox of its own, so that as many
responses are judged at a time as the trainer has threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator.evaluator import Evaluator
from mcbench.evaluator.reward import CodeReward

_mine = threading.local()


def verl_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,
) -> float:
    """For ``reward.custom_reward_function`` of verl (0.9) with the reward manager ``naive`` or
    ``dapo``.

    ``ground_truth`` holds the tests as ``mcbench data export --form verl`` and APPS write them:
    JSON with ``inputs``, ``outputs`` and, for a method, ``fn_name``.
    """
    return _one(solution_str, _apps(ground_truth))


def verl_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[str],
    extra_infos: Sequence[Any] | None = None,
    **_: Any,
) -> list[float]:
    """`verl_score` for verl's reward manager ``batch``: all processors judge."""
    return _judged(_shared(), list(solution_strs), [_apps(one) for one in ground_truths])


async def verifiers_reward(task: Any, trace: Any) -> float:
    """A ``@reward`` of verifiers (0.4): ``task`` has the fields ``tests`` and ``form`` that
    `CodeReward` reads, and ``fn_name`` for a method; the last reply of ``trace`` is judged.
    """
    row = {name: getattr(task, name, "") for name in ("tests", "form", "fn_name")}
    return await asyncio.to_thread(_one, trace.last_reply, row)


async def rubric_reward(completion: Any, info: Mapping[str, Any]) -> float:
    """A function of a ``Rubric`` of verifiers (before 0.4); the fields of `verifiers_reward` are
    those of ``info``.
    """
    row = {name: info.get(name, "") for name in ("tests", "form", "fn_name")}
    return await asyncio.to_thread(_one, completion, row)


def _apps(ground_truth: str) -> dict[str, str]:
    """Columns of `CodeReward` from tests in the form of APPS."""
    try:
        given = json.loads(ground_truth)
        pairs = list(zip(given["inputs"], given["outputs"], strict=True))
    except (TypeError, ValueError, KeyError):
        raise UserError(
            "ground_truth must be JSON with as many inputs as outputs, as APPS has them"
        ) from None
    name = given.get("fn_name") or ""
    key = "args" if name else "stdin"
    tests = [{key: one, "expected": expected} for one, expected in pairs]
    return {"tests": json.dumps(tests), "form": "call" if name else "stdin", "fn_name": name}


def _one(response: Any, row: Mapping[str, str]) -> float:
    if not hasattr(_mine, "reward"):
        _mine.reward = CodeReward(Evaluator(workers=1), overlap=False)
    return _judged(_mine.reward, [response], [row])[0]


@cache
def _shared() -> CodeReward:
    return CodeReward(Evaluator(workers=os.cpu_count() or 1), overlap=False)


def _judged(
    reward: CodeReward, responses: Sequence[Any], rows: Sequence[Mapping[str, str]]
) -> list[float]:
    columns: dict[str, Any] = {
        name: [row[name] for row in rows] for name in ("tests", "form", "fn_name")
    }
    return [score or 0.0 for score in reward([""] * len(rows), responses, **columns)]
