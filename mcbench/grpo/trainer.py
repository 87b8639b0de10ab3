"""MicroCoder-GRPO on top of TRL's ``GRPOTrainer``.

Departures from TRL's GRPO; 1 to 3 are off by default:

1. **Conditional truncation mask** (Eq. 2, ``masking.py``): after TRL has computed the advantages of
   a generated batch, those of the masked responses become zero. Once per generation, so the draw
   holds for every update made with the batch. ``truncation_mask="all"`` is TRL's own
   ``mask_truncated_completions``.
2. **Temperature and length stages** (``temperature.py``): changed only where a batch is generated,
   for sampling and for the log-probabilities of the old, new and reference policy together.
3. **T(D)**: before the first update, D is measured on a temperature grid with the current model and
   the chosen temperature is kept with every checkpoint.
4. **Resume** in a later epoch continues the data order of the uninterrupted run; TRL's sampler
   would repeat that of the first epoch.
5. **FSDP2**: the processes generate in step, which TRL 1.16 leaves out.
6. No KL and a high clip ratio (Eq. 1) are TRL's own ``beta=0`` and ``epsilon_high``; see
   ``recipes.py``.

6. Around transformers' continuous batching (``backends.py``) the weights are kept and failures are
   errors.

Beside these, the trainer only observes: metrics of each batch and the ``on_generation`` hook. No
code of TRL is copied: every method overridden here calls ``super()``. Nothing draws from the global
random state, so that with every option off parameters and losses equal TRL's bit for bit.
"""

import itertools
import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import NDArray
from torch import Tensor
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from mcbench.errors import UserError, unknown
from mcbench.grpo import generation, masking
from mcbench.grpo.backends import continuous_batching, log_prob_mismatch
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.diversity import distinct_n, grouped, last_code_block, program_key
from mcbench.grpo.generation import GenerationBatch, completion_text
from mcbench.grpo.temperature import (
    Choice,
    check_grid,
    log_prob_temperature_cell,
    select_temperature,
    set_max_completion_length,
    set_temperature,
    stage_value,
)

logger = logging.getLogger(__name__)

STATE_FILE = "microcoder_state.json"


class MicroCoderGRPOTrainer(GRPOTrainer):
    """A drop-in for ``GRPOTrainer`` that takes a ``MicroCoderGRPOConfig``.

    ``on_generation`` is called on the main process with a ``GenerationBatch`` after each training
    batch is generated and scored. ``extract_program`` finds the program in a response (for
    ``diversity/unique_programs``); by default the last complete fenced block.
    """

    # Set by GRPOTrainer, after the configuration has been checked.
    args: MicroCoderGRPOConfig
    model: Any
    train_dataset: Any
    num_generations: int
    num_generations_eval: int
    max_completion_length: int
    _logs: dict[str, Any]

    def __init__(
        self,
        *args: Any,
        on_generation: Callable[[GenerationBatch], None] | None = None,
        extract_program: Callable[[str], str | None] = last_code_block,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.args, MicroCoderGRPOConfig):
            raise UserError("MicroCoderGRPOTrainer needs args=MicroCoderGRPOConfig(...)")
        self.on_generation = on_generation
        self.extract_program = extract_program
        self.temperature_choice: Choice | None = None
        models = [model for model in (self.model, self.ref_model) if model is not None]
        self._temperature_cells = [log_prob_temperature_cell(model) for model in models]
        self._inputs: list[dict[str, Any]] = []
        self._generated: dict[str, Any] = {}  # what the overridden steps of the current batch saw
        self._train_sampler: Any = None  # none for a streamed dataset, which keeps its own order
        self._last_draw = (-1, -1)  # global step and how many batches it had generated before
        if self.continuous_batching_config is not None:
            self.continuous_batching_config.return_logprobs = True
        self._check_settings()
        self._generate_in_step()

    # -- the batch: generated and scored by TRL, then masked (Eq. 2) and measured

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        training = self.model.training
        if training:
            self._enter_stage()
        self._inputs = inputs
        output = super()._generate_and_score_completions(inputs)
        self._measure_mismatch(output, training)
        batch = self._describe_batch(inputs, output, training)
        if training and self.args.truncation_mask == "conditional":
            masked = torch.from_numpy(batch.masked).to(output["advantages"].device)
            start = self.accelerator.process_index * len(inputs)
            local = masked[start : start + len(inputs)]
            output["advantages"] = masking.masked_advantages(output["advantages"], local)
            self._correct_logged_advantages(batch.advantages)
        if training and self.on_generation is not None and self.accelerator.is_main_process:
            self.on_generation(batch)
        return output

    def _generate(self, prompts: list[Any]) -> Any:
        started = time.perf_counter()
        result = super()._generate(prompts)
        _, ids, _, completions, *_ = result
        self._generated = {
            "ids": ids,
            "completions": completions,
            "generate_s": time.perf_counter() - started,
        }
        self._start_rewards(completions)
        return result

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.use_transformers_continuous_batching:
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        with continuous_batching(self.accelerator.unwrap_model(self.model_wrapped)) as log_probs:
            ids, _ = super()._generate_single_turn(prompt_ids, *args, **kwargs)
        return ids, log_probs

    def _measure_mismatch(self, output: dict[str, Any], training: bool) -> None:
        """Of the log-probabilities of the sampler and of the policy, under TRL's names, which it
        records for vLLM only. The policy's are there where several updates follow a generation.
        """
        sampled = output.get("sampling_per_token_logps")
        policy = output.get("old_per_token_logps")
        if self.use_vllm or sampled is None or policy is None:
            return
        mean, largest = log_prob_mismatch(policy, sampled, output["completion_mask"])
        device, metrics = self.accelerator.device, self._metrics["train" if training else "eval"]
        name = "sampling/sampling_logp_difference"
        metrics[f"{name}/mean"].append(self._gather(mean.to(device)).mean().item())
        metrics[f"{name}/max"].append(self._gather(largest.to(device)).max().item())

    def _start_rewards(self, completions: list[Any]) -> None:
        """Let reward functions that can (they have ``start``) work while the log-probabilities of
        the policy and the reference are computed; TRL calls them for the rewards afterwards.
        """
        columns = {name: [row[name] for row in self._inputs] for name in self._inputs[0]}
        columns.pop("prompt", None)
        functions: list[Any] = self.reward_funcs
        for function in functions:
            start = getattr(function, "start", None)
            if callable(start) and len(completions) == len(self._inputs):
                start(completions, **columns)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        started = time.perf_counter()
        rewards = super()._calculate_rewards(*args, **kwargs)
        self._generated["reward_s"] = time.perf_counter() - started
        self._generated["rewards"] = rewards  # (B, reward functions), all processes
        self._generated["extra"] = sorted(self._pending_extra_logs)
        return rewards

    def _describe_batch(
        self, inputs: list[dict[str, Any]], output: dict[str, Any], training: bool
    ) -> GenerationBatch:
        """Gathers the batch, decides the mask and logs the metrics. Every process does the same
        work.
        """
        mode = "train" if training else "eval"
        group_size = self.num_generations if training else self.num_generations_eval
        ids: list[list[int]] = self._generated["ids"]
        lengths, truncated, repeating, keys = self._gather_rows(ids, output["completion_ids"])
        rewards = self._correctness_rewards()
        reading = masking.correctness(
            rewards, self.args.correct_threshold, self.args.incorrect_threshold
        )
        eligible = {
            name: truncated & reading.reading(name) & ~repeating for name in masking.READINGS
        }
        masked = self._decide_mask(truncated, reading, repeating, training)
        advantages = masking.masked_advantages(self._gather(output["advantages"]), masked)
        sequences = self._gather_sequences([np.asarray(row, dtype=np.int64) for row in ids])
        batch = GenerationBatch(
            step=self.state.global_step,
            prompts=list(self._logs["prompt"])[-len(masked) :],
            completions=[
                completion_text(c) for c in list(self._logs["completion"])[-len(masked) :]
            ],
            completion_ids=sequences,
            lengths=lengths.cpu().numpy(),
            truncated=truncated.cpu().numpy(),
            repeating=repeating.cpu().numpy(),
            eligible={name: rows.cpu().numpy() for name, rows in eligible.items()},
            masked=masked.cpu().numpy(),
            rewards=rewards.double().cpu().numpy(),
            advantages=advantages.double().cpu().numpy(),
            group=np.arange(len(masked)) // group_size,
            temperature=self.temperature,
            max_completion_length=self.max_completion_length,
            columns=self._columns(inputs, len(masked)),
            log_probs=self._log_probs(ids, output),
        )
        correct, incorrect = reading.correct.cpu().numpy(), reading.incorrect.cpu().numpy()
        metrics = {
            **generation.mask_metrics(
                batch.truncated, incorrect, batch.repeating, batch.eligible, batch.masked
            ),
            **generation.length_metrics(
                batch.lengths, correct, incorrect, batch.max_completion_length
            ),
            **generation.group_metrics(batch.rewards, correct, group_size),
            **generation.diversity_metrics(sequences, keys.tolist(), group_size),
            **self._slowest_times(),
            "temperature": self.temperature,
        }
        for name, value in metrics.items():
            self._metrics[mode][name].append(value)
        return batch

    def _decide_mask(
        self, truncated: Tensor, reading: masking.Correctness, repeating: Tensor, training: bool
    ) -> Tensor:
        """(B,) bool: the responses that do not count in the policy term of this batch."""
        if self.mask_truncated_completions:
            return self._gather(self._cut(self._generated["ids"]))
        if not training or self.args.truncation_mask == "none":
            return torch.zeros_like(truncated)
        draws = masking.uniform_draws(self._draw_key(), len(truncated))
        candidate = reading.reading(self.args.mask_when)
        return masking.conditional_mask(
            truncated, candidate, repeating, draws, self.args.mask_ratio
        )

    def _draw_key(self) -> tuple[int, int, int]:
        """(seed, global step, batches this step generated before): the same after a resume."""
        step = self.state.global_step
        previous_step, count = self._last_draw
        self._last_draw = (step, count + 1 if step == previous_step else 0)
        return (self.args.seed, *self._last_draw)

    def _correctness_rewards(self) -> Tensor:
        """(B,) the reward that decides correctness; NaN where no reward function gave one."""
        rewards: Tensor = self._generated["rewards"]
        name = self.args.correctness_reward
        if name is not None:
            return rewards[:, self.reward_func_names.index(name)]
        total = (rewards * self.reward_weights.to(rewards.device)).nansum(dim=1)
        return total.masked_fill(rewards.isnan().all(dim=1), float("nan"))

    def _correct_logged_advantages(self, advantages: NDArray[np.float64]) -> None:
        """TRL has logged the advantages from before the mask; ``log_completions`` shows these."""
        log = self._logs["advantages"]
        kept = advantages.tolist()[-len(log) :]
        for _ in kept:
            log.pop()
        log.extend(kept)

    # -- gathering; unconditional on every process, or the processes would wait for each other

    def _cut(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """(B local,) responses that TRL calls truncated: the last token is neither EOS nor
        padding.
        """
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        return torch.tensor([row[-1] not in ends for row in ids], device=self.accelerator.device)

    def _gather(self, rows: Tensor) -> Tensor:
        gathered: Tensor = self.accelerator.gather(rows)
        return gathered

    def _gather_rows(
        self, ids: list[list[int]], completion_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of all B responses: lengths, truncated, truncated and repeating, program keys."""
        device = self.accelerator.device
        lengths = torch.tensor([len(row) for row in ids], device=device)
        truncated = masking.reached_max(~self._cut(ids), lengths, self.max_completion_length)
        repeating = masking.repeats(
            completion_ids,
            torch.where(truncated, lengths, 0),  # the rule is only asked of truncated responses
            self.args.repeat_window,
            self.args.repeat_rule,
        )
        keys = [
            program_key(self.extract_program(completion_text(c)))
            for c in self._generated["completions"]
        ]
        rows = torch.stack(
            [lengths, truncated.long(), repeating.long(), torch.tensor(keys, device=device)], dim=1
        )
        lengths, cut, repeated, all_keys = self._gather(rows).unbind(dim=1)
        return lengths, cut.bool(), repeated.bool(), all_keys

    def _log_probs(
        self, ids: list[list[int]], output: dict[str, Any]
    ) -> list[NDArray[np.float32]] | None:
        """Of the tokens of all B responses, under the policy that sampled them (or its sampler);
        None where TRL needed neither.
        """
        found = output.get("old_per_token_logps", output.get("sampling_per_token_logps"))
        if found is None:
            return None
        values = found.float().cpu().numpy()
        return self._gather_sequences(
            [row[: len(tokens)] for row, tokens in zip(values, ids, strict=True)]
        )

    def _gather_sequences(self, local: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """One value a token, of all B responses in dataset order."""
        if self.accelerator.num_processes == 1:
            return local
        device = self.accelerator.device
        flat = torch.from_numpy(np.concatenate(local)).to(device)
        sizes = self._gather(torch.tensor([len(row) for row in local], device=device))
        totals = sizes.view(self.accelerator.num_processes, -1).sum(dim=1)
        padded = torch.nn.functional.pad(flat, (0, int(totals.max()) - len(flat)))
        rows = self._gather(padded).view(self.accelerator.num_processes, -1).cpu().numpy()
        flat_all = np.concatenate([row[:n] for row, n in zip(rows, totals.tolist(), strict=True)])
        return np.split(flat_all, np.cumsum(sizes.cpu().numpy())[:-1])

    def _columns(self, inputs: list[dict[str, Any]], count: int) -> dict[str, list[Any]]:
        """The recorded dataset columns, and what the reward functions logged for this batch."""
        columns = {
            name: gather_object([row.get(name) for row in inputs])
            for name in self.args.record_columns
        }
        extra = self._logs["extra"]
        logged = {name: list(extra[name])[-count:] for name in self._generated["extra"]}
        return {**columns, **logged}

    def _slowest_times(self) -> dict[str, float]:
        """Seconds for generation and for rewards, of the slowest process."""
        names = ("generate_s", "reward_s")
        local = torch.tensor([[self._generated[name] for name in names]], dtype=torch.float32)
        slowest = self._gather(local.to(self.accelerator.device)).amax(dim=0).tolist()
        return {f"time/{name}": value for name, value in zip(names, slowest, strict=True)}

    # -- temperature and length

    def _enter_stage(self) -> None:
        """Puts the temperature and length of the current step in force; called before a
        generation.
        """
        step = self.state.global_step
        if self.args.temperature_target_diversity is not None and self.temperature_choice is None:
            self._choose_temperature(self.args.temperature_target_diversity)
        if self.temperature_choice is not None:
            temperature: float | None = self.temperature_choice.temperature
        else:
            temperature = stage_value(self.args.temperature_points, step)
        if temperature is not None and temperature != self.temperature:
            set_temperature(self, self._temperature_cells, temperature)
        length = stage_value(self.args.length_points, step)
        if length is not None and length != self.max_completion_length:
            set_max_completion_length(self, int(length))

    def _choose_temperature(self, target: float) -> None:
        self.temperature_choice = select_temperature(self.measure_diversity(), target)
        report = logger.info if self.temperature_choice.reached else logger.warning
        report(self.temperature_choice.explanation)

    def measure_diversity(self, grid: Sequence[float] | None = None) -> dict[float, float]:
        """D(T) (Distinct-4) of the current model on the first training prompts, for each T of
        ``grid``.

        Samples through the trainer's own backend, each process its share of the prompts; the global
        random state is left as it was.
        """
        grid = self.args.temperature_grid if grid is None else grid
        check_grid(grid)
        count, group_size = self.args.temperature_probe_prompts, self.num_generations
        prompts = [row["prompt"] for row in itertools.islice(iter(self.train_dataset), count)]
        if len(prompts) < count:
            raise UserError(
                f"temperature_probe_prompts is {count}, but the training set has {len(prompts)} "
                f"rows"
            )
        share = prompts[self.accelerator.process_index :: self.accelerator.num_processes]
        prompt_ids, images, fields = self._tokenize_prompts(
            [prompt for prompt in share for _ in range(group_size)]
        )
        before = self.temperature
        measured = {}
        device = self.accelerator.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(self.args.seed + self.accelerator.process_index)
            for temperature in grid:
                set_temperature(self, self._temperature_cells, temperature)
                ids, _ = self._generate_single_turn(prompt_ids, images, fields, group_size)
                values = [distinct_n([group], (4,))[4] for group in grouped(ids, group_size)]
                everywhere = self._gather(torch.tensor(values, device=device))
                measured[float(temperature)] = everywhere.nanmean().item()
        set_temperature(self, self._temperature_cells, before)
        return measured

    # -- settings and checkpoints

    def _check_settings(self) -> None:
        args = self.args
        if args.correctness_reward not in (None, *self.reward_func_names):
            raise unknown("correctness_reward", args.correctness_reward, self.reward_func_names)
        if args.temperature_target_diversity is not None and self.rollout_func is not None:
            raise UserError("temperature_target_diversity cannot be measured with a rollout_func")
        longest = max(self.max_completion_length, *(n for _, n in args.length_points), 0)
        if args.truncation_mask == "conditional" and 2 * args.repeat_window > longest:
            logger.warning(
                "repeat_window=%d never applies: it needs %d tokens, responses have at most %d",
                args.repeat_window,
                2 * args.repeat_window,
                longest,
            )
        steps = args.save_steps
        if args.save_strategy == "steps" and steps >= 1 and steps % args.generation_period:
            logger.warning(
                "checkpoints every %d steps do not all fall on a generation boundary (every %d "
                "steps); only those on a boundary can be resumed",
                steps,
                args.generation_period,
            )

    def _generate_in_step(self) -> None:
        """Under FSDP2 every step of ``generate`` gathers weights from all processes, so none may
        end before the others. Transformers sees to that for models which it divided itself; this
        one is divided by accelerate.
        """
        if self.is_fsdp_enabled:
            self.model._is_fsdp_managed_module = True
            if hasattr(self.model, "get_base_model"):  # PEFT
                self.model.get_base_model()._is_fsdp_managed_module = True

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._train_sampler = super()._get_train_sampler(dataset)
        return self._train_sampler

    def _skip_epoch_orders(self) -> None:
        """Draws the orders of the finished epochs, which the new sampler has not drawn yet."""
        sampler = self._train_sampler
        if not self.shuffle_dataset or sampler is None:
            return
        assert self.args.generation_batch_size is not None  # set by GRPOConfig
        batches = len(sampler) // self.args.generation_batch_size
        updates = max(1, -(-batches // self.args.gradient_accumulation_steps))
        for _ in range(self.state.global_step // updates):
            torch.randperm(sampler.num_samples, generator=sampler.generator)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.temperature_choice is not None and self.args.should_save:
            folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            path = Path(self._get_output_dir(trial=trial)) / folder / STATE_FILE
            path.write_text(json.dumps({"temperature_choice": self.temperature_choice.to_dict()}))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        period = self.args.generation_period
        if self.state.global_step % period:
            below = self.state.global_step // period * period
            raise UserError(
                f"{checkpoint} lies inside a generated batch, which is not stored; resume from a "
                f"checkpoint at a multiple of {period} steps, such as {below}"
            )
        self._skip_epoch_orders()
        if self.args.temperature_target_diversity is not None:
            path = Path(checkpoint) / STATE_FILE
            if not path.is_file():
                raise UserError(f"{checkpoint} has no {STATE_FILE} with the chosen temperature")
            state = json.loads(path.read_text())
            self.temperature_choice = Choice(**state["temperature_choice"])
