"""Everything that mends TRL 1.16 or reaches into it, transformers 5.17 and accelerate 1.15.

``tests/grpo/test_trl_contract.py`` checks each private name and behaviour used here. No code of TRL
is copied: every method overridden calls ``super()``. What is mended, beside the three departures of
the method that ``trainer.py`` names:

4. **Resume** in a later epoch continues the data order of the uninterrupted run; TRL's sampler
   would repeat that of the first epoch. A checkpoint inside a generated batch holds what is left of
   it, which TRL's does not (``resume.py``). A reference model that is synchronised
   (``sync_ref_model``) and the place in a streamed data set are not in a checkpoint, which is said.
   An adapter beside its copy for the KL term is loaded; transformers would load the copy alone.
5. **FSDP2**: the processes generate in step; weights are divided again before they are sent to
   vLLM; in bf16 gradients are reduced and log-probabilities returned in float32 (``fsdp2.py``); a
   reference model that only the first process has loaded is refused.
6. **Continuous batching** keeps the weights, and its failures are errors (``sampling.py``).
7. **vLLM** in the process leaves the random state as TRL seeded it.
8. **KL**: the clamped estimator (``kl.py``) by the reference that TRL's loss is given.
9. **Another sampler than vLLM** takes the importance correction too, where ``sampler_noise`` makes
   its log-probabilities differ from the policy's (``correction.py``).
10. **Stop tokens** in ``generation_kwargs`` end a response; TRL would count the padding after them
    (https://github.com/huggingface/trl/issues/3425). A padding token sampled as the last allowed
    one ends none.
11. What cannot be trained on is refused before an update (``checks.py``). A **response without a
    token**, on which TRL fails in the middle of a run
    (https://github.com/meta-pytorch/OpenEnv/issues/1029), stands as one end token that is in no
    loss, and has no reward, so that it has no part in its group's mean either. It is said once. A
    later turn of a tool's user may be empty, as in TRL.
12. **A truncated sampler** (top_p, top_k, min_p) has log-probabilities of what it samples from
    (``truncation.py``).

``stop_at_fence`` (``fence.py``) acts where TRL samples; its end tokens are taken out of the loss.
TRL's step can be left early, or made with responses that are there already (``early.py``).
"""

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from accelerate.utils import gather_object, set_seed
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOTrainer

from mcbench.errors import UserError
from mcbench.grpo import correction, early, fsdp2, observed, sampling, shared_prefix
from mcbench.grpo.checks import (
    changed_sampling,
    inherited_settings,
    refuse_half_loaded_reference,
    refuse_idle_training,
    refuse_other_outputs,
)
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.correction import loss_mask
from mcbench.grpo.decode import Trace
from mcbench.grpo.fence import Fence
from mcbench.grpo.kl import clamp
from mcbench.grpo.length_groups import in_length_groups
from mcbench.grpo.masking import is_truncated
from mcbench.grpo.replaced import replaced
from mcbench.grpo.resume import Resume, load_adapter
from mcbench.grpo.shared_prefix import SharedPrefix
from mcbench.grpo.truncation import Filter, TruncatedHead, filters, sampled_from

logger = logging.getLogger(__name__)


class RepairedGRPOTrainer(GRPOTrainer):
    """``GRPOTrainer`` with its gaps mended and with what it makes of a batch kept in reach.

    B = P·G responses of all processes in dataset order, so that response i belongs to group i // G.

    A reward function that has a method ``start_scoring(completions, **columns)`` is told of the
    responses as soon as they are generated, so that it can work while the log-probabilities of the
    policy and the reference are computed; TRL calls it for the rewards afterwards, as always.
    """

    # Set by GRPOTrainer.
    args: MicroCoderGRPOConfig
    model: Any
    train_dataset: Any
    num_generations: int
    num_generations_eval: int
    temperature: float
    max_completion_length: int | None
    _step: int  # passes; TRL's own, from which it knows where in a batch it is
    _buffered_inputs: Any  # the slices of the batch, None before the first
    _logs: dict[str, Any]

    # Of the batch generated last.
    training = True  # whether it is trained on, and not one of an evaluation
    sampled_ids: list[list[int]]  # this process's responses, without padding
    asked_ids: list[list[int]]  # of their prompts
    sampled_mask: list[list[int]] | None = None  # 0 for the tokens of tools, None without tools
    ends_otherwise: Sequence[str] = ()  # what ends a response without a token, by name
    turns = False  # whether TRL was told which of their tokens the policy sampled
    sampler_said: list[list[float]] | None = None  # log-probabilities that TRL has not
    rewards: Tensor  # (B, reward functions); NaN where a function gave none
    deciding_reward: str | None = None  # name of the one that decides correctness; None: the sum
    _temperature_cells: list[Any]  # of the model and the reference, see sampling.py
    batch_rows: Sequence[dict[str, Any]] = ()
    sampled_prompts: list[Any]  # as environments have completed them
    sampled_completions: list[Any]
    empty: Sequence[bool] | None = ()  # which have no token; None until they are sampled
    trace: Trace | None = None  # of sample_unfinished
    logged: Mapping[str, Sequence[Any]] = MappingProxyType({})  # by reward functions, of our rows
    seconds: Mapping[str, float] = MappingProxyType({})
    _draws: tuple[int, int] = (-1, -1)  # global step and how many batches it had generated before
    _log_ratios: dict[int, Tensor] | None = None  # by place in this process's share
    _trained_ids: Sequence[list[int]] = ()  # the responses that they are of

    leaving: early.Leaving | None = None  # of the step in progress, see early.py
    replay: early.Replay | None = None
    fence: Fence | None = None  # of stop_at_fence
    _kept_by: Sequence[Filter] = ()  # of top_k, top_p and min_p
    scores_what_it_samples = True  # whether log-probabilities are of what is sampled from
    _scored: dict[str, Any] | None = None  # what TRL's loss reads, while it is computed
    _old_log_probs: list[Tensor] | None = None
    environment_owns_data = False  # the training set is a placeholder
    _said: frozenset[str] = frozenset()  # what is said once

    def __init__(self, model: Any, args: MicroCoderGRPOConfig | None, **kwargs: Any) -> None:
        if args is None:
            args = MicroCoderGRPOConfig(output_dir=f"{name_of(model)}-MicroCoder-GRPO")
        if not isinstance(args, MicroCoderGRPOConfig):  # before a model is loaded
            raise UserError(
                f"{type(self).__name__} takes args=MicroCoderGRPOConfig(...), which has all "
                f"options of {type(args).__name__}"
            )
        refuse_half_loaded_reference(args)
        self.checkpoint_state: dict[str, Any] = {}  # JSON-ready, kept with every checkpoint
        self.resume = Resume(self)
        super().__init__(model=model, args=args, **kwargs)
        self.environment_owns_data = kwargs.get("train_dataset") is None
        if self.rollout_func is not None:
            self.rollout_func = sampling.filling(self.rollout_func, self)
        sampling.without_missing_end(self.eos_token_ids)
        stops = sampling.stop_tokens(args.generation_kwargs, self.eos_token_ids)
        self.eos_token_ids = [*self.eos_token_ids, *stops]  # another list than the model's
        if args.stop_at_fence:
            self.fence = Fence(self._tokenizer)
        if self.use_vllm:  # whose engine seeds every generator of the process
            set_seed(args.seed, device_specific=True)
        if args.sample_unfinished:
            sampling.use_own_loop(self)
        refuse_other_outputs(self)
        if args.shared_prefix:
            shared_prefix.refuse_others(self)
        self._kept_by, inherited = filters(args), inherited_settings(self)
        self.ends_otherwise = sampling.ends_without_token(args.generation_kwargs, inherited)
        changed = changed_sampling(args, inherited)
        whole = len(self._kept_by) != len(sampled_from(args))  # beside a KL term
        # TRL scores without positions, so that learned ones count the padding of a prompt.
        relative = any("rotary" in name for name, _ in self.model.named_modules())
        self.scores_what_it_samples = not changed and not whole and relative
        models = [model for model in (self.model, self.ref_model) if model is not None]
        self._temperature_cells = [sampling.log_prob_temperature_cell(model) for model in models]
        if self.continuous_batching_config is not None:
            self.continuous_batching_config.return_logprobs = True
        if self.is_fsdp_enabled:
            fsdp2.generate_in_step(self.model)

    # -- what a subclass does at a point of TRL's training

    def enter_stage(self) -> None:
        """Puts in force what the current step is trained with."""

    def tokens(self, inputs: dict[str, Any], log_probs: Tensor) -> None:
        """May change what TRL's loss reads of ``inputs``, once it knows the policy's (B, T)
        log-probabilities.
        """

    # -- a batch

    def begin_batch(self) -> None:
        """Before a batch is generated; begins its draws."""
        self.training = self.model.training
        if self.training:
            step, (previous, count) = self.state.global_step, self._draws
            self._draws = (step, count + 1 if step == previous else 0)

    @property
    def draw_key(self) -> tuple[int, int, int]:
        """(seed, global step, batches this step generated before): the same after a resume."""
        return (self.args.seed, *self._draws)

    def step(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """TRL's ``_generate_and_score_completions`` with its responses and rewards observed: those
        that it trains on, whatever a subclass, or a function put on the trainer, makes of
        ``_generate`` and ``_calculate_rewards``.
        """
        with replaced(
            self,
            _generate=partial(observed.responses, self, self._generate),
            _calculate_rewards=partial(observed.rewards, self, self._calculate_rewards),
        ):
            return super()._generate_and_score_completions(list(rows))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.batch_rows = inputs
        try:
            output = self.step(inputs)
        finally:
            replayed, self.replay = self.replay, None
        if replayed is not None:
            self.seconds = replayed.seconds
        if self.fence is not None:
            self.fence.leave_out(self.sampled_ids, output["completion_mask"])
            output["num_items_in_batch"] = self.gather(loss_mask(output).sum()).sum()
        if self.args.sampler_noise and not self.use_vllm:
            correction.correct_noisy_sampler(self, output)
        if self.training:
            self._log_ratios, self._trained_ids = {}, self.sampled_ids
            output["place"] = torch.arange(len(self.sampled_ids))
        return output

    # -- sampling

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        # Turns that a rollout function samples are its own business, and what it returns is not.
        self.empty = None if self.rollout_func is None else ()
        result = super()._generate(prompts)
        mask = result[2]
        empty: list[bool] = list(self.empty or [False] * len(result[1]))
        self.turns = mask is not None
        if self.gather(torch.tensor([any(empty)])).any():  # every process has a mask, or none
            mask = mask or [[1] * len(ids) for ids in result[1]]
            for own, without in zip(mask, empty, strict=True):
                own[0] = own[0] * (not without)
        return (*result[:2], mask, *result[3:])

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        respond = super()._generate_single_turn
        empty = [place for place, ids in enumerate(prompt_ids) if not len(ids)]
        if empty:
            raise UserError(
                f"{len(empty)} of {len(prompt_ids)} prompts have no token (the first is number "
                f"{empty[0]} of its batch), and nothing can follow them; leave such rows out"
            )
        return sampling.one_turn(self, lambda: respond(prompt_ids, *args, **kwargs))

    def respond(
        self,
        prompt_ids: list[list[int]],
        max_new_tokens: int | None,
        temperature: float,
        top_p: float | None = None,
    ) -> list[list[int]]:
        """One response to each prompt, from what samples the training responses, at another length
        and temperature, and nucleus where one is given. Every process must call, each with as many
        prompts.
        """
        sampler = self.vllm_generation if self.use_vllm else self.generation_config
        limit = "max_completion_length" if self.use_vllm else "max_new_tokens"
        asked = {"temperature": temperature, limit: max_new_tokens}
        asked |= {} if top_p is None else {"top_p": top_p}
        owner: Any = sampler if self.use_vllm else self  # of generation_kwargs, which come first
        given, dropped = owner.generation_kwargs or {}, {*asked, "max_tokens"}
        others = {name: value for name, value in given.items() if name not in dropped}
        others |= {} if self.use_vllm else asked
        with replaced(sampler, **asked), replaced(owner, generation_kwargs=others):
            ids, _ = self._generate_single_turn(prompt_ids, None, {}, 1)
        return [list(row) for row in ids]

    # -- log-probabilities and the loss

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if self.args.shared_prefix and self._buffered_inputs is not before:
            self._buffered_inputs = shared_prefix.arranged(self)
            inputs = self._buffered_inputs[self._step % len(self._buffered_inputs)]
        return inputs

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        old, self._old_log_probs = self._old_log_probs, None
        if self.leaving is not None:  # nobody will read them
            shape = len(input_ids), logits_to_keep
            return input_ids.new_zeros(shape, dtype=torch.float32), None, None
        if old is not None:
            rows = pad_sequence(old, batch_first=True).to(input_ids.device)
            return nn.functional.pad(rows, (0, logits_to_keep - rows.shape[1])), None, None
        score = super()._get_per_token_logps_and_entropies
        others = compute_aux_loss or any(one is not None for one in images.values())
        if self.args.shared_prefix and not others:
            model = SharedPrefix(model, logits_to_keep, self.temperature, self._kept_by)
        elif self._kept_by:
            model = TruncatedHead(model, self.temperature, self._kept_by)
        groups, aux_loss = self.args.length_groups, None
        if groups == 1 or others or self.args.shared_prefix:
            log_probs, entropies, aux_loss = score(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy,
                compute_aux_loss, **images,
            )  # fmt: skip
        else:
            count = len(input_ids)
            at_once = batch_size or count
            log_probs, entropies = in_length_groups(
                lambda ids, mask, kept: score(
                    model, ids, mask, kept, compute_entropy=compute_entropy
                )[:2],
                input_ids, attention_mask, logits_to_keep,
                count if groups >= at_once else max(groups, -(-count // at_once)),
            )  # fmt: skip
        if self._scored is not None:
            observed.keep_ratios(self, self._scored, log_probs)
            if self.beta and self.args.kl_estimator != "k3":
                clamp(self, self._scored, log_probs)
            self.tokens(self._scored, log_probs)
        return log_probs, entropies, aux_loss

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        inputs = dict(inputs)  # what is changed is changed for this pass: the batch serves others
        # What has left the loss since these were computed is scored as padding, with 0, and TRL
        # takes the ratio before it masks: of an unlikely token that is infinite, and the loss NaN.
        left = ~inputs["completion_mask"].bool()
        for name in ("old_per_token_logps", "ref_per_token_logps"):
            if name in inputs:
                inputs[name] = inputs[name].masked_fill(left, 0.0)
        ratio = inputs.get("importance_sampling_ratio")
        if ratio is not None and not self.use_vllm and self.loss_type != "vespo":
            # TRL multiplies the loss by it where vLLM samples, but for vespo, whose weights hold
            # it. Those losses are proportional to the advantage of the token.
            inputs["advantages"] = inputs["advantages"].unsqueeze(1) * ratio
        with replaced(self, _scored=inputs):
            return super()._compute_loss(model, inputs)

    def log_ratios(self) -> list[NDArray[Any]] | None:
        """log π - log π_old of each token of the batch generated last, in the update that used the
        response last: (tokens,) for each of the B responses, (0,) where it has no token in the
        loss. None where some are not trained on yet, or where TRL needs no π_old because π is the
        same. Every process must call.
        """
        found, own = self._log_ratios or {}, self._trained_ids
        rows = [found[place].numpy()[: len(own[place])] for place in sorted(found)]
        complete = self.gather(torch.tensor([len(rows) == len(own)])).all()
        return self.gather_objects(rows) if complete else None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, which leaves the metrics of training out where a callback has left the model in
        evaluation mode, and has them in the mean of the next line.
        """
        if "loss" in logs:
            self.model.train()
        super().log(logs, start_time)

    def say_once(self, about: str, text: str) -> None:
        """A warning, if there is a text, the first time that there is one ``about`` that."""
        if text and about not in self._said:
            self._said |= {about}
            logger.warning(text)

    # -- the batch of all processes; every process must call, or the others wait

    def gather(self, rows: Tensor) -> Tensor:
        """``rows`` of all processes one after another."""
        return self.accelerator.gather(rows.to(self.accelerator.device))

    def gather_objects(self, rows: Sequence[Any]) -> list[Any]:
        """Any things of all processes."""
        return list(gather_object(list(rows)))

    def mean_over_all(self, values: Tensor) -> float:
        """Mean of the 1-D values of all processes; every process must call."""
        local = torch.stack([values.sum(), values.new_tensor(len(values))])
        total, count = self.gather(local[None]).sum(0)
        return (total / count).item()

    def log_of_batch(self, metrics: dict[str, float]) -> None:
        """Adds values, which must be the same on every process, to TRL's next line of the log."""
        mode = "train" if self.training else "eval"
        for name, value in metrics.items():
            if not math.isnan(value):  # the mean of nothing
                self._metrics[mode][name].append(value)

    # -- what was sampled, and its rewards

    @property
    def group_size(self) -> int:
        """G of the batch generated last."""
        return self.num_generations if self.training else self.num_generations_eval

    def own_ids(self) -> list[list[int]]:
        """This process's responses without the tokens of tools."""
        if self.sampled_mask is None:
            return self.sampled_ids
        pairs = zip(self.sampled_ids, self.sampled_mask, strict=True)
        return [list(compress(ids, own)) for ids, own in pairs]

    def truncated(self) -> Tensor:
        """Whether each of this process's responses was cut at its limit, (B / processes,) bool."""
        ends = set(self.eos_token_ids)
        if self.rollout_func is not None or self.ends_otherwise:
            ends.add(self._tokenizer.pad_token_id)  # which may follow an end that no token marks
        return is_truncated(self.sampled_ids, ends, sampling.limits(self))

    def correctness_rewards(self) -> Tensor:
        """(B,) the reward that decides correctness; NaN where no reward function gave one."""
        if self.deciding_reward is not None:
            return self.rewards[:, self.reward_func_names.index(self.deciding_reward)]
        return self.total_rewards()

    def total_rewards(self, rewards: Tensor | None = None) -> Tensor:
        """(B,) the weighted sum of the batch's (B, reward functions), or of others; NaN where no
        reward function gave one.
        """
        each = self.rewards if rewards is None else rewards
        total = (each * self.reward_weights.to(each.device)).nansum(dim=1)
        return total.masked_fill(each.isnan().all(dim=1), float("nan"))

    @property
    def in_half_precision(self) -> bool:
        """Whether anything is computed in 16 bits: by autocast, or because weights have them."""
        mixed = self.args.bf16 or self.args.fp16
        return mixed or any(weight.itemsize < 4 for weight in self.model.parameters())

    # -- temperature and length, of every backend

    def set_temperature(self, temperature: float) -> None:
        """One temperature for sampling and for all log-probabilities (policy, old, reference)."""
        self.temperature = temperature
        self._tell_sampler("temperature", "temperature", temperature)
        for cell in self._temperature_cells:
            cell.cell_contents = temperature

    def set_max_completion_length(self, length: int | None) -> None:
        """L_max for sampling and for the constant in the ``dr_grpo`` loss; None: without one."""
        self.max_completion_length = length
        self._tell_sampler("max_completion_length", "max_new_tokens", length)

    def _tell_sampler(self, of_engine: str, of_transformers: str, value: Any) -> None:
        if self.use_vllm:
            setattr(self.vllm_generation, of_engine, value)
        else:
            setattr(self.generation_config, of_transformers, value)
            self.generation_kwargs[of_transformers] = value

    def texts(self, ids: list[list[int]]) -> list[str]:
        """Responses as text, without special tokens."""
        processor: Any = self.processing_class
        return list(processor.batch_decode(ids, skip_special_tokens=True))

    # -- checkpoints, and before the first update

    def is_boundary(self, step: int) -> bool:
        """Whether an update after ``step`` of them begins with a new generation."""
        return self.resume.is_boundary(step)

    def get_train_dataloader(self) -> Any:
        refuse_idle_training(self)
        return super().get_train_dataloader()

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self.resume.sampler = super()._get_train_sampler(dataset)
        return self.resume.sampler

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> Any:
        prepared = super()._prepare_for_training(
            max_steps, train_dataloader, resume_from_checkpoint
        )
        # TRL would begin to count at 0 after a resume, and go on counting where train() is called
        # again, with what was left of its last batch.
        self._step = self.resume.pass_in_batch(self.state.global_step)
        self._buffered_inputs = None
        self.model.train()  # as where a batch is generated
        self.enter_stage()  # before an evaluation at the start
        if resume_from_checkpoint is not None:
            self.resume.go_on(resume_from_checkpoint)
        return prepared

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        load_adapter(self, Path(resume_from_checkpoint), self.model if model is None else model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.resume.load(checkpoint)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.resume.save(trial)
        super()._save_checkpoint(model, trial)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """TRL's, without a link where the model has no name on the hub."""
        super().create_model_card(*args, **kwargs)
        card = Path(str(self.args.output_dir), "README.md")
        if self.is_world_process_zero():
            text = card.read_text(encoding="utf-8")
            link = "[None](https://huggingface.co/None)"
            card.write_text(text.replace(link, f"`{name_of(self.model)}`"), encoding="utf-8")

    # -- FSDP2

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        if self.args.bf16:
            fsdp2.reduce_in_float32(self.accelerator.state)


def name_of(model: Any) -> str:
    """What a model is called, for the folder of its training."""
    name = model if isinstance(model, str) else getattr(model.config, "_name_or_path", "")
    return Path(name).name or "model"
