"""Measurements that claims need beside the run records, and the files they are kept in.

One JSON line a measurement, in ``measurements.jsonl`` beside the compact records. Three kinds:

``temperature_grid`` (T1, T2): a checkpoint sampled at one temperature.
    experiment, run_id, seed, step, temperature, distinct_4 (share), accuracy (pass@1, share)
``labelled_solution`` (E1): one labelled solution judged under one set of rules.
    experiment, rules, case, group, right (is it?), accepted (by the rules?)
``repetition``: truncated responses that repeat themselves, in a span of a run's steps up to one.
    experiment, run_id, seed, step, responses, truncated, window, periodic (counts)

The second kind is also read from the labelled suite's own record, where that lies in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.errors import UserError, unknown
from mcbench.files import read_lines, write_atomic, write_json

if TYPE_CHECKING:
    import pandas as pd

    from mcbench.runs.scores import EvalResult

FILE = "measurements.jsonl"
SUITE_FILE = "labelled_suite.json"
"""The record that ``benchmarks/labelled.py`` makes, beside the runs'."""
METHOD = "livecodebench_method"
"""The suite's judge that is a whole method of execution, not a set of rules."""
GRID = "temperature_grid"
SUITE = "labelled_solution"
REPETITION = "repetition"
_RUN: dict[str, Any] = {"experiment": str, "run_id": str, "seed": int, "step": int}
COLUMNS: dict[str, dict[str, type | tuple[type, ...]]] = {
    GRID: {**_RUN, **dict.fromkeys(("temperature", "distinct_4", "accuracy"), (int, float))},
    SUITE: {
        **dict.fromkeys(("experiment", "rules", "case", "group"), str),
        **dict.fromkeys(("right", "accepted"), bool),
    },
    REPETITION: {
        **_RUN,
        **dict.fromkeys(("responses", "truncated", "window", "periodic"), int),
    },
}
Measurements = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class LabelledCase:
    """A case of the suite: whether it is right, and by judge whether it was accepted."""

    part: str
    group: str
    id: str
    right: bool
    accepted: dict[str, bool]


@dataclass(frozen=True)
class SuiteRecord:
    """All cases under all judges, and the hash of the suite and of the code that judged it."""

    judges: tuple[str, ...]
    cases: tuple[LabelledCase, ...]
    digest: str

    def write(self, path: Path) -> None:
        """Save as JSON; :meth:`read` is the inverse."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(
            path,
            {
                "digest": self.digest,
                "judges": list(self.judges),
                "cases": [
                    [c.part, c.group, c.id, c.right, [c.accepted.get(j) for j in self.judges]]
                    for c in self.cases
                ],
            },
        )

    @classmethod
    def read(cls, path: Path) -> SuiteRecord:
        """Read a saved record.

        Raises:
            UserError: no such file, or it is no record of the suite.
        """
        try:
            data = json.loads(path.read_text())
            judges = tuple(data["judges"])
            cases = []
            for part, group, name, right, marks in data["cases"]:
                pairs = zip(judges, marks, strict=True)
                accepted = {judge: mark for judge, mark in pairs if mark is not None}
                cases.append(LabelledCase(part, group, name, right, accepted))
            return cls(judges, tuple(cases), data["digest"])
        except OSError as error:
            raise UserError(f"suite record {path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no record of the labelled suite: {error}") from error


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
        rows += _judged_solutions(path / SUITE_FILE)
    for row in rows:
        check_measurement(row)
    return rows


def _judged_solutions(path: Path) -> list[dict[str, Any]]:
    """One row a case of the labelled suite and set of rules that judged it."""
    return [
        {
            "kind": SUITE,
            "experiment": "code_evaluator",
            "rules": judge,
            "case": f"{case.part}/{case.id}",
            "group": f"{case.part}: {case.group}",
            "right": case.right,
            "accepted": accepted,
        }
        for case in SuiteRecord.read(path).cases
        for judge, accepted in case.accepted.items()
        if judge != METHOD
    ]


def grid_measurements(
    run_id: str, seed: int, step: int, results: Iterable[EvalResult]
) -> list[dict[str, Any]]:
    """A checkpoint's evaluations at several temperatures (of
    :func:`mcbench.runs.evaluate.evaluate`, at the training length) as rows for T1 and T2.
    """
    return [
        {
            "kind": GRID,
            "experiment": "temperature",
            "run_id": run_id,
            "seed": seed,
            "step": step,
            "temperature": result.temperature,
            "distinct_4": result.distinct_4,
            "accuracy": result.pass_at_1,
        }
        for result in results
    ]


def table_of(rows: Measurements, kind: str, experiment: str) -> pd.DataFrame:
    """The rows of one kind and experiment.

    Raises:
        UserError: there are none.
    """
    import pandas as pd

    found = [row for row in rows if row["kind"] == kind and row["experiment"] == experiment]
    if not found:
        raise UserError(f"no {kind} measurements of experiment {experiment}")
    return pd.DataFrame(found)
