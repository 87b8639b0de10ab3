"""A built set in the forms that other trainers read, with a card.

Only problems that a comparison of outputs judges go to forms that know nothing else; what a form
cannot say is left out and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from mcbench.data.prompts import prompt_for
from mcbench.data.report import card, numbers_of
from mcbench.data.schema import OPTIONAL, Problem
from mcbench.data.storage import iter_dataset, read_manifest, write_table
from mcbench.errors import UserError, unknown
from mcbench.files import make_writable, write_atomic

Row = dict[str, Any]


def _trl(problem: Problem) -> Row:
    """TRL and `datasets`: a conversation, and the columns that `CodeReward` reads."""
    row = dict.fromkeys(OPTIONAL) | problem.to_row()
    return row | {"prompt": prompt_for(problem, "chat")}


def _verl(problem: Problem) -> Row:
    """verl: its reward gets ``reward_model.ground_truth``, tests as APPS writes them, and
    ``extra_info``.
    """
    key = "args" if problem.form == "call" else "stdin"
    tests: Row = {
        "inputs": [test[key] for test in problem.tests],
        "outputs": [test["expected"] for test in problem.tests],
    }
    if problem.form == "call":
        tests["fn_name"] = problem.fn_name
    return {
        "data_source": problem.source or "mcbench",
        "prompt": prompt_for(problem, "chat"),
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": json.dumps(tests)},
        "extra_info": {
            "index": problem.id,
            "split": "train",
            "difficulty": problem.difficulty,
            "time_limit_s": problem.time_limit_s,
            "memory_limit_mb": problem.memory_limit_mb,
            "preamble": problem.preamble,
        },
    }


def _unsaid(problem: Problem) -> str:
    """What a form with inputs and outputs alone cannot say of a problem; empty where nothing."""
    if problem.form == "assert":
        return "tests are assertions"
    if problem.checker:
        return "a checker judges the answers"
    rules = {"rtol", "atol", "any_order", "result_arg", "space_sensitive"}
    if any(test.get(name) for test in problem.tests for name in rules):
        return "answers have a tolerance, an order, white space or a place of their own"
    if any(test.get("case_sensitive") is not None for test in problem.tests):
        return "answers have a rule of their own on letter case"
    return ""


FORMS: dict[str, Callable[[Problem], Row]] = {"trl": _trl, "verl": _verl}


def export(folder: Path, form: str, out: Path) -> str:
    """Write a built set as ``train.parquet`` and ``README.md`` in ``out``.

    Returns:
        For people: how many problems were written where, and left out for what reason.

    Raises:
        UserError: an unknown form, no finished set, or no problem that the form can hold.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    manifest = read_manifest(folder)
    make_writable(out, "out")
    rows: list[Row] = []
    written: list[dict[str, str]] = []
    left_out: Counter[str] = Counter()
    for problem in iter_dataset(folder):
        # TRL's rows go to our own reward, which knows all.
        if reason := problem.unjudged() or ("" if form == "trl" else _unsaid(problem)):
            left_out[reason] += 1
        else:
            rows.append(FORMS[form](problem))
            written.append({"difficulty": problem.difficulty, "source": problem.source})
    if not rows:
        raise UserError(f"no problem of {folder} can be written as {form}: {dict(left_out)}")
    path = out / "train.parquet"
    write_table(path, pa.Table.from_pylist(rows))
    lines = [f"{number} left out: {reason}" for reason, number in left_out.items()]
    told = "\n".join([f"{len(rows)} problems written to {path}", *lines])
    by = ("difficulty", "source")
    counts = {name: numbers_of(row[name] for row in written) for name in by}
    about = {**manifest, "rows": len(rows), "counts": counts}
    text = card(manifest["name"], manifest["config"]["description"], about, exported=True)
    write_atomic(out / "README.md", f"{text}\nWritten in the form of {form}. {told}\n")
    return told
