"""What one generated batch looked like: the record handed to a run's log, and the metrics.

Everything here is about the global batch (all processes): B = P·G responses in dataset order, so
that response i belongs to group i // G.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcbench.grpo.diversity import distinct_n, grouped, self_bleu, unique_share
from mcbench.grpo.masking import READINGS


@dataclass(frozen=True)
class GenerationBatch:
    """One training batch as generated and scored; arrays have shape (B,)."""

    step: int  # global step at generation: updates made before it
    prompts: list[Any]
    completions: list[str]
    completion_ids: list[NDArray[np.int64]]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    repeating: NDArray[np.bool_]  # truncated and ending in a repetition
    eligible: dict[str, NDArray[np.bool_]]  # by reading, before the random draw
    masked: NDArray[np.bool_]
    rewards: NDArray[np.float64]  # NaN: not scored
    advantages: NDArray[np.float64]  # after the mask
    group: NDArray[np.int64]
    temperature: float
    max_completion_length: int
    columns: dict[str, list[Any]] = field(
        default_factory=dict
    )  # dataset columns and log_extra columns
    log_probs: list[NDArray[np.float32]] | None = None  # of each token, where they were computed


def completion_text(completion: Any) -> str:
    """The text of a completion, plain or conversational (the contents of its messages)."""
    if isinstance(completion, str):
        return completion
    return "\n".join(str(message.get("content") or "") for message in completion)


def mask_metrics(
    truncated: NDArray[np.bool_],
    incorrect: NDArray[np.bool_],
    repeating: NDArray[np.bool_],
    eligible: dict[str, NDArray[np.bool_]],
    masked: NDArray[np.bool_],
) -> dict[str, float]:
    """Shares of all B responses. ``repeating`` counts truncated responses that end in a
    repetition.
    """
    return {
        "mask/share": float(masked.mean()),
        "mask/truncated": float(truncated.mean()),
        "mask/truncated_incorrect": float((truncated & incorrect).mean()),
        "mask/repeating": float(repeating.mean()),
        **{f"mask/eligible_{reading}": float(eligible[reading].mean()) for reading in READINGS},
    }


def length_metrics(
    lengths: NDArray[np.int64],
    correct: NDArray[np.bool_],
    incorrect: NDArray[np.bool_],
    max_completion_length: int,
) -> dict[str, float]:
    """Tokens; a mean over no response is NaN, which TRL leaves out of its averages."""
    p10, p50, p90 = np.percentile(lengths, [10, 50, 90])
    return {
        "length/p10": float(p10),
        "length/p50": float(p50),
        "length/p90": float(p90),
        "length/correct_mean": float(lengths[correct].mean()) if correct.any() else float("nan"),
        "length/incorrect_mean": float(lengths[incorrect].mean())
        if incorrect.any()
        else float("nan"),
        "length/max_allowed": float(max_completion_length),
    }


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
    """Distinct-1..4, self-BLEU and the share of unique programs over the groups of the batch."""
    groups = grouped(sequences, group_size)
    return {
        **{f"diversity/distinct_{n}": value for n, value in distinct_n(groups).items()},
        "diversity/self_bleu": self_bleu(groups),
        "diversity/unique_programs": unique_share(grouped(program_keys, group_size)),
    }
