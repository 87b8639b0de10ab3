"""The pretrained base model before any training: what ``docs/protocol.md`` fixes for its gate.

    for T in 0.4 0.6 0.8 1 1.2; do
        mcbench evaluate smollm2-135m --test-set easy:train --attempts 8 --temperature $T \\
            --lengths 48,64,80,96,128,192 --folder base/train-$T
    done
    python -m benchmarks.pretrained gate base/train-*

``gate`` prints pass@1, the share of mixed groups and of cut answers at every temperature and limit,
and which pair the profile gets. ``record`` writes what the page shows: the same by family
(``base.parquet``), and ``JUDGED`` answers, evenly spread, each judged by our rules, by
LiveCodeBench's and by its whole method (``base_answers.parquet``). ``form`` reads the folders of
trained runs, with all their responses (``form.parquet``).
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.published import ProcessPerSample
from mcbench.data.schema import Problem
from mcbench.evaluator import CallTest, Evaluator, Submission, extract_code
from mcbench.experiments.experiments import planned_runs
from mcbench.runs.store import read_run
from mcbench.worlds.easy import load_easy

PASS, MIXED, CUT = (0.15, 0.60), (0.5, 1.0), (0.15, 0.35)
LIMITS = (48, 64, 80, 96, 128)
KEPT = (0.7, 96)
"""Temperature and limit where no pair meets the gate."""
JUDGED = 1500


def answers(folders: Sequence[Path]) -> pd.DataFrame:
    """A row for every answer, temperature and limit of the folders of evaluations: whether it was
    ``cut`` there, and ``passed``.
    """
    return pd.DataFrame([row for folder in folders for row in _answers(folder)])


def _answers(folder: Path) -> Iterator[dict[str, Any]]:
    about = json.loads((folder / "evaluation.json").read_text())
    for chunk in sorted(folder.glob("samples/*.jsonl")):
        for problem in map(json.loads, chunk.read_text().splitlines()):
            for number, one in enumerate(problem["attempts"]):
                for limit, verdict in one["verdicts"].items():
                    length = one["tokens"]
                    yield {
                        "split": about["test_set"].partition(":")[2],
                        "temperature": about["temperature"],
                        "limit": int(limit),
                        "problem": problem["id"],
                        "family": problem["id"].split("/")[1],
                        "attempt": number,
                        "text": one["text"],
                        "length": min(length, int(limit)),
                        "cut": length > int(limit) or (length == int(limit) and not one["ended"]),
                        "passed": {*verdict.split(",")} == {"AC"},
                        "distinct_4": problem["distinct_4"][limit],
                    }


def conditions(rows: pd.DataFrame) -> pd.DataFrame:
    """By temperature and limit: the three shares of the gate, Distinct-4 and length."""
    groups = rows.groupby(["temperature", "limit", "problem"])
    of_group = groups.agg(
        passed=("passed", "mean"),
        cut=("cut", "mean"),
        distinct_4=("distinct_4", "first"),
        length=("length", "mean"),
    )
    of_group["mixed"] = of_group.passed.between(0, 1, inclusive="neither")
    return of_group.groupby(["temperature", "limit"]).mean().reset_index()


def gate(table: pd.DataFrame) -> tuple[bool, float, int]:
    """Whether a pair meets the gate, and the temperature and limit that the profile gets."""
    good = table[
        table.limit.isin(LIMITS)
        & table.passed.between(*PASS)
        & table.mixed.between(*MIXED)
        & table.cut.between(*CUT)
    ]
    if good.empty:
        return False, *KEPT
    best = good.loc[good.mixed.idxmax()]
    return True, float(best.temperature), int(best.limit)


def by_family(rows: pd.DataFrame) -> pd.DataFrame:
    """By split, temperature, limit and family; ``answers`` and ``groups`` are counts."""
    keys = ["split", "temperature", "limit", "family"]
    groups = rows.groupby([*keys, "problem"]).agg(
        answers=("passed", "size"),
        passed=("passed", "sum"),
        cut=("cut", "sum"),
        tokens=("length", "sum"),
        distinct_4=("distinct_4", "first"),
    )
    groups["mixed"] = (groups.passed > 0) & (groups.passed < groups.answers)
    groups["groups"] = 1
    return groups.groupby(keys).sum().reset_index()


def call_tests(problem: Problem) -> list[CallTest]:
    """The assert statements of an easy problem as calls with arguments and expected values."""
    tests = []
    for line in (line for test in problem.tests for line in test["code"].splitlines()):
        (statement,) = ast.parse(line).body
        assert isinstance(statement, ast.Assert)
        assert isinstance(statement.test, ast.Compare)
        call, expected = statement.test.left, statement.test.comparators[0]
        assert isinstance(call, ast.Call)
        arguments = [ast.literal_eval(one) for one in call.args]
        tests.append(CallTest(problem.fn_name, arguments, ast.literal_eval(expected)))
    return tests


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Answers, evenly spread over temperatures and problems, with the verdict of each judge."""
    longest = rows[rows.limit == rows.limit.max()].reset_index(drop=True)
    chosen = longest.iloc[[i * len(longest) // JUDGED for i in range(JUDGED)]].copy()
    problems = {one.id: one for split in ("train", "test") for one in load_easy(split)}
    asked = [
        Submission(extract_code(text) or "", call_tests(problems[problem]))
        for text, problem in zip(chosen.text, chosen.problem, strict=True)
    ]
    judges = {
        "ours": Evaluator(),
        "livecodebench_rules": Evaluator(rules="livecodebench"),
        "livecodebench": ProcessPerSample(),
    }
    for name, judge in judges.items():
        with judge as evaluator:
            results = evaluator.evaluate(asked, early_exit=True)
        chosen[name] = [result.passed for result in results]
        chosen[f"{name}_told"] = [result.tests[-1].verdict for result in results]
        print(name, chosen[name].mean(), flush=True)
    return chosen.drop(columns=["limit", "distinct_4"])


def form(folders: Sequence[Path]) -> pd.DataFrame:
    """By arm and quarter of the training: the shares (percent) of responses that hold a program of
    the name asked for, that pass, and that pass among the former.
    """
    arms = {one.config.run_id: one.arm for one in planned_runs("pretrained")}
    names = {one.id: one.fn_name for split in ("train", "test") for one in load_easy(split)}
    rows = []
    for record in (read_run(folder) for folder in folders if folder.name in arms):
        for step in record.completion_steps():
            found = record.completions(step)
            asked = [rf"def {names[problem]}\(" for problem in found["problem_id"]]
            programs = [extract_code(text) or "" for text in found["completion"]]
            named = [bool(re.search(*one)) for one in zip(asked, programs, strict=True)]
            rows.append(
                pd.DataFrame(
                    {
                        "arm": arms[record.run_id],
                        "quarter": 1 + 4 * (step - 1) // record.config.steps,
                        "named": named,
                        "right": found["reward"] >= 1,
                    }
                )
            )
    every = pd.concat(rows)
    shares = 100 * every.groupby(["arm", "quarter"]).mean()
    shares["right where named"] = 100 * every[every.named].groupby(["arm", "quarter"]).right.mean()
    return shares.reset_index()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=["gate", "record", "form"])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, help="a JSON file; of record a folder")
    options = parser.parse_args()
    if options.part == "form":
        form(options.folders).to_parquet(options.output / "form.parquet")
        return
    rows = answers(options.folders)
    if options.part == "record":
        by_family(rows).to_parquet(options.output / "base.parquet")
        judged(rows).to_parquet(options.output / "base_answers.parquet", compression="zstd")
        return
    table = conditions(rows)
    print(table.round(3).to_string(index=False))
    met, temperature, limit = gate(table)
    print(f"gate {'met' if met else 'not met'}: temperature {temperature:g}, limit {limit}")
    if options.output:
        options.output.write_text(
            json.dumps({"met": met, "temperature": temperature, "limit": limit})
        )


if __name__ == "__main__":
    main()
