"""The conditional truncation mask of Eq. 2, as pure functions on tensors.

    A_i = (r_i - mean r) / std r · (1 - 1[|o_i| = L_max ∧ incorrect(o_i) ∧ ¬repeat(o_i, m) ∧ U(0,1)
    < ρ])

The statistics of the group still contain the masked responses, and a masked response keeps its
tokens in every denominator of the loss: only its own advantage becomes zero. At beta 0, as in
Eq. 1, that is all of its gradient; in a KL term, an entropy bonus or an entropy quantile it still
takes part (``masked_lose="loss"`` takes it out of them too). Removing truncated responses from the
loss whatever they are is another method (DeepCoder's overlong filter, TRL's
``mask_truncated_completions``).

Shapes: B = P·G responses, T tokens.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Correctness:
    """Two boolean (B,) tensors. A response may be neither: partial reward, or unscored (NaN
    reward).
    """

    correct: Tensor
    incorrect: Tensor

    def candidates(self, mask_when: str) -> Tensor:
        """The (B,) responses that one reading of the paper makes candidates for the mask.

        - ``incorrect`` (§2.2, Eq. 2; the default): a scored failure.
        - ``correct`` (§2.3): a scored success.
        - ``non_incorrect`` (the authors' later equation): everything that is not a scored failure,
          so successes, partial rewards and responses without a reward (the evaluator itself
          failed). With a 0/1 reward it differs from ``correct`` only in the unscored responses.
        - ``any`` (ours): every response. With ``repeat_rule="none"`` and rho 1 the same responses
          lose their advantage as under ``truncation_mask="all"``, but keep their tokens in the
          normaliser of the loss.

        Raises:
            ValueError: none of these.
        """
        readings = {
            "incorrect": self.incorrect,
            "correct": self.correct,
            "non_incorrect": ~self.incorrect,
            "any": torch.ones_like(self.incorrect),
        }
        if mask_when not in readings:
            raise ValueError(f"mask_when {mask_when!r}; allowed: {', '.join(readings)}")
        return readings[mask_when]


def correctness(rewards: Tensor, correct_at: float = 1.0, incorrect_at: float = 0.0) -> Correctness:
    """Reads (B,) rewards: correct at or above ``correct_at``, incorrect at or below
    ``incorrect_at``.

    A NaN reward compares false with both, so an unscored response is neither.
    """
    return Correctness(correct=rewards >= correct_at, incorrect=rewards <= incorrect_at)


def is_truncated(
    ids: Sequence[Sequence[int]], end_tokens: Collection[int], limits: Sequence[int]
) -> Tensor:
    """|o_i| = L_max: (B,) bool, responses as long as allowed that do not close with an end token.

    ``ids`` holds the tokens of each response without padding, ``limits`` (B,) the tokens that each
    was allowed: L_max, or less where a prompt leaves less room. A response whose EOS is exactly the
    last allowed token is complete, although its length is L_max; one that something else cut
    before L_max (a tool's answer that did not fit) is not truncated.
    """
    return torch.tensor(
        [
            len(row) >= limit and row[-1] not in end_tokens
            for row, limit in zip(ids, limits, strict=True)
        ]
    )


def repeats(ids: Tensor, lengths: Tensor, window: int = 128, rule: str = "window") -> Tensor:
    """repeat(o_i, m): (B,) responses that end in a repetition, judged on their last 2m tokens (m =
    ``window``).

    ``ids`` is (B, T), padded on the right; ``lengths`` (B,) counts the true tokens.

    - ``window`` (the paper's rule): the last m tokens equal the m before, position by position. A
      loop is found only if its period divides m.
    - ``periodic``: some period p, 1 ≤ p ≤ m, explains the last 2m tokens: token[t] = token[t-p] for
      all of the last 2m - p. It contains the paper's rule (p = m) and finds loops of any period up
      to m.
    - ``none``: nothing is held to repeat.

    A response shorter than 2m tokens never repeats.
    """
    span = 2 * window
    result = torch.zeros_like(lengths, dtype=torch.bool)
    long_enough = (lengths >= span).nonzero().squeeze(1)
    if not len(long_enough):
        return result
    starts = lengths[long_enough, None] - span
    tails = ids[long_enough].gather(1, starts + torch.arange(span, device=ids.device))
    periods = {"window": [window], "periodic": range(1, window + 1), "none": []}[rule]
    found = torch.zeros(len(long_enough), dtype=torch.bool, device=ids.device)
    for period in periods:
        found |= (tails[:, period:] == tails[:, :-period]).all(dim=1)
    result[long_enough] = found
    return result


def uniform_draws(key: Sequence[int], count: int) -> Tensor:
    """U(0,1) for each response of one generation: (count,) float64, element i belongs to global
    response i.

    ``key`` names the generation: (seed, global step at generation, how many generations that step
    has seen). The draws come from a counter-based generator started from the key alone, never from
    the global random state: they are the same after a resume and for every layout of processes, and
    drawing them changes nothing else.
    """
    bits = np.random.Philox(np.random.SeedSequence([int(part) for part in key]))
    return torch.from_numpy(np.random.Generator(bits).random(count))


def eligible(truncated: Tensor, candidate: Tensor, repeating: Tensor) -> Tensor:
    """The indicator of Eq. 2 before its draw, (B,) bool: truncated ∧ candidate ∧ ¬repeating."""
    return truncated & candidate & ~repeating


def conditional_mask(eligible: Tensor, draws: Tensor, mask_ratio: float) -> Tensor:
    """The indicator of Eq. 2, (B,) bool: eligible ∧ U < ρ. Not every device has float64: what goes
    to that of ``eligible`` is the comparison.
    """
    return eligible & (draws < mask_ratio).to(eligible.device)


def masked_advantages(advantages: Tensor, masked: Tensor) -> Tensor:
    """A_i · (1 - masked_i) for (B,) or (B, T) advantages."""
    if advantages.dim() == 2:
        masked = masked.unsqueeze(1)
    return advantages.masked_fill(masked, 0.0)
