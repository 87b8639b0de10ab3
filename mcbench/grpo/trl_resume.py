"""Checkpoints and resume of TRL 1.16's trainer, mended; see ``trl_compat.py``."""

import itertools
import json
import logging
import math
from pathlib import Path
from typing import Any

import torch
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.temperature import is_boundary

logger = logging.getLogger(__name__)

STATE_FILE = "microcoder_state.json"


class ResumableGRPOTrainer(GRPOTrainer):
    """``GRPOTrainer`` that continues the data order, keeps a state of its own, and knows where a
    generated batch begins.
    """

    args: MicroCoderGRPOConfig
    train_dataset: Any
    num_generations: int

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checkpoint_state: dict[str, Any] = {}  # JSON-ready, kept with every checkpoint
        self._train_sampler: Any = None  # none for a streamed dataset, which keeps its own order
        self._warn_of_checkpoints_inside_a_batch()

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._train_sampler = super()._get_train_sampler(dataset)
        return self._train_sampler

    def _skip_epoch_orders(self) -> None:
        """Draws the orders of the finished epochs, which the new sampler has not drawn yet."""
        sampler = self._train_sampler
        if not self.shuffle_dataset or sampler is None:
            return
        passes = self._epoch_passes() or 1
        updates = -(-passes // self.args.gradient_accumulation_steps)
        for _ in range(self.state.global_step // updates):
            torch.randperm(sampler.num_samples, generator=sampler.generator)

    def _epoch_passes(self) -> int | None:
        """Forward-backward passes of an epoch; None where the data set does not say its length."""
        if not hasattr(self.train_dataset, "__len__"):
            return None
        assert self.args.generation_batch_size is not None  # set by GRPOConfig
        prompts = self.args.generation_batch_size // int(self.num_generations)
        return len(self.train_dataset) // prompts * self.args.passes_per_generation

    def is_boundary(self, step: int) -> bool:
        """Whether an update after ``step`` of them begins with a new generation; the last update of
        an epoch may have fewer passes than the others.
        """
        accumulated, every = self.args.gradient_accumulation_steps, self.args.passes_per_generation
        return is_boundary(step, accumulated, every, self._epoch_passes())

    def near_boundaries(self, step: int) -> str:
        """The nearest steps on either side of one that is none."""
        below = next(n for n in range(step, -1, -1) if self.is_boundary(n))
        above = next(n for n in itertools.count(step) if self.is_boundary(n))
        return f"{below} and {above}"

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Before the rest: a checkpoint that has its weights and not this would resume otherwise.
        if self.checkpoint_state and self.args.should_save:
            path = self._checkpoint_folder(trial) / STATE_FILE
            path.write_text(json.dumps(self.checkpoint_state))
        super()._save_checkpoint(model, trial)

    def _checkpoint_folder(self, trial: Any) -> Path:
        """Where the checkpoint of this step is written; made if it is not there."""
        folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        path = Path(self._get_output_dir(trial=trial)) / folder
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        step = self.state.global_step
        inside = not self.is_boundary(step)
        inexact = {
            f"step {step} lies inside a generated batch, which is not stored: it is generated anew "
            f"(the nearest boundaries are {self.near_boundaries(step)})": inside,
            "the synchronised reference model is not stored": self.args.sync_ref_model,
            "the place in a streamed data set is not stored": self._epoch_passes() is None,
        }
        for reason in (text for text, holds in inexact.items() if holds):
            logger.warning("resuming from %s is not exact: %s", checkpoint, reason)
        self._skip_epoch_orders()
        path = Path(checkpoint) / STATE_FILE
        self.checkpoint_state = json.loads(path.read_text()) if path.is_file() else {}

    def _warn_of_checkpoints_inside_a_batch(self) -> None:
        last, every = self._last_step(), self.args.save_steps
        if self.args.save_strategy != "steps" or every <= 0:
            return
        if every < 1:  # a share of all updates, rounded as transformers does
            if last is None:
                return
            every = math.ceil(last * every)
        every = int(every)
        known = last if self.args.max_steps > 0 and last else 2 * every
        saved = range(every, known + 1, every)  # nothing is left to do after the last one
        inside = next((step for step in saved if not self.is_boundary(step)), None)
        if inside is not None:
            logger.warning(
                "checkpoints every %d steps: that of step %d lies inside a generated batch (the "
                "nearest boundaries are %s); a run resumed from there is not the uninterrupted one",
                every,
                inside,
                self.near_boundaries(inside),
            )

    def _last_step(self) -> int | None:
        """Updates of the whole training; None where the data set does not say its length."""
        if self.args.max_steps > 0:
            return self.args.max_steps
        passes = self._epoch_passes()
        if passes is None:
            return None
        updates = -(-passes // self.args.gradient_accumulation_steps)
        return math.ceil(self.args.num_train_epochs * updates)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """TRL's, without a link where the model has no name on the hub."""
        super().create_model_card(*args, **kwargs)
        card = Path(str(self.args.output_dir), "README.md")
        if self.is_world_process_zero():
            text = card.read_text(encoding="utf-8")
            link = "[None](https://huggingface.co/None)"
            card.write_text(text.replace(link, f"`{name_of(self.model)}`"), encoding="utf-8")


def name_of(model: Any) -> str:
    """What a model is called, for the folder of its training."""
    name = model if isinstance(model, str) else getattr(model.config, "_name_or_path", "")
    return Path(name).name or "model"
