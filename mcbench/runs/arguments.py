"""A configuration as arguments of the trainer: TRL's, ours, and those of what samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate.utils import parse_flag_from_env
from peft import LoraConfig

from mcbench import grpo
from mcbench.errors import UserError
from mcbench.runs.config import CORRECTION, Config
from mcbench.runs.problems import reward_thresholds
from mcbench.runs.provenance import processes_here, sharding_here
from mcbench.runs.sampling import TOKENS_ALONE, VLLM_MEMORY, template_options

_PATIENCE_S = 24 * 3600


def uses_cpu() -> bool:
    """Whether there is no GPU, or accelerate is told to use none."""
    return not torch.cuda.is_available() or parse_flag_from_env("ACCELERATE_USE_CPU")


def trainer_arguments(config: Config, output: Path) -> Any:
    """The trainer's arguments (:class:`mcbench.grpo.MicroCoderGRPOConfig`); writes nothing.

    Raises:
        UserError: a value the trainer refuses.
    """
    batch = config.batch(processes_here())
    right_at, wrong_at = reward_thresholds(config.train_set, config.reward)
    corrected = CORRECTION if config.backend.startswith("vllm") or config.sampler_noise else ()
    settings: dict[str, Any] = dict(
        output_dir=str(output),
        seed=config.seed,
        max_steps=config.steps,
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=config.warmup_steps,
        temperature=config.temperature,
        max_completion_length=config.max_completion_length,
        repeat_window=config.repeat_window,
        correct_threshold=right_at,
        incorrect_threshold=wrong_at,
        bf16=config.precision == "bf16",
        **{name: getattr(config, name) for name in ("sampler_noise", *corrected)},
        chat_template_kwargs=template_options(config.enable_thinking) or None,
        use_cpu=uses_cpu(),
        ddp_find_unused_parameters=False,  # all are used; looking for others costs a traversal
        # The others wait while one process evaluates. A lost process is found by its launcher, not
        # by this limit.
        ddp_timeout=_PATIENCE_S,
        gradient_checkpointing=config.gradient_checkpointing,
        # Else FSDP2 keeps whole gradients in float32 from one pass of an update to the next.
        accelerator_config={
            "gradient_accumulation_kwargs": {"sync_each_batch": sharding_here() == "fsdp2"}
        },
        # The order of the prompts is laid out in `schedule.py`.
        shuffle_dataset=False,
        logging_steps=1,
        logging_nan_inf_filter=False,  # a loss that is no number is logged as that
        save_strategy="steps",
        save_steps=config.generation_period * config.checkpoint_generations,
        save_total_limit=None,  # the run store deletes older checkpoints once a newer one is whole
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
        length_groups=config.length_groups,
        shared_prefix=config.shared_prefix,
        stop_at_fence=config.stop_at_fence,
        sample_unfinished=config.backend == "transformers" and sharding_here() != "fsdp2",
        **sampler_arguments(config),
        **batch.trl_args(),
    )
    algorithm = config.algorithm()
    if not config.measures_temperature:
        algorithm.pop("temperature_probe_prompts", None)
    try:
        return grpo.MicroCoderGRPOConfig(**{**settings, **algorithm})
    except ValueError as error:
        raise UserError(str(error)) from error


def sampler_arguments(config: Config) -> dict[str, Any]:
    """The trainer's arguments for the backend that samples the training responses."""
    if config.backend == "transformers_continuous":
        return {
            "use_transformers_continuous_batching": True,
            "transformers_continuous_batching_config": _paged_cache(config),
        }
    if config.backend == "vllm_colocate":
        return {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": config.vllm_memory or VLLM_MEMORY,
            "vllm_max_model_length": config.cache_length,
            "vllm_enable_sleep_mode": config.vllm_sleep,
            "generation_kwargs": TOKENS_ALONE,
        }
    if config.backend == "vllm_server":
        return {
            "use_vllm": True,
            "vllm_mode": "server",
            "vllm_server_base_url": config.vllm_server_url,
        }
    return {}


def _paged_cache(config: Config) -> dict[str, Any]:
    """Size of the cache: a share of a GPU's memory; on CPU, where that would be most of the
    machine's, room for one generation, every prompt as long as the longest response.
    """
    if torch.cuda.is_available():
        return {"max_memory_percent": config.vllm_memory or VLLM_MEMORY}
    block = 32
    tokens = config.cache_length or 2 * max(config.eval_lengths)
    responses = config.train_batch_size * config.num_generations
    return {
        "block_size": block,
        "num_blocks": responses * -(-tokens // block),
        "max_batch_tokens": max(responses, tokens),
    }


def lora(rank: int | None) -> Any:
    """The adapters of a rank on all linear layers; None where all weights are trained."""
    if rank is None:
        return None
    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
