"""What other papers do instead, as options of the same trainer; all off by default.

Where TRL 1.16 has a method (GSPO, CISPO, Dr. GRPO) it is its settings alone. Here is what it lacks:

- **Skywork-OR1** (He et al. 2025, section 3.2.3), ``advantage_rule="uncut"``;
- **pass@k training** (Chen et al. 2025, section 2.4), ``advantage_rule="pass_at_k"``;
- **Clip-Cov and KL-Cov** (Cui et al. 2025, section 4.2), ``token_rule``;
- **DAPO**'s soft overlong punishment (Yu et al. 2025, Eq. 13), ``soft_overlong``: TRL's reward; its
  dynamic sampling is in ``dynamic_sampling.py``.

Shapes: B = P·G responses, T tokens.
"""

from math import comb
from typing import Any

import torch
from torch import Tensor
from trl.rewards import get_soft_overlong_punishment

from mcbench.errors import UserError
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.masking import uniform_draws
from mcbench.grpo.staleness import StaleGRPOTrainer
from mcbench.grpo.trl_correction import loss_mask

PUNISHMENT = "soft_overlong_punishment_reward"
"""Name of TRL's reward function of ``soft_overlong``."""
COVARIANCES = (1.0, 5.0)
"""Between which Clip-Cov chooses (Cui et al. 2025, section 4.3)."""
KL_COV = 1.0
"""β of KL-Cov (section 4.3)."""


def uncut_advantages(rewards: Tensor, cut: Tensor, group_size: int) -> Tensor:
    """Skywork-OR1's Adv-Mask-Before, (B,): with R̂ the rewards of a group's responses that were not
    cut, A_i = (r_i - mean R̂) / std R̂, and 0 for those that were. Deviation and 1e-4 as in TRL.

    ``rewards`` (B,) may hold NaN for responses without one, which have no advantage either.
    """
    groups = rewards.masked_fill(cut, float("nan")).view(-1, group_size)
    kept = ~groups.isnan()
    centred = groups - groups.nanmean(dim=1, keepdim=True)
    squares = centred.square().nansum(dim=1, keepdim=True)
    deviation = (squares / (kept.sum(dim=1, keepdim=True) - 1).clamp(min=1)).sqrt()
    return (centred / (deviation + 1e-4)).nan_to_num(nan=0.0).view(-1)


def pass_at_k_advantages(correct: Tensor, scored: Tensor, group_size: int, k: int) -> Tensor:
    """Pass@k training in closed form, (B,): of a group's N scored responses, n of them wrong,

        mean = 1 - C(n, k) / C(N, k),  std = sqrt(mean (1 - mean)),
        A = (1 - mean) / std of a right one,
        A = (1 - mean - C(n - 1, k - 1) / C(N - 1, k - 1)) / std of a wrong one

    (Chen et al. 2025, Eq. 11, 12, 14, 15). For k = 1 it is GRPO's with the population's deviation.
    Where any k responses hold a right one, or none does, nothing can be learned: 0.

    Args:
        correct, scored: (B,) bool.
    """
    advantages = torch.zeros(len(correct), device=correct.device)
    for start in range(0, len(correct), group_size):
        group = slice(start, start + group_size)
        right, known = correct[group] & scored[group], scored[group]
        count, wrong = int(known.sum()), int((known & ~right).sum())
        failing = comb(wrong, k) / comb(count, k) if count >= k else 0.0  # 1 - mean
        if 0 < failing < 1:
            deviation = (failing * (1 - failing)) ** 0.5
            without = comb(wrong - 1, k - 1) / comb(count - 1, k - 1)
            own = torch.where(right, failing / deviation, (failing - without) / deviation)
            advantages[group] = own.masked_fill(~known, 0.0)
    return advantages


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


def overlong_punishment(args: MicroCoderGRPOConfig, tools: bool) -> Any:
    """TRL's reward function for the limit that cuts: 0 up to the last ``soft_overlong`` of it, and
    from there down to -1.
    """
    limit = args.response_limit(tools)
    assert limit is not None  # the configuration refuses soft_overlong without one
    return get_soft_overlong_punishment(limit, max(1, round(args.soft_overlong * limit)))


def weights_with_punishment(args: MicroCoderGRPOConfig, count: int) -> list[float]:
    """The weights of ``count`` reward functions and of the punishment, whose own, where one is
    given, ``soft_overlong_weight`` multiplies.
    """
    given = list(args.reward_weights or [1.0] * count)
    if len(given) not in (count, count + 1):
        raise UserError(
            f"reward_weights has {len(given)} numbers and there are {count} reward functions; with "
            f"soft_overlong give {count}, or {count + 1} where the last is of its punishment"
        )
    own = given[count] if len(given) > count else 1.0
    return [*given[:count], own * args.soft_overlong_weight]


class RivalGRPOTrainer(StaleGRPOTrainer):
    """The trainer with the rivals' options, each in one of TRL's own steps."""

    _loss_inputs: dict[str, Any] | None = None

    def __init__(
        self, model: Any, args: MicroCoderGRPOConfig | None, reward_funcs: Any = None, **kwargs: Any
    ) -> None:
        if args is None or not getattr(args, "soft_overlong", 0.0):
            super().__init__(model, args, reward_funcs=reward_funcs, **kwargs)
        else:
            given = list(reward_funcs) if isinstance(reward_funcs, list | tuple) else [reward_funcs]
            given = [one for one in given if one is not None]
            punish = overlong_punishment(args, bool(kwargs.get("tools")))
            weights = args.reward_weights
            args.reward_weights = weights_with_punishment(args, len(given))
            try:
                super().__init__(model, args, reward_funcs=[*given, punish], **kwargs)
            finally:
                args.reward_weights = weights  # they are the user's
            self._check_deciding_reward()

    @property
    def deciding_reward(self) -> str | None:
        """With ``soft_overlong`` the other reward function, and not the sum."""
        own = self.args.correctness_reward
        if own is None and self.args.soft_overlong:
            return next(name for name in self.reward_func_names if name != PUNISHMENT)
        return own

    def _check_deciding_reward(self) -> None:
        names = [name for name in self.reward_func_names if name != PUNISHMENT]
        if self.args.correctness_reward is None and len(names) != 1:
            raise UserError(
                "with soft_overlong correctness_reward must name the reward that decides "
                f"correctness, one of {', '.join(names) or 'reward_funcs, of which there is none'}"
            )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        if self.training and self.args.advantage_rule != "group":
            self.replace_advantages(output, self._advantages(output["advantages"].dtype))
        return output

    def _advantages(self, dtype: torch.dtype) -> Tensor:
        """(B,) those of ``advantage_rule``."""
        if self.args.advantage_rule == "uncut":
            found = uncut_advantages(
                self.total_rewards(), self.gather(self.truncated()), self.num_generations
            )
        else:
            rewards = self.correctness_rewards()
            found = pass_at_k_advantages(
                rewards >= self.args.correct_threshold, ~rewards.isnan(), self.num_generations,
                self.args.pass_k,
            )  # fmt: skip
        return found.to(dtype)

    # -- Clip-Cov and KL-Cov: TRL's loss takes (B, T) advantages and reads them after the
    #    log-probabilities of the policy are known

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        if self.args.token_rule == "none" or not self.model.training:
            return super()._compute_loss(model, inputs)
        advantages = inputs["advantages"].unsqueeze(1).expand(inputs["completion_mask"].shape)
        self._loss_inputs = {**inputs, "advantages": advantages}
        try:
            return super()._compute_loss(model, self._loss_inputs)
        finally:
            self._loss_inputs = None

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._loss_inputs is not None:
            self._change_tokens(self._loss_inputs, found[0].detach())
        return found

    def _change_tokens(self, inputs: dict[str, Any], log_probs: Tensor) -> None:
        """Puts the advantages of ``token_rule`` in the place of a forward pass's."""
        _advantages, mask = inputs["advantages"], loss_mask(inputs).bool()
        told = log_probs.new_zeros(3)  # of this pass; the last counts those with tokens in the loss
        if mask.any():
            chosen, covariances = self._chosen_tokens(inputs, log_probs, mask)
            share = chosen.sum() / mask.sum()
            told = torch.stack([share, covariances[mask].mean(), torch.ones_like(share)])
        share, mean, passes = self.gather(told.unsqueeze(0)).sum(dim=0).tolist()
        for name, value in (("chosen", share), ("mean", mean)) if passes else ():
            self._metrics["train"][f"covariance/{name}"].append(value / passes)

    def _chosen_tokens(
        self, inputs: dict[str, Any], log_probs: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The (B, T) tokens that the rule acts on, which it does, and their covariances."""
        advantages = inputs["advantages"]
        covariances = token_covariances(log_probs, advantages, mask)
        if self.args.token_rule == "clip_cov":
            # The tokens themselves are part of the key: every pass of an update has other draws,
            # and a resumed run the same ones.
            tokens = int(inputs["completion_ids"].sum())
            step, process = self.state.global_step, self.accelerator.process_index
            draws = uniform_draws((self.args.seed, step, process, tokens), covariances.numel())
            chosen = clip_cov_tokens(covariances, self.args.token_share, draws)
            inputs["advantages"] = advantages.masked_fill(chosen, 0.0)
        else:
            chosen = kl_cov_tokens(covariances, self.args.token_share)
            old = inputs.get("old_per_token_logps", log_probs)
            inputs["advantages"] = with_kl_penalty(advantages, log_probs - old, chosen)
        return chosen, covariances
