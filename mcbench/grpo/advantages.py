"""The hook ``advantages``: those that other papers give to responses, and a reward of theirs.

Where TRL 1.16 has a method (GSPO, CISPO, Dr. GRPO) it is its settings alone. Here is what it lacks,
off by default, each an option of the same trainer:

- **Skywork-OR1** (He et al. 2025, section 3.2.3), ``advantage_rule="uncut"``;
- **pass@k training** (Chen et al. 2025, section 2.4), ``advantage_rule="pass_at_k"``;
- **DAPO**'s soft overlong punishment (Yu et al. 2025, Eq. 13), ``soft_overlong``: TRL's reward.

Shapes: B = P·G responses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import comb
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from trl.rewards import get_soft_overlong_punishment

from mcbench.errors import UserError
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.replaced import replaced

if TYPE_CHECKING:
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer

PUNISHMENT = "soft_overlong_punishment_reward"
"""Name of TRL's reward function of ``soft_overlong``."""


def advantages(trainer: MicroCoderGRPOTrainer, found: Tensor) -> Tensor:
    """(B,) those of ``advantage_rule`` in the place of TRL's."""
    args, size = trainer.args, trainer.num_generations
    if args.advantage_rule == "uncut":
        cut = trainer.gather(trainer.truncated())
        return uncut_advantages(trainer.total_rewards(), cut, size).to(found.dtype)
    if args.advantage_rule == "pass_at_k":
        rewards = trainer.correctness_rewards()
        right = rewards >= args.correct_threshold
        return pass_at_k_advantages(right, ~rewards.isnan(), size, args.pass_k).to(found.dtype)
    return found


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


@contextmanager
def with_punishment(
    args: MicroCoderGRPOConfig | None, reward_funcs: Any, tools: bool
) -> Iterator[Any]:
    """Yields the reward functions with that of ``soft_overlong``, whose weight is among those of
    ``args`` for the block alone: they are the user's.
    """
    if args is None or not getattr(args, "soft_overlong", 0.0):
        yield reward_funcs
        return
    given = list(reward_funcs) if isinstance(reward_funcs, list | tuple) else [reward_funcs]
    given = [one for one in given if one is not None]
    limit = args.response_limit(tools)  # the one that cuts
    assert limit is not None  # the configuration refuses soft_overlong without one
    share = round(args.soft_overlong * limit)  # its last tokens, over which TRL's falls to -1
    with replaced(args, reward_weights=_weights_with_punishment(args, len(given))):
        yield [*given, get_soft_overlong_punishment(limit, max(1, share))]


def _weights_with_punishment(args: MicroCoderGRPOConfig, count: int) -> list[float]:
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


def deciding_reward(args: MicroCoderGRPOConfig, names: list[str]) -> str | None:
    """Name of the reward function that decides correctness; None: the weighted sum of all. With
    ``soft_overlong`` the other one, and not the sum.
    """
    others = [name for name in names if name != PUNISHMENT]
    if args.correctness_reward is not None or not args.soft_overlong:
        return args.correctness_reward
    if len(others) != 1:
        raise UserError(
            "with soft_overlong correctness_reward must name the reward that decides "
            f"correctness, one of {', '.join(others) or 'reward_funcs, of which there is none'}"
        )
    return others[0]
