"""The correction for a sampler whose log-probabilities are not the policy's.

vLLM samples in 16 bits and with other kernels than the trainer's, so that a sampled token has one
log-probability there and a slightly different one here. TRL multiplies the loss by the importance
ratio exp(log π_policy − log π_sampler), of each token (``token_*``) or of the whole response
(``sequence_*``), and either clips it (``*_truncate``) or sets it to zero outside of the bounds
(``*_mask``). TRL's default, ``sequence_mask`` at 3, takes the *sum* of the differences of a
response: with a standard deviation of s a token the sum over n tokens has s·√n, and a long response
leaves the bounds by rounding alone. ``token_truncate`` at 2 does not depend on the length.

With ``sampler_noise`` it acts, and can be studied, without vLLM (:func:`correct_noisy_sampler`).

Shapes: B responses, T tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcbench.errors import UserError

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer

MODES = ("sequence_mask", "sequence_truncate", "token_mask", "token_truncate")
QUARTERS = (25, 50, 75, 100)


def importance_weights(
    policy: Tensor,
    sampler: Tensor,
    mask: Tensor,
    mode: str,
    clip_max: float | None,
    clip_min: float | None = None,
) -> Tensor:
    """The factors of the loss, (B, T) or (B, 1), as TRL computes them where vLLM samples.

    ``policy`` and ``sampler`` are (B, T) log-probabilities of the sampled tokens, ``mask`` their
    place in the response; a NaN of the sampler counts as no difference.
    """
    difference = torch.nan_to_num((policy - sampler) * mask, nan=0.0)
    if mode.startswith("sequence"):
        difference = difference.sum(dim=-1, keepdim=True)
    ratio = difference.exp()
    if mode.endswith("truncate"):
        return ratio.clamp(min=clip_min, max=clip_max)
    low = -torch.inf if clip_min is None else clip_min
    high = torch.inf if clip_max is None else clip_max
    return ratio.masked_fill((ratio < low) | (ratio > high), 0.0)


def response_weights(weights: Tensor, mask: Tensor) -> Tensor:
    """(B,) what is left of each response: the mean factor over its tokens; NaN of one without a
    token in the loss.

    ``weights`` is (B, T) or (B, 1), ``mask`` (B, T).
    """
    return ((weights * mask).sum(dim=1) / mask.sum(dim=1)).to(torch.float32)


def weight_by_length(
    weights: NDArray[Any], lengths: NDArray[np.int64], limit: int
) -> dict[str, float]:
    """Mean weight of all responses with one, and of those whose length is in each quarter of
    ``limit``.

    ``correction/weight_to_50`` is about lengths above 25 % and up to 50 % of the limit; NaN where
    there is no such response.
    """
    known = ~np.isnan(weights)
    weights, lengths = weights[known], lengths[known]
    found = {"correction/weight": float(weights.mean()) if len(weights) else np.nan}
    place = quarter_of(lengths, limit)
    for number, share in enumerate(QUARTERS, start=1):
        those = weights[place == number]
        found[f"correction/weight_to_{share}"] = float(those.mean()) if len(those) else np.nan
    return found


def quarter_of(lengths: NDArray[np.int64], limit: int) -> NDArray[np.float64]:
    """In which quarter of ``limit`` each length is, from 1 to 4."""
    return np.ceil(4 * np.minimum(lengths, limit) / limit).clip(1)


def noise(trainer: RepairedGRPOTrainer, lengths: list[int]) -> list[NDArray[np.float64]]:
    """The ``sampler_noise`` of a batch's responses of these lengths: normal, of this deviation.

    Its mean is scale²/2, as of the log-probabilities of what a sampler sampled itself: the mean of
    the ratio π_policy / π_sampler over its own samples is 1. Drawn from a generator that the batch
    names alone, as :func:`mcbench.grpo.masking.uniform_draws`.
    """
    scale = trainer.args.sampler_noise
    seed, step, count = trainer.draw_key  # the last two are -1 outside of a batch
    key = [seed, step + 1, count + 1, trainer.accelerator.process_index]
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
    return [scale * (scale / 2 + generator.standard_normal(length)) for length in lengths]


def loss_mask(output: dict[str, Any]) -> Tensor:
    """(B, T) the tokens in the loss: of the response, and not of a tool."""
    mask = output["completion_mask"]
    return mask * output["tool_mask"] if "tool_mask" in output else mask


def correct_noisy_sampler(trainer: RepairedGRPOTrainer, output: dict[str, Any]) -> None:
    """Gives ``output`` the factors that TRL gives it where vLLM samples; what sampled here has the
    policy's own log-probabilities, and noise.
    """
    args = trainer.args
    policy = output.get("old_per_token_logps")
    if policy is None:
        raise UserError(
            "sampler_noise needs the policy's log-probabilities, which are computed where "
            "several updates follow a generation (or with vLLM)"
        )
    added = noise(trainer, [policy.size(1)] * len(policy))
    sampler = policy + torch.as_tensor(np.stack(added), dtype=policy.dtype).to(policy.device)
    output["sampling_per_token_logps"] = sampler
    if args.vllm_importance_sampling_correction:
        output["importance_sampling_ratio"] = importance_weights(
            policy,
            sampler,
            loss_mask(output),
            args.vllm_importance_sampling_mode,
            args.vllm_importance_sampling_clip_max,
            args.vllm_importance_sampling_clip_min,
        )
