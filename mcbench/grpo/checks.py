"""What the trainer says of settings that do nothing, or not what they seem to, and what it refuses
because TRL 1.16 would train on something else, or on nothing, without a word.
"""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.trl_sampling import stop_texts

# What is about the conditional mask alone.
_MASK_SETTINGS = ("mask_ratio", "mask_when", "masked_lose", "repeat_rule")


# A sampler with another value than this draws from another distribution than the policy's.
_WHOLE_DISTRIBUTION = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
_ALSO_WHOLE = {"top_k": -1}  # vLLM's word for it


def idle_settings(
    args: MicroCoderGRPOConfig, max_completion_length: int | None, reward_names: Sequence[str]
) -> Iterator[str]:
    """One sentence for each setting that can have no effect, or an unexpected one."""
    conditional = args.truncation_mask == "conditional"
    longest = max(max_completion_length or 0, *(length for _, length in args.length_points), 0)
    if conditional and 2 * args.repeat_window > longest:
        yield (
            f"repeat_window={args.repeat_window} never applies: it needs {2 * args.repeat_window} "
            f"tokens, responses have at most {longest}"
        )
    named = args.correctness_reward or args.soft_overlong
    if conditional and len(reward_names) > 1 and not named:
        yield (
            f"the weighted sum of {', '.join(reward_names)} decides which responses are correct; "
            "name the one that should with correctness_reward"
        )
    options = type(args).__dataclass_fields__
    changed = [name for name in _MASK_SETTINGS if getattr(args, name) != options[name].default]
    if changed and not conditional:
        yield (
            f"no effect of {', '.join(changed)}: truncation_mask is {args.truncation_mask!r}, not "
            "'conditional'"
        )
    bound = args.epsilon if args.epsilon_high is None else args.epsilon_high
    if args.loss_type == "cispo" and bound < 1:
        yield (
            f"loss_type='cispo' cuts the importance weights themselves at epsilon_high={bound:g}, "
            "which is below 1: set epsilon_high (5 is usual)"
        )


def other_distributions(args: MicroCoderGRPOConfig) -> Iterator[str]:
    """One sentence for each way in which the responses are sampled from another distribution than
    the one whose log-probabilities, and ratios, TRL 1.16 computes:

    - a temperature in ``generation_kwargs``: https://github.com/huggingface/trl/issues/2989, 3029
      and 5348;
    - a truncated or penalised distribution: https://github.com/huggingface/trl/issues/6789, 6944;
    - ends that no token marks: https://github.com/huggingface/trl/issues/3425.
    """
    given: Any = args.generation_kwargs or {}
    temperature = given.get("temperature", args.temperature)
    if temperature != args.temperature:
        yield (
            f"generation_kwargs samples at temperature {temperature} and log-probabilities are "
            f"those at temperature {args.temperature}: set temperature={temperature} in its place"
        )
    used = {name: given.get(name, getattr(args, name)) for name in _WHOLE_DISTRIBUTION}
    changed = [
        f"{name}={value:g}"
        for name, value in used.items()
        if value not in (None, _WHOLE_DISTRIBUTION[name], _ALSO_WHOLE.get(name))
    ]
    if changed:
        yield (
            f"responses are sampled with {', '.join(changed)} and log-probabilities are those of "
            "the whole distribution, so that ratios and a KL term are of another policy than the "
            "one that sampled; leave them at "
            f"{', '.join(f'{name}={value:g}' for name, value in _WHOLE_DISTRIBUTION.items())}"
        )
    by_sequence = args.vllm_importance_sampling_mode.startswith("sequence")
    if args.stop_at_fence and args.use_vllm and by_sequence:
        yield (
            "stop_at_fence ends responses with a token that vLLM has not drawn, and "
            f"vllm_importance_sampling_mode={args.vllm_importance_sampling_mode!r} counts it in "
            "the ratio of the response; use 'token_truncate' or 'token_mask'"
        )
    for name in stop_texts(given):
        yield (
            f"generation_kwargs[{name!r}] ends responses without an end token, so that TRL counts "
            "them as cut (clipped_ratio, mask_truncated_completions), and padding after them as "
            "part of them; end them with a token (eos_token_id)"
        )


def unusual_rewards(rewards: Tensor, args: MicroCoderGRPOConfig) -> str:
    """That the thresholds of correctness may not fit (B,) rewards; empty where all of them, but for
    those missing, equal one of the two.
    """
    low, high = args.incorrect_threshold, args.correct_threshold
    scored = rewards[~rewards.isnan()]
    if bool(((scored == low) | (scored == high)).all()):
        return ""
    return (
        f"truncation_mask='conditional' takes a reward of at most incorrect_threshold={low:g} for "
        f"incorrect and one of at least correct_threshold={high:g} for correct, and the rewards "
        f"here are between {scored.min():g} and {scored.max():g}; set the two thresholds to fit"
    )


def refuse_half_loaded_reference(args: MicroCoderGRPOConfig) -> None:
    """With this option of FSDP2 the other processes load empty weights; accelerate fills those of
    the policy, and nothing those of the reference.
    """
    loads = os.environ.get("FSDP_CPU_RAM_EFFICIENT_LOADING", "").lower() == "true"
    if os.environ.get("ACCELERATE_USE_FSDP") == "true" and loads and args.beta:
        raise UserError(
            "with beta > 0 every process needs the reference model, and "
            "fsdp_cpu_ram_efficient_loading leaves it empty on all but the first; set it to false "
            "in the accelerate configuration, as --launch fsdp2 does"
        )


def refuse_idle_training(trainer: Any) -> None:
    """Where no update would change anything, before the first: no parameter is trained
    (https://github.com/huggingface/trl/issues/6700: an adapter loaded as frozen, beside whose copy
    for the KL term nothing is left), or the training set does not fill one generation.
    """
    # The copy that TRL makes of an adapter as the reference is called "ref".
    weights = trainer.model.named_parameters()
    if not any(weight.requires_grad and ".ref." not in name for name, weight in weights):
        raise UserError(
            "no parameter of the model is trained, all are frozen; load an adapter with "
            "is_trainable=True, or give peft_config"
        )
    prompts = trainer.args.generation_batch_size // trainer.num_generations
    rows = trainer.train_dataset
    if hasattr(rows, "__len__") and len(rows) < prompts:
        raise UserError(
            f"train_dataset has {len(rows)} prompts and one generation takes {prompts}, so that "
            "nothing would be trained; give more prompts, or lower per_device_train_batch_size or "
            "steps_per_generation"
        )


def refuse_empty(ids: Sequence[Sequence[int]]) -> None:
    """A response without a token, on which TRL fails with an IndexError
    (https://github.com/meta-pytorch/OpenEnv/issues/1029).
    """
    empty = [place for place, row in enumerate(ids) if not len(row)]
    if empty:
        raise UserError(
            f"{len(empty)} of {len(ids)} responses have no token (the first is number {empty[0]} "
            "of its batch): whatever sampled them failed; an end token alone is the shortest "
            "response that TRL can score"
        )


def without_empty(rollout_func: Callable[..., Any]) -> Callable[..., Any]:
    """The rollout function, refusing responses without a token."""

    @functools.wraps(rollout_func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        found = rollout_func(*args, **kwargs)
        refuse_empty(found.get("completion_ids", ()))
        return found

    return checked
