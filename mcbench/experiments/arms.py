"""The arms of the experiments: which recipe and changes a name stands for.

Shares instead of numbers (a quarter of the limit, a fifth of the steps) make one definition fit
every profile. A finished run belongs to an arm when its resolved configuration says so, whatever
experiment trained it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcbench.errors import unknown
from mcbench.runs.profiles import EXECUTION_FIELDS, PROFILES

ProfileFields = Mapping[str, Any]
Changes = Callable[[ProfileFields], dict[str, Any]]

# Profile fields that arms differ in; in all others the runs of a comparison have to agree.
ARM_FIELDS = (
    "temperature",
    "max_completion_length",
    "train_batch_size",
    "train_set",
    "reward_rules",
    "reward_evaluator",
)
# Fields that older records lack, and what they mean there.
LATER_FIELDS = {"reward_rules": "microcoder", "reward_evaluator": "microcoder"}

SWITCH = 0.4  # temperature stages: where the jump is, as a share of the steps
RAMP = (0.2, 0.6)  # linear change of temperature: from, to
EARLY, LATE = 0.2, 0.6  # context extension
# What T(D) aims at: the diversity that training converges to. Paper: 0.65-0.70 for the 4B model;
# on the nano models Distinct-4 ends near 0.4 (results experiment).
TARGET_DIVERSITY = {"nano": 0.4, "nano-m": 0.4, "nano-old": 0.4, "tiny": 0.4}


@dataclass(frozen=True)
class Arm:
    """One curve: a recipe, and the changes to it and to the profile, as
    :func:`mcbench.runs.config.resolve` takes them; a function of the profile's fields where they
    depend on its scale.
    """

    recipe: str
    changes: Changes | Mapping[str, Any] = field(default_factory=dict)

    def changes_at(self, profile: ProfileFields) -> dict[str, Any]:
        """The changes at a profile."""
        return dict(self.changes(profile) if callable(self.changes) else self.changes)


def boundary(profile: ProfileFields, share: float) -> int:
    """The generation boundary nearest to a share of the steps, not before the second."""
    period = max(1, profile["train_batch_size"] // profile["ppo_mini_batch_size"])
    return max(1, round(share * profile["steps"] / period)) * period


def temperature_step(low: float, high: float) -> Changes:
    """One jump."""
    return lambda profile: {"temperature_stages": [[0, low], [boundary(profile, SWITCH), high]]}


def temperature_ramp(low: float, high: float) -> Changes:
    """Equal increments at every generation between the two ends of ``RAMP``."""

    def changes(profile: ProfileFields) -> dict[str, Any]:
        period = max(1, profile["train_batch_size"] // profile["ppo_mini_batch_size"])
        first, last = (boundary(profile, share) for share in RAMP)
        starts = range(first, max(first, last) + 1, period)
        rise = (high - low) / len(starts)
        ramp = [[start, round(low + rise * (i + 1), 6)] for i, start in enumerate(starts)]
        return {"temperature_stages": [[0, low], *ramp]}

    return changes


def target_diversity(profile: ProfileFields) -> dict[str, Any]:
    """T(D)."""
    return {"temperature_target_diversity": TARGET_DIVERSITY.get(profile["name"], 0.65)}


def limit(share: float, extended: float | None = None) -> Changes:
    """A share of the profile's maximum length, with ``extended`` until that share of the steps."""

    def changes(profile: ProfileFields) -> dict[str, Any]:
        full = profile["max_completion_length"]
        short = max(1, round(share * full))
        if extended is None:
            return {"max_completion_length": short}
        return {"length_stages": [[0, short], [boundary(profile, extended), full]]}

    return changes


def batch(factor: float) -> Changes:
    """A multiple of the profile's problems a generation, at its mini batch."""

    def changes(profile: ProfileFields) -> dict[str, Any]:
        count = round(factor * profile["train_batch_size"])
        return {"train_batch_size": max(profile["ppo_mini_batch_size"], count)}

    return changes


TIMING = "evaluator_timing"
"""The experiment whose runs need a machine that does nothing else."""

_FORMATS: dict[str, Any] = {"train_set": "nano-formats:train"}
_TIMING: dict[str, Any] = {"steps": 16, "eval_every": 16, "test_limit": 6, "eval_attempts": 1}
_OLD_KL, _LOW_CLIP = {"beta": 0.001}, {"epsilon_high": 0.2}

# The arms below a line that says "ours" answer a question that the paper leaves open.
ARMS: dict[str, dict[str, Arm]] = {
    "results": {
        "grpo": Arm("grpo"),
        "grpo_plus": Arm("grpo_plus"),
        "microcoder": Arm("microcoder"),
    },
    "truncation_mask": {
        "none": Arm("grpo_plus"),
        "all": Arm("deepcoder"),
        "rho_01": Arm("microcoder", {"mask_ratio": 0.1}),
        "rho_02": Arm("microcoder", {"mask_ratio": 0.2}),
        "rho_03": Arm("microcoder", {"mask_ratio": 0.3}),
        # ours: the other two readings of the mask condition, at the default rho
        "when_correct": Arm("microcoder", {"mask_ratio": 0.2, "mask_when": "correct"}),
        "when_non_incorrect": Arm("microcoder", {"mask_ratio": 0.2, "mask_when": "non_incorrect"}),
    },
    "temperature": {
        "t_06": Arm("grpo_plus", {"temperature": 0.6}),
        "t_10": Arm("grpo_plus", {"temperature": 1.0}),
        "t_12": Arm("grpo_plus", {"temperature": 1.2}),
        "t_18": Arm("grpo_plus", {"temperature": 1.8}),
        "step_06_12": Arm("grpo_plus", temperature_step(0.6, 1.2)),
        "step_06_18": Arm("grpo_plus", temperature_step(0.6, 1.8)),
        "ramp_06_18": Arm("grpo_plus", temperature_ramp(0.6, 1.8)),
        "t_of_d": Arm("grpo_plus", target_diversity),
    },
    "kl_and_clip": {
        "kl_low_clip": Arm("grpo_plus", _OLD_KL | _LOW_CLIP),
        "no_kl_high_clip": Arm("grpo_plus"),
        # ours: the paper changes both at once; one at a time
        "kl_high_clip": Arm("grpo_plus", _OLD_KL),
        "no_kl_low_clip": Arm("grpo_plus", _LOW_CLIP),
    },
    "data_quality": {
        "harder": Arm("grpo_plus", {"train_set": "nano-harder:train"}),
        "easier": Arm("grpo_plus", {"train_set": "nano-easier:train"}),
    },
    # Held-out accuracy is measured under our rules in both arms: only the training reward differs.
    "code_evaluator": {
        "microcoder": Arm("grpo_plus", _FORMATS),
        "livecodebench": Arm("grpo_plus", {**_FORMATS, "reward_rules": "livecodebench"}),
    },
    # Times only, so a few generations and hardly any evaluation.
    TIMING: {
        name: Arm("grpo_plus", {**_TIMING, "reward_evaluator": name})
        for name in ("single_threaded", "process_per_sample", "microcoder")
    },
    # Problems a generation at one mini batch; the paper's 32, 64 and 128 around its default of 64.
    "batch_size": {
        "small": Arm("grpo_plus", batch(0.5)),
        "medium": Arm("grpo_plus"),
        "large": Arm("grpo_plus", batch(2)),
    },
    # The paper's 4K, 6K and 8K as shares of the profile's limit.
    "context_length": {
        "short": Arm("grpo_plus", limit(0.5)),
        "middle": Arm("grpo_plus", limit(0.75)),
        "long": Arm("grpo_plus"),
        "short_early": Arm("grpo_plus", limit(0.5, EARLY)),
        "short_late": Arm("grpo_plus", limit(0.5, LATE)),
        "middle_early": Arm("grpo_plus", limit(0.75, EARLY)),
        "middle_late": Arm("grpo_plus", limit(0.75, LATE)),
        # ours: does the conditional mask repair what a short limit costs?
        "short_masked": Arm("microcoder", limit(0.5)),
    },
    "cross_model": {"grpo_plus": Arm("grpo_plus")},
}


def settings(experiment: str, arm: str, profile: ProfileFields) -> dict[str, Any]:
    """An arm at a profile as a run's ``config`` holds it: profile, recipe, changes, algorithm.

    Raises:
        UserError: an unknown experiment or arm.
    """
    from mcbench.grpo import recipe  # imports the trainer

    if experiment not in ARMS:
        raise unknown("experiment", experiment, ARMS)
    if arm not in ARMS[experiment]:
        raise unknown(f"arm of {experiment}", arm, ARMS[experiment])
    spec = ARMS[experiment][arm]
    changes = spec.changes_at(profile)
    algorithm = recipe(spec.recipe).args()
    algorithm.pop("repeat_window", None)
    algorithm |= {name: value for name, value in changes.items() if name not in profile}
    scale = {**profile, **{name: value for name, value in changes.items() if name in profile}}
    return {
        "profile": scale,
        "recipe": spec.recipe,
        "changes": changes,
        "algorithm": algorithm,
    }


def belongs(config: Mapping[str, Any], experiment: str, arm: str) -> bool:
    """Whether a run with this resolved configuration is one of the arm."""
    recorded = {**LATER_FIELDS, **config["profile"]}
    if recorded["name"] not in PROFILES:
        return False
    default = {**LATER_FIELDS, **vars(PROFILES[recorded["name"]])}
    unchanged = {**recorded, **{name: default[name] for name in ARM_FIELDS}}
    wanted = settings(experiment, arm, unchanged)
    if any(recorded[name] != wanted["profile"][name] for name in ARM_FIELDS):
        return False
    return _plain(config["algorithm"]) == _plain(wanted["algorithm"])


def telling_changes(config: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of a run that say more than its recipe and profile: a run that two arms share has
    the changes of the arm that trained it first.
    """
    changes = dict(config.get("changes", {}))
    if not changes:
        return {}
    from mcbench.grpo import recipe

    profile = PROFILES.get(config["profile"]["name"])
    usual = {**(vars(profile) if profile else {}), **recipe(config["recipe"]).args()}
    return {name: value for name, value in changes.items() if usual.get(name) != value}


def _plain(algorithm: Mapping[str, Any]) -> dict[str, Any]:
    """Without what does not tell arms apart: how stages are written, the value T(D) aims at."""
    from mcbench.grpo.temperature import parse_stages

    plain = {name: value for name, value in algorithm.items() if value is not None}
    for name in ("temperature_stages", "length_stages"):
        if name in plain:
            plain[name] = parse_stages(plain[name], name)
    if "temperature_target_diversity" in plain:
        plain["temperature_target_diversity"] = "set"
    return plain


def setting(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What the runs of one comparison have in common: model and every field no arm changes."""
    profile = {name: value for name, value in config["profile"].items() if name not in ARM_FIELDS}
    for name in EXECUTION_FIELDS:
        profile.pop(name, None)
    if "model_digest" in config:
        profile["model"] = config["model_digest"]
    return tuple((name, str(value)) for name, value in sorted(profile.items()))
