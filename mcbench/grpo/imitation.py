"""Likelihood of answers that are known to be right beside the loss (``imitate``).

A mean negative log-likelihood of a token, at the sampling temperature:

- ``reference``: of the task's own answer to every prompt of the batch. CodeRL and RLTF alternate
  such passes with those of reinforcement within an update (``compute_loss`` in CodeRL's
  ``trainer_rl.py``).
- ``own``: of right answers of the policy in earlier batches, the latest to as many prompts as a
  batch has. Kimi-Dev (Yang et al. 2025, arXiv 2509.23045) puts such answers into the batch of its
  last phase; their gradient at a ratio of 1 and an advantage of 1 is this one.

Shapes: B = P·G responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mcbench.errors import UserError
from mcbench.grpo.replaced import replaced

if TYPE_CHECKING:
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer


def as_trained(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    """A scored batch with the answers that stand beside it, a row of it each."""
    args, state = trainer.args, trainer.checkpoint_state
    answers: list[tuple[list[int], list[int]]] = []
    if args.imitate == "reference":
        answers = _references(trainer)
    elif args.imitate == "own":
        if trainer.state.global_step >= args.imitate_from:
            answers = [(prompt, answer) for prompt, answer in state.get("own", {}).values()]
        _remember(trainer)
    trainer.log_of_batch({"task/imitated": float(len(answers))})
    count, size = len(output["completion_ids"]), int(trainer.num_generations)
    rows: list[tuple[list[int], list[int]]] = [([], [])] * count
    for place, one in enumerate(answers):
        rows[place * size] = one
    prompts, replies = zip(*rows, strict=True)
    columns = {"imitated_prompt": (prompts, "left"), "imitated": (replies, "right")}
    for name, (column, side) in columns.items():
        ids, mask = padded(column, side)
        output[f"{name}_ids"] = ids.to(output["completion_ids"].device)
        output[f"{name}_mask"] = mask.to(output["completion_ids"].device)
    return output


def padded(rows: Sequence[Sequence[int]], side: str = "right") -> tuple[Tensor, Tensor]:
    """Tokens of some rows as (rows, T) ids and mask."""
    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    masks = [torch.ones_like(row) for row in ids]
    made = [pad_sequence(one, batch_first=True, padding_side=side) for one in (ids, masks)]
    return made[0], made[1]


def _references(trainer: MicroCoderGRPOTrainer) -> list[tuple[list[int], list[int]]]:
    """Every prompt of the batch with the task's answer, up to its end token."""
    size, tokenizer = int(trainer.num_generations), trainer._tokenizer
    names = [row["problem_id"] for row in trainer.batch_rows[::size]]
    told: Any = trainer.reward_funcs[0]
    if not hasattr(told, "answer"):
        raise UserError("imitate='reference' needs a reward function with answers (TaskReward)")
    answers = tokenizer([told.answer(name) for name in names])["input_ids"]
    return [
        (prompt, [*answer, tokenizer.eos_token_id])
        for prompt, answer in zip(trainer.asked_ids[::size], answers, strict=True)
    ]


def _remember(trainer: MicroCoderGRPOTrainer) -> None:
    """A right answer to each prompt of the batch that has one, the latest prompts alone."""
    size, kept = int(trainer.num_generations), trainer.checkpoint_state.setdefault("own", {})
    right = trainer.correctness_rewards() >= trainer.args.correct_threshold
    for place in right.nonzero().flatten().tolist():
        row, own = trainer.batch_rows[place], (trainer.sampled_mask or {place: [1]})[place]
        if not all(own):
            raise UserError("imitate='own' is for responses of one turn, without tools")
        name = str(row.get("problem_id", row["prompt"]))
        kept.pop(name, None)
        kept[name] = trainer.asked_ids[place], trainer.sampled_ids[place]
    for name in list(kept)[: -(len(right) // size)]:
        del kept[name]


def loss(trainer: MicroCoderGRPOTrainer, model: Any, inputs: dict[str, Any]) -> Tensor | float:
    """What imitation adds to the loss of one forward pass; 0 where the pass has no such answer.
    Passes add up to the mean over the update's tokens, however finely it is split. Of the whole
    distribution, as nobody has sampled these answers from what top_p keeps.
    """
    tokens = _tokens_of_update(trainer, inputs)
    answers = inputs["imitated_mask"].any(dim=1)
    if not answers.any():
        return 0.0
    prompt, prompt_mask, ids, mask = (
        inputs[name][answers]
        for name in ("imitated_prompt_ids", "imitated_prompt_mask", "imitated_ids", "imitated_mask")
    )
    with replaced(trainer, _kept_by=()):
        log_probs, _, _ = trainer._get_per_token_logps_and_entropies(
            model, torch.cat([prompt, ids], dim=1), torch.cat([prompt_mask, mask], dim=1),
            ids.shape[1],
        )  # fmt: skip
    return -(log_probs * mask).sum() / tokens


def _tokens_of_update(trainer: MicroCoderGRPOTrainer, inputs: dict[str, Any]) -> Tensor:
    """Tokens of answers in all passes of an update, the mean of the processes. Where one has
    several batches, those of this batch stand for the others, too.
    """
    slices = trainer._buffered_inputs or [inputs]
    passes = trainer.current_gradient_accumulation_steps
    here = min(passes, len(slices))
    first = trainer._step % len(slices) // here * here
    counted = sum(one["imitated_mask"].sum() for one in slices[first : first + here])
    return trainer.gather(counted[None]).sum() / trainer.accelerator.num_processes * (passes / here)
