"""vLLM as TRL sees it, without vLLM: an engine in the process that samples from a copy of the
model.

What TRL does around it is TRL's own: it sends the weights, asks for log-probabilities, puts the
engine to sleep. As vLLM's, this engine seeds every generator of the process when it is made, draws
from the process's random state, and is one a process.
"""

import os
import random
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

ENGINES: list["FakeLLM"] = []
ENDS = (0, 1)  # padding and end of the nano tokenizer


class FakeLLM:
    """In place of ``vllm.LLM``."""

    def __init__(self, model: str, seed: int, **options: Any) -> None:
        assert not ENGINES, "one memory pool a process: vLLM 0.31 asserts so"
        ENGINES.append(self)
        for seed_all in (random.seed, np.random.seed, torch.manual_seed):
            seed_all(seed)
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        self.asleep = options["enable_sleep_mode"]
        self.options, self.asked = options, []
        self.loaded: set[str] = set()
        runner = SimpleNamespace(model=SimpleNamespace(load_weights=self._load))
        worker = SimpleNamespace(model_runner=runner)
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=worker))

    def _load(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        own = dict(self.model.named_parameters())
        for name, value in weights:
            own[name].data.copy_(value)
            self.loaded.add(name)

    def reset_prefix_cache(self) -> None:
        pass

    def sleep(self, level: int) -> None:
        self.asleep = True
        self.loaded.clear()

    def wake_up(self, tags: list[str]) -> None:
        self.asleep = False

    @torch.no_grad()
    def generate(self, prompts: list[dict], sampling_params: Any, use_tqdm: bool) -> list[Any]:
        assert self.loaded == set(dict(self.model.named_parameters())), "weights were not sent"
        assert not self.asleep
        print(f"the engine samples up to {sampling_params.max_tokens} tokens", flush=True)
        self.asked.append(sampling_params)
        return [self._response(row["prompt_token_ids"], sampling_params) for row in prompts]

    def _response(self, prompt: list[int], asked: Any) -> Any:
        ids: list[int] = []
        logprobs = []
        while len(ids) < asked.max_tokens and not (ids and ids[-1] in ENDS):
            logits = self.model(torch.tensor([prompt + ids])).logits[0, -1] / asked.temperature
            spread = torch.log_softmax(logits, -1)
            token = int(torch.multinomial(spread.exp(), 1))
            ids.append(token)
            logprobs.append({token: SimpleNamespace(logprob=float(spread[token]), rank=1)})
        output = SimpleNamespace(token_ids=ids, logprobs=logprobs)
        return SimpleNamespace(prompt_token_ids=prompt, outputs=[output])


def install() -> None:
    """Have TRL find this engine."""
    from trl.generation import vllm_generation

    os.environ.setdefault("MASTER_ADDR", "localhost")
    vllm = ModuleType("vllm")
    vllm.__spec__ = ModuleSpec("vllm", None)
    sys.modules.setdefault("vllm", vllm)
    vllm_generation.LLM = FakeLLM
    vllm_generation.SamplingParams = SimpleNamespace
    vllm_generation.is_vllm_available = lambda: True
    vllm_generation.empty_cache = lambda: None
