"""Run directories as training would write them, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from report.synthetic import make_record

from mcbench.files import plain
from mcbench.runs.store import Run


def meta(name: str = "a", recipe: str = "microcoder", seed: int = 0, steps: int = 40) -> Any:
    record = make_record(recipe, seed, steps=steps, profile="tiny")
    return {**record.meta, "run_id": name, "state": "running", "ended": None}


def lines(recipe: str = "microcoder", seed: int = 0, steps: int = 40) -> list[dict[str, Any]]:
    """One line a step, half a second apart."""
    record = make_record(recipe, seed, steps=steps)
    return [{**line, "elapsed_s": line["step"] / 2, "time": 1e9} for line in record.step_lines]


def begin(root: Path, name: str = "a", **kind: Any) -> Run:
    """A run that this process trains."""
    run = Run(root / name)
    run.begin(meta(name, **kind))
    return run


def finished(root: Path, name: str, recipe: str, seed: int, steps: int) -> Run:
    run = begin(root, name, recipe=recipe, seed=seed, steps=steps)
    record = make_record(recipe, seed, steps=steps)
    text = "".join(map(_json_line, lines(recipe, seed, steps)))
    (run.path / "steps.jsonl").write_text(text)
    (run.path / "evals.jsonl").write_text("".join(map(_json_line, record.eval_lines)))
    run.finish(2e9)
    return run


def _json_line(record: dict[str, Any]) -> str:
    return json.dumps(plain(record)) + "\n"


HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"


def responses(texts: list[str], group_size: int = 2) -> dict[str, list[Any]]:
    """The columns of one generation: right, wrong, right, ... with a masked one at the end."""
    count = len(texts)
    right = [index % 2 == 0 for index in range(count)]
    return {
        "prompt": [f"prompt {index // group_size} {HOSTILE}" for index in range(count)],
        "completion": texts,
        "tokens": [[1, 2]] * count,
        "length": [len(text) for text in texts],
        "truncated": [index == count - 1 for index in range(count)],
        "masked": [index == count - 1 for index in range(count)],
        "reward": [float(value) for value in right],
        "advantage": [1.0 if value else -1.0 for value in right],
        "verdicts": ["AC,AC" if value else "AC,WA" for value in right],
        "problem_id": [f"p{index // group_size}" for index in range(count)],
        "group": [index // group_size for index in range(count)],
        "logprobs": [[-0.1, -3.0]] * count,
        "log_ratios": [[0.0, 0.5]] * count,
        "pieces": [[text[:1], text[1:]] for text in texts],
    }
