"""Which prompts and groups a batch is trained on, as whole recipes choose them; off by default.

- **Polaris and SRPO** (Zhang et al. 2025, section 3.3): prompts that are solved too often are
  dropped when they come again (``drop_above``; SRPO's history resampling drops what all responses
  solved, Polaris what more than 0.9 of them did: with 8 responses the same).
- **Polaris** (An et al. 2025): groups that fare alike are replaced by copies of the others of their
  batch, and where too few are left the whole step is skipped (``substitute_flat``).

Shapes: B = P·G responses, T tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import Tensor
from transformers import TrainerCallback

from mcbench.errors import UserError
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.dynamic_sampling import flat_groups
from mcbench.grpo.masking import uniform_draws
from mcbench.grpo.rivals import RivalGRPOTrainer
from mcbench.grpo.trl_correction import loss_mask


def share_right(rewards: Tensor, right: float, group_size: int) -> list[float | None]:
    """Of each of P groups the share of its scored responses that are right; None without one.

    Args:
        rewards: (B,), NaN where a response has none.
        right: from which reward on a response is.
    """
    groups = rewards.view(-1, group_size)
    scored = (~groups.isnan()).sum(dim=1).tolist()
    passed = (groups >= right).sum(dim=1).tolist()
    return [n / of if of else None for n, of in zip(passed, scored, strict=True)]


def other_row(dropped: Sequence[bool], draw: float) -> int:
    """A place among those of a set that are not dropped, by a U(0,1) ``draw``; among all of them
    where every one is.
    """
    kept = [place for place, gone in enumerate(dropped) if not gone] or list(range(len(dropped)))
    return kept[int(draw * len(kept))]


def substitutes(flat: Sequence[bool], least: float, draws: Tensor) -> list[int] | None:
    """Of each of P groups the one that is trained in its place: itself unless it is flat, else one
    of the others at random; None where not more than a share ``least`` of them is good, so that the
    step is skipped (Polaris: a third).

    ``draws`` (P,) are U(0,1).
    """
    good = [place for place, alike in enumerate(flat) if not alike]
    if len(good) <= least * len(flat):
        return None
    chosen = [good[int(draw * len(good))] for draw in draws.tolist()]
    return [
        new if alike else old for old, (new, alike) in enumerate(zip(chosen, flat, strict=True))
    ]


class ResamplingGRPOTrainer(RivalGRPOTrainer):
    """The trainer with those choices. Which prompts are solved is kept with every checkpoint."""

    _skipped = False

    def __init__(self, model: Any, args: MicroCoderGRPOConfig | None, **kwargs: Any) -> None:
        super().__init__(model, args, **kwargs)
        if self.args.drop_above is not None and not hasattr(self.train_dataset, "__getitem__"):
            raise UserError("drop_above draws other prompts, so not from a streamed set")
        names = getattr(self.train_dataset, "column_names", None) or ()
        if self.args.drop_above is not None and "problem_id" not in names:
            raise UserError("drop_above knows prompts by the set's column problem_id; add one")
        if self.args.substitute_flat is not None:
            self.add_callback(_SkipUpdates(self))

    # -- prompts that are solved

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        remember = self.args.drop_above is not None and self.model.training
        if remember:
            inputs = self._without_solved(inputs)
        output = super()._generate_and_score_completions(inputs)
        if remember:
            self._remember()
        return output

    def _without_solved(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of a batch with other prompts of the set, of the same kind where the set has
        kinds, in the place of dropped ones.
        """
        solved = set(self.checkpoint_state.get("solved", ()))
        size, rows = self.num_generations, list(inputs)
        starts = [s for s in range(0, len(rows), size) if rows[s]["problem_id"] in solved]
        draws = uniform_draws((self.args.seed, self.state.global_step, len(starts)), len(starts))
        for start, draw in zip(starts, draws.tolist(), strict=True):
            row = self.train_dataset[self._other(solved, rows[start].get("kind"), draw)]
            rows[start : start + size] = [dict(row) for _ in range(size)]
        self._replaced = len(starts) * size / len(rows)
        return rows

    def _other(self, solved: Collection[str], kind: str | None, draw: float) -> int:
        """The place of a row of the set that is not solved, by a U(0,1) ``draw``."""
        names = self.train_dataset["problem_id"]
        kinds = [kind] * len(names) if kind is None else self.train_dataset["kind"]
        pairs = list(zip(names, kinds, strict=True))
        return other_row([name in solved or own != kind for name, own in pairs], draw)

    def _remember(self) -> None:
        shares = share_right(
            self.correctness_rewards(), self.args.correct_threshold, self.num_generations
        )
        names = [row["problem_id"] for row in self.batch_rows[:: self.num_generations]]
        solved = dict.fromkeys(self.checkpoint_state.get("solved", ()))
        assert self.args.drop_above is not None
        for name, share in zip(names, shares, strict=True):
            if share is not None and share > self.args.drop_above:
                solved[name] = None
        self.checkpoint_state["solved"] = list(solved)
        self.log_of_batch(
            {"task/prompts_dropped": float(len(solved)), "task/prompts_replaced": self._replaced}
        )

    # -- groups that fare alike

    def as_trained(self, output: dict[str, Any]) -> dict[str, Any]:
        """What a batch is trained as, which its record does not show: TRL's tensors with the flat
        groups replaced, or as they are where the step is skipped.
        """
        least = self.args.substitute_flat
        if least is None or not self.training:
            return output
        flat = flat_groups(self.correctness_rewards(), self.num_generations).tolist()
        draws = uniform_draws((self.args.seed, self.state.global_step, 0), len(flat))
        chosen = substitutes(flat, least, draws)
        self._skipped = chosen is None
        self.log_of_batch(
            {"task/flat": sum(flat) / len(flat), "task/skipped": float(self._skipped)}
        )
        if chosen is None:
            return output
        rows = [
            group * self.num_generations + i
            for group in chosen
            for i in range(self.num_generations)
        ]
        output = {
            name: value[rows] if isinstance(value, Tensor) and value.ndim else value
            for name, value in output.items()
        }
        output["num_items_in_batch"] = loss_mask(output).sum()
        return output

    def texts(self, ids: list[list[int]]) -> list[str]:
        """Responses as text, without special tokens."""
        processor: Any = self.processing_class
        return list(processor.batch_decode(ids, skip_special_tokens=True))


class _SkipUpdates(TrainerCallback):
    """Takes the gradients away before an update of a step that is skipped: without any the
    optimizer changes neither weights nor moments.
    """

    def __init__(self, trainer: ResamplingGRPOTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        if self.trainer._skipped:
            self.trainer.model.zero_grad(set_to_none=True)
