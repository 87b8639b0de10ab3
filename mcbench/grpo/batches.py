"""The hook ``batch``: which prompts and groups a batch is of, and whose weights sample it.

Off by default, each an option of the same trainer:

- **DAPO** (Yu et al. 2025, Eq. 11): groups whose responses all fare alike teach nothing; they give
  way to groups of further prompts, in so many rounds at most (``dynamic_sampling``).
- **Polaris and SRPO** (Zhang et al. 2025, section 3.3): prompts that are solved too often are
  dropped when they come again (``drop_above``; SRPO's history resampling drops what all responses
  solved, Polaris what more than 0.9 of them did: with 8 responses the same).
- **Polaris** (An et al. 2025): groups that fare alike are replaced by copies of the others of their
  batch, and where too few are left the whole step is skipped (``substitute_flat``).
- **Asynchronous training** (SkyRL bounds it by 4): the policy of some generations before samples
  (``staleness``, :class:`StaleWeights`).

Shapes: B = P·G responses of all processes in dataset order, T tokens.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from mcbench.errors import UserError
from mcbench.grpo import early
from mcbench.grpo.correction import loss_mask
from mcbench.grpo.masking import uniform_draws

if TYPE_CHECKING:
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer

WEIGHTS_FILE = "microcoder_stale_weights.pt"
FIRST = -1
"""The ``staleness`` at which the first weights always sample: another policy's data."""


def set_up(trainer: MicroCoderGRPOTrainer) -> None:
    """What these options need of a trainer.

    Raises:
        UserError: it lacks something.
    """
    args, rows = trainer.args, trainer.train_dataset
    if args.dynamic_sampling and not hasattr(rows, "__getitem__"):
        raise UserError("dynamic_sampling draws further prompts, so not from a streamed set")
    if args.drop_above is not None and not hasattr(rows, "__getitem__"):
        raise UserError("drop_above draws other prompts, so not from a streamed set")
    if args.drop_above is not None and "problem_id" not in (
        getattr(rows, "column_names", None) or ()
    ):
        raise UserError("drop_above knows prompts by the set's column problem_id; add one")
    if args.substitute_flat is not None:
        trainer.add_callback(_SkipUpdates(trainer))


def batch(trainer: MicroCoderGRPOTrainer, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a training batch in the place of those that TRL drew."""
    if trainer.args.drop_above is not None:
        rows = _without_solved(trainer, rows)
    if trainer.args.dynamic_sampling:
        rows = _with_signal(trainer, rows)
    return rows


def as_trained(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    """A scored batch as it is trained on; what it showed is remembered."""
    if trainer.args.drop_above is not None:
        _remember_solved(trainer)
    if trainer.args.substitute_flat is not None:
        output = _with_substitutes(trainer, output)
    return output


# Groups without a signal --------------------------------------------------------------------------


def flat_groups(rewards: Tensor, group_size: int) -> Tensor:
    """The (P,) groups that dynamic sampling replaces: no two scored responses differ, so that no
    advantage is left (Eq. 11: 0 < right responses < G).
    """
    groups = rewards.view(-1, group_size)
    highest = groups.nan_to_num(nan=-torch.inf).amax(dim=1)
    return highest <= groups.nan_to_num(nan=torch.inf).amin(dim=1)


def _with_signal(
    trainer: MicroCoderGRPOTrainer, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """This process's rows of the batch in which groups without a signal were replaced by those of
    further prompts of the training set, drawn at random; their responses are the trainer's
    ``replay``.
    """
    size, processes = int(trainer.num_generations), trainer.accelerator.num_processes
    unit = processes // math.gcd(size, processes)  # groups that can be shared out evenly
    place = trainer.accelerator.process_index
    took: dict[str, float] = defaultdict(float)

    def respond(rows: list[dict[str, Any]]) -> tuple[list[early.Rollout], Tensor, list[bool]]:
        """Responses of all processes, their rewards, and which groups fare alike."""
        found = trainer.gather_objects(early.scored(trainer, rows))
        for name, seconds in trainer.seconds.items():
            took[name] += seconds
        alike = flat_groups(trainer.correctness_rewards(), size)
        return found, trainer.rewards.clone(), alike.tolist()

    kept, rewards, alike = respond(rows)
    flat, sampled, groups = [n for n, none in enumerate(alike) if none], len(alike), len(alike)
    for attempt in range(1, trainer.args.dynamic_sampling + 1):
        if not flat:
            break
        count = -(-len(flat) // unit) * unit
        further = [row for row in _further(trainer, attempt, count) for _ in range(size)]
        share = len(further) // processes
        own = further[place * share : place * share + share]
        found, scores, alike = respond([dict(row) for row in own])
        sampled += count
        # Where more were sampled than are needed those with a signal are taken.
        taken = sorted(sorted(range(count), key=alike.__getitem__)[: len(flat)])
        for old, new in zip(flat, taken, strict=True):
            those = slice(old * size, old * size + size)
            its = slice(new * size, new * size + size)
            kept[those], rewards[those] = found[its], scores[its]
        flat = [old for old, new in zip(flat, taken, strict=True) if alike[new]]
    told = {"dynamic/groups_sampled": sampled / groups, "dynamic/flat_left": len(flat) / groups}
    trainer.log_of_batch(told)
    own_kept = kept[place * len(rows) : place * len(rows) + len(rows)]
    columns = sorted({name for one in kept for name in one.logged})
    trainer.logged = {name: [one.logged.get(name) for one in own_kept] for name in columns}
    trainer._pending_extra_logs.update({k: list(values) for k, values in trainer.logged.items()})
    trainer.replay = early.Replay(own_kept, rewards, took)
    return [one.row for one in own_kept]


def _further(trainer: MicroCoderGRPOTrainer, attempt: int, count: int) -> list[dict[str, Any]]:
    """``count`` rows of the training set that are not dropped; the same after a resume."""
    seed, step, before = trainer.draw_key
    rows: Any = trainer.train_dataset
    solved, dropped = set(trainer.checkpoint_state.get("solved", ())), [False] * len(rows)
    if solved:
        dropped = [name in solved for name in rows["problem_id"]]
    draws = uniform_draws((seed, step, attempt, before), count).tolist()
    return [rows[other_row(dropped, draw)] for draw in draws]


# Prompts that are solved --------------------------------------------------------------------------


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


def _without_solved(
    trainer: MicroCoderGRPOTrainer, inputs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of a batch with other prompts of the set, of the same kind where the set has kinds,
    in the place of dropped ones. Which are solved is kept with every checkpoint.
    """
    solved = set(trainer.checkpoint_state.get("solved", ()))
    size, rows = trainer.num_generations, list(inputs)
    starts = [s for s in range(0, len(rows), size) if rows[s]["problem_id"] in solved]
    seed, step, before = trainer.draw_key
    key = (seed, step, len(starts), before)
    for start, draw in zip(starts, uniform_draws(key, len(starts)).tolist(), strict=True):
        row = trainer.train_dataset[_other(trainer, solved, rows[start].get("kind"), draw)]
        rows[start : start + size] = [dict(row) for _ in range(size)]
    trainer.log_of_batch({"task/prompts_replaced": len(starts) * size / len(rows)})
    return rows


def _other(
    trainer: MicroCoderGRPOTrainer, solved: Collection[str], kind: str | None, draw: float
) -> int:
    """The place of a row of the set that is not solved, by a U(0,1) ``draw``."""
    names = trainer.train_dataset["problem_id"]
    kinds = [kind] * len(names) if kind is None else trainer.train_dataset["kind"]
    pairs = list(zip(names, kinds, strict=True))
    return other_row([name in solved or own != kind for name, own in pairs], draw)


def _remember_solved(trainer: MicroCoderGRPOTrainer) -> None:
    args, size = trainer.args, trainer.num_generations
    shares = share_right(trainer.correctness_rewards(), args.correct_threshold, size)
    names = [row["problem_id"] for row in trainer.batch_rows[::size]]
    solved = dict.fromkeys(trainer.checkpoint_state.get("solved", ()))
    assert args.drop_above is not None
    for name, share in zip(names, shares, strict=True):
        if share is not None and share > args.drop_above:
            solved[name] = None
    trainer.checkpoint_state["solved"] = list(solved)
    trainer.log_of_batch({"task/prompts_dropped": float(len(solved))})


# Groups that stand in for others ------------------------------------------------------------------


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


def _with_substitutes(trainer: MicroCoderGRPOTrainer, output: dict[str, Any]) -> dict[str, Any]:
    """What a batch is trained as, which its record does not show: TRL's tensors with the flat
    groups replaced, or as they are where the step is skipped.
    """
    size, least = trainer.num_generations, trainer.args.substitute_flat
    assert least is not None
    flat = flat_groups(trainer.correctness_rewards(), size).tolist()
    draws = uniform_draws(trainer.draw_key, len(flat))
    chosen = substitutes(flat, least, draws)
    trainer._skipped = chosen is None
    trainer.log_of_batch(
        {"task/flat": sum(flat) / len(flat), "task/skipped": float(trainer._skipped)}
    )
    if chosen is None:
        return output
    rows = [group * size + i for group in chosen for i in range(size)]
    output = {
        name: value[rows] if isinstance(value, Tensor) and value.ndim else value
        for name, value in output.items()
    }
    output["num_items_in_batch"] = loss_mask(output).sum()
    return output


class _SkipUpdates(TrainerCallback):
    """Takes the gradients away before an update of a step that is skipped: without any the
    optimizer changes neither weights nor moments.
    """

    def __init__(self, trainer: MicroCoderGRPOTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        if self.trainer._skipped:
            self.trainer.model.zero_grad(set_to_none=True)


# Weights of before --------------------------------------------------------------------------------


class StaleWeights:
    """Sampling from a policy of before.

    With ``staleness`` k the responses of a generation are sampled by the weights that the policy
    had k generations earlier, or by the first ones while there are no earlier; with -1 always by
    the first. Old log-probabilities are those of the sampling policy, so that the ratio and its
    clip correct for the distance as far as they can. The weights are kept with every checkpoint.

    Raises:
        UserError: the log-probabilities of the policy that sampled would not be known, or not used.
    """

    def __init__(self, trainer: MicroCoderGRPOTrainer) -> None:
        args = trainer.args
        self.trainer, self.staleness = trainer, args.staleness
        self._before: list[dict[str, Tensor]] = []  # the oldest first
        known = args.sample_unfinished and trainer.scores_what_it_samples
        if args.bf16 or args.fp16 or not known:
            raise UserError(
                "staleness needs sample_unfinished=True, float32 and no sampling that changes "
                "log-probabilities (penalties, top_p beside a KL term): else those of the policy "
                "that sampled are not known"
            )
        if args.gradient_accumulation_steps % args.passes_per_generation == 0:
            raise UserError(
                "staleness needs several updates a generation: with one TRL takes the ratio to "
                "the sampling policy for 1"
            )
        trainer.resume.parts.append(self)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """For the block the policy has the weights that sample."""
        policy = self.trainer.accelerator.unwrap_model(self.trainer.model)
        weights = dict(policy.named_parameters())
        now = {name: one.detach().clone() for name, one in weights.items()}
        self._before.append(now)
        del self._before[slice(1, None) if self.staleness == FIRST else slice(-1 - self.staleness)]
        _assign(weights, self._before[0])
        try:
            yield
        finally:
            _assign(weights, now)

    def save(self, folder: Path) -> None:
        """Beside the other files of a checkpoint."""
        if self._before:
            torch.save(self._before, folder / WEIGHTS_FILE)

    def load(self, folder: Path) -> None:
        """What :meth:`save` has written."""
        path = folder / WEIGHTS_FILE
        if not path.is_file():
            raise UserError(f"the checkpoint {folder.name} has no {WEIGHTS_FILE}, of staleness")
        self._before = torch.load(path, map_location=self.trainer.accelerator.device)


@torch.no_grad()
def _assign(weights: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        weights[name].copy_(value)
