"""The temperature and the response length in force: fixed stages, T(D), and what papers do instead.

Both change only where a batch is generated, for sampling and for the log-probabilities of the old,
new and reference policy together (``temperature.py`` has the rules as pure functions):

- **stages** (``temperature_stages``, ``length_stages``): values from given steps on;
- **T(D)** (``temperature_target_diversity``), by initial diversity: before the first update, D is
  measured on a temperature grid with the current model, and the chosen temperature is kept (the
  reading by trend needs training at each temperature: :mod:`mcbench.runs.trend`);
- **T by entropy** (``temperature_target_entropy``; AceReason), in the same way;
- **restored diversity** (``temperature_restore``; Polaris, An et al. 2025, section 3): at the start
  of a stage the temperature rises so that Distinct-4 of the responses' words returns to that of the
  first stage.

What was chosen is kept with every checkpoint.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from mcbench.errors import UserError
from mcbench.grpo.diversity import distinct_n, grouped
from mcbench.grpo.early import Rollout, responses
from mcbench.grpo.resume import STATE_FILE
from mcbench.grpo.temperature import (
    Choice,
    check_grid,
    nearest_temperature,
    select_temperature,
    stage_value,
)

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer

logger = logging.getLogger(__name__)


def distinct_4_words(texts: Sequence[str], group_size: int) -> float:
    """Distinct-4 as Polaris counts it: of words between white space and not of tokens, pooled over
    a prompt's responses, 0 where none has four; mean over prompts (``evaluation/grade.py`` of its
    repository).
    """
    numbers: dict[str, int] = {}
    words = [[numbers.setdefault(word, len(numbers)) for word in text.split()] for text in texts]
    values = [distinct_n([one], (4,))[4] for one in grouped(words, group_size)]
    return sum(0.0 if math.isnan(value) else value for value in values) / len(values)


class Stages:
    """Sets the temperature and the response length of a trainer.

    Raises:
        UserError: a stage begins inside a generated batch, or there are too few prompts to choose a
            temperature on.
    """

    def __init__(self, trainer: RepairedGRPOTrainer) -> None:
        self.trainer = trainer
        self.probe_rows: Sequence[dict[str, Any]] = ()  # if not the first of the training set
        args = trainer.args
        if (self._chooses or args.temperature_restore) and hasattr(
            trainer.train_dataset, "__len__"
        ):
            self.probe()
        starts = {
            "temperature_stages": [start for start, _ in args.temperature_points],
            "length_stages": [start for start, _ in args.length_points],
            "temperature_restore": args.temperature_restore or [],
        }
        for option, steps in starts.items():
            for start in steps:
                if not trainer.is_boundary(start):
                    raise UserError(
                        f"{option}: step {start} is inside a generated batch; the nearest allowed "
                        f"start steps are {trainer.resume.near_boundaries(start)}"
                    )

    @property
    def _chooses(self) -> bool:
        args = self.trainer.args
        targets = args.temperature_target_diversity, args.temperature_target_entropy
        return targets != (None, None)

    def enter(self) -> None:
        """Puts temperature and length of the current step in force: where training begins, so that
        an evaluation before the first update has them too, and before each batch is generated.
        """
        args, step = self.trainer.args, self.trainer.state.global_step
        if self._chooses:
            self.trainer.set_temperature(self._chosen().temperature)
        elif args.temperature_restore is not None:
            self.trainer.set_temperature(self._restored())
        elif args.temperature_points:
            temperature = stage_value(args.temperature_points, step) or args.temperature
            self.trainer.set_temperature(temperature)
        if args.length_points:
            self.trainer.set_max_completion_length(args.length_at(step))

    @property
    def choice(self) -> Choice | None:
        """What T(D) or T by entropy chose, None before or without it."""
        chosen = self.trainer.checkpoint_state.get("temperature_choice")
        return Choice(**chosen) if chosen else None

    def say_undecided(self) -> None:
        """Says so where what follows is sampled before a temperature has been chosen."""
        if self._chooses and self.choice is None:
            logger.warning(
                "sampled at temperature %g: another one is chosen where training begins "
                "(eval_on_start=True evaluates at that)", self.trainer.temperature,
            )  # fmt: skip

    def _chosen(self) -> Choice:
        """T(D), or by entropy: chosen before the first update, then kept."""
        if self.choice is not None:
            return self.choice
        args, step = self.trainer.args, self.trainer.state.global_step
        if step:
            raise UserError(
                f"the checkpoint of step {step} has no {STATE_FILE} with the chosen temperature"
            )
        if args.temperature_target_entropy is not None:
            choice = nearest_temperature(self.measure_entropy(), args.temperature_target_entropy)
        else:
            assert args.temperature_target_diversity is not None  # _chooses
            choice = self._lowest(args.temperature_target_diversity)
        choice = replace(choice, prompts=len(self.probe()))
        self.trainer.checkpoint_state["temperature_choice"] = asdict(choice)
        report = logger.info if choice.reached else logger.warning
        report(choice.explanation)
        return choice

    def _lowest(self, target: float) -> Choice:
        """T(D): the temperatures of the grid are measured from the lowest on, until one reaches the
        target; those above it would change nothing.
        """
        measured: dict[float, float] = {}
        for temperature in sorted(self.trainer.args.temperature_grid):
            measured |= self.measure_diversity([temperature])
            if measured[temperature] >= target:
                break
        return select_temperature(measured, target)

    def _restored(self) -> float:
        """The temperature of the stage: the first one's is ``temperature``; a later stage takes the
        lowest of the grid, from the one before on, at which Distinct-4 of words is that of the
        first stage again, measured as T(D) is.
        """
        args, state = self.trainer.args, self.trainer.checkpoint_state
        known: list[float] = state.setdefault("stage_temperatures", [])
        if not known:
            known.append(args.temperature)
            state["stage_diversity"] = self.measure_words(known)[known[0]]
        starts, step = args.temperature_restore or [], self.trainer.state.global_step
        begun = sum(start <= step for start in starts)
        while len(known) < 1 + begun:
            grid = [t for t in args.temperature_grid if t >= known[-1]] or known[-1:]
            choice = select_temperature(self.measure_words(grid), state["stage_diversity"])
            logger.info("stage %d: %s", len(known) + 1, choice.explanation)
            known.append(choice.temperature)
        return known[-1]

    # -- measuring, on some training prompts and without a trace in the training that follows

    def measure_diversity(self, grid: Sequence[float] | None = None) -> dict[float, float]:
        """D(T), Distinct-4 of the current model's responses, for each T of ``grid``."""
        trainer = self.trainer

        def distinct_4(responses: list[Rollout]) -> float:
            groups = grouped([one.own_ids for one in responses], trainer.num_generations)
            values = torch.tensor([distinct_n([group], (4,))[4] for group in groups])
            return trainer.gather(values).nanmean().item()

        return self._over(grid, distinct_4)

    def measure_words(self, grid: Sequence[float] | None = None) -> dict[float, float]:
        """D(T) of words in the place of tokens."""
        trainer = self.trainer

        def words(responses: list[Rollout]) -> float:
            texts = trainer.texts([one.own_ids for one in responses])
            return distinct_4_words(texts, trainer.num_generations)

        return self._over(grid, words)

    def measure_entropy(self, grid: Sequence[float] | None = None) -> dict[float, float]:
        """The sampler's entropy (nats a token) in the place of D(T).

        Raises:
            UserError: the sampler does not tell it.
        """
        if not self.trainer.args.sample_unfinished:
            raise UserError(
                "temperature_target_entropy needs sample_unfinished=True: no other sampler tells "
                "the entropy of its tokens"
            )

        def entropy(responses: list[Rollout]) -> float:
            if any(one.traced is None for one in responses):
                raise UserError("temperature_target_entropy: of tools' users it is not known")
            traced = [  # an environment's tokens have none
                one.traced[1][torch.tensor(one.own or [1] * len(one.ids)).bool()]
                for one in responses
                if one.traced is not None
            ]
            return self.trainer.mean_over_all(torch.cat(traced))

        return self._over(grid, entropy)

    def _over(
        self, grid: Sequence[float] | None, measure: Callable[[list[Rollout]], float]
    ) -> dict[float, float]:
        """``measure`` of responses to the prompts of :meth:`probe`, at each temperature.

        Samples through the trainer's own backend, each process its share of the prompts; the global
        random state is left as it was.
        """
        trainer, args = self.trainer, self.trainer.args
        grid = args.temperature_grid if grid is None else grid
        check_grid(grid)
        place, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
        rows = self.probe()
        share = rows[: len(rows) - len(rows) % processes][place::processes]
        before, measured = trainer.temperature, {}
        device = trainer.accelerator.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(args.seed + place)
            for temperature in grid:
                trainer.set_temperature(temperature)
                measured[float(temperature)] = measure(self._sample(share))
        trainer.set_temperature(before)
        return measured

    def probe(self) -> list[dict[str, Any]]:
        """The rows whose prompts are measured on: :attr:`probe_rows`, else the first of the
        training set.

        Raises:
            UserError: it has fewer than ``temperature_probe_prompts``.
        """
        trainer, asked = self.trainer, self.trainer.args.temperature_probe_prompts
        if self.probe_rows:
            return list(self.probe_rows)
        every = iter(trainer.train_dataset)
        if trainer.environment_owns_data:  # every reset gives another prompt
            every = itertools.cycle(trainer.train_dataset)
        rows = list(itertools.islice(every, asked))
        if len(rows) < asked:
            raise UserError(
                f"temperature_probe_prompts={asked} is what a temperature is chosen on, and the "
                f"training set has {len(rows)} prompts; few make a noisy choice, which holds for "
                "the whole training: lower temperature_probe_prompts if that is meant"
            )
        return rows

    def _sample(self, rows: Sequence[dict[str, Any]]) -> list[Rollout]:
        """G responses to each prompt, sampled by as many at a time as a training batch has in this
        process; by whole groups where it has one, and where an engine samples.
        """
        trainer, group = self.trainer, int(self.trainer.num_generations)
        size = trainer.args.per_device_train_batch_size * (trainer.args.steps_per_generation or 1)
        if size >= group or trainer.use_vllm:
            size = max(1, size // group) * group
        every = [row for row in rows for _ in range(group)]
        return [one for part in grouped(every, size) for one in responses(trainer, part)]
