"""A decoding loop for ``generate`` that samples only the responses that have not ended.

``model.generate(..., custom_generate=sample_unfinished)`` replaces the loop and nothing else: what
was asked of ``generate`` (temperature, top-p, stopping) stays its own. The responses have the same
distribution; the random numbers are others. Three differences from the loop of transformers 5.17:

- A response that has ended leaves the batch, with its keys and values.
- Keys and values are appended to a small buffer, and every sixteen tokens to the others, which lie
  without gaps; attention reads both (:func:`attend`).
- Equal prompts are read once, and one uniform number a token is drawn instead of one a word of the
  vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

RECENT = 16
"""Tokens between two copies of all keys and values: 8 take 7 % longer, 32 as long."""
ATTENTION = "sdpa_in_two_parts"  # the name of :func:`attend` in transformers
DROPPED_AT_ONCE = 8
"""Rows leave the batch once an eighth of it has ended: to shrink it copies the rest."""


@dataclass
class Trace:
    """What the loop knows of each token that it sampled, a 1-D tensor a response in order of the
    prompts: its log-probability and the entropy (nats) of what it was sampled from, softmax(logits
    / T) or what a nucleus left of it.
    """

    log_probs: list[Tensor] = field(default_factory=list)
    entropies: list[Tensor] = field(default_factory=list)
    ids: list[list[int]] | None = None  # the tokens, where they are kept

    def is_of(self, ids: list[list[int]]) -> bool:
        """Whether these are its responses, and not those of several turns, or what somebody made
        of its own.
        """
        lengths = [len(row) for row in self.log_probs]
        return self.ids in (None, ids) and lengths == [len(row) for row in ids]


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer in two parts: settled ones without a gap between rows, which a
    processor reads three times as fast as with gaps, and recent ones in buffers with room for more.
    """

    keys: Tensor  # (B, heads, length, head size), settled
    values: Tensor
    _recent: list[Tensor] | None = None  # (B, heads, RECENT, head size), keys and values
    _count: int = 0  # of the recent ones

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
        """Append (B, heads, new, head size); returns keys and values, as pairs (settled, recent)
        where one token a row was appended.
        """
        if key_states.shape[-2] > 1 or not self.is_initialized:
            self._settle()
            return super().update(key_states, value_states, *args, **kwargs)
        if self._recent is None or self._count == RECENT:
            self._settle()
            self._recent = [
                states.new_empty((*states.shape[:2], RECENT, states.shape[-1]))
                for states in (key_states, value_states)
            ]
        for buffer, states in zip(self._recent, (key_states, value_states), strict=True):
            buffer[:, :, self._count] = states.squeeze(2)
        self._count += 1
        keys, values = (buffer[:, :, : self._count] for buffer in self._recent)
        return (self.keys, keys), (self.values, values)

    def get_seq_length(self) -> int:
        return super().get_seq_length() + self._count

    def batch_select_indices(self, indices: Tensor) -> None:
        """Row i becomes what row ``indices[i]`` was; those in their place are not copied."""
        count = len(indices)
        if count > len(self.keys):
            self._settle()
            super().batch_select_indices(indices)
            return
        to = (indices != torch.arange(count, device=indices.device)).nonzero().squeeze(1)
        for states in (self.keys, self.values, *(self._recent or ())):
            states[to] = states[indices[to]]
        self.keys, self.values = self.keys[:count], self.values[:count]
        self._recent = self._recent and [buffer[:count] for buffer in self._recent]

    def _settle(self) -> None:
        """Move the recent keys and values to the settled ones."""
        if self._recent is not None:
            keys, values = (buffer[:, :, : self._count] for buffer in self._recent)
            self.keys = torch.cat([self.keys, keys], dim=2)
            self.values = torch.cat([self.values, values], dim=2)
        self._recent, self._count = None, 0


def attend(
    module: Any, query: Tensor, key: Any, value: Any, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """Attention of one query a row (B, heads, 1, head size) to pairs of keys and values; all else
    is left to ``sdpa``. Returns (B, 1, heads, head size).
    """
    if not isinstance(key, tuple):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    groups = query.unflatten(1, (key[0].shape[1], -1)).squeeze(3)  # (B, key heads, queries, size)
    scale = kwargs.get("scaling") or query.shape[-1] ** -0.5
    scores = torch.cat([groups @ keys.mT for keys in key], dim=-1).float() * scale
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    probs = scores.softmax(dim=-1).to(query.dtype).split([keys.shape[2] for keys in key], dim=-1)
    found = probs[0] @ value[0] + probs[1] @ value[1]
    return found.flatten(1, 2).unsqueeze(1), None


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


@contextmanager
def _attention_in_two_parts(model: Any, cache: Any) -> Iterator[None]:
    """``sdpa`` becomes :func:`attend` for the block; any other attention keeps its own cache."""
    before = model.config._attn_implementation
    if before == "sdpa":
        model.set_attn_implementation(ATTENTION)
    try:
        if model.config._attn_implementation == ATTENTION:
            cache.layers = [
                GrowingLayer() if type(one) is DynamicLayer else one for one in cache.layers
            ]
        yield
    finally:
        model.set_attn_implementation(before)


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
    width, limit = input_ids.shape[1], generation_config.max_length
    pad = generation_config._pad_token_tensor
    pad = 0 if pad is None else int(pad)  # without one no response ends before the limit
    ids = nn.functional.pad(input_ids, (0, limit - width), value=pad)
    mask = nn.functional.pad(model_kwargs["attention_mask"], (0, limit - width), value=1)
    result, rows = ids.clone(), torch.arange(len(ids), device=ids.device)  # rows still sampled
    positions = mask[:, :width].sum(dim=1, keepdim=True)  # of the next token
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    known = input_ids.new_zeros((2, len(ids), limit - width), dtype=torch.float32)
    lengths = torch.zeros_like(rows)
    with _attention_in_two_parts(model, cache):
        logits = _read_prompts(model, ids[:, :width], mask[:, :width], cache)
        for length in range(width + 1, limit + 1):
            scores = logits_processor(ids[:, : length - 1], logits.float())
            greedy = not generation_config.do_sample
            new = scores.argmax(dim=-1) if greedy else draw(scores.softmax(dim=-1))
            if trace is not None:
                log_probs = scores.log_softmax(dim=-1).clamp(min=torch.finfo(torch.float32).min)
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
