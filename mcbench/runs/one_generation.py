"""One generation of a run and the updates made with it, and nothing kept on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mcbench.errors import UserError

if TYPE_CHECKING:
    from mcbench.grpo import GenerationBatch, MicroCoderGRPOConfig
    from mcbench.runs.config import Config

UPDATE_COLUMNS = {
    "loss": "loss",
    "grad_norm": "gradient norm",
    "entropy": "entropy (nats)",
    "clip_ratio/low_mean": "clipped low",
    "clip_ratio/high_mean": "clipped high",
}


@dataclass(frozen=True)
class Generation:
    """One generated batch (B = P·G responses) and the updates made with it.

    ``draws`` (B,) are the mask's uniform draws, ``updates`` has one row per optimizer update.
    """

    config: Config
    arguments: MicroCoderGRPOConfig
    batch: GenerationBatch
    draws: np.ndarray
    updates: pd.DataFrame

    def rows(self, group: int) -> np.ndarray:
        """The indices of one prompt's responses, (G,).

        Raises:
            UserError: there is no such group.
        """
        found = np.flatnonzero(self.batch.group == group)
        if not found.size:
            last = int(self.batch.group.max())
            raise UserError(f"group {group} does not exist; allowed: 0 to {last}")
        return found


def one_generation(
    profile: str = "nano",
    recipe: str = "microcoder",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Generation:
    """Sample one batch, score it, make all updates that follow it, and record what happened.

    Nothing is kept on disk. Of runs whose answers of one turn are rewarded by tests.

    Args:
        profile, recipe, seed, settings: as for a run (:func:`mcbench.runs.resolve.resolve`).

    Raises:
        UserError: a name or value that a run would refuse too, or another task or reward.
    """
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging as transformers_logging

    from mcbench.evaluator import CodeReward, Evaluator
    from mcbench.grpo import MicroCoderGRPOTrainer
    from mcbench.grpo.masking import uniform_draws
    from mcbench.runs.arguments import lora
    from mcbench.runs.evaluate import select_problems
    from mcbench.runs.judge import reward_evaluator
    from mcbench.runs.problems import load_problems, training_row
    from mcbench.runs.resolve import resolve
    from mcbench.runs.schedule import prompt_schedule
    from mcbench.runs.train import load_model, trainer_arguments
    from mcbench.worlds import TESTS, task_of

    transformers_logging.disable_progress_bar()
    config = resolve(profile, recipe, settings, seed)
    plan = config.batch()
    problems = select_problems(load_problems(config.train_set), config.train_limit)
    if task_of(problems) is not task_of(()) or config.reward != TESTS:
        raise UserError(
            "one step is taken apart where tests reward answers of one turn, and "
            f"{config.train_set} with reward={config.reward} is something else; choose another "
            "profile"
        )
    schedule = prompt_schedule(problems, config.train_batch_size, seed)
    probes = select_problems(problems, config.temperature_probe_prompts)
    batches: list[GenerationBatch] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Evaluator(workers=config.reward_workers) as ours,
        reward_evaluator(config, ours) as evaluator,
    ):
        arguments = trainer_arguments(config, Path(folder))
        arguments.max_steps = plan.updates_per_generation * arguments.num_iterations
        arguments.save_strategy = "no"
        model, tokenizer = load_model(config.model)
        print(
            f"{config.model}: {plan.train_batch_size} prompts x {plan.num_generations} responses "
            f"of up to {config.max_completion_length} tokens, then {arguments.max_steps} updates"
        )
        rows = [training_row(problem, config.prompt_style) for problem in schedule]
        if config.measures_temperature:
            arguments.temperature_probe_prompts = min(len(probes), len(rows))
        trainer = MicroCoderGRPOTrainer(
            model=model,
            args=arguments,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list(rows),
            reward_funcs=[CodeReward(evaluator, early_exit=False)],
            on_generation=batches.append,
            peft_config=lora(config.lora_rank),
        )
        trainer.stages.probe_rows = [training_row(one, config.prompt_style) for one in probes]
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    logs = [line for line in trainer.state.log_history if "loss" in line]
    updates = pd.DataFrame(logs).set_index("step").reindex(columns=list(UPDATE_COLUMNS))
    # The key that masking.uniform_draws documents: seed, step, generations before at that step.
    draws = uniform_draws((arguments.seed, 0, 0), len(batches[0].masked)).numpy()
    return Generation(config, arguments, batches[0], draws, updates.rename(columns=UPDATE_COLUMNS))
