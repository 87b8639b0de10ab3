"""What a run through vLLM left in its record, and whether that is right."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from mcbench.files import read_lines
from mcbench.runs.resolve import resolve
from mcbench.runs.store import Run
from mcbench.runs.train import train


def train_nano(changes: dict[str, Any], folder: Path, steps: int = 4) -> Run:
    """A finished MicroCoder-GRPO run of the nano profile with these changes."""
    config = resolve("nano", "microcoder", changes, steps=steps)
    return train(config, folder, progress=lambda line: None)


def mismatch(run: Run) -> list[float]:
    """Largest |log π_policy − log π_vLLM| of each generation, as the run's record has it."""
    name = "sampling/sampling_logp_difference/max"
    return [line[name] for line in read_lines(run.path / "steps.jsonl") if name in line]


def recorded(run: Run, name: str) -> list[float]:
    """A value of each generation."""
    return [line[name] for line in read_lines(run.path / "steps.jsonl") if name in line]


def generations(run: Run) -> list[pd.DataFrame]:
    """The stored responses, one table a generation."""
    return [pd.read_parquet(path) for path in sorted((run.path / "completions").glob("*.parquet"))]


def assert_sampled_at(responses: pd.DataFrame, logits: torch.Tensor, temperature: float) -> None:
    """The shares of the tokens are those of softmax(logits / T), within five standard errors."""
    tokens = np.concatenate(responses["tokens"].tolist())
    share = np.bincount(tokens, minlength=len(logits)) / len(tokens)
    expected = torch.softmax(logits / temperature, -1).numpy()
    assert np.all(np.abs(share - expected) <= 5 * np.sqrt(expected / len(tokens)) + 1e-9)
