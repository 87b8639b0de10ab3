"""What accelerate leaves open where FSDP2 divides the weights over processes; see
``trl_compat.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy


def generate_in_step(model: Any) -> None:
    """Every step of ``generate`` gathers weights from all processes, so none may end before the
    others. Transformers sees to that for models which it divided itself; this one is divided by
    accelerate.
    """
    model._is_fsdp_managed_module = True
    if hasattr(model, "get_base_model"):  # PEFT
        model.get_base_model()._is_fsdp_managed_module = True


def reduce_in_float32(state: Any) -> None:
    """Gradients of a bf16 pass are reduced, and log-probabilities, entropy and loss returned, in
    float32, where accelerate's own policy has bf16.
    """
    plugin = getattr(state, "fsdp_plugin", None)
    if plugin is not None and plugin.fsdp_version == 2:
        plugin.mixed_precision_policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
        )


def divide_again(model: Any) -> None:
    """After a forward pass without gradients FSDP2 leaves embeddings and last norm whole until the
    next backward pass; TRL, which sends weights to vLLM, takes each for a divided one.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
