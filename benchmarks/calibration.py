"""Calibration of nano's base models: are they a fair test bed before any recipe is trained?

    python benchmarks/calibration.py              reports/records/calibration.json.gz
    python benchmarks/calibration.py --profiles tiny --records FOLDER

Notebook 10 shows the record, beside targets that were fixed ahead of every ablation.
"""

import argparse
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcbench.data.prompts import prompt_for
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.files import pack_json
from mcbench.grpo.diversity import distinct_n, grouped
from mcbench.runs import provenance
from mcbench.runs.config import Config, preset
from mcbench.runs.evaluate import judge, passed, select_problems
from mcbench.runs.problems import load_problems
from mcbench.runs.sampling import load_model, prompt_ids, transformers_policy

ATTEMPTS = 8
FILE = "calibration.json.gz"
PROFILES = ("nano", "nano-m", "nano-old", "nano-steady")
TEMPERATURES = (0.2, 0.6, 1.0, 1.4, 1.8)


@dataclass(frozen=True)
class Calibration:
    """What was measured for one base model.

    Attributes:
        limit: the length at which responses are cut, in tokens.
        samples: one row a response at T = 1: problem, kind, form, difficulty, passed, length
            (tokens), truncated.
        grid: one row a temperature: pass@1, entropy (nats a token), Distinct-1..4, mean length,
            share truncated.
    """

    model: str
    limit: int
    samples: pd.DataFrame
    grid: pd.DataFrame

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        tables = {name: getattr(self, name).to_dict("list") for name in ("samples", "grid")}
        return {"model": self.model, "limit": self.limit, **tables}


def calibrate(
    profile: str | Config = "nano",
    grid: Sequence[float] = TEMPERATURES,
    problems: int | None = None,
    seed: int = 0,
) -> Calibration:
    """Sample the profile's base model on its test set, at T = 1 and on a grid of temperatures.

    Args:
        profile: a configuration or a profile's name.
        grid: temperatures; 1.0 is always measured.
        problems: how many test problems, spread over the set; all where None.

    Raises:
        UserError: an unknown profile or a temperature that is not greater than 0.
    """
    if any(not t > 0 for t in grid):
        raise UserError(f"temperatures must be greater than 0, got {list(grid)}")
    chosen = profile if isinstance(profile, Config) else preset(profile)
    length = chosen.max_completion_length
    tasks = select_problems(load_problems(chosen.test_set), problems or chosen.test_limit)
    model, tokenizer = load_model(chosen.model)
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
    return Calibration(chosen.model, length, samples, pd.DataFrame(rows))


def _table(
    tasks: Sequence[Problem],
    responses: Sequence[Sequence[int]],
    verdicts: Sequence[str],
    ends: Collection[int],
) -> pd.DataFrame:
    """``Calibration.samples`` of ``ATTEMPTS`` responses a problem."""
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


def main() -> None:
    """Measure and write the record; equal measurements give equal bytes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profiles", nargs="+", default=PROFILES)
    parser.add_argument("--temperatures", nargs="+", type=float, default=TEMPERATURES)
    parser.add_argument("--problems", type=int, help="so many, spread over the test set")
    parser.add_argument("--seed", type=int, default=0)
    records = Path(__file__).parents[1] / "reports" / "records"
    parser.add_argument("--records", type=Path, default=records, help="where the record is written")
    asked = parser.parse_args()
    made = [calibrate(n, asked.temperatures, asked.problems, asked.seed) for n in asked.profiles]
    origin = {"versions": provenance.versions(), **provenance.commit()}
    origin["hardware"] = provenance.hardware()
    record = {
        "profiles": list(asked.profiles),
        "temperatures": list(asked.temperatures),
        "seed": asked.seed,
        "origin": origin,
        "reports": [one.plain() for one in made],
    }
    asked.records.mkdir(parents=True, exist_ok=True)
    pack_json(asked.records / FILE, record)


if __name__ == "__main__":
    main()
