"""Checkpoints and resume of TRL 1.16's trainer, mended; see ``trl_compat.py``.

A checkpoint that lies inside a generated batch holds, beside TRL's files, what is left of that
batch (``BATCH_FILE``, one of each process), so that the run that is resumed from it is the
uninterrupted one. A checkpoint at a generation boundary needs and gets none.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections import deque
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import recursively_apply, send_to_device
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from mcbench.errors import UserError
from mcbench.grpo.truncation import truncating

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer

logger = logging.getLogger(__name__)

STATE_FILE = "microcoder_state.json"
BATCH_FILE = "microcoder_batch_{}.pt"
OF_BATCH = ("_trained_ids", "_log_ratios", "_skipped")
"""Attributes that are set where a batch is generated and read until the next one is."""
OF_OPTIMIZER = ("optimizer", "pytorch_optimizer", "global_step")
"""How its files in a checkpoint begin, with FSDP and DeepSpeed too."""
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


class Resume:
    """Where a trainer is in the generated batches, and what its checkpoints hold beside TRL's.

    ``parts`` are kept in every checkpoint, each in the file of its name: objects with ``state()``,
    which torch can save, and ``take_up(state)``.
    """

    def __init__(self, trainer: RepairedGRPOTrainer) -> None:
        self.trainer = trainer
        self.sampler: Any = None  # none for a streamed dataset, which keeps its own order
        self.parts: dict[str, Any] = {}

    def epoch_passes(self) -> int | None:
        """Forward-backward passes of an epoch; None where the data set does not say its length."""
        trainer, args = self.trainer, self.trainer.args
        if not hasattr(trainer.train_dataset, "__len__"):
            return None
        assert args.generation_batch_size is not None  # set by GRPOConfig
        prompts = args.generation_batch_size // int(trainer.num_generations)
        return len(trainer.train_dataset) // prompts * args.passes_per_generation

    def pass_in_batch(self, step: int) -> int:
        """Passes already made with the batch that the update after ``step`` of them begins in; 0
        where it begins with a new generation. An epoch has whole batches, and its last update the
        passes that are left.
        """
        args, epoch = self.trainer.args, self.epoch_passes()
        if epoch:
            step %= -(-epoch // args.gradient_accumulation_steps)
        return step * args.gradient_accumulation_steps % args.passes_per_generation

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

    def save(self, trial: Any) -> None:
        """Writes it, before the rest: a checkpoint that has its weights and not this would resume
        otherwise.
        """
        trainer = self.trainer
        folder = f"{PREFIX_CHECKPOINT_DIR}-{trainer.state.global_step}"
        path = Path(trainer._get_output_dir(trial=trial)) / folder
        path.mkdir(parents=True, exist_ok=True)
        if trainer.args.should_save:
            if trainer.checkpoint_state:
                (path / STATE_FILE).write_text(json.dumps(trainer.checkpoint_state))
            for name, part in self.parts.items():
                torch.save(part.state(), path / name)
        batch = path / self._batch_file
        batch.unlink(missing_ok=True)  # of another run in the same folder
        inside = trainer._step % trainer.args.passes_per_generation
        if inside and not trainer.args.save_only_model:
            torch.save(self._rest_of_batch(), batch)

    @property
    def _batch_file(self) -> str:
        return BATCH_FILE.format(self.trainer.accelerator.process_index)

    def _made_with(self) -> dict[str, Any]:
        trainer = self.trainer
        made: dict[str, Any] = {name: getattr(trainer.args, name) for name in MADE_WITH}
        return {
            **made,
            **truncating(trainer.args),
            "processes": trainer.accelerator.num_processes,
            "temperature": trainer.temperature,
            "max_completion_length": trainer.max_completion_length,
        }

    def _rest_of_batch(self) -> dict[str, Any]:
        """What this process needs to go on inside the batch; of tensors and plain values, so that
        it is read without running code. Slices of the batch that have served are left out.
        """
        trainer = self.trainer
        every, slices = trainer.args.passes_per_generation, len(trainer._buffered_inputs)
        done = trainer._step % every
        left = {place % slices for place in range(done, every)}
        batch = [one if n in left else None for n, one in enumerate(trainer._buffered_inputs)]
        logged: dict[str, Any] = {"metrics": trainer._metrics["train"], "logs": {}}
        if trainer.log_completions:  # TRL shows the batch after each of its updates
            logged["logs"] = {k: rows for k, rows in trainer._logs.items() if k != "images"}
        own = {name: getattr(trainer, name) for name in OF_BATCH if hasattr(trainer, name)}
        return {
            "made_with": self._made_with(),
            "done": done,
            "batch": recursively_apply(_on_cpu, batch),
            "own": recursively_apply(_on_cpu, own),
            "logged": json.dumps(logged, default=_plain),
        }

    # -- resume

    def load(self, checkpoint: str) -> None:
        """Takes up the order of the data and what was kept.

        Raises:
            UserError: that cannot be read; to go on without it would be another run.
        """
        self._skip_epoch_orders()
        path = Path(checkpoint) / STATE_FILE
        try:
            self.trainer.checkpoint_state = dict(json.loads(path.read_text()))
        except FileNotFoundError:
            self.trainer.checkpoint_state = {}
        except (OSError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged, go on from another checkpoint: {error}") from error
        for name, part in self.parts.items():
            if not (path := Path(checkpoint, name)).is_file():
                raise UserError(
                    f"the checkpoint {path.parent.name} has no {name}; go on from another"
                )
            part.take_up(torch.load(path, map_location=self.trainer.accelerator.device))

    def _skip_epoch_orders(self) -> None:
        """Draws the orders of the finished epochs, which the new sampler has not drawn yet."""
        trainer, sampler = self.trainer, self.sampler
        if not trainer.shuffle_dataset or sampler is None:
            return
        updates = -(-(self.epoch_passes() or 1) // trainer.args.gradient_accumulation_steps)
        for _ in range(trainer.state.global_step // updates):
            torch.randperm(sampler.num_samples, generator=sampler.generator)

    def go_on(self, checkpoint: str) -> None:
        """Takes up the batch that a checkpoint lies in; says where the resumed run is not the
        uninterrupted one.
        """
        args = self.trainer.args
        missing = self._go_on_in_batch(Path(checkpoint))
        names = [path.name for path in Path(checkpoint).iterdir()]
        inexact = {
            "it has weights alone (save_only_model), so that optimizer, learning rate and random "
            "numbers begin anew": not any(name.startswith(OF_OPTIMIZER) for name in names),
            missing: bool(missing),
            "the synchronised reference model is not stored": args.sync_ref_model,
            "the place in a streamed data set is not stored": self.epoch_passes() is None,
            "ignore_data_skip begins the epoch's data anew": args.ignore_data_skip,
        }
        for reason in (text for text, holds in inexact.items() if holds):
            logger.warning("resuming from %s is not exact: %s", checkpoint, reason)

    def _go_on_in_batch(self, checkpoint: Path) -> str:
        """Empty, or why the batch cannot be taken up. A new batch then serves the passes that were
        left, so that those after it begin where they would have.
        """
        trainer, path = self.trainer, checkpoint / self._batch_file
        found, why = _read_batch(path)
        was, now = found.get("made_with", {}), self._made_with()
        other = [name for name in was if was[name] != now.get(name)]
        fits = torch.tensor([bool(was) and not other], device=trainer.accelerator.device)
        if trainer.accelerator.gather(fits).all():  # else some would generate and others not
            self._take_up(found)
            return ""
        step = trainer.state.global_step
        if self.is_boundary(step):
            return ""
        if other:
            changed = (f"{name} {was[name]}, now {now.get(name)}" for name in other)
            why = f"was made with other settings ({', '.join(changed)})"
        return (
            f"step {step} lies inside a generated batch, which {why or 'another process lacks'}: a "
            "new one is generated for the rest of it (the nearest boundaries are "
            f"{self.near_boundaries(step)})"
        )

    def _take_up(self, found: dict[str, Any]) -> None:
        """Puts what :meth:`_rest_of_batch` gave back in its place."""
        trainer = self.trainer
        trainer._step = found["done"]
        trainer._buffered_inputs = send_to_device(found["batch"], trainer.accelerator.device)
        for name, value in found["own"].items():
            setattr(trainer, name, value)
        logged = json.loads(found["logged"])
        trainer._metrics["train"].update(logged["metrics"])
        for name, rows in logged["logs"].items():
            if isinstance(rows, dict):  # by reward function or by column
                for key, values in rows.items():
                    trainer._logs[name][key].extend(values)
            else:
                trainer._logs[name].extend(rows)


def load_adapter(trainer: RepairedGRPOTrainer, folder: Path, model: Any) -> None:
    """Loads the adapter of a checkpoint that has TRL's copy of it beside, in a folder of its own:
    transformers has loaded that copy alone, and the training would begin again from it.
    """
    adapted = trainer.accelerator.unwrap_model(model)
    trained = Path(folder, "adapter_config.json").is_file()
    if trained and "ref" in getattr(adapted, "peft_config", ()):
        adapted.load_adapter(str(folder), adapted.active_adapter, is_trainable=True)


def _read_batch(path: Path) -> tuple[dict[str, Any], str]:
    """What a process has stored of a batch; empty where nothing can be read, and why."""
    if not path.is_file():
        return {}, "is not stored"
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True)), ""
    except (OSError, EOFError, RuntimeError, TypeError, ValueError, UnpicklingError) as error:
        return {}, f"cannot be read ({path.name}: {' '.join(str(error).split())[:80]})"


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of its own: of a part of a tensor, torch would save the whole."""
    return tensor.detach().cpu().clone()


def _plain(value: Any) -> Any:
    """For JSON, what it does not know: a queue, a number of numpy's, and anything as text."""
    if isinstance(value, deque):
        return list(value)
    return value.item() if hasattr(value, "item") else str(value)
