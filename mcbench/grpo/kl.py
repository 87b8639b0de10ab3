"""The KL term of Eq. 1, on log-probabilities of the sampled tokens.

TRL's loss has the estimator k3 (Schulman 2020; Shao et al. 2024, Eq. 4) of each token,

    k3 = exp(x) - x - 1,   x = log π_ref - log π_θ,

which is unbounded: one token that the reference finds likely and the policy no longer does adds
exp(x) nats, and the clipped gradient of that update is that token's. verl's ``low_var_kl``
clamps it:

    min(k3(clamp(x, -20, 20)), 10).

The second bound is the one that acts, as k3 passes 10 at x = -11.0 and at x = 2.61: beyond these
the term is constant and has no gradient. So verl's estimator is TRL's of a reference that is moved
to the nearer of these two, together with the policy. TRL 1.16 has no other estimator (no k1, k2).

Shapes: B responses, T tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mcbench.grpo.correction import loss_mask

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer

LOWEST, HIGHEST = -10.999983298020256, 2.610868638149876
"""Of x, below and above 0, where k3 is verl's 10 nats a token; at verl's ±20 it is above that."""


def clamped_reference(log_probs: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """The (B, T) reference under which TRL's k3 has value and gradient of verl's clamped one, and
    (B, T) where it is not the given one.

    ``log_probs`` are the policy's, with their gradient. Where x is outside of the bounds the
    reference becomes the policy plus the bound, so that their difference does not depend on the
    policy; elsewhere it is the given one, bit for bit.
    """
    ratio = (reference - log_probs).detach()
    beyond = (ratio < LOWEST) | (ratio > HIGHEST)
    moved = log_probs + ratio.clamp(LOWEST, HIGHEST)
    return torch.where(beyond, moved, reference), beyond


def clamp(trainer: RepairedGRPOTrainer, inputs: dict[str, Any], log_probs: Tensor) -> None:
    """Gives the loss that is being computed of ``inputs`` the clamped reference, and logs the share
    of its tokens where that is another.
    """
    reference, beyond = clamped_reference(log_probs, inputs["ref_per_token_logps"])
    inputs["ref_per_token_logps"] = reference
    mask = loss_mask(inputs)
    counts = torch.stack([(beyond * mask).sum(), mask.sum()])
    clamped, tokens = trainer.gather(counts[None]).sum(0)
    mode = "train" if trainer.model.training else "eval"
    trainer._metrics[mode]["kl/clamped"].append((clamped / tokens.clamp(min=1)).item())
