"""Records wherever they lie: run directories, compact files, and folders of them.

In a folder what is damaged or no record of ours is named in one line and left out; a path that is
named itself must hold one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from operator import le
from pathlib import Path
from types import NoneType
from typing import Any

from mcbench.errors import UserError
from mcbench.grpo.temperature import Choice
from mcbench.runs.compact import OF_PROBLEM, Problems, read_compact
from mcbench.runs.store import RunRecord, read_run


def read_record(path: str | Path) -> RunRecord:
    """A run directory or a compact file, whichever ``path`` is.

    Raises:
        UserError: it is damaged, or no record of ours.
    """
    record = read_run(path) if Path(path).is_dir() else read_compact(path)
    _check(record)
    return record


def read_records(*paths: str | Path) -> list[RunRecord]:
    """The records at paths; a folder stands for all run directories and compact files in it. A run
    that is at several of them counts once, finished where it is so anywhere.

    Raises:
        UserError: a path with nothing at it or no record, or a folder that holds none.
    """
    found: list[RunRecord] = []
    for path in map(Path, paths):
        inside = records_at(path)
        if inside == [path]:
            found.append(read_record(path))
            continue
        usable = [record for one in inside if (record := record_or_none(one)) is not None]
        if not usable:
            raise UserError(f"folder {path} holds no run and no compact record that can be read")
        found += usable
    once: dict[str, RunRecord] = {}
    for one in found:
        if one.run_id not in once or once[one.run_id].state != "finished":
            once[one.run_id] = one
    return list(once.values())


def finished_records(*folders: str | Path) -> Iterator[RunRecord]:
    """The finished runs and the compact records in folders, which may be missing."""
    for folder in folders:
        for record in map(record_or_none, _inside(Path(folder))):
            if record is not None and record.state == "finished":
                yield record


def record_or_none(path: Path) -> RunRecord | None:
    """The record there; None where it is none, which is said, once."""
    try:
        return read_record(path)
    except UserError as error:
        _say(str(error))
        return None


@cache
def _say(reason: str) -> None:
    print(f"left out: {reason}", file=sys.stderr, flush=True)


# What readers take for granted of a line of evals.jsonl, and what where it is there.
_EVALUATION: dict[str, Any] = {
    "step": int,
    "max_completion_length": int,
    "pass_at_1": int | float,
    "mean_length": int | float,
    "per_problem": list | Problems,
}
_TOLD: dict[str, Any] = {"temperature": int | float, "attempts": int, "parts": dict}
# Of run.json, where they are known.
_FACTS: dict[str, Any] = {
    **dict.fromkeys(("versions", "hardware", "processes", "sandbox"), dict),
    **dict.fromkeys(("started", "ended"), int | float),
    **dict.fromkeys(("commit", "diff_hash", "data_hash", "error"), str),
    "resumes": int,
    "resumed": list,
    "temperature_choice": dict,
}


def _check(record: RunRecord) -> None:
    """Refuses what was read and is no record of a run that this version knows."""
    check_meta(record.meta, record.path)
    told = [*map(step_fault, record.step_lines), *map(evaluation_fault, record.eval_lines)]
    if fault := next(filter(None, told), ""):
        raise UserError(f"{record.path} is no record of a run: {fault}")
    try:
        assert record.config
    except UserError as error:
        raise UserError(f"{record.path} is {error}") from error


def step_fault(line: Mapping[str, Any]) -> str:
    """What makes a line of steps.jsonl none of ours; empty where it is one."""
    if not isinstance(line.get("step"), int):
        return "a line has no step"
    if {*map(type, line.values())} <= {int, float, bool, NoneType}:
        return ""
    for name, value in line.items():
        listed = isinstance(value, list) and name.startswith("histogram/")
        if not (listed or isinstance(value, int | float | None)):
            return f"{name} of step {line['step']} is no number"
    return ""


def evaluation_fault(line: Mapping[str, Any]) -> str:
    """The same of a line of evals.jsonl."""
    for name, kind in _EVALUATION.items():
        if not isinstance(line.get(name), kind):
            return f"a line has no {name}"
    for name, kind in _TOLD.items():
        if name in line and not isinstance(line[name], kind):
            return f"{name} of an evaluation is {line[name]!r}"
    if not _are_counts(line["per_problem"]):
        return "an evaluation does not say how often its problems were passed"
    return ""


def _are_counts(rows: Sequence[Any]) -> bool:
    try:
        if isinstance(rows, Problems):
            passes, attempts = rows.passes, rows.attempts
        else:
            passes, attempts = ([row[name] for row in rows] for name in ("passes", "attempts"))
            if not all(row.keys() >= OF_PROBLEM for row in rows):
                return False
        whole = {*map(type, passes), *map(type, attempts)} <= {int}
        return whole and min(passes, default=0) >= 0 and all(map(le, passes, attempts))
    except (AttributeError, TypeError, KeyError):  # no mapping, or not all of the names
        return False


def check_meta(meta: Any, path: Path) -> None:
    """Refuses what a run.json holds that is not a run's."""
    if not isinstance(meta, dict):
        raise UserError(f"{path} is no record of a run: it maps no names to values")
    for name, kind in (("run_id", str), ("seed", int), ("state", str), ("config", dict)):
        if not isinstance(meta.get(name), kind):
            raise UserError(f"{path} is no record of a run: its {name} is missing")
    for name, kind in _FACTS.items():
        if not isinstance(meta.get(name), kind | None):
            raise UserError(f"{path} is no record of a run: its {name} is {meta[name]!r}")
    if choice := meta.get("temperature_choice"):
        try:
            if not {float(t): float(d) for t, d in Choice(**choice).measured.items()}:
                raise ValueError("it measured nothing")
        except (TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{path} is no record of a run: its temperature_choice is none: {error}"
            ) from error


def records_at(path: Path) -> list[Path]:
    """The files and run directories that `read_records` looks at there."""
    if not path.exists():
        raise UserError(f"no run or record at {path}")
    if path.is_file() or (path / "run.json").exists():
        return [path]
    if not (found := _inside(path)):
        raise UserError(f"folder {path} holds no run and no compact record")
    return found


def _inside(folder: Path) -> list[Path]:
    runs = (path.parent for path in folder.glob("*/run.json"))
    return sorted([*runs, *(path for path in folder.glob("*.parquet") if path.is_file())])
