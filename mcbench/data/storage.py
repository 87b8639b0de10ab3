"""Problems on disk: parquet shards, written in one step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mcbench.data.schema import JSON_FIELDS, NUMBERS, TEXT_LISTS, Problem
from mcbench.errors import UserError
from mcbench.files import replacing

VERSION = 3
"""Of the columns: a set of another version has to be built again."""
_BATCH_ROWS = 8  # that are decoded at a time
_TYPES = {
    **dict.fromkeys(NUMBERS, pa.float64()),
    **dict.fromkeys(TEXT_LISTS, pa.list_(pa.string())),
    # These may pass 2 GiB in a column.
    **dict.fromkeys(("statement", "tests", "metadata"), pa.large_string()),
    "references": pa.list_(pa.large_string()),
}
SCHEMA = pa.schema(
    [pa.field(f.name, _TYPES.get(f.name, pa.string())) for f in fields(Problem)],
    metadata={"mcbench_record_version": str(VERSION)},
)


def _cell(problem: Problem, name: str) -> Any:
    """A field as its column holds it: tests, dimensions and metadata as JSON text."""
    value = getattr(problem, name)
    if name not in JSON_FIELDS:
        return value
    return json.dumps(value, sort_keys=name != "tests", separators=(",", ":"))


def decode(row: dict[str, Any]) -> Problem:
    """The problem of a row of such columns.

    Raises:
        UserError: a column is missing or unknown, or a value does not fit.
    """
    if missing := sorted(set(SCHEMA.names) - row.keys()):
        raise UserError(f"column {missing[0]!r} is missing; needed: {', '.join(SCHEMA.names)}")
    values = dict(row)
    for name in JSON_FIELDS:
        try:
            values[name] = json.loads(row[name])
        except (TypeError, ValueError) as error:
            raise UserError(f"{row['id']!r}: column {name} is damaged: {error}") from None
    return Problem.from_json(values)


def write_table(path: Path, table: pa.Table) -> None:
    """Replace ``path`` in one step with a parquet file; equal tables give equal bytes."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def write_problems(path: Path, problems: Sequence[Problem]) -> None:
    """Write one shard."""
    columns = [  # one at a time, and never as a list: the tests of a shard have many megabytes
        pa.array((_cell(p, field.name) for p in problems), field.type, size=len(problems))
        for field in SCHEMA
    ]
    write_table(path, pa.Table.from_arrays(columns, schema=SCHEMA))


def read_problems(path: Path) -> list[Problem]:
    """The problems of one shard.

    Raises:
        UserError: the file is no parquet file, or of another layout than `SCHEMA`.
    """
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as parquet: {error}") from None
    found = (table.schema.metadata or {}).get(b"mcbench_record_version", b"none").decode()
    if found != str(VERSION):
        raise UserError(
            f"{path} holds no problems of version {VERSION} (found: {found}); "
            "build the set again with this version of mcbench"
        )
    batches = table.to_batches(max_chunksize=_BATCH_ROWS)
    return [decode(row) for batch in batches for row in batch.to_pylist()]


def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a finished set.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    try:
        manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    except OSError:
        raise UserError(
            f"{out} is no finished data set: manifest.json is missing (was the build interrupted? "
            "the same command resumes it)"
        ) from None
    except ValueError as error:
        raise UserError(f"{out}/manifest.json is damaged: {error}") from None
    return manifest


def dataset_shards(folder: Path) -> list[Path]:
    """The shards of a built data set, in order.

    Raises:
        UserError: the folder holds none.
    """
    shards = sorted((folder / "data").glob("train-*.parquet"))
    if not shards:
        raise UserError(f"{folder} holds no built data set: there is no data/train-*.parquet")
    return shards


def iter_dataset(folder: Path) -> Iterator[Problem]:
    """The problems of a built data set, one shard in memory at a time."""
    for shard in dataset_shards(folder):
        yield from read_problems(shard)
