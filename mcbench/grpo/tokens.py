"""The hook ``tokens``: what single tokens count, and a KL term that adapts.

Off by default, each an option of the same trainer. At every pass of an update, when the policy's
log-probabilities are known, ``token_rule`` changes the advantages that TRL's loss reads:

- **Clip-Cov and KL-Cov** (Cui et al. 2025, section 4.2).

Once a batch ``token_credit`` makes (B, T) advantages of a batch's (B,) ones:

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
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from mcbench.errors import UserError
from mcbench.grpo.correction import loss_mask
from mcbench.grpo.masking import uniform_draws

if TYPE_CHECKING:
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer

COVARIANCES = (1.0, 5.0)
"""Between which Clip-Cov chooses (Cui et al. 2025, section 4.3)."""
KL_COV = 1.0
"""β of KL-Cov (section 4.3)."""
BLAME = 0.3
OUTCOMES, RIGHT = 4, 3
GREEDY = 0.02
"""The temperature of the greedy answer, at which the likeliest token is all but certain."""
CRITIC_STEPS, CRITIC_RATE = 30, 0.1
KL_GAIN, KL_CLIP = 0.1, 0.2


def tokens(trainer: MicroCoderGRPOTrainer, inputs: dict[str, Any], log_probs: Tensor) -> None:
    """Puts the advantages of ``token_rule`` in the place of a forward pass's; ``log_probs`` (B, T)
    are the policy's.
    """
    log_probs, mask = log_probs.detach(), loss_mask(inputs).bool()
    told = log_probs.new_zeros(3)  # of this pass; the last counts those with tokens in the loss
    if mask.any():
        advantages = inputs["advantages"].unsqueeze(1).expand(mask.shape)
        covariances = token_covariances(log_probs, advantages, mask)
        if trainer.args.token_rule == "clip_cov":
            # The tokens themselves are part of the key: every pass of an update has other draws,
            # and a resumed run the same ones.
            own = int(inputs["completion_ids"].sum())
            step, process = trainer.state.global_step, trainer.accelerator.process_index
            draws = uniform_draws((trainer.args.seed, step, process, own), covariances.numel())
            chosen = clip_cov_tokens(covariances, trainer.args.token_share, draws)
            inputs["advantages"] = advantages.masked_fill(chosen, 0.0)
        else:
            chosen = kl_cov_tokens(covariances, trainer.args.token_share)
            old = inputs.get("old_per_token_logps", log_probs)
            inputs["advantages"] = with_kl_penalty(advantages, log_probs - old, chosen)
        share = chosen.sum() / mask.sum()
        told = torch.stack([share, covariances[mask].mean(), torch.ones_like(share)])
    share, mean, passes = trainer.gather(told.unsqueeze(0)).sum(dim=0).tolist()
    for name, value in (("chosen", share), ("mean", mean)) if passes else ():
        trainer._metrics["train"][f"covariance/{name}"].append(value / passes)


def as_trained(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    """A scored batch with the credit of its tokens; sets the β of its updates."""
    if trainer.args.kl_target is not None:
        _adapt(trainer, output)
    return output if trainer.args.token_credit == "none" else _with_credit(trainer, output)


# Clip-Cov and KL-Cov ------------------------------------------------------------------------------


def token_covariances(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """Cov(y_t) = (log π(y_t) - mean log π) · (A_t - mean A), (B, T), the means over the tokens of
    the (B, T) bool ``mask`` (Cui et al. 2025, Eq. 10); -inf elsewhere.
    """
    found = (log_probs - log_probs[mask].mean()) * (advantages - advantages[mask].mean())
    return found.masked_fill(~mask, -torch.inf)


def clip_cov_tokens(covariances: Tensor, share: float, draws: Tensor) -> Tensor:
    """The (B, T) tokens that Clip-Cov takes out of the gradient: a ``share`` of all tokens, at
    least one, at random among those whose covariance is within ``COVARIANCES`` (Eq. 11, 12).

    ``draws`` (B·T,) are U(0,1).
    """
    low, high = COVARIANCES
    among = ((covariances >= low) & (covariances <= high)).flatten()
    places = draws.to(among.device).masked_fill(~among, torch.inf).argsort()
    chosen = torch.zeros_like(among)
    chosen[places[: min(_count(covariances, share), int(among.sum()))]] = True
    return chosen.view_as(covariances)


def kl_cov_tokens(covariances: Tensor, share: float) -> Tensor:
    """The (B, T) tokens that KL-Cov punishes: the ``share`` of all tokens, at least one, whose
    covariance is highest (Eq. 13).
    """
    chosen = torch.zeros(covariances.numel(), dtype=torch.bool, device=covariances.device)
    chosen[covariances.flatten().topk(_count(covariances, share)).indices] = True
    return chosen.view_as(covariances)


def _count(covariances: Tensor, share: float) -> int:
    tokens = int(covariances.isfinite().sum())
    return min(tokens, max(1, int(share * tokens)))


def with_kl_penalty(advantages: Tensor, log_ratio: Tensor, chosen: Tensor) -> Tensor:
    """(B, T) advantages A' under which the gradient of -ratio · A' is, at the ``chosen`` tokens,
    that of -ratio · A + β |log ratio|: A' = A - β sign(log ratio) / ratio.

    |log ratio| is the estimate of the KL that the authors use (Listing 1 for Eq. 14). Only the
    gradient is theirs: the loss that is logged holds the sign instead of the penalty.
    """
    penalty = KL_COV * log_ratio.sign() * (-log_ratio).exp()
    return torch.where(chosen, advantages - penalty, advantages)


# Credit by lines and by a critic -----------------------------------------------------------------


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


def _with_credit(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    notes = _notes(trainer, len(output["advantages"]))
    mask, credit = output["completion_mask"].bool(), trainer.args.token_credit
    own = output["advantages"].unsqueeze(1).expand(mask.shape)
    if credit == "critic":
        return {**output, "advantages": _criticised(trainer, output, mask, notes).to(own.dtype)}
    if credit == "blame":
        blamed = [[] if one["blamed"] is None else [one["blamed"]] for one in notes]
        chosen = line_mask(_lines(trainer, output), blamed)
        name, advantages = "blamed", own - BLAME * chosen
    else:
        chosen = line_mask(_lines(trainer, output), [one["unexecuted"] for one in notes])
        name, advantages = "unexecuted", own.masked_fill(chosen, 0.0)
    trainer.log_of_batch({f"task/{name}": (chosen.sum() / mask.sum()).item()})
    return {**output, "advantages": advantages.to(own.dtype)}


def _notes(trainer: MicroCoderGRPOTrainer, count: int) -> list[dict[str, Any]]:
    """What the reward tells of each response of this batch; nothing of those it could not judge."""
    told = trainer.logged.get("notes", [""] * count)
    if "notes" not in trainer.logged and not trainer.total_rewards().isnan().all():
        raise UserError("token_credit needs a reward that tells outcomes and lines")
    unknown: dict[str, Any] = {"outcome": 0, "blamed": None, "unexecuted": []}
    return [json.loads(text) if text else unknown for text in told]


def _lines(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> Tensor:
    """(B, T) lines in which tokens begin, 0 for padding."""
    lines = torch.zeros_like(output["completion_ids"])
    for row, ids in enumerate(trainer.sampled_ids):
        lines[row, : len(ids)] = torch.tensor(lines_of(trainer.texts([[one] for one in ids])))
    return lines


def _criticised(
    trainer: MicroCoderGRPOTrainer,
    output: dict[str, Any],
    mask: Tensor,
    notes: Sequence[dict[str, Any]],
) -> Tensor:
    """(B, T) CodeRL's; the critic learns from the batch after it has judged it."""
    critic, state = trainer.critic, trainer.checkpoint_state
    assert critic is not None
    if "critic" in state:
        critic.layer = torch.tensor(state["critic"], device=mask.device)
    critic.body.to(mask.device)
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    seen = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    states = critic.states(ids, seen, mask.shape[1])
    outcomes = torch.tensor([one["outcome"] for one in notes], device=mask.device)
    scores = critic.of_responses(states, mask)[:, RIGHT].tolist()
    weights = critic.of_tokens(states, outcomes)
    critic.learn(states, mask, outcomes)
    state["critic"] = critic.layer.tolist()
    rewards = trainer.total_rewards().to(mask.device)
    gained = (rewards - _greedy_rewards(trainer, output)).nan_to_num(nan=0.0)
    trainer.log_of_batch({"task/critic_auroc": auroc(scores, (outcomes == RIGHT).tolist())})
    return gained.unsqueeze(1) * weights


def _greedy_rewards(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> Tensor:
    """(B,) the reward of the greedy answer to each one's prompt."""
    size = trainer.num_generations
    prompts = zip(output["prompt_ids"][::size], output["prompt_mask"][::size], strict=True)
    rows = list(trainer.batch_rows)[::size]
    answers = trainer.respond(
        [ids[seen.bool()].tolist() for ids, seen in prompts],
        trainer.max_completion_length,
        GREEDY,
    )
    columns: dict[str, Any] = {
        name: [row[name] for row in rows] for name in rows[0] if name != "prompt"
    }
    for name in ("log_extra", "log_metric"):  # these answers are not of the batch
        columns[name] = lambda *_: None
    reward: Any = trainer.reward_funcs[0]
    found = reward(
        prompts=[row["prompt"] for row in rows], completions=trainer.texts(answers),
        completion_ids=answers, trainer_state=trainer.state, **columns,
    )  # fmt: skip
    values = [float("nan") if one is None else one for one in found]
    return torch.tensor(values, device=output["prompt_ids"].device).repeat_interleave(size)


# A KL term that adapts ----------------------------------------------------------------------------


def adapted(beta: float, kl: float, target: float) -> float:
    """β (1 + 0.1 clip(KL / target - 1, ±0.2)), KL and target in nats a response."""
    return beta * (1 + KL_GAIN * min(KL_CLIP, max(-KL_CLIP, kl / target - 1)))


def _adapt(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> None:
    """β for the updates with this batch, from how far its policy is from the reference."""
    if "old_per_token_logps" not in output:
        raise UserError("kl_target needs several updates a generation")
    gaps = output["old_per_token_logps"] - output["ref_per_token_logps"]
    own = (gaps * output["completion_mask"]).sum(dim=1)
    kl = trainer.gather(own).mean().item()  # of all processes, which must go on with one β
    assert trainer.args.kl_target is not None
    before = trainer.checkpoint_state.get("beta", trainer.args.beta)
    trainer.beta = adapted(before, kl, trainer.args.kl_target)
    trainer.checkpoint_state["beta"] = trainer.beta
    trainer.log_of_batch({"task/beta": trainer.beta, "task/kl_a_response": kl})
