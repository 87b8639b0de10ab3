"""Sampling and updates of Qwen3-1.7B- and 4B-shaped models with random weights on one GPU: peak
memory, against what is measured without a device, tokens/s and FLOP/s.

    python benchmarks/gpu.py --output benchmarks/gpu.json              # minutes on one 80 GB GPU
    python benchmarks/gpu.py --shape nano --length 64 --decoded 16 --device cpu   # the same code

Sampling is measured where it is: the cache is filled to half of the length and to its end, and some
tokens are decoded from there, with transformers' ``generate`` and with continuous batching. An
update is a forward-backward pass in bf16 autocast with float32 weights, gradient checkpointing and
TRL's fused head, then a step of AdamW.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from mcbench.scale.measure import Pass, architecture, random_model, size_of, update_bytes

MODELS = {
    "nano": "nano-s",
    "qwen3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen3-4b": "Qwen/Qwen3-4B-Instruct-2507",
}
BACKENDS = ("generate", "continuous")


def resident_memory() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Device:
    """Clock and peak of memory of a device."""

    def __init__(self, name: str) -> None:
        self.name, self.gpu = name, name.startswith("cuda")

    def now(self) -> float:
        """Seconds, once all that was started has ended."""
        if self.gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def forget(self) -> None:
        """Begin a new peak."""
        gc.collect()
        if self.gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        """Bytes; on a CPU what the process holds now."""
        return torch.cuda.max_memory_allocated() if self.gpu else resident_memory()

    def bandwidth(self) -> float:
        """Bytes/s of copying a large tensor, reads and writes counted."""
        source = torch.empty(2**28 if self.gpu else 2**24, dtype=torch.float32, device=self.name)
        target = torch.empty_like(source)
        target.copy_(source)
        started = self.now()
        for _ in range(10):
            target.copy_(source)
        return 20 * source.nbytes / (self.now() - started)

    def flops(self) -> float:
        """FLOP/s of a large bf16 matrix product."""
        size = 8192 if self.gpu else 512
        left = torch.randn(size, size, dtype=torch.bfloat16, device=self.name)
        left @ left
        started = self.now()
        for _ in range(10):
            left @ left
        return 20 * size**3 / (self.now() - started)


def sample(
    model: Any, backend: str, rows: int, context: int, new: int, device: Device
) -> dict[str, float]:
    """Tokens/s of decoding ``new`` tokens behind ``context`` others, and the peak.

    Two runs that decode different numbers of tokens, so that what both do once (prefill) cancels.
    """
    prompts = torch.randint(2, model.config.vocab_size, (rows, context)).tolist()
    generate = _generate if backend == "generate" else _continuous
    generate(model, prompts, 2)
    device.forget()
    took = {}
    for tokens in (new // 4, new):
        started = device.now()
        generate(model, prompts, tokens)
        took[tokens] = device.now() - started
    seconds = max(1e-9, took[new] - took[new // 4]) / (new - new // 4)
    return {"tokens_per_s": rows / seconds, "step_s": seconds, "peak_bytes": device.peak()}


def _generate(model: Any, prompts: list[list[int]], tokens: int) -> None:
    ids = torch.tensor(prompts, device=model.device)
    model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        generation_config=_sampling(tokens),
    )


def _continuous(model: Any, prompts: list[list[int]], tokens: int) -> None:
    from transformers.generation import ContinuousBatchingConfig

    block = 32
    blocks = len(prompts) * (-(-(len(prompts[0]) + tokens) // block) + 1)
    size = {"block_size": block, "num_blocks": blocks, "max_batch_tokens": 2048}
    outputs = model.generate_batch(
        prompts,
        generation_config=_sampling(tokens),
        continuous_batching_config=ContinuousBatchingConfig(**size),
        progress_bar=False,
    )
    if len(outputs) < len(prompts) or any(output.error for output in outputs.values()):
        raise RuntimeError("continuous batching did not finish every response")


def _sampling(tokens: int) -> Any:
    from transformers import GenerationConfig

    return GenerationConfig(
        max_new_tokens=tokens, do_sample=True, temperature=1.2, top_k=0, top_p=1.0,
        pad_token_id=0, disable_compile=True,
    )  # fmt: skip


def update(model: Any, rows: int, length: int, device: Device) -> dict[str, Any]:
    """Seconds, FLOP/s and peak of the second of two updates: the first makes the moments, and its
    FLOPs are counted.
    """
    from trl.trainer.utils import add_fused_lm_head

    if not hasattr(model, "scored"):  # once a model
        add_fused_lm_head(model, temperature=1.2, outputs=("log_probs", "entropy"))
        model.scored = True
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=device.gpu)
    ids = torch.randint(2, model.config.vocab_size, (rows, length), device=device.name)
    autocast = torch.autocast("cuda", torch.bfloat16) if device.gpu else nullcontext()
    device.forget()
    flops = 0
    for counting in (FlopCounterMode(display=False), nullcontext()):
        started = device.now()
        with counting, autocast:
            output = model(input_ids=ids, labels=ids, fused_lm_head=True)
        with counting:
            output.log_probs.mean().backward()
        if isinstance(counting, FlopCounterMode):
            flops += counting.get_total_flops()
        passed = device.now()
        optimizer.step()
        optimizer.zero_grad()
        ended = device.now()
    return {
        "pass_s": passed - started,
        "step_s": ended - passed,
        "flops_per_s": flops / (passed - started),
        "peak_bytes": device.peak(),
    }


def expected_update_bytes(name: str, rows: int, length: int, bf16: bool) -> float:
    """Weights, gradients, moments and what an update takes beside them, measured on no device."""
    work = Pass(name, None, rows, 1, length - 1, 1, checkpointing=True, bf16=bf16)
    return 16 * size_of(name).parameters + update_bytes(work)


def benchmark(options: argparse.Namespace) -> dict[str, Any]:
    """All that the options ask for."""
    device = Device(options.device)
    machine = {
        "device": torch.cuda.get_device_name() if device.gpu else "cpu",
        "bandwidth": device.bandwidth(),
        "flops": device.flops(),
        "torch": torch.__version__,
    }
    results: list[dict[str, Any]] = []
    for name in options.shape:
        dtype = torch.bfloat16 if device.gpu else torch.float32
        model = random_model(architecture(MODELS[name])).to(dtype).to(device.name).eval()
        for row in samples(model, options, device):
            results.append({"shape": name, **row})
            print(json.dumps(results[-1]), flush=True)
        model = model.float()
        for row in updates(model, MODELS[name], machine, options, device):
            results.append({"shape": name, **row})
            print(json.dumps(results[-1]), flush=True)
        del model
        device.forget()
    chosen = {key: getattr(options, key) for key in ("rows", "update_rows", "decoded")}
    return {**machine, **chosen, "results": results}


def samples(model: Any, options: argparse.Namespace, device: Device) -> Iterator[dict[str, Any]]:
    """Each length and backend, in the middle of a response and at its end."""
    for length, backend in itertools.product(options.length, options.backend):
        for place, context in (("half", length // 2), ("end", length - options.decoded)):
            with torch.no_grad():
                found = sample(model, backend, options.rows, context, options.decoded, device)
            yield {"what": backend, "length": length, "place": place, **found}


def updates(
    model: Any,
    name: str,
    machine: dict[str, Any],
    options: argparse.Namespace,
    device: Device,
) -> Iterator[dict[str, Any]]:
    """Each length."""
    for length in options.length:
        found = update(model, options.update_rows, length, device)
        expected = expected_update_bytes(name, options.update_rows, length, device.gpu)
        share = found["flops_per_s"] / machine["flops"]
        yield {
            "what": "update", "length": length, **found, "expected_bytes": expected, "mfu": share,
        }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", nargs="+", choices=MODELS, default=["qwen3-1.7b", "qwen3-4b"])
    parser.add_argument("--length", nargs="+", type=int, default=[4096, 8192])
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--rows", type=int, default=16, help="responses sampled at once")
    parser.add_argument("--decoded", type=int, default=256, help="tokens decoded at each place")
    parser.add_argument("--update-rows", type=int, default=1, help="responses in a pass")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--output", type=Path, help="write the results here as JSON")
    options = parser.parse_args(arguments)
    if min(options.length) < 2 * options.decoded:
        parser.error("--length must be at least twice --decoded")
    result = benchmark(options)
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
