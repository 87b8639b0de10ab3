"""Calibration of a nano base model: is it a fair test bed, before any recipe is trained on it?

The targets are fixed here, ahead of every ablation, and the measurement is sampled, judged by the
evaluator and reported whether it meets them or not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.files import plain, write_atomic
from mcbench.runs.config import Config, preset
from mcbench.runs.evaluate import judge, passed
from mcbench.runs.scores import pass_at_k

ATTEMPTS = 8
CALIBRATION_FILE = "calibration.json"  # beside the compact records
GRID = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 1.8)


@dataclass(frozen=True)
class Target:
    """A range that a measured number has to fall into."""

    name: str
    low: float
    high: float

    def met(self, value: float) -> bool:
        return self.low <= value <= self.high


TARGETS = (
    Target("pass@1 at T = 1", 0.20, 0.45),
    Target("pass@8 minus pass@1", 0.20, 1.0),
    Target("entropy at T = 1 (nats a token)", 0.15, float("inf")),
    Target("share truncated at the default limit", 0.10, 0.30),
    Target("hard third: pass rate, longest minus shortest tercile", 0.15, 1.0),
)


@dataclass(frozen=True)
class CalibrationReport:
    """What was measured for one base model at T = 1 and on a temperature grid.

    Attributes:
        samples: one row a response: problem, kind, form, difficulty, passed, length (tokens),
            truncated.
        grid: one row a temperature: pass@1, entropy (nats a token), Distinct-1..4, mean length,
            share truncated.
        limit: the length at which responses are cut, in tokens.
    """

    model: str
    limit: int
    samples: pd.DataFrame
    grid: pd.DataFrame

    def pass_at(self, k: int, *by: str) -> pd.DataFrame:
        """Unbiased pass@k, over all problems or by columns of ``samples``."""
        counts = self.samples.groupby([*by, "problem"])["passed"].agg(["count", "sum"])
        values = [
            pass_at_k(int(n), int(c), k)
            for n, c in zip(counts["count"], counts["sum"], strict=True)
        ]
        table = counts.assign(**{f"pass@{k}": values}).reset_index()
        if not by:
            return pd.DataFrame({f"pass@{k}": [float(np.mean(values))]})
        return table.groupby(list(by))[f"pass@{k}"].mean().reset_index()

    def terciles(self, difficulty: str = "hard") -> pd.DataFrame:
        """Pass rate and mean length of finished responses, in three parts of rising length."""
        rows = self.samples.query("difficulty == @difficulty and not truncated")
        order = rows.sort_values("length", kind="stable")
        parts = np.array_split(np.arange(len(order)), 3)
        return pd.DataFrame(
            {
                "tercile": ["shortest", "middle", "longest"],
                "responses": [len(part) for part in parts],
                "mean length": [float(order["length"].iloc[part].mean()) for part in parts],
                "pass rate": [float(order["passed"].iloc[part].mean()) for part in parts],
            }
        )

    def measured(self) -> dict[str, float]:
        """The numbers that ``TARGETS`` speak of, by their names."""
        one = float(self.pass_at(1)["pass@1"].iloc[0])
        eight = float(self.pass_at(ATTEMPTS)[f"pass@{ATTEMPTS}"].iloc[0])
        at_one = self.grid[self.grid["temperature"] == 1.0].iloc[0]
        rates = self.terciles()["pass rate"]
        values = (
            one,
            eight - one,
            float(at_one["entropy"]),
            float(self.samples["truncated"].mean()),
            float(rates.iloc[2] - rates.iloc[0]),
        )
        return {target.name: value for target, value in zip(TARGETS, values, strict=True)}

    def verdicts(self) -> pd.DataFrame:
        """One row a target: range, measured value, whether it is met."""
        measured = self.measured()
        return pd.DataFrame(
            [
                {
                    "target": target.name,
                    "from": target.low,
                    "to": target.high,
                    "measured": measured[target.name],
                    "met": target.met(measured[target.name]),
                }
                for target in TARGETS
            ]
        )


@dataclass(frozen=True)
class CalibrationRecord:
    """What a page on base models is made from: the measurements, and what they were made with.

    ``origin`` are facts by name (versions, commit, hardware), ``seed`` and ``temperatures`` the
    settings, ``profiles`` the names of what was measured.
    """

    profiles: tuple[str, ...]
    temperatures: tuple[float, ...]
    seed: int
    origin: dict[str, Any]
    reports: tuple[CalibrationReport, ...]

    def write(self, path: Path) -> Path:
        """Write the record as JSON; equal records give equal bytes."""
        tables = [
            {
                "model": report.model,
                "limit": report.limit,
                "samples": report.samples.to_dict("list"),
                "grid": report.grid.to_dict("list"),
            }
            for report in self.reports
        ]
        settings = {"profiles": self.profiles, "temperatures": self.temperatures, "seed": self.seed}
        content = plain({**settings, "origin": self.origin, "reports": tables})
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(content, separators=(",", ":")) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> CalibrationRecord:
        """Read what :meth:`write` wrote.

        Raises:
            UserError: the file is no such record.
        """
        try:
            content = json.loads(path.read_text())
            reports = tuple(
                CalibrationReport(
                    one["model"],
                    one["limit"],
                    pd.DataFrame(one["samples"]),
                    pd.DataFrame(one["grid"]),
                )
                for one in content["reports"]
            )
            return cls(
                tuple(content["profiles"]),
                tuple(content["temperatures"]),
                content["seed"],
                content["origin"],
                reports,
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no record of a calibration: {error}") from error


def calibrate(
    profile: str | Config = "nano",
    grid: Sequence[float] = GRID,
    limit: int | None = None,
    problems: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = print,
) -> CalibrationReport:
    """Sample the profile's base model on its test set and measure what ``TARGETS`` ask for.

    Args:
        profile: a configuration or a profile's name.
        grid: temperatures; 1.0 is always measured.
        limit: maximum response length in tokens; the profile's own where None.
        problems: how many test problems, spread over the set; all where None.

    Raises:
        UserError: an unknown profile or a temperature that is not greater than 0.
    """
    from mcbench.evaluator import Evaluator
    from mcbench.runs.evaluate import select_problems
    from mcbench.runs.problems import load_problems
    from mcbench.runs.train import load_model

    if any(not t > 0 for t in grid):
        raise UserError(f"temperatures must be greater than 0, got {list(grid)}")
    chosen = profile if isinstance(profile, Config) else preset(profile)
    length = chosen.max_completion_length if limit is None else limit
    tasks = select_problems(load_problems(chosen.test_set), problems or chosen.test_limit)
    model, tokenizer = load_model(chosen)
    rows: list[dict[str, Any]] = []
    samples = pd.DataFrame()
    with Evaluator(workers=chosen.reward_workers) as evaluator:
        for temperature in sorted({*map(float, grid), 1.0}):
            table, responses = _sample(
                model, tokenizer, tasks, evaluator, length, temperature, seed, chosen
            )
            rows.append(_summary(model, tokenizer, tasks, responses, table, temperature, chosen))
            progress(f"{chosen.model}: T = {temperature:g}, pass@1 {rows[-1]['pass@1']:.3f}")
            if temperature == 1.0:
                samples = table
    return CalibrationReport(chosen.model, length, samples, pd.DataFrame(rows))


def _sample(
    model: Any,
    tokenizer: Any,
    tasks: Sequence[Problem],
    evaluator: Any,
    length: int,
    temperature: float,
    seed: int,
    config: Config,
) -> tuple[pd.DataFrame, list[list[int]]]:
    """``ATTEMPTS`` responses a problem: the table of ``CalibrationReport.samples``, and the ids."""
    from mcbench.data.prompts import prompt_for
    from mcbench.runs.sampling import transformers_policy

    policy = transformers_policy(model, tokenizer, config.eval_batch_size)
    prompts = [prompt_for(task, config.prompt_style) for task in tasks]
    responses = policy.respond(prompts, ATTEMPTS, length, temperature, seed)
    verdicts = judge(evaluator, tasks, {length: policy.texts(responses)}, ATTEMPTS)[length]
    table = pd.DataFrame(
        {
            "problem": [task.id for task in tasks for _ in range(ATTEMPTS)],
            "kind": [task.kind for task in tasks for _ in range(ATTEMPTS)],
            "form": [task.form for task in tasks for _ in range(ATTEMPTS)],
            "difficulty": [task.difficulty for task in tasks for _ in range(ATTEMPTS)],
            "passed": [bool(passed(one)) for one in verdicts],
            "length": [len(ids) for ids in responses],
            "truncated": [ids[-1] not in policy.ends for ids in responses],
        }
    )
    return table, responses


def _summary(
    model: Any,
    tokenizer: Any,
    tasks: Sequence[Problem],
    responses: list[list[int]],
    table: pd.DataFrame,
    temperature: float,
    config: Config,
) -> dict[str, float]:
    """One row of ``CalibrationReport.grid``."""
    from mcbench.data.prompts import prompt_for
    from mcbench.grpo.diversity import distinct_n
    from mcbench.runs.sampling import prompt_ids

    prompts = prompt_ids(tokenizer, [prompt_for(task, config.prompt_style) for task in tasks])
    groups = [responses[i : i + ATTEMPTS] for i in range(0, len(responses), ATTEMPTS)]
    repeated = [p for p in prompts for _ in range(ATTEMPTS)]
    return {
        "temperature": temperature,
        "pass@1": float(table["passed"].mean()),
        "entropy": mean_entropy(model, tokenizer, repeated, responses, temperature),
        **{f"distinct_{n}": value for n, value in distinct_n(groups).items()},
        "mean length": float(table["length"].mean()),
        "truncated": float(table["truncated"].mean()),
    }


def mean_entropy(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[list[int]],
    responses: Sequence[list[int]],
    temperature: float,
    batch_size: int = 128,
) -> float:
    """Mean entropy of softmax(logits / T) over all response tokens, in nats a token."""
    import torch

    total, count = 0.0, 0
    pad = tokenizer.pad_token_id
    for start in range(0, len(prompts), batch_size):
        pairs = list(zip(prompts[start:][:batch_size], responses[start:][:batch_size], strict=True))
        width = max(len(p) + len(r) for p, r in pairs)
        ids = torch.full((len(pairs), width), pad)
        inside = torch.zeros(len(pairs), width, dtype=torch.bool)
        for row, (p, r) in enumerate(pairs):
            ids[row, : len(p) + len(r)] = torch.tensor(p + r)
            inside[row, len(p) - 1 : len(p) + len(r) - 1] = True  # predicts the response
        ids, inside = ids.to(model.device), inside.to(model.device)
        with torch.inference_mode():
            # padded on the right under a causal mask: no response token sees the padding
            logits = model(input_ids=ids, use_cache=False).logits[inside] / temperature
            log_probs = logits.float().log_softmax(dim=-1)
            total += float(-(log_probs.exp() * log_probs).sum())
        count += int(inside.sum())
    return total / count
