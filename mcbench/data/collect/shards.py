"""Sources as shards of the pipeline's cache: written in one step, continued after a kill."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq

from mcbench.data.audit import Ledger
from mcbench.data.collect.decode import MB
from mcbench.data.collect.source import Item, OpenSource, Source, first_only
from mcbench.data.pipeline import Outcome, Shard, code_of_stages, load_shard, store_shard
from mcbench.data.schema import Problem, Rejected
from mcbench.errors import UserError
from mcbench.files import digest

STAGE = "collect"
# A shard ends at either: a build that was killed verifies at most so many problems again, and where
# tests are large memory is bounded.
ROWS, TEXT_MB = 128, 16
_LARGEST_MB = 64  # of a problem in memory


def collect(sources: Sequence[Source], cache: Path, *, progress: bool = False) -> list[Shard]:
    """Read the sources into shards under ``cache``/collect, in order.

    Killed at any point, it goes on after the last whole shard and ends in the same bytes: a
    finished source is not read again, and of another the rows before are only skipped over. A
    source that lacks a column or ends early costs what it lacks: one entry in the audit log says
    so, and the others are read.

    Raises:
        UserError: a source is not there at all, before any is read.
    """
    opened = [OpenSource(source) for source in sources]
    seen: defaultdict[str, set[str]] = defaultdict(set)
    return [
        shard
        for source in opened
        for shard in _shards(source, cache, seen[source.adapter.name], progress)
    ]


def collect_pool(pool: Iterable[Problem], cache: Path) -> list[Shard]:
    """Shards of problems in memory or generated, known by their content.

    A problem whose id came before, or that is larger than a shard may be, is dropped.
    """
    seen: set[str] = set()
    items = (Item(first_only(_fitting(problem), seen, "pool")) for problem in pool)
    shards = []
    for number, (batch, _) in enumerate(batches(items, ROWS, TEXT_MB)):
        if batch:
            contents = (json.dumps(asdict(item.value), sort_keys=True) for item in batch)
            base = cache / STAGE / digest(["pool", str(number), *contents])
            shards.append(load_shard(base) or store_shard(base, *_outcome(batch)))
    return shards


def _fitting(problem: Problem) -> Problem | Rejected:
    if (size := _size(problem)) <= _LARGEST_MB * MB:
        return problem
    detail = f"{size // MB} MiB of statement and tests, more than {_LARGEST_MB}"
    return Rejected(problem.id, "too_large", detail)


def batches(
    items: Iterable[Item], rows: int, megabytes: float
) -> Iterator[tuple[list[Item], bool]]:
    """Lists of ``rows`` items, or fewer whose text reaches ``megabytes``, and whether it is the
    last, which may be empty."""
    batch: list[Item] = []
    text = 0
    for item in items:
        batch.append(item)
        text += _size(item.value)
        if len(batch) >= rows or text >= megabytes * MB:
            yield batch, False
            batch, text = [], 0
    yield batch, True


def _size(value: Problem | Rejected) -> int:
    """Characters of the statement and the tests, about."""
    if isinstance(value, Rejected):
        return 0
    parts = (part for test in value.tests for part in test.values())
    texts = (part if isinstance(part, str) else json.dumps(part) for part in parts)
    return len(value.statement) + sum(map(len, texts))


def _outcome(batch: Iterable[Item]) -> Outcome:
    """The problems of a batch, and the log of what was refused or lost tests."""
    problems: list[Problem] = []
    ledger = Ledger(STAGE)
    for value in (item.value for item in batch):
        if isinstance(value, Rejected):
            ledger.reject(value.id, value.rule, value.detail)
            continue
        problems.append(value)
        for left_out in value.metadata.get("tests_left_out", ()):
            ledger.flag(value, "tests_left_out", left_out)
    return problems, ledger.entries


def _shards(source: OpenSource, cache: Path, seen: set[str], progress: bool) -> Iterator[Shard]:
    """The shards of one source; ``seen`` are the ids that sources before it took."""
    base = cache / STAGE / digest([code_of_stages(), source.identity, *sorted(seen)])
    number = start = 0
    while shard := load_shard(base / f"{number:05}"):
        seen.update(pq.read_table(shard.path, columns=["id"])["id"].to_pylist())
        yield shard
        if shard.after is None:
            return
        number, start = number + 1, shard.after
    for batch, is_last in batches(_items(source, start, seen, progress), ROWS, TEXT_MB):
        after = None if is_last else batch[-1].after
        yield store_shard(base / f"{number:05}", *_outcome(batch), after)
        if is_last and not source.source.path and _is_cut(batch[-1]):
            # What could not be fetched may be there the next time, under the same identity.
            (base / f"{number:05}").with_suffix(".json").unlink()
        if after is None:
            return
        number += 1
        del batch  # before the next one is read


def _is_cut(item: Item) -> bool:
    return isinstance(item.value, Rejected) and item.value.rule == "source_disappeared"


def _items(source: OpenSource, start: int, seen: set[str], progress: bool) -> Iterator[Item]:
    """The source's items, the last one a rejection where the source itself is at fault."""
    try:
        yield from source.items(start, seen, progress=progress)
    except UserError as error:
        yield Item(Rejected(source.label, "source_unreadable", str(error)))
