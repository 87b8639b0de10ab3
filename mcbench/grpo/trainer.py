"""MicroCoder-GRPO on top of TRL's ``GRPOTrainer``: the method and nothing else.

Departures from TRL's GRPO, all off by default:

1. **Conditional truncation mask** (Eq. 2, ``masking.py``): after TRL has computed the advantages of
   a generated batch, those of the masked responses become zero. Once per generation, so the draw
   holds for every update made with the batch. ``truncation_mask="all"`` is TRL's own
   ``mask_truncated_completions``.
2. **Temperature and length stages** (``stages.py``): changed only where a batch is generated, for
   sampling and for the log-probabilities of the old, new and reference policy together.
3. **T(D)** (``stages.py``): before the first update, D is measured on a temperature grid with the
   current model and the chosen temperature is kept with every checkpoint.

No KL and a high clip ratio (Eq. 1) are TRL's own ``beta=0`` and ``epsilon_high``; see
``recipes.py``, and ``kl.py`` for the estimator of a KL term. What is mended in TRL (4 to 9) is in
``trl_compat.py``, what other papers do in ``rivals.py``.

Beside these, the trainer only observes: metrics of each batch (``metrics.py``) and the
``on_generation`` hook. Nothing draws from the global random state, so that with every option off
parameters and losses equal TRL's bit for bit.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from mcbench.errors import unknown
from mcbench.grpo import masking
from mcbench.grpo.checks import (
    idle_settings,
    inherited_settings,
    other_distributions,
    unusual_rewards,
)
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.dense import DenseGRPOTrainer
from mcbench.grpo.diversity import last_code_block, program_key
from mcbench.grpo.generation import GenerationBatch, as_array, completion_text, joined
from mcbench.grpo.metrics import batch_metrics, sampler_metrics, time_metrics
from mcbench.grpo.recipes import PAPER
from mcbench.grpo.stages import Stages

logger = logging.getLogger(__name__)

PER_RESPONSE = ("grpo", "sapo")
"""Losses of TRL's that are means over each response's tokens, then over responses."""


class MicroCoderGRPOTrainer(DenseGRPOTrainer):
    """A drop-in for ``GRPOTrainer`` with a ``MicroCoderGRPOConfig`` (its defaults where None).

    ``on_generation`` is called on the main process with a ``GenerationBatch`` after each training
    batch is generated and scored. ``extract_program`` finds the program in a response (for
    ``diversity/unique_programs``); by default the last complete fenced block. ``compute_metrics``
    gets the ``GenerationBatch`` of all responses of an evaluation, in every process, and returns
    numbers that are logged as ``eval_<name>``. A reward function may have a method
    ``start_scoring`` (see ``RepairedGRPOTrainer``). The other arguments are TRL's.
    """

    # For the model card that is written with every checkpoint.
    _tag_names = ["trl", "grpo", "microcoder-grpo"]  # noqa: RUF012  (as in TRL)
    _name = "MicroCoder-GRPO"
    _paper = PAPER
    compute_metrics: Any  # of transformers, which never calls it without predictions

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
        compute_metrics: Callable[[GenerationBatch], Mapping[str, float]] | None = None,
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
        self.compute_metrics = compute_metrics
        self._evaluated: list[GenerationBatch] = []
        self.stages = Stages(self)
        self._told_of_rewards = False
        self._check_settings()

    def enter_stage(self) -> None:
        self.stages.enter()

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        self._evaluated = []
        output: Any = super().evaluation_loop(
            dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
        )
        if self.compute_metrics is not None:
            rows = dataloader.dataset
            # Several processes get the first rows again where the last batch would not be full.
            count = len(rows) * self.num_generations_eval if hasattr(rows, "__len__") else None
            found = self.compute_metrics(joined(self._evaluated, count))
            output.metrics.update(
                {f"{metric_key_prefix}_{name}": float(value) for name, value in found.items()}
            )
        self._evaluated = []
        return output

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Generates and scores a batch; its (B,) advantages are those of Eq. 2."""
        if self.model.training:
            self.enter_stage()
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
        metrics = batch_metrics(batch, read, keys, self.args.loss_type in PER_RESPONSE)
        self.log_of_batch(metrics | self.sampled_entropy() | self.stages.metrics(self.sampled_ids))
        self.log_of_batch(time_metrics(self.seconds, self.gather))
        if not self.use_vllm:  # TRL has logged these
            sampled = self.sampler_log_probs(output)
            self.log_of_batch(sampler_metrics(output, sampled, self.gather))
        if self.training and self.on_generation is not None and self.accelerator.is_main_process:
            self.on_generation(batch)
        if not self.training and self.compute_metrics is not None:
            self._evaluated.append(batch)

    def _check_settings(self) -> None:
        if self.args.correctness_reward not in (None, *self.reward_func_names):
            raise unknown(
                "correctness_reward", self.args.correctness_reward, self.reward_func_names
            )
        names = self.reward_func_names
        for text in (
            *idle_settings(self.args, self.max_completion_length, names),
            *other_distributions(self.args, inherited_settings(self)),
        ):
            logger.warning(text)

    def _check_rewards(self, rewards: Tensor) -> None:
        text = unusual_rewards(rewards, self.args)
        if text and not self._told_of_rewards:
            self._told_of_rewards = True
            logger.warning(text)
