"""What the trainer says of settings that do nothing, or not what they seem to."""

import os
from collections.abc import Iterator, Sequence

from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo.config import MicroCoderGRPOConfig

# What is about the conditional mask alone.
_MASK_SETTINGS = ("mask_ratio", "mask_when", "masked_lose", "repeat_rule")


def idle_settings(
    args: MicroCoderGRPOConfig, max_completion_length: int, reward_names: Sequence[str]
) -> Iterator[str]:
    """One sentence for each setting that can have no effect, or an unexpected one."""
    conditional = args.truncation_mask == "conditional"
    longest = max(max_completion_length, *(length for _, length in args.length_points), 0)
    if conditional and 2 * args.repeat_window > longest:
        yield (
            f"repeat_window={args.repeat_window} never applies: it needs {2 * args.repeat_window} "
            f"tokens, responses have at most {longest}"
        )
    if conditional and len(reward_names) > 1 and args.correctness_reward is None:
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
