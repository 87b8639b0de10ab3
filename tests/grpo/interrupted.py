"""A run of several processes and the ones resumed from each of its checkpoints, as a script: each
process says what differs (see ``test_processes.py``).
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer
from mcbench.runs.train import _know_numbered_processors

from .conftest import (
    common_args,
    letter_reward,
    make_dataset,
    make_model,
    make_tokenizer,
    model_directory,
)

STEPS = 4
LOST = 3  # the checkpoint of which the second process loses its part of the batch


def trained(folder: Path, checkpoint: Path | None = None) -> tuple[dict[str, Any], list[int]]:
    """The weights at the end, and the steps at which the first process saw a generation."""
    changes = {"steps_per_generation": 2, "max_steps": STEPS, "save_steps": 1, "num_generations": 8}
    settings = {**common_args(folder), **changes, "save_strategy": "no" if checkpoint else "steps"}
    steps: list[int] = []
    trainer = MicroCoderGRPOTrainer(
        make_model(),
        letter_reward,
        MicroCoderGRPOConfig(**settings),
        make_dataset(),
        processing_class=make_tokenizer(),
        on_generation=lambda batch: steps.append(batch.step),
    )
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    return trainer.accelerator.unwrap_model(trainer.model).state_dict(), steps


if __name__ == "__main__":
    model_directory()  # each process its own; among several only the first would write it
    _know_numbered_processors()  # for the optimizer
    logging.basicConfig()
    folder, state = Path(sys.argv[1]), PartialState()
    whole, _ = trained(folder)
    found: dict[str, Any] = {"files": sorted(p.name for p in folder.glob("*-1/*batch*"))}
    for step in range(1, STEPS):
        state.wait_for_everyone()
        weights, _ = trained(folder, folder / f"checkpoint-{step}")
        found[str(step)] = all(torch.equal(weights[name], whole[name]) for name in whole)
    if state.process_index == 1:
        (folder / f"checkpoint-{LOST}" / "microcoder_batch_1.pt").unlink()
    state.wait_for_everyone()
    found["generated after a loss"] = trained(folder, folder / f"checkpoint-{LOST}")[1]
    (folder / f"result_{state.process_index}.json").write_text(json.dumps(found))
    state.destroy_process_group()
