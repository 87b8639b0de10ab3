"""Credit for single tokens, and a KL term that adapts: what denser rewards do with a batch.

``token_credit`` makes (B, T) advantages of a batch's (B,) ones, which TRL's loss takes:

- ``critic``, CodeRL (Le et al. 2022, arXiv 2207.01780, Eq. 3 to 8): (r - r of the greedy answer)
  times the probability that a critic gives, at this token, to the outcome that came;
- ``blame``, RLTF (Liu et al. 2023, arXiv 2307.04349, Eq. 7): the advantage, less 0.3 on the tokens
  of the blamed line, 0 of which is the whole text;
- ``executed``, StepCoder (Dou et al. 2024, arXiv 2402.01391, section 3.2): the advantage, 0 on the
  tokens of lines that no test reached.

``kl_target`` is PPOCoder's adaptive coefficient (Ziegler et al. 2019, section 2.2).

A reward tells outcome and lines of each response as ``notes`` (:mod:`mcbench.tasks.dense`); a line
of a response is counted from 1. Where the papers learn a value of every state, the group's mean
stands here. Shapes: B = P·G responses, T tokens, H hidden units.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mcbench.errors import UserError
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.resampling import ResamplingGRPOTrainer

BLAME = 0.3
OUTCOMES, RIGHT = 4, 3
GREEDY = 0.02
"""The temperature of the greedy answer, at which the likeliest token is all but certain."""
CRITIC_STEPS, CRITIC_RATE = 30, 0.1
KL_GAIN, KL_CLIP = 0.1, 0.2


def lines_of(pieces: Sequence[str]) -> list[int]:
    """The line, from 1, in which each token of a response begins."""
    found, line = [], 1
    for piece in pieces:
        found.append(line)
        line += piece.count("\n")
    return found


def line_mask(lines: Tensor, chosen: Sequence[Sequence[int]]) -> Tensor:
    """(B, T) bool: the tokens in the ``chosen`` lines of their response; line 0 is all of them.

    Args:
        lines: (B, T), 0 for padding.
    """
    mask = torch.zeros_like(lines, dtype=torch.bool)
    for row, these in enumerate(chosen):
        wanted = torch.tensor([one for one in these if one], dtype=lines.dtype, device=lines.device)
        mask[row] = torch.isin(lines[row], wanted) | (0 in these)
    return mask & (lines > 0)


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


def adapted(beta: float, kl: float, target: float) -> float:
    """β (1 + 0.1 clip(KL / target - 1, ±0.2)), KL and target in nats a response."""
    return beta * (1 + KL_GAIN * min(KL_CLIP, max(-KL_CLIP, kl / target - 1)))


class Critic:
    """CodeRL's critic of four outcomes: a linear layer on the hidden states of the untrained model.
    The highest value of every unit over a response predicts its outcome, which trains the layer;
    the layer on the state of a single token gives that token's probabilities.
    """

    def __init__(self, body: nn.Module, weights: Sequence[Sequence[float]] | None = None) -> None:
        self.body = copy.deepcopy(body).eval().requires_grad_(False)
        config: Any = self.body.config
        units = int(config.hidden_size)
        self.layer = torch.tensor(weights) if weights else torch.zeros(OUTCOMES, units + 1)

    def _logits(self, states: Tensor) -> Tensor:
        return states @ self.layer[:, :-1].T + self.layer[:, -1]

    @torch.no_grad()
    def states(self, ids: Tensor, mask: Tensor, tokens: int) -> Tensor:
        """(B, T, H) of the last ``tokens`` of (B, W + T) ids."""
        found: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return found[:, -tokens:]

    def of_responses(self, states: Tensor, mask: Tensor) -> Tensor:
        """(B, 4) probabilities, from the tokens of a (B, T) bool mask."""
        return self._logits(_highest(states, mask)).softmax(dim=-1)

    def of_tokens(self, states: Tensor, outcomes: Tensor) -> Tensor:
        """(B, T) probability of the (B,) outcomes that came."""
        chosen = outcomes[:, None, None].expand(*states.shape[:2], 1)
        return self._logits(states).softmax(dim=-1).gather(2, chosen).squeeze(2)

    def learn(self, states: Tensor, mask: Tensor, outcomes: Tensor) -> None:
        """Some steps on a batch's outcomes, by cross-entropy."""
        pooled = _highest(states, mask)
        self.layer = self.layer.clone().requires_grad_(True)
        optimizer = torch.optim.SGD([self.layer], CRITIC_RATE)
        with torch.enable_grad():
            for _ in range(CRITIC_STEPS):
                optimizer.zero_grad()
                loss: Any = nn.functional.cross_entropy(self._logits(pooled), outcomes)
                loss.backward()
                optimizer.step()
        self.layer = self.layer.detach()


def _highest(states: Tensor, mask: Tensor) -> Tensor:
    return states.masked_fill(~mask.unsqueeze(2), -torch.inf).amax(dim=1).nan_to_num(neginf=0.0)


class DenseGRPOTrainer(ResamplingGRPOTrainer):
    """The trainer with credit for tokens and an adaptive KL term."""

    def __init__(self, model: Any, args: MicroCoderGRPOConfig | None, **kwargs: Any) -> None:
        super().__init__(model, args, **kwargs)
        self.critic: Critic | None = None
        if self.args.token_credit == "critic":
            self.critic = Critic(self.model.get_decoder())

    def as_trained(self, output: dict[str, Any]) -> dict[str, Any]:
        output = super().as_trained(output)
        if self.args.kl_target is not None and self.training:
            self._adapt(output)
        if self.args.token_credit == "none" or not self.training:
            return output
        notes = self._notes(len(output["advantages"]))
        lines, mask = self._lines(output), output["completion_mask"].bool()
        own = output["advantages"].unsqueeze(1).expand(mask.shape)
        if self.args.token_credit == "blame":
            chosen = line_mask(lines, [[] if n["blamed"] is None else [n["blamed"]] for n in notes])
            advantages, name = own - BLAME * chosen, "blamed"
        elif self.args.token_credit == "executed":
            chosen = line_mask(lines, [n["unexecuted"] for n in notes])
            advantages, name = own.masked_fill(chosen, 0.0), "unexecuted"
        else:
            advantages, name = self._criticised(output, mask, notes), ""
        if name:
            self.log_of_batch({f"task/{name}": (chosen.sum() / mask.sum()).item()})
        return {**output, "advantages": advantages.to(own.dtype)}

    def _notes(self, count: int) -> list[dict[str, Any]]:
        """What the reward tells of each response of this batch; nothing of those it could not
        judge.
        """
        told = self.logged.get("notes", [""] * count)
        if "notes" not in self.logged and not self.total_rewards().isnan().all():
            raise UserError("token_credit needs a reward that tells outcomes and lines")
        unknown: dict[str, Any] = {"outcome": 0, "blamed": None, "unexecuted": []}
        return [json.loads(text) if text else unknown for text in told]

    def _lines(self, output: dict[str, Any]) -> Tensor:
        """(B, T) lines in which tokens begin, 0 for padding."""
        processor: Any = self.processing_class
        lines = torch.zeros_like(output["completion_ids"])
        for row, ids in enumerate(self.sampled_ids):
            pieces = processor.batch_decode([[one] for one in ids], skip_special_tokens=True)
            lines[row, : len(ids)] = torch.tensor(lines_of(pieces))
        return lines

    def _criticised(
        self, output: dict[str, Any], mask: Tensor, notes: Sequence[dict[str, Any]]
    ) -> Tensor:
        """(B, T) CodeRL's; the critic learns from the batch after it has judged it."""
        assert self.critic is not None
        if (known := self.checkpoint_state.get("critic")) is not None:
            self.critic.layer = torch.tensor(known, device=mask.device)
        self.critic.body.to(mask.device)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        seen = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        states = self.critic.states(ids, seen, mask.shape[1])
        outcomes = torch.tensor([n["outcome"] for n in notes], device=mask.device)
        scores = self.critic.of_responses(states, mask)[:, RIGHT].tolist()
        weights = self.critic.of_tokens(states, outcomes)
        self.critic.learn(states, mask, outcomes)
        self.checkpoint_state["critic"] = self.critic.layer.tolist()
        rewards = self.total_rewards().to(mask.device)
        gained = (rewards - self._greedy_rewards(output)).nan_to_num(nan=0.0)
        self.log_of_batch({"task/critic_auroc": auroc(scores, (outcomes == RIGHT).tolist())})
        return gained.unsqueeze(1) * weights

    def _greedy_rewards(self, output: dict[str, Any]) -> Tensor:
        """(B,) the reward of the greedy answer to each one's prompt."""
        size = self.num_generations
        prompts = [
            ids[seen.bool()].tolist()
            for ids, seen in zip(
                output["prompt_ids"][::size], output["prompt_mask"][::size], strict=True
            )
        ]
        rows = list(self.batch_rows)[::size]
        answers = self.respond(prompts, self.max_completion_length, GREEDY)
        texts = self.texts(answers)
        columns: dict[str, Any] = {
            name: [row[name] for row in rows] for name in rows[0] if name != "prompt"
        }
        for name in ("log_extra", "log_metric"):  # these answers are not of the batch
            columns[name] = lambda *_: None
        reward: Any = self.reward_funcs[0]
        found = reward(
            prompts=[row["prompt"] for row in rows], completions=texts, completion_ids=answers,
            trainer_state=self.state, **columns,
        )  # fmt: skip
        values = [float("nan") if one is None else one for one in found]
        return torch.tensor(values, device=output["prompt_ids"].device).repeat_interleave(size)

    def _adapt(self, output: dict[str, Any]) -> None:
        """β for the updates with this batch, from how far its policy is from the reference."""
        if "old_per_token_logps" not in output:
            raise UserError("kl_target needs several updates a generation")
        gaps = output["old_per_token_logps"] - output["ref_per_token_logps"]
        own = (gaps * output["completion_mask"]).sum(dim=1)
        kl = self.gather(own).mean().item()  # of all processes, which must go on with one β
        assert self.args.kl_target is not None
        before = self.checkpoint_state.get("beta", self.args.beta)
        self.beta = self.checkpoint_state["beta"] = adapted(before, kl, self.args.kl_target)
        self.log_of_batch({"task/beta": self.beta, "task/kl_a_response": kl})
