"""Dynamic sampling (DAPO: Yu et al. 2025, Eq. 11), and responses outside of a batch.

Groups whose responses all fare alike teach nothing: they give way to groups of further prompts, in
so many rounds at most. Each round is TRL's own step (tools, environments, rollout functions and
several processes included), left as soon as the rewards are known; the batch that comes of it is
then put in the place of what TRL's step would sample, so that no response is sampled and no reward
asked for twice. In the same way, left before the rewards, T(D) gets the responses that it measures.

B = P·G responses of all processes in dataset order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo.decode import Trace
from mcbench.grpo.masking import uniform_draws
from mcbench.grpo.trl_rewards import ObservedRewardsGRPOTrainer

RESPONSES, REWARDS = "responses", "rewards"


@dataclass
class Rollout:
    """One response, with all that TRL's step knows of it; goes from one process to another."""

    row: dict[str, Any]
    prompt: Any
    prompt_ids: list[int]
    ids: list[int]
    own: list[int] | None  # 0 for the tokens of tools and environments
    completion: Any
    log_probs: list[Any] | None  # of what sampled it
    image: Any
    tool_images: Any
    traced: tuple[Tensor, Tensor] | None  # log-probabilities and entropies, see Trace
    logged: dict[str, Any] = field(default_factory=dict)  # by its reward functions

    @property
    def own_ids(self) -> list[int]:
        """The tokens that the policy sampled."""
        own = self.own or [1] * len(self.ids)
        return [token for token, ours in zip(self.ids, own, strict=True) if ours]


def flat_groups(rewards: Tensor, group_size: int) -> Tensor:
    """The (P,) groups that dynamic sampling replaces: no two scored responses differ, so that no
    advantage is left (Eq. 11: 0 < right responses < G).
    """
    groups = rewards.view(-1, group_size)
    highest = groups.nan_to_num(nan=-torch.inf).amax(dim=1)
    return highest <= groups.nan_to_num(nan=torch.inf).amin(dim=1)


class _Left(Exception):
    """TRL's step, left where that was asked for."""


class DynamicSamplingGRPOTrainer(ObservedRewardsGRPOTrainer):
    """The trainer with ``dynamic_sampling``."""

    trace: Trace | None = None  # of sample_unfinished
    _leave = ""  # where to leave TRL's step
    _found: Sequence[Rollout] = ()  # of a step that is left
    _replayed: Sequence[Rollout] | None = None  # what the step in progress gets in place of samples
    _replayed_rewards: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.args.dynamic_sampling and not hasattr(self.train_dataset, "__getitem__"):
            raise UserError("dynamic_sampling draws further prompts, so not from a streamed set")

    # -- TRL's step, left early

    def sample(self, rows: Sequence[dict[str, Any]]) -> list[Rollout]:
        """G responses to each of this process's rows, groups in a row; nothing is scored or logged.
        Every process must call, each with as many rows.
        """
        return self._leave_after(RESPONSES, [dict(row) for row in rows for _ in range(self._size)])

    @property
    def _size(self) -> int:
        return int(self.num_generations)

    def _leave_after(self, part: str, rows: list[dict[str, Any]]) -> list[Rollout]:
        training, metrics = self.model.training, self._metrics
        seen = self.state.num_input_tokens_seen
        self._metrics = {mode: defaultdict(list) for mode in metrics}
        self.batch_rows, self._leave = rows, part
        self.model.train()
        try:
            super()._generate_and_score_completions(rows)
        except _Left:
            return list(self._found)
        finally:
            self._leave = ""
            self.model.train(training)
            for name, values in self._metrics["train"].items():
                if part == REWARDS and name.startswith("tools/"):  # of all that was sampled
                    metrics["train"][name] += values
            self._metrics, self.state.num_input_tokens_seen = metrics, seen
        raise RuntimeError("TRL's step did not ask for rewards; this needs trl>=1.16,<1.17")

    def _generate(self, prompts: list[Any]) -> Any:
        if self._replayed is not None:
            return self._replay(self._replayed, prompts)
        result = super()._generate(prompts)
        if self._leave:
            self._found = self._rollouts(prompts, result)
        if self._leave == RESPONSES:
            raise _Left
        return result

    def _rollouts(self, prompts: list[Any], result: tuple[Any, ...]) -> list[Rollout]:
        prompt_ids, ids, own, completions, log_probs, _, images, tool_images = result
        traced: list[Any] = [None] * len(ids)
        if self.trace is not None and self.trace.lengths == [len(row) for row in ids]:
            of_each = zip(self.trace.log_probs, self.trace.entropies, strict=True)
            traced = [tuple(one.cpu() for one in pair) for pair in of_each]
        columns = (
            self.batch_rows, prompts, prompt_ids, ids, own, completions, log_probs, images,
            tool_images or None, traced,
        )  # fmt: skip
        each = (column or [None] * len(ids) for column in columns)
        return [Rollout(*values) for values in zip(*each, strict=True)]

    def _replay(self, rollouts: Sequence[Rollout], prompts: list[Any]) -> Any:
        """What TRL's ``_generate`` gives to these responses, and it logs of them."""
        prompts[:] = [one.prompt for one in rollouts]  # TRL's, to which environments have added
        given: dict[str, Any] = {
            "prompt_ids": [one.prompt_ids for one in rollouts],
            "completion_ids": [one.ids for one in rollouts],
            "logprobs": _column(rollouts, lambda one: one.log_probs),
            "env_mask": _column(rollouts, lambda one: one.own),
        }
        traced = [one.traced for one in rollouts if one.traced is not None]
        self.trace = None
        if len(traced) == len(rollouts):
            self.trace = Trace(*(list(column) for column in zip(*traced, strict=True)))
        before = self.rollout_func, self.tools, self.turns
        self.rollout_func, self.tools = lambda *_: given, []
        try:  # as plain prompts: the responses are read already
            result = super()._generate([""] * len(rollouts))
        finally:
            self.rollout_func, self.tools, self.turns = before
        images = _column(rollouts, lambda one: one.image)
        tool_images = _column(rollouts, lambda one: one.tool_images) or []
        completions = [one.completion for one in rollouts]
        return (*result[:3], completions, result[4], {}, images, tool_images)

    def _start_scoring(self, completions: list[Any]) -> None:
        if self._replayed is None:
            super()._start_scoring(completions)

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        if self._leave:  # nobody will read them
            _, ids, _, kept, *_ = args
            return ids.new_zeros((len(ids), kept), dtype=torch.float32), None, None
        return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    def observe_rewards(self, calculate: Callable[..., Tensor], *batch: Any) -> Tensor:
        if self._replayed is not None:
            self.rewards = self._replayed_rewards
            return self.rewards
        found = super().observe_rewards(calculate, *batch)
        if not self._leave:
            return found
        for column, values in self.logged.items():
            for rollout, value in zip(self._found, values, strict=False):
                rollout.logged[column] = value
        self._pending_extra_logs.clear()
        raise _Left

    # -- the batch

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not (self.args.dynamic_sampling and self.model.training):
            return super()._generate_and_score_completions(inputs)
        kept, rewards, told, took = self._with_signal(inputs)
        start = self.accelerator.process_index * len(inputs)
        own = kept[start : start + len(inputs)]
        columns = sorted({name for one in kept for name in one.logged})
        self.logged = {name: [one.logged.get(name) for one in own] for name in columns}
        self._pending_extra_logs.update({name: list(rows) for name, rows in self.logged.items()})
        self.batch_rows = [one.row for one in own]
        self._replayed, self._replayed_rewards = own, rewards
        try:
            output = super()._generate_and_score_completions(list(self.batch_rows))
        finally:
            self._replayed = None
        self.seconds = took
        self.log_of_batch(told)
        return output

    def _with_signal(
        self, inputs: list[dict[str, Any]]
    ) -> tuple[list[Rollout], Tensor, dict[str, float], dict[str, float]]:
        """The B responses of the batch in which groups without a signal were replaced by those of
        further prompts of the training set, drawn at random, their (B, reward functions) rewards,
        what is logged of it, and what it took.
        """
        size, processes = self._size, self.accelerator.num_processes
        unit = processes // math.gcd(size, processes)  # groups that can be shared out evenly
        took: dict[str, float] = defaultdict(float)
        kept, rewards, alike = self._respond(inputs, took)
        flat, sampled, groups = [n for n, none in enumerate(alike) if none], len(alike), len(alike)
        for attempt in range(1, self.args.dynamic_sampling + 1):
            if not flat:
                break
            count = -(-len(flat) // unit) * unit
            rows = [row for row in self._further(attempt, count) for _ in range(size)]
            share = len(rows) // processes
            start = self.accelerator.process_index * share
            asked = [dict(row) for row in rows[start : start + share]]
            found, scores, alike = self._respond(asked, took)
            sampled += count
            # Where more were sampled than are needed those with a signal are taken.
            taken = sorted(sorted(range(count), key=alike.__getitem__)[: len(flat)])
            for place, new in zip(flat, taken, strict=True):
                old, its = (
                    slice(place * size, place * size + size),
                    slice(new * size, new * size + size),
                )
                kept[old], rewards[old] = found[its], scores[its]
            flat = [place for place, new in zip(flat, taken, strict=True) if alike[new]]
        told = {"dynamic/groups_sampled": sampled / groups, "dynamic/flat_left": len(flat) / groups}
        return kept, rewards, told, took

    def _respond(
        self, rows: list[dict[str, Any]], took: dict[str, float]
    ) -> tuple[list[Rollout], Tensor, list[bool]]:
        """Responses of all processes, their rewards, and which groups fare alike."""
        found = gather_object(self._leave_after(REWARDS, rows))
        for name, seconds in self.seconds.items():
            took[name] += seconds
        return (
            found,
            self.rewards.clone(),
            flat_groups(self.correctness_rewards(), self._size).tolist(),
        )

    def _further(self, attempt: int, count: int) -> list[dict[str, Any]]:
        """``count`` rows of the training set; the same after a resume."""
        key = (self.args.seed, self.state.global_step, attempt)
        places = uniform_draws(key, count) * len(self.train_dataset)
        return [self.train_dataset[int(place)] for place in places]


def _column(rollouts: Sequence[Rollout], of: Callable[[Rollout], Any]) -> list[Any] | None:
    """One thing of each; None where no response has it."""
    found = [of(one) for one in rollouts]
    return None if all(one is None for one in found) else found
