"""Measuring diversity on a temperature grid: D(T), the input of T(D) selection."""

from collections.abc import Sequence
from typing import Any

import torch

from mcbench.errors import UserError
from mcbench.grpo.diversity import distinct_n


@torch.no_grad()
def sample_ids(
    model: Any, tokenizer: Any, prompts: Sequence[str], temperature: float, max_new_tokens: int
) -> list[list[int]]:
    """One response per prompt text with plain ``generate``: token ids up to and including EOS."""
    inputs = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left")
    inputs = {key: inputs[key].to(model.device) for key in ("input_ids", "attention_mask")}
    ends = _end_tokens(model, tokenizer)
    output = model.generate(
        **inputs,
        do_sample=True,
        temperature=float(temperature),
        top_k=0,
        top_p=1.0,
        max_new_tokens=max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=sorted(ends),
    )
    responses = output[:, inputs["input_ids"].shape[1] :].tolist()
    return [cut_at_end(ids, ends) for ids in responses]


def cut_at_end(ids: list[int], ends: set[int]) -> list[int]:
    """``ids`` up to and including the first of ``ends``."""
    for position, token in enumerate(ids):
        if token in ends:
            return ids[: position + 1]
    return ids


def measure_diversity(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    grid: Sequence[float],
    num_generations: int = 8,
    max_new_tokens: int = 256,
    seed: int = 0,
    order: int = 4,
) -> dict[float, float]:
    """D(T) for each T of ``grid``: Distinct-``order`` of G responses to each prompt, mean over
    prompts.

    Plain ``generate``; the global random state is left as it was, and the model in its train or
    eval mode.
    """
    check_grid(grid)
    training = model.training
    model.eval()
    repeated = [prompt for prompt in prompts for _ in range(num_generations)]
    measured = {}
    try:
        with torch.random.fork_rng([model.device] if model.device.type == "cuda" else []):
            torch.manual_seed(seed)
            for temperature in grid:
                ids = sample_ids(model, tokenizer, repeated, temperature, max_new_tokens)
                measured[float(temperature)] = distinct_n(grouped(ids, num_generations), (order,))[
                    order
                ]
    finally:
        model.train(training)
    return measured


def check_grid(grid: Sequence[float]) -> None:
    """Refuses a grid that is empty or holds a temperature that is not greater than 0."""
    if not grid or any(not t > 0 for t in grid):
        raise UserError(f"a temperature grid needs values greater than 0, got {list(grid)}")


def grouped(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Consecutive groups of ``size``."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    eos = model.generation_config.eos_token_id
    eos = tokenizer.eos_token_id if eos is None else eos
    return set(eos) if isinstance(eos, list) else {eos}
