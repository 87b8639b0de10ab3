"""What TRL's step makes of a batch, kept on the trainer as TRL trains on it: the responses, their
rewards, the columns that reward functions log, and the ratios of its updates; and what is changed
of a scored batch. Shapes: B responses of all processes in dataset order, T tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOTrainer

from mcbench.errors import UserError
from mcbench.grpo.correction import loss_mask

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer


def responses(
    trainer: RepairedGRPOTrainer, generate: Callable[..., Any], prompts: list[Any]
) -> Any:
    """What ``generate`` gives to a batch's prompts, kept, with its time."""
    started = time.perf_counter()
    if trainer.replay is None:
        result = generate(prompts)
    else:
        with trainer.replay.given(trainer, prompts) as texts:
            result = trainer.replay.completed(GRPOTrainer._generate(trainer, texts))
    prompt_ids, trainer.sampled_ids, trainer.sampled_mask, trainer.sampled_completions, *_ = result
    trainer.sampled_prompts = list(prompts)
    trainer.asked_ids = [list(ids) for ids in prompt_ids]
    if trainer.trace is not None and not _of_all(trainer, trainer.trace.is_of(trainer.sampled_ids)):
        trainer.trace = None
    trainer.seconds = {**trainer.seconds, "generate_s": time.perf_counter() - started}
    if trainer.leaving is not None:
        trainer.leaving.sampled(trainer, prompts, result)
    keep_old_log_probs(trainer)
    if trainer.replay is None:
        _start_scoring(trainer)
    return result


def keep_old_log_probs(trainer: RepairedGRPOTrainer) -> None:
    """Keeps those of the sampler, where TRL is about to ask for the same numbers: the first thing
    it asks after a generation that several updates follow. In half precision a pass over the whole
    responses rounds in another way than the sampler did, and is made; so it is where the sampler
    drew from another distribution.
    """
    args = trainer.args
    if trainer.trace is None or trainer.in_half_precision or not trainer.scores_what_it_samples:
        return
    if args.gradient_accumulation_steps % args.passes_per_generation:
        trainer._old_log_probs = trainer.trace.log_probs


def _of_all(trainer: RepairedGRPOTrainer, known: bool) -> bool:
    """Whether something is known in every process: what is, is gathered, by all or by none."""
    return bool(trainer.gather(torch.tensor([known])).all())


def _start_scoring(trainer: RepairedGRPOTrainer) -> None:
    """Tells the reward functions that want to know of the responses of a batch."""
    functions: list[Any] = trainer.reward_funcs
    able = [function for function in functions if hasattr(function, "start_scoring")]
    if not able:
        return
    rows = trainer.batch_rows
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns.pop("prompt", None)
    for function in able:
        function.start_scoring(trainer.sampled_completions, **columns)


def rewards(trainer: RepairedGRPOTrainer, calculate: Callable[..., Tensor], *batch: Any) -> Tensor:
    """What ``calculate`` gives to a batch, kept, with its time and its further columns."""
    count = len(batch[0])
    if trainer.replay is not None:
        trainer.rewards = trainer.replay.rewards
        _complete_columns(trainer, count)
        return trainer.rewards
    started = time.perf_counter()
    trainer.rewards = calculate(*batch)
    if (odd := trainer.rewards.isinf().any(dim=0)).any():
        (name, *_) = [n for n, one in zip(trainer.reward_func_names, odd, strict=False) if one]
        raise UserError(
            f"the reward function {name} gave an infinite reward, which leaves its group "
            "without advantages or with infinite ones; None is no reward"
        )
    if trainer.empty:  # those have none; every process asks
        empty = trainer.gather(trainer.rewards.new_tensor(trainer.empty)).bool().unsqueeze(1)
        trainer.rewards = trainer.rewards.masked_fill(empty, float("nan"))
    trainer.seconds = {**trainer.seconds, "reward_s": time.perf_counter() - started}
    trainer.logged = _columns(trainer, count)
    if trainer.leaving is not None:
        trainer._pending_extra_logs.clear()
        trainer.leaving.scored(trainer.logged)
    _complete_columns(trainer, count)
    return trainer.rewards


def _columns(trainer: RepairedGRPOTrainer, count: int) -> dict[str, list[Any]]:
    """What reward functions have logged of this process's responses, by the columns of all
    processes: a function may log one for some responses alone.
    """
    own = {name: list(values) for name, values in trainer._pending_extra_logs.items()}
    odd = {name for name, values in own.items() if len(values) != count}
    for name in odd:
        trainer.say_once(
            f"log_extra {name}",
            f"log_extra: the column {name} has {len(own[name])} values for {count} responses, of "
            "one reward function or of several that log it; it is in no record",
        )
    left_out = set(trainer.gather_objects(sorted(odd)))
    names = sorted(set(trainer.gather_objects(list(own))) - left_out)
    return {name: own.get(name, [None] * count) for name in names}


def _complete_columns(trainer: RepairedGRPOTrainer, count: int) -> None:
    """Gives TRL a value of every column for each of this process's responses: it would show older
    values beside a batch without them (``log_completions``), or end with an IndexError.
    """
    shown = trainer._logs["extra"]
    trainer._pending_extra_logs.clear()
    for name in sorted({*shown, *trainer.logged}):
        trainer._pending_extra_logs[name] = list(trainer.logged.get(name, [None] * count))
        if name not in shown:
            shown[name].extend([None] * len(trainer._logs["prompt"]))


def keep_ratios(trainer: RepairedGRPOTrainer, inputs: dict[str, Any], log_probs: Tensor) -> None:
    """Takes note of log π - log π_old where TRL scores a batch for its loss: 0 for tokens that are
    not the policy's; of responses without a token in it, which TRL scores as padding, there is
    nothing to note.
    """
    old = inputs.get("old_per_token_logps")
    if trainer._log_ratios is not None and old is not None and "place" in inputs:
        mask = loss_mask(inputs)
        found = (log_probs.detach() - old).masked_fill(mask == 0, 0.0).float().cpu()
        some = mask.any(dim=1).tolist()
        rows = [row if kept else row[:0] for row, kept in zip(found, some, strict=True)]
        trainer._log_ratios.update(zip(inputs["place"].tolist(), rows, strict=True))


def sampler_log_probs(trainer: RepairedGRPOTrainer, output: dict[str, Any]) -> Tensor | None:
    """(B, T) of the sampled tokens by what sampled them; None where it did not say."""
    if "sampling_per_token_logps" in output:
        return output["sampling_per_token_logps"]
    own = trainer.sampler_said
    if own is None:
        return None
    if not _of_all(trainer, [*map(len, own)] == [*map(len, trainer.sampled_ids)]):
        return None  # tools answered in between
    rows = pad_sequence([torch.tensor(row) for row in own], batch_first=True)
    missing = output["completion_ids"].size(1) - rows.size(1)
    return nn.functional.pad(rows, (0, missing)).to(output["completion_ids"].device)


# What is changed of a scored batch ----------------------------------------------------------------


def removed_from_loss(trainer: RepairedGRPOTrainer, output: dict[str, Any]) -> Tensor:
    """(B,) bool: the responses without a token in the loss (``mask_truncated_completions``)."""
    return trainer.gather(~output["completion_mask"].any(dim=1))


def remove_from_loss(trainer: RepairedGRPOTrainer, output: dict[str, Any], removed: Tensor) -> None:
    """Takes all tokens of the (B,) removed responses out of every term of the loss."""
    kept = (~_own(trainer, removed)).unsqueeze(1)
    for name in ("completion_mask", "tool_mask"):
        if name in output:
            output[name] = output[name] * kept
    output["num_items_in_batch"] = trainer.gather(loss_mask(output).sum()).sum()


def replace_advantages(
    trainer: RepairedGRPOTrainer, output: dict[str, Any], advantages: Tensor
) -> None:
    """Puts these (B,) advantages in the place of TRL's, which ``log_completions`` shows too."""
    output["advantages"] = _own(trainer, advantages)
    log = trainer._logs["advantages"]
    kept = advantages.tolist()[-len(log) :]
    for _ in kept:
        log.pop()
    log.extend(kept)


def _own(trainer: RepairedGRPOTrainer, rows: Tensor) -> Tensor:
    """Of (B,) rows those of this process."""
    count = len(rows) // trainer.accelerator.num_processes
    start = trainer.accelerator.process_index * count
    return rows[start : start + count]
