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
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from accelerate.utils import set_seed
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from mcbench.errors import UserError
from mcbench.grpo import correction, early, fsdp2, sampling
from mcbench.grpo.checks import (
    changed_sampling,
    inherited_settings,
    refuse_half_loaded_reference,
    refuse_idle_training,
)
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.correction import loss_mask
from mcbench.grpo.decode import Trace
from mcbench.grpo.fence import Fence
from mcbench.grpo.generation import gather_sequences
from mcbench.grpo.kl import clamp
from mcbench.grpo.length_groups import in_length_groups
from mcbench.grpo.masking import is_truncated
from mcbench.grpo.reach import ReachedGRPOTrainer
from mcbench.grpo.resume import Resume
from mcbench.grpo.truncation import Filter, TruncatedHead, filters, sampled_from

logger = logging.getLogger(__name__)


class RepairedGRPOTrainer(ReachedGRPOTrainer):
    """``GRPOTrainer`` with its gaps mended and with what it makes of a batch kept in reach.

    B = P·G responses of all processes in dataset order, so that response i belongs to group i // G.

    A reward function that has a method ``start_scoring(completions, **columns)`` is told of the
    responses as soon as they are generated, so that it can work while the log-probabilities of the
    policy and the reference are computed; TRL calls it for the rewards afterwards, as always.
    """

    # Of the batch generated last.
    batch_rows: Sequence[dict[str, Any]] = ()
    sampled_prompts: list[Any]  # as environments have completed them
    sampled_ids: list[list[int]]  # this process's responses, without padding
    sampled_after: list[int]  # tokens of their prompts
    sampled_mask: list[list[int]] | None = None  # 0 for the tokens of tools, None without tools
    sampled_completions: list[Any]
    empty: Sequence[bool] | None = ()  # which have no token; None until they are sampled
    turns = False  # whether TRL was told which of their tokens the policy sampled
    trace: Trace | None = None  # of sample_unfinished
    rewards: Tensor  # (B, reward functions); NaN where a function gave none
    logged: Mapping[str, Sequence[Any]] = MappingProxyType({})  # by reward functions, of our rows
    seconds: Mapping[str, float] = MappingProxyType({})
    _draws: tuple[int, int] = (-1, -1)  # global step and how many batches it had generated before
    _log_ratios: dict[int, Tensor] | None = None  # by place in this process's share
    _trained_ids: Sequence[list[int]] = ()  # the responses that they are of

    leaving: early.Leaving | None = None  # of the step in progress, see early.py
    replay: early.Replay | None = None
    deciding_reward: str | None = None  # name of the one that decides correctness; None: the sum
    fence: Fence | None = None  # of stop_at_fence
    _kept_by: Sequence[Filter] = ()  # of top_k, top_p and min_p
    scores_what_it_samples = True  # whether log-probabilities are of what is sampled from
    _scored: dict[str, Any] | None = None  # what TRL's loss reads, while it is computed
    _old_log_probs: list[Tensor] | None = None
    sampler_said: list[list[float]] | None = None  # where TRL is not to have them
    _told_of_empty = False

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
        if self.rollout_func is not None:
            self.rollout_func = sampling.filling(self.rollout_func, self.without_empty)
        stops = sampling.stop_tokens(args.generation_kwargs, self.eos_token_ids)
        self.eos_token_ids = [*self.eos_token_ids, *stops]  # another list than the model's
        if args.stop_at_fence:
            self.fence = Fence(self._tokenizer)
        if self.use_vllm:  # whose engine seeds every generator of the process
            set_seed(args.seed, device_specific=True)
        self._kept_by = filters(args)
        changed = changed_sampling(args, inherited_settings(self))
        whole = len(self._kept_by) != len(sampled_from(args))  # beside a KL term
        self.scores_what_it_samples = not changed and not whole
        models = [model for model in (self.model, self.ref_model) if model is not None]
        self._temperature_cells = [sampling.log_prob_temperature_cell(model) for model in models]
        if self.continuous_batching_config is not None:
            self.continuous_batching_config.return_logprobs = True
        if args.sample_unfinished and (self.is_fsdp_enabled or is_deepspeed_zero3_enabled()):
            raise UserError(
                "sample_unfinished needs processes that each hold the whole model; set it to False "
                "under FSDP and ZeRO-3"
            )
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
        """TRL's ``_generate_and_score_completions`` with its rewards observed: those that it trains
        on, whatever a subclass, or a function put on the trainer, makes of ``_calculate_rewards``.
        An override in the class would see only what classes below it return.
        """
        found, own = self._calculate_rewards, vars(self).get("_calculate_rewards")
        vars(self)["_calculate_rewards"] = lambda *batch: self._observe_rewards(found, *batch)
        try:
            output: dict[str, Any] = super()._generate_and_score_completions(list(rows))
        finally:
            del vars(self)["_calculate_rewards"]
            if own is not None:
                vars(self)["_calculate_rewards"] = own
        return output

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
            correction.correct_noisy_sampler(output, self.noise, self.args)
        if self.training:
            self._log_ratios, self._trained_ids = {}, self.sampled_ids
            output["place"] = torch.arange(len(self.sampled_ids))
        return output

    # -- sampling

    def _generate(self, prompts: list[Any]) -> Any:
        started = time.perf_counter()
        if self.replay is None:
            result = self._sample(prompts)
        else:
            with self.replay.given(self, prompts) as texts:
                result = self.replay.completed(super()._generate(texts))
        prompt_ids, self.sampled_ids, self.sampled_mask, self.sampled_completions, *_ = result
        self.sampled_prompts = list(prompts)
        self.sampled_after = [len(ids) for ids in prompt_ids]
        if self.trace is not None and self.trace.lengths != [len(ids) for ids in self.sampled_ids]:
            self.trace = None  # where tools answered in between: it is of the last turn
        self.seconds = {**self.seconds, "generate_s": time.perf_counter() - started}
        self._keep_old_log_probs()
        if self.replay is None:
            self._start_scoring()
        return result

    def _sample(self, prompts: list[Any]) -> tuple[Any, ...]:
        # Turns that a rollout function samples are its own business, and what it returns is not.
        self.empty = None if self.rollout_func is None else ()
        result: tuple[Any, ...] = super()._generate(prompts)
        mask = result[2]
        empty: list[bool] = list(self.empty or ())
        self.turns = mask is not None
        if any(empty):
            mask = mask or [[1] * len(ids) for ids in result[1]]
            for own, without in zip(mask, empty, strict=True):
                own[0] = own[0] * (not without)
        result = (*result[:2], mask, *result[3:])
        if self.leaving is not None:
            self.leaving.sampled(self, prompts, result)
        return result

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        respond = super()._generate_single_turn
        empty = [place for place, ids in enumerate(prompt_ids) if not len(ids)]
        if empty:
            raise UserError(
                f"{len(empty)} of {len(prompt_ids)} prompts have no token (the first is number "
                f"{empty[0]} of its batch), and nothing can follow them; leave such rows out"
            )
        return sampling.one_turn(self, lambda: respond(prompt_ids, *args, **kwargs))

    def without_empty(self, ids: Sequence[Any], log_probs: Any) -> tuple[list[Any], Any]:
        """Responses and their log-probabilities, without a response that has no token."""
        ids, log_probs, self.empty = sampling.without_empty(ids, log_probs, self.eos_token_ids[0])
        if any(self.empty) and not self._told_of_empty:
            self._told_of_empty = True
            logger.warning(
                "%d of %d responses have no token (the first is number %d of its batch): whatever "
                "sampled them failed, or ended at once. Such a response has no reward and no token "
                "in the loss",
                sum(self.empty), len(ids), self.empty.index(True),
            )  # fmt: skip
        return ids, log_probs

    def noise(self, lengths: list[int]) -> list[NDArray[Any]]:
        """``sampler_noise`` of responses of these lengths."""
        step, count = self._draws  # -1 outside of a batch
        key = (self.args.seed, step + 1, count + 1, self.accelerator.process_index)
        return correction.noise(key, lengths, self.args.sampler_noise)

    def sample(self, rows: Sequence[dict[str, Any]]) -> list[early.Rollout]:
        """See :func:`mcbench.grpo.early.responses`."""
        return early.responses(self, rows)

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
        asked = {"temperature": temperature, "top_p": top_p}
        given = {name: value for name, value in asked.items() if value is not None}
        with sampling.sampling(self, max_new_tokens, given):
            ids, _ = self._generate_single_turn(prompt_ids, None, {}, 1)
        return [list(row) for row in ids]

    # -- ends

    def own_ids(self) -> list[list[int]]:
        """This process's responses without the tokens of tools."""
        if self.sampled_mask is None:
            return self.sampled_ids
        pairs = zip(self.sampled_ids, self.sampled_mask, strict=True)
        return [[one for one, own in zip(*pair, strict=True) if own] for pair in pairs]

    def truncated(self) -> Tensor:
        """Whether each of this process's responses was cut at its limit, (B / processes,) bool."""
        ends = set(self.eos_token_ids)
        if self.rollout_func is not None or sampling.ends_without_token(
            self.args.generation_kwargs
        ):
            ends.add(self._tokenizer.pad_token_id)  # which may follow an end that no token marks
        return is_truncated(self.sampled_ids, ends, sampling.limits(self))

    # -- rewards

    def _observe_rewards(self, calculate: Callable[..., Tensor], *batch: Any) -> Tensor:
        """What ``calculate`` gives to a batch, kept, with its time and its further columns."""
        if self.replay is not None:
            self.rewards = self.replay.rewards
            return self.rewards
        started = time.perf_counter()
        self.rewards = calculate(*batch)
        if self.empty:  # those have none; every process asks
            empty = self.gather(self.rewards.new_tensor(self.empty)).bool().unsqueeze(1)
            self.rewards = self.rewards.masked_fill(empty, float("nan"))
        self.seconds = {**self.seconds, "reward_s": time.perf_counter() - started}
        # Of all processes: a reward function may log a column for some responses alone.
        columns = sorted(set(self.gather_objects(list(self._pending_extra_logs))))
        none = [None] * len(batch[0])
        self.logged = {name: list(self._pending_extra_logs.get(name, none)) for name in columns}
        if self.leaving is not None:
            self._pending_extra_logs.clear()
            self.leaving.scored(self.logged)
        return self.rewards

    def _start_scoring(self) -> None:
        """Tells the reward functions that want to know of the responses of a batch."""
        if len(self.sampled_completions) != len(self.batch_rows):  # sampled outside of a batch
            return
        functions: list[Any] = self.reward_funcs
        able = [function for function in functions if hasattr(function, "start_scoring")]
        if not able:
            return
        columns = {name: [row[name] for row in self.batch_rows] for name in self.batch_rows[0]}
        columns.pop("prompt", None)
        for function in able:
            function.start_scoring(self.sampled_completions, **columns)

    def correctness_rewards(self) -> Tensor:
        """(B,) the reward that decides correctness; NaN where no reward function gave one."""
        if self.deciding_reward is not None:
            return self.rewards[:, self.reward_func_names.index(self.deciding_reward)]
        return self.total_rewards()

    def total_rewards(self) -> Tensor:
        """(B,) the weighted sum of the rewards; NaN where no reward function gave one."""
        total = (self.rewards * self.reward_weights.to(self.rewards.device)).nansum(dim=1)
        return total.masked_fill(self.rewards.isnan().all(dim=1), float("nan"))

    # -- log-probabilities and the loss

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
            rows = pad_sequence(old, batch_first=True)
            return nn.functional.pad(rows, (0, logits_to_keep - rows.shape[1])), None, None
        score = super()._get_per_token_logps_and_entropies
        if self._kept_by:
            model = TruncatedHead(model, self.temperature, self._kept_by)
        groups, aux_loss = self.args.length_groups, None
        if groups == 1 or compute_aux_loss or any(one is not None for one in images.values()):
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
            self._keep_ratios(self._scored, log_probs)
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
        self._scored = inputs
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._scored = None

    def _keep_ratios(self, inputs: dict[str, Any], log_probs: Tensor) -> None:
        """Takes note of log π - log π_old where TRL scores a batch for its loss; of responses
        without a token in it, which TRL scores as padding, there is nothing to note.
        """
        old = inputs.get("old_per_token_logps")
        if self._log_ratios is not None and old is not None and "place" in inputs:
            found = (log_probs.detach() - old).float().cpu()
            some = loss_mask(inputs).any(dim=1).tolist()
            rows = [row if kept else row[:0] for row, kept in zip(found, some, strict=True)]
            self._log_ratios.update(zip(inputs["place"].tolist(), rows, strict=True))

    def log_ratios(self) -> list[NDArray[Any]] | None:
        """log π - log π_old of each token of the batch generated last, in the update that used the
        response last: (tokens,) for each of the B responses, (0,) where it has no token in the
        loss. None where some are not trained on yet, or where TRL needs no π_old because π is the
        same. Every process must call.
        """
        found, own = self._log_ratios or {}, self._trained_ids
        rows = [found[place].numpy()[: len(own[place])] for place in sorted(found)]
        complete = self.gather(torch.tensor([len(rows) == len(own)])).all()
        return gather_sequences(self, rows) if complete else None

    def _keep_old_log_probs(self) -> None:
        """Those of the sampler, where TRL is about to ask for the same numbers: the first thing it
        asks after a generation that several updates follow. In half precision a pass over the whole
        responses rounds in another way than the sampler did, and is made; so it is where the
        sampler drew from another distribution.
        """
        args = self.args
        if self.trace is None or self.in_half_precision or not self.scores_what_it_samples:
            return
        if args.gradient_accumulation_steps % args.passes_per_generation:
            self._old_log_probs = self.trace.log_probs

    @property
    def in_half_precision(self) -> bool:
        """Whether anything is computed in 16 bits: by autocast, or because weights have them."""
        mixed = self.args.bf16 or self.args.fp16
        return mixed or any(weight.itemsize < 4 for weight in self.model.parameters())

    def sampler_log_probs(self, output: dict[str, Any]) -> Tensor | None:
        """(B, T) of the sampled tokens by what sampled them; None where it did not say."""
        if "sampling_per_token_logps" in output:
            return output["sampling_per_token_logps"]
        own = self.sampler_said
        if own is None or [len(row) for row in own] != [len(row) for row in self.sampled_ids]:
            return None  # also where tools answered in between
        rows = pad_sequence([torch.tensor(row) for row in own], batch_first=True)
        missing = output["completion_ids"].size(1) - rows.size(1)
        return nn.functional.pad(rows, (0, missing)).to(output["completion_ids"].device)

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
        adapted = self.accelerator.unwrap_model(self.model if model is None else model)
        trained = Path(resume_from_checkpoint, "adapter_config.json").is_file()
        if trained and "ref" in getattr(adapted, "peft_config", ()):
            # Beside TRL's copy of a continued adapter, in a folder of its own, transformers has
            # loaded that copy alone, and the training would begin again from it.
            adapted.load_adapter(resume_from_checkpoint, adapted.active_adapter, is_trainable=True)

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
