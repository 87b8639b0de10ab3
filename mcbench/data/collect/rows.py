"""Rows of published files, one at a time: JSON (lines, also gzip, or an array), parquet, arrow.

A broken line costs that line; a file that breaks off costs what comes after, and says so once.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from mcbench.data.audit import shorten
from mcbench.data.collect.decode import MB, ROW_MB, UNPACKED_MB, Unusable, check_values, type_name
from mcbench.errors import UserError

_TABLES = (".parquet", ".arrow")
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", *_TABLES)
_ROWS_TO_JUDGE = 20  # a broken first row must not condemn a file
_BATCH_ROWS = 8  # of a parquet file; a row of tests may have many megabytes


@dataclass(frozen=True)
class Row:
    """A row of a file: its data, or why it cannot be read; ``where`` names it for people."""

    where: str
    data: dict[str, Any] | Unusable


class Disappeared(Exception):
    """A source ended before its end: the rest of it is missing, what was read is sound."""


def read_rows(path: Path, columns: Sequence[str] | None) -> Iterator[Row]:
    """The rows of a file, or the packages of a folder, in their order.

    Args:
        columns: which columns of a parquet or arrow file to read, None for all; those that it lacks
            are left out. Rows of JSON come whole.

    Raises:
        UserError: a kind of file that is not read.
        Disappeared: the file ends in the middle, is damaged from here on, or is gone.
    """
    name = path.name
    try:
        if path.is_dir():
            yield from _packages(path)
        elif name.endswith(_TABLES):
            yield from _table_rows(path, columns)
        elif name.endswith((".jsonl", ".jsonl.gz")):
            with gzip.open(path) if name.endswith(".gz") else path.open("rb") as file:
                yield from _json_lines(file, name)
        elif name.endswith(".json"):
            yield from _json_array(path)
        else:
            raise UserError(f"{path} is of no kind that is read; allowed: {', '.join(SUFFIXES)}")
    except (OSError, EOFError, zlib.error) as error:
        raise Disappeared(f"{name} breaks off ({shorten(str(error)) or 'unreadable'})") from error


def check_columns(path: Path, needed: Sequence[str], source: str, hint: str) -> None:
    """Check that a file has its columns; of "a|b" any one will do.

    Rows of JSON may differ: they are read until all that is needed was seen, or for a few rows.

    Raises:
        UserError: names the missing column, what was found and what to do.
    """
    found: set[str] = set()
    missing = list(needed)
    rows = (row.data for row in read_rows(path, None) if isinstance(row.data, dict))
    known: Iterable[Iterable[str]] = islice(rows, _ROWS_TO_JUDGE)
    for columns in [_schema(path)] if path.name.endswith(_TABLES) else known:
        found |= set(columns)
        missing = [names for names in needed if not found & set(names.split("|"))]
        if not missing:
            return
    if not found:
        raise UserError(f"{source} holds no readable row; is it the right file?")
    column, shown = missing[0].replace("|", " or "), ", ".join(sorted(found))
    raise UserError(f"{source} has no column {column}; found: {shown}. {hint}")


def _packages(folder: Path) -> Iterator[Row]:
    """The problem packages below a folder, also behind links, in the order of their paths."""
    for package in sorted(package_folders(folder)):
        name = package.relative_to(folder).as_posix()
        yield Row(f"package {name}", {"folder": package, "name": name, "root": folder})


def package_folders(folder: Path) -> Iterator[Path]:
    """The folders with a problem.yaml; one that several links lead to counts once."""
    seen: set[Path] = set()
    for name, below, files in os.walk(folder, followlinks=True):
        here = Path(name).resolve()
        if here in seen:
            below.clear()
            continue
        seen.add(here)
        below.sort()
        if "problem.yaml" in files and (Path(name) / "problem.yaml").is_file():
            yield Path(name)


def _json_lines(file: BinaryIO | gzip.GzipFile, name: str) -> Iterator[Row]:
    limit_mb = UNPACKED_MB if isinstance(file, gzip.GzipFile) else ROW_MB
    limit = int(limit_mb * MB)
    for number, line in enumerate(iter(lambda: file.readline(limit + 1), b""), start=1):
        where = f"line {number} of {name}"
        if len(line) > limit and not line.endswith(b"\n"):
            yield Row(where, Unusable(f"the line has more than {limit_mb:g} MB", "oversized"))
            while piece := file.readline(min(limit, MB)):  # to its end, not kept
                if piece.endswith(b"\n"):
                    break
        elif line.strip():
            yield Row(where, _parsed(line, limit_mb < ROW_MB))


def _parsed(line: bytes, unpacked: bool) -> dict[str, Any] | Unusable:
    try:
        if unpacked and len(line) > MB:
            check_values(line.decode("utf-8", "replace"), "the line")
        return _object(json.loads(line))
    except Unusable as refused:
        return refused
    except (ValueError, RecursionError) as error:
        return Unusable(f"not JSON ({shorten(str(error))})")


def _object(data: Any) -> dict[str, Any] | Unusable:
    if isinstance(data, dict):
        return data
    return Unusable(f"holds {type_name(data)}, not an object")


def _json_array(path: Path) -> Iterator[Row]:
    """A file with one JSON array; it is parsed as a whole, so :data:`ROW_MB` bounds the file."""
    if path.stat().st_size > ROW_MB * MB:
        raise UserError(
            f"{path} has more than {ROW_MB:g} MB and is parsed as a whole; "
            "convert it to one object a line (.jsonl)"
        )
    try:
        items = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Disappeared(f"{path.name} is not JSON ({shorten(str(error))})") from error
    if not isinstance(items, list):
        raise UserError(f"{path} holds {type_name(items)}; a list of objects is needed")
    for number, item in enumerate(items, start=1):
        yield Row(f"item {number} of {path.name}", _object(item))


def _schema(path: Path) -> list[str]:
    try:
        if path.name.endswith(".parquet"):
            return list(pq.read_schema(path).names)
        with path.open("rb") as stream:
            return list(pa.ipc.open_stream(stream).schema.names)
    except pa.ArrowException as error:
        raise Disappeared(f"{path.name} is damaged ({shorten(str(error))})") from error


def _table_rows(path: Path, columns: Sequence[str] | None) -> Iterator[Row]:
    number = 0
    try:
        for batch in _batches(path, columns):
            for data in batch if isinstance(batch, list) else _one_by_one(batch):
                number += 1
                yield Row(f"row {number} of {path.name}", data)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise Disappeared(
            f"{path.name} is damaged after row {number} ({shorten(str(error))})"
        ) from error


def _one_by_one(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for index in range(batch.num_rows):
        yield from batch.slice(index, 1).to_pylist()


def _batches(
    path: Path, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch | list[Unusable]]:
    """Batches of a parquet file, or of what `datasets` writes with save_to_disk.

    What a group of rows unpacks to stands in the file, and is looked at before it is. (A file that
    lies is held by the format: no page has more than 2 GiB.)
    """
    chosen = [name for name in _schema(path) if columns is None or name in columns]
    if path.name.endswith(".arrow"):
        with path.open("rb") as stream:
            for batch in pa.ipc.open_stream(stream):
                yield batch.select(chosen)
        return
    with pq.ParquetFile(path, buffer_size=MB, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            told = file.metadata.row_group(group)
            parts = [told.column(i) for i in range(told.num_columns)]
            own = [one for one in parts if one.path_in_schema.partition(".")[0] in chosen]
            size = sum(one.total_uncompressed_size for one in own) / MB / max(1, told.num_rows)
            if size > UNPACKED_MB:
                size_told = f"{size:.1f} MB a row, more than {UNPACKED_MB:g} MB"
                detail = f"its group of rows unpacks to {size_told}"
                yield [Unusable(detail, "oversized") for _ in range(told.num_rows)]
                continue
            yield from file.iter_batches(
                _BATCH_ROWS, row_groups=[group], columns=chosen, use_threads=False
            )
