"""Log-probabilities in passes of rows of like length, which need less padding.

Responses differ in length; in one pass all are as wide as the longest. Sorted by length and scored
in several passes, each is only as wide as its own longest row. What comes back is in the order and
the width that went in, and gradients flow through all passes: loss and gradients are those of one
padded pass, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Score = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor | None]]
"""``score(ids, mask, kept)`` -> log-probabilities and entropies (or None), each (rows, kept)."""


def in_length_groups(
    score: Score, ids: Tensor, mask: Tensor, kept: int, groups: int
) -> tuple[Tensor, Tensor | None]:
    """(B, kept) log-probabilities and entropies of the last ``kept`` tokens.

    Args:
        ids, mask: (B, W) prompts padded on the left, then responses padded on the right.
        groups: passes.
    """
    order = mask.sum(dim=1).argsort(stable=True)
    start = ids.shape[1] - kept  # of the responses
    scored = []
    for rows in order.chunk(min(groups, len(order))):
        used = mask[rows].any(dim=0).nonzero().squeeze(1)
        first, end = int(used[0]), max(int(used[-1]) + 1, start + 1)
        found = score(ids[rows, first:end], mask[rows, first:end], end - start)
        missing = (0, kept - (end - start))
        scored.append([None if one is None else nn.functional.pad(one, missing) for one in found])
    back = order.argsort()
    log_probs, entropies = zip(*scored, strict=True)
    together = None if entropies[0] is None else torch.cat(entropies)[back]
    return torch.cat(log_probs)[back], together
