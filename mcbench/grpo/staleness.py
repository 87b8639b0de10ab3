"""Sampling from a policy of before, as asynchronous training does (SkyRL bounds it by 4).

With ``staleness`` k the responses of a generation are sampled by the weights that the policy had k
generations earlier, or by the first ones while there are no earlier; with -1 always by the first:
training on data that another policy collected. Old log-probabilities are those of the sampling
policy, so that the ratio and its clip correct for the distance as far as they can.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo.trl_compat import RepairedGRPOTrainer

WEIGHTS_FILE = "microcoder_stale_weights.pt"
FIRST = -1


class StaleGRPOTrainer(RepairedGRPOTrainer):
    """The trainer with the option ``staleness``; the weights are kept with every checkpoint."""

    _staleness = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._staleness = self.args.staleness
        self._before: list[dict[str, Tensor]] = []  # the oldest first
        half = self.args.bf16 or self.args.fp16
        if self.args.staleness and (half or not self.args.sample_unfinished):
            raise UserError(
                "staleness needs sample_unfinished=True and float32: else the log-probabilities "
                "of the policy that sampled are not known"
            )
        accumulated, every = self.args.gradient_accumulation_steps, self.args.passes_per_generation
        if self.args.staleness and accumulated % every == 0:
            raise UserError(
                "staleness needs several updates a generation: with one TRL takes the ratio to "
                "the sampling policy for 1"
            )

    def _generate(self, prompts: list[Any]) -> Any:
        if not (self._staleness and self.model.training):
            return super()._generate(prompts)
        policy = self.accelerator.unwrap_model(self.model)
        weights = dict(policy.named_parameters())
        now = {name: one.detach().clone() for name, one in weights.items()}
        self._before.append(now)
        if self.args.staleness == FIRST:
            del self._before[1:]
        else:
            del self._before[: -1 - self.args.staleness]
        _assign(weights, self._before[0])
        try:
            return super()._generate(prompts)
        finally:
            _assign(weights, now)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self._before and self.args.should_save:
            torch.save(self._before, self._checkpoint_folder(trial) / WEIGHTS_FILE)
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self.args.staleness:
            path = Path(checkpoint) / WEIGHTS_FILE
            self._before = torch.load(path, map_location=self.accelerator.device)


@torch.no_grad()
def _assign(weights: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        weights[name].copy_(value)
