"""Responses that end with their program: once its fence is closed, the end token follows.

What a chat model says after its code block is not judged and costs tokens. Where a response is
sampled token by token (:class:`EndAtFence`) the end token is all that may follow the fence; what an
engine has sampled is cut there (:meth:`Fence.cut`), with the same outcome. An engine's own stop
strings are not used: they cannot tell a closing fence from one that opens.

The policy has not chosen that end token, so the trainer leaves it out of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor

from mcbench.grpo.diversity import last_code_block


class Fence:
    """Finds where the first code block of a response ends, by a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.end: int = tokenizer.eos_token_id
        self._tokenizer = tokenizer
        tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        # The only tokens that can close a fence, so that no other is looked at.
        self._marks = {number for number, token in enumerate(tokens) if token and "`" in token}

    def closed(self, ids: Sequence[int]) -> bool:
        """Whether the last of these tokens closes the first code block."""
        if not len(ids) or ids[-1] not in self._marks:
            return False
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        return last_code_block(text) is not None

    def cut(self, ids: Sequence[int]) -> list[int]:
        """A response with the end token in the place of what follows its first code block."""
        for place in range(1, len(ids)):
            if self.closed(ids[:place]):
                return [*ids[:place], self.end]
        return list(ids)

    def cut_all(
        self, ids: Sequence[Sequence[int]], log_probs: Sequence[list[float]] | None
    ) -> tuple[list[list[int]], list[list[float]] | None]:
        """Responses, and the sampler's log-probabilities where there are some: NaN for an end token
        that it has not drawn, which TRL gives the ratio 1 and leaves out of what it reports.
        """
        cut = [self.cut(row) for row in ids]
        if log_probs is None:
            return cut, None
        pairs = zip(cut, log_probs, strict=True)
        return cut, [
            known if len(row) == len(known) else [*known[: len(row) - 1], float("nan")]
            for row, known in pairs
        ]

    def leave_out(self, ids: Sequence[Sequence[int]], mask: Tensor) -> None:
        """Sets the (B, T) ``mask`` to 0 at the end tokens that follow a closed fence."""
        for row, response in enumerate(ids):
            if response[-1] == self.end and self.closed(response[:-1]):
                mask[row, len(response) - 1] = 0


class EndAtFence(LogitsProcessor):
    """For one call of ``generate``: the end token is all that may follow a closed code block."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._width: int | None = None  # of the prompts

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """(B, T) tokens and (B, V) scores."""
        if self._width is None:
            self._width = input_ids.shape[1]
        responses = input_ids[:, self._width :].tolist()
        rows = [row for row, ids in enumerate(responses) if self._fence.closed(ids)]
        if rows:
            scores = scores.clone()
            scores[rows] = -torch.inf
            scores[rows, self._fence.end] = 0.0
        return scores
