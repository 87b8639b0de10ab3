"""Arms: a name, and the settings it changes.

An arm is plain data: ``{"recipe": "microcoder", "mask_ratio": 0.5}`` names a recipe and any
settings of :class:`mcbench.runs.config.Config`. What depends on the profile's scale is written as a
share (``"50%"`` of the limit, a stage at ``"40%"`` of the steps; :mod:`mcbench.runs.shares`), so
that one definition fits every profile. Those of the experiments stand in ``experiments.toml``; the
notebooks hold the same mappings as their editable defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.runs.config import Config
from mcbench.runs.presets import PROFILES
from mcbench.runs.resolve import described, resolve

Arms = Mapping[str, Mapping[str, Any]]


def check_arms(arms: Any) -> Arms:
    """Arms as a user wrote them, with the recipe that each takes.

    An arm that names no recipe takes the one of its own name, else MicroCoder-GRPO.

    Raises:
        UserError: not a mapping of names to settings.
    """
    from mcbench.grpo.recipes import RECIPES

    example = 'such as {"mine": {"recipe": "microcoder", "mask_ratio": 0.5}}'
    if not isinstance(arms, Mapping) or not arms:
        raise UserError(f"arms must map names to settings, {example}, got {arms!r}")
    found = {}
    for name, settings in arms.items():
        if not isinstance(name, str) or not isinstance(settings, Mapping):
            raise UserError(
                f"an arm is a name and its settings, {example}, got {name!r}: {settings!r}"
            )
        usual = name if name in RECIPES else "microcoder"
        found[name] = {"recipe": usual, **settings}
    return found


def own_profile(arm: str, settings: Mapping[str, Any], profile: str) -> str:
    """The profile an arm is trained at when a comparison is made at ``profile``.

    Raises:
        UserError: an unknown profile, or one that the arm does not know.
    """
    own = settings.get("profile", profile)
    if isinstance(own, Mapping):
        if profile not in own:
            raise unknown(f"profile for the arm {arm!r}", profile, own)
        own = own[profile]
    if own not in PROFILES:
        raise unknown("profile", own, PROFILES)
    return str(own)


def arm_config(
    arm: str,
    settings: Mapping[str, Any],
    profile: str,
    common: Mapping[str, Any] | None = None,
    look: bool = True,
) -> Config:
    """An arm at a profile as a configuration.

    Args:
        settings: as :func:`check_arms` gives them.
        common: settings of all arms of the comparison, which the arm's own go before.
        look: whether model and data are looked at, see :func:`mcbench.runs.resolve.resolve`.

    Raises:
        UserError: the arm's name and what is wrong with its settings.
    """
    own = {name: value for name, value in settings.items() if name not in ("recipe", "profile")}
    size = own_profile(arm, settings, profile)
    make = resolve if look else described
    try:
        return make(size, settings["recipe"], own, common=common)
    except UserError as error:
        raise UserError(f"arm {arm!r}: {error}") from None
