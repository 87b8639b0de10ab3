"""Responses without a token, on which TRL 1.16 fails with an IndexError in the middle of a run
(https://github.com/meta-pytorch/OpenEnv/issues/1029); see ``trl_compat.py``.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from mcbench.grpo.trl_correction import CorrectedGRPOTrainer

logger = logging.getLogger(__name__)


class NonEmptyGRPOTrainer(CorrectedGRPOTrainer):
    """``GRPOTrainer`` to which a response without a token is no response: it stands as one end
    token that is in no loss, and has no reward, so that it has no part in its group's mean either.
    It is said once. A later turn of a tool's user may be empty, as in TRL.
    """

    empty: Any = ()  # list of bools, of this process's responses; None until they are sampled
    turns = False  # whether TRL was told which of their tokens the policy sampled
    _told_of_empty = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.rollout_func is not None:
            self.rollout_func = self._filling(self.rollout_func)

    def _generate(self, prompts: list[Any]) -> Any:
        # Turns that a rollout function samples are its own business, and what it returns is not.
        self.empty = None if self.rollout_func is None else ()
        result: tuple[Any, ...] = super()._generate(prompts)
        mask = result[2]
        self.turns = mask is not None
        if any(self.empty or ()):
            mask = mask or [[1] * len(ids) for ids in result[1]]
            for own, without in zip(mask, list(self.empty), strict=True):
                own[0] = own[0] * (not without)
        return (*result[:2], mask, *result[3:])

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        ids, log_probs = super()._generate_single_turn(prompt_ids, *args, **kwargs)
        return self._filled(ids, log_probs) if self.empty is None else (ids, log_probs)

    def _filling(self, rollout_func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(rollout_func)
        def filled(*args: Any, **kwargs: Any) -> Any:
            found = rollout_func(*args, **kwargs)
            given = found.get("completion_ids", ())
            ids, log_probs = self._filled(given, found.get("logprobs"))
            if not any(self.empty or ()):
                return found
            found = {**found, "completion_ids": ids, "logprobs": log_probs}
            if found.get("env_mask") is not None:
                found["env_mask"] = [own if len(own) else [0] for own in found["env_mask"]]
            return found

        return filled

    def _filled(self, ids: Sequence[Any], log_probs: Any) -> tuple[list[Any], Any]:
        self.empty = [not len(row) for row in ids]
        if not any(self.empty):
            return list(ids), log_probs
        if not self._told_of_empty:
            self._told_of_empty = True
            logger.warning(
                "%d of %d responses have no token (the first is number %d of its batch): whatever "
                "sampled them failed, or ended at once. Such a response has no reward and no token "
                "in the loss",
                sum(self.empty), len(ids), self.empty.index(True),
            )  # fmt: skip
        end = self.eos_token_ids[0]
        if log_probs is not None:
            log_probs = [row if len(row) else [0.0] for row in log_probs]
        return [row if len(row) else [end] for row in ids], log_probs

    def without_reward(self, rewards: Tensor) -> Tensor:
        """(B, reward functions) of all processes, NaN for responses without a token. Every process
        must call.
        """
        empty = rewards.new_tensor([float(one) for one in self.empty or ()])
        if not len(empty):
            return rewards
        none = self.accelerator.gather(empty).bool().unsqueeze(1)
        return rewards.masked_fill(none, float("nan"))
