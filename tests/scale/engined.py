"""``mcbench`` with the engine of ``fake_vllm.py``; under FSDP2 sharded on the processor.

What each process computes is printed: where its weights and log-probabilities are of a kind that
the record does not show.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import fake_vllm
from scripted import shard_on_cpu

from mcbench.cli import main
from mcbench.grpo.trl_compat import RepairedGRPOTrainer
from mcbench.scale.launch import Launch


def tell_of_batches() -> None:
    generate = RepairedGRPOTrainer._generate_and_score_completions

    def telling(trainer: Any, inputs: Any) -> Any:
        output = generate(trainer, inputs)
        old = output["old_per_token_logps"][output["completion_mask"].bool()]
        rounded = (old == old.bfloat16().float()).float().mean()
        print(f"log-probabilities {old.dtype}, {float(rounded):.2f} of them as in bf16", flush=True)
        if "ref_per_token_logps" in output:
            apart = output["ref_per_token_logps"] - output["old_per_token_logps"]
            apart = (apart * output["completion_mask"]).abs().max()
            step = trainer.state.global_step
            print(f"step {step}: reference apart by {float(apart):.4f}", flush=True)
        return output

    RepairedGRPOTrainer._generate_and_score_completions = telling


if __name__ == "__main__":
    print(f"devices {os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)
    fake_vllm.install()
    tell_of_batches()
    command = Launch.command
    Launch.command = lambda self, arguments: [
        "engined" if part == "mcbench" else part for part in command(self, arguments)
    ]
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        shard_on_cpu()
    torch.set_num_threads(1)
    sys.exit(main())
