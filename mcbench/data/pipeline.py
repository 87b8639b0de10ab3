"""Running stages over shards: cached by content, resumable, in bounded memory.

A shard is one parquet file of records. What a stage makes of it is kept in the cache under the hash
of the shard's bytes, the stages' code and the stage's configuration, as three files: records, audit
log and, last, a small JSON file with their hashes. Without that last file, or when a hash does not
fit, the work is done again. So a build may be killed anywhere, and what is configured anew repeats
only what depends on it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from mcbench.data import audit
from mcbench.data.audit import Action, AuditEntry, Ledger
from mcbench.data.schema import Problem
from mcbench.data.storage import read_problems, write_problems, write_table
from mcbench.evaluator.isolation import die_with_parent
from mcbench.files import code_version, digest, file_digest, write_atomic

Outcome = tuple[list[Problem], list[AuditEntry]]
Progress = Callable[[str, int, int], None]
"""Called with a stage's name, the shards done and the shards there are."""


@dataclass(frozen=True)
class Stage:
    """One stage: what identifies it.

    Subclasses hold their configuration in fields that JSON can write.
    """

    name: ClassVar[str] = ""
    in_workers: ClassVar[bool] = True  # False: runs in the calling process, one shard at a time

    def configuration(self) -> Any:
        """What else decides the outcome, as JSON; by default ``config``, where there is one."""
        config = getattr(self, "config", None)
        return config and config.model_dump()

    @property
    def key(self) -> str:
        """Hash of code and configuration."""
        configuration = json.dumps(self.configuration(), sort_keys=True)
        return digest([self.name, code_of_stages(), configuration])


@dataclass(frozen=True)
class BatchStage(Stage, ABC):
    """A stage that is a function of a batch."""

    @abstractmethod
    def run(self, batch: list[Problem]) -> Outcome:
        """What the stage makes of a batch."""


@dataclass(frozen=True)
class Decision:
    """What a global stage decided on one record: fields to change, and notes for the log.

    A note is (action, rule, detail); one with "drop" drops the record, one with "flag" flags it.
    """

    notes: tuple[tuple[Action, str, str], ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GlobalStage(Stage, ABC):
    """A stage that has to see all records: summaries of batches, one decision, applied per batch.

    A summary is an arrow table with a column ``id`` and a row per record; all summaries are in
    memory at once, the records are not.
    """

    @abstractmethod
    def summarise(self, batch: list[Problem]) -> pa.Table:
        """What the decision needs to know of a batch."""

    @abstractmethod
    def decide(self, summary: pa.Table) -> dict[str, Decision]:
        """Decisions by record id; a record that is not named is kept as it is."""


@dataclass(frozen=True)
class Shard:
    """A cached shard and what is known of it.

    ``after`` is, of what is read from a source, the rows until its end; None: the source ends.
    """

    path: Path
    sha256: str
    rows: int
    audit: Path
    after: int | None = None


def code_of_stages() -> str:
    """Hash of what decides the outcome of any stage beside its configuration."""
    # Limits of the sandbox are verdicts, and so is what programs and tests run in.
    return digest([platform.python_version(), code_version(("data", "evaluator"), _LIBRARIES)])


_LIBRARIES = (
    "datasketch", "ftfy", "markdownify", "numpy", "pandas", "py3langid", "pyarrow", "pylatexenc",
    "pytest", "scipy",
)  # fmt: skip


class Pipeline:
    """Runs stages over shards. It has to be closed where there are several workers.

    Args:
        cache: the folder that keeps what stages gave.
        workers: processes side by side; 1 runs everything in this one.
        progress: is told of every finished shard.
    """

    def __init__(self, cache: Path, workers: int = 1, progress: Progress | None = None) -> None:
        self.cache = cache
        self.workers = workers
        self.progress = progress or (lambda stage, done, of: None)

    def close(self) -> None:
        """End the workers, if there are any."""
        if "_pool" in vars(self):
            self._pool.shutdown(cancel_futures=True)

    def run(self, stage: Stage, shards: Sequence[Shard]) -> list[Shard]:
        """One stage over all shards, in order; a shard that is in the cache is not computed."""
        decided: list[dict[str, Decision] | None] = [None] * len(shards)
        if isinstance(stage, GlobalStage):
            tables = self._summaries(stage, shards)
            found = stage.decide(pa.concat_tables(tables))
            ids = [table["id"].to_pylist() for table in tables[: len(shards)]]
            decided = [{i: found[i] for i in of_shard if i in found} for of_shard in ids]
        jobs = [(stage, shard, self.cache, d) for shard, d in zip(shards, decided, strict=True)]
        return self._done(stage, stage.name, _work, jobs)

    def summary(self, stage: GlobalStage, shards: Sequence[Shard]) -> pa.Table:
        """What a global stage sees of all shards."""
        return pa.concat_tables(self._summaries(stage, shards))

    def _summaries(self, stage: GlobalStage, shards: Sequence[Shard]) -> list[pa.Table]:
        """One table for each shard, and an empty one where there is none."""
        jobs = [(stage, shard, self.cache) for shard in shards]
        paths = self._done(stage, f"{stage.name}: scan", _summarise, jobs)
        return [pq.read_table(path) for path in paths] or [stage.summarise([])]

    def _done(
        self, stage: Stage, name: str, work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """The results of the jobs, in order."""
        results: Iterator[Any] = starmap(work, jobs)
        if self.workers > 1 and len(jobs) > 1 and stage.in_workers:
            results = self._pool.map(work, *zip(*jobs, strict=True))
        found = []
        for result in results:
            found.append(result)
            self.progress(name, len(found), len(jobs))
        return found

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        """Started when first needed, and kept: starting takes longer than most shards."""
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, _end_with, (os.getpid(),))


def _end_with(parent: int) -> None:
    """Workers of a killed build must not outlive it: nobody would ever read their results."""
    die_with_parent()
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


# One shard --------------------------------------------------------------------------------------


def _work(stage: Stage, shard: Shard, cache: Path, decisions: dict[str, Decision] | None) -> Shard:
    """The stage's outcome on a shard, from the cache or computed."""
    decided = ""
    if decisions is not None:
        decided = json.dumps({i: asdict(d) for i, d in decisions.items()}, sort_keys=True)
    base = cache / stage.name / digest([stage.key, shard.sha256, decided])
    if found := load_shard(base):
        return found
    records = read_problems(shard.path)
    if decisions is not None:
        return store_shard(base, *_apply(stage.name, records, decisions))
    assert isinstance(stage, BatchStage)  # the others have decided
    return store_shard(base, *stage.run(records))


def _apply(stage: str, records: Iterable[Problem], decisions: dict[str, Decision]) -> Outcome:
    ledger = Ledger(stage)
    kept = []
    for record in records:
        decision = decisions.get(record.id, Decision())
        left: Problem | None = replace(record, **decision.changes)
        for action, rule, detail in decision.notes:
            if left is not None:
                left = getattr(ledger, action)(left, rule, detail)
        if left is not None:
            kept.append(left)
    return kept, ledger.entries


def _summarise(stage: GlobalStage, shard: Shard, cache: Path) -> Path:
    path = cache / stage.name / f"{digest([stage.key, shard.sha256])}.summary.parquet"
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):  # missing or damaged
        write_table(path, stage.summarise(read_problems(shard.path)))
    return path


def store_shard(
    base: Path, records: list[Problem], entries: list[AuditEntry], after: int | None = None
) -> Shard:
    """Write records and audit log, and last the file that makes them count."""
    path, log = base.with_suffix(".parquet"), base.with_suffix(".audit.parquet")
    write_problems(path, records)
    write_table(log, audit.to_table(entries))
    shard = Shard(path, file_digest(path), len(records), log, after)
    about = {"sha256": shard.sha256, "audit_sha256": file_digest(log), "rows": shard.rows}
    write_atomic(base.with_suffix(".json"), json.dumps({**about, "after": after}, sort_keys=True))
    return shard


def load_shard(base: Path) -> Shard | None:
    """A cached shard; None when it is missing, unfinished or damaged."""
    path, log = base.with_suffix(".parquet"), base.with_suffix(".audit.parquet")
    try:
        about = json.loads(base.with_suffix(".json").read_text())
        intact = (file_digest(path), file_digest(log)) == (about["sha256"], about["audit_sha256"])
    except (OSError, ValueError, KeyError):
        return None
    return Shard(path, about["sha256"], about["rows"], log, about["after"]) if intact else None


def read_audit(shard: Shard) -> list[AuditEntry]:
    """The audit log of one shard."""
    return [AuditEntry(**row) for row in pq.read_table(shard.audit).to_pylist()]
