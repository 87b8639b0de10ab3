"""TRL 1.16's importance correction for another sampler than vLLM; see ``trl_compat.py``."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo import correction
from mcbench.grpo.trl_resume import ResumableGRPOTrainer


class CorrectedGRPOTrainer(ResumableGRPOTrainer):
    """``GRPOTrainer`` whose correction can be seen, and studied without vLLM."""

    _scored: dict[str, Any] | None = None  # what TRL's loss reads, while it is computed
    _draws: tuple[int, int] = (-1, -1)  # global step and how many batches it had generated before

    @property
    def draw_key(self) -> tuple[int, int, int]:
        """(seed, global step, batches this step generated before): the same after a resume."""
        return (self.args.seed, *self._draws)

    def next_draw(self) -> None:
        """Begins the draws of another training batch."""
        step, (previous, count) = self.state.global_step, self._draws
        self._draws = (step, count + 1 if step == previous else 0)

    def importance_weights(self, output: dict[str, Any]) -> Tensor | None:
        """(B,) what the correction leaves of the responses of all processes; None without one."""
        ratio = output.get("importance_sampling_ratio")
        if ratio is None:
            return None
        return self.accelerator.gather(correction.response_weights(ratio, loss_mask(output)))

    def noise(self, lengths: list[int]) -> list[NDArray[np.float64]]:
        step, count = self._draws  # -1 outside of a batch
        key = (self.args.seed, step + 1, count + 1, self.accelerator.process_index)
        return correction.noise(key, lengths, self.args.sampler_noise)

    def correct_noisy_sampler(self, output: dict[str, Any]) -> None:
        """Gives ``output`` the factors that TRL gives it where vLLM samples; what sampled here has
        the policy's own log-probabilities, and the noise that is asked for.
        """
        if self.use_vllm or not self.args.sampler_noise:
            return
        policy = output.get("old_per_token_logps")
        if policy is None:
            raise UserError(
                "sampler_noise needs the policy's log-probabilities, which are computed where "
                "several updates follow a generation (or with vLLM)"
            )
        noise = self.noise([policy.size(1)] * len(policy))
        sampler = policy + torch.as_tensor(np.stack(noise), dtype=policy.dtype).to(policy.device)
        output["sampling_per_token_logps"] = sampler
        if self.args.vllm_importance_sampling_correction:
            output["importance_sampling_ratio"] = correction.importance_weights(
                policy,
                sampler,
                loss_mask(output),
                self.args.vllm_importance_sampling_mode,
                self.args.vllm_importance_sampling_clip_max,
                self.args.vllm_importance_sampling_clip_min,
            )

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        ratio = inputs.get("importance_sampling_ratio")
        if ratio is not None and not self.use_vllm:  # else TRL multiplies the loss by it
            # The losses that TRL multiplies are proportional to the advantage of the token.
            inputs = {**inputs, "advantages": inputs["advantages"].unsqueeze(1) * ratio}
        self._scored, reference = inputs, inputs.get("ref_per_token_logps")
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._scored = None
            if reference is not None:  # the batch serves further updates
                inputs["ref_per_token_logps"] = reference


def loss_mask(output: dict[str, Any]) -> Tensor:
    """(B, T) the tokens in the loss: of the response, and not of a tool."""
    mask: Tensor = output["completion_mask"]
    return mask * output["tool_mask"] if "tool_mask" in output else mask
