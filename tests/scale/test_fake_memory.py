"""The memory formula against what torch would allocate: layers of the real width, no memory."""

import weakref
from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from mcbench.runs.resolve import resolve
from mcbench.scale.formulas import Formulas, Workload
from mcbench.scale.machine import nominal_gpu
from mcbench.scale.shapes import HUB_SHAPES

LAYERS, PROMPT = 3, 500


class Allocated(TorchDispatchMode):
    """Bytes of the storages that are alive, and their peak."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.seen = set()

    def note(self, result):
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                if key not in self.seen:
                    self.seen.add(key)
                    self.now += size
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self.free, key, size)

    def free(self, key, size):
        self.seen.discard(key)
        self.now -= size

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.note(result)
        return result


@pytest.mark.slow
@pytest.mark.parametrize("length", [4096, 8192])
@pytest.mark.parametrize("profile", ["qwen3-1.7b", "qwen3-4b"])
def test_the_peak_of_an_update_is_within_15_percent(profile, length):
    config = resolve(profile, settings={"max_completion_length": length})
    shape = replace(HUB_SHAPES[config.model], layers=LAYERS)
    load = Workload(PROMPT, length, 1, 1)
    memory = Formulas(config, shape, load, nominal_gpu("H200-141GB"), 1, "none").memory()
    kept = memory.weights + memory.optimizer + memory.gradients
    allocated = Allocated()
    with FakeTensorMode(), allocated:
        model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=shape.vocab, hidden_size=shape.hidden, num_hidden_layers=LAYERS,
                intermediate_size=shape.intermediate, num_attention_heads=shape.heads,
                num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim,
                tie_word_embeddings=shape.tied,
            )
        )  # fmt: skip
        allocated.note(list(model.parameters()))
        add_fused_lm_head(model, temperature=1.2, outputs=("log_probs", "entropy"))
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        groups = config.length_groups  # one response each
        ids = torch.randint(2, shape.vocab, (config.per_device_batch_size, PROMPT + length))
        labels = ids.masked_fill(torch.arange(PROMPT + length) < PROMPT, -100)
        for passes in (1, 2):  # the second update has moments, and gradients in its second pass
            for _ in range(passes):
                with torch.autocast("cpu", torch.bfloat16):
                    scored = [
                        model(input_ids=own, labels=wanted, fused_lm_head=True).log_probs
                        for own, wanted in zip(ids.chunk(groups), labels.chunk(groups), strict=True)
                    ]  # as ``in_length_groups``, which asks for values and has none here
                torch.cat(scored).mean().backward()
                del scored
            optimizer.step()
            optimizer.zero_grad()
    assert allocated.peak - kept == pytest.approx(memory.update, rel=0.15)
