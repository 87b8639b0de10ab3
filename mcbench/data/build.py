"""A build from end to end: sources in, a verified and documented data set out."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mcbench import __version__
from mcbench.data import audit
from mcbench.data.audit import Counts, Ledger
from mcbench.data.config import BuildConfig
from mcbench.data.decontaminate import Decontaminate, Index
from mcbench.data.dedup import Dedup
from mcbench.data.difficulty import Difficulty, Predict, read_pass_rates
from mcbench.data.filter import Filter
from mcbench.data.judge import Judge
from mcbench.data.pipeline import Pipeline, Progress, Shard, Stage, load_shard, store_shard
from mcbench.data.process import Process
from mcbench.data.report import card, describe_difficulty, summary_text
from mcbench.data.schema import RECORD_VERSION, ProblemRecord
from mcbench.data.storage import (
    digest,
    file_digest,
    make_writable,
    read_records,
    write_atomic,
    write_records,
)
from mcbench.data.verify import Verify
from mcbench.errors import UserError

_ROWS, _MB = 1000, 64  # of a shard from a pool: it ends at either, and no record may be larger
_OUT_ROWS = 5000  # of a file of the finished set
_OUT_MB = 256  # of tests and statements in such a file, which bounds memory


@dataclass(frozen=True)
class Measured:
    """What a build cost; not part of the set, since it differs from run to run.

    ``verify_share`` is the time inside the evaluator per time of the verification as a whole: 1
    means that nothing but the evaluator's throughput bounds it. None where nothing was run.
    """

    tests_run: int = 0
    evaluator_s: float = 0.0
    verify_s: float = 0.0

    @property
    def verify_share(self) -> float | None:
        """Time in the evaluator / time of the stage."""
        return self.evaluator_s / self.verify_s if self.tests_run else None


@dataclass(frozen=True)
class Built:
    """A finished build: the folder, its manifest, and what it cost."""

    out: Path
    manifest: dict[str, Any]
    measured: Measured = field(default_factory=Measured)

    def __str__(self) -> str:
        return summary_text(self.manifest)


def build(
    config: BuildConfig,
    pool: Iterable[ProblemRecord] | None = None,
    evaluation: Iterable[ProblemRecord] = (),
    progress: Progress | None = None,
) -> Built:
    """Build a data set; what the cache holds is not computed again.

    Args:
        config: the build.
        pool: records that come beside those of ``config.sources``, for sets made in Python.
        evaluation: problems to decontaminate against, beside those of ``config.against``.
        progress: is told of every finished shard.

    Raises:
        UserError: wrong configuration, a folder that cannot be written to, or no record is left at
            the end; the message says which rules dropped them.
        StageFailed: a server that a stage needs does not answer.
    """
    cache = Path(config.cache)
    make_writable(Path(config.out), "out")
    make_writable(cache, "cache")
    shards = _collected(config, pool, cache, progress is not None)
    funnel = [_counted("collect", sum(s.rows for s in shards) + _refused(shards), shards)]
    logs = list(shards)
    extra: dict[str, Any] = {}
    measured = Measured()
    with ExitStack() as stack:
        pipeline = stack.enter_context(Pipeline(cache, config.workers, progress))
        for stage in _stages(config, evaluation, cache, stack):
            if isinstance(stage, Difficulty):
                extra["difficulty"] = describe_difficulty(stage, pipeline.summary(stage, shards))
            before = sum(shard.rows for shard in shards)
            start = time.monotonic()
            shards = pipeline.run(stage, shards)
            if isinstance(stage, Verify):
                judge = stage.judge
                measured = Measured(judge.tests, judge.seconds, time.monotonic() - start)
            funnel.append(_counted(stage.name, before, shards))
            logs += shards
    return Built(*_write(config, shards, logs, funnel, extra), measured)


def _stages(
    config: BuildConfig, evaluation: Iterable[ProblemRecord], cache: Path, stack: ExitStack
) -> Iterator[Stage]:
    """The stages in order, made when their turn comes: the evaluator starts processes."""
    wanted = [name for name in _ORDER if name not in config.skip]
    answers = cache / "answers"
    if "process" in wanted:
        yield Process(config.process, answers)
    if "filter" in wanted:
        yield Filter(config.filter)
    if "dedup" in wanted:
        yield Dedup(config.dedup)
    if "decontaminate" in wanted:
        problems = [*evaluation, *_read_all(config.against)]
        yield Decontaminate(Index.build(problems, config.decontaminate), config.decontaminate)
    if "verify" in wanted:
        from mcbench.evaluator import Evaluator

        judge = Judge(stack.enter_context(Evaluator(config.workers)))
        yield Verify(judge, config.verify)
    if "difficulty" in wanted:
        yield Predict(config.difficulty, answers)
        rates = config.difficulty.pass_rates
        yield Difficulty(config.difficulty, read_pass_rates(Path(rates)) if rates else {})


_ORDER = ("process", "filter", "dedup", "decontaminate", "verify", "difficulty")


def _read_all(entries: Sequence[dict[str, Any]]) -> Iterator[ProblemRecord]:
    if entries:
        from mcbench.data.collect import load_sources, read_source

        for source in load_sources(entries):
            yield from read_source(source)


# Collect -----------------------------------------------------------------------------------------


def _collected(
    config: BuildConfig, pool: Iterable[ProblemRecord] | None, cache: Path, progress: bool
) -> list[Shard]:
    shards: list[Shard] = []
    if config.sources:
        from mcbench.data.collect import load_sources
        from mcbench.data.collect.shards import collect

        shards += collect(load_sources(config.sources), cache, progress=progress)
    if pool is not None:
        shards += pool_shards(pool, cache)
    if not config.sources and pool is None:
        raise UserError("a build needs sources: entries with an adapter and what it reads")
    return shards


def pool_shards(pool: Iterable[ProblemRecord], cache: Path) -> list[Shard]:
    """Shards of records in memory or generated; an id that came before is dropped."""
    seen: set[str] = set()
    shards: list[Shard] = []
    batch: list[ProblemRecord] = []
    ledger, total = Ledger("collect"), 0

    def flush() -> None:
        nonlocal ledger, total
        rows = (json.dumps(record.to_row(), sort_keys=True) for record in batch)
        base = cache / "collect" / digest(["pool", str(len(shards)), *rows, repr(ledger.entries)])
        shards.append(load_shard(base) or store_shard(base, batch, ledger.entries))
        batch.clear()
        ledger, total = Ledger("collect"), 0

    for record in pool:
        if record.id in seen:
            ledger.reject(record.id, "duplicate_id", "an earlier record has this id")
            continue
        seen.add(record.id)
        if (size := _size(record)) > _MB << 20:
            detail = f"{size >> 20} MiB of statement and tests, more than {_MB}"
            ledger.reject(record.id, "too_large", detail)
            continue
        batch.append(record)
        total += size
        if len(batch) == _ROWS or total > _MB << 20:
            flush()
    if batch or ledger.entries:
        flush()
    return shards


def _size(record: ProblemRecord) -> int:
    """Characters of the statement and the tests, about."""
    values = (value for test in record.tests for value in test.values())
    return len(record.statement) + sum(
        len(value) if isinstance(value, str) else len(json.dumps(value)) for value in values
    )


def _refused(shards: Sequence[Shard]) -> int:
    return sum(actions.get("drop", 0) for s in shards for actions in s.counts.values())


def _counted(name: str, before: int, shards: Sequence[Shard]) -> dict[str, Any]:
    rules: Counts = {}
    for shard in shards:
        audit.add_counts(rules, shard.counts)
    after = sum(shard.rows for shard in shards)
    return {"stage": name, "in": before, "out": after, "rules": rules}


# Output ------------------------------------------------------------------------------------------


def _write(
    config: BuildConfig,
    shards: Sequence[Shard],
    logs: Sequence[Shard],
    funnel: list[dict[str, Any]],
    extra: dict[str, Any],
) -> tuple[Path, dict[str, Any]]:
    """The finished set; the manifest is written last, and only then the set counts as finished."""
    out = Path(config.out)
    if not sum(shard.rows for shard in shards):
        raise UserError(f"no problem is left; {_losses(funnel, logs)}")
    manifest_path = out / "manifest.json"
    manifest_path.unlink(missing_ok=True)
    for stale in (out / "data").glob("train-*.parquet"):
        stale.unlink()
    counts: dict[str, Counter[str]] = {"difficulty": Counter(), "source": Counter()}
    names = _write_records(out, shards, counts)
    _write_audit(out / "audit.parquet", logs)
    manifest = {
        "name": config.name,
        "record_version": RECORD_VERSION,
        "mcbench": __version__,
        "rows": sum(shard.rows for shard in shards),
        "config": _lasting(config),
        "funnel": funnel,
        "counts": {name: dict(sorted(counter.items())) for name, counter in counts.items()},
        "files": {name: file_digest(out / name) for name in [*names, "audit.parquet"]},
        **extra,
    }
    manifest["digest"] = digest(manifest["files"][name] for name in names)
    write_atomic(out / "README.md", card(config.name, config.description, manifest))
    write_atomic(manifest_path, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return out, manifest


def _losses(funnel: list[dict[str, Any]], logs: Sequence[Shard]) -> str:
    """Which rules dropped how many, each with a reason."""
    reasons: dict[tuple[str, str], str] = {}
    for shard in logs:
        for row in pq.read_table(shard.audit).to_pylist() if shard.audit is not None else ():
            if row["action"] == "drop":
                reasons.setdefault((row["stage"], row["rule"]), row["detail"])
    told = [
        f"{stage['stage']}/{rule} dropped {actions['drop']} (such as: {reasons[key]})"
        for stage in funnel
        for rule, actions in stage["rules"].items()
        if (key := (stage["stage"], rule)) in reasons
    ]
    return "; ".join(told) or "the sources hold none"


def _lasting(config: BuildConfig) -> dict[str, Any]:
    """The configuration without what only says where and how fast it ran."""
    return {
        name: value
        for name, value in asdict(config).items()
        if name not in ("out", "cache", "workers")
    }


def _write_records(
    out: Path, shards: Sequence[Shard], counts: dict[str, Counter[str]]
) -> list[str]:
    names: list[str] = []
    batch: list[ProblemRecord] = []
    size = 0

    def flush() -> None:
        nonlocal size
        names.append(f"data/train-{len(names):05}.parquet")
        write_records(out / names[-1], batch)
        batch.clear()
        size = 0

    for shard in shards:
        for record in read_records(shard.path):
            batch.append(record)
            size += _size(record)
            for name, counter in counts.items():
                counter[getattr(record, name) or "unknown"] += 1
            if len(batch) == _OUT_ROWS or size > _OUT_MB << 20:
                flush()
    if batch:
        flush()
    return names


def _write_audit(path: Path, logs: Sequence[Shard]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with pq.ParquetWriter(temporary, audit.SCHEMA, compression="zstd") as writer:
        for shard in logs:
            if shard.audit is not None:
                writer.write_table(pq.read_table(shard.audit))
    temporary.replace(path)
