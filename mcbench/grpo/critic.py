"""CodeRL's critic of four outcomes.

Source: Le et al. 2022, arXiv 2207.01780, section 3.2 and Eq. 5, 6; ``error_head`` in
``modeling_t5.py`` of salesforce/CodeRL. A language model with a head of two layers on every state;
the highest value of each outcome over a response predicts what became of it, which trains model and
head by cross-entropy. The head's values at a single token give that token's probabilities. Theirs
is trained before, on answers of the base; this one along with the policy, on every batch after it
has judged it, so that ``task/critic_auroc`` is of answers that it has not learned from.

Shapes: B responses, T tokens, W tokens of a prompt.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from mcbench.grpo.masking import uniform_draws

if TYPE_CHECKING:
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer

OUTCOMES, RIGHT = 4, 3
HIDDEN = 128
"""Units between the two layers of the head, as in CodeRL's."""
EPOCHS, ROWS, RATE = 2, 32, 1e-3
"""Passes over a batch, responses at a time, and learning rate. On the base model's answers to
programs with a branch the AUROC was .84 from the sixth batch of 128 on (docs/lab-log.md)."""
FILE = "microcoder_critic.pt"


def auroc(scores: Sequence[float], right: Sequence[bool]) -> float:
    """The probability that a right response has a higher score than a wrong one, ties counted
    half; NaN where there are none of either.
    """
    ours, others = (np.array([s for s, r in zip(scores, right, strict=True) if r == which])
                    for which in (True, False))  # fmt: skip
    if not len(ours) or not len(others):
        return float("nan")
    gaps = ours[:, None] - others[None, :]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


class Critic:
    """See the module; it begins as ``body``, the policy before training, with a random head."""

    def __init__(self, body: nn.Module, seed: int = 0) -> None:
        config: Any = body.config
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            head = nn.Sequential(
                nn.Linear(int(config.hidden_size), HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTCOMES)
            )
        own = copy.deepcopy(body).eval().requires_grad_(True)
        self.model = nn.ModuleDict({"body": own, "head": head.to(next(own.parameters()).device)})
        self.optimizer = torch.optim.AdamW(self.model.parameters(), RATE)

    def logits(self, ids: Tensor, seen: Tensor, tokens: int) -> Tensor:
        """(B, T, 4) of the last ``tokens`` of (B, W + T) ids."""
        states = self.model["body"](input_ids=ids, attention_mask=seen).last_hidden_state
        return self.model["head"](states[:, -tokens:])

    def learn(self, ids: Tensor, seen: Tensor, mask: Tensor, outcomes: Tensor, key: Any) -> None:
        """Some steps on a batch's (B,) outcomes; ``key`` decides the order of its responses."""
        with torch.enable_grad():
            for epoch in range(EPOCHS):
                draws = uniform_draws((*key, epoch), len(ids)).argsort().to(ids.device)
                for rows in draws.split(ROWS):
                    found = self.logits(ids[rows], seen[rows], mask.shape[1])
                    loss = nn.functional.cross_entropy(_highest(found, mask[rows]), outcomes[rows])
                    self.optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()

    def weights(
        self,
        trainer: MicroCoderGRPOTrainer,
        output: dict[str, Any],
        mask: Tensor,
        outcomes: Sequence[int],
    ) -> Tensor:
        """(B, T) the probability of each response's outcome at each of its tokens; then the critic
        learns from the batch.
        """
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        seen = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        came = torch.tensor(outcomes, device=mask.device)
        self.model.to(mask.device)
        with torch.no_grad():
            found = self.logits(ids, seen, mask.shape[1])
        scores = _highest(found, mask).softmax(dim=-1)[:, RIGHT].tolist()
        trainer.log_of_batch({"task/critic_auroc": auroc(scores, (came == RIGHT).tolist())})
        self.learn(ids, seen, mask, came, (trainer.args.seed, trainer.state.global_step))
        chosen = came[:, None, None].expand(*mask.shape, 1)
        return found.softmax(dim=-1).gather(2, chosen).squeeze(2)

    def state(self) -> list[dict[str, Any]]:
        """What a checkpoint keeps."""
        return [self.model.state_dict(), self.optimizer.state_dict()]

    def take_up(self, state: list[dict[str, Any]]) -> None:
        """What :meth:`state` gave."""
        model, optimizer = state
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)


def _highest(logits: Tensor, mask: Tensor) -> Tensor:
    """(B, 4) over the tokens of a (B, T) bool mask; 0 without any."""
    return logits.masked_fill(~mask.unsqueeze(2), -torch.inf).amax(dim=1).nan_to_num(neginf=0.0)
