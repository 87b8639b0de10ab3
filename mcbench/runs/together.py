"""Settings that do not go together, refused before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcbench.errors import UserError
from mcbench.grpo.temperature import parse_stages
from mcbench.runs.shares import STAGES, check_kind_stages

if TYPE_CHECKING:
    from mcbench.runs.config import Config


def check_together(config: Config) -> None:
    """Refuses settings of which one undoes, or knows nothing of, another.

    Raises:
        UserError: which, and what to leave out or to set.
    """
    for check in (_stages, _prompts, _rules, _correction, _trend, _cache):
        check(config)


def _stages(config: Config) -> None:
    for name in STAGES:
        if (stages := getattr(config, name)) is not None:
            parse_stages(stages, name)  # which refuses what is none


def _prompts(config: Config) -> None:
    if config.kind_stages is not None:
        check_kind_stages(config.kind_stages)
        if config.readmit is not None:
            raise UserError("kind_stages and readmit both choose the prompts; leave one out")
    others = "dynamic_sampling", *(["drop_above"] if config.readmit is not None else [])
    for name in others if config.kind_stages or config.readmit else ():
        if getattr(config, name):
            raise UserError(f"{name} takes prompts of any time: no kind_stages, no readmit")


def _rules(config: Config) -> None:
    if config.reward_rules == "microcoder":
        return
    from mcbench.evaluator.rule_sets import rule_set  # builds tables of rules

    rule_set(config.reward_rules)
    if config.reward_evaluator != "microcoder":
        raise UserError(
            f"reward_evaluator {config.reward_evaluator!r} brings its own rules; leave out "
            f"reward_rules={config.reward_rules!r}"
        )


def _correction(config: Config) -> None:
    with_vllm = config.backend.startswith("vllm")
    changed = [
        name
        for name, about in type(config).model_fields.items()
        if name.startswith("vllm_importance_sampling_") and getattr(config, name) != about.default
    ]
    if changed and not with_vllm and not config.sampler_noise:
        raise UserError(
            f"{changed[0]} has no effect with backend {config.backend!r}: only vLLM's "
            "log-probabilities are corrected, or those that sampler_noise changes"
        )
    corrected = with_vllm and config.vllm_importance_sampling_correction
    if corrected and config.beta and config.top_p is not None and config.top_p < 1:
        raise UserError(
            f"top_p {config.top_p:g} cannot be corrected for beside a KL term: the policy's "
            "log-probabilities are then those of the whole distribution, and vLLM's of what "
            "top_p keeps; use top_p=1, beta=0 or vllm_importance_sampling_correction=false"
        )
    low, high = config.vllm_importance_sampling_clip_min, config.vllm_importance_sampling_clip_max
    if low is not None and high is not None and low >= high:
        raise UserError("vllm_importance_sampling_clip_min must be below its clip_max")


def _trend(config: Config) -> None:
    if config.temperature_reading == "trend" and config.temperature_target_diversity is None:
        raise UserError(
            "temperature_reading=trend is a reading of T(D); set temperature_target_diversity, "
            "such as auto"
        )
    if config.temperature_stretch is not None and config.temperature_reading != "trend":
        raise UserError("temperature_stretch is for temperature_reading=trend; set both")


def _cache(config: Config) -> None:
    room = config.vllm_max_model_length
    needed = config.longest_response + (config.max_prompt_length or 1)
    if room is not None and needed > room:
        raise UserError(
            f"vllm_max_model_length {room} is less than the longest prompt and response, "
            f"{config.max_prompt_length or 1} + {config.longest_response} tokens"
        )
