"""Temperature: staged schedules and the T(D) choice, as pure functions.

π^{T(D)} in Eq. 1 is softmax(logits / T) for the old and for the new policy, so the temperature may
change only where a new batch is generated, and then everywhere at once
(``RepairedGRPOTrainer.set_temperature``).
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcbench.errors import UserError


def stage_value(points: Sequence[Sequence[float]] | None, step: int) -> float | None:
    """The value for a batch generated at global step ``step``; None before the first stage."""
    started = [value for start, value in points or () if start <= step]
    return started[-1] if started else None


def split_stages(given: Any) -> Any:
    """(start, value) pairs of a text, ``"0:0.6,140:1.2"`` or JSON; anything else as it is.

    Raises:
        ValueError: text that begins like JSON and is none.
    """
    if isinstance(given, str) and given.lstrip().startswith("["):
        return json.loads(given)
    return [part.split(":") for part in given.split(",")] if isinstance(given, str) else given


def parse_stages(text: Any, what: str) -> list[list[Any]]:
    """Stages from ``[(0, 0.6), (140, 1.2)]`` or, from a command line, ``"0:0.6,140:1.2"`` (or
    JSON).
    """
    example = 'such as [(0, 0.6), (140, 1.2)] or "0:0.6,140:1.2"'
    try:
        return [[int(start), float(value)] for start, value in split_stages(text)]
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{what} {text!r} is not a list of (start step, value), {example}"
        ) from error


def check_stages(points: Sequence[Sequence[float]], what: str, period: int) -> None:
    """Refuses stages that are empty, out of order, not positive, or not at a generation boundary.

    ``period``: updates between two boundaries. A stage that began inside a buffered batch would mix
    two temperatures, so it is refused, with the nearest allowed steps, rather than delayed.
    """
    if not points:
        raise UserError(f"{what} is empty; give at least one (start step, value) or leave it unset")
    starts = [start for start, _ in points]
    if starts[0] < 0 or any(later <= earlier for earlier, later in itertools.pairwise(starts)):
        raise UserError(
            f"{what} must start at steps >= 0 in rising order, but the starts are {starts}"
        )
    for start, value in points:
        if not (math.isfinite(value) and value > 0):
            raise UserError(f"{what}: the value {value} from step {start} must be greater than 0")
        if start % period:
            below = start - start % period
            raise UserError(
                f"{what}: step {start} is inside a generated batch that serves {period} updates; "
                f"the nearest allowed start steps are {below} and {below + period}"
            )


def check_grid(grid: Sequence[Any]) -> None:
    """Refuses a grid that is empty or holds a temperature that is not greater than 0."""
    numbers = (isinstance(t, (int, float)) and math.isfinite(t) and t > 0 for t in grid)
    if not grid or not all(numbers):
        raise UserError(f"a temperature grid needs values greater than 0, got {list(grid)}")


@dataclass(frozen=True)
class Choice:
    """A temperature chosen from measured diversity or entropy, and why.

    ``measured`` is by temperature, on so many ``prompts``; of a choice by trend ``before`` is what
    was measured before training, and ``measured`` where it is heading.
    """

    temperature: float
    target: float
    reached: bool
    measured: dict[str, float]
    explanation: str
    prompts: int = 0
    before: dict[str, float] | None = None


def select_temperature(diversity: Mapping[float, float], target: float) -> Choice:
    """T(D) by initial diversity: the lowest measured temperature that reaches ``target``.

    Our reading: the paper gives no formula, only that T must not let diversity start below the
    value it converges to (§2.4), and that "initial output diversity values and subsequent trends"
    decide (§2.2); the trends are in :func:`select_by_trend`. If no temperature reaches the target,
    the one with the highest diversity is taken and ``reached`` is False.
    """
    _check_measured(diversity)
    if any(math.isnan(value) for value in diversity.values()):
        raise UserError("diversity is undefined: every response was shorter than one n-gram")
    enough = [t for t in sorted(diversity) if diversity[t] >= target]
    if enough:
        chosen, reason = enough[0], f"is the lowest temperature whose diversity reaches {target:g}"
    else:
        chosen = max(sorted(diversity), key=lambda t: diversity[t])
        reason = f"has the highest diversity, but no temperature reaches {target:g}"
    return _choice(chosen, target, bool(enough), reason, "D", diversity)


def heading(before: float, after: float) -> float:
    """Where diversity is heading, from its values before and after a stretch of training.

    It falls ever more slowly at a fixed temperature (Fig. 3), so that over the next stretch of the
    same length it loses at most as much again. What has risen is taken to stay.
    """
    return after - max(0.0, before - after)


def select_by_trend(
    before: Mapping[float, float], after: Mapping[float, float], target: float
) -> Choice:
    """T(D) by trend: the lowest temperature at which diversity, measured before and after a short
    stretch of training at it, is heading for ``target`` or more (:func:`heading`).

    The other reading of §2.2 ("initial output diversity values and subsequent trends") and §2.4
    (temperatures "enabling stable diversity convergence"); how a trend is continued is our choice.
    """
    if before.keys() != after.keys():
        raise UserError(
            f"a trend needs diversity before and after at the same temperatures, got "
            f"{sorted(before)} and {sorted(after)}"
        )
    going = {t: heading(before[t], after[t]) for t in before}
    chosen = select_temperature(going, target)
    reason = (
        f"is the lowest temperature at which diversity is heading for {target:g} or more"
        if chosen.reached
        else f"is heading for the highest diversity, but at no temperature is it for {target:g}"
    )
    choice = _choice(chosen.temperature, target, chosen.reached, reason, "heading of D", going)
    return replace(choice, before={f"{t:g}": float(before[t]) for t in sorted(before)})


def nearest_temperature(entropy: Mapping[float, float], target: float) -> Choice:
    """The measured temperature whose entropy (nats a token, of softmax(logits / T)) is nearest to
    ``target``, the lower one of two that are equally near.

    AceReason-Nemotron 1.1 (Liu et al. 2025, abstract) keeps the temperature-adjusted entropy
    around 0.3. ``reached`` says whether the target lies between measured values.
    """
    _check_measured(entropy)
    chosen = min(sorted(entropy), key=lambda t: abs(entropy[t] - target))
    reached = min(entropy.values()) <= target <= max(entropy.values())
    reason = f"has the entropy nearest to {target:g}"
    if not reached:
        reason += ", which no two temperatures enclose"
    return _choice(chosen, target, reached, reason, "H", entropy)


def _check_measured(measured: Mapping[float, float]) -> None:
    if not measured or any(not t > 0 for t in measured):
        raise UserError(
            f"temperatures must be greater than 0 and at least one, got {sorted(measured)}"
        )


def _choice(
    chosen: float,
    target: float,
    reached: bool,
    reason: str,
    symbol: str,
    measured: Mapping[float, float],
) -> Choice:
    table = ", ".join(f"{symbol}({t:g}) = {measured[t]:.3f}" for t in sorted(measured))
    values = {f"{t:g}": float(measured[t]) for t in sorted(measured)}
    explanation = f"T = {chosen:g} {reason} ({table})"
    return Choice(float(chosen), float(target), reached, values, explanation)
