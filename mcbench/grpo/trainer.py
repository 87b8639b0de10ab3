"""MicroCoder-GRPO on top of TRL's ``GRPOTrainer``: the method and nothing else.

Departures from TRL's GRPO, all off by default:

1. **Conditional truncation mask** (Eq. 2, ``masking.py``): after TRL has computed the advantages of
   a generated batch, those of the masked responses become zero. Once per generation, so the draw
   holds for every update made with the batch. ``truncation_mask="all"`` is TRL's own
   ``mask_truncated_completions``.
2. **Temperature and length stages** (``temperature.py``): changed only where a batch is generated,
   for sampling and for the log-probabilities of the old, new and reference policy together.
3. **T(D)**: before the first update, D is measured on a temperature grid with the current model and
   the chosen temperature is kept with every checkpoint.

No KL and a high clip ratio (Eq. 1) are TRL's own ``beta=0`` and ``epsilon_high``; see
``recipes.py``. What is mended in TRL (4 to 8) is in ``trl_compat.py``, what other papers do in
``rivals.py``.

Beside these, the trainer only observes: metrics of each batch (``metrics.py``) and the
``on_generation`` hook. Nothing draws from the global random state, so that with every option off
parameters and losses equal TRL's bit for bit.
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from mcbench.errors import UserError, unknown
from mcbench.grpo import masking
from mcbench.grpo.checks import idle_settings, unusual_rewards
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.dense import DenseGRPOTrainer
from mcbench.grpo.diversity import distinct_n, grouped, last_code_block, program_key
from mcbench.grpo.generation import GenerationBatch, as_array, completion_text
from mcbench.grpo.metrics import batch_metrics, sampler_metrics, time_metrics
from mcbench.grpo.recipes import PAPER
from mcbench.grpo.staged import distinct_4_words
from mcbench.grpo.temperature import (
    Choice,
    check_grid,
    nearest_temperature,
    select_temperature,
    stage_value,
)
from mcbench.grpo.trl_resume import STATE_FILE

logger = logging.getLogger(__name__)


class MicroCoderGRPOTrainer(DenseGRPOTrainer):
    """A drop-in for ``GRPOTrainer`` with a ``MicroCoderGRPOConfig`` (its defaults where None).

    ``on_generation`` is called on the main process with a ``GenerationBatch`` after each training
    batch is generated and scored. ``extract_program`` finds the program in a response (for
    ``diversity/unique_programs``); by default the last complete fenced block. A reward function may
    have a method ``start_scoring`` (see ``RepairedGRPOTrainer``). The other arguments are TRL's.
    """

    # For the model card that is written with every checkpoint.
    _tag_names = ["trl", "grpo", "microcoder-grpo"]  # noqa: RUF012  (as in TRL)
    _name = "MicroCoder-GRPO"
    _paper = PAPER

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: MicroCoderGRPOConfig | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        reward_processing_classes: Any = None,
        callbacks: list[Any] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        quantization_config: Any = None,
        peft_config: Any = None,
        tools: list[Callable[..., Any]] | None = None,
        rollout_func: Callable[..., Any] | None = None,
        environment_factory: Any = None,
        *,
        on_generation: Callable[[GenerationBatch], None] | None = None,
        extract_program: Callable[[str], str | None] = last_code_block,
    ) -> None:
        super().__init__(
            model,
            args,
            reward_funcs=reward_funcs,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            reward_processing_classes=reward_processing_classes,
            callbacks=callbacks,
            optimizers=optimizers,
            quantization_config=quantization_config,
            peft_config=peft_config,
            tools=tools,
            rollout_func=rollout_func,
            environment_factory=environment_factory,
        )
        self.on_generation = on_generation
        self.extract_program = extract_program
        self._told_of_rewards = False
        self._check_settings()

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Generates and scores a batch; its (B,) advantages are those of Eq. 2."""
        if self.model.training:
            self._enter_stage()
        output = super()._generate_and_score_completions(inputs)  # o_i, r_i and A_i by TRL
        truncated, repeating = self._endings(output["completion_ids"])
        rewards = self.correctness_rewards()
        read = masking.correctness(
            rewards, self.args.correct_threshold, self.args.incorrect_threshold
        )
        eligible = {
            when: masking.eligible(truncated, read.candidates(when), repeating)
            for when in masking.MASK_WHEN
        }
        conditional = self.training and self.args.truncation_mask == "conditional"
        if conditional:
            draws = masking.uniform_draws(self.draw_key, len(truncated))
            masked = masking.conditional_mask(
                eligible[self.args.mask_when], draws, self.args.mask_ratio
            )
        else:  # none, but for mask_truncated_completions, which TRL has done already
            masked = self.removed_from_loss(output)
        advantages = masking.masked_advantages(self.gather(output["advantages"]), masked)
        if conditional:
            self._check_rewards(rewards)
            self.replace_advantages(output, advantages)
            if self.args.masked_lose == "loss":
                self.remove_from_loss(output, masked)
        weights = self.importance_weights(output)
        batch = GenerationBatch(
            **self.generated_batch(output),
            truncated=as_array(truncated),
            repeating=as_array(repeating),
            eligible={when: as_array(rows) for when, rows in eligible.items()},
            masked=as_array(masked),
            rewards=as_array(rewards),
            advantages=as_array(advantages),
            weights=None if weights is None else as_array(weights),
        )
        self._log(batch, read, output)
        return self.as_trained(output)

    # -- Eq. 2

    def _endings(self, completion_ids: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) truncated, and (B,) truncated and ending in a repetition."""
        truncated = self.truncated().to(completion_ids.device)
        lengths = torch.tensor([len(row) for row in self.sampled_ids], device=truncated.device)
        repeating = masking.repeats(
            completion_ids,
            torch.where(truncated, lengths, 0),  # the rule is only asked of truncated responses
            self.args.repeat_window,
            self.args.repeat_rule,
        )
        return self.gather(truncated), self.gather(repeating)

    def _log(self, batch: GenerationBatch, read: masking.Correctness, output: Any) -> None:
        """Metrics of the batch into TRL's log, the batch to the hook."""
        keys = None
        if self.args.diversity_metrics:
            programs = [self.extract_program(completion_text(c)) for c in self.sampled_completions]
            keys = self.gather(torch.tensor([program_key(p) for p in programs])).tolist()
        metrics = batch_metrics(batch, read, keys)
        self.log_of_batch(metrics | self.sampled_entropy() | self.words_metrics())
        self.log_of_batch(time_metrics(self.seconds, self.gather))
        if not self.use_vllm:  # TRL has logged these
            sampled = self.sampler_log_probs(output)
            self.log_of_batch(sampler_metrics(output, sampled, self.gather))
        if self.training and self.on_generation is not None and self.accelerator.is_main_process:
            self.on_generation(batch)

    # -- stages and T(D)

    @property
    def temperature_choice(self) -> Choice | None:
        """What T(D) chose, None before or without it."""
        chosen = self.checkpoint_state.get("temperature_choice")
        return Choice(**chosen) if chosen else None

    def _enter_stage(self) -> None:
        """Puts temperature and length of the current step in force, before a batch is generated."""
        args, step = self.args, self.state.global_step
        if self._chooses_temperature:
            self.set_temperature(self._chosen().temperature)
        elif args.temperature_restore is not None:
            self.set_temperature(self._restored())
        elif args.temperature_points:
            self.set_temperature(stage_value(args.temperature_points, step) or args.temperature)
        if args.length_points:
            length = stage_value(args.length_points, step)
            self.set_max_completion_length(int(length or args.max_completion_length or 0))

    @property
    def _chooses_temperature(self) -> bool:
        args = self.args
        targets = args.temperature_target_diversity, args.temperature_target_entropy
        return targets != (None, None)

    def _chosen(self) -> Choice:
        """T(D), or by entropy: chosen before the first update, then kept."""
        if self.temperature_choice is not None:
            return self.temperature_choice
        step = self.state.global_step
        if step:
            raise UserError(
                f"the checkpoint of step {step} has no {STATE_FILE} with the chosen temperature"
            )
        if (entropy := self.args.temperature_target_entropy) is not None:
            choice = nearest_temperature(self.measure_entropy(), entropy)
        else:
            target = self.args.temperature_target_diversity
            assert target is not None  # _chooses_temperature
            choice = select_temperature(self.measure_diversity(), target)
        self.checkpoint_state["temperature_choice"] = asdict(choice)
        report = logger.info if choice.reached else logger.warning
        report(choice.explanation)
        return choice

    def _restored(self) -> float:
        """The temperature of the stage: the first one's is ``temperature``; a later stage takes the
        lowest of the grid, from the one before on, at which Distinct-4 of words is that of the
        first stage again (Polaris, section 3), measured as T(D) is.
        """
        starts, state = self.args.temperature_restore or [], self.checkpoint_state
        known: list[float] = state.setdefault("stage_temperatures", [])
        if not known:
            known.append(self.args.temperature)
            state["stage_diversity"] = self.measure_words(known)[known[0]]
        while len(known) < 1 + sum(start <= self.state.global_step for start in starts):
            grid = [t for t in self.args.temperature_grid if t >= known[-1]] or known[-1:]
            choice = select_temperature(self.measure_words(grid), state["stage_diversity"])
            logger.info("stage %d: %s", len(known) + 1, choice.explanation)
            known.append(choice.temperature)
        return known[-1]

    def measure_words(self, grid: Sequence[float] | None = None) -> dict[float, float]:
        """D(T) as :meth:`measure_diversity` measures it, of words in the place of tokens."""
        return self._over(grid, lambda ids: distinct_4_words(self.texts(ids), self.num_generations))

    def measure_diversity(self, grid: Sequence[float] | None = None) -> dict[float, float]:
        """D(T) (Distinct-4) of the current model on the first training prompts, for each T of
        ``grid``.
        """

        def distinct_4(responses: list[list[int]]) -> float:
            groups = grouped(responses, self.num_generations)
            values = torch.tensor([distinct_n([group], (4,))[4] for group in groups])
            return self.gather(values).nanmean().item()

        return self._over(grid, distinct_4)

    def measure_entropy(self, grid: Sequence[float] | None = None) -> dict[float, float]:
        """The sampler's entropy (nats a token) as :meth:`measure_diversity` measures D(T)."""
        if not self.args.sample_unfinished:
            raise UserError(
                "temperature_target_entropy needs sample_unfinished=True: no other sampler tells "
                "the entropy of its tokens"
            )
        return self._over(grid, lambda _: self.sampled_entropy()["entropy/all_responses"])

    def _over(
        self, grid: Sequence[float] | None, measure: Callable[[list[list[int]]], float]
    ) -> dict[float, float]:
        """``measure`` of responses to the first training prompts, at each temperature.

        Samples through the trainer's own backend, each process its share of the prompts; the global
        random state is left as it was.
        """
        grid = self.args.temperature_grid if grid is None else grid
        check_grid(grid)
        count = self.args.temperature_probe_prompts
        prompts = [row["prompt"] for row in itertools.islice(iter(self.train_dataset), count)]
        if len(prompts) < count:
            raise UserError(
                f"temperature_probe_prompts is {count}, but the training set has {len(prompts)} "
                f"rows"
            )
        share = prompts[self.accelerator.process_index :: self.accelerator.num_processes]
        before, measured = self.temperature, {}
        device = self.accelerator.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(self.args.seed + self.accelerator.process_index)
            for temperature in grid:
                self.set_temperature(temperature)
                measured[float(temperature)] = measure(self.sample(share))
        self.set_temperature(before)
        return measured

    def _check_settings(self) -> None:
        if self.args.correctness_reward not in (None, *self.reward_func_names):
            raise unknown(
                "correctness_reward", self.args.correctness_reward, self.reward_func_names
            )
        for name in ("rollout_func", "environment_factories"):
            measures = self._chooses_temperature or self.args.temperature_restore
            if measures and getattr(self, name) is not None:
                raise UserError(f"the target of a temperature cannot be measured with {name}")
        restored = [(start, None) for start in self.args.temperature_restore or ()]
        for option in ("temperature_stages", "length_stages", "temperature_restore"):
            points = restored if option == "temperature_restore" else getattr(self.args, option)
            for start, _ in points or ():
                if not self.is_boundary(start):
                    raise UserError(
                        f"{option}: step {start} is inside a generated batch; the nearest allowed "
                        f"start steps are {self.near_boundaries(start)}"
                    )
        for text in idle_settings(self.args, self.max_completion_length, self.reward_func_names):
            logger.warning(text)

    def _check_rewards(self, rewards: Tensor) -> None:
        text = unusual_rewards(rewards, self.args)
        if text and not self._told_of_rewards:
            self._told_of_rewards = True
            logger.warning(text)
