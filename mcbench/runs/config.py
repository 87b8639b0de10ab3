"""The resolved configuration of one run and its content-addressed id."""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mcbench.errors import UserError, unknown
from mcbench.runs.files import digest, plain
from mcbench.runs.problems import (
    load_problems,
    model_digest,
    model_location,
    problems_digest,
)
from mcbench.runs.profiles import EXECUTION_FIELDS, Profile, profile_named

# Part of the id only where they are not the default, so that runs from before these fields existed
# keep their ids. The evaluator is there although it is meant to change times only: a run made to
# time one must not be taken for another's, and the published methods judge by rules of their own.
_LATER_FIELDS = {"reward_rules": "microcoder", "reward_evaluator": "microcoder"}


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes.

    ``profile`` has the changes applied; ``algorithm`` holds the recipe's trainer arguments with
    the changes applied. ``recipe`` and ``changes`` say how the user asked for it and are not part
    of the id, so that two descriptions of the same computation are one run. The digests tie the id
    to the content of model and data, not to their names.
    """

    profile: Profile
    recipe: str
    changes: dict[str, Any] = field(default_factory=dict)
    algorithm: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    model_digest: str = ""
    data_digest: str = ""

    @property
    def run_id(self) -> str:
        """Hash of the resolved configuration and the seed, 12 hexadecimal digits."""
        # Digests replace the names that they describe.
        left_out = {*EXECUTION_FIELDS, "model", "train_set", "test_set"}
        profile = asdict(self.profile)
        left_out |= {k for k, default in _LATER_FIELDS.items() if profile[k] == default}
        profile = {k: v for k, v in profile.items() if k not in left_out}
        content = {
            "profile": profile,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "model": self.model_digest,
            "data": self.data_digest,
        }
        return digest([json.dumps(plain(content), sort_keys=True)])[:12]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; :meth:`from_dict` is its inverse."""
        return plain(asdict(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunConfig:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            UserError: the data are not a run configuration.
        """
        try:
            profile = dict(data["profile"])
            profile["eval_lengths"] = tuple(profile["eval_lengths"])
            return cls(**{**data, "profile": Profile(**profile)})
        except (KeyError, TypeError) as error:
            raise UserError(f"not a run configuration: {error}") from error


# The trainer's arguments that are part of an algorithm, with their types. A curated list: TRL's
# configuration has hundreds of fields, most of which are about logging or hardware.
ALGORITHM_FIELDS: dict[str, Any] = {
    "loss_type": str,
    "epsilon": float,
    "epsilon_high": float | None,
    "beta": float,
    "use_bias_correction_kl": bool,
    "scale_rewards": str,
    "importance_sampling_level": str,
    "num_iterations": int,
    "truncation_mask": str,
    "mask_ratio": float,
    "mask_when": str,
    "repeat_rule": str,
    "mask_truncated_completions": bool,
    "temperature_stages": list | str | None,
    "length_stages": list | str | None,
    "temperature_target_diversity": float | None,
    "temperature_grid": list[float],
    "temperature_probe_prompts": int,
    "top_entropy_quantile": float,
    "top_p": float,
    "max_grad_norm": float,
    "weight_decay": float,
    "lr_scheduler_type": str,
}


def known_changes() -> dict[str, Any]:
    """The names a change may have, with their types."""
    hints = get_type_hints(Profile)
    return {**ALGORITHM_FIELDS, **{name: hints[name] for name in Profile.field_names()}}


def parse_changes(texts: Sequence[str], what: str = "a change") -> dict[str, Any]:
    """``["mask_ratio=0.5"]`` as ``{"mask_ratio": 0.5}``; a VALUE that is no JSON is a text.

    Raises:
        UserError: a text without ``=``; ``what`` names the texts.
    """
    changes = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{what} takes NAME=VALUE such as mask_ratio=0.5, got {text!r}")
        changes[name] = json_or_text(value)
    return changes


def json_or_text(value: str) -> Any:
    """What JSON reads in ``value``; the text itself where that is no JSON."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def resolve(
    profile: str | Profile,
    recipe: str,
    changes: dict[str, Any] | None = None,
    seed: int = 0,
    steps: int | None = None,
) -> RunConfig:
    """Turn names and changes into a full configuration.

    Args:
        changes: values by name, either a field of the profile (``learning_rate``) or an argument of
            the algorithm (``epsilon_high``).
        steps: optimizer updates; the profile's number where None.

    Raises:
        UserError: an unknown profile, recipe or name, a value of the wrong type, a missing model or
            data set.
    """
    from mcbench.grpo import recipe as recipe_named

    base = profile_named(profile) if isinstance(profile, str) else profile
    algorithm = dict(recipe_named(recipe).args())
    # A number of tokens, so it follows the profile's scale and not the recipe.
    algorithm.pop("repeat_window", None)
    changes = dict(changes or {})
    if steps is not None:
        changes["steps"] = steps
    known = known_changes()
    scale = {}
    for name, value in changes.items():
        if name not in known:
            raise unknown("parameter", name, known)
        checked = check_type(name, value, known[name])
        if name in Profile.field_names():
            scale[name] = checked
        else:
            algorithm[name] = checked
    resolved = replace(base, **scale)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"seed must be a whole number from 0, got {seed!r}")
    train, test = load_problems(resolved.train_set), load_problems(resolved.test_set)
    return RunConfig(
        profile=resolved,
        recipe=recipe,
        changes=changes,
        algorithm=algorithm,
        seed=seed,
        model_digest=model_digest(model_location(resolved.model)),
        data_digest=problems_digest(train + test),
    )


def check_type(name: str, value: Any, hint: Any) -> Any:
    """``value`` as the type that ``hint`` asks for (a list becomes a tuple, an int a float).

    Raises:
        UserError: a value of another type; the message names the type or the allowed values.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _check_union(name, value, args)
    if origin is Literal:
        if value not in args:
            raise unknown(name, value, args)
        return value
    if origin in (tuple, list) or hint is list:
        if not isinstance(value, (list, tuple)):
            raise UserError(f"{name} must be a list, got {value!r}")
        return (origin or list)(check_type(name, i, args[0] if args else Any) for i in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wrong_bool = isinstance(value, bool) and hint is not bool
    if wrong_bool or not isinstance(value, hint):
        raise UserError(f"{name} must be {_TYPE_NAMES.get(hint, hint.__name__)}, got {value!r}")
    return value


_TYPE_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "a JSON object",
}


def _check_union(name: str, value: Any, options: tuple[Any, ...]) -> Any:
    if value is None and type(None) in options:
        return None
    error: UserError | None = None
    for option in options:
        if option is type(None):
            continue
        try:
            return check_type(name, value, option)
        except UserError as problem:
            error = problem
    assert error is not None
    raise error
