"""Runs made by formula, so that what reads runs can be tested without training anything.

A curve is a number or a function of the share of training that is done, from 0 to 1. Noise is of
the size seen on the nano models: a run's accuracy is off by a standard deviation of two points, one
point more comes with each evaluation, and every problem is answered four times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mcbench.claims.curves import (
    ALL_ENTROPY,
    CLIPPED,
    CUT,
    DIVERSITIES,
    DIVERSITY,
    ENTROPY,
    GROUPS,
    HEAD_DIVERSITY,
    LENGTH,
    REWARD,
    WRONG_LENGTH,
    PassRates,
    RunCurves,
)
from mcbench.runs.config import Config, preset
from mcbench.runs.store import RunRecord

T = np.ndarray
Curve = float | Callable[[T], T | float]
ATTEMPTS = 4
PROBLEMS = tuple(f"p{i:03d}" for i in range(120))
LEVELS = tuple(("easy", "medium", "hard")[i % 3] for i in range(len(PROBLEMS)))
KINDS = tuple(("described", "induced")[i % 2] for i in range(len(PROBLEMS)))
EASE = np.random.default_rng(7).uniform(-0.2, 0.2, len(PROBLEMS))
"""What a problem adds to the chance to pass it."""


class Column(NamedTuple):
    """A column of the step log: its level, and standard deviations over runs and over points."""

    curve: Curve
    run_noise: float = 0.0
    point_noise: float = 0.0


USUAL: dict[str, Column] = {
    REWARD: Column(0.45, 0.02, 0.04),
    LENGTH: Column(50.0, 2.0, 2.0),
    DIVERSITY: Column(0.5, 0.01, 0.02),
    ENTROPY: Column(0.4, 0.0, 0.01),
    ALL_ENTROPY: Column(0.4, 0.0, 0.01),
    CLIPPED: Column(0.002, 0.0, 0.0002),
    GROUPS[0]: Column(0.5, 0.0, 0.02),
    GROUPS[1]: Column(0.3, 0.0, 0.02),
    **{
        column: Column(0.5, 0.0, 0.01)
        for column in (*DIVERSITIES, HEAD_DIVERSITY)
        if column != DIVERSITY
    },
    CUT: Column(0.2, 0.0, 0.02),
    WRONG_LENGTH: Column(50.0, 2.0, 2.0),
}


def make_config(
    recipe: str = "grpo_plus", seed: int = 0, profile: str = "nano", **settings: Any
) -> Config:
    """A configuration of real names, evaluated eleven times; ``settings`` are changed."""
    return preset(profile, recipe, seed).with_settings({"eval_every": 16, **settings})


def values(curve: Curve, t: T) -> T:
    """A curve at shares of the training, (N,)."""
    return np.broadcast_to(np.asarray(curve(t) if callable(curve) else curve, float), t.shape)


def make_curves(
    config: Config,
    rng: np.random.Generator,
    columns: Mapping[str, Curve] | None = None,
    accuracy: Curve = 45.0,
    longer: Curve = 0.0,
) -> RunCurves:
    """The curves of a run, without the detour over a record.

    Args:
        columns: curves other than those of :data:`USUAL`, with the same noise, or beside them; by
            column.
        accuracy: held-out pass@1 in percent at the shortest evaluated length.
        longer: what the longest one adds.
    """
    steps = np.arange(1, config.steps + 1, config.generation_period, dtype=float)
    evals = np.arange(0, config.steps + 1, config.eval_every, dtype=float)
    logged = {}
    for name, usual in USUAL.items():
        level = values((columns or {}).get(name, usual.curve), steps / config.steps)
        noise = rng.normal(0, usual.run_noise) + rng.normal(0, usual.point_noise, len(steps))
        logged[name] = (steps, level + noise)
    short = values(accuracy, evals / config.steps)
    levels = (short, short + values(longer, evals / config.steps))
    lengths = (min(config.eval_lengths), max(config.eval_lengths))
    rates = {
        (length, config.eval_temperature): PassRates(
            evals, PROBLEMS, 100 / ATTEMPTS * _passes(level, rng), LEVELS, KINDS
        )
        for length, level in zip(lengths, levels, strict=True)
    }
    for name in sorted(set(columns := columns or {}) - set(USUAL)):
        level = values(columns[name], steps / config.steps)
        logged[name] = (steps, level + rng.normal(0, 0.01, len(steps)))
    return RunCurves(logged, rates)


def _passes(accuracy: T, rng: np.random.Generator) -> T:
    """How many attempts pass, (N, P), around a curve in percent (N,)."""
    noisy = accuracy + rng.normal(0, 2) + rng.normal(0, 1, len(accuracy))
    return rng.binomial(ATTEMPTS, (noisy[:, None] / 100 + EASE).clip(0, 1))


def make_record(curves: RunCurves, config: Config, **meta: Any) -> RunRecord:
    """The finished run with these curves, as it would be read from a file.

    Args:
        meta: facts of run.json that are added or other than usual, such as ``state``.
    """
    lines: dict[int, dict[str, Any]] = {}
    for column, (steps, of_step) in curves.logged.items():
        for step, value in zip(steps, of_step, strict=True):
            lines.setdefault(int(step), {"step": int(step)})[column] = float(value)
    evals = [
        {
            "step": int(step),
            "max_completion_length": length,
            "temperature": temperature,
            "pass_at_1": sum(passed) / ATTEMPTS / len(passed),
            "mean_length": 60.0,
            "per_problem": [
                {
                    "id": problem,
                    "form": "stdin" if index % 2 else "call",
                    "difficulty": level,
                    "kind": kind,
                    "passes": passes,
                    "attempts": ATTEMPTS,
                }
                for index, (problem, level, kind, passes) in enumerate(
                    zip(found.problems, found.difficulties, found.kinds, passed, strict=True)
                )
            ],
        }
        for (length, temperature), found in curves.rates.items()
        for step, passed in zip(
            found.steps, np.rint(found.values * ATTEMPTS / 100).astype(int).tolist(), strict=True
        )
    ]
    facts = {
        "run_id": config.run_id,
        "seed": config.seed,
        "state": "finished",
        "started": 1000.0,
        "ended": 1130.0,
        "commit": "0123456789abcdef",
        "versions": {"torch": "2.13.0", "trl": "1.16.0"},
        "hardware": {"cpu": "2 cores"},
        "config": config.to_dict(),
    }
    ordered = [lines[step] for step in sorted(lines)]
    return RunRecord({**facts, **meta}, ordered, evals, Path("absent"))
