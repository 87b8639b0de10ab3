"""One step of GRPO on a real batch, taken apart: verdicts, rewards, advantages, masks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mcbench.errors import UserError

if TYPE_CHECKING:
    from mcbench.grpo import GenerationBatch, MicroCoderGRPOConfig
    from mcbench.runs.config import Config

ADVANTAGE_EPSILON = 1e-4  # TRL's, added to the group's standard deviation
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

    @property
    def groups(self) -> int:
        """Number of prompts P."""
        return int(self.batch.group.max()) + 1


def one_generation(
    profile: str = "nano",
    recipe: str = "microcoder",
    seed: int = 0,
    changes: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> Generation:
    """Sample one batch, score it, make all updates that follow it, and record what happened.

    Nothing is kept on disk.

    Args:
        profile, recipe, seed: as for a run (:func:`mcbench.runs.config.resolve`).
        changes: differences from both as ``NAME=VALUE``, VALUE in JSON or plain text.

    Raises:
        UserError: a name or value that a run would refuse too.
    """
    from transformers.utils import logging as transformers_logging

    from mcbench.grpo.masking import uniform_draws
    from mcbench.runs.config import parse_settings, resolve
    from mcbench.runs.train import load_model, trainer_arguments

    transformers_logging.disable_progress_bar()
    say = progress or print
    config = resolve(profile, recipe, parse_settings(changes), seed)
    batch_plan = config.batch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = trainer_arguments(config, Path(folder))
        arguments.max_steps = batch_plan.updates_per_generation * arguments.num_iterations
        arguments.save_strategy = "no"
        model, tokenizer = load_model(config)
        say(
            f"{config.model}: {batch_plan.train_batch_size} prompts x "
            f"{batch_plan.num_generations} responses of up to "
            f"{config.max_completion_length} tokens, then {arguments.max_steps} updates"
        )
        batch, updates = _run(config, arguments, model, tokenizer)
    # The key that masking.uniform_draws documents: seed, step, generations before at that step.
    draws = uniform_draws((arguments.seed, 0, 0), len(batch.masked)).numpy()
    return Generation(config, arguments, batch, draws, updates)


def _run(
    config: Config, arguments: MicroCoderGRPOConfig, model: Any, tokenizer: Any
) -> tuple[GenerationBatch, pd.DataFrame]:
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback

    from mcbench.evaluator import CodeReward, Evaluator
    from mcbench.grpo import MicroCoderGRPOTrainer
    from mcbench.runs.problems import load_problems, training_row
    from mcbench.runs.train import prompt_schedule, reward_evaluator

    problems = load_problems(config.train_set)
    schedule = prompt_schedule(problems, config.train_batch_size, config.seed)
    rows = [training_row(problem, config.prompt_style) for problem in schedule]
    batches: list[GenerationBatch] = []
    with (
        Evaluator(workers=config.reward_workers) as ours,
        reward_evaluator(config, ours) as evaluator,
    ):
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
    return batches[0], updates.rename(columns=UPDATE_COLUMNS)


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
    batch = generation.batch
    if not 0 <= group < generation.groups:
        raise UserError(f"group {group} does not exist; allowed: 0 to {generation.groups - 1}")
    rows = np.flatnonzero(batch.group == group)
    before = raw_advantages(generation)
    verdicts = batch.columns.get("verdicts", [""] * len(batch.masked))
    return pd.DataFrame(
        {
            "tokens": batch.lengths[rows],
            "verdicts": [verdicts[i] for i in rows],
            "reward": batch.rewards[rows],
            "advantage": before[rows].round(3),
            "after mask": batch.advantages[rows].round(3),
            "mask": [reason(generation, i) for i in rows],
        },
        index=pd.Index(range(1, len(rows) + 1), name="response"),
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
    table = frame.groupby(batch.group).agg(
        {"right": "sum", "mean tokens": "mean", "cut": "sum", "masked": "sum"}
    )
    size = len(batch.masked) // generation.groups
    mixed = (table["right"] > 0) & (table["right"] < size)
    table["gradient"] = mixed.map({True: "yes: mixed", False: "none: all alike"})
    table.index.name = "prompt"
    return table.round(1)


def telling_group(generation: Generation) -> int:
    """A prompt worth looking at: masked responses and right ones if there are, else mixed."""
    table = group_summary(generation)
    size = len(generation.batch.masked) // generation.groups
    mixed = (table["right"] > 0) & (table["right"] < size)
    score = 4 * (mixed & (table["masked"] > 0)) + 2 * mixed + (table["masked"] > 0)
    return int(score.to_numpy().argmax())


@dataclass(frozen=True)
class Html:
    """Markup that a notebook shows as it is; its text was escaped when it was made."""

    markup: str

    def _repr_html_(self) -> str:
        return self.markup


_PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;margin:.3em 0 .8em;padding:.6em .8em;"
    "border-left:3px solid {color};background:rgba(128,134,144,.1);font-size:12px"
)


def show_prompt(generation: Generation, group: int) -> Html:
    """The prompt of one group, escaped."""
    index = int(np.flatnonzero(generation.batch.group == group)[0])
    prompt = generation.batch.prompts[index]
    text = prompt if isinstance(prompt, str) else "\n\n".join(m["content"] for m in prompt)
    return Html(f'<pre style="{_PRE.format(color="#8A9099")}">{escape(text)}</pre>')


def show_responses(generation: Generation, group: int, limit: int = 4000) -> Html:
    """The responses of one group in full (the first ``limit`` characters), escaped."""
    rows = np.flatnonzero(generation.batch.group == group)
    table = responses(generation, group)
    parts = []
    for number, index in enumerate(rows, start=1):
        line = table.loc[number]
        color = "#009E73" if line["reward"] >= 1 else "#D55E00"
        head = f"{number} · {line['verdicts']} · {line['tokens']} tokens · {line['mask']}"
        text = generation.batch.completions[index]
        shown = text[:limit] + (f" … ({len(text)} characters)" if len(text) > limit else "")
        parts.append(
            f"<details{' open' if number == 1 else ''}><summary>{escape(head)}</summary>"
            f'<pre style="{_PRE.format(color=color)}">{escape(shown)}</pre></details>'
        )
    return Html("".join(parts))
