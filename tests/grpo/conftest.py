"""A tiny random Qwen3, a word tokenizer and a training set: enough to run real updates in a
second.
"""

import atexit
import functools
import logging
import os
import string
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, set_seed

from mcbench.grpo import MicroCoderGRPOConfig

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
torch.set_num_threads(1)
logging.getLogger("transformers").setLevel(logging.ERROR)

EOS, PAD = 0, 1
WORDS = ["<eos>", "<pad>", *string.ascii_lowercase[:14]]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a letter; the vocabulary is 16 tokens, so that a random model ends now and then."""
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )


def make_model() -> Qwen3ForCausalLM:
    """Loaded from a directory, from which TRL loads the reference model too."""
    return Qwen3ForCausalLM.from_pretrained(model_directory())


@functools.cache
def model_directory() -> str:
    set_seed(0)
    config = Qwen3Config(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=256,
        initializer_range=0.3,  # far from uniform, so that a temperature changes something
        eos_token_id=EOS,
        pad_token_id=PAD,
        bos_token_id=None,
    )
    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    Qwen3ForCausalLM(config).save_pretrained(directory.name)
    return directory.name


def make_dataset(rows: int = 16) -> Dataset:
    letters = string.ascii_lowercase[:14]
    prompts = [f"{letters[i % 14]} {letters[(3 * i + 1) % 14]}" for i in range(rows)]
    return Dataset.from_dict({"prompt": prompts, "problem_id": [f"p{i}" for i in range(rows)]})


def letter_reward(completions: list[str], **_: Any) -> list[float]:
    """1 if the response holds an even number of "a": about half of them, whatever the model."""
    return [float(text.split().count("a") % 2 == 0) for text in completions]


def common_args(output_dir: Path | str) -> dict[str, Any]:
    return {
        "output_dir": str(output_dir),
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 12,
        "learning_rate": 1e-2,
        "max_steps": 5,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "seed": 7,
    }


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., MicroCoderGRPOConfig]:
    """Builds a configuration: small defaults, replaced by the keyword arguments."""
    return lambda **changes: MicroCoderGRPOConfig(**{**common_args(tmp_path), **changes})


@pytest.fixture
def make_trainer(config: Callable[..., MicroCoderGRPOConfig]) -> Callable[..., Any]:
    """Builds a MicroCoder trainer (or ``cls``) on the tiny model."""
    from mcbench.grpo import MicroCoderGRPOTrainer

    def make(
        cls: type = MicroCoderGRPOTrainer, trainer: dict[str, Any] | None = None, **changes: Any
    ):
        defaults = {
            "model": make_model(),
            "reward_funcs": letter_reward,
            "train_dataset": make_dataset(),
            "processing_class": make_tokenizer(),
        }
        parts = {**defaults, **(trainer or {})}
        return cls(args=parts.pop("args", None) or config(**changes), **parts)

    return make


def logged(trainer: Any, name: str) -> list[float]:
    """What a trainer logged under a name, in order."""
    return [line[name] for line in trainer.state.log_history if name in line]
