"""TRL's step left early, and made with responses that are there already.

Responses outside of a batch (:func:`responses`, for T(D)) and scored ones of which some will be
trained on (:func:`scored`, for dynamic sampling) are those of TRL's own step (tools, environments,
rollout functions and several processes included), left as soon as they are known. A batch made of
them is then put in the place of what TRL's step would sample (:class:`Replay`), so that no response
is sampled and no reward asked for twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mcbench.grpo.decode import Trace
from mcbench.grpo.replaced import replaced

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer

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
        return list(compress(self.ids, self.own or [1] * len(self.ids)))


class Left(Exception):
    """TRL's step, left where that was asked for."""


class Leaving:
    """Where TRL's step is to be left, and with what."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.found: list[Rollout] = []

    def sampled(self, trainer: RepairedGRPOTrainer, prompts: list[Any], result: Any) -> None:
        """Takes what ``_generate`` has returned."""
        prompt_ids, ids, own, completions, log_probs, _, images, tool_images = result
        traced: list[Any] = [None] * len(ids)
        if trainer.trace is not None:
            of_each = zip(trainer.trace.log_probs, trainer.trace.entropies, strict=True)
            traced = [tuple(one.cpu() for one in pair) for pair in of_each]
        columns = (
            trainer.batch_rows, prompts, prompt_ids, ids, own, completions, log_probs, images,
            tool_images or None, traced,
        )  # fmt: skip
        each = (column or [None] * len(ids) for column in columns)
        self.found = [Rollout(*values) for values in zip(*each, strict=True)]
        if self.part == RESPONSES:
            raise Left

    def scored(self, logged: Mapping[str, Sequence[Any]]) -> None:
        """Takes the further columns of the rewards."""
        for column, values in logged.items():
            for rollout, value in zip(self.found, values, strict=False):
                rollout.logged[column] = value
        raise Left


def responses(trainer: RepairedGRPOTrainer, rows: Sequence[dict[str, Any]]) -> list[Rollout]:
    """A response to each of this process's rows; nothing is scored or logged. Every process must
    call, each with as many rows.
    """
    return _until(RESPONSES, trainer, [dict(row) for row in rows])


def scored(trainer: RepairedGRPOTrainer, rows: list[dict[str, Any]]) -> list[Rollout]:
    """A response to each of this process's rows; their rewards are the trainer's ``rewards``."""
    return _until(REWARDS, trainer, rows)


def _until(part: str, trainer: Any, rows: list[dict[str, Any]]) -> list[Rollout]:
    training, seen = trainer.model.training, trainer.state.num_input_tokens_seen
    metrics: dict[str, Any] = {mode: defaultdict(list) for mode in trainer._metrics}
    trainer.batch_rows, leaving = rows, Leaving(part)
    trainer.model.train()
    try:
        with replaced(trainer, _metrics=metrics, leaving=leaving):
            trainer.step(rows)
    except Left:
        return leaving.found
    finally:
        trainer.model.train(training)
        trainer.state.num_input_tokens_seen = seen
        for name, values in metrics["train"].items():
            if part == REWARDS and name.startswith("tools/"):  # of all that was sampled
                trainer._metrics["train"][name] += values
    raise RuntimeError("TRL's step did not ask for rewards; this needs trl>=1.16,<1.17")


@dataclass
class Replay:
    """Responses in the place of those that TRL's step would sample; ``rewards`` are (B, reward
    functions) of all processes, ``seconds`` what they took.
    """

    rollouts: Sequence[Rollout]
    rewards: Tensor
    seconds: Mapping[str, float]

    @contextmanager
    def given(self, trainer: Any, prompts: list[Any]) -> Iterator[list[str]]:
        """For the block TRL's ``_generate`` takes them for a rollout function's answers to the
        plain prompts that are yielded: the responses of tools and environments are read already.
        """
        prompts[:] = [one.prompt for one in self.rollouts]  # to which environments have added
        answer: dict[str, Any] = {
            "prompt_ids": [one.prompt_ids for one in self.rollouts],
            "completion_ids": [one.ids for one in self.rollouts],
            "logprobs": self._column(lambda one: one.log_probs),
            "env_mask": self._column(lambda one: one.own),
        }
        traced = [one.traced for one in self.rollouts if one.traced is not None]
        trainer.trace = None
        if len(traced) == len(self.rollouts):
            trainer.trace = Trace(*(list(column) for column in zip(*traced, strict=True)))
        with replaced(trainer, rollout_func=lambda *_: answer, tools=[]):
            yield [""] * len(self.rollouts)

    def completed(self, result: tuple[Any, ...]) -> tuple[Any, ...]:
        """What TRL's ``_generate`` made of it, with the completions and images as they were."""
        images = self._column(lambda one: one.image)
        tool_images = self._column(lambda one: one.tool_images) or []
        completions = [one.completion for one in self.rollouts]
        return (*result[:3], completions, result[4], {}, images, tool_images)

    def _column(self, of: Callable[[Rollout], Any]) -> list[Any] | None:
        """One thing of each; None where no response has it."""
        found = [of(one) for one in self.rollouts]
        return None if all(one is None for one in found) else found


def put(
    trainer: RepairedGRPOTrainer,
    kept: Sequence[Rollout],
    rewards: Tensor,
    seconds: Mapping[str, float],
    own: slice = slice(None),
) -> list[dict[str, Any]]:
    """Puts responses of all processes in the place of those that TRL's step would sample; returns
    their rows, of which this process has ``own``. They may be of several batches: what is known of
    some of them alone is known of all then, or of none, so that all processes have it.
    """
    masked = any(one.own is not None for one in kept)
    traced = all(one.traced is not None for one in kept)
    kept = [
        replace(
            one,
            own=one.own or ([1] * len(one.ids) if masked else None),
            traced=one.traced if traced else None,
        )
        for one in kept
    ]
    columns = sorted({name for one in kept for name in one.logged})
    trainer.logged = {name: [one.logged.get(name) for one in kept[own]] for name in columns}
    trainer._pending_extra_logs.update({k: list(values) for k, values in trainer.logged.items()})
    trainer.replay = Replay(kept[own], rewards, seconds)
    return [one.row for one in kept[own]]
