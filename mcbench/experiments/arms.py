"""The arms of the experiments: a name, and the settings it changes.

An arm is plain data: ``{"recipe": "microcoder", "mask_ratio": 0.5}`` names a recipe and any
settings of :class:`mcbench.runs.config.Config`. What depends on the profile's scale is written as a
share (``"50%"`` of the limit, a stage at ``"40%"`` of the steps; :mod:`mcbench.runs.shares`), so
that one definition fits every profile. The notebooks hold the same mappings as their editable
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.runs.config import Config
from mcbench.runs.presets import PROFILES
from mcbench.runs.resolve import described, resolve

Arms = Mapping[str, Mapping[str, Any]]

TIMING = "evaluator_timing"
"""The experiment whose runs need a machine that does nothing else."""
CORRECTION = "correction"
"""The experiment that adds noise to the sampler's log-probabilities."""
SEARCH = "retrieval"
"""The experiment of the sub-agent that searches a repository."""

_TIMED: dict[str, Any] = {
    "recipe": "grpo_plus",
    "steps": 16,
    "eval_every": 16,
    "test_limit": 6,
    "eval_attempts": 1,
}

# 0.37 nats a token are to nano's 96 tokens what 0.04, a 16-bit sampler's, are to 8,192.
_NOISY: dict[str, Any] = {
    "recipe": "grpo_plus",
    "sampler_noise": 0.37,
    "steps": 64,
    "eval_every": 64,
    "test_limit": 60,
}

# The nano runs of round 1 (docs/protocol.md) had TRL's unbounded k3, and chose temperatures by 16
# prompts. Their arms say so where those runs are, and not elsewhere.
_K3_IN_ROUND_1 = {"nano": "k3", "nano-clip": "k3", "nano-steady": "k3", "else": "k3_clamped"}
_KL: dict[str, Any] = {"recipe": "grpo_plus", "kl_estimator": _K3_IN_ROUND_1}
_T_OF_D: dict[str, Any] = {
    "recipe": "grpo_plus",
    "temperature_target_diversity": "auto",
    "temperature_probe_prompts": {"nano": 16, "nano-steady": 16, "else": 64},
}

# The arms below a line that says "ours" answer a question that the paper leaves open.
ARMS: dict[str, dict[str, dict[str, Any]]] = {
    # The older generation at the profile of the same scale.
    "cross_model": {
        "older": {
            "recipe": "grpo_plus",
            "profile": {
                "nano": "nano-old",
                "nano-steady": "nano-steady-old",
                "tiny": "tiny",
                "qwen3-4b": "qwen2.5-7b",
                "qwen3-4b-lora": "qwen2.5-7b-lora",
            },
        },
        "newer": {"recipe": "grpo_plus"},
    },
    "truncation_mask": {
        "none": {"recipe": "grpo_plus"},
        "all": {"recipe": "deepcoder"},
        "rho_01": {"recipe": "microcoder", "mask_ratio": 0.1},
        "rho_02": {"recipe": "microcoder", "mask_ratio": 0.2},
        "rho_03": {"recipe": "microcoder", "mask_ratio": 0.3},
        # ours: the other two readings of the mask condition, at the default rho
        "when_correct": {"recipe": "microcoder", "mask_ratio": 0.2, "mask_when": "correct"},
        "when_non_incorrect": {
            "recipe": "microcoder",
            "mask_ratio": 0.2,
            "mask_when": "non_incorrect",
        },
    },
    "temperature": {
        "t_06": {"recipe": "grpo_plus", "temperature": 0.6},
        "t_10": {"recipe": "grpo_plus", "temperature": 1.0},
        "t_12": {"recipe": "grpo_plus", "temperature": 1.2},
        "t_18": {"recipe": "grpo_plus", "temperature": 1.8},
        "step_06_12": {"recipe": "grpo_plus", "temperature_stages": "0:0.6,40%:1.2"},
        "step_06_18": {"recipe": "grpo_plus", "temperature_stages": "0:0.6,40%:1.8"},
        "ramp_06_18": {"recipe": "grpo_plus", "temperature_stages": "0:0.6,20%..60%:1.8"},
        "t_of_d": _T_OF_D,
    },
    "kl_and_clip": {
        "kl_low_clip": {**_KL, "beta": 0.001, "epsilon_high": 0.2},
        "no_kl_high_clip": {"recipe": "grpo_plus"},
        # ours: the paper changes both at once; one at a time
        "kl_high_clip": {**_KL, "beta": 0.001},
        "no_kl_low_clip": {"recipe": "grpo_plus", "epsilon_high": 0.2},
    },
    "data_quality": {
        "harder": {"recipe": "grpo_plus", "train_set": "nano-harder:train"},
        # The paper's easier set is saturated: so is this one where claims are decided.
        "easier": {
            "recipe": "grpo_plus",
            "train_set": {"nano-steady": "nano-saturated:train", "else": "nano-easier:train"},
        },
    },
    # Held-out accuracy is measured under our rules in both arms: only the training reward differs.
    "code_evaluator": {
        "microcoder": {"recipe": "grpo_plus", "train_set": "nano-formats:train"},
        "livecodebench": {
            "recipe": "grpo_plus",
            "train_set": "nano-formats:train",
            "reward_rules": "livecodebench",
        },
    },
    # Times only, so a few generations and hardly any evaluation.
    TIMING: {
        "single_threaded": {**_TIMED, "reward_evaluator": "single_threaded"},
        "process_per_sample": {**_TIMED, "reward_evaluator": "process_per_sample"},
        "microcoder": {**_TIMED, "reward_evaluator": "microcoder"},
    },
    "results": {
        # The runs that nano-steady has are those of kl_low_clip, which is the same computation.
        "grpo": {"recipe": "grpo", "kl_estimator": {"nano-steady": "k3", "else": "k3_clamped"}},
        "grpo_plus": {"recipe": "grpo_plus"},
        "microcoder": {"recipe": "microcoder"},
        # ours: what round 1 compared under the name of GRPO
        "grpo_per_response": {
            "recipe": "grpo_per_response",
            "kl_estimator": {
                **dict.fromkeys(("nano", "nano-m", "nano-steady", "nano-steady-m"), "k3"),
                "else": "k3_clamped",
            },
        },
    },
    # ours: how much of a mask and of a KL term, one at a time. `cut_kept` takes the advantage of
    # the same responses as `all`, but keeps their tokens in the normaliser of the loss.
    "doses": {
        "none": {"recipe": "grpo_plus"},
        "rho_03": {"recipe": "microcoder", "mask_ratio": 0.3},
        "rho_10": {"recipe": "microcoder", "mask_ratio": 1.0},
        "rho_10_loops": {"recipe": "microcoder", "mask_ratio": 1.0, "repeat_rule": "periodic"},
        "cut_kept": {
            "recipe": "microcoder",
            "mask_ratio": 1.0,
            "mask_when": "any",
            "repeat_rule": "none",
        },
        "all": {"recipe": "deepcoder"},
        "kl_0001": {**_KL, "beta": 0.001},
        "kl_004": {**_KL, "beta": 0.04},
        "kl_03": {**_KL, "beta": 0.3},
        "no_upper_clip": {"recipe": "grpo_plus", "epsilon_high": 1000.0},
    },
    # ours: the importance correction's modes; the last is TRL's default.
    CORRECTION: {
        "uncorrected": {**_NOISY, "vllm_importance_sampling_correction": False},
        "token_truncate": {**_NOISY, "vllm_importance_sampling_mode": "token_truncate"},
        "sequence_mask": {
            **_NOISY,
            "vllm_importance_sampling_mode": "sequence_mask",
            "vllm_importance_sampling_clip_max": 3.0,
        },
    },
    # What other papers do, with their own numbers (mcbench/grpo/rivals.py, claims/rivals.toml); the
    # nano models' answers are so few tokens that a share of them is mostly one token an update.
    "rivals": {
        "none": {"recipe": "grpo_plus"},
        "all": {"recipe": "deepcoder"},
        "before": {"recipe": "grpo_plus", "advantage_rule": "uncut"},
        "after": {
            "recipe": "microcoder",
            "mask_ratio": 1.0,
            "mask_when": "any",
            "repeat_rule": "none",
        },
        "t_06": {"recipe": "grpo_plus", "temperature": 0.6},
        "entropy_03": {
            "recipe": "grpo_plus",
            "temperature_target_entropy": 0.3,
            "temperature_probe_prompts": {"nano-steady": 16, "else": 64},
            "temperature_grid": [0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0],
        },
        "soft_overlong": {"recipe": "grpo_plus", "soft_overlong": 0.2},
        # DAPO's answers have 1 or -1, these 1 or 0: at half the weight the punishment is DAPO's.
        "soft_overlong_half": {
            "recipe": "grpo_plus",
            "soft_overlong": 0.2,
            "soft_overlong_weight": 0.5,
        },
        "dynamic": {"recipe": "grpo_plus", "dynamic_sampling": 10},
        "grpo_no_kl": {"recipe": "grpo_per_response", "beta": 0.0},
        "dr_grpo": {"recipe": "dr_grpo"},
        "gspo": {"recipe": "gspo"},
        "cispo": {"recipe": "cispo"},
        "clip_cov": {"recipe": "clip_cov"},
        "kl_cov": {"recipe": "kl_cov"},
        "pass_at_k": {"recipe": "grpo_plus", "advantage_rule": "pass_at_k", "pass_k": 4},
    },
    # Whole recipes beside MicroCoder-GRPO (grpo/resampling.py, grpo/stages.py).
    # DeepCoder's limit is doubled after two thirds; Polaris has three stages and raises T in steps
    # of .05.
    "recipes": {
        "none": {"recipe": "grpo_plus"},
        "microcoder": {"recipe": "microcoder"},
        "deepcoder_whole": {
            "recipe": "deepcoder",
            "train_set": "nano-solvable:train",
            "length_stages": "0:50%,67%:100%",
        },
        "polaris": {
            "recipe": "grpo_plus",
            "temperature_restore": [24, 48],
            "temperature_probe_prompts": {"nano-steady": 16, "nano-stress": 16, "else": 64},
            "temperature_grid": [1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3],
            "drop_above": 0.9,
            "substitute_flat": 0.3333,
        },
        "srpo": {
            "recipe": "grpo_plus",
            "kind_stages": [[0.0, "induced"], [0.5, "all"]],
            "drop_above": 0.99,
        },
        "dapo_whole": {"recipe": "grpo_plus", "dynamic_sampling": 10, "soft_overlong": 0.2},
    },
    # Denser rewards than 1 or 0 on programs with a branch (mcbench/tasks/dense.py, grpo/dense.py);
    # StepCoder's prefixes end after half of the training.
    "dense_rewards": {
        "tests": {"recipe": "grpo_plus"},
        "outcomes": {"recipe": "grpo_plus", "reward": "outcomes"},
        "coderl": {"recipe": "grpo_plus", "reward": "outcomes", "token_credit": "critic"},
        "rltf": {"recipe": "grpo_plus", "reward": "ratio", "token_credit": "blame"},
        "ppocoder": {
            "recipe": "grpo_plus",
            "reward": "similarity",
            "beta": 0.05,
            "kl_estimator": "k3",
            "kl_target": 1.0,
        },
        "stepcoder": {
            "recipe": "grpo_plus",
            "reward": "outcomes",
            "token_credit": "executed",
            "train_set": "branches-steps:train",
            "kind_stages": [[0.0, "most"], [0.25, "half"], [0.5, "branch"]],
        },
    },
    # Three attempts and what they are told (mcbench/tasks/turns.py); sampling by older weights
    "multi_turn": {
        "rlef": {"recipe": "grpo_plus"},
        "shuffled": {"recipe": "grpo_plus", "feedback": "shuffled"},
        "independent": {"recipe": "grpo_plus", "feedback": "none"},
        "stale_1": {"recipe": "grpo_plus", "staleness": 1},
        "stale_2": {"recipe": "grpo_plus", "staleness": 2},
        "stale_3": {"recipe": "grpo_plus", "staleness": 3},
        "stale_4": {"recipe": "grpo_plus", "staleness": 4},
    },
    # A sub-agent that searches (mcbench/tasks/search.py), by F0.5 and by what it is there for
    SEARCH: {
        "search": {"recipe": "grpo_plus"},
        "search_solved": {"recipe": "grpo_plus", "reward": "tests"},
    },
    # What users accept (mcbench/tasks/tab.py): rewards as they are, on the policy's own data and on
    # the base model's, divided by their deviation in a group as GRPO does, for another threshold,
    # and with users who change half-way
    "online_feedback": {
        "on_policy": {"recipe": "grpo_plus", "scale_rewards": "none"},
        "off_policy": {"recipe": "grpo_plus", "scale_rewards": "none", "staleness": -1},
        "normalised": {"recipe": "grpo_plus"},
        "threshold_45": {
            "recipe": "grpo_plus",
            "scale_rewards": "none",
            "reward": "accept_45",
        },
        "drift": {"recipe": "grpo_plus", "scale_rewards": "none", "reward": "accept_25_drift"},
    },
    # ours: rules against none in every cell of a grid; rho from the paper's to 1
    "where_it_holds": {
        "none": {"recipe": "grpo_plus"},
        "rho_02": {"recipe": "microcoder", "mask_ratio": 0.2},
        "rho_10": {"recipe": "microcoder", "mask_ratio": 1.0},
        "all": {"recipe": "deepcoder"},
        "t_d": _T_OF_D,
    },
    # Other systems' tasks and rewards (mcbench/tasks), beside their controls.
    "repair": {
        "tests": {"recipe": "grpo_plus"},
        "similarity": {"recipe": "grpo_plus", "reward": "similarity"},
        "curriculum": {"recipe": "grpo_plus", "readmit": [24, 20]},
        "duo": {"recipe": "grpo_plus", "train_set": "repair:train"},
    },
    "execution_traces": {
        "traced": {"recipe": "grpo_plus"},
        "untraced": {"recipe": "grpo_plus", "model": "nano-untraced"},
        "frames": {
            "recipe": "grpo_plus",
            "train_set": "traces:train",
            "test_set": "traces:test",
        },
    },
    # Problems a generation at one mini batch; the paper's 32, 64 and 128 around its default of 64.
    "batch_size": {
        "small": {"recipe": "grpo_plus", "train_batch_size": "50%"},
        "medium": {"recipe": "grpo_plus"},
        "large": {"recipe": "grpo_plus", "train_batch_size": "200%"},
    },
    # The paper's 4K, 6K and 8K as shares of the profile's limit.
    "context_length": {
        "short": {"recipe": "grpo_plus", "max_completion_length": "50%"},
        "middle": {"recipe": "grpo_plus", "max_completion_length": "75%"},
        "long": {"recipe": "grpo_plus"},
        "short_early": {"recipe": "grpo_plus", "length_stages": "0:50%,20%:100%"},
        "short_late": {"recipe": "grpo_plus", "length_stages": "0:50%,60%:100%"},
        "middle_early": {"recipe": "grpo_plus", "length_stages": "0:75%,20%:100%"},
        "middle_late": {"recipe": "grpo_plus", "length_stages": "0:75%,60%:100%"},
        # ours: does the conditional mask repair what a short limit costs?
        "short_masked": {"recipe": "microcoder", "max_completion_length": "50%"},
    },
}


# Round 2 (docs/protocol.md): KL with the clamped estimator, one averaging unless an arm says so.
_PER_RESPONSE = {"loss_type": "grpo"}
ROUND_2_ARMS: dict[str, dict[str, dict[str, Any]]] = {
    # {token, response averaging} x {KL and low clip; neither; rho 0.2; rho 1}
    "round_2_averaging": {
        "token_kl": {"recipe": "grpo"},
        "token_none": {"recipe": "grpo_plus"},
        "token_rho_02": {"recipe": "microcoder"},
        "token_rho_10": {"recipe": "microcoder", "mask_ratio": 1.0},
        "response_kl": {"recipe": "grpo_per_response"},
        "response_none": {"recipe": "grpo_plus", **_PER_RESPONSE},
        "response_rho_02": {"recipe": "microcoder", **_PER_RESPONSE},
        "response_rho_10": {"recipe": "microcoder", "mask_ratio": 1.0, **_PER_RESPONSE},
    },
    "round_2_kl": {
        "kl_clamped": {"recipe": "grpo"},
        "kl_unclamped": {"recipe": "grpo", "kl_estimator": "k3"},
        "no_kl": {"recipe": "grpo_plus"},
    },
    "round_2_limits": {
        "short": {"recipe": "grpo_plus", "max_completion_length": "50%"},
        "middle": {"recipe": "grpo_plus", "max_completion_length": "75%"},
        "long": {"recipe": "grpo_plus"},
    },
    "round_2_falls": {
        "none": {"recipe": "grpo_plus"},
        "rho_02": {"recipe": "microcoder"},
        "all": {"recipe": "deepcoder"},
        "t_06": {"recipe": "grpo_plus", "temperature": 0.6},
    },
    "round_2_evaluator": {
        "microcoder": ARMS["code_evaluator"]["microcoder"],
        "livecodebench": ARMS["code_evaluator"]["livecodebench"],
    },
}


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
    seed: int = 0,
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
        return make(size, settings["recipe"], own, seed, common=common)
    except UserError as error:
        raise UserError(f"arm {arm!r}: {error}") from None


def computation_of(
    arm: str, settings: Mapping[str, Any], profile: str, common: Mapping[str, Any]
) -> str:
    """What an arm computes, see :attr:`mcbench.runs.config.Config.computation`; empty where its
    settings do not fit the profile and what is common.
    """
    try:
        return arm_config(arm, settings, profile, 0, common, look=False).computation
    except UserError:
        return ""
