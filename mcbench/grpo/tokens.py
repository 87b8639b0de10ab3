"""The hook ``tokens``: what single tokens count, and a KL term that adapts.

Off by default, each an option of the same trainer. At every pass of an update, when the policy's
log-probabilities are known, ``token_rule`` changes the advantages that TRL's loss reads:

- **Clip-Cov and KL-Cov** (Cui et al. 2025, section 4.2; ``compute_policy_loss_clip_cov`` and
  ``_kl_cov`` of PRIME-RL/Entropy-Mechanism-of-RL).

Once a batch ``token_credit`` makes (B, T) advantages of a batch's (B,) ones, with r the reward,
r_greedy that of the greedy answer, and p_t the probability that a critic (``critic.py``) gives, at
token t, to the outcome that came:

- ``critic``, CodeRL (Le et al. 2022, arXiv 2207.01780, Eq. 3 to 8): (r - r_greedy) p_t;
- ``blame``, RLTF (Liu et al. 2023, arXiv 2307.04349, section 3.3; ``sample_rl_task`` in its
  ``datasets/apps_dataset_online_v1.py``): (r - 0.3 [t is blamed] - r_greedy) p_t;
- ``executed``, StepCoder (Dou et al. 2024, arXiv 2402.01391, section 3.2): the advantage, 0 on the
  tokens of lines that no test reached;
- ``feedback``, SDPO (Hübotter et al. 2026, arXiv 2601.20802; ``trl.experimental.sdpo``, mode
  ``sampled_token``, whose gradient at a ratio of 1 this is): log π(y_t | prompt, y, feedback) - log
  π(y_t | prompt) of the policy that sampled, 0 for a response without feedback. No reward enters.

``kl_target`` is PPOCoder's KL term (Shojaee et al. 2023, Eq. 7; ``AdaptiveKLController`` and
``compute_rewards`` in its ``ppo.py``): a part of the reward, whose coefficient adapts.

A reward tells outcome, blame and lines of each response as ``notes`` (:mod:`mcbench.worlds.dense`);
a line of a response is counted from 1. Where a paper learns a value of every state, the group's
mean stands here. Shapes: B = P·G responses, T tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo import imitation
from mcbench.grpo.advantages import uncut_advantages
from mcbench.grpo.correction import loss_mask
from mcbench.grpo.masking import uniform_draws
from mcbench.grpo.observed import replace_advantages

if TYPE_CHECKING:
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer

COVARIANCES = (1.0, 5.0)
"""Between which Clip-Cov chooses (Cui et al. 2025, section 4.3)."""
KL_COV = 1.0
"""β of KL-Cov (section 4.3)."""
BLAME = 0.3
GREEDY = 0.02
"""The temperature of the greedy answer, at which the likeliest token is all but certain."""
KL_HORIZON, KL_CLIP = 10_000, 0.2


def tokens(trainer: MicroCoderGRPOTrainer, inputs: dict[str, Any], log_probs: Tensor) -> None:
    """Puts the advantages of ``token_rule`` in the place of a forward pass's; ``log_probs`` (B, T)
    are the policy's.
    """
    log_probs, mask = log_probs.detach(), loss_mask(inputs).bool()
    told = log_probs.new_zeros(3)  # of this pass; the last counts those with tokens in the loss
    if mask.any():
        advantages = inputs["advantages"].unsqueeze(1).expand(mask.shape)
        covariances = token_covariances(log_probs, advantages, mask)
        old = inputs.get("old_per_token_logps", log_probs)
        if trainer.args.token_rule == "clip_cov":
            low, high = trainer.args.epsilon, trainer.args.epsilon_high
            taken = clipped(log_probs - old, advantages, low, low if high is None else high)
            # The tokens themselves are part of the key: every pass of an update has other draws,
            # and a resumed run the same ones.
            own = int(inputs["completion_ids"].sum())
            step, process = trainer.state.global_step, trainer.accelerator.process_index
            draws = uniform_draws((trainer.args.seed, step, process, own), covariances.numel())
            chosen = clip_cov_tokens(covariances, taken, trainer.args.token_share, draws)
            inputs["advantages"] = advantages.masked_fill(chosen, 0.0)
        else:
            chosen = kl_cov_tokens(covariances, trainer.args.token_share)
            inputs["advantages"] = with_kl_penalty(advantages, log_probs - old, chosen)
        share = chosen.sum() / mask.sum()
        told = torch.stack([share, covariances[mask].mean(), torch.ones_like(share)])
    share, mean, passes = trainer.gather(told.unsqueeze(0)).sum(dim=0).tolist()
    for name, value in (("chosen", share), ("mean", mean)) if passes else ():
        trainer._metrics["train"][f"covariance/{name}"].append(value / passes)


def as_trained(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    """A scored batch with the credit of its tokens, and with what stands beside it."""
    if trainer.args.kl_target is not None:
        output = _with_kl_reward(trainer, output)
    if trainer.args.imitate != "none":
        output = imitation.as_trained(trainer, output)
    return output if trainer.args.token_credit == "none" else _with_credit(trainer, output)


# Clip-Cov and KL-Cov ------------------------------------------------------------------------------


def token_covariances(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """Cov(y_t) = (log π(y_t) - mean log π) · (A_t - mean A), (B, T), the means over the tokens of
    the (B, T) bool ``mask`` (Cui et al. 2025, Eq. 10); -inf elsewhere.
    """
    found = (log_probs - log_probs[mask].mean()) * (advantages - advantages[mask].mean())
    return found.masked_fill(~mask, -torch.inf)


def clipped(log_ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """(B, T) bool: the tokens whose gradient the clip of the ratio takes."""
    ratio = log_ratio.exp()
    return -advantages * ratio.clamp(1 - low, 1 + high) > -advantages * ratio


def clip_cov_tokens(covariances: Tensor, taken: Tensor, share: float, draws: Tensor) -> Tensor:
    """The (B, T) tokens that Clip-Cov takes out of the gradient: a ``share`` of all tokens, at
    least one, at random among those whose covariance is between ``COVARIANCES`` and whose gradient
    the clip has not ``taken`` already (Eq. 11, 12).

    ``draws`` (B·T,) are U(0,1).
    """
    low, high = COVARIANCES
    among = ((covariances > low) & (covariances < high) & ~taken).flatten()
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


def span_mask(pieces: Sequence[Sequence[str]], spans: Sequence[Any], width: int) -> Tensor:
    """(B, ``width``) bool: the tokens that hold any character of their response's span.

    Args:
        pieces: the texts of each response's tokens.
        spans: (first character, one beyond the last) or None, of each response.
    """
    mask = torch.zeros(len(pieces), width, dtype=torch.bool)
    for row, (texts, span) in enumerate(zip(pieces, spans, strict=True)):
        begins = 0
        for place, text in enumerate(texts):
            ends = begins + len(text)
            if span and begins < span[1] and (ends > span[0] or ends >= begins == span[0] == 0):
                mask[row, place] = True
            begins = ends
    return mask


def _with_credit(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    notes = _notes(trainer, len(output["advantages"]))
    mask, credit = loss_mask(output).bool(), trainer.args.token_credit
    own = output["advantages"].unsqueeze(1).expand(mask.shape)
    if credit == "feedback":
        told = [one.get("feedback", "") for one in notes]
        found = distilled(trainer, output, told)
        trainer.log_of_batch({"task/told": sum(map(bool, told)) / len(told)})
        return {**output, "advantages": found.to(own.dtype)}
    if credit == "executed":
        chosen = line_mask(_lines(trainer, output), [one["unexecuted"] for one in notes])
        name, advantages = "unexecuted", own.masked_fill(chosen, 0.0)
    else:
        name, chosen = "blamed", torch.zeros_like(mask)
        if credit == "blame":
            pieces = [trainer.texts([[one] for one in ids]) for ids in trainer.sampled_ids]
            spans = [one["blamed"] for one in notes]
            chosen = span_mask(pieces, spans, mask.shape[1]).to(mask.device)
        gained = (trainer.total_rewards() - _greedy_rewards(trainer)).to(mask.device)
        assert trainer.critic is not None
        outcomes = [one["outcome"] for one in notes]
        weights = trainer.critic.weights(trainer, output, mask, outcomes)
        advantages = credited(gained.nan_to_num(nan=0.0), chosen, weights)
    trainer.log_of_batch({f"task/{name}": (chosen.sum() / mask.sum()).item()})
    return {**output, "advantages": advantages.to(own.dtype)}


NOTED: dict[str, dict[str, Any]] = {
    "critic": {"outcome": 0},
    "blame": {"outcome": 0, "blamed": None},
    "executed": {"unexecuted": []},
    "feedback": {"feedback": ""},
}
"""What each credit reads of a response's notes, and what stands for one that was not judged."""


def _notes(trainer: MicroCoderGRPOTrainer, count: int) -> list[dict[str, Any]]:
    """What the reward tells of each response of this batch; nothing of those it could not judge."""
    credit = trainer.args.token_credit
    told = trainer.logged.get("notes", [""] * count)
    found = [json.loads(text) if text else NOTED[credit] for text in told]
    silent = "notes" not in trainer.logged and not trainer.total_rewards().isnan().all()
    if silent or not all(NOTED[credit].keys() <= one.keys() for one in found):
        raise UserError(
            f"token_credit={credit!r} needs a reward that tells {' and '.join(NOTED[credit])} of "
            "each response, as notes (mcbench.worlds.dense)"
        )
    return found


def _lines(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> Tensor:
    """(B, T) lines in which tokens begin, 0 for padding."""
    lines = torch.zeros_like(output["completion_ids"])
    for row, ids in enumerate(trainer.sampled_ids):
        lines[row, : len(ids)] = torch.tensor(lines_of(trainer.texts([[one] for one in ids])))
    return lines


@torch.no_grad()
def distilled(
    trainer: MicroCoderGRPOTrainer, output: dict[str, Any], told: Sequence[str]
) -> Tensor:
    """(B, T) how much likelier each token is to the policy that has read its own response and the
    feedback on it, nats; 0 where nothing was ``told``. What it has read stands without a gap, as a
    prompt does: positions are counted over padding too.
    """
    ids, mask = output["completion_ids"], output["completion_mask"]
    said = trainer._tokenizer(list(told), add_special_tokens=False)["input_ids"]
    read = zip(trainer.asked_ids, trainer.sampled_ids, said, strict=True)
    context = imitation.padded([[*prompt, *own, *more] for prompt, own, more in read], "left")

    def scored(before: Tensor, seen: Tensor) -> Tensor:
        found, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, torch.cat([before, ids], 1), torch.cat([seen, mask], 1), ids.shape[1]
        )
        return found

    student = scored(output["prompt_ids"], output["prompt_mask"])
    teacher = scored(*(one.to(ids.device) for one in context))
    has = torch.tensor([bool(one) for one in told], device=ids.device).unsqueeze(1)
    return (teacher - student) * mask * has


def credited(gained: Tensor, blamed: Tensor, weights: Tensor) -> Tensor:
    """(B, T) advantages (r - r_greedy - 0.3 blamed) p of CodeRL, which blames none, and RLTF.

    Args:
        gained: (B,) r - r_greedy.
        blamed: (B, T) bool.
        weights: (B, T) p.
    """
    return (gained.unsqueeze(1) - BLAME * blamed) * weights


def _greedy_rewards(trainer: MicroCoderGRPOTrainer) -> Tensor:
    """(B,) the reward of the greedy answer to each one's prompt, by the same functions, weights
    and subclass.
    """
    size = int(trainer.num_generations)
    rows, prompts = list(trainer.batch_rows)[::size], trainer.sampled_prompts[::size]
    answers = trainer.respond(trainer.asked_ids[::size], trainer.max_completion_length, GREEDY)
    completions: list[Any] = trainer.texts(answers)
    if not isinstance(prompts[0], str):
        completions = [[{"role": "assistant", "content": text}] for text in completions]
    found = trainer._calculate_rewards(rows, prompts, completions, answers)
    trainer._pending_extra_logs.clear()  # these answers are not of the batch
    trainer._pending_metrics.clear()
    return trainer.total_rewards(found).repeat_interleave(size)


# A KL term that adapts ----------------------------------------------------------------------------


def adapted(beta: float, kl: float, target: float, responses: int) -> float:
    """β (1 + clip(|KL| / target - 1, ±0.2) n / 10,000) after n responses, KL and target in nats a
    response.
    """
    error = min(KL_CLIP, max(-KL_CLIP, abs(kl) / target - 1))
    return beta * (1 + error * responses / KL_HORIZON)


def _with_kl_reward(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    """A batch whose advantages are those of the reward less β times the KL of the response; then β
    for the next one, from how far its policy is from the reference. The loss has no KL term.
    """
    if "old_per_token_logps" not in output:
        raise UserError("kl_target needs several updates a generation")
    gaps = output["old_per_token_logps"] - output["ref_per_token_logps"]
    kl = trainer.gather((gaps * loss_mask(output)).sum(dim=1))
    beta = trainer.checkpoint_state.setdefault("beta", trainer.args.beta)
    rewards = trainer.total_rewards().to(kl.device) - beta * kl
    none = torch.zeros_like(rewards, dtype=torch.bool)
    found = uncut_advantages(rewards, none, trainer.num_generations)
    replace_advantages(trainer, output, found.to(output["advantages"].dtype))
    assert trainer.args.kl_target is not None
    mean = kl.mean().item()  # of all processes, which must go on with one β
    after = adapted(beta, mean, trainer.args.kl_target, len(kl))
    trainer.checkpoint_state["beta"] = after
    trainer.log_of_batch({"task/beta": beta, "task/kl_a_response": mean})
    return output
