"""Bytes that a model takes, measured without having them: the real class at the real width, batch
and length on tensors without storage (``FakeTensorMode``), allocations and releases counted.

Layers are alike: two depths are measured, and the model's own follows in a straight line, each
phase by itself. The passes by length of an update follow from two of them in the same way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mcbench.errors import UserError
from mcbench.files import read_data
from mcbench.runs.problems import model_location
from mcbench.worlds.pretrained import PACKAGED, converted_folder

PUBLISHED: dict[str, dict[str, Any]] = read_data(
    Path(__file__).with_name("hub_models.json").read_text()
)
"""``config.json`` of the profiles' hub models, as published: a dry run needs no network."""
_DEPTHS = (1, 2)


def on_this_machine(model: str) -> bool:
    """Whether the files of a profile's hub model have been fetched, or a packaged one is converted;
    True of any other model.
    """
    if model in PACKAGED:
        return converted_folder(model).is_dir()
    from huggingface_hub import try_to_load_from_cache

    return model not in PUBLISHED or isinstance(try_to_load_from_cache(model, "config.json"), str)


def architecture(model: str) -> Any:
    """The transformers configuration of a nano model, a directory, or one of the profiles' hub
    models, without its weights.

    Raises:
        UserError: a hub model that is not known here, or no configuration of a language model.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    if model in PUBLISHED:
        return AutoConfig.for_model(**PUBLISHED[model])
    location = model_location(model)
    if not Path(location, "config.json").is_file():
        raise UserError(
            f"the size of model {model!r} is not known without its files; download it and name "
            f"its directory, or use one of {', '.join(PUBLISHED)}"
        )
    try:
        config = AutoConfig.from_pretrained(location)
    except ValueError as error:
        raise UserError(f"{location}: {str(error).splitlines()[0]}") from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or not hasattr(config, "num_hidden_layers"):
        raise UserError(f"{location} is no decoder with layers but a {config.model_type}")
    return config


def random_model(config: Any) -> Any:
    """Random weights in bf16 of an architecture, of which no response ends by itself."""
    from transformers import AutoModelForCausalLM

    config = with_depth(config, config.num_hidden_layers)
    config.bos_token_id, config.eos_token_id, config.pad_token_id = None, None, 0
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def with_depth(config: Any, layers: int) -> Any:
    """The same architecture with so many layers."""
    settings = {**config.to_dict(), "num_hidden_layers": layers, "layer_types": None}
    return type(config)(**settings)


@dataclass(frozen=True)
class Size:
    """Parameters: all, those that are trained, those of one layer."""

    parameters: int
    trained: int
    layer: int


@cache
def size_of(model: str, rank: int | None = None) -> Size:
    """Counted on the model, with adapters where they have a rank."""
    weights = dict(_built(architecture(model), rank)[1].named_parameters())
    whole = sum(one.numel() for one in weights.values())
    trained = sum(one.numel() for one in weights.values() if one.requires_grad)
    layer = sum(one.numel() for name, one in weights.items() if ".layers.0." in name)
    return Size(whole - trained if rank else whole, trained, layer)


@dataclass(frozen=True)
class Pass:
    """What a forward-backward pass is made of; ``groups`` passes by length make one of it.

    ``shared``: it is one sequence (``shared_prefix``), here of prompts that all differ.
    ``copied``: autocast keeps bf16 copies of the trained weights until the loss is known, which it
    does not where they are divided over processes.
    """

    model: str
    rank: int | None
    rows: int
    prompt: int
    length: int
    groups: int
    checkpointing: bool
    bf16: bool
    copied: bool = True
    shared: bool = False


@cache
def update_bytes(work: Pass) -> float:
    """The most that a forward-backward pass holds beside weights, gradients and moments."""
    return _at_depth(architecture(work.model), lambda shallow: _update(shallow, work))


@cache
def sampling_bytes(model: str, rows: int, tokens: int, bf16: bool) -> float:
    """The most that transformers holds beside the weights for the last of ``tokens`` of a batch:
    the cache, which grows by copying, and the logits of one position.
    """
    return _at_depth(architecture(model), lambda shallow: _step(shallow, rows, tokens, bf16))


def _at_depth(config: Any, measure: Callable[[Any], tuple[float, ...]]) -> float:
    """The largest of what is measured, each in a straight line through two depths."""
    low, high = _DEPTHS
    less, more = (measure(with_depth(config, depth)) for depth in _DEPTHS)
    reach = (config.num_hidden_layers - low) / (high - low)
    return max(a + reach * (b - a) for a, b in zip(less, more, strict=True))


def _update(config: Any, work: Pass) -> tuple[float, float]:
    """Peaks of the forward and of the backward half.

    As the trainer does: its head, autocast, all passes of one loss before its gradient.
    """
    from trl.trainer.utils import add_fused_lm_head

    groups = 1 if work.shared else min(work.groups, work.rows)
    rows = -(-work.rows // groups)
    with _counting() as held:
        bare, model = _placed(config, work.rank, held)
        add_fused_lm_head(bare, temperature=1.0, outputs=("log_probs", "entropy"))
        if work.checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
        kept = held.restart()
        layers = [w for name, w in model.named_parameters() if ".layers." in name]
        dropped = work.bf16 and not work.copied
        copies = dropped * 2 * sum(w.numel() for w in layers if w.requires_grad)
        scored, after = [], [0]
        with torch.autocast("cpu", torch.bfloat16, enabled=work.bf16):
            for _ in range(min(groups, 2)):
                scored.append(_log_probs(model, work, rows))
                after.append(held.now)
            forward = held.peak - copies
        held.restart()
        torch.cat(scored).mean().backward()
        others = (groups - len(scored)) * (after[-1] - after[-2]) if groups > 2 else 0
        return forward - kept + others, held.peak - kept + others


def _log_probs(model: Any, work: Pass, rows: int) -> Any:
    """Of the tokens of so many responses, by TRL's fused head or of one sequence."""
    from mcbench.grpo.truncation import kept_log_probs

    ids = torch.zeros(rows, work.prompt + work.length, dtype=torch.long)
    if not work.shared:
        labels = ids.masked_fill(torch.arange(ids.shape[1]) < work.prompt, -100)
        return model(input_ids=ids, labels=labels, fused_lm_head=True).log_probs
    mask = torch.ones(1, 1, ids.numel(), ids.numel(), dtype=torch.bool)
    targets = torch.zeros(rows * work.length, dtype=torch.long)
    found = model(input_ids=ids.view(1, -1), attention_mask=mask, logits_to_keep=len(targets))
    scores = found.logits[0].float() / 1.0  # the temperature's, a copy as in training
    return kept_log_probs(scores, targets, ())[0]


def _step(config: Any, rows: int, tokens: int, bf16: bool) -> tuple[float]:
    mixed = torch.autocast("cpu", torch.bfloat16, enabled=bf16)
    with _counting() as held, torch.no_grad(), mixed:
        model = _placed(config, None, held)[1].eval()
        weights = held.now
        ids = torch.zeros(rows, max(1, tokens - 1), dtype=torch.long)
        found = model(input_ids=ids, use_cache=True, logits_to_keep=1)
        found.logits = None
        held.restart()
        found = model(input_ids=ids[:, :1], past_key_values=found.past_key_values, use_cache=True)
        torch.multinomial((found.logits[:, -1].float() / 2).softmax(-1), 1)
        return (held.peak - weights,)


def _built(config: Any, rank: int | None) -> tuple[Any, Any]:
    """The model in float32 without any memory (``meta``), and it or it with adapters."""
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    from mcbench.runs.arguments import lora

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        adapters = lora(rank)
        whole = adapters and get_peft_model(model, adapters, low_cpu_mem_usage=True)
    return model, whole or model


def _placed(config: Any, rank: int | None, held: Allocated) -> tuple[Any, Any]:
    """The same on the device that is counted."""
    model, whole = _built(config, rank)
    with torch.no_grad():  # ``to_empty`` cannot do it: it swaps what it counts references of
        fake = {one: torch.empty_like(one, device="cpu") for one in whole.parameters()}
        fake |= {one: torch.empty_like(one, device="cpu") for one in whole.buffers()}
    for module in whole.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                setattr(module, name, torch.nn.Parameter(fake[weight], weight.requires_grad))
        module._buffers.update({name: fake[one] for name, one in module._buffers.items()})
    model.tie_weights()
    held.note(list(fake.values()))
    return model, whole


@contextmanager
def _counting() -> Iterator[Allocated]:
    with FakeTensorMode(), Allocated() as held:
        yield held


class Allocated(TorchDispatchMode):
    """Bytes of the storages that are alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def restart(self) -> int:
        """Begin a new peak at what is alive now, which is returned."""
        self.peak = self.now
        return self.now

    def note(self, result: Any) -> None:
        """Count the tensors among the leaves of a result."""
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                if key not in self._seen:
                    self._seen.add(key)
                    self.now += size
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._free, key, size).atexit = False

    def _free(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self.note(result)
        return result
