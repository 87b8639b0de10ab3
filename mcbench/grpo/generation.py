"""What one generated batch looked like: the record handed to a run's log.

It is about the global batch (all processes): B = P·G responses in dataset order, so that response i
belongs to group i // G.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from mcbench.grpo.observed import sampler_log_probs
from mcbench.grpo.sampling import limit_after

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer


def _scored(output: Mapping[str, Any], said: Any) -> Any:
    """Log-probabilities of the sampled tokens, row by row: as they were scored, else as the sampler
    ``said`` them, for what a mask had removed before it was scored, too; NaN of what nobody knows.
    """
    found = output.get("old_per_token_logps")
    if found is None:
        return said
    unscored = ~(output["completion_mask"].any(dim=1) | found.any(dim=1))
    return [
        row if not gone else row * torch.nan if said is None else said[place]
        for place, (row, gone) in enumerate(zip(found, unscored.tolist(), strict=True))
    ]


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
    eligible: dict[str, NDArray[np.bool_]]  # by mask_when, before the random draw
    masked: NDArray[np.bool_]
    rewards: NDArray[np.float64]  # NaN: not scored
    advantages: NDArray[np.float64]  # after the mask
    group: NDArray[np.int64]
    temperature: float
    max_completion_length: int | None  # the limit that cuts; None: without one
    columns: dict[str, list[Any]] = field(
        default_factory=dict
    )  # dataset columns and log_extra columns
    log_probs: list[NDArray[np.float32]] | None = None  # of each token, where they were computed
    entropies: list[NDArray[np.float32]] | None = None  # nats a token, where sampling tells
    weights: NDArray[np.float64] | None = None  # left by the importance correction, where there is
    own: list[NDArray[np.bool_]] | None = None  # of each token, whether the policy sampled it

    @property
    def own_ids(self) -> list[NDArray[np.int64]]:
        """The tokens that the policy sampled, without what tools or an environment put between."""
        if self.own is None:
            return self.completion_ids
        return [ids[own] for ids, own in zip(self.completion_ids, self.own, strict=True)]


def generated(
    trainer: RepairedGRPOTrainer, output: dict[str, Any], **decided: Any
) -> GenerationBatch:
    """The batch that a trainer has just generated and scored; ``output`` is TRL's, and ``decided``
    are the fields that say what was made of it, as (B,) tensors. Every process must call.

    ``columns`` are the recorded dataset columns and what the reward functions logged.
    ``log_probs`` are of the policy that sampled the tokens (or its sampler), None where TRL needed
    neither.
    """
    ids = [np.asarray(row, dtype=np.int64) for row in trainer.sampled_ids]
    completion_ids = trainer.gather_objects(ids)
    count, trace = len(completion_ids), trainer.trace

    def of_tokens(found: Any) -> list[NDArray[Any]] | None:
        if found is None:
            return None
        values = [row.float().cpu().numpy() for row in found]
        rows = [row[: len(tokens)] for row, tokens in zip(values, ids, strict=True)]
        return trainer.gather_objects(rows)

    said: Any = sampler_log_probs(trainer, output)
    if said is None and trace is not None:
        said = trace.log_probs
    sampled = _scored(output, said)
    columns = {
        name: trainer.gather_objects([row.get(name) for row in trainer.batch_rows])
        for name in trainer.args.record_columns
    }
    logged = {name: trainer.gather_objects(values) for name, values in trainer.logged.items()}
    own = None
    lengths = np.array([len(row) for row in completion_ids])
    if trainer.sampled_mask is not None:
        mask = [np.asarray(row, dtype=bool) for row in trainer.sampled_mask]
        own = trainer.gather_objects(mask)
        lengths = np.array([row.sum() for row in own])
    return GenerationBatch(
        step=trainer.state.global_step,
        temperature=trainer.temperature,
        max_completion_length=limit_after(trainer, 0) or None,
        lengths=lengths,
        group=np.arange(count) // trainer.group_size,
        prompts=trainer.gather_objects(trainer.sampled_prompts),
        completions=trainer.gather_objects(
            [completion_text(c) for c in trainer.sampled_completions]
        ),
        completion_ids=completion_ids,
        own=own,
        columns={**columns, **logged},
        log_probs=of_tokens(sampled),
        entropies=of_tokens(None if trace is None else trace.entropies),
        **{name: _as_arrays(value) for name, value in decided.items()},
    )


def joined(batches: Sequence[GenerationBatch], count: int | None = None) -> GenerationBatch:
    """One batch of all responses of several, in order, or of the first ``count`` of them; groups
    are numbered on. A column that only some batches have is None in the others; what else only some
    know is left out.
    """

    def one(values: list[Any]) -> Any:
        if any(value is None for value in values):
            return None
        if isinstance(values[0], dict):
            names = sorted({name for value in values for name in value})
            none = [[None] * len(batch.group) for batch in batches]
            return {
                name: one([value.get(name, own) for value, own in zip(values, none, strict=True)])
                for name in names
            }
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)[:count]
        if isinstance(values[0], list):
            return [item for value in values for item in value][:count]
        return values[0]

    found = {f.name: one([getattr(batch, f.name) for batch in batches]) for f in fields(batches[0])}
    starts = itertools.accumulate((int(b.group.max()) + 1 for b in batches), initial=0)
    groups = [batch.group + start for batch, start in zip(batches, starts, strict=False)]
    return GenerationBatch(**{**found, "group": np.concatenate(groups)[:count]})


# Of a message: what it is, not what it says.
_NO_TEXT = ("role", "name", "tool_call_id", "tool_calls", "content")


def completion_text(completion: Any) -> str:
    """The text of a completion, plain or conversational: of each message first the texts beside its
    content (``reasoning_content``, ``thinking``, or whatever a template calls them), then content,
    of which blocks of text are text, and tool calls.
    """
    if isinstance(completion, str):
        return completion
    parts = [
        part
        for message in completion
        for part in (
            *(text for name, text in message.items() if name not in _NO_TEXT),
            *_blocks(message.get("content")),
            *(message.get("tool_calls") or ()),
        )
        if part
    ]
    return "\n".join(p if isinstance(p, str) else json.dumps(p, default=str) for p in parts)


def own_text(completion: Any) -> str:
    """The text of what the policy said of a completion, and no tool or environment."""
    if isinstance(completion, str):
        return completion
    said_to_it = ("tool", "user", "system")
    return completion_text([one for one in completion if one.get("role") not in said_to_it])


def _blocks(content: Any) -> list[Any]:
    """The parts of a message's content."""
    parts = content if isinstance(content, list) else [content]
    return [one["text"] if isinstance(one, dict) and "text" in one else one for one in parts]


def _as_arrays(value: Any) -> Any:
    """Tensors, also by name, as the record holds them: reals as float64."""
    if isinstance(value, dict):
        return {name: _as_arrays(one) for name, one in value.items()}
    if value is None:
        return None
    rows = value.cpu()  # first: not every device has float64
    return (rows.double() if rows.is_floating_point() else rows).numpy()
