"""Checkpoints and resume of TRL 1.16's trainer, mended; see ``trl_compat.py``.

A checkpoint that lies inside a generated batch holds, beside TRL's files, what is left of that
batch (``BATCH_FILE``, one of each process), so that the run that is resumed from it is the
uninterrupted one. A checkpoint at a generation boundary needs and gets none.
"""

import itertools
import json
import logging
from collections import deque
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import send_to_device
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.temperature import pass_in_batch

logger = logging.getLogger(__name__)

STATE_FILE = "microcoder_state.json"
BATCH_FILE = "microcoder_batch_{}.pt"
OF_BATCH = ("_trained_ids", "_log_ratios", "_skipped", "beta")
"""Attributes that are set where a batch is generated and read until the next one is."""
MADE_WITH = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "num_iterations",
    "num_generations",
    "beta",
    "use_vllm",
    "vllm_importance_sampling_correction",
)
"""Settings without which a stored batch is of no use; its temperature and length come to them."""


class ResumableGRPOTrainer(GRPOTrainer):
    """``GRPOTrainer`` that continues the data order and the batch it was in, keeps a state of its
    own, and knows where a generated batch begins.
    """

    args: MicroCoderGRPOConfig
    model: Any
    train_dataset: Any
    num_generations: int
    temperature: float
    max_completion_length: int | None
    _step: int  # passes; TRL's own, from which it knows where in a batch it is
    _buffered_inputs: Any  # the slices of the batch, None before the first
    _logs: dict[str, Any]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checkpoint_state: dict[str, Any] = {}  # JSON-ready, kept with every checkpoint
        self._train_sampler: Any = None  # none for a streamed dataset, which keeps its own order

    def enter_stage(self) -> None:
        """Puts in force what the current step is trained with; see ``stages.py``."""

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

    def pass_in_batch(self, step: int) -> int:
        """Passes already made with the batch that the update after ``step`` of them begins in."""
        accumulated, every = self.args.gradient_accumulation_steps, self.args.passes_per_generation
        return pass_in_batch(step, accumulated, every, self._epoch_passes())

    def is_boundary(self, step: int) -> bool:
        """Whether an update after ``step`` of them begins with a new generation; the last update of
        an epoch may have fewer passes than the others.
        """
        return self.pass_in_batch(step) == 0

    def near_boundaries(self, step: int) -> str:
        """The nearest steps on either side of one that is none."""
        below = next(n for n in range(step, -1, -1) if self.is_boundary(n))
        above = next(n for n in itertools.count(step) if self.is_boundary(n))
        return f"{below} and {above}"

    # -- what a checkpoint holds

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Before the rest: a checkpoint that has its weights and not this would resume otherwise.
        if self.checkpoint_state and self.args.should_save:
            path = self._checkpoint_folder(trial) / STATE_FILE
            path.write_text(json.dumps(self.checkpoint_state))
        batch = self._checkpoint_folder(trial) / self._batch_file
        batch.unlink(missing_ok=True)  # of another run in the same folder
        if self._step % self.args.passes_per_generation and not self.args.save_only_model:
            torch.save(self._rest_of_batch(), batch)
        super()._save_checkpoint(model, trial)

    def _checkpoint_folder(self, trial: Any) -> Path:
        """Where the checkpoint of this step is written; made if it is not there."""
        folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        path = Path(self._get_output_dir(trial=trial)) / folder
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def _batch_file(self) -> str:
        return BATCH_FILE.format(self.accelerator.process_index)

    def _made_with(self) -> dict[str, Any]:
        made: dict[str, Any] = {name: getattr(self.args, name) for name in MADE_WITH}
        made["processes"] = self.accelerator.num_processes
        length = self.max_completion_length
        return {**made, "temperature": self.temperature, "max_completion_length": length}

    def _rest_of_batch(self) -> dict[str, Any]:
        """What this process needs to go on inside the batch; of tensors and plain values, so that
        it is read without running code. Slices of the batch that have served are left out.
        """
        every, slices = self.args.passes_per_generation, len(self._buffered_inputs)
        done = self._step % every
        left = {place % slices for place in range(done, every)}
        batch = [one if n in left else None for n, one in enumerate(self._buffered_inputs)]
        logged: dict[str, Any] = {"metrics": self._metrics["train"], "logs": {}}
        if self.log_completions:  # TRL shows the batch after each of its updates
            logged["logs"] = {name: rows for name, rows in self._logs.items() if name != "images"}
        own = {name: getattr(self, name) for name in OF_BATCH if hasattr(self, name)}
        return {
            "made_with": self._made_with(),
            "done": done,
            "batch": _on_cpu(batch),
            "own": _on_cpu(own),
            "logged": json.dumps(logged, default=_plain),
        }

    # -- resume

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> Any:
        prepared = super()._prepare_for_training(
            max_steps, train_dataloader, resume_from_checkpoint
        )
        # TRL would begin to count at 0 after a resume, and go on counting where train() is called
        # again, with what was left of its last batch.
        self._step, self._buffered_inputs = self.pass_in_batch(self.state.global_step), None
        self.model.train()  # as where a batch is generated
        self.enter_stage()  # before an evaluation at the start
        if resume_from_checkpoint is not None:
            missing = self._go_on_in_batch(Path(resume_from_checkpoint))
            self._tell_inexact(resume_from_checkpoint, missing)
        return prepared

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        self._skip_epoch_orders()
        path = Path(checkpoint) / STATE_FILE
        self.checkpoint_state = json.loads(path.read_text()) if path.is_file() else {}

    def _go_on_in_batch(self, checkpoint: Path) -> str:
        """Takes up the batch that a checkpoint lies in; empty, or why that cannot be. A new batch
        then serves the passes that were left, so that those after it begin where they would have.
        """
        path = checkpoint / self._batch_file
        found: dict[str, Any] = {}
        if path.is_file():
            found = torch.load(path, map_location="cpu", weights_only=True)
        was, now = found.get("made_with", {}), self._made_with()
        fits = torch.tensor([was == now], device=self.accelerator.device)
        if self.accelerator.gather(fits).all():  # else some would generate and others not
            self._take_up(found)
            return ""
        step = self.state.global_step
        if self.is_boundary(step):
            return ""
        changed = [f"{name} {was[name]}, now {now[name]}" for name in was if was[name] != now[name]]
        why = f"was made with other settings ({', '.join(changed)})" if changed else "is not stored"
        return (
            f"step {step} lies inside a generated batch, which {why}: a new one is generated for "
            f"the rest of it (the nearest boundaries are {self.near_boundaries(step)})"
        )

    def _take_up(self, found: dict[str, Any]) -> None:
        """Puts what :meth:`_rest_of_batch` gave back in its place."""
        self._step = found["done"]
        self._buffered_inputs = send_to_device(found["batch"], self.accelerator.device)
        for name, value in found["own"].items():
            setattr(self, name, value)
        logged = json.loads(found["logged"])
        self._metrics["train"].update(logged["metrics"])
        for name, rows in logged["logs"].items():
            if isinstance(rows, dict):  # by reward function or by column
                for key, values in rows.items():
                    self._logs[name][key].extend(values)
            else:
                self._logs[name].extend(rows)

    def _tell_inexact(self, checkpoint: str, missing: str) -> None:
        inexact = {
            missing: bool(missing),
            "the synchronised reference model is not stored": self.args.sync_ref_model,
            "the place in a streamed data set is not stored": self._epoch_passes() is None,
            "ignore_data_skip begins the epoch's data anew": self.args.ignore_data_skip,
        }
        for reason in (text for text, holds in inexact.items() if holds):
            logger.warning("resuming from %s is not exact: %s", checkpoint, reason)

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


def _on_cpu(value: Any) -> Any:
    """The same with each tensor a copy of its own: of a part of one, torch would save the whole."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _on_cpu(one) for key, one in value.items()}
    return [_on_cpu(one) for one in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    """For JSON, what it does not know: a queue, a number of numpy's, and anything as text."""
    if isinstance(value, deque):
        return list(value)
    return value.item() if hasattr(value, "item") else str(value)
