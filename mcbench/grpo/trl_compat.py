"""Everything that mends TRL 1.16 or reaches into it, transformers 5.17 and accelerate 1.15.

``tests/grpo/test_trl_contract.py`` checks each private name and behaviour used here. No code of TRL
is copied: every method overridden calls ``super()``; resume, the importance correction and what is
done around ``generate`` are in ``trl_resume.py``, ``trl_correction.py`` and ``trl_sampling.py``.
What is mended, beside the three departures of the method that ``trainer.py`` names:

4. **Resume** in a later epoch continues the data order of the uninterrupted run; TRL's sampler
   would repeat that of the first epoch. A checkpoint inside a generated batch holds what is left of
   it, which TRL's does not. A reference model that is synchronised (``sync_ref_model``) and the
   place in a streamed data set are not in a checkpoint, which is said.
5. **FSDP2**: the processes generate in step; weights are divided again before they are sent to
   vLLM; in bf16 gradients are reduced and log-probabilities returned in float32; a reference model
   that only the first process has loaded is refused.
6. **Continuous batching** keeps the weights, and its failures are errors.
7. **vLLM** in the process leaves the random state as TRL seeded it.
8. **KL**: the clamped estimator (``kl.py``) by the reference that TRL's loss is given.
9. **Another sampler than vLLM** takes the importance correction too, where ``sampler_noise`` makes
   its log-probabilities differ from the policy's (:mod:`mcbench.grpo.correction`).
10. **Stop tokens** in ``generation_kwargs`` end a response; TRL would count the padding after them
    (https://github.com/huggingface/trl/issues/3425). A padding token sampled as the last allowed
    one ends none.
11. What cannot be trained on is refused before an update (``checks.py``); a response without a
    token is none (``trl_empty.py``).
12. **A truncated sampler** (top_p, top_k, min_p) has log-probabilities of what it samples from
    (``truncation.py``).

``stop_at_fence`` (``fence.py``) acts where TRL samples; its end tokens are taken out of the loss.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object, set_seed
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.nn.utils.rnn import pad_sequence
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from mcbench.errors import UserError
from mcbench.grpo.checks import refuse_half_loaded_reference, refuse_idle_training
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.decode import Trace, sample_unfinished
from mcbench.grpo.dynamic_sampling import DynamicSamplingGRPOTrainer
from mcbench.grpo.fence import EndAtFence, Fence
from mcbench.grpo.generation import completion_text
from mcbench.grpo.kl import clamped_reference
from mcbench.grpo.length_groups import in_length_groups
from mcbench.grpo.masking import is_truncated
from mcbench.grpo.trl_correction import loss_mask
from mcbench.grpo.trl_resume import name_of
from mcbench.grpo.trl_sampling import (
    continuous_batching,
    divide_again,
    generate_in_step,
    generating_with,
    log_prob_temperature_cell,
    sampling,
    stop_texts,
    stop_tokens,
)
from mcbench.grpo.truncation import Filter, TruncatedHead, filters


class RepairedGRPOTrainer(DynamicSamplingGRPOTrainer):
    """``GRPOTrainer`` with its gaps mended and with what it makes of a batch kept in reach.

    B = P·G responses of all processes in dataset order, so that response i belongs to group i // G.

    A reward function that has a method ``start_scoring(completions, **columns)`` is told of the
    responses as soon as they are generated, so that it can work while the log-probabilities of the
    policy and the reference are computed; TRL calls it for the rewards afterwards, as always.
    """

    # Set by GRPOTrainer.
    args: MicroCoderGRPOConfig
    model: Any
    num_generations_eval: int
    max_completion_length: int | None

    # Of the batch generated last.
    sampled_prompts: list[Any]  # as environments have completed them
    sampled_ids: list[list[int]]  # this process's responses, without padding
    sampled_after: list[int]  # tokens of their prompts
    sampled_mask: list[list[int]] | None = None  # 0 for the tokens of tools, None without tools
    sampled_completions: list[Any]
    fence: Fence | None = None  # of stop_at_fence
    _kept_by: Sequence[Filter] = ()  # of top_k, top_p and min_p
    _log_ratios: dict[int, Tensor] | None = None  # by place in this process's share
    _trained_ids: Sequence[list[int]] = ()  # the responses that they are of

    def __init__(self, model: Any, args: MicroCoderGRPOConfig | None, **kwargs: Any) -> None:
        if args is None:
            args = MicroCoderGRPOConfig(output_dir=f"{name_of(model)}-MicroCoder-GRPO")
        if not isinstance(args, MicroCoderGRPOConfig):  # before a model is loaded
            raise UserError(
                f"{type(self).__name__} takes args=MicroCoderGRPOConfig(...), which has all "
                f"options of {type(args).__name__}"
            )
        refuse_half_loaded_reference(args)
        super().__init__(model=model, args=args, **kwargs)
        stops = stop_tokens(args.generation_kwargs, self.eos_token_ids)
        self.eos_token_ids = [*self.eos_token_ids, *stops]  # another list than the model's
        if self.args.stop_at_fence:
            self.fence = Fence(self._tokenizer)
        if self.use_vllm:  # whose engine seeds every generator of the process
            set_seed(args.seed, device_specific=True)
        self._old_log_probs: list[Tensor] | None = None
        self._kept_by = filters(args)
        models = [model for model in (self.model, self.ref_model) if model is not None]
        self._temperature_cells = [log_prob_temperature_cell(model) for model in models]
        self._sampler_log_probs: list[list[float]] | None = None  # where TRL is not to have them
        if self.continuous_batching_config is not None:
            self.continuous_batching_config.return_logprobs = True
        divided = self.is_fsdp_enabled or is_deepspeed_zero3_enabled()
        if self.args.sample_unfinished and divided:
            raise UserError(
                "sample_unfinished needs processes that each hold the whole model; set it to False "
                "under FSDP and ZeRO-3"
            )
        if self.is_fsdp_enabled:
            generate_in_step(self.model)

    # -- generation and rewards, observed

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.batch_rows = inputs
        self.training = self.model.training
        if self.training:
            self.next_draw()
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.fence is not None:
            self.fence.leave_out(self.sampled_ids, output["completion_mask"])
            output["num_items_in_batch"] = self.gather(loss_mask(output).sum()).sum()
        self.correct_noisy_sampler(output)
        if self.training:
            self._log_ratios, self._trained_ids = {}, self.sampled_ids
            output["place"] = torch.arange(len(self.sampled_ids))
        return output

    def _generate(self, prompts: list[Any]) -> Any:
        started = time.perf_counter()
        result = super()._generate(prompts)
        prompt_ids, self.sampled_ids, self.sampled_mask, self.sampled_completions, *_ = result
        self.sampled_prompts = list(prompts)
        self.sampled_after = [len(ids) for ids in prompt_ids]
        if self.trace is not None and self.trace.lengths != [len(ids) for ids in self.sampled_ids]:
            self.trace = None  # where tools answered in between: it is of the last turn
        self.seconds = {**self.seconds, "generate_s": time.perf_counter() - started}
        self._keep_old_log_probs()
        self._start_scoring(self.sampled_completions)
        return result

    @property
    def sampled_limits(self) -> list[int]:
        """The tokens that each of the responses was allowed."""
        if self.rollout_func is not None and self.turns:
            # Of several turns: the budget is of the policy's own tokens, and what was not cut ends
            # in EOS.
            return [0] * len(self.sampled_after)
        return [self._limit_after(tokens) for tokens in self.sampled_after]

    def _limit_after(self, prompt_tokens: int) -> int:
        """Tokens that a response to such a prompt may have: L_max, unless ``generation_kwargs`` or
        the length of vLLM's cache says otherwise; 0 where nothing does, so that whatever has no end
        was cut.
        """
        given: Any = self.args.generation_kwargs or {}
        limits = [self.max_completion_length]
        if not self.use_vllm:
            limits = [self.generation_kwargs["max_new_tokens"]]
        elif given.get("max_tokens") is not None:
            limits = [given["max_tokens"]]
        if self.use_vllm and self.args.vllm_max_model_length is not None:
            limits.append(self.args.vllm_max_model_length - prompt_tokens)
        if self.tools:
            limits.append(self.max_completion_length)
        return min((int(limit) for limit in limits if limit is not None), default=0)

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        policy = self.accelerator.unwrap_model(self.model_wrapped)
        if self.use_transformers_continuous_batching:
            with continuous_batching(policy) as self._sampler_log_probs:
                ids, log_probs = super()._generate_single_turn(prompt_ids, *args, **kwargs)
            if self.fence is not None:
                ids, self._sampler_log_probs = self.fence.cut_all(ids, self._sampler_log_probs)
            return ids, log_probs
        divide_again(self.model)
        options: dict[str, Any] = {}
        if self.args.sample_unfinished:
            self.trace = Trace()
            options |= {"custom_generate": sample_unfinished, "trace": self.trace}
        if self.fence is not None:
            options["logits_processor"] = [EndAtFence(self.fence)]
        with generating_with(policy, **options):
            ids, log_probs = super()._generate_single_turn(prompt_ids, *args, **kwargs)
        if self.fence is not None:
            ids, log_probs = self.fence.cut_all(ids, log_probs)
        if log_probs is not None and self.args.sampler_noise:
            added = self.noise([len(row) for row in log_probs])
            log_probs = [
                [None if p is None else p + more for p, more in zip(row, noise, strict=True)]
                for row, noise in zip(log_probs, added, strict=True)
            ]
        return ids, log_probs

    # -- log-probabilities

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
        score = super()._get_per_token_logps_and_entropies
        if self._kept_by:
            model = TruncatedHead(model, self.temperature, self._kept_by)
        if self._old_log_probs is not None:
            old = pad_sequence(self._old_log_probs, batch_first=True)
            self._old_log_probs = None
            return nn.functional.pad(old, (0, logits_to_keep - old.shape[1])), None, None
        groups = self.args.length_groups
        if groups == 1 or compute_aux_loss or any(one is not None for one in images.values()):
            found = score(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy,
                compute_aux_loss, **images,
            )  # fmt: skip
            self._on_scored(found[0])
            return found
        count, rows = len(input_ids), batch_size or len(input_ids)
        passes = count if groups >= rows else max(groups, -(-count // rows))
        log_probs, entropies = in_length_groups(
            lambda ids, mask, kept: score(
                model, ids, mask, kept, compute_entropy=compute_entropy
            )[:2],
            input_ids, attention_mask, logits_to_keep, passes,
        )  # fmt: skip
        self._on_scored(log_probs)
        return log_probs, entropies, None

    def _on_scored(self, log_probs: Tensor) -> None:
        """What is done with the (B, T) log-probabilities of the policy before TRL has them."""
        self._keep_ratios(log_probs)
        self._clamp_kl(log_probs)

    def _clamp_kl(self, log_probs: Tensor) -> None:
        """Gives the loss that is being computed the reference of ``kl_estimator``."""
        inputs, mode = self._scored, "train" if self.model.training else "eval"
        if inputs is None or not self.beta or self.args.kl_estimator == "k3":
            return
        reference, beyond = clamped_reference(log_probs, inputs["ref_per_token_logps"])
        inputs["ref_per_token_logps"] = reference
        mask = loss_mask(inputs)
        clamped, tokens = self.gather(torch.stack([(beyond * mask).sum(), mask.sum()])[None]).sum(0)
        self._metrics[mode]["kl/clamped"].append((clamped / tokens.clamp(min=1)).item())

    def _keep_ratios(self, log_probs: Tensor) -> None:
        """Takes note of log π - log π_old where TRL scores a batch for its loss; of responses
        without a token in it, which TRL scores as padding, there is nothing to note.
        """
        inputs = self._scored or {}
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
        return self.gather_sequences(rows) if complete else None

    def _keep_old_log_probs(self) -> None:
        """Those of the sampler, where TRL is about to ask for the same numbers: the first thing it
        asks after a generation that several updates follow. In half precision a pass over the whole
        responses rounds in another way than the sampler did, and is made.
        """
        args = self.args
        if self.trace is None or args.bf16 or args.fp16:
            return
        if args.gradient_accumulation_steps % args.passes_per_generation:
            self._old_log_probs = self.trace.log_probs

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
        with sampling(self, max_new_tokens, {k: v for k, v in asked.items() if v is not None}):
            ids, _ = self._generate_single_turn(prompt_ids, None, {}, 1)
        return [list(row) for row in ids]

    def sampler_log_probs(self, output: dict[str, Any]) -> Tensor | None:
        """(B, T) of the sampled tokens by what sampled them; None where it did not say."""
        if "sampling_per_token_logps" in output:
            return output["sampling_per_token_logps"]
        own = self._sampler_log_probs
        if own is None or [len(row) for row in own] != [len(row) for row in self.sampled_ids]:
            return None  # also where tools answered in between
        rows = pad_sequence([torch.tensor(row) for row in own], batch_first=True)
        missing = output["completion_ids"].size(1) - rows.size(1)
        return nn.functional.pad(rows, (0, missing)).to(output["completion_ids"].device)

    # -- the batch of all processes; every process must call, or the others wait

    def gather(self, rows: Tensor) -> Tensor:
        """``rows`` of all processes one after another."""
        gathered: Tensor = self.accelerator.gather(rows.to(self.accelerator.device))
        return gathered

    def gather_sequences(self, local: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """The 1-D arrays, of any lengths, of all processes."""
        processes = self.accelerator.num_processes
        if processes == 1:
            return local
        flat = torch.from_numpy(np.concatenate(local))
        sizes = self.gather(torch.tensor([len(row) for row in local]))
        totals = sizes.view(processes, -1).sum(dim=1)
        padded = nn.functional.pad(flat, (0, int(totals.max()) - len(flat)))
        rows = self.gather(padded).view(processes, -1).cpu().numpy()
        flat_all = np.concatenate([row[:n] for row, n in zip(rows, totals.tolist(), strict=True)])
        return np.split(flat_all, np.cumsum(sizes.cpu().numpy())[:-1])

    def generated_batch(self, output: dict[str, Any]) -> dict[str, Any]:
        """What was sampled and how, as fields of ``GenerationBatch``; ``output`` is TRL's.

        ``columns`` are the recorded dataset columns and what the reward functions logged.
        ``log_probs`` are of the policy that sampled the tokens (or its sampler), None where TRL
        needed neither.
        """
        ids = [np.asarray(row, dtype=np.int64) for row in self.sampled_ids]
        completion_ids = self.gather_sequences(ids)
        count = len(completion_ids)
        found = output.get("old_per_token_logps", self.sampler_log_probs(output))
        log_probs = None
        if found is None and self.trace is not None:
            found = self.trace.log_probs
        if found is not None:
            values = [row.float().cpu().numpy() for row in found]
            rows = [row[: len(tokens)] for row, tokens in zip(values, ids, strict=True)]
            log_probs = self.gather_sequences(rows)
        entropies = None
        if self.trace is not None:
            rows = [row.float().cpu().numpy() for row in self.trace.entropies]
            entropies = self.gather_sequences(rows)
        columns = {
            name: gather_object([row.get(name) for row in self.batch_rows])
            for name in self.args.record_columns
        }
        logged = {name: gather_object(values) for name, values in self.logged.items()}
        group_size = self.num_generations if self.training else self.num_generations_eval
        own = None
        lengths = np.array([len(row) for row in completion_ids])
        if self.sampled_mask is not None:
            own = self.gather_sequences([np.asarray(row, dtype=bool) for row in self.sampled_mask])
            lengths = np.array([row.sum() for row in own])
        return {
            "step": self.state.global_step,
            "temperature": self.temperature,
            "max_completion_length": self.max_completion_length,
            "lengths": lengths,
            "group": np.arange(count) // group_size,
            "prompts": gather_object(self.sampled_prompts),
            "completions": gather_object([completion_text(c) for c in self.sampled_completions]),
            "completion_ids": completion_ids,
            "own": own,
            "columns": {**columns, **logged},
            "log_probs": log_probs,
            "entropies": entropies,
        }

    def sampled_entropy(self) -> dict[str, float]:
        """Mean entropy (nats a token) of the policy where it sampled the batch's tokens, those of
        masked responses included; TRL's ``entropy`` leaves out what it removes from the
        loss. Empty where the sampler does not tell.
        """
        if self.trace is None:
            return {}
        tokens = torch.cat(self.trace.entropies)
        if self.sampled_mask is not None:
            own = [one for row in self.sampled_mask for one in row]
            tokens = tokens[torch.tensor(own, dtype=torch.bool)]
        return {"entropy/all_responses": self.mean_over_all(tokens)}

    def mean_over_all(self, values: Tensor) -> float:
        """Mean of the 1-D values of all processes; every process must call."""
        local = torch.stack([values.sum(), values.new_tensor(len(values))])
        total, count = self.gather(local[None]).sum(0)
        return (total / count).item()

    def truncated(self) -> Tensor:
        """Whether each of this process's responses was cut at its limit, (B / processes,) bool."""
        ends = set(self.eos_token_ids)
        if self.rollout_func is not None or stop_texts(self.args.generation_kwargs):
            ends.add(self._tokenizer.pad_token_id)  # which may follow an end that no token marks
        return is_truncated(self.sampled_ids, ends, self.sampled_limits)

    def removed_from_loss(self, output: dict[str, Any]) -> Tensor:
        """(B,) bool: the responses without a token in the loss (``mask_truncated_completions``)."""
        return self.gather(~output["completion_mask"].any(dim=1))

    def remove_from_loss(self, output: dict[str, Any], removed: Tensor) -> None:
        """Takes all tokens of the (B,) removed responses out of every term of the loss."""
        count = len(output["advantages"])
        start = self.accelerator.process_index * count
        kept = (~removed[start : start + count]).unsqueeze(1)
        for name in ("completion_mask", "tool_mask"):
            if name in output:
                output[name] = output[name] * kept
        output["num_items_in_batch"] = self.gather(loss_mask(output).sum()).sum()

    def replace_advantages(self, output: dict[str, Any], advantages: Tensor) -> None:
        """Puts these (B,) advantages in the place of TRL's, which ``log_completions`` shows too."""
        count = len(output["advantages"])
        start = self.accelerator.process_index * count
        output["advantages"] = advantages[start : start + count]
        log = self._logs["advantages"]
        kept = advantages.tolist()[-len(log) :]
        for _ in kept:
            log.pop()
        log.extend(kept)

    # -- temperature and length, of every backend

    def set_temperature(self, temperature: float) -> None:
        """One temperature for sampling and for all log-probabilities (policy, old, reference)."""
        self.temperature = temperature
        if self.use_vllm:
            self.vllm_generation.temperature = temperature
        else:
            self.generation_config.temperature = temperature
            self.generation_kwargs["temperature"] = temperature
        for cell in self._temperature_cells:
            cell.cell_contents = temperature

    def set_max_completion_length(self, length: int | None) -> None:
        """L_max for sampling and for the constant in the ``dr_grpo`` loss; None: without one."""
        self.max_completion_length = length
        if self.use_vllm:
            engine: Any = self.vllm_generation
            engine.max_completion_length = length
        else:
            self.generation_config.max_new_tokens = length
            self.generation_kwargs["max_new_tokens"] = length

    # -- before the first update

    def get_train_dataloader(self) -> Any:
        refuse_idle_training(self)
        return super().get_train_dataloader()

    # -- FSDP2

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if self.args.bf16 and plugin is not None and plugin.fsdp_version == 2:
            # accelerate's own policy returns log-probabilities, entropy and loss in bf16.
            plugin.mixed_precision_policy = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16,
                reduce_dtype=torch.float32,
                output_dtype=torch.float32,
            )
