"""Train a nano base model from scratch on demonstrations: ``mcbench nano build NAME``."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import Qwen3Config, Qwen3ForCausalLM

from mcbench.worlds import nano
from mcbench.worlds.corpus import LOOPING, MODERN, OLD, Style, demonstrations
from mcbench.worlds.tokenizer import load_tokenizer

IGNORE = -100
MAX_RESPONSE = 192
"""In tokens. Responses are trained to twice the default limit of 96."""


@dataclass(frozen=True)
class Build:
    """How a base model is made. Sizes are Qwen3's; ``head_dim`` is 32 throughout.

    A model for another task than to write programs has a ``corpus`` of its own (seed -> endless
    prompts and responses), with further ``phrases`` as tokens; it may ``start`` from the weights of
    another nano model.
    """

    hidden: int = 128
    layers: int = 3
    intermediate: int = 352
    style: Style | None = None
    steps: int = 2000
    corpus: Callable[[int], Iterator[tuple[str, str]]] | None = None
    phrases: tuple[str, ...] = ()
    start: str = ""
    batch_tokens: int = 4096
    lr: float = 6e-3
    warmup: int = 50
    weight_decay: float = 0.1


STYLES = {"modern": MODERN, "looping": LOOPING, "old": OLD}
SHORT = {"batch_tokens": 2048, "lr": 4e-3}
"""Of models that start from another."""


def _build(row: Mapping[str, Any]) -> Build:
    """A row of ``builds.toml``, with what it names."""
    about = {**(SHORT if "start" in row else {}), **row}
    if "style" in about:
        return Build(**{**about, "style": STYLES[about["style"]]})
    task = import_module(f"mcbench.worlds.{about.pop('task')}")
    corpus = getattr(task, about.pop("corpus", "demonstrations"))
    return Build(**about, corpus=corpus, phrases=getattr(task, "PHRASES", ()))


BUILDS = {name: _build(row) for name, row in nano.BUILDS.items()}


def new_model(build: Build) -> Qwen3ForCausalLM:
    """A model of the Qwen3 architecture, float32, random where it starts from no other."""
    tokenizer = load_tokenizer(build.phrases)
    heads = build.hidden // 32
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=build.hidden,
        num_hidden_layers=build.layers,
        intermediate_size=build.intermediate,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    if build.start:
        known = Qwen3ForCausalLM.from_pretrained(nano.model_path(build.start), dtype=torch.float32)
        weights = known.state_dict()
        rows = len(load_tokenizer())  # what comes after is padding there, and phrases here
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            weights[name] = torch.cat([weights[name][:rows], model.state_dict()[name][rows:]])
        model.load_state_dict(weights)
    return model


def batches(build: Build, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless (input ids, labels), each (N, T) with N * T close to the build's ``batch_tokens``.

    Sequences of like length share a batch, padded on the right; labels cover the response only.
    """
    tokenizer, batch_tokens = load_tokenizer(build.phrases), build.batch_tokens
    stream = build.corpus(seed) if build.corpus else demonstrations(seed, build.style or MODERN)
    generator = torch.Generator().manual_seed(seed)
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    while True:
        prompts, responses = zip(*islice(stream, 2048), strict=True)
        pairs = [
            (p, [*r, eos] if len(r) < MAX_RESPONSE else r[:MAX_RESPONSE])
            for p, r in zip(
                tokenizer(list(prompts)).input_ids,
                tokenizer(list(responses), verbose=False).input_ids,
                strict=True,
            )
        ]
        pairs.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        groups: list[list[tuple[list[int], list[int]]]] = [[]]
        for pair in pairs:
            length = len(pair[0]) + len(pair[1])
            if (len(groups[-1]) + 1) * length > batch_tokens:
                groups.append([])
            groups[-1].append(pair)
        for index in torch.randperm(len(groups), generator=generator).tolist():
            ids = [torch.tensor(p + r) for p, r in groups[index]]
            labels = [torch.tensor([IGNORE] * len(p) + r) for p, r in groups[index]]
            yield pad_sequence(ids, True, pad), pad_sequence(labels, True, IGNORE)


def build(
    name: str,
    out: Path,
    seed: int = 0,
    steps: int | None = None,
    progress: Callable[[str], None] = print,
) -> Path:
    """Train the base model ``name`` and save it under ``out``; the same seed gives the same model.

    Raises:
        UserError: an unknown model name.
    """
    nano.check_name(name)
    spec = BUILDS[name]
    total = spec.steps if steps is None else steps
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # sums in one order, however many cores there are
    model = new_model(spec)
    optimizers = make_optimizers(model, spec)
    started = time.monotonic()
    progress(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters, {total} steps")
    for step, (ids, labels) in enumerate(islice(batches(spec, seed), total), 1):
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, total, spec)
            optimizer.step()
        if step % 100 == 0 or step == total:
            seconds = time.monotonic() - started
            left = seconds / step * (total - step)
            progress(f"{name}: step {step}/{total} loss {loss.item():.3f} {left / 60:.0f} min left")
    made = {key: value for key, value in asdict(spec).items() if key != "corpus"}
    tokenizer = load_tokenizer(spec.phrases)
    return save(model, tokenizer, out, {"name": name, "seed": seed, **made, "steps": total})


def make_optimizers(model: Qwen3ForCausalLM, spec: Build) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embedding and norms.

    With AdamW alone the loss of 500 steps takes about twice as many (docs/lab-log.md).
    """
    inside = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    rest = [p for n, p in model.named_parameters() if p.dim() != 2 or "embed" in n]
    muon = torch.optim.Muon(
        inside, lr=spec.lr, weight_decay=spec.weight_decay, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, torch.optim.AdamW(rest, lr=spec.lr, betas=(0.9, 0.95), weight_decay=0.0)]


def learning_rate(step: int, total: int, spec: Build) -> float:
    """Linear warm-up, then cosine to a tenth."""
    warm = min(1.0, step / min(spec.warmup, max(1, total // 10)))
    return spec.lr * warm * (0.1 + 0.45 * (1 + math.cos(math.pi * step / total)))


def save(model: Qwen3ForCausalLM, tokenizer: Any, out: Path, made: dict[str, object]) -> Path:
    """Write weights (half precision, to stay small), tokenizer and how the model was made."""
    out.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)
    (out / "build.json").write_text(json.dumps(made, indent=1) + "\n")
    return out
