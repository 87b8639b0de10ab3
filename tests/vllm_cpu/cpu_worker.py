"""What vLLM needs on a CPU to take new weights while it runs; for these tests only.

After loading, vLLM repacks the weights of its linear layers for the CPU's matrix instructions and
drops the originals, so that there is nothing left to copy new weights into. On a GPU nothing is
repacked. Importing this module makes the layers keep their weights and use torch's own ``linear``.
"""

import torch
import vllm.model_executor.layers.utils as layers
from safetensors.torch import load_file


def keep_weight(layer: torch.nn.Module, remove_weight: bool) -> None:
    """In place of vLLM's choice of a CPU kernel."""
    layer.cpu_linear = torch.nn.functional.linear


layers.dispatch_cpu_unquantized_gemm = keep_weight


class CPUWorker:
    """What a vLLM server's worker learns: to read new weights from a file (there is no NCCL)."""

    def load_weights_from(self, path: str) -> None:
        self.model_runner.model.load_weights(load_file(path).items())
