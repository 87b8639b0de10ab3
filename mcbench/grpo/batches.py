"""The hook ``batch``: which prompts and groups a batch is of, and whose weights sample it.

Off by default, each an option of the same trainer:

- **DAPO** (Yu et al. 2025, Eq. 11; ``recipe/dapo/dapo_ray_trainer.py`` of verl): batches of the
  next prompts are sampled, and the groups whose responses differ in reward kept, until there are as
  many as a batch has; what is over is left out (``dynamic_sampling``). Where so many further
  batches have too few of them verl ends the run; here groups that fare alike fill the batch, which
  adds their tokens to those a loss is divided by, and ``dynamic/flat_left`` says so.
- **SRPO** (Zhang et al. 2025, section 3.3) and **Polaris**: prompts that are solved too often are
  dropped when they come again (``drop_above``): in SRPO those that all responses solved, in Polaris
  between its stages those whose mean over the stage is above 0.9 (``drop_easy_data.py``).
- **Polaris** (An et al. 2025; ``replace_bad_samples`` in ``ray_trainer.py``): groups that fare
  alike are replaced by copies of the others of their batch, none of them twice where there are
  enough, and where too few are left the whole step is skipped (``substitute_flat``).
- **Self-play SWE-RL** (Wei et al. 2025): some groups pose the problems that the others solve
  (``self_play``, :mod:`.self_play`).
- **Asynchronous training**: the policy of some generations before samples (``staleness``,
  :class:`StaleWeights`); SkyRL bounds a mixture of lags by 4 (``staleness_mixed``).

Shapes: B = P·G responses of all processes in dataset order, T tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from mcbench.errors import UserError
from mcbench.grpo import early, self_play
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
    drops, references = args.drop_above is not None, args.imitate == "reference"
    for name, draws in (("dynamic_sampling", args.dynamic_sampling), ("drop_above", drops)):
        if draws and not hasattr(rows, "__getitem__"):
            raise UserError(f"{name} draws prompts itself, so not from a streamed set")
    for name, asks in (("drop_above", drops), ("imitate='reference'", references)):
        if asks and "problem_id" not in (getattr(rows, "column_names", None) or ()):
            raise UserError(f"{name} knows prompts by the set's column problem_id; add one")
    if args.self_play != "none":
        self_play.set_up(trainer)
    if args.substitute_flat is not None:
        trainer.add_callback(_SkipUpdates(trainer))


def batch(trainer: MicroCoderGRPOTrainer, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a training batch in the place of those that TRL drew."""
    if trainer.args.drop_above is not None:
        _end_stage(trainer)
        rows = _without_solved(trainer, rows)
    if trainer.args.dynamic_sampling:
        rows = _with_signal(trainer, rows)
    if trainer.args.self_play != "none":
        rows = self_play.batch(trainer, rows)
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
    """The (P,) groups that dynamic sampling leaves out: no two scored responses differ, so that no
    advantage is left (Eq. 11: 0 < right responses < G).
    """
    groups = rewards.view(-1, group_size)
    highest = groups.nan_to_num(nan=-torch.inf).amax(dim=1)
    return highest <= groups.nan_to_num(nan=torch.inf).amin(dim=1)


def next_prompts(taken: int, count: int, size: int, seed: int) -> list[int]:
    """The next ``count`` places of a set of ``size`` after ``taken`` of them: every epoch another
    order, in which each place comes at most once; an epoch's rest of less than ``count`` is left
    out.

    Raises:
        UserError: the set has fewer.
    """
    if not (batches := size // count):
        raise UserError(f"a batch of {count} prompts from a set of {size}: make it smaller")
    epoch, batch = divmod(taken // count, batches)
    order = uniform_draws((seed, epoch, size), size).argsort().tolist()
    return [int(place) for place in order[batch * count : (batch + 1) * count]]


def with_signal(
    batches: Iterable[Sequence[bool]], wanted: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The first ``wanted`` groups, as (batch, group), that do not fare alike; no further batch is
    asked for once they are there. Where all batches have fewer: these, and the first of the others,
    which fill the batch.
    """
    kept: list[tuple[int, int]] = []
    flat: list[tuple[int, int]] = []
    for batch, alike in enumerate(batches):
        for group, none in enumerate(alike):
            (flat if none else kept).append((batch, group))
        if len(kept) >= wanted:
            return kept[:wanted], []
    return kept, flat[: wanted - len(kept)]


def _with_signal(
    trainer: MicroCoderGRPOTrainer, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """This process's rows of a batch of groups with a signal, in the place of those that TRL drew;
    their responses are the trainer's ``replay``.
    """
    args, size = trainer.args, int(trainer.num_generations)
    processes, process = trainer.accelerator.num_processes, trainer.accelerator.process_index
    wanted = len(rows) * processes // size
    own = slice(process * len(rows), process * len(rows) + len(rows))
    took: dict[str, float] = defaultdict(float)
    sampled: list[tuple[list[early.Rollout], Tensor]] = []

    def alike() -> list[bool]:
        """Of the groups of one further batch."""
        taken = trainer.checkpoint_state.get("prompts_taken", 0)
        places = _not_solved(trainer, wanted)
        asked_for = [places[n] for n in next_prompts(taken, wanted, len(places), args.seed)]
        trainer.checkpoint_state["prompts_taken"] = taken + wanted
        asked = [dict(trainer.train_dataset[place]) for place in asked_for for _ in range(size)]
        found = trainer.gather_objects(early.scored(trainer, asked[own]))
        for name, seconds in trainer.seconds.items():
            took[name] += seconds
        sampled.append((found, trainer.rewards.clone()))
        return list(flat_groups(trainer.correctness_rewards(), size).tolist())

    kept_places, flat = with_signal((alike() for _ in range(1 + args.dynamic_sampling)), wanted)
    places = kept_places + flat
    those = [(batch, slice(group * size, group * size + size)) for batch, group in places]
    kept = [one for batch, its in those for one in sampled[batch][0][its]]
    scores = torch.cat([sampled[batch][1][its] for batch, its in those])
    told = {"groups_sampled": float(len(sampled)), "flat_left": len(flat) / wanted}
    trainer.log_of_batch({f"dynamic/{name}": value for name, value in told.items()})
    return early.put(trainer, kept, scores, took, own)


def _not_solved(trainer: MicroCoderGRPOTrainer, wanted: int) -> Sequence[int]:
    """The places of prompts that are not dropped; all of them where fewer than wanted are left."""
    rows: Any = trainer.train_dataset
    if not (solved := set(trainer.checkpoint_state.get("solved", ()))):
        return range(len(rows))
    left = [place for place, name in enumerate(rows["problem_id"]) if name not in solved]
    return left if len(left) >= wanted else range(len(rows))


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
    """Which prompts of a batch were solved too often; how often where there are stages."""
    args, size, state = trainer.args, trainer.num_generations, trainer.checkpoint_state
    shares = share_right(trainer.correctness_rewards(), args.correct_threshold, size)
    names = [row["problem_id"] for row in trainer.batch_rows[::size]]
    told = [(name, share) for name, share in zip(names, shares, strict=True) if share is not None]
    if args.temperature_restore is None:
        assert args.drop_above is not None
        _drop(state, [name for name, share in told if share > args.drop_above])
    else:
        of_stage = state.setdefault("stage_shares", {})
        for name, share in told:
            of_stage.setdefault(name, []).append(share)
    trainer.log_of_batch({"task/prompts_dropped": float(len(state.get("solved", ())))})


def _drop(state: dict[str, Any], names: Sequence[str]) -> None:
    state["solved"] = list(dict.fromkeys([*state.get("solved", ()), *names]))


def too_easy(shares: Mapping[str, Sequence[float]], above: float) -> list[str]:
    """The prompts whose mean share of right responses over a stage is ``above`` that."""
    return [name for name, of in shares.items() if sum(of) / len(of) > above]


def _end_stage(trainer: MicroCoderGRPOTrainer) -> None:
    """Where one of Polaris's stages begins: drops what was too easy in the one before."""
    args, state = trainer.args, trainer.checkpoint_state
    begun = sum(start <= trainer.state.global_step for start in args.temperature_restore or ())
    if begun > state.get("stages_ended", 0):
        assert args.drop_above is not None
        _drop(state, too_easy(state.pop("stage_shares", {}), args.drop_above))
        state["stages_ended"] = begun


# Groups that stand in for others ------------------------------------------------------------------


def substitutes(flat: Sequence[bool], least: float, draws: Tensor) -> list[int] | None:
    """Of each of P groups the one that is trained in its place: itself unless it is flat, else one
    of the others at random, each at most once where there are as many; None where not more than a
    share ``least`` of P, rounded down, is good, so that the step is skipped (Polaris: P // 3).

    ``draws`` (P,) are U(0,1).
    """
    good = [place for place, alike in enumerate(flat) if not alike]
    bad = [place for place, alike in enumerate(flat) if alike]
    if len(good) <= int(least * len(flat)):
        return None
    if len(good) >= len(bad):
        order = draws[torch.tensor(good)].argsort().tolist()
        chosen = [good[place] for place in order[: len(bad)]]
    else:
        chosen = [good[int(draws[place] * len(good))] for place in bad]
    given = dict(zip(bad, chosen, strict=True))
    return [given.get(place, place) for place in range(len(flat))]


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
    the first. With ``staleness_mixed`` each generation draws its lag from 0 to k. Old
    log-probabilities are those of the sampling policy, so that the ratio and its
    clip correct for the distance as far as they can. The weights are kept with every checkpoint.

    Raises:
        UserError: the log-probabilities of the policy that sampled would not be known, or not used.
    """

    def __init__(self, trainer: MicroCoderGRPOTrainer) -> None:
        args = trainer.args
        self.trainer, self.staleness = trainer, args.staleness
        self._before: list[dict[str, Tensor]] = []  # the oldest first
        known = args.sample_unfinished and trainer.scores_what_it_samples and not trainer.tools
        if trainer.in_half_precision or not known:
            raise UserError(
                "staleness needs sample_unfinished=True, float32, no tools and no sampling that "
                "changes log-probabilities (penalties, top_p beside a KL term), nor a model "
                "without rotary positions: else those of the policy that sampled are not known"
            )
        if args.gradient_accumulation_steps % args.passes_per_generation == 0:
            raise UserError(
                "staleness needs several updates a generation: with one TRL takes the ratio to "
                "the sampling policy for 1"
            )
        trainer.resume.parts[WEIGHTS_FILE] = self

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """For the block the policy has the weights that sample."""
        policy = self.trainer.accelerator.unwrap_model(self.trainer.model)
        weights = dict(policy.named_parameters())
        now = {name: one.detach().clone() for name, one in weights.items()}
        self._before.append(now)
        del self._before[slice(1, None) if self.staleness == FIRST else slice(-1 - self.staleness)]
        lag = len(self._before) - 1
        if self.trainer.args.staleness_mixed:
            (draw,) = uniform_draws((*self.trainer.draw_key, self.staleness), 1).tolist()
            lag = min(lag, int(draw * (self.staleness + 1)))
        _assign(weights, self._before[-1 - lag])
        try:
            yield
        finally:
            _assign(weights, now)

    def state(self) -> list[dict[str, Tensor]]:
        """What a checkpoint keeps."""
        return self._before

    def take_up(self, state: list[dict[str, Tensor]]) -> None:
        """What :meth:`state` gave."""
        self._before = state


@torch.no_grad()
def _assign(weights: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        weights[name].copy_(value)
