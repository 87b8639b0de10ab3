"""Follows run directories that other processes, or this one, are writing.

Only what was appended since the last look is read. A line counts once it ends: half of one waits
for its rest. When a file was replaced (a resumed run drops the lines after its checkpoint) it is
read anew. Nothing is ever written.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mcbench.errors import UserError
from mcbench.files import ProcessLock
from mcbench.report.series import arm_of
from mcbench.runs.compact import read_compact
from mcbench.runs.config import Config
from mcbench.runs.distributions import ADVANTAGE
from mcbench.runs.records import check_meta, evaluation_fault, step_fault
from mcbench.runs.scores import accuracy_by_step
from mcbench.runs.store import Run, RunRecord

_TAIL = 64  # bytes before the place reached that must still be there, or the file is another one
_DISTRIBUTION = ("histogram/", "length/")


def _signature(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class LineFile:
    """A file of JSON lines that grows, or is replaced, or disappears.

    ``damaged`` is the number of the first complete line that is no JSON object, or at ``fault``;
    or None.
    """

    def __init__(self, path: Path, fault: Callable[[Mapping[str, Any]], str]) -> None:
        self.path = path
        self.fault = fault
        self.bytes_read = 0
        self._forget()

    def _forget(self) -> None:
        self._seen: tuple[int, int, int] | None = None
        self._place = 0
        self._tail = b""
        self._lines = 0
        self.damaged: int | None = None

    def read(self) -> tuple[bool, list[dict[str, Any]]]:
        """Whether everything returned before is void, and the new complete lines."""
        seen = _signature(self.path)
        if seen == self._seen:
            return False, []
        if seen is None:
            self._forget()
            return True, []
        try:
            with self.path.open("rb") as file:
                restarted = not self._continues(file, seen)
                if restarted:
                    self._forget()
                file.seek(self._place)
                data = file.read()
        except OSError:  # gone since, or a network folder that is away for a moment
            return False, []
        self.bytes_read += len(data)
        self._seen = seen
        whole = data[: data.rfind(b"\n") + 1]
        self._place += len(whole)
        self._tail = (self._tail + whole)[-_TAIL:]
        return restarted, list(self._parsed(whole))

    def _continues(self, file: Any, seen: tuple[int, int, int]) -> bool:
        """Whether the bytes read so far are still the file's beginning, as far as can be told."""
        if self._seen is None or seen[0] != self._seen[0] or seen[1] < self._place:
            return False
        file.seek(self._place - len(self._tail))
        return bool(file.read(len(self._tail)) == self._tail)

    def _parsed(self, whole: bytes) -> Iterator[dict[str, Any]]:
        for line in whole.splitlines():
            self._lines += 1
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict) and not self.fault(record):
                yield record
            elif self.damaged is None:
                self.damaged = self._lines


class Columns:
    """Numbers of many lines by name, eight bytes each; what a line lacks is NaN."""

    def __init__(self) -> None:
        self.count = 0
        self._columns: dict[str, array[float]] = {}
        self._table: pd.DataFrame | None = None

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a line's numbers; texts and lists are left out."""
        for name, value in record.items():
            if isinstance(value, (int, float)):
                column = self._columns.setdefault(name, array("d"))
                column.extend([math.nan] * (self.count - len(column)))
                column.append(value)
        self.count += 1
        self._table = None

    def newest(self, name: str) -> Iterator[float]:
        """The values of a column, from the newest on."""
        return (v for v in reversed(self._columns.get(name, ())) if not math.isnan(v))

    def last(self, name: str) -> float | None:
        """The newest value of a column, None without one."""
        return next(self.newest(name), None)

    def values(self, name: str) -> np.ndarray:
        """A column, (lines,)."""
        found = np.full(self.count, math.nan)
        column = self._columns.get(name, array("d"))
        found[: len(column)] = np.array(column)
        return found

    @property
    def table(self) -> pd.DataFrame:
        """One row a line."""
        if self._table is None:
            self._table = pd.DataFrame({name: self.values(name) for name in self._columns})
        return self._table


class RunFollower:
    """One run directory, read piece by piece; what the figures take for a record of the run.

    ``meta`` is the last known run.json, or ``planned`` until there is one: what a planned run will
    be. ``present``: there is a run.json now. ``label`` is the name of its arm; where it is empty,
    ``arm`` is named by recipe and settings. ``record`` is a compact record that is read in place
    of the directory as long as there is none.
    """

    def __init__(
        self,
        path: Path,
        planned: Config | None = None,
        label: str = "",
        record: Path | None = None,
    ) -> None:
        self.path = path
        self._stand_in, self._stands_in = record, False
        self.lock = ProcessLock(path / "lock")
        self.label = label
        self.meta: dict[str, Any] = {}
        if planned is not None:
            config = planned.to_dict()
            self._take({"run_id": planned.run_id, "config": config, "seed": planned.seed})
        self.present = False
        self.was_there = False
        self._meta_seen: tuple[int, int, int] | None = None
        self._step_file = LineFile(path / "steps.jsonl", step_fault)
        self._eval_file = LineFile(path / "evals.jsonl", evaluation_fault)
        self._forget_steps()
        self._hold_evals([])

    def _take(self, meta: dict[str, Any]) -> None:
        if meta.get("config") != self.meta.get("config"):
            self.config = Config.from_dict(meta["config"])
        self.meta = meta
        self.arm = self.label or arm_of(self)

    def _forget_steps(self) -> None:
        self.step_columns = Columns()
        self.distributions: dict[int, dict[str, Any]] = {}

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def steps(self) -> pd.DataFrame:
        """One row per update."""
        return self.step_columns.table

    @property
    def evals(self) -> pd.DataFrame:
        """One row per evaluation and length."""
        return self._record.evals

    @property
    def accuracy(self) -> dict[int, float]:
        """pass@1 by update (:func:`mcbench.runs.scores.accuracy_by_step`)."""
        lines = self._record.eval_lines
        return accuracy_by_step(lines, self.config.eval_temperature) if lines else {}

    @property
    def damaged(self) -> str:
        """Which line of which file cannot be read; empty where all can."""
        for file in (self._step_file, self._eval_file):
            if file.damaged is not None:
                return f"line {file.damaged} of {file.path.name} is damaged"
        return ""

    @property
    def bytes_read(self) -> int:
        """Of both files so far."""
        return self._step_file.bytes_read + self._eval_file.bytes_read

    def poll(self) -> bool:
        """Read what is new; whether anything was."""
        if self._stand_in and not (self.path / "run.json").exists():
            return self._read_stand_in(self._stand_in)
        if self._stands_in:  # trained anew
            self._stands_in = False
            self._forget_steps()
            self._hold_evals([])
        changed = self._poll_meta()
        steps_anew, steps = self._step_file.read()
        if steps_anew:
            self._forget_steps()
        self._take_steps(steps)
        evals_anew, evals = self._eval_file.read()
        if evals_anew or evals:
            self._hold_evals([*([] if evals_anew else self._record.eval_lines), *evals])
        return changed or steps_anew or evals_anew or bool(steps or evals)

    def _take_steps(self, lines: Sequence[dict[str, Any]]) -> None:
        for line in lines:
            self.step_columns.append(line)
            if ADVANTAGE in line and "step" in line:
                kept = {k: v for k, v in line.items() if k.startswith(_DISTRIBUTION)}
                self.distributions[int(line["step"])] = kept

    def _hold_evals(self, lines: Sequence[dict[str, Any]]) -> None:
        short = [{n: v for n, v in line.items() if n != "per_problem"} for line in lines]
        self._record = RunRecord({"run_id": self.run_id}, [], short, self.path)

    def _read_stand_in(self, path: Path) -> bool:
        """Read the compact record, once: it does not change."""
        if self._stands_in:
            return False
        record = read_compact(path)
        self._take(record.meta)
        self._take_steps(record.step_lines)
        self.distributions, self._record = record.distributions, record
        self._stands_in = self.present = self.was_there = True
        return True

    def _poll_meta(self) -> bool:
        path = self.path / "run.json"
        seen = _signature(path)
        if seen == self._meta_seen:
            return False
        self._meta_seen = seen
        if seen is None:
            self.present = False
            return True
        try:
            meta = json.loads(path.read_bytes())
            check_meta(meta, path)
            self._take(meta)
        except OSError:  # gone since
            self._meta_seen = None
            return False
        except UserError as error:
            reason = str(error) if str(path) in str(error) else f"{path} is {error}"
        except (ValueError, RecursionError) as error:
            reason = f"{path} is damaged, or no record of a run: {error}"
        else:
            self.present = self.was_there = True
            return True
        # Named once, and not shown: the same file is not read again.
        print(f"left out: {reason}", file=sys.stderr, flush=True)
        return False

    # Responses -----------------------------------------------------------------------------------

    def completion_steps(self) -> list[int]:
        """The updates that began a generation whose responses are stored."""
        return self._record.completion_steps()

    def version_of(self, step: int) -> int | None:
        """Another number once the stored responses have changed, as they do when the last update of
        their generation is made; None where none are stored.
        """
        if self._stands_in:
            return 0 if step in self.completion_steps() else None
        try:
            return Run(self.path).completions_path(step).stat().st_mtime_ns
        except OSError:
            return None

    def completions(self, step: int) -> pd.DataFrame:
        """The responses of the generation that ``step`` began.

        Raises:
            UserError, OSError: they were removed.
        """
        return self._record.completions(step)


Planned = Sequence[tuple[str, Config]]
"""Runs to follow: the name of the arm, empty where none is given, and the configuration."""


class StoreFollower:
    """The runs of a folder, or chosen ones, also those that do not exist yet.

    Args:
        root: a folder of runs, or one run directory.
        planned: the runs to follow; all runs of the folder where None.
        records: folders of compact records that stand in for runs that are not in the folder.
    """

    def __init__(
        self, root: Path, planned: Planned | None = None, records: Sequence[Path] = ()
    ) -> None:
        single = planned is None and (root / "run.json").exists()
        self.root = root.parent if single else root
        self.all = planned is None and not single
        self.runs = {root.name: RunFollower(root)} if single else {}
        self.records = records
        self.follow(planned or ())

    def follow(self, planned: Planned) -> None:
        """Follow further runs, as they will be or are."""
        for label, config in planned:
            name = config.run_id
            found = (path for one in self.records if (path := one / f"{name}.parquet").exists())
            follower = RunFollower(self.root / name, config, label, next(found, None))
            self.runs.setdefault(name, follower)

    def poll(self) -> bool:
        """Read what is new in all runs; whether anything was."""
        if self.all:
            with contextlib.suppress(OSError):  # there is no such folder yet
                found = {path.name for path in self.root.iterdir()}
                for name in sorted(found - self.runs.keys()):
                    if (self.root / name / "run.json").exists():
                        self.runs[name] = RunFollower(self.root / name)
        changed = [run.poll() for run in self.runs.values()]
        return any(changed)
