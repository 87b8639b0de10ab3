"""What is read and set of TRL 1.16's trainer where it keeps it: the batch of all processes, the
log, temperature and length. Nothing of TRL is overridden here; that is ``trl_compat.py``.

Shapes: B responses of all processes in dataset order, T tokens.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOTrainer

from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.correction import loss_mask


class ReachedGRPOTrainer(GRPOTrainer):
    """``GRPOTrainer`` with a method for each thing that the method, its metrics and its records
    read or set of it.
    """

    # Set by GRPOTrainer.
    args: MicroCoderGRPOConfig
    model: Any
    train_dataset: Any
    num_generations: int
    num_generations_eval: int
    temperature: float
    max_completion_length: int | None
    _step: int  # passes; TRL's own, from which it knows where in a batch it is
    _buffered_inputs: Any  # the slices of the batch, None before the first
    _logs: dict[str, Any]

    # Set by those who override it.
    training: bool  # whether the batch generated last is trained on, and not one of an evaluation
    _temperature_cells: list[Any]  # of the model and the reference, see sampling.py

    # -- the batch of all processes; every process must call, or the others wait

    def gather(self, rows: Tensor) -> Tensor:
        """``rows`` of all processes one after another."""
        gathered: Tensor = self.accelerator.gather(rows.to(self.accelerator.device))
        return gathered

    def gather_objects(self, rows: Sequence[Any]) -> list[Any]:
        """Any things of all processes."""
        return list(gather_object(list(rows)))

    def mean_over_all(self, values: Tensor) -> float:
        """Mean of the 1-D values of all processes; every process must call."""
        local = torch.stack([values.sum(), values.new_tensor(len(values))])
        total, count = self.gather(local[None]).sum(0)
        return (total / count).item()

    def removed_from_loss(self, output: dict[str, Any]) -> Tensor:
        """(B,) bool: the responses without a token in the loss (``mask_truncated_completions``)."""
        return self.gather(~output["completion_mask"].any(dim=1))

    def _own(self, rows: Tensor) -> Tensor:
        """Of (B,) rows those of this process."""
        count = len(rows) // self.accelerator.num_processes
        start = self.accelerator.process_index * count
        return rows[start : start + count]

    def remove_from_loss(self, output: dict[str, Any], removed: Tensor) -> None:
        """Takes all tokens of the (B,) removed responses out of every term of the loss."""
        kept = (~self._own(removed)).unsqueeze(1)
        for name in ("completion_mask", "tool_mask"):
            if name in output:
                output[name] = output[name] * kept
        output["num_items_in_batch"] = self.gather(loss_mask(output).sum()).sum()

    def replace_advantages(self, output: dict[str, Any], advantages: Tensor) -> None:
        """Puts these (B,) advantages in the place of TRL's, which ``log_completions`` shows too."""
        output["advantages"] = self._own(advantages)
        log = self._logs["advantages"]
        kept = advantages.tolist()[-len(log) :]
        for _ in kept:
            log.pop()
        log.extend(kept)

    def log_of_batch(self, metrics: dict[str, float]) -> None:
        """Adds values, which must be the same on every process, to TRL's next line of the log."""
        mode = "train" if self.training else "eval"
        for name, value in metrics.items():
            if not math.isnan(value):  # the mean of nothing
                self._metrics[mode][name].append(value)

    # -- temperature and length, of every backend

    def set_temperature(self, temperature: float) -> None:
        """One temperature for sampling and for all log-probabilities (policy, old, reference)."""
        self.temperature = temperature
        if self.use_vllm:
            self.vllm_generation.temperature = temperature
        else:
            self.generation_config.temperature = temperature
            self.generation_kwargs["temperature"] = temperature
        for cell in self._temperature_cells:
            cell.cell_contents = temperature

    def set_max_completion_length(self, length: int | None) -> None:
        """L_max for sampling and for the constant in the ``dr_grpo`` loss; None: without one."""
        self.max_completion_length = length
        if self.use_vllm:
            engine: Any = self.vllm_generation
            engine.max_completion_length = length
        else:
            self.generation_config.max_new_tokens = length
            self.generation_kwargs["max_new_tokens"] = length

    def texts(self, ids: list[list[int]]) -> list[str]:
        """Responses as text, without special tokens."""
        processor: Any = self.processing_class
        return list(processor.batch_decode(ids, skip_special_tokens=True))
