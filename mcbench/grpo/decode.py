"""A decoding loop for ``generate`` that samples only the responses that have not ended.

``model.generate(..., custom_generate=sample_unfinished)`` replaces the loop and nothing else: what
was asked of ``generate`` (temperature, top-p, stopping) stays its own. The responses have the same
distribution; the random numbers are others. Three differences from the loop of transformers 5.17:

- A response that has ended leaves the batch, with its keys and values.
- Keys and values are written into buffers with room; appending copies nothing.
- Equal prompts are read once, and one uniform number a token is drawn instead of one a word of the
  vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

DROPPED_AT_ONCE = 8
"""Rows leave the batch once an eighth of it has ended: to shrink it copies the rest."""


@dataclass
class Trace:
    """What the loop knows of each token that it sampled, a 1-D tensor a response in order of the
    prompts: its log-probability under the policy, softmax(logits / T), whatever a nucleus left of
    that, and the policy's entropy there (nats).
    """

    log_probs: list[Tensor] = field(default_factory=list)
    entropies: list[Tensor] = field(default_factory=list)


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer, (B, heads, length, head size), in buffers with room to grow."""

    keys: Tensor  # views of the buffers
    values: Tensor
    _buffers: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append (B, heads, new, head size); returns all keys and values as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before = self.get_seq_length()
        length = before + key_states.shape[-2]
        if self._buffers is None or length > self._buffers[0].shape[-2]:
            self._buffers = tuple(  # type: ignore[assignment]
                states.new_empty((*states.shape[:2], 2 * length, states.shape[-1]))
                for states in (key_states, value_states)
            )
            if before:
                self._write(0, self.keys, self.values)
        self._write(before, key_states, value_states)
        self._show(length)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Row i becomes what row ``indices[i]`` was; those in their place are not copied."""
        count, length = len(indices), self.get_seq_length()
        if self._buffers is None or count > len(self.keys):
            self.keys, self.values = self.keys[indices], self.values[indices]
            self._buffers = None
            return
        to = (indices != torch.arange(count, device=indices.device)).nonzero().squeeze(1)
        for buffer in self._buffers:
            buffer[to, :, :length] = buffer[indices[to], :, :length]
        self._buffers = self._buffers[0][:count], self._buffers[1][:count]
        self._show(length)

    def _write(self, start: int, *states: Tensor) -> None:
        assert self._buffers is not None
        for buffer, new in zip(self._buffers, states, strict=True):
            buffer[:, :, start : start + new.shape[-2]] = new

    def _show(self, length: int) -> None:
        assert self._buffers is not None
        self.keys, self.values = (buffer[:, :, :length] for buffer in self._buffers)


def sample_unfinished(
    model: Any,
    input_ids: Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    synced_gpus: bool = False,
    streamer: Any = None,
    trace: Trace | None = None,
    **model_kwargs: Any,
) -> Tensor:
    """The loop, with the arguments that ``generate`` prepares; decoder-only models.

    Args:
        input_ids: (N, W) prompts, padded on the left.
        trace: receives what is known of each sampled token.

    Returns:
        (N, W + T) prompts and responses; T is that of the longest, the others are padded.
    """
    cache = model_kwargs["past_key_values"]
    cache.layers = [GrowingLayer() if type(one) is DynamicLayer else one for one in cache.layers]
    width, limit = input_ids.shape[1], generation_config.max_length
    temperature = generation_config.temperature or 1.0
    pad = generation_config._pad_token_tensor
    pad = 0 if pad is None else int(pad)  # without one no response ends before the limit
    ids = nn.functional.pad(input_ids, (0, limit - width), value=pad)
    mask = nn.functional.pad(model_kwargs["attention_mask"], (0, limit - width), value=1)
    result, rows = ids.clone(), torch.arange(len(ids), device=ids.device)  # rows still sampled
    positions = mask[:, :width].sum(dim=1, keepdim=True)  # of the next token
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    known = input_ids.new_zeros((2, len(ids), limit - width), dtype=torch.float32)
    lengths = torch.zeros_like(rows)
    logits = _read_prompts(model, ids[:, :width], mask[:, :width], cache)
    for length in range(width + 1, limit + 1):
        scores = logits_processor(ids[:, : length - 1], logits.float())
        greedy = not generation_config.do_sample
        new = scores.argmax(dim=-1) if greedy else draw(scores.softmax(dim=-1))
        if trace is not None:
            log_probs = (logits.float() / temperature).log_softmax(dim=-1)
            known[0, rows, length - 1 - width] = log_probs.gather(1, new[:, None]).squeeze(1)
            known[1, rows, length - 1 - width] = -(log_probs.exp() * log_probs).sum(dim=-1)
            lengths[rows] += ~ended
        ids[:, length - 1] = new.masked_fill(ended, pad)
        ended = ended | stopping_criteria(ids[:, :length], None)
        left = len(ids) - int(ended.sum())
        if not left:
            break
        if (len(ids) - left) * DROPPED_AT_ONCE >= len(ids):
            result[rows] = ids
            kept = _filled(ended)
            cache.batch_select_indices(kept)
            ids, mask, rows, positions, ended = (
                one[kept] for one in (ids, mask, rows, positions, ended)
            )
        logits = model(
            input_ids=ids[:, length - 1 : length],
            attention_mask=mask[:, :length],
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        ).logits[:, -1]
        positions = positions + 1
    result[rows] = ids
    if trace is not None:
        each = lengths.tolist()
        trace.log_probs = [row[:n] for row, n in zip(known[0], each, strict=True)]
        trace.entropies = [row[:n] for row, n in zip(known[1], each, strict=True)]
    return result[:, :length]


def _read_prompts(model: Any, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
    """(N, V) logits of the first tokens; the cache then holds all N prompts."""
    (prompts, mask), which = torch.stack([ids, mask]).unique(dim=1, return_inverse=True)
    logits = model(
        input_ids=prompts,
        attention_mask=mask,
        position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits[:, -1]
    cache.batch_select_indices(which)
    return logits[which]


def _filled(ended: Tensor) -> Tensor:
    """Indices of the rows that go on, the last of them in the places of those that have ended."""
    live = (~ended).nonzero().squeeze(1)
    kept = torch.arange(len(live), device=ended.device)
    kept[ended[: len(live)]] = live[live >= len(live)]
    return kept


def draw(probs: Tensor) -> Tensor:
    """(B,) one index of each row of (B, V), with these probabilities."""
    cumulative = probs.double().cumsum(dim=-1)
    uniform = torch.rand(len(probs), 1, dtype=torch.double, device=probs.device)
    found = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    return found.squeeze(1).clamp(max=probs.shape[-1] - 1)
