"""Models that respond: loaded by name, and sampled with ``generate`` or vLLM, for evaluation.

Shapes: N prompts in, N responses out; a response is a list of token ids up to and including EOS, or
of ``max_new_tokens`` ids where it was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import datasets
import torch
import transformers
from accelerate.utils import broadcast_object_list, gather_object
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, StoppingCriteria
from trl.models.utils import unwrap_model_for_generation

from mcbench.errors import UserError
from mcbench.grpo.decode import sample_unfinished
from mcbench.grpo.fence import EndAtFence, Fence
from mcbench.runs.config import Config
from mcbench.runs.problems import model_location

Sampler = Callable[..., list[list[int]]]
"""``sampler(prompt_ids, max_new_tokens, temperature, seed)`` -> one response per prompt. With
``progress``, where that is asked for, it tells the share that is done now and then.
"""
Progress = Callable[[float], None]

# Of vLLM's engine: no text is read, and an object for each token would keep its processor busy.
TOKENS_ALONE = {"detokenize": False, "flat_logprobs": True}
VLLM_MEMORY = 0.3  # share of a GPU where neither the run nor the estimate says another
CACHE_SHARE, CACHE_BYTES = 0.3, 2 * 2**30
"""What keys and values of the responses sampled at once may take: of a GPU's memory, and of a
processor's, which reads them for every token.
"""


@dataclass(frozen=True)
class Policy:
    """A model that responds: what samples it, its tokenizer, the ids that end a response, and
    whether its chat template is to let it think (None: the template's default).
    """

    sampler: Sampler
    tokenizer: Any
    ends: Collection[int]
    enable_thinking: bool | None = None

    def respond(
        self,
        prompts: Sequence[Any],
        attempts: int,
        max_new_tokens: int,
        temperature: float,
        seed: int,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        """``attempts`` responses to every prompt, one prompt's after the other's."""
        asked = prompt_ids(self.tokenizer, prompts, self.enable_thinking)
        repeated = [ids for ids in asked for _ in range(attempts)]
        told = {} if progress is None else {"progress": progress}
        responses = self.sampler(repeated, max_new_tokens, temperature, seed, **told)
        if len(responses) != len(repeated):
            raise RuntimeError(f"{len(repeated)} prompts got {len(responses)} responses")
        return responses

    def texts(self, responses: Sequence[Sequence[int]]) -> list[str]:
        """The responses without special tokens."""
        return self.tokenizer.batch_decode(responses, skip_special_tokens=True)


def load_policy(
    name: str,
    backend: str = "transformers",
    batch_size: int = 256,
    stop_at_fence: bool = False,
) -> Policy:
    """A model that is only evaluated, by name; on a GPU in bf16.

    Args:
        name: as for :func:`load_model`.
        backend: ``transformers`` or ``vllm``.
        batch_size: responses that transformers samples at once, at most.
        stop_at_fence: as the setting of a run.

    Raises:
        UserError: the model cannot be found or read, or vLLM is not installed.
    """
    if backend == "vllm":
        location = model_location(name)
        tokenizer = AutoTokenizer.from_pretrained(location)
        ends = end_tokens(GenerationConfig.from_pretrained(location), tokenizer)
        fence = Fence(tokenizer) if stop_at_fence else None
        return Policy(vllm_engine_sampler(location, fence), tokenizer, ends)
    model, tokenizer = load_model(name)
    if torch.cuda.is_available():
        in_bf16(model).to("cuda")
    return transformers_policy(model, tokenizer, batch_size, stop_at_fence=stop_at_fence)


def in_bf16(model: Any) -> Any:
    """The model with its weights in bf16, and its buffers as they are: far from the start a rotary
    frequency rounded to bf16 is off by several turns.
    """
    for weight in model.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return model


def load_model(name: str) -> tuple[Any, Any]:
    """Model (float32 master weights; bf16 runs in autocast) and tokenizer.

    ``name`` is a nano model, a directory (also of a run or checkpoint) or a hub id.

    Raises:
        UserError: the model cannot be found or read.
    """
    location = model_location(name)
    # No bars for loading and saving files: they would bury the progress lines.
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        tokenizer = AutoTokenizer.from_pretrained(location, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(location, dtype=torch.float32)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"model {name!r} could not be loaded: {reason}") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    # A checkpoint holds tied weights once. Told so, the trainer ties them again where it resumes;
    # else it would warn that some are missing.
    model._keys_to_ignore_on_save = set(model.all_tied_weights_keys)
    return model, tokenizer


def template_options(enable_thinking: bool | None) -> dict[str, Any]:
    """Keyword arguments of the chat template."""
    return {} if enable_thinking is None else {"enable_thinking": enable_thinking}


def prompt_ids(
    tokenizer: Any, prompts: Sequence[Any], enable_thinking: bool | None = None
) -> list[list[int]]:
    """Token ids of plain or conversational prompts, as TRL tokenizes them for training.

    Raises:
        UserError: conversations, and a model that was made for none.
    """
    if prompts and not isinstance(prompts[0], str):
        if getattr(tokenizer, "chat_template", "") is None:
            raise UserError("the model has no chat template; prompt style plain needs none")
        return [
            tokenizer.apply_chat_template(
                prompt,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                **template_options(enable_thinking),
            )["input_ids"]
            for prompt in prompts
        ]
    return tokenizer(list(prompts))["input_ids"]


def end_tokens(generation_config: Any, tokenizer: Any) -> list[int]:
    """The ids that end a response."""
    ends = {tokenizer.eos_token_id}
    configured = getattr(generation_config, "eos_token_id", None)
    ends.update(configured if isinstance(configured, list) else [configured])
    return sorted(end for end in ends if end is not None)


@contextmanager
def undisturbed(model: Any, seed: int) -> Iterator[None]:
    """Evaluation mode and a private random state; both are as before afterwards.

    Without this, evaluating during training would change the training that follows.
    """
    training = model.training
    device = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    model.eval()
    try:
        with torch.random.fork_rng(device), torch.no_grad():
            torch.manual_seed(seed)
            yield
    finally:
        model.train(training)


@contextmanager
def only_asked(model: Any, ends: Collection[int], pad: int) -> Iterator[None]:
    """``generate`` does what it is asked and nothing else: of the model's own generation_config,
    which fills in whatever a call leaves open (penalties, banned and forced tokens, beams), the end
    tokens and padding alone are left for the block.

    Each module that has one is given the new one: adapters hand theirs on to what they wrap.
    """
    holders = [one for one in model.modules() if "generation_config" in vars(one)]
    before = [one.generation_config for one in holders]
    for one in holders:
        one.generation_config = GenerationConfig(eos_token_id=list(ends), pad_token_id=pad)
    try:
        yield
    finally:
        for one, own in zip(holders, before, strict=True):
            one.generation_config = own


class _Told(StoppingCriteria):
    """Tells the share of a batch's steps that are done; stops nothing."""

    def __init__(self, width: int, limit: int, progress: Progress) -> None:
        self._width, self._limit, self._progress = width, limit, progress

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self._progress((input_ids.shape[1] - self._width) / self._limit)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def rows_at_once(model: Any, tokens: int) -> int:
    """Responses of so many tokens, prompts included, whose keys and values fit (at least one)."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    each = 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize
    room: float = CACHE_BYTES
    if model.device.type == "cuda":
        room = CACHE_SHARE * torch.cuda.get_device_properties(model.device).total_memory
    return max(1, int(room / (each * tokens)))


def transformers_policy(
    model: Any,
    tokenizer: Any,
    batch_size: int = 256,
    together: bool = False,
    stop_at_fence: bool = False,
) -> Policy:
    """A loaded model, sampled with ``model.generate``, whatever its generation_config says of
    sampling, on ``batch_size`` prompts at a time, or as many as :func:`rows_at_once` allows.

    With ``together`` all processes sample the same, step by step: what the first one drew counts.
    """
    ends = end_tokens(model.generation_config, tokenizer)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
    loop = {"synced_gpus": True} if together else {"custom_generate": sample_unfinished}
    fence = Fence(tokenizer) if stop_at_fence else None

    def respond(
        prompts: list[list[int]], limit: int, temperature: float, progress: Progress | None
    ) -> list[list[int]]:
        width = max(map(len, prompts))
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=model.device)
        mask = torch.tensor(
            [[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device
        )
        output = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=limit,
            do_sample=True,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            use_cache=True,
            logits_processor=[] if fence is None else [EndAtFence(fence)],
            stopping_criteria=[] if progress is None else [_Told(width, limit, progress)],
            **loop,
        )
        rows = output[:, width:].tolist()
        if together:
            rows = broadcast_object_list([rows])[0]
        return [_cut(row, ends) for row in rows]

    def batches(prompts: Sequence[list[int]], limit: int) -> Iterator[list[int]]:
        # Neighbours of like length need the least padding.
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        rows: list[int] = []
        for i in order:
            most = min(batch_size, rows_at_once(model, len(prompts[i]) + limit))
            if len(rows) >= most:
                yield rows
                rows = []
            rows.append(i)
        if rows:
            yield rows

    def sample(
        prompts: Sequence[list[int]],
        max_new_tokens: int,
        temperature: float,
        seed: int,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        responses: list[list[int]] = [[] for _ in prompts]
        done = 0
        with undisturbed(model, seed), only_asked(model, ends, pad):
            for rows in batches(prompts, max_new_tokens):
                tell = progress and _part_of(progress, done, len(rows), len(prompts))
                asked = [prompts[i] for i in rows]
                found = respond(asked, max_new_tokens, temperature, tell)
                for i, response in zip(rows, found, strict=True):
                    responses[i] = response
                done += len(rows)
        return responses

    return Policy(sample, tokenizer, ends)


def _part_of(progress: Progress, done: int, rows: int, count: int) -> Progress:
    """Tells of ``count`` responses what is known of ``rows`` of them after ``done`` others."""
    return lambda share: progress((done + share * rows) / count)


def _cut(ids: list[int], ends: list[int]) -> list[int]:
    """``ids`` up to and including the first end token."""
    stop = next((n for n, token in enumerate(ids, start=1) if token in ends), len(ids))
    return ids[:stop]


@contextmanager
def trained_policy(trainer: Any, config: Config, tokenizer: Any) -> Iterator[Policy]:
    """The model that trains, sampled by what samples its training responses. Where an engine does,
    or the weights are divided over the processes, all of these must sample together.
    """
    if config.backend != "transformers":
        ends = end_tokens(trainer.model.generation_config, tokenizer)
        yield Policy(engine_sampler(trainer), tokenizer, ends, config.enable_thinking)
        return
    divided = getattr(trainer.accelerator.state, "fsdp_plugin", None) is not None
    whole: Any = (
        unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator)
        if divided
        else nullcontext(trainer.accelerator.unwrap_model(trainer.model))
    )
    with whole as model:
        policy = transformers_policy(
            model, tokenizer, config.eval_batch_size, divided, config.stop_at_fence
        )
        yield replace(policy, enable_thinking=config.enable_thinking)


def engine_sampler(trainer: Any) -> Sampler:
    """A sampler that uses the engine of the trainer's rollouts with the current weights.

    Every process must call it: each samples a share of the prompts. An engine in the process draws
    from its random state, which is the seed's here and as before afterwards; a server has its own.
    """

    def sample(
        prompts: Sequence[list[int]], max_new_tokens: int, temperature: float, seed: int
    ) -> list[list[int]]:
        rank, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
        padded = [*prompts, *list(prompts)[: -len(prompts) % processes]]
        with undisturbed(trainer.model, seed * processes + rank):
            ids = trainer.respond(padded[rank::processes], max_new_tokens, temperature, 1.0)
        everywhere = gather_object(ids)
        share = len(padded) // processes
        return [everywhere[i % processes * share + i // processes] for i in range(len(prompts))]

    return sample


def vllm_engine_sampler(location: str, fence: Fence | None = None) -> Sampler:
    """A sampler with a vLLM engine of its own, for evaluating a model that is not being trained.

    Args:
        location: directory or hub id (:func:`mcbench.runs.problems.model_location`).
        fence: cuts the responses; None where they end by themselves.

    Raises:
        UserError: vLLM is not installed.
    """
    try:
        from vllm import LLM, SamplingParams
    except ImportError:
        raise UserError("vLLM is not installed; pip install -e '.[gpu]'") from None
    engine = LLM(model=location, gpu_memory_utilization=0.9)

    def sample(
        prompts: Sequence[list[int]],
        max_new_tokens: int,
        temperature: float,
        seed: int,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        asked = {"temperature": temperature, "top_p": 1.0, "max_tokens": max_new_tokens}
        outputs = engine.generate(
            [{"prompt_token_ids": ids} for ids in prompts],
            [SamplingParams(**asked, **TOKENS_ALONE, seed=seed + i) for i in range(len(prompts))],
        )
        found = [list(output.outputs[0].token_ids) for output in outputs]
        return found if fence is None else [fence.cut(row) for row in found]

    return sample
