"""What the trainer says of settings that do nothing, or not what they seem to, and what it refuses
because TRL 1.16 would train on something else, or on nothing, without a word.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from torch import Tensor
from transformers import GenerationConfig

from mcbench.errors import UserError, meant, near
from mcbench.grpo.config import MEASURED_TEMPERATURES, MicroCoderGRPOConfig
from mcbench.grpo.options import CLIPPED_LOSSES
from mcbench.grpo.sampling import ENDS_WITHOUT_TOKEN, ends_without_token
from mcbench.grpo.truncation import sampled_from, truncating

# Fields of a model's generation_config that do not change what is sampled.
_HARMLESS = {
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "max_length"),
    *("max_new_tokens", "do_sample", "transformers_version", "use_cache", "cache_implementation"),
    *("cache_config", "return_dict_in_generate", "output_scores", "output_logits"),
    *("output_attentions", "output_hidden_states", "num_return_sequences", "disable_compile"),
    *("compile_config", "prefill_chunk_size", "assistant_confidence_threshold"),
    *("num_assistant_tokens", "num_assistant_tokens_schedule", "renormalize_logits"),
}

_FIELDS = [name for name in vars(GenerationConfig()) if not name.startswith("_")]
_OTHER_OUTPUTS = (
    *("num_return_sequences", "return_dict_in_generate", "prompt_lookup_num_tokens"),
    *("assistant_early_exit", "token_healing"),
)
# Of generation_kwargs, for transformers and vLLM: neither do these, or they are looked at by name.
_KNOWN = {
    *("temperature", "top_k", "top_p", "min_p", "max_tokens", "tokenizer", *ENDS_WITHOUT_TOKEN),
    *("stop_token_ids", "n", "seed", "logprobs", "prompt_logprobs", "detokenize", "output_kind"),
    "flat_logprobs",
    *("skip_special_tokens", "include_stop_str_in_output", *_OTHER_OUTPUTS),
    *("extra_args", "spaces_between_special_tokens", "streamer", "synced_gpus"),
}


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
    if args.advantage_rule == "pass_at_k" and named and len(reward_names) > 1:
        others = [name for name in reward_names if name != named]
        yield (
            f"no effect of the rewards {', '.join(others)}: advantage_rule='pass_at_k' counts "
            f"right answers, by {named}"
        )
    if args.log_completions and args.eval_strategy != "no":
        yield (
            "log_completions: TRL writes an evaluation to the file of its step, over what the "
            "batch of that step was, with rows of that batch; record batches by on_generation"
        )
    for names, acts, why in _acting(args):
        changed = [name for name in names if getattr(args, name) != _default(name)]
        if changed and not acts:
            yield f"no effect of {', '.join(changed)}: {why}"
    bound = args.epsilon if args.epsilon_high is None else args.epsilon_high
    if args.delta is not None and args.delta <= 1 + bound and args.loss_type in CLIPPED_LOSSES:
        yield (
            f"delta={args.delta:g} is not above the upper clip, {1 + bound:g}: tokens whose ratio "
            "is above it have no gradient, whatever their advantage is; 3 is usual"
        )
    if args.loss_type == "cispo" and bound < 1:
        yield (
            f"loss_type='cispo' cuts the importance weights themselves at epsilon_high={bound:g}, "
            "which is below 1: set epsilon_high (5 is usual)"
        )


# Settings that act beside one value of another alone.
_ACT_BESIDE = {
    ("mask_ratio", "mask_when", "masked_lose", "repeat_rule"): ("truncation_mask", "conditional"),
    ("imitate_from",): ("imitate", "own"),
    ("pass_k",): ("advantage_rule", "pass_at_k"),
    # TRL's own.
    ("sapo_temperature_neg", "sapo_temperature_pos"): ("loss_type", "sapo"),
    ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"): ("loss_type", "vespo"),
    ("entropy_target", "entropy_coef_delta", "entropy_coef_min", "entropy_coef_max"): (
        "use_adaptive_entropy",
        True,
    ),
    ("ref_model_mixup_alpha", "ref_model_sync_steps"): ("sync_ref_model", True),
}
_CORRECTION = tuple(
    f"vllm_importance_sampling_{name}" for name in ("correction", "mode", "clip_max", "clip_min")
)
# Losses whose denominators count responses and no tokens.
_OF_RESPONSES = ("dr_grpo", "grpo", "luspo", "sapo")
_ONLY_UPDATE = (
    "the only update of a generation is of the policy that sampled it, so that all ratios are 1 "
    "(several: steps_per_generation above gradient_accumulation_steps)"
)


def _acting(args: MicroCoderGRPOConfig) -> Iterator[tuple[Sequence[str], bool, str]]:
    """Settings that act under a condition alone: whether it holds, and why it does not."""
    for names, (name, wanted) in _ACT_BESIDE.items():
        value = getattr(args, name)
        yield names, value == wanted, f"{name} is {value!r}, not {wanted!r}"
    masks = args.truncation_mask == "conditional" and args.mask_ratio == 0
    yield ["truncation_mask"], not masks, "mask_ratio is 0, so that no response is masked"
    within = args.truncation_mask == "conditional" and args.advantage_rule == "uncut"
    yield (
        ["truncation_mask"],
        not within or args.masked_lose == "loss",
        "advantage_rule 'uncut' gives every cut response an advantage of 0, masked or not",
    )
    terms = args.beta or args.entropy_coef or args.use_adaptive_entropy
    counts = args.loss_type in _OF_RESPONSES and args.truncation_mask == "conditional"
    yield (
        ["masked_lose"],
        not counts or bool(terms) or args.top_entropy_quantile < 1,
        f"loss_type {args.loss_type!r} counts a response without tokens too, and there is no KL "
        "term and no entropy",
    )
    yield ["drop_above"], args.drop_above != 1, "no share of right responses is above 1"
    yield (
        ["kl_estimator", "use_bias_correction_kl"],
        args.kl_target is None,
        "kl_target takes the KL from the reward, and the loss has no such term",
    )
    yield (
        _CORRECTION,
        args.use_vllm or args.sampler_noise > 0,
        "only vLLM's log-probabilities are corrected, or those that sampler_noise changes",
    )
    yield ["token_share"], args.token_rule != "none", "token_rule is 'none'"
    yield (
        ["substitute_flat"],
        not args.dynamic_sampling,
        "dynamic_sampling leaves no group that fares alike",
    )
    measured = any(getattr(args, name) is not None for name in MEASURED_TEMPERATURES)
    yield ["temperature_grid", "temperature_probe_prompts"], measured, "no temperature is measured"
    clipped, loss = (*CLIPPED_LOSSES, "luspo"), f"loss_type {args.loss_type!r}"
    yield ["epsilon", "delta"], args.loss_type in clipped, f"{loss} has no such clip"
    yield ["epsilon_high"], args.loss_type in (*clipped, "cispo"), f"{loss} has no upper clip"
    yield (
        ["importance_sampling_level"],
        args.loss_type != "vespo",
        f"{loss} has weights of its own",
    )
    aggregation = args.multi_objective_aggregation
    yield (
        ["scale_rewards"],
        aggregation == "sum_then_normalize",
        f"multi_objective_aggregation={aggregation!r} divides by deviations of its own",
    )
    several = args.use_vllm or args.gradient_accumulation_steps % args.passes_per_generation != 0
    of_ratios = ["epsilon", "epsilon_high", "clip_ratio_c", "delta", "importance_sampling_level"]
    yield [*of_ratios, "off_policy_mask_threshold"], several, _ONLY_UPDATE
    yield (
        ["token_rule"],
        args.token_rule != "kl_cov" or several,
        f"the penalty of 'kl_cov' is on ratios, and {_ONLY_UPDATE}",
    )


def _default(name: str) -> Any:
    found = MicroCoderGRPOConfig.__dataclass_fields__[name]
    return found.default if found.default_factory is MISSING else found.default_factory()


def inherited_settings(trainer: Any) -> dict[str, Any]:
    """What ``generate`` takes from the model's generation_config and the trainer did not set."""
    if trainer.use_vllm or trainer.rollout_func is not None:
        return {}
    own = trainer.accelerator.unwrap_model(trainer.model).generation_config.to_diff_dict()
    known = {*_HARMLESS, *(k for k, v in trainer.generation_kwargs.items() if v is not None)}
    return {k: v for k, v in own.items() if k not in known and not k.startswith("_")}


def changed_sampling(args: MicroCoderGRPOConfig, inherited: Mapping[str, Any]) -> dict[str, Any]:
    """What responses are sampled with and log-probabilities are without, beside temperature and
    truncation: penalties, bans, least lengths and the like of ``generation_kwargs``, and what is
    ``inherited``.
    """
    settings: Any = args.generation_kwargs or {}
    known = {*_HARMLESS, *_KNOWN, *unread_settings(args)}
    given = {
        "repetition_penalty": args.repetition_penalty,
        "vllm_structured_outputs_regex": args.use_vllm and args.vllm_structured_outputs_regex,
        **settings,
    }
    ones = ("num_beams", "typical_p", "top_h", "repetition_penalty", "encoder_repetition_penalty")
    own = {
        name: value
        for name, value in given.items()
        if name not in known and value and not (value == 1 and name in ones)
    }
    if settings.get("do_sample") is False:  # the likeliest token always
        own["do_sample"] = False
    return own | {k: v for k, v in inherited.items() if k not in ENDS_WITHOUT_TOKEN}


def unread_settings(args: MicroCoderGRPOConfig) -> list[str]:
    """Names of ``generation_kwargs`` that ``generate`` of transformers does not know: it takes them
    without a word.
    """
    given: Any = args.generation_kwargs or {}
    return [] if args.use_vllm else [one for one in given if one not in {*_FIELDS, *_KNOWN}]


def other_distributions(args: MicroCoderGRPOConfig, inherited: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each way in which the responses are sampled from another distribution than
    the one whose log-probabilities, and ratios, TRL 1.16 computes:

    - a temperature in ``generation_kwargs``: https://github.com/huggingface/trl/issues/2989, 3029
      and 5348;
    - penalties and the like, and whatever else of the model's generation_config TRL does not set
      itself, which ``generate`` of transformers then fills in (``inherited``);
    - top_p, top_k and min_p beside a KL term (:mod:`mcbench.grpo.truncation`);
    - ends that no token marks: https://github.com/huggingface/trl/issues/3425.
    """
    given: Any = args.generation_kwargs or {}
    temperature = given.get("temperature", args.temperature)
    if temperature != args.temperature:
        yield (
            f"generation_kwargs samples at temperature {temperature} and log-probabilities are "
            f"those at temperature {args.temperature}: set temperature={temperature} in its place"
        )
    if args.beta and sampled_from(args):
        yield (
            "top_p, top_k or min_p beside a KL term: log-probabilities are those of the whole "
            "distribution, as in TRL, because between policies that keep different tokens there "
            "is no finite KL, so that ratios are of another policy than the one that sampled; set "
            "beta=0, or sample from all tokens"
        )
    for name in unread_settings(args):
        yield (
            f"no effect of generation_kwargs[{name!r}], which generate of transformers does not "
            f"know{meant(near(name, _FIELDS))}"
        )
    changed = changed_sampling(args, inherited)
    if changed:
        said = [f"{name}={value!r}" for name, value in changed.items()]
        where = " (of the model's generation_config)" if inherited else ""
        yield (
            f"responses are sampled with {', '.join(said)}{where} and log-probabilities are those "
            "without, so that ratios and a KL term are of another policy than the one that "
            "sampled; leave such settings out"
        )
    if args.use_vllm and args.vllm_mode == "colocate" and given.get("seed") is not None:
        yield (
            "generation_kwargs['seed'] gives all responses to a prompt the same random numbers, "
            "and so the same tokens; leave it out: the trainer's seed is the engine's"
        )
    for name in ends_without_token(given, inherited):
        where = "generation_kwargs" if name in given else "the model's generation_config"
        yield (
            f"{name} of {where} ends responses without an end token, so that TRL counts "
            "them as cut (clipped_ratio, mask_truncated_completions), and padding after them as "
            "part of them; end them with a token (eos_token_id)"
        )


def unread_data(trainer: Any) -> Iterator[str]:
    """One sentence for each thing of the training set that is not read as it seems meant."""
    rows = trainer.train_dataset
    known = getattr(rows, "column_names", None)
    asked = set(trainer.args.record_columns) - set(_default("record_columns"))
    if known and trainer.rollout_func is None and (missing := sorted(asked - {*known})):
        yield (
            f"record_columns names {', '.join(missing)}, and the training set has the columns "
            f"{', '.join(known)}"
        )
    whole = hasattr(rows, "__len__") and len(rows)  # a streamed set is not read before its time
    first = rows[0].get("prompt") if whole else None
    if isinstance(first, list) and first and first[-1].get("role") == "assistant":
        yield (
            "a prompt ends with a message of the assistant: TRL has the template end it and "
            "begin another one, which does not continue it; put what is to be continued into the "
            "chat template, or give prompts as text"
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


def refuse_other_outputs(trainer: Any) -> None:
    """What makes ``generate`` return another number of responses, or no tensor, or refuse more than
    one prompt: TRL would fail in the first update, or give prompts the responses of others.
    """
    if trainer.use_vllm or trainer.rollout_func is not None:
        return
    own = trainer.accelerator.unwrap_model(trainer.model).generation_config
    for name in _OTHER_OUTPUTS:
        for where, value in (
            ("generation_kwargs", trainer.generation_kwargs.get(name)),
            ("the model's generation_config", getattr(own, name, None)),
        ):
            if value and not (name == "num_return_sequences" and value == 1):
                raise UserError(f"{where} sets {name}={value}, which a training cannot use")


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
    kept = truncating(trainer.args)
    alone = [name for name, one in (("top_k", 1), ("top_p", 0), ("min_p", 1)) if kept[name] == one]
    if alone and not trainer.args.beta:
        raise UserError(
            f"{alone[0]}={kept[alone[0]]} keeps the likeliest token alone, whose probability is 1 "
            "whatever the weights are, so that nothing would be trained; keep more"
        )
    prompts = trainer.args.generation_batch_size // trainer.num_generations
    rows = trainer.train_dataset
    if hasattr(rows, "__len__") and len(rows) < prompts:
        raise UserError(
            f"train_dataset has {len(rows)} prompts and one generation takes {prompts}, so that "
            "nothing would be trained; give more prompts, or lower per_device_train_batch_size or "
            "steps_per_generation"
        )
