"""From a profile, a recipe and settings as people write them to a full configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.grpo.temperature import check_stages, parse_stages
from mcbench.runs.config import Config, check_known, preset
from mcbench.runs.presets import (
    EARLIER_MODELS,
    PAPER_TARGET_DIVERSITY,
    PROFILES,
    TARGET_DIVERSITY,
    TEMPERATURE_GRID,
)
from mcbench.runs.problems import (
    SETS,
    load_problems,
    model_digest,
    problems_digest,
)
from mcbench.runs.shares import without_shares


def resolve(
    profile: str,
    recipe: str = "microcoder",
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    steps: int | None = None,
    common: Mapping[str, Any] | None = None,
) -> Config:
    """Turn names and settings into a full configuration.

    Args:
        settings: values by name, any of :data:`mcbench.runs.config.CHANGEABLE`; shares are of the
            profile's numbers (:mod:`mcbench.runs.shares`), ``temperature_target_diversity: auto``
            is the profile's. A mapping has a value for each profile, and for any other under
            ``else``.
        steps: optimizer updates; the profile's number where None.
        common: settings of a whole comparison, which shares in ``settings`` are of.

    Raises:
        UserError: an unknown profile, recipe or name, a value that is not allowed, a missing model
            or data set.
    """
    common = {**(common or {}), **({} if steps is None else {"steps": steps})}
    config = described(profile, recipe, settings, seed, common)
    earlier = EARLIER_MODELS.get(config.model) if config.earlier else None  # which is gone
    sets = config.train_set, config.test_set
    embedded = all(name in SETS for name in sets)  # they do not change while a program runs
    return config.model_copy(
        update={
            "model_digest": earlier or model_digest(config.model),
            "data_digest": (_embedded_digest if embedded else _data_digest)(*sets),
        }
    )


def _data_digest(train_set: str, test_set: str) -> str:
    return problems_digest(load_problems(train_set) + load_problems(test_set))


_embedded_digest = cache(_data_digest)


def described(
    profile: str,
    recipe: str = "microcoder",
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    common: Mapping[str, Any] | None = None,
) -> Config:
    """As :func:`resolve`, without a look at model and data: the digests stay empty."""
    settings = {
        str(name): Config.with_numbers(name, _of_profile(name, value, profile))
        for name, value in (settings or {}).items()
    }
    common = {name: Config.with_numbers(name, value) for name, value in (common or {}).items()}
    recipe = settings.pop("recipe", recipe)
    for what, given in (("profile", profile), ("recipe", recipe)):
        if not isinstance(given, str):
            raise UserError(f"{what} must be text, got {given!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"seed must be a whole number from 0, got {seed!r}")
    base = preset(profile, recipe, seed)
    check_known(common)
    check_known(settings)
    grid = None if "temperature_grid" in {*settings, *common} else TEMPERATURE_GRID.get(profile)
    for chosen in (settings, common):
        if chosen.get("temperature_target_diversity") == "auto":
            target = TARGET_DIVERSITY.get(profile, PAPER_TARGET_DIVERSITY)
            chosen["temperature_target_diversity"] = target
            chosen |= {"temperature_grid": list(grid)} if grid else {}
    base = base.with_settings(without_shares(common, base.model_dump()))
    config = base.with_settings(without_shares(settings, base.model_dump()))
    for name in ("temperature_stages", "length_stages"):
        if (given := getattr(config, name)) is not None:
            points = parse_stages(given, name)
            check_stages(points, name, config.generation_period)
            _check_reached(points[-1][0], name, config)
    return config


def _check_reached(start: int, name: str, config: Config) -> None:
    """Refuses a last stage that the run never comes to; one written as a share of a short run may
    be rounded to the batch after its end.
    """
    if start >= config.steps + config.generation_period:
        raise UserError(
            f"{name}: the run ends after {config.steps} updates, before its stage at {start}; "
            "write starts as shares of the run, such as 40%, or give it more steps"
        )


def _of_profile(name: str, value: Any, profile: str) -> Any:
    """The value itself, or what a mapping from profiles has for this one (``else``: any other)."""
    if not isinstance(value, Mapping):
        return value
    for known in value.keys() - {"else"}:
        if known not in PROFILES:
            raise unknown(f"profile in {name}", known, PROFILES)
    if profile not in value and "else" not in value:
        raise UserError(f"{name} has no value for the profile {profile!r}, and no 'else'")
    return value.get(profile, value.get("else"))


def parse_settings(texts: Sequence[str], what: str = "a setting") -> dict[str, Any]:
    """``["mask_ratio=0.5"]`` as ``{"mask_ratio": 0.5}``; a VALUE that is no JSON is a text,
    and so is a number where the setting takes texts.

    Raises:
        UserError: a text without ``=``; ``what`` names the texts.
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{what} takes NAME=VALUE such as mask_ratio=0.5, got {text!r}")
        settings[name] = Config.typed(name, value)
    return settings
