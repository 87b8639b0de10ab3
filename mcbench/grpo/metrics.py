"""What is logged about each generated batch, under the names ``mask/``, ``length/``, ``gradient/``,
``group/``, ``diversity/``, ``correction/``, ``time/`` and ``temperature``; TRL logs the rest.

``gather`` collects a tensor from all processes, each of which must call it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo.correction import QUARTERS, quarter_of, weight_by_length
from mcbench.grpo.decode import Trace
from mcbench.grpo.diversity import distinct_4_first, distinct_n, grouped, self_bleu, unique_share
from mcbench.grpo.generation import GenerationBatch
from mcbench.grpo.masking import Correctness
from mcbench.grpo.options import MASK_WHEN

Gather = Callable[[Tensor], Tensor]


def batch_metrics(
    batch: GenerationBatch,
    read: Correctness,
    program_keys: Sequence[int] | None,
    per_response: bool = False,
) -> dict[str, float]:
    """All that follows from the batch itself; ``read`` and ``program_keys`` have length B, None
    leaves diversity out. ``per_response``: whether the loss is averaged so, and not over tokens.
    """
    correct, incorrect = read.correct.cpu().numpy(), read.incorrect.cpu().numpy()
    group_size = len(batch.group) // (int(batch.group.max()) + 1)
    found = {
        **mask_metrics(batch, incorrect),
        **length_metrics(batch.lengths, correct, incorrect),
        **group_metrics(batch.rewards, correct, group_size),
        **gradient_metrics(batch, per_response),
        "temperature": batch.temperature,
    }
    limit = batch.max_completion_length
    if limit is not None:
        found["length/max_allowed"] = float(limit)
    if program_keys is not None:
        found |= diversity_metrics(batch.own_ids, program_keys, group_size)
    if batch.weights is not None and limit is not None:
        found |= weight_by_length(batch.weights, batch.lengths, limit)
    return found


def computed(found: Any, prefix: str) -> dict[str, float]:
    """What ``compute_metrics`` returned, by its names with the prefix of an evaluation.

    Raises:
        UserError: something else than numbers by name.
    """
    try:
        return {prefix + name.removeprefix(prefix): float(one) for name, one in found.items()}
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"compute_metrics returns numbers by name, such as {{'right': 0.5}}, and not {found!r}"
        ) from error


def known_means(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The means that TRL logs of values by name, without those of nothing."""
    known = {name: [one for one in of if one == one] for name, of in values.items()}
    return {name: sum(of) / len(of) for name, of in known.items() if of}


def mask_metrics(batch: GenerationBatch, incorrect: NDArray[np.bool_]) -> dict[str, float]:
    """Shares of all B responses."""
    return {
        "mask/share": float(batch.masked.mean()),
        "mask/truncated": float(batch.truncated.mean()),
        "mask/truncated_incorrect": float((batch.truncated & incorrect).mean()),
        "mask/repeating": float(batch.repeating.mean()),
        **{f"mask/eligible_{when}": float(batch.eligible[when].mean()) for when in MASK_WHEN},
    }


def length_metrics(
    lengths: NDArray[np.int64], correct: NDArray[np.bool_], incorrect: NDArray[np.bool_]
) -> dict[str, float]:
    """Tokens; a mean over no response is NaN, which TRL leaves out of its averages."""
    p10, p50, p90 = np.percentile(lengths, [10, 50, 90])
    return {
        "length/p10": float(p10),
        "length/p50": float(p50),
        "length/p90": float(p90),
        "length/correct_mean": _mean(lengths[correct]),
        "length/incorrect_mean": _mean(lengths[incorrect]),
    }


def _mean(values: NDArray[np.int64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def gradient_metrics(batch: GenerationBatch, per_response: bool) -> dict[str, float]:
    """Whose gradient an update is, before ratios move: shares of the sum of |A_i| over all tokens
    in the loss, each token of response i weighted by 1, or by 1/|o_i| where the loss is averaged
    per response. ``gradient/cut`` is that of the cut responses, ``gradient/to_50`` of those whose
    length is above 25 % and up to 50 % of the limit, where there is one. Nothing where no response
    has an advantage.
    """
    weight = np.abs(batch.advantages).astype(float)
    if not per_response:
        weight = weight * batch.lengths
    if not weight.sum():
        return {}
    weight /= weight.sum()
    shares = {"gradient/cut": weight[batch.truncated].sum()}
    if batch.max_completion_length is not None:
        place = quarter_of(batch.lengths, batch.max_completion_length)
        shares |= {f"gradient/to_{q}": weight[place == n].sum() for n, q in enumerate(QUARTERS, 1)}
    return {name: float(one) for name, one in shares.items()}


def group_metrics(
    rewards: NDArray[np.float64], correct: NDArray[np.bool_], group_size: int
) -> dict[str, float]:
    """Shares of groups whose scored responses all fail, are mixed, or all pass."""
    scored = ~np.isnan(rewards).reshape(-1, group_size)
    passed = correct.reshape(-1, group_size) & scored
    some = scored.any(axis=1)
    all_pass = some & (passed == scored).all(axis=1)
    all_fail = some & ~passed.any(axis=1)
    return {
        "group/all_fail": float(all_fail.mean()),
        "group/mixed": float((some & ~all_pass & ~all_fail).mean()),
        "group/all_pass": float(all_pass.mean()),
    }


def diversity_metrics(
    sequences: Sequence[NDArray[np.int64]], program_keys: Sequence[int], group_size: int
) -> dict[str, float]:
    """Distinct-1..4, that of the first tokens, self-BLEU and the share of unique programs over the
    groups of the batch.
    """
    groups = grouped(sequences, group_size)
    return {
        **{f"diversity/distinct_{n}": value for n, value in distinct_n(groups).items()},
        "diversity/distinct_4_first": distinct_4_first(groups),
        "diversity/self_bleu": self_bleu(groups),
        "diversity/unique_programs": unique_share(grouped(program_keys, group_size)),
    }


def time_metrics(seconds: Mapping[str, float], gather: Gather) -> dict[str, float]:
    """Seconds for generation and for rewards, of the slowest process."""
    slowest = gather(torch.tensor([list(seconds.values())], dtype=torch.float32)).amax(dim=0)
    return {f"time/{name}": value for name, value in zip(seconds, slowest.tolist(), strict=True)}


def sampled_entropies(trace: Trace, own: Sequence[Sequence[int]] | None) -> Tensor:
    """(tokens,) entropies (nats) of the policy where it sampled the batch's tokens, those of masked
    responses included; TRL's ``entropy`` leaves out what it removes from the loss. ``own`` is 0 for
    the tokens of tools.
    """
    tokens = torch.cat(trace.entropies)
    if own is None:
        return tokens
    return tokens[torch.tensor([one for row in own for one in row], dtype=torch.bool)]


def sampler_metrics(
    output: Mapping[str, Any], sampled: Tensor | None, gather: Gather
) -> dict[str, float]:
    """|log π_policy − log π_sampler| over the sampled tokens of TRL's ``output``, under TRL's
    names, which it records for vLLM only. ``sampled`` is (B, T), None where it is not known. Empty
    where either side is missing: the policy's log-probabilities are there where several updates
    follow a generation.
    """
    policy = output.get("old_per_token_logps")
    if sampled is None or policy is None:
        return {}
    mean, largest = log_prob_mismatch(policy, sampled, output["completion_mask"])
    name = "sampling/sampling_logp_difference"
    return {
        f"{name}/mean": gather(mean).mean().item(),
        f"{name}/max": gather(largest).max().item(),
    }


def log_prob_mismatch(policy: Tensor, sampled: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and largest |log π_policy − log π_sampler| over the sampled tokens, both 0-dim.

    ``policy``, ``sampled`` and ``mask`` have shape (B, T); NaN is of a token that the sampler has
    not drawn. No token at all gives 0.
    """
    difference = (policy - sampled).abs()[mask.bool() & ~sampled.isnan()]
    if not len(difference):
        return torch.zeros(()), torch.zeros(())
    return difference.mean(), difference.max()
