"""The judge as a reward of trainers other than TRL, for which `CodeReward` is one.

Each function is called as its trainer calls rewards, and is named in that trainer's configuration
(``docs/evaluator.md``). These trainers know no missing reward: where our own infrastructure fails,
it is 0, as for a wrong program. A thread that judges keeps a sandbox of its own, so that as many
responses are judged at a time as the trainer has threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator.evaluator import Evaluator
from mcbench.evaluator.reward import OWN, CodeReward, json_value
from mcbench.evaluator.submission import require

_COLUMNS = ("tests", "form", *OWN)
_mine = threading.local()


def verl_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,
) -> float:
    """For ``reward.custom_reward_function`` of verl (0.9), with any of its reward managers.

    ``ground_truth`` holds the tests as ``mcbench data export --form verl``, APPS and TACO write
    them: JSON with ``inputs``, ``outputs`` and, for a method, ``fn_name``. A program's input or
    output is text or a list of lines, a method's input a list of arguments, or text with one a
    line. Where every output of a method is a list of one, the sets may have wrapped it: as to their
    own judge, a program is right that answers all of them in the one or the other reading. A
    problem's own ``time_limit_s``, ``memory_limit_mb`` and ``preamble`` stand in ``extra_info``.

    Raises:
        UserError: tests of another form; it names the row (``index`` of ``extra_info``) and field.
    """
    about = extra_info or {}
    own = {name: about.get(name) for name in ("time_limit_s", "memory_limit_mb", "preamble")}
    try:
        form, name, readings = _apps(ground_truth)
        own |= {"form": form, "fn_name": name}
        return max(_reward(solution_str, own | {"tests": tests}) for tests in readings)
    except UserError as error:
        raise UserError(f"{data_source}, row {about.get('index', '?')}: {error}") from None


async def verifiers_reward(task: Any, trace: Any) -> float:
    """A ``@reward`` of verifiers (0.4): ``task`` has the fields ``tests`` and ``form`` that
    `CodeReward` reads, and of its others those that the problem has (``fn_name`` for a method); the
    last reply of ``trace`` is judged.
    """
    row = {name: getattr(task, name, None) for name in _COLUMNS}
    return await asyncio.to_thread(_reward, trace.last_reply, row)


async def rubric_reward(completion: Any, info: Mapping[str, Any]) -> float:
    """A function of a ``Rubric`` of verifiers (before 0.4); the fields of `verifiers_reward` are
    those of ``info``.
    """
    row = {name: info.get(name) for name in _COLUMNS}
    return await asyncio.to_thread(_reward, completion, row)


def _apps(ground_truth: str | Mapping[str, Any]) -> tuple[str, str, list[list[dict[str, Any]]]]:
    """Form, function's name and tests of `CodeReward` from tests in the form of APPS; two lists of
    tests where these can be read so.
    """
    try:
        given = json_value(ground_truth) if isinstance(ground_truth, str) else ground_truth
        inputs, outputs = _lists(given["inputs"]), _lists(given["outputs"])
        if isinstance(inputs, str) and isinstance(outputs, str):  # one test, as it is
            inputs, outputs = [inputs], [outputs]
        if not (isinstance(inputs, list) and isinstance(outputs, list) and inputs):
            raise ValueError
        pairs = list(zip(inputs, outputs, strict=True))
    except (TypeError, ValueError, KeyError):
        raise UserError(
            "ground_truth must be JSON with as many inputs as outputs, as APPS has them"
        ) from None
    name = given.get("fn_name") or ""
    if not name:
        tests = [
            {"stdin": _text(one, f"inputs[{n}]"), "expected": _text(expected, f"outputs[{n}]")}
            for n, (one, expected) in enumerate(pairs)
        ]
        return "stdin", "", [tests]
    calls: list[dict[str, Any]] = [
        {"args": _arguments(one, f"inputs[{n}]"), "expected": _value(expected, one)}
        for n, (one, expected) in enumerate(pairs)
    ]
    readings = [calls]
    if all(isinstance(test["expected"], list) and len(test["expected"]) == 1 for test in calls):
        readings.append([test | {"expected": test["expected"][0]} for test in calls])
    return "call", name, readings


def _lists(value: Any) -> Any:
    """Lists, where a table's columns came as arrays."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [*map(_lists, value)] if isinstance(value, list) else value


def _text(value: Any, field: str) -> str:
    """A program's input or output: text, or lines, which may have their ends."""
    lines = value if isinstance(value, list) else [value]
    fits = all(isinstance(line, str) for line in lines)
    require(fits, f"{field} must be text or a list of lines", value)
    ended = len(lines) > 1 and all(line.endswith("\n") for line in lines)
    return ("" if ended else "\n").join(lines)


def _arguments(value: Any, field: str) -> Any:
    """A method's arguments: a list, or text with the JSON of one on each line."""
    try:
        arguments = [json_value(line) for line in value.split("\n") if line.strip()]
    except AttributeError:
        arguments = value
    except ValueError:
        arguments = None
    needed = "a list of the method's arguments, or text with the JSON of one on each line"
    require(isinstance(arguments, list), f"{field} must be {needed}", value)
    return arguments


def _value(expected: Any, given: Any) -> Any:
    """What a method returns: text is JSON where the arguments are."""
    if isinstance(expected, str) and isinstance(given, str):
        with contextlib.suppress(ValueError):
            return json_value(expected)
    return expected


def _reward(response: Any, row: Mapping[str, Any]) -> float:
    if getattr(_mine, "process", None) != os.getpid():  # a fork has none that it could use
        _mine.reward, _mine.process = CodeReward(Evaluator(workers=1), overlap=False), os.getpid()
    columns = {name: [value] for name, value in row.items() if value is not None}
    (reward,) = _mine.reward([""], [response], **columns)
    return float(reward or 0.0)
