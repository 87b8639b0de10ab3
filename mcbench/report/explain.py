"""One step of GRPO on a real batch, taken apart: verdicts, rewards, advantages, masks."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from mcbench.errors import UserError
from mcbench.report.rendering import render

if TYPE_CHECKING:
    from mcbench.grpo import GenerationBatch, MicroCoderGRPOConfig
    from mcbench.runs.config import Config

ADVANTAGE_EPSILON = 1e-4  # TRL's, added to the group's standard deviation
LONGEST = 4000  # characters of a response that are shown
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

    Nothing is kept on disk.

    Args:
        profile, recipe, seed, settings: as for a run (:func:`mcbench.runs.resolve.resolve`).

    Raises:
        UserError: a name or value that a run would refuse too.
    """
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging as transformers_logging

    from mcbench.evaluator import CodeReward, Evaluator
    from mcbench.grpo import MicroCoderGRPOTrainer
    from mcbench.grpo.masking import uniform_draws
    from mcbench.runs.judge import reward_evaluator
    from mcbench.runs.problems import load_problems, training_row
    from mcbench.runs.resolve import resolve
    from mcbench.runs.schedule import prompt_schedule
    from mcbench.runs.train import load_model, trainer_arguments

    transformers_logging.disable_progress_bar()
    config = resolve(profile, recipe, settings, seed)
    plan = config.batch()
    schedule = prompt_schedule(load_problems(config.train_set), config.train_batch_size, seed)
    batches: list[GenerationBatch] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Evaluator(workers=config.reward_workers) as ours,
        reward_evaluator(config, ours) as evaluator,
    ):
        arguments = trainer_arguments(config, Path(folder))
        arguments.max_steps = plan.updates_per_generation * arguments.num_iterations
        arguments.save_strategy = "no"
        model, tokenizer = load_model(config)
        print(
            f"{config.model}: {plan.train_batch_size} prompts x {plan.num_generations} responses "
            f"of up to {config.max_completion_length} tokens, then {arguments.max_steps} updates"
        )
        rows = [training_row(problem, config.prompt_style) for problem in schedule]
        trainer = MicroCoderGRPOTrainer(
            model=model,
            args=arguments,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list(rows),
            reward_funcs=[CodeReward(evaluator, early_exit=False)],
            on_generation=batches.append,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    logs = [line for line in trainer.state.log_history if "loss" in line]
    updates = pd.DataFrame(logs).set_index("step").reindex(columns=list(UPDATE_COLUMNS))
    # The key that masking.uniform_draws documents: seed, step, generations before at that step.
    draws = uniform_draws((arguments.seed, 0, 0), len(batches[0].masked)).numpy()
    return Generation(config, arguments, batches[0], draws, updates.rename(columns=UPDATE_COLUMNS))


def raw_advantages(generation: Generation) -> np.ndarray:
    """Advantages before the mask, (B,): the reward's distance from its group's mean.

    Divided by the group's standard deviation where the recipe does so (Shao et al. 2024, §4.1.2).
    """
    rewards = pd.Series(generation.batch.rewards)
    groups = rewards.groupby(generation.batch.group)
    centred = rewards - groups.transform("mean")
    if generation.arguments.scale_rewards == "group":
        centred = centred / (groups.transform("std") + ADVANTAGE_EPSILON)
    elif generation.arguments.scale_rewards == "batch":
        centred = centred / (rewards.std() + ADVANTAGE_EPSILON)
    return centred.fillna(0.0).to_numpy()


def reason(generation: Generation, index: int) -> str:
    """Why response ``index`` was masked or not, condition by condition in the order of Eq. 2."""
    batch, arguments = generation.batch, generation.arguments
    if arguments.truncation_mask == "none":
        return "kept: this recipe has no mask"
    if not batch.truncated[index]:
        return "kept: it ended by itself"
    if arguments.truncation_mask == "all":
        return "masked: it was cut at the limit"
    if batch.repeating[index]:
        return "kept: cut, but repeating itself"
    if not batch.eligible[arguments.mask_when][index]:
        return f"kept: cut, but not {arguments.mask_when.replace('_', '-')}"
    draw, rho = generation.draws[index], arguments.mask_ratio
    if batch.masked[index]:
        return f"masked: cut, {arguments.mask_when}, not repeating, draw {draw:.2f} < rho {rho:g}"
    return f"kept: cut and {arguments.mask_when}, but draw {draw:.2f} ≥ rho {rho:g}"


def responses(generation: Generation, group: int) -> pd.DataFrame:
    """The G responses of one prompt, one row each.

    Raises:
        UserError: there is no such group.
    """
    batch, rows = generation.batch, generation.rows(group)
    verdicts = batch.columns.get("verdicts", [""] * len(batch.masked))
    table = weighed(generation, rows)
    table.insert(1, "verdicts", [verdicts[i] for i in rows])
    return table.set_index(pd.Index(range(1, len(rows) + 1), name="response"))


def weighed(generation: Generation, rows: np.ndarray) -> pd.DataFrame:
    """What some responses weigh in the update before and after the mask, and why; one row each."""
    batch = generation.batch
    return pd.DataFrame(
        {
            "tokens": batch.lengths[rows],
            "reward": batch.rewards[rows],
            "advantage": raw_advantages(generation)[rows].round(3),
            "after mask": batch.advantages[rows].round(3),
            "mask": [reason(generation, i) for i in rows],
        }
    )


def group_summary(generation: Generation) -> pd.DataFrame:
    """One row per prompt: how its responses did."""
    batch = generation.batch
    frame = pd.DataFrame(
        {
            "right": batch.rewards >= generation.arguments.correct_threshold,
            "mean tokens": batch.lengths,
            "cut": batch.truncated,
            "masked": batch.masked,
        }
    )
    how = {"right": "sum", "mean tokens": "mean", "cut": "sum", "masked": "sum"}
    table = frame.groupby(batch.group).agg(how)
    size = len(batch.masked) // len(table)
    mixed = (table["right"] > 0) & (table["right"] < size)
    table["gradient"] = mixed.map({True: "yes: mixed", False: "none: all alike"})
    table.index.name = "prompt"
    return table.round(1)


def telling_group(generation: Generation) -> int:
    """A prompt worth looking at: masked responses and right ones if there are, else mixed."""
    table = group_summary(generation)
    mixed, masked = table["gradient"] == "yes: mixed", table["masked"] > 0
    return int((4 * (mixed & masked) + 2 * mixed + masked).to_numpy().argmax())


def show_prompt(generation: Generation, group: int) -> HTML:
    """The prompt of one group, escaped."""
    prompt = generation.batch.prompts[generation.rows(group)[0]]
    text = prompt if isinstance(prompt, str) else "\n\n".join(m["content"] for m in prompt)
    return HTML(render("responses.html", prompt=text, responses=()))


def show_responses(generation: Generation, group: int) -> HTML:
    """The responses of one group (their first :data:`LONGEST` characters), escaped."""
    shown = []
    lines = responses(generation, group).to_dict("records")
    for number, (index, line) in enumerate(zip(generation.rows(group), lines, strict=True), 1):
        text = generation.batch.completions[index]
        more = f" … ({len(text)} characters)" if len(text) > LONGEST else ""
        head = f"{number} · {line['verdicts']} · {line['tokens']} tokens · {line['mask']}"
        right = line["reward"] >= generation.arguments.correct_threshold
        shown.append({"head": head, "text": text[:LONGEST] + more, "right": right})
    return HTML(render("responses.html", prompt="", responses=shown))
