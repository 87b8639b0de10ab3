"""Settings written as shares, so that one arm fits every profile.

``"50%"`` of a whole number is that share of what the profile says. Stages take shares of the steps
as starts, at the nearest generation boundary, and of the profile's limit as lengths:
``"0:50%,20%:100%"``. ``"0:0.6,20%..60%:1.8"`` is a ramp: equal increments at every generation
between the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from mcbench.errors import UserError
from mcbench.grpo.temperature import split_stages

STAGES = ("temperature_stages", "length_stages")
_EXAMPLES = {
    "temperature_stages": '[[0, 0.6], ["40%", 1.2]], "0:0.6,40%:1.2" or, a ramp, '
    '"0:0.6,20%..60%:1.8"',
    "length_stages": '[[0, "50%"], ["20%", "100%"]] or "0:50%,20%:100%"',
}


def is_share(value: Any) -> bool:
    """Whether a value is written as a share."""
    return isinstance(value, str) and value.strip().endswith("%")


def share(name: str, value: str) -> float:
    """``"50%"`` as 0.5.

    Raises:
        UserError: no number before the sign, or none above 0.
    """
    try:
        found = float(value.strip().removesuffix("%")) / 100
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf:
        raise UserError(f"{name}: {value!r} is no share; write one as 50%")
    return found


def without_shares(settings: Mapping[str, Any], scale: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with every share as a number of a scale.

    Args:
        scale: the profile's settings with what is changed for every arm.

    Raises:
        UserError: a share of something that is no whole number, or stages that are none.
    """
    plain = {
        name: _number(name, value, scale) if is_share(value) else value
        for name, value in settings.items()
        if name not in STAGES
    }
    around = {**scale, **plain}
    for name in STAGES:
        if settings.get(name) is not None:
            plain[name] = _stages(name, settings[name], around, scale)
        elif name in settings:
            plain[name] = None
    return plain


def _number(name: str, value: str, scale: Mapping[str, Any]) -> int:
    whole = scale.get(name)
    if not isinstance(whole, int) or isinstance(whole, bool):
        raise UserError(f"{name} takes no share, got {value!r}; give its value")
    lowest = scale["ppo_mini_batch_size"] if name == "train_batch_size" else 1
    return max(lowest, round(share(name, value) * whole))


def _stages(name: str, given: Any, around: Mapping[str, Any], scale: Mapping[str, Any]) -> Any:
    points: list[list[Any]] = []
    for start, value in _pairs(name, given):
        if is_share(value):
            if name != "length_stages":
                raise UserError(f"{name}: {value!r} must be a temperature, such as 1.2")
            value = max(1, round(share(name, value) * scale["max_completion_length"]))
        elif name == "length_stages" and value.is_integer():
            value = int(value)
        first, ramp, last = str(start).partition("..")
        if not ramp:
            points.append([_start(name, start, around), value])
            continue
        if not points:
            raise UserError(f"{name}: a ramp needs a stage before it, such as {_EXAMPLES[name]}")
        points += _ramp(
            _start(name, first, around), _start(name, last, around), points, value, around
        )
    return points


def _pairs(name: str, given: Any) -> list[tuple[Any, Any]]:
    try:
        return [(start, _value(value)) for start, value in split_stages(given)]
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{name} {given!r} is not a list of (start step, value), such as {_EXAMPLES[name]}"
        ) from error


def _value(value: Any) -> Any:
    return value if is_share(value) else float(value)


def _start(name: str, start: Any, around: Mapping[str, Any]) -> int:
    if is_share(start):
        return boundary(around, share(name, start))
    try:
        return int(start)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name}: {start!r} is no step; write {_EXAMPLES[name]}") from None


def _period(around: Mapping[str, Any]) -> int:
    """Updates from one generation boundary to the next."""
    updates = around["train_batch_size"] // around["ppo_mini_batch_size"]
    return max(1, updates * (around.get("num_iterations") or 1))


def boundary(around: Mapping[str, Any], part: float) -> int:
    """The generation boundary nearest to a share of the steps, not before the second; 0 for 0."""
    period = _period(around)
    return max(1, round(part * around["steps"] / period)) * period if part else 0


def _ramp(
    first: int, last: int, before: list[list[Any]], high: float, around: Mapping[str, Any]
) -> list[list[Any]]:
    starts = range(first, max(first, last) + 1, _period(around))
    low = before[-1][1]
    rise = (high - low) / len(starts)
    return [[start, round(low + rise * (i + 1), 6)] for i, start in enumerate(starts)]


def check_kind_stages(stages: Sequence[Any]) -> None:
    """Refuse what is no list of (share of the updates, kind of problem) that begins at 0 and rises.

    Raises:
        UserError: with an example.
    """
    try:
        starts = [0.0 + start for start, kind in stages if isinstance(kind, str)]
    except (TypeError, ValueError):
        starts = []
    rising = all(a < b for a, b in pairwise([*starts, 1.0]))
    if len(starts) < len(stages) or starts[:1] != [0.0] or not rising:
        raise UserError(
            f"kind_stages {stages!r} is not a list of (share of the updates, kind), from 0 on, "
            'rising and below 1, such as [[0, "induced"], [0.5, "all"]]'
        )
