"""Measurements that claims need beside the run records, and the files they are kept in.

One JSON line a measurement, in ``measurements.jsonl`` beside the compact records. Three kinds:

``temperature_grid`` (T1, T2): a checkpoint sampled at one temperature.
    experiment, run_id, seed, step, temperature, distinct_4 (share), accuracy (pass@1, share)
``labelled_solution`` (E1): one labelled solution judged under one set of rules.
    rules, case, group, right (is it?), accepted (by the rules?); of the judges, of no experiment
``repetition``: truncated responses that repeat themselves, in a span of a run's steps up to one.
    experiment, run_id, seed, step, responses, truncated, window, periodic (counts)

The second kind is also read from the labelled suite's own record, where that lies in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.errors import UserError, unknown
from mcbench.files import read_lines, unpack_json, write_atomic

if TYPE_CHECKING:
    import pandas as pd

FILE = "measurements.jsonl"
SUITE_FILE = "labelled_suite.json.gz"
"""The record that ``benchmarks/labelled.py`` makes, beside the runs'."""
GRID = "temperature_grid"
SUITE = "labelled_solution"
REPETITION = "repetition"
_RUN: dict[str, Any] = {"experiment": str, "run_id": str, "seed": int, "step": int}
COLUMNS: dict[str, dict[str, type | tuple[type, ...]]] = {
    GRID: {**_RUN, **dict.fromkeys(("temperature", "distinct_4", "accuracy"), (int, float))},
    SUITE: {
        **dict.fromkeys(("rules", "case", "group"), str),
        **dict.fromkeys(("right", "accepted"), bool),
    },
    REPETITION: {
        **_RUN,
        **dict.fromkeys(("responses", "truncated", "window", "periodic"), int),
    },
}
Measurements = Sequence[Mapping[str, Any]]


def check_measurement(row: Mapping[str, Any]) -> None:
    """Refuse a row that misses a column of its kind or has a value of another type.

    Raises:
        UserError: the message names the column.
    """
    kind = row.get("kind")
    if kind not in COLUMNS:
        raise unknown("kind of measurement", kind, COLUMNS)
    for name, wanted in COLUMNS[kind].items():
        value = row.get(name)
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise UserError(f"a {kind} measurement needs {name}, got {value!r}")


def add_measurements(rows: Iterable[Mapping[str, Any]], path: str | Path) -> Path:
    """Add rows to a file, also to what others have added since it was read. It is kept sorted, so
    that equal measurements give equal bytes.

    Raises:
        UserError: a row that :func:`check_measurement` refuses.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()
    for row in rows:
        check_measurement(row)
        lines.add(json.dumps(row, sort_keys=True))
    write_atomic(path, "".join(f"{line}\n" for line in sorted(lines)))
    return path


def read_measurements(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a file, or of a folder's ``measurements.jsonl`` and labelled suite; none where
    there is no file.

    Raises:
        UserError: a row that :func:`check_measurement` refuses, or a suite's record that is none.
    """
    path = Path(path)
    rows = read_lines(path / FILE if path.is_dir() else path)
    if (path / SUITE_FILE).exists():
        rows += read_suite(path / SUITE_FILE)
    for row in rows:
        check_measurement(row)
    return rows


def read_suite(path: Path) -> list[dict[str, Any]]:
    """The labelled suite's own record: a row a judge and case that it was given, the first judge's
    first; ``part`` says of which part of the suite a case is.

    Raises:
        UserError: no such file, or it is no record of the suite.
    """
    try:
        found = unpack_json(path)
        return [
            {
                "kind": SUITE,
                "rules": judge,
                "part": part,
                "case": f"{part}/{name}",
                "group": group,
                "right": right,
                "accepted": marks[place],
            }
            for place, judge in enumerate(found["judges"])
            for part, group, name, right, marks in found["cases"]
            if marks[place] is not None
        ]
    except OSError as error:
        raise UserError(f"suite record {path} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path} is no record of the labelled suite: {error}") from error


def table_of(rows: Measurements, kind: str, experiment: str) -> pd.DataFrame:
    """The rows of one kind that are of an experiment, or of none.

    Raises:
        UserError: there are none.
    """
    import pandas as pd

    of = (None, experiment)
    found = [row for row in rows if row["kind"] == kind and row.get("experiment") in of]
    if not found:
        raise UserError(f"no {kind} measurements of experiment {experiment}")
    return pd.DataFrame(found)
