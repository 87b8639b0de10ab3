"""Profiles: the scale at which a recipe is trained.

A profile says which model, data, lengths, batch, learning rate and backend; a recipe says which
algorithm. The same code runs all of them: only these numbers differ.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from mcbench.errors import UserError, unknown

PROMPT_STYLES = ("plain", "chat")
BACKENDS = ("transformers", "transformers_continuous", "vllm_colocate", "vllm_server")
REWARD_BACKENDS = ("local", "ray")
REWARD_EVALUATORS = ("microcoder", "single_threaded", "process_per_sample")
PRECISIONS = ("fp32", "bf16")
# Where and how fast a run executes, not what it computes: two runs that differ only here are one.
EXECUTION_FIELDS = (
    "name",
    "reward_workers",
    "reward_backend",
    "vllm_memory",
    "vllm_max_model_length",
    "vllm_sleep",
    "vllm_server_url",
    "checkpoint_generations",
)


@dataclass(frozen=True)
class Profile:
    """One scale.

    ``train_batch_size`` and ``ppo_mini_batch_size`` count prompts, as in the paper: one generation
    samples ``train_batch_size`` prompts x ``num_generations`` responses and is followed by
    ``train_batch_size / ppo_mini_batch_size`` updates. ``per_device_batch_size`` counts responses
    per forward pass. Lengths are in tokens. ``steps`` are optimizer updates, and so are
    ``eval_every`` and ``warmup_steps``.

    ``backend`` samples the training responses: ``model.generate`` (``transformers``), the same
    model with a paged cache that lets a new response start as soon as another ends
    (``transformers_continuous``), a vLLM engine in the training process (``vllm_colocate``), or a
    vLLM server (``vllm_server``, at ``vllm_server_url``). ``vllm_memory`` is the share of the
    device memory for the sampler's cache (colocated vLLM: and its copy of the weights), which
    ``vllm_sleep`` gives back during the updates.

    ``reward_workers`` processes judge the responses, on this machine or (``reward_backend``) on a
    Ray cluster. ``reward_rules`` names the comparison rules of the training reward
    (:data:`mcbench.evaluator.rule_sets.RULE_SETS`), ``reward_evaluator`` the program that judges
    it: MicroCoder-Evaluator, or one of the published methods that it is measured against, which
    bring their own rules and no sandbox. Held-out problems are always judged by
    MicroCoder-Evaluator under its own rules.

    Raises:
        UserError: a value outside its range; the message names the allowed ones.
    """

    name: str
    model: str
    train_set: str
    test_set: str
    max_completion_length: int
    eval_lengths: tuple[int, ...]
    train_batch_size: int
    ppo_mini_batch_size: int
    num_generations: int
    per_device_batch_size: int
    learning_rate: float
    temperature: float
    steps: int
    eval_every: int
    repeat_window: int
    prompt_style: Literal["plain", "chat"] = "plain"
    warmup_steps: int = 2
    checkpoint_generations: int = 1
    test_limit: int | None = None
    eval_attempts: int = 4
    eval_temperature: float = 1.0
    eval_batch_size: int = 256
    precision: Literal["fp32", "bf16"] = "fp32"
    backend: Literal["transformers", "transformers_continuous", "vllm_colocate", "vllm_server"] = (
        "transformers"
    )
    vllm_memory: float = 0.3
    vllm_max_model_length: int | None = None
    vllm_sleep: bool = False
    vllm_server_url: str | None = None
    gradient_checkpointing: bool = False
    lora_rank: int | None = None
    reward_workers: int = 2
    reward_backend: Literal["local", "ray"] = "local"
    reward_rules: str = "microcoder"
    reward_evaluator: Literal["microcoder", "single_threaded", "process_per_sample"] = "microcoder"

    def __post_init__(self) -> None:
        for field, allowed in (
            ("prompt_style", PROMPT_STYLES),
            ("backend", BACKENDS),
            ("precision", PRECISIONS),
            ("reward_backend", REWARD_BACKENDS),
            ("reward_evaluator", REWARD_EVALUATORS),
        ):
            if getattr(self, field) not in allowed:
                raise unknown(field, getattr(self, field), allowed)
        for field in _POSITIVE:
            value = getattr(self, field)
            if value is not None and not value > 0:
                raise UserError(f"{field} must be greater than 0, got {value!r}")
        if self.warmup_steps < 0:
            raise UserError(f"warmup_steps must be at least 0, got {self.warmup_steps}")
        if not self.eval_lengths or any(length < 1 for length in self.eval_lengths):
            raise UserError(
                f"eval_lengths must be one or more lengths in tokens, got {self.eval_lengths!r}"
            )
        if self.reward_rules == "microcoder":
            return
        from mcbench.evaluator.rule_sets import rule_set

        rule_set(self.reward_rules)
        if self.reward_evaluator != "microcoder":
            raise UserError(
                f"reward_evaluator {self.reward_evaluator!r} brings its own rules; "
                f"leave out reward_rules={self.reward_rules!r}"
            )

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The fields that a change may name."""
        return tuple(field.name for field in fields(cls) if field.name != "name")


_POSITIVE = (
    "max_completion_length",
    "train_batch_size",
    "ppo_mini_batch_size",
    "num_generations",
    "per_device_batch_size",
    "learning_rate",
    "temperature",
    "steps",
    "eval_every",
    "repeat_window",
    "checkpoint_generations",
    "test_limit",
    "eval_attempts",
    "eval_temperature",
    "eval_batch_size",
    "vllm_memory",
    "vllm_max_model_length",
    "lora_rank",
    "reward_workers",
)

_NANO: dict[str, Any] = {
    "model": "nano-s",
    "train_set": "nano:train",
    "test_set": "nano:test",
    "max_completion_length": 96,
    "eval_lengths": (96, 192),
    "train_batch_size": 16,
    "ppo_mini_batch_size": 2,
    "num_generations": 8,
    "per_device_batch_size": 16,
    "learning_rate": 2e-4,
    "temperature": 1.0,
    "steps": 160,
    "eval_every": 32,
    "repeat_window": 16,
}

# Paper §5: 8K responses, temperature 1.2, 64 problems x 8 samples, learning rate 1e-6. The paper
# leaves the mini batch open; 16 problems give 4 updates per generation. The training data are
# the generated nano problems in chat form until another file is named with
# ``--set train_set=problems.jsonl``.
_PAPER: dict[str, Any] = {
    "train_set": "nano:train",
    "test_set": "nano:test",
    "prompt_style": "chat",
    "max_completion_length": 8192,
    "eval_lengths": (8192, 16384),
    "train_batch_size": 64,
    "ppo_mini_batch_size": 16,
    "num_generations": 8,
    "per_device_batch_size": 8,
    "learning_rate": 1e-6,
    "temperature": 1.2,
    "steps": 600,
    "eval_every": 20,
    "warmup_steps": 10,
    "repeat_window": 128,
    "checkpoint_generations": 5,
    "eval_temperature": 1.0,
    "precision": "bf16",
    "backend": "vllm_colocate",
    # The longest tested response and a prompt of 4K: a cache for the model's own limit (262,144
    # tokens for Qwen3-4B-Instruct-2507) would not fit beside the trainer.
    "vllm_max_model_length": 16384 + 4096,
    "vllm_sleep": True,
    "gradient_checkpointing": True,
    "reward_workers": 8,
}

_QWEN3_SMALL, _QWEN3 = "Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B-Instruct-2507"

# Adapters on all linear layers of the frozen model: no gradients and moments for it, so that one
# 80 GB GPU holds 4B and 7B. The model stays in float32: for vLLM the adapters are added to it and
# taken off again, which would round bf16 weights every time. Ten times the learning rate, as
# adapters need.
_LORA: dict[str, Any] = {"lora_rank": 32, "learning_rate": 1e-5}

# The older generation of Fig. 1: a 4K response is more than it ever uses.
_OLDER: dict[str, Any] = {
    **_PAPER,
    "model": "Qwen/Qwen2.5-7B-Instruct",
    "max_completion_length": 4096,
    "eval_lengths": (4096, 8192),
    "vllm_max_model_length": 8192 + 4096,
}

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="nano", **_NANO),
        Profile(name="nano-m", **{**_NANO, "model": "nano-m"}),
        Profile(name="nano-old", **{**_NANO, "model": "nano-old"}),
        # Short enough for a test: two generations of two updates.
        Profile(
            name="tiny",
            **{
                **_NANO,
                "max_completion_length": 24,
                "eval_lengths": (24, 48),
                "train_batch_size": 4,
                "ppo_mini_batch_size": 2,
                "num_generations": 2,
                "per_device_batch_size": 4,
                "steps": 4,
                "eval_every": 2,
                "repeat_window": 4,
                "warmup_steps": 0,
                "test_limit": 4,
                "eval_attempts": 2,
                "reward_workers": 1,
            },
        ),
        Profile(name="qwen3-1.7b", **{**_PAPER, "model": _QWEN3_SMALL}),
        Profile(name="qwen3-4b", **{**_PAPER, "model": _QWEN3}),
        Profile(name="qwen2.5-7b", **_OLDER),
        Profile(name="qwen3-1.7b-lora", **{**_PAPER, **_LORA, "model": _QWEN3_SMALL}),
        Profile(name="qwen3-4b-lora", **{**_PAPER, **_LORA, "model": _QWEN3}),
        Profile(name="qwen2.5-7b-lora", **{**_OLDER, **_LORA}),
    )
}


def profile_named(name: str) -> Profile:
    """The profile of that name.

    Raises:
        UserError: an unknown name; the message lists the known ones.
    """
    if name not in PROFILES:
        raise unknown("profile", name, PROFILES)
    return PROFILES[name]
