"""Problem records on disk: parquet shards, written in one step and known by their hash."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mcbench.data.schema import RECORD_VERSION, ProblemRecord
from mcbench.errors import UserError

_NUMBERS = ("time_limit_s", "memory_limit_mb", "difficulty_score", "pass_rate", "test_strength")
_LISTS = ("tags", "references", "flags")
_LONG = ("statement", "tests", "metadata")  # may pass 2 GiB in a column


def _type_of(name: str) -> pa.DataType:
    if name in _NUMBERS:
        return pa.float64()
    if name in _LISTS:
        return pa.list_(pa.large_string() if name == "references" else pa.string())
    return pa.large_string() if name in _LONG else pa.string()


SCHEMA = pa.schema(
    [pa.field(f.name, _type_of(f.name)) for f in fields(ProblemRecord)],
    metadata={"mcbench_record_version": str(RECORD_VERSION)},
)


def digest(parts: Iterable[bytes | str]) -> str:
    """Content hash of the parts in order, 20 hexadecimal digits."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha.hexdigest()[:20]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_writable(folder: Path, what: str) -> None:
    """Make a folder and refuse one that cannot be written to.

    Raises:
        UserError: it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{what} {folder} cannot be written to: {error.strerror}") from None


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace ``path`` in one step: a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data.encode() if isinstance(data, str) else data)
    temporary.replace(path)


def write_table(path: Path, table: pa.Table) -> None:
    """Replace ``path`` in one step with a parquet file; equal tables give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)


def to_table(records: Sequence[ProblemRecord]) -> pa.Table:
    """Records as an arrow table in `SCHEMA`."""
    return pa.Table.from_pylist([record.to_row() for record in records], schema=SCHEMA)


def write_records(path: Path, records: Sequence[ProblemRecord]) -> None:
    """Write one shard."""
    write_table(path, to_table(records))


def read_records(path: Path) -> list[ProblemRecord]:
    """The records of one shard.

    Raises:
        UserError: the file is no parquet file, or of another layout than `SCHEMA`.
    """
    return [ProblemRecord.from_row(row) for row in _rows(path)]


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as parquet: {error}") from None
    found = (table.schema.metadata or {}).get(b"mcbench_record_version", b"none").decode()
    if found != str(RECORD_VERSION):
        raise UserError(
            f"{path} holds no problem records of version {RECORD_VERSION} (found: {found}); "
            "build the set again with this version of mcbench"
        )
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def dataset_shards(folder: Path) -> list[Path]:
    """The shards of a built data set, in order.

    Raises:
        UserError: the folder holds none.
    """
    shards = sorted((folder / "data").glob("train-*.parquet"))
    if not shards:
        raise UserError(f"{folder} holds no built data set: there is no data/train-*.parquet")
    return shards


def iter_dataset(folder: Path) -> Iterator[ProblemRecord]:
    """The records of a built data set, one shard in memory at a time."""
    for shard in dataset_shards(folder):
        yield from read_records(shard)
