"""What has to hold around transformers' continuous batching when it samples for training.

TRL 1.16 hands the prompts to ``generate_batch`` and takes the ids. Four things it leaves open: with
bf16 it casts the whole model and keeps it so, master weights and rotary frequencies included; a
generation thread that died returns fewer responses; a failed request returns a part of one; and the
log-probabilities of the sampled tokens are dropped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def continuous_batching(model: Any) -> Iterator[list[list[float]]]:
    """Yields the list that receives the log-probabilities of the sampled tokens, one list a
    response; they are there after ``model.generate_batch``, called inside.

    Parameters and buffers are the same tensors afterwards as before. During the sampling the
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

    model.generate_batch = generate_batch
    try:
        yield sampled
    finally:
        del model.generate_batch
        for weight, data in weights:
            weight.data = data
        _restore(buffers)


def _restore(buffers: list[tuple[nn.Module, str, Tensor | None]]) -> None:
    for module, name, buffer in buffers:
        module._buffers[name] = buffer


def log_prob_mismatch(policy: Tensor, sampled: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and largest |log π_policy − log π_sampler| over the sampled tokens, both 0-dim.

    ``policy``, ``sampled`` and ``mask`` have shape (B, T). No token at all gives 0.
    """
    difference = (policy - sampled).abs()[mask.bool()]
    if not len(difference):
        return torch.zeros(()), torch.zeros(())
    return difference.mean(), difference.max()
