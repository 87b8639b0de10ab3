"""What is done around the sampling while TRL calls it, and where TRL keeps the temperature; see
``trl_compat.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from mcbench.errors import UserError
from mcbench.grpo import fsdp2
from mcbench.grpo.correction import noise
from mcbench.grpo.decode import Trace, sample_unfinished
from mcbench.grpo.fence import EndAtFence
from mcbench.grpo.replaced import replaced

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer


def without_missing_end(end_tokens: list[Any]) -> None:
    """Takes None, of a tokenizer without an end token, from TRL's list, on which it fails in the
    first batch.

    Raises:
        UserError: the model has none either.
    """
    end_tokens[:] = [one for one in end_tokens if one is not None]
    if not end_tokens:
        raise UserError(
            "neither the tokenizer nor the model's generation_config has an end token, so that no "
            "response could end; set tokenizer.eos_token"
        )


def stop_tokens(generation_kwargs: Any, known: Collection[int]) -> list[int]:
    """Ids that end a response by ``generation_kwargs`` (transformers' name or vLLM's) and are not
    among the ``known`` ones.
    """
    given: Mapping[str, Any] = generation_kwargs or {}
    found: list[int] = []
    for name in ("eos_token_id", "stop_token_ids"):
        one = given.get(name)
        found += [one] if isinstance(one, int) else (one or [])
    return [token for token in dict.fromkeys(found) if token not in known]


ENDS_WITHOUT_TOKEN = ("stop_strings", "stop", "max_time")


def ends_without_token(generation_kwargs: Any, inherited: Mapping[str, Any]) -> list[str]:
    """Names of the ``generation_kwargs``, and of what the model's generation_config adds, that end
    a response by its text or by the clock, with no token for it.
    """
    given: Mapping[str, Any] = {**inherited, **(generation_kwargs or {})}
    return [name for name in ENDS_WITHOUT_TOKEN if given.get(name)]


def use_own_loop(trainer: RepairedGRPOTrainer) -> None:
    """Has ``generate`` prepare what :func:`mcbench.grpo.decode.sample_unfinished` needs, whatever
    the model's generation_config says.

    Raises:
        UserError: the loop is not for this trainer.
    """
    if trainer._is_vlm:
        raise UserError("sample_unfinished shows a model no images; set it to False")
    if trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
        raise UserError(
            "sample_unfinished needs processes that each hold the whole model; set it to False "
            "under FSDP and ZeRO-3"
        )
    asked = {"use_cache": True, "cache_implementation": "dynamic", "num_beams": 1}
    trainer.generation_kwargs |= asked
    vars(trainer.generation_config).update(asked)


def without_empty(
    trainer: RepairedGRPOTrainer, ids: Sequence[Any], log_probs: Any
) -> tuple[list[Any], Any]:
    """Responses and the log-probabilities of what sampled them, with one end token in the place of
    a response without any; which those are is said once, and the trainer's ``empty``.
    """
    trainer.empty = empty = [not len(row) for row in ids]
    if any(empty):
        trainer.say_once(
            "empty",
            f"{sum(empty)} of {len(ids)} responses have no token (the first is number "
            f"{empty.index(True)} of its batch): whatever sampled them failed, or ended "
            "at once. Such a response has no reward and no token in the loss",
        )
        if log_probs is not None:
            log_probs = [row if len(row) else [0.0] for row in log_probs]
    return [row if len(row) else [trainer.eos_token_ids[0]] for row in ids], log_probs


def filling(rollout_func: Callable[..., Any], trainer: RepairedGRPOTrainer) -> Callable[..., Any]:
    """A rollout function none of whose responses is without a token."""

    @functools.wraps(rollout_func)
    def filled(*args: Any, **kwargs: Any) -> Any:
        found = dict(rollout_func(*args, **kwargs))
        # As what generate returns is given on: neither tensors nor arrays.
        given = [_plain(row) for row in found.get("completion_ids", ())]
        ids, log_probs = without_empty(trainer, given, found.get("logprobs"))
        if given:
            found["completion_ids"] = ids
        if log_probs is not None:
            found["logprobs"] = log_probs
        if found.get("env_mask") is not None:
            found["env_mask"] = [own if len(own) else [0] for own in found["env_mask"]]
        return found

    return filled


def _plain(ids: Any) -> list[int]:
    return list(ids.tolist() if hasattr(ids, "tolist") else ids)


def one_turn(trainer: RepairedGRPOTrainer, respond: Callable[[], Any]) -> tuple[Any, Any]:
    """What ``respond``, TRL's ``_generate_single_turn``, gives: responses and the log-probabilities
    of what sampled them, where TRL is to have these.
    """
    policy = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    fence, batching = trainer.fence, trainer.use_transformers_continuous_batching
    if batching:
        with continuous_batching(policy) as trainer.sampler_said:
            ids, log_probs = respond()
    else:
        fsdp2.divide_again(trainer.model)
        options: dict[str, Any] = {}
        if trainer.args.sample_unfinished:
            trainer.trace = Trace()
            options |= {"custom_generate": sample_unfinished, "trace": trainer.trace}
        if fence is not None:
            options["logits_processor"] = [EndAtFence(fence)]
        if "stop_strings" in trainer.ends_otherwise:
            options["tokenizer"] = trainer._tokenizer
        # `generate` may be somebody's in place of the class's.
        with replaced(policy, generate=partial(policy.generate, **options)):
            ids, log_probs = respond()
    if trainer.empty is None:
        ids, log_probs = without_empty(trainer, ids, log_probs)
    if fence is not None and batching:
        ids, trainer.sampler_said = fence.cut_all(ids, trainer.sampler_said)
    elif fence is not None:
        ids, log_probs = fence.cut_all(ids, log_probs)
    if trainer.trace is not None:
        trainer.trace.ids = [list(row) for row in ids]
    if log_probs is not None and trainer.args.sampler_noise:
        added = noise(trainer, [len(row) for row in log_probs])
        log_probs = [
            [None if p is None else p + more for p, more in zip(row, noise, strict=True)]
            for row, noise in zip(log_probs, added, strict=True)
        ]
    return ids, log_probs


def limits(trainer: RepairedGRPOTrainer) -> list[int]:
    """The tokens that each of a trainer's responses was allowed; 0 where whatever has no end token
    was cut.
    """
    rollout = trainer.rollout_func is not None
    # Of several turns: the budget is of the policy's own tokens. An engine has limits of its own,
    # such as the model's context.
    if trainer.turns if rollout else trainer.use_vllm and not trainer.ends_otherwise:
        return [0] * len(trainer.asked_ids)
    return [limit_after(trainer, len(ids)) for ids in trainer.asked_ids]


def limit_after(trainer: RepairedGRPOTrainer, prompt_tokens: int) -> int:
    """Tokens that a response to such a prompt may have: L_max, unless ``generation_kwargs`` or the
    length of vLLM's cache says otherwise; 0 where nothing does, so that whatever has no end was
    cut.
    """
    given: Any = trainer.args.generation_kwargs or {}
    found = [trainer.max_completion_length]
    if not trainer.use_vllm:
        found = [trainer.generation_kwargs["max_new_tokens"]]
    elif given.get("max_tokens") is not None:
        found = [given["max_tokens"]]
    if trainer.use_vllm and trainer.args.vllm_max_model_length is not None:
        found.append(trainer.args.vllm_max_model_length - prompt_tokens)
    if trainer.tools:
        found.append(trainer.max_completion_length)
    return min((int(limit) for limit in found if limit is not None), default=0)


@contextmanager
def continuous_batching(model: Any) -> Iterator[list[list[float]]]:
    """Yields the list that receives the log-probabilities of the sampled tokens, one list a
    response; they are there after ``model.generate_batch``, called inside.

    TRL 1.16 hands the prompts to ``generate_batch`` and takes the ids. Five things it leaves open:
    with bf16 it casts the whole model and keeps it so, master weights and rotary frequencies
    included; a generation thread that died returns fewer responses; a failed request returns a part
    of one; the log-probabilities of the sampled tokens are dropped; and a model in evaluation mode
    is put into training mode, so that the rest of an evaluation counts as training.

    Here parameters, buffers and mode are the same afterwards as before. During the sampling the
    parameters may be cast, the buffers never are: at position 8,000 a rotary frequency rounded to
    bf16 is off by several turns.

    Raises:
        RuntimeError: a response is missing or failed.
    """
    weights = [(weight, weight.data) for weight in model.parameters()]
    buffers = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
    ]
    training = model.training
    sampled: list[list[float]] = []
    generate = model.generate_batch

    def generate_batch(inputs: list[list[int]], *args: Any, **kwargs: Any) -> dict[str, Any]:
        _restore(buffers)
        outputs: dict[str, Any] = generate(inputs, *args, **kwargs)
        failed = [output.error for output in outputs.values() if output.error is not None]
        if failed or len(outputs) < len(inputs):
            raise RuntimeError(
                f"continuous batching finished {len(outputs) - len(failed)} of {len(inputs)} "
                f"responses; {failed[0] if failed else 'its thread ended (see the log above)'}"
            )
        sampled.extend(output.logprobs for output in outputs.values())
        return outputs

    try:
        with replaced(model, generate_batch=generate_batch):
            yield sampled
    finally:
        model.train(training)
        for weight, data in weights:
            weight.data = data
        _restore(buffers)


def _restore(buffers: list[tuple[nn.Module, str, Tensor | None]]) -> None:
    for module, name, buffer in buffers:
        module._buffers[name] = buffer


def log_prob_temperature_cell(model: nn.Module) -> Any:
    """The closure cell that holds the temperature of the log-probabilities.

    TRL freezes it in ``add_fused_lm_head(temperature=...)``: assigning ``trainer.temperature``
    alone would change the sampling and leave the log-probabilities at the old temperature. The head
    may lie under wrappers (PEFT, FSDP, mixed precision). A forward hook that scales the hidden
    states instead is off by rounding: 5e-6 nats in float32, .04 in bf16.
    """
    for module in model.modules():
        for function in _wrapped_functions(module.forward):
            code = getattr(function, "__code__", None)
            if code is not None and code.co_name == "_fused_forward":
                return function.__closure__[code.co_freevars.index("temperature")]
    raise RuntimeError("TRL's fused LM head was not found; this package needs trl>=1.16,<1.17")


def _wrapped_functions(forward: Any) -> Iterator[Any]:
    """``forward`` and what its decorators wrap (mixed precision adds some), outermost first."""
    while forward is not None:
        forward = getattr(forward, "__func__", forward)
        yield forward
        forward = getattr(forward, "__wrapped__", None)
