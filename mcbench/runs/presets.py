"""Profiles: the scale at which a recipe is trained, as settings of :class:`mcbench.runs.Config`.

A profile says which model, data, lengths, batch, learning rate and backend; a recipe
(:data:`mcbench.grpo.RECIPES`) which algorithm. The same code runs all of them: only these numbers
differ.
"""

from __future__ import annotations

from typing import Any

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
    "length_groups": 4,
    "learning_rate": 2e-4,
    "temperature": 1.0,
    "steps": 160,
    "eval_every": 32,
    "repeat_window": 16,
}

# For claims: three times the updates, a test set twice as large, evaluated at two temperatures. A
# small evaluation shows the shape of the curves between the whole ones.
_STEADY: dict[str, Any] = {
    **_NANO,
    "model": "nano-s2",
    "train_set": "nano-balanced:train",
    "test_set": "nano-balanced:test",
    "steps": 480,
    "eval_every": 96,
    "eval_attempts": 2,
    "eval_other_temperatures": (0.6,),
    "eval_batch_size": 480,
    "small_eval_every": 16,
    "checkpoint_generations": 4,
}

# The tasks of mcbench/worlds: the same scale, with base models and problems of their own.
_REPAIR: dict[str, Any] = {
    **_NANO,
    "model": "nano-repair",
    "train_set": "repair-fix:train",
    "test_set": "repair:test",
    "max_completion_length": 64,
    "eval_lengths": (64, 128),
    "steps": 96,
    "eval_every": 24,
}
# Two of 18 prompts pose problems, whose 16 responses have a group of attempts each.
_SELF_PLAY: dict[str, Any] = {
    **_REPAIR,
    "model": "nano-self-play",
    "train_set": "self-play:train",
    "test_set": "self-play:test",
    "train_batch_size": 18,
    "steps": 432,  # with 144 a pilot's injector had answered 256 times, and had learned nothing
    "eval_every": 36,
}
EARLIER_MODELS = {"nano-traced": "ec7940fb6994afc0", "nano-untraced": "5f44f8935226f169"}
"""Digests of base models that other ones have replaced, which earlier runs are known by."""
_TRACES: dict[str, Any] = {**_NANO, "model": "nano-traced", "steps": 96, "eval_every": 24}

_BRANCHES: dict[str, Any] = {
    **_NANO,
    "model": "nano-branches",
    "train_set": "branches:train",
    "test_set": "branches:test",
    "max_completion_length": 40,
    "eval_lengths": (40, 80),
    "steps": 64,
    "eval_every": 16,
    "eval_attempts": 2,
}

# Episodes of up to three turns; the limit is that of all its turns together.
_TURNS: dict[str, Any] = {
    **_NANO,
    "model": "nano-turns",
    "train_set": "turns:train",
    "test_set": "turns:test",
    "reward": "rlef",
    "feedback": "failing",
    "max_completion_length": 128,
    "eval_lengths": (128,),
    "steps": 160,
    "eval_every": 32,
    "eval_attempts": 2,
    "eval_batch_size": 240,
}

# Searches of a repository, by turns; what tools show does not count.
_SEARCH: dict[str, Any] = {
    **_TURNS,
    "model": "nano-search",
    "train_set": "search:train",
    "test_set": "search:test",
    "reward": "f05",
    "feedback": "results",
    "max_completion_length": 64,
    "eval_lengths": (64,),
}

# Responses of two tokens: many of them, for what users accept is a matter of chance.
_TAB: dict[str, Any] = {
    **_NANO,
    "model": "nano-tab",
    "train_set": "tab:train",
    "test_set": "tab:test",
    "reward": "accept_25",
    "max_completion_length": 4,
    "eval_lengths": (4,),
    "train_batch_size": 64,
    "ppo_mini_batch_size": 16,
    "num_generations": 16,
    "per_device_batch_size": 256,
    "length_groups": 1,
    "learning_rate": 1e-3,
    "steps": 80,
    "eval_every": 8,
    "eval_attempts": 2,
    "eval_batch_size": 480,
    "repeat_window": 2,
}

# Two passes over twice as many prompts: the last updates of a generation are far enough from the
# policy that sampled for the clip to act, on 2 to 3 % of the tokens (with one pass: 0.5 %).
_CLIP: dict[str, Any] = {**_STEADY, "train_batch_size": 32, "num_iterations": 2}

# Short enough for a test: two generations of two updates.
_TINY: dict[str, Any] = {
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
}

# Paper §5: 8K responses, temperature 1.2, 64 problems x 8 samples, learning rate 1e-6. The paper
# leaves the mini batch open; 16 problems give 4 updates per generation. The training data are
# the generated nano problems in chat form until another set is named with
# ``--set train_set=...``.
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
    "length_groups": 8,  # one response a pass: no padding, and no dense attention mask
    "learning_rate": 1e-6,
    "temperature": 1.2,
    "temperature_probe_prompts": 64,  # a generation for each temperature that T(D) tries
    "steps": 600,
    # An evaluation of all problems costs two generations at twice the length: so few of them, and
    # of some problems between the first and the last, that they cost at most a fifth of the rest.
    "eval_every": 600,
    "small_eval_every": 100,
    "small_eval_limit": 100,
    "warmup_steps": 10,
    "repeat_window": 128,
    "checkpoint_generations": 10,  # 48 GB at 4B
    "eval_temperature": 1.0,
    "precision": "bf16",
    "backend": "vllm_colocate",
    # The engine's cache is for such a prompt and the longest tested response: one for the model's
    # own limit (262,144 tokens for Qwen3-4B-Instruct-2507) would not fit beside the trainer.
    "max_prompt_length": 4096,
    "vllm_sleep": True,
    "gradient_checkpointing": True,
    "reward_workers": 8,
}

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
}

# Qwen3-1.7B thinks unless told otherwise; Qwen3-4B-Instruct-2507 and Qwen2.5 never do. Without it
# all of them answer in one way, and within the limit.
_QWEN3_SMALL = {**_PAPER, "model": "Qwen/Qwen3-1.7B", "enable_thinking": False}
_QWEN3 = {**_PAPER, "model": "Qwen/Qwen3-4B-Instruct-2507"}

# A pretrained model on two cores on easy functions: 32 responses take a minute.
_SMOL: dict[str, Any] = {
    "model": "smollm2-135m",
    "train_set": "easy:train",
    "test_set": "easy:test",
    "prompt_style": "chat",
    "max_completion_length": 96,
    "stop_at_fence": True,
    "eval_lengths": (96, 192),
    "train_batch_size": 8,
    "ppo_mini_batch_size": 4,
    "num_generations": 8,
    "per_device_batch_size": 8,
    "length_groups": 2,
    "learning_rate": 1e-5,
    "temperature": 0.8,  # with the limit, what the gate of docs/protocol.md gave
    "temperature_probe_prompts": 32,
    "steps": 48,
    "eval_every": 48,
    "eval_temperature": 0.8,
    "eval_attempts": 2,
    "eval_batch_size": 128,
    "small_eval_every": 12,
    "small_eval_limit": 39,
    "repeat_window": 16,
    "checkpoint_generations": 4,
}

PROFILES: dict[str, dict[str, Any]] = {
    "nano": _NANO,
    "nano-m": {**_NANO, "model": "nano-m"},
    "nano-old": {**_NANO, "model": "nano-old"},
    "nano-steady": _STEADY,
    "nano-stress": {**_STEADY, "learning_rate": 3e-4},  # notebook 10: rises, then falls
    "nano-clip": _CLIP,
    "nano-repair": _REPAIR,
    "nano-self-play": _SELF_PLAY,
    "nano-branches": _BRANCHES,
    "nano-traces": _TRACES,
    "nano-turns": _TURNS,
    "nano-search": _SEARCH,
    "nano-tab": _TAB,
    "nano-steady-m": {**_STEADY, "model": "nano-m"},
    "nano-steady-old": {**_STEADY, "model": "nano-old"},
    "tiny": _TINY,
    "smollm2-135m": _SMOL,
    "qwen3-1.7b": _QWEN3_SMALL,
    "qwen3-4b": _QWEN3,
    "qwen2.5-7b": _OLDER,
    "qwen3-1.7b-lora": {**_QWEN3_SMALL, **_LORA},
    "qwen3-4b-lora": {**_QWEN3, **_LORA},
    "qwen2.5-7b-lora": {**_OLDER, **_LORA},
}

# What T(D) aims at where an arm says "auto": the diversity that training converges to. Paper:
# 0.65-0.70 for the 4B model; on the nano models Distinct-4 ends near 0.4 (results experiment).
# and, over 480 unmasked updates, near 0.37 (pilots).
TARGET_DIVERSITY = {
    **dict.fromkeys(("nano", "nano-m", "nano-old", "tiny"), 0.4),
    **dict.fromkeys(
        ("nano-steady", "nano-stress", "nano-clip", "nano-steady-m", "nano-steady-old"), 0.37
    ),
}
PAPER_TARGET_DIVERSITY = 0.65

# What T(D) tries where an arm leaves both to the profile: none of the constant arms' temperatures.
TEMPERATURE_GRID = dict.fromkeys(
    ("nano-steady", "nano-stress"), (0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1.1)
)
