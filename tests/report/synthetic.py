"""Run records made by formula, so that the report can be tested without training anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcbench.runs.config import preset
from mcbench.runs.distributions import distributions
from mcbench.runs.store import RunRecord

GAIN = {"grpo": 8.0, "grpo_plus": 13.0, "microcoder": 20.0}


def problems(rate: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Twenty-four problems, four attempts each; hard ones pass half as often."""
    rows = []
    for index in range(24):
        difficulty = ("easy", "medium", "hard")[index % 3]
        chance = min(0.98, rate * {"easy": 1.4, "medium": 1.0, "hard": 0.6}[difficulty])
        rows.append(
            {
                "id": f"p{index}",
                "form": "stdin" if index < 12 else "call",
                "difficulty": difficulty,
                "kind": "described",
                "passes": int(rng.binomial(4, chance)),
                "attempts": 4,
            }
        )
    return rows


def make_evals(arm: str, steps: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    lines = []
    for step in range(0, steps + 1, 10):
        for length in (128, 256):
            rate = 0.3 + GAIN[arm] / 100 * (1 - np.exp(-step / 25)) + (length == 256) * 0.02
            per_problem = problems(rate, rng)
            passed = [row["passes"] / row["attempts"] for row in per_problem]
            lines.append(
                {
                    "step": step,
                    "dataset": "nano:test",
                    "dataset_hash": "0a2389caf05cfe8d",
                    "max_completion_length": length,
                    "attempts": 4,
                    "temperature": 1.0,
                    "pass_at_1": float(np.mean(passed)),
                    "mean_length": 60.0,
                    "per_problem": per_problem,
                }
            )
    return lines


def spread(mean: float, rng: np.random.Generator) -> dict[str, Any]:
    """How 64 responses of a generation are distributed."""
    lengths = np.clip(rng.normal(mean, 20, 64), 1, 128)
    right = rng.random(64) < lengths / 200
    return distributions(lengths, right, rng.normal(0, 1, 64) * (rng.random(64) < 0.6), 128)


def make_steps(
    arm: str, steps: int, rng: np.random.Generator, every: int = 2
) -> list[dict[str, Any]]:
    """One step in ``every`` begins a generation; the others only update, and log no reward."""
    lines = []
    for step in range(1, steps + 1):
        t, noise = step / steps, rng.normal(0, 1, 12)
        line = {
            "step": step,
            "entropy": 0.5 - 0.2 * t + 0.02 * noise[0],
            "clip_ratio/low_mean": 0.004 + 0.001 * noise[1],
            "clip_ratio/high_mean": 0.006 * t + 0.001 * abs(noise[2]),
            "time/step_s": 1.4,
            "grad_norm": 0.2 + 0.02 * abs(noise[7]),
            "learning_rate": 2e-4,
        }
        if arm == "grpo":
            line["kl"] = 0.1 * t
        if step % every == 1 % every:
            mean = 60 + (30 if arm == "microcoder" else 8) * t + noise[3]
            fail = 0.45 - 0.2 * t
            line |= {
                "reward": 0.3 + GAIN[arm] / 100 * t + 0.03 * noise[4],
                "completions/mean_length": mean,
                "completions/clipped_ratio": 0.2 - 0.1 * t + 0.01 * noise[5],
                "mask/share": 0.03 * (arm == "microcoder") * (1 - t / 2),
                "diversity/distinct_4": 0.7 - 0.1 * t + 0.01 * noise[6],
                "diversity/distinct_1": 0.3 - 0.05 * t,
                "diversity/self_bleu": 0.4 + 0.1 * t,
                "diversity/unique_programs": 0.6 - 0.1 * t,
                "length/p10": mean * 0.4,
                "length/p50": mean * 0.9,
                "length/p90": min(128.0, mean * 1.7),
                "length/correct_mean": mean * 0.9,
                "length/incorrect_mean": mean * 1.15,
                "group/all_fail": fail,
                "group/mixed": 0.9 - fail,
                "group/all_pass": 0.1,
                "time/generate_s": 1.1,
                "time/reward_s": 0.4,
                "temperature": 1.0,
                "length/max_allowed": 128.0,
                "mask/truncated": 0.2 - 0.1 * t,
                "mask/eligible_incorrect": 0.15 - 0.1 * t,
                "diversity/distinct_2": 0.5 - 0.1 * t,
                "diversity/distinct_3": 0.6 - 0.1 * t,
                **spread(mean, np.random.default_rng([step, len(arm)])),
            }
        lines.append(line)
    return lines


def make_record(
    arm: str,
    seed: int,
    model: str = "nano-s",
    steps: int = 60,
    every: int = 2,
    settings: Mapping[str, Any] | None = None,
    profile: str = "nano",
    **meta: Any,
) -> RunRecord:
    """A finished run of one arm and seed; ``settings`` are those of its configuration."""
    rng = np.random.default_rng([seed, len(arm)])
    scale = {"model": model, "max_completion_length": 128, "eval_lengths": (128, 256)}
    scale |= {"steps": steps, "eval_every": 10}
    config = preset(profile, arm, seed).with_settings({**scale, **(settings or {})})
    return RunRecord(
        meta={
            "run_id": f"{arm}-{model}-{seed}",
            "seed": seed,
            "state": "finished",
            "started": 1000.0,
            "ended": 1130.0,
            "commit": "0123456789abcdef",
            "versions": {"torch": "2.13.0", "trl": "1.16.0"},
            "hardware": {"cpu": "2 cores"},
            "config": config.to_dict(),
            **meta,
        },
        step_lines=make_steps(arm, steps, rng, every),
        eval_lines=make_evals(arm, steps, rng),
        path=Path("absent"),
    )


def make_records(seeds: int = 3, models: tuple[str, ...] = ("nano-s",)) -> list[RunRecord]:
    return [make_record(arm, s, model) for model in models for arm in GAIN for s in range(seeds)]
