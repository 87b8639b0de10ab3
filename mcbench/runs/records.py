"""Records wherever they lie: run directories, compact files, and folders of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mcbench.errors import UserError
from mcbench.runs.compact import read_compact
from mcbench.runs.store import RunRecord, RunStore, read_run


def read_record(path: str | Path) -> RunRecord:
    """A run directory or a compact file, whichever ``path`` is."""
    return read_run(path) if Path(path).is_dir() else read_compact(path)


def read_records(*paths: str | Path) -> list[RunRecord]:
    """The records at paths; a folder stands for all run directories and compact files in it.

    Raises:
        UserError: a path with nothing at it, or a folder that holds none.
    """
    return [read_record(one) for path in paths for one in records_at(Path(path))]


def finished_records(*folders: str | Path) -> Iterator[RunRecord]:
    """The finished runs and the compact records in folders, which may be missing."""
    for folder in folders:
        yield from (read_run(run.path) for run in RunStore(folder) if run.state == "finished")
        yield from map(read_compact, sorted(Path(folder).glob("*.parquet")))


def records_at(path: Path) -> list[Path]:
    """The files and run directories that `read_records` reads there."""
    if not path.exists():
        raise UserError(f"no run or record at {path}")
    if path.is_file() or (path / "run.json").exists():
        return [path]
    found = sorted([*(p.parent for p in path.glob("*/run.json")), *path.glob("*.parquet")])
    if not found:
        raise UserError(f"folder {path} holds no run and no compact record")
    return found
