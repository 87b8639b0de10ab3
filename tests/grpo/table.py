"""A fixed table of responses in place of sampling, so that every number can be worked out by hand.

Each prompt is one combination of "reached the limit", "incorrect" and "repeating". Its first
response is the subject; the other three are short, finished, and right, wrong, wrong. A response
that starts with "m" is right. Run as a script it writes what a trainer makes of the table (see
``test_processes.py``).
"""

import dataclasses
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

LIMIT, WINDOW, GROUP = 6, 2, 4
CASES = list(itertools.product([True, False], repeat=3))  # reached, incorrect, repeating


def subject(reached: bool, incorrect: bool, repeating: bool) -> str:
    first = "n" if incorrect else "m"
    if repeating:
        return f"{first} c a b a b" if reached else f"{first} a b a b"
    return f"{first} c a b c d" if reached else f"{first} c a b <eos>"


def responses(case: int) -> list[str]:
    return [subject(*CASES[case]), "m <eos>", "n <eos>", "n a <eos>"]


def rows(repeat: int = 1) -> Dataset:
    prompts = ["a " * (i + 1) + "b" for i in range(len(CASES))] * repeat
    return Dataset.from_dict(
        {"prompt": prompts, "problem_id": [f"p{i % 8}" for i in range(8 * repeat)]}
    )


def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """The table as a TRL rollout function; the place in the global batch says which of the G it
    is.
    """
    tokenizer: PreTrainedTokenizerBase = trainer.processing_class
    offset = trainer.accelerator.process_index * len(prompts)
    texts = [
        responses(prompt.count("a") - 1)[(offset + i) % GROUP] for i, prompt in enumerate(prompts)
    ]
    return {
        "prompt_ids": tokenizer(text=prompts)["input_ids"],
        "completion_ids": tokenizer(text=texts)["input_ids"],
        "logprobs": None,
    }


def right(completions: list[str], **_: Any) -> list[float]:
    return [float(text.startswith("m")) for text in completions]


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "num_generations": GROUP,
        "max_completion_length": LIMIT,
        "repeat_window": WINDOW,
        "truncation_mask": "conditional",
        "shuffle_dataset": False,
        **changes,
    }


def trainer_parts() -> dict[str, Any]:
    return {"reward_funcs": right, "rollout_func": rollout, "train_dataset": rows()}


def run(output_dir: str, per_device: int) -> dict[str, Any]:
    """Two generations of the whole table with rho = 0.5: records and metrics of the first process.
    Several processes score in passes by length.
    """
    from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer

    from .conftest import common_args, make_model, make_tokenizer

    batches: list[Any] = []
    changes = settings(per_device_train_batch_size=per_device, max_steps=2, mask_ratio=0.5)
    changes["length_groups"] = 3 if int(os.environ.get("WORLD_SIZE", "1")) > 1 else 1
    trainer = MicroCoderGRPOTrainer(
        model=make_model(),
        args=MicroCoderGRPOConfig(**{**common_args(output_dir), **changes}),
        processing_class=make_tokenizer(),
        on_generation=batches.append,
        **trainer_parts(),
    )
    trainer.train()
    prefixes = ("mask/", "diversity/", "length/", "group/", "temperature", "reward", "completions/")
    metrics = [
        {key: value for key, value in line.items() if key.startswith(prefixes)}
        for line in trainer.state.log_history
        if "loss" in line
    ]
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {
        "batches": [{k: _plain(v) for k, v in vars_of(batch).items()} for batch in batches],
        "metrics": metrics,
        "losses": losses,
    }


def vars_of(batch: Any) -> dict[str, Any]:
    return {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


if __name__ == "__main__":
    output_dir, per_device = sys.argv[1], int(sys.argv[2])
    result = run(output_dir, per_device)
    if int(os.environ.get("RANK", "0")) == 0:
        Path(output_dir, "result.json").write_text(json.dumps(result))
    PartialState().destroy_process_group()  # as `mcbench.scale.launch.train_here` does, and why
