"""Sources as shards of the pipeline's cache: written in one step, continued after a kill."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from mcbench.data.audit import Ledger
from mcbench.data.collect.decode import Limits
from mcbench.data.collect.source import OpenSource, Position, Source, first_only, with_progress
from mcbench.data.pipeline import Shard, code_version, load_shard, store_shard
from mcbench.data.schema import ProblemRecord, Rejected
from mcbench.data.storage import digest, write_atomic
from mcbench.errors import UserError

STAGE = "collect"
ROWS, TEXT_MB = 1000, 64  # a shard ends at either; the second bounds memory where tests are large

_MODULES = tuple(
    f"mcbench.data.collect.{name}"
    for name in (
        "adapter", "apps", "decode", "deepcoder", "files", "functions", "livecodebench", "mapping",
        "open_r1", "problem_package", "rows", "source", "taco",
    )
)  # fmt: skip


@dataclass
class _Shard:
    """The records and log entries of the shard that is being filled."""

    records: list[ProblemRecord] = field(default_factory=list)
    ledger: Ledger = field(default_factory=lambda: Ledger(STAGE))
    text: int = 0

    def add(self, value: ProblemRecord | Rejected) -> None:
        if isinstance(value, Rejected):
            self.ledger.reject(value.id, value.rule, value.detail)
            return
        self.records.append(value)
        self.text += len(value.statement) + sum(map(_size, value.tests))
        for left_out in value.metadata.get("tests_left_out", ()):
            self.ledger.flag(value, "tests_left_out", left_out)

    @property
    def full(self) -> bool:
        entries = len(self.records) + len(self.ledger.entries)
        return entries >= ROWS or self.text >= TEXT_MB * 1024 * 1024


def _size(test: dict[str, object]) -> int:
    return sum(len(v) if isinstance(v, str) else len(json.dumps(v)) for v in test.values())


def collect(
    sources: Sequence[Source],
    cache: Path,
    limits: Limits | None = None,
    *,
    progress: bool = False,
) -> list[Shard]:
    """Read the sources into shards under ``cache``/collect, in order.

    Shards that are there already are not read again; killed at any point, it goes on after the last
    whole shard and ends in the same bytes. A source that lacks a column or ends early costs what it
    lacks: one entry in the audit log says so, and the others are read.

    Raises:
        UserError: a source is not there at all, before any is read.
    """
    opened = [OpenSource(source, limits) for source in sources]
    seen: defaultdict[str, set[str]] = defaultdict(set)
    return [
        shard
        for source in opened
        for shard in _shards(source, cache, seen[source.adapter.name], progress)
    ]


def _shards(source: OpenSource, cache: Path, seen: set[str], progress: bool) -> Iterator[Shard]:
    """The shards of one source; ``seen`` are the ids that sources before it took."""
    version = code_version(_MODULES, ())
    base = cache / STAGE / digest([version, source.identity, *sorted(seen)])
    done, position = _finished(base)
    for shard in done:
        seen.update(pq.read_table(shard.path, columns=["id"])["id"].to_pylist())
        yield shard
    if position is None:
        return
    number, filling = len(done), _Shard()
    for value, after in _values(source, position, seen, progress):
        filling.add(value)
        if filling.full:
            yield _store(base, number, filling, after)
            number, filling = number + 1, _Shard()
    yield _store(base, number, filling, None)


def _values(
    source: OpenSource, start: Position, seen: set[str], progress: bool
) -> Iterator[tuple[ProblemRecord | Rejected, Position]]:
    """The source's items, the last one a rejection where the source itself is at fault."""
    try:
        for item in with_progress(source.items(start), source.label, progress, start.index):
            yield first_only(item.value, seen, source.label), item.after
    except UserError as error:
        yield Rejected(source.label, "source_unreadable", str(error)), start


def _finished(base: Path) -> tuple[list[Shard], Position | None]:
    """The whole shards of a source, and where to go on; None where it is finished."""
    shards: list[Shard] = []
    position: Position | None = Position()
    while position is not None:
        name = _name(base, len(shards))
        shard = load_shard(name)
        try:
            after = json.loads(name.with_suffix(".next.json").read_text())
        except (OSError, ValueError):
            break
        if shard is None:
            break
        shards.append(shard)
        position = None if after is None else Position(**after)
    return shards, position


def _store(base: Path, number: int, filling: _Shard, after: Position | None) -> Shard:
    name = _name(base, number)
    shard = store_shard(name, filling.records, filling.ledger.entries)
    end = json.dumps(asdict(after) if after else None)
    write_atomic(name.with_suffix(".next.json"), end)
    return shard


def _name(base: Path, number: int) -> Path:
    return base / f"{number:05}"
