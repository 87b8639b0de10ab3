"""Calibration of a nano base model: is it a fair test bed, before any recipe is trained on it?

The targets are fixed here, ahead of every ablation, and the measurement is sampled, judged by the
evaluator and reported whether it meets them or not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mcbench.data.prompts import prompt_for
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.files import plain, write_atomic
from mcbench.runs import provenance
from mcbench.runs.config import Config, preset
from mcbench.runs.evaluate import judge, passed
from mcbench.runs.place import committed_records, in_project
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
        rows = [
            (one.name, one.low, one.high, measured[one.name], one.met(measured[one.name]))
            for one in TARGETS
        ]
        return pd.DataFrame(rows, columns=["target", "from", "to", "measured", "met"])


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
        content = plain({**vars(self), "reports": tables})
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
            content["reports"] = [
                CalibrationReport(
                    one["model"], one["limit"], *map(pd.DataFrame, (one["samples"], one["grid"]))
                )
                for one in content["reports"]
            ]
            kinds = {name: tuple(content[name]) for name in ("profiles", "temperatures", "reports")}
            return cls(**content | kinds)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no record of a calibration: {error}") from error


def calibration_record(
    profiles: Sequence[str],
    temperatures: Sequence[float],
    problems: int | None = None,
    seed: int = 0,
    runs_dir: str | Path = "runs",
    use_records: bool = True,
) -> CalibrationRecord:
    """A calibration for a notebook: the committed record where it has these settings, else measured
    now and kept beside the runs.
    """
    for folder in committed_records() if use_records and problems is None else []:
        path = folder / CALIBRATION_FILE
        record = CalibrationRecord.read(path) if path.is_file() else None
        asked = (tuple(profiles), tuple(map(float, temperatures)), seed)
        if record and asked == (record.profiles, record.temperatures, record.seed):
            return record
    reports = [calibrate(name, temperatures, problems, seed) for name in profiles]
    origin = {"versions": provenance.versions(), **provenance.commit()}
    origin["hardware"] = provenance.hardware()
    record = CalibrationRecord(
        tuple(profiles), tuple(temperatures), seed, origin, tuple(reports)
    )  # fmt: skip
    record.write(in_project(runs_dir) / CALIBRATION_FILE)
    return record


def calibrate(
    profile: str | Config = "nano",
    grid: Sequence[float] = GRID,
    problems: int | None = None,
    seed: int = 0,
) -> CalibrationReport:
    """Sample the profile's base model on its test set and measure what ``TARGETS`` ask for.

    Args:
        profile: a configuration or a profile's name.
        grid: temperatures; 1.0 is always measured.
        problems: how many test problems, spread over the set; all where None.

    Raises:
        UserError: an unknown profile or a temperature that is not greater than 0.
    """
    from mcbench.evaluator import Evaluator
    from mcbench.grpo.diversity import distinct_n, grouped
    from mcbench.runs.evaluate import select_problems
    from mcbench.runs.problems import load_problems
    from mcbench.runs.sampling import load_model, prompt_ids, transformers_policy

    if any(not t > 0 for t in grid):
        raise UserError(f"temperatures must be greater than 0, got {list(grid)}")
    chosen = profile if isinstance(profile, Config) else preset(profile)
    length = chosen.max_completion_length
    tasks = select_problems(load_problems(chosen.test_set), problems or chosen.test_limit)
    model, tokenizer = load_model(chosen)
    policy = transformers_policy(model, tokenizer, chosen.eval_batch_size)
    prompts = [prompt_for(task, chosen.prompt_style) for task in tasks]
    asked = [ids for ids in prompt_ids(tokenizer, prompts) for _ in range(ATTEMPTS)]
    rows: list[dict[str, Any]] = []
    samples = pd.DataFrame()
    with Evaluator(workers=chosen.reward_workers) as evaluator:
        for temperature in sorted({*map(float, grid), 1.0}):
            responses = policy.respond(prompts, ATTEMPTS, length, temperature, seed)
            verdicts = judge(evaluator, tasks, {length: policy.texts(responses)}, ATTEMPTS)[length]
            table = _table(tasks, responses, verdicts, policy.ends)
            distinct = distinct_n(grouped(responses, ATTEMPTS))
            rows.append(
                {
                    "temperature": temperature,
                    "pass@1": float(table["passed"].mean()),
                    "entropy": mean_entropy(model, tokenizer, asked, responses, temperature),
                    **{f"distinct_{n}": value for n, value in distinct.items()},
                    "mean length": float(table["length"].mean()),
                    "truncated": float(table["truncated"].mean()),
                }
            )
            print(f"{chosen.model}: T = {temperature:g}, pass@1 {rows[-1]['pass@1']:.3f}")
            if temperature == 1.0:
                samples = table
    return CalibrationReport(chosen.model, length, samples, pd.DataFrame(rows))


def _table(
    tasks: Sequence[Problem],
    responses: Sequence[Sequence[int]],
    verdicts: Sequence[str],
    ends: Collection[int],
) -> pd.DataFrame:
    """``CalibrationReport.samples`` of ``ATTEMPTS`` responses a problem."""
    known = {"problem": "id", "kind": "kind", "form": "form", "difficulty": "difficulty"}
    columns = {
        name: [getattr(task, own) for task in tasks for _ in range(ATTEMPTS)]
        for name, own in known.items()
    }
    return pd.DataFrame(
        {
            **columns,
            "passed": [bool(passed(one)) for one in verdicts],
            "length": [len(ids) for ids in responses],
            "truncated": [ids[-1] not in ends for ids in responses],
        }
    )


def mean_entropy(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[list[int]],
    responses: Sequence[list[int]],
    temperature: float,
) -> float:
    """Mean entropy of softmax(logits / T) over all response tokens, in nats a token."""
    import torch

    total, count, batch_size = 0.0, 0, 128
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
