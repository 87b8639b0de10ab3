"""Dynamic sampling of groups that straddle processes, as a script: see
``test_dynamic_sampling.py``.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from accelerate import PartialState

from mcbench.files import plain
from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer

from .conftest import common_args, logged, make_dataset, make_model, make_tokenizer, model_directory

LETTERS = "abcdefghijklmn"


def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Responses that the prompt and their place in its group decide; a few have no token."""
    tokenizer = trainer.processing_class
    offset, size = trainer.accelerator.process_index * len(prompts), trainer.num_generations
    texts = [
        f"{LETTERS[LETTERS.index(prompt[0]) * ((offset + i) % size) % 14]} <eos>"
        for i, prompt in enumerate(prompts)
    ]
    texts = ["" if text == "k <eos>" else text for text in texts]
    return {
        "prompt_ids": tokenizer(text=prompts)["input_ids"],
        "completion_ids": tokenizer(text=texts)["input_ids"],
        "logprobs": None,
    }


def reward(prompts: list[str], completions: list[str], log_extra: Any, **_: Any) -> list[float]:
    """Two thirds of the prompts are always failed; a column is logged of some responses alone."""
    if any(prompt < "d" for prompt in prompts):
        log_extra("said", [text.upper() for text in completions])
    return [
        float(LETTERS.index(prompt[0]) % 3 == 1 and text > "e")
        for prompt, text in zip(prompts, completions, strict=True)
    ]


def run(output_dir: str, per_device: int, size: int) -> dict[str, Any]:
    """What three generations are trained on, in groups of ``size``."""
    batches: list[Any] = []
    changes = {"per_device_train_batch_size": per_device, "num_generations": size, "max_steps": 3}
    trainer = MicroCoderGRPOTrainer(
        make_model(),
        reward,
        MicroCoderGRPOConfig(**{**common_args(output_dir), **changes}, dynamic_sampling=12),
        make_dataset(),
        processing_class=make_tokenizer(),
        rollout_func=rollout,
        on_generation=batches.append,
    )
    trainer.train()
    return {
        "prompts": [batch.prompts for batch in batches],
        "said": [batch.completions for batch in batches],
        "rewards": [plain(batch.rewards) for batch in batches],
        "without": [sum(int(not own.any()) for own in batch.own or ()) for batch in batches],
        "advantages": [[round(a, 4) for a in batch.advantages.tolist()] for batch in batches],
        "sampled": logged(trainer, "dynamic/groups_sampled"),
        "columns": [sorted(batch.columns) for batch in batches],
        "mean": logged(trainer, "completions/mean_length"),
    }


def run_tools(output_dir: str) -> dict[str, Any]:
    """One generation with a tool that the first process alone uses."""
    from .test_dynamic_sampling import look, seldom, spoken, tool_tokenizer

    batches: list[Any] = []
    tokenizer = tool_tokenizer()
    if os.environ["RANK"] == "1":
        type(tokenizer).parse_response = lambda self, ids, *_, **__: {
            "role": "assistant",
            "content": self.decode(ids, skip_special_tokens=True),
        }
    changes = {"per_device_train_batch_size": 8, "max_completion_length": 24, "max_steps": 1}
    trainer = MicroCoderGRPOTrainer(
        make_model(),
        seldom,
        MicroCoderGRPOConfig(**{**common_args(output_dir), **changes}, sample_unfinished=True),
        spoken(),
        processing_class=tokenizer,
        tools=[look],
        on_generation=batches.append,
    )
    trainer.train()
    return {
        "used": [sum(int(not own.all()) for own in batch.own) for batch in batches],
        "entropies": [batch.entropies is not None for batch in batches],
    }


if __name__ == "__main__":
    model_directory()  # each process its own
    found = run(sys.argv[1], 8, 4), run(sys.argv[1], 3, 3), run_tools(sys.argv[1])
    if int(os.environ.get("RANK", "0")) == 0:
        Path(sys.argv[1], "result.json").write_text(json.dumps(found))
    PartialState().destroy_process_group()
