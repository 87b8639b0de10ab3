"""MicroCoder-GRPO on top of TRL's ``GRPOTrainer``: the method and nothing else.

    J = E [ 1/Σ|o_i| Σ_i Σ_t min(ratio · A_i, clip(ratio, 1 - ε, 1 + ε_high) · A_i) ]      (Eq. 1)

    A_i = (r_i - mean r) / std r · (1 - 1[|o_i| = L_max ∧ incorrect(o_i) ∧ ¬repeat(o_i, m)
          ∧ U(0,1) < ρ])                                                                   (Eq. 2)

Departures from TRL's GRPO, all off by default:

1. **Conditional truncation mask** (Eq. 2, ``masking.py``): after TRL has computed the advantages of
   a generated batch, those of the masked responses become zero. Once per generation, so the draw
   holds for every update made with the batch. ``truncation_mask="all"`` is TRL's own
   ``mask_truncated_completions``.
2. **Temperature and length stages** (``stages.py``): changed only where a batch is generated, for
   sampling and for the log-probabilities of the old, new and reference policy together.
3. **T(D)** (``stages.py``): before the first update, D is measured on a temperature grid with the
   current model and the chosen temperature is kept with every checkpoint.

No KL and a high clip ratio (Eq. 1) are TRL's own ``beta=0`` and ``epsilon_high``; ``recipes.py``
has the five algorithms of the paper as such arguments. What is mended in TRL (4 to 12) is in
``trl_compat.py``.

What other papers do is called at three hooks, each a function of the trainer that gives back what
it gets unless its option is on:

- ``batch``, before sampling: which prompts the batch is of, and whose weights sample it
  (``batches.py``);
- ``advantages``, after scoring: the (B,) advantages before the mask (``advantages.py``);
- ``tokens``, in every pass of an update: what single tokens count (``tokens.py``).

The first and the last have the word once more where the batch is handed to TRL
(:meth:`MicroCoderGRPOTrainer.as_trained`).

Beside these, the trainer only observes: metrics of each batch (``metrics.py``) and the
``on_generation`` hook. Nothing draws from the global random state, so that with every option off
parameters and losses equal TRL's bit for bit.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mcbench.errors import UserError, unknown
from mcbench.grpo import advantages, batches, imitation, masking, observed, tokens
from mcbench.grpo.checks import (
    idle_settings,
    inherited_settings,
    other_distributions,
    unread_data,
    unusual_rewards,
)
from mcbench.grpo.config import CRITICISED, MicroCoderGRPOConfig
from mcbench.grpo.correction import loss_mask, response_weights
from mcbench.grpo.critic import FILE as CRITIC_FILE
from mcbench.grpo.critic import Critic
from mcbench.grpo.diversity import last_code_block, program_key
from mcbench.grpo.generation import GenerationBatch, generated, joined, own_text
from mcbench.grpo.metrics import (
    batch_metrics,
    computed,
    known_means,
    sampled_entropies,
    sampler_metrics,
    time_metrics,
)
from mcbench.grpo.options import MASK_WHEN
from mcbench.grpo.recipes import PAPER
from mcbench.grpo.replaced import replaced
from mcbench.grpo.sampling import limit_after
from mcbench.grpo.stages import Stages, distinct_4_words
from mcbench.grpo.trl_compat import RepairedGRPOTrainer

logger = logging.getLogger(__name__)

PER_RESPONSE = ("grpo", "sapo")
"""Losses of TRL's that are means over each response's tokens, then over responses."""


class MicroCoderGRPOTrainer(RepairedGRPOTrainer):
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
    stale: batches.StaleWeights | None = None
    critic: Critic | None = None
    _skipped = False  # whether the step is, by substitute_flat

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
        turns = bool(tools or environment_factory)
        with advantages.with_punishment(args, reward_funcs, turns) as reward_funcs:
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
        self.deciding_reward = advantages.deciding_reward(self.args, self.reward_func_names)
        batches.set_up(self)
        if self.args.staleness:
            self.stale = batches.StaleWeights(self)
        if self.args.token_credit in CRITICISED:
            if turns or rollout_func is not None:
                raise UserError(
                    f"token_credit={self.args.token_credit!r} compares a response with the greedy "
                    "one, which has one turn: no tools, environments and rollout_func"
                )
            self.critic = Critic(self.model.get_decoder(), self.args.seed)
            self.resume.parts[CRITIC_FILE] = self.critic
        self.stages = Stages(self)
        self._check_settings()

    # -- the method

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Generates and scores a batch; its (B,) advantages are those of Eq. 2."""
        if self.model.training:
            self.enter_stage()
        self.begin_batch()
        if self.training:
            inputs = self.batch(inputs)
        output = super()._generate_and_score_completions(inputs)  # o_i, r_i and A_i by TRL
        if self.stale is not None and self.training and self.trace is None:
            raise UserError(  # TRL has taken the log-probabilities of the policy of now
                "staleness: the log-probabilities of whole responses by what sampled them are not "
                "known of tools' users, of this rollout_func or of what a subclass changed"
            )
        own = self.gather(output["advantages"])
        unmasked = self.advantages(own) if self.training else own
        truncated, repeating = self._endings()
        rewards = self.correctness_rewards()
        read = masking.correctness(
            rewards, self.args.correct_threshold, self.args.incorrect_threshold
        )
        eligible = {
            when: masking.eligible(truncated, read.candidates(when), repeating)
            for when in MASK_WHEN
        }
        conditional = self.training and self.args.truncation_mask == "conditional"
        if conditional:
            draws = masking.uniform_draws(self.draw_key, len(truncated))
            masked = masking.conditional_mask(
                eligible[self.args.mask_when], draws, self.args.mask_ratio
            )
            self.say_once("rewards", unusual_rewards(rewards, self.args))
        else:  # none, but for mask_truncated_completions, which TRL has done already
            masked = observed.removed_from_loss(self, output)
        found = masking.masked_advantages(unmasked, masked)
        if conditional or unmasked is not own:
            observed.replace_advantages(self, output, found)
        if conditional and self.args.masked_lose == "loss":
            observed.remove_from_loss(self, output, masked)
        weights = output.get("importance_sampling_ratio")
        if weights is not None:
            weights = self.gather(response_weights(weights, loss_mask(output)))
        batch = generated(
            self,
            output,
            truncated=truncated,
            repeating=repeating,
            eligible=eligible,
            masked=masked,
            rewards=rewards,
            advantages=found,
            weights=weights,
        )
        self._log(batch, read, output)
        return self.as_trained(output) if self.training else output

    def enter_stage(self) -> None:
        """Puts temperature and length limit of the current step in force."""
        self.stages.enter()

    def _endings(self) -> tuple[Tensor, Tensor]:
        """(B,) truncated, and (B,) truncated and ending in a repetition of the policy's tokens."""
        truncated = self.truncated()
        own = [torch.tensor(ids, dtype=torch.long) for ids in self.own_ids()]
        repeating = masking.repeats(
            pad_sequence(own, batch_first=True),
            # The rule is only asked of truncated responses.
            torch.where(truncated, torch.tensor([len(ids) for ids in own]), 0),
            self.args.repeat_window,
            self.args.repeat_rule,
        )
        return self.gather(truncated), self.gather(repeating)

    # -- what other papers do instead: three hooks

    def batch(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of a training batch, given those that TRL drew."""
        return batches.batch(self, rows)

    def _generate(self, prompts: list[Any]) -> Any:
        if self.stale is None or not self.model.training or self.leaving is not None:
            return super()._generate(prompts)  # what is measured is measured on the policy
        with self.stale.in_force():
            return super()._generate(prompts)

    def advantages(self, found: Tensor) -> Tensor:
        """(B,) the advantages that Eq. 2 masks, given TRL's."""
        return advantages.advantages(self, found)

    def tokens(self, inputs: dict[str, Any], log_probs: Tensor) -> None:
        """Changes the advantages that TRL's loss reads of ``inputs``, to (B, T) of tokens, once the
        policy's (B, T) log-probabilities are known.
        """
        if self.args.token_rule != "none" and self.model.training:
            tokens.tokens(self, inputs, log_probs)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        """TRL's, without the KL term where that is in the reward, and with what imitation adds."""
        with replaced(self, beta=self.beta if self.args.kl_target is None else 0.0):
            loss = super()._compute_loss(model, inputs)
        if self.args.imitate != "none" and self.model.training:
            loss = loss + imitation.loss(self, model, inputs)
        return loss

    def as_trained(self, output: dict[str, Any]) -> dict[str, Any]:
        """What a batch is trained as, which its record does not show."""
        return tokens.as_trained(self, batches.as_trained(self, output))

    # -- what is observed

    def _log(self, batch: GenerationBatch, read: masking.Correctness, output: Any) -> None:
        """Metrics of the batch into TRL's log, the batch to the hook."""
        keys = None
        if self.args.diversity_metrics:
            programs = [self.extract_program(own_text(c)) for c in self.sampled_completions]
            keys = self.gather(torch.tensor([program_key(p) for p in programs])).tolist()
        metrics = batch_metrics(batch, read, keys, self.args.loss_type in PER_RESPONSE)
        if self.args.temperature_restore is not None:
            metrics["task/distinct_4_words"] = distinct_4_words(
                self.texts(self.own_ids()), self.group_size
            )
        self.log_of_batch(metrics)
        self.log_of_batch(time_metrics(self.seconds, self.gather))
        if self.trace is not None:
            entropies = sampled_entropies(self.trace, self.sampled_mask)
            self.log_of_batch({"entropy/all_responses": self.mean_over_all(entropies)})
        if not self.use_vllm:  # TRL has logged these
            sampled = observed.sampler_log_probs(self, output)
            self.log_of_batch(sampler_metrics(output, sampled, self.gather))
        if self.training and self.on_generation is not None and self.accelerator.is_main_process:
            self.on_generation(batch)
        if not self.training and self.compute_metrics is not None:
            self._evaluated.append(batch)

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        self._evaluated = []
        self.stages.say_undecided()
        self._metrics["eval"].clear()  # what predict() has left
        output: Any = super().evaluation_loop(
            dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
        )
        if metric_key_prefix != "eval":  # TRL logs all sets of a dictionary under the same names
            means = known_means(self._metrics["eval"])
            output.metrics.update({f"{metric_key_prefix}_{k}": v for k, v in means.items()})
            self._metrics["eval"].clear()
        if self.compute_metrics is not None and self._evaluated:
            rows, prefix = dataloader.dataset, f"{metric_key_prefix}_"
            # Several processes get the first rows again where the last batch would not be full.
            count = len(rows) * self.num_generations_eval if hasattr(rows, "__len__") else None
            found = self.compute_metrics(joined(self._evaluated, count))
            output.metrics.update(computed(found, prefix))
        self._evaluated = []
        return output

    # -- settings

    def _check_settings(self) -> None:
        names = self.reward_func_names
        if self.args.correctness_reward not in (None, *names):
            raise unknown("correctness_reward", self.args.correctness_reward, names)
        if self.deciding_reward is not None and names.count(self.deciding_reward) > 1:
            raise UserError(
                f"several reward functions are called {self.deciding_reward!r}, and one of them is "
                "to decide correctness; give each a __name__ of its own"
            )
        for text in (
            *idle_settings(self.args, limit_after(self, 0), names),
            *other_distributions(self.args, inherited_settings(self)),
            *unread_data(self),
        ):
            logger.warning(text)
