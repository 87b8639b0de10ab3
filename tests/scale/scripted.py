"""``mcbench`` with responses from a script in place of sampling.

How responses are drawn depends on the process that draws them; everything after that must not. So
runs of one and of several processes are compared with responses that depend on the prompt, the
place in the global batch and the step alone.
"""

import functools
import os
import sys
import zlib
from typing import Any

RESPONSES = (
    "```python\n```<eos>",
    "```python\nx\n```<eos>",
    "x\n" * 12,
    " 1 2 3 4 5 6 7 8 9 10 11 12 13 14",
)
LIMIT = 12


def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """The script as a TRL rollout function."""
    tokenizer = trainer.processing_class
    first = trainer.accelerator.process_index * len(prompts)
    chosen = [
        RESPONSES[zlib.crc32(f"{prompt} {first + i} {trainer.state.global_step}".encode()) % 4]
        for i, prompt in enumerate(prompts)
    ]
    return {
        "prompt_ids": tokenizer(text=prompts)["input_ids"],
        "completion_ids": [ids[:LIMIT] for ids in tokenizer(text=chosen)["input_ids"]],
        "logprobs": None,
    }


def follow_script() -> None:
    """Have every trainer of this process follow the script, and of those that it launches."""
    from mcbench import grpo
    from mcbench.scale.launch import Launch

    grpo.MicroCoderGRPOTrainer = functools.partial(grpo.MicroCoderGRPOTrainer, rollout_func=rollout)
    command = Launch.command
    Launch.command = lambda self, arguments: [
        "scripted" if part == "mcbench" else part for part in command(self, arguments)
    ]


def shard_on_cpu() -> None:
    """Let accelerate shard with FSDP2 where there is no accelerator: it would leave it out.

    Only how processes find each other and where tensors live is replaced; sharding, gathering
    and saving are PyTorch's and accelerate's own.
    """
    import torch
    from accelerate import accelerator
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    def prepare(*_: Any, **__: Any) -> tuple[str, DistributedType]:
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo")
        return "gloo", DistributedType.MULTI_GPU

    prepare_model = accelerator.fsdp2_prepare_model

    def say_share(*args: Any) -> Any:
        model = prepare_model(*args)
        here, whole = (
            sum(count(parameter) for parameter in model.parameters())
            for count in (lambda p: p.to_local().numel(), lambda p: p.numel())
        )
        print(f"this process holds {here / whole:.0%} of the model")
        return model

    accelerator.fsdp2_prepare_model = say_share
    PartialState._prepare_backend = prepare
    PartialState.set_device = lambda self: setattr(self, "device", torch.device("cpu"))


if __name__ == "__main__":
    from mcbench.cli import main

    follow_script()
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        shard_on_cpu()
    sys.exit(main())
