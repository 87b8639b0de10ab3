"""A build from end to end: sources in, a verified and documented data set out."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mcbench.data import audit
from mcbench.data.audit import StageFailed
from mcbench.data.collect import Item, load_sources, read_source
from mcbench.data.collect.shards import batches, collect, collect_pool
from mcbench.data.config import STAGES, BuildConfig
from mcbench.data.decontaminate import Decontaminate, Index
from mcbench.data.dedup import Dedup
from mcbench.data.difficulty import Difficulty, Predict, read_pass_rates
from mcbench.data.filter import Filter
from mcbench.data.judge import Judge
from mcbench.data.pipeline import Pipeline, Progress, Shard, Stage
from mcbench.data.process import Process
from mcbench.data.report import (
    FUNNEL_PAGE,
    card,
    describe_difficulty,
    funnel_page,
    numbers_of,
    summary_text,
)
from mcbench.data.schema import Problem, Rejected
from mcbench.data.storage import VERSION, read_problems, write_problems
from mcbench.data.verify import Verify
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.files import digest, file_digest, make_writable, replacing, write_atomic

_logger = logging.getLogger(__name__)
_OUT_ROWS, _OUT_MB = 5000, 32  # of a file of the finished set, which ends at either


@dataclass(frozen=True)
class Built:
    """A finished build: the folder, its manifest, and what it cost.

    ``tests_run`` counts the evaluator's runs, ``evaluator_s`` is the time inside it. These differ
    from run to run and are no part of the set.
    """

    out: Path
    manifest: dict[str, Any]
    tests_run: int = 0
    evaluator_s: float = 0.0

    def __str__(self) -> str:
        return summary_text(self.manifest)


def build(
    config: BuildConfig,
    pool: Iterable[Problem] | None = None,
    evaluation: Iterable[Problem] = (),
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
        StageFailed: a server that a stage needs does not answer, or an evaluation set to
            decontaminate against is cut.
    """
    cache = Path(config.cache)
    make_writable(Path(config.out), "out")
    make_writable(cache, "cache")
    if not config.sources and pool is None:
        raise UserError("a build needs sources: entries with an adapter and what it reads")
    shards = collect(load_sources(config.sources), cache, progress=progress is not None)
    shards += collect_pool(pool or (), cache)
    funnel = [_counted("collect", shards)]
    logs = list(shards)
    extra: dict[str, Any] = {}
    cost: tuple[int, float] = (0, 0.0)
    with ExitStack() as stack:
        pipeline = stack.enter_context(closing(Pipeline(cache, config.workers, progress)))
        for stage in _stages(config, evaluation, cache, stack):
            if isinstance(stage, Difficulty):
                extra["difficulty"] = describe_difficulty(stage, pipeline.summary(stage, shards))
            shards = pipeline.run(stage, shards)
            if isinstance(stage, Verify):
                cost = stage.judge.tests, stage.judge.seconds
            funnel.append(_counted(stage.name, shards, funnel[-1]["out"]))
            logs += shards
    return Built(Path(config.out), _write(config, shards, logs, funnel, extra), *cost)


def _stages(
    config: BuildConfig,
    evaluation: Iterable[Problem],
    cache: Path,
    stack: ExitStack,
) -> Iterator[Stage]:
    """The stages in order, made when their turn comes: the evaluator starts processes."""
    chosen = set(STAGES) - set(config.skip)
    if "process" in chosen:
        yield Process(config.process, cache / "answers")
    if "filter" in chosen:
        yield Filter(config.filter)
    if "dedup" in chosen:
        yield Dedup(config.dedup)
    if "decontaminate" in chosen:
        index = Index.build([*evaluation, *_against(config)], config.decontaminate)
        yield Decontaminate(index, config.decontaminate)
    if "verify" in chosen:
        judge = Judge(stack.enter_context(Evaluator(config.workers)))
        yield Verify(judge, config.verify)
    if "difficulty" in chosen:
        yield Predict(config.difficulty)
        rates = config.difficulty.pass_rates
        yield Difficulty(config.difficulty, read_pass_rates(Path(rates)) if rates else {})


def _against(config: BuildConfig) -> Iterator[Problem]:
    """The evaluation problems that are named, whole.

    Raises:
        StageFailed: a set of them ends early.
    """
    for source in load_sources(config.against):
        refused: list[Rejected] = []
        yield from read_source(source, reject=refused.append)
        if cut := [one for one in refused if one.rule == "source_disappeared"]:
            raise StageFailed(
                f"decontaminate: {cut[0].id}: {cut[0].detail}; against a part of it nothing is "
                "clean. Run the same command again, or leave it out of against"
            )
        if refused:
            told = len(refused), source.adapter, refused[0].id, refused[0].detail
            _logger.warning("decontaminate: %d rows of %s cannot be read, such as %s: %s", *told)


def _log(shards: Sequence[Shard], columns: Sequence[str]) -> pd.DataFrame:
    tables = [pq.read_table(shard.audit, columns=columns) for shard in shards]
    return pa.concat_tables([*tables, audit.to_table([]).select(columns)]).to_pandas()


def _counted(name: str, shards: Sequence[Shard], before: int | None = None) -> dict[str, Any]:
    """A row of the funnel: what a stage got and gave, and how many records a rule did what to.

    What collect got is what it gave and refused.
    """
    after = sum(shard.rows for shard in shards)
    log = _log(shards, ["rule", "action", "record"])
    # Of one record a rule may change several things; each thing that was dropped counts.
    log = log[(log.action == "drop") | ~log.duplicated()]
    rules: dict[str, dict[str, int]] = {}
    for (rule, action), number in sorted(Counter(zip(log.rule, log.action, strict=True)).items()):
        rules.setdefault(rule, {})[action] = number
    if before is None:
        # A source that ends early is no problem.
        refused = (of for rule, of in rules.items() if not rule.startswith("source_"))
        before = after + sum(actions.get("drop", 0) for actions in refused)
    return {"stage": name, "in": before, "out": after, "rules": rules}


# Output ------------------------------------------------------------------------------------------


def _write(
    config: BuildConfig,
    shards: Sequence[Shard],
    logs: Sequence[Shard],
    funnel: list[dict[str, Any]],
    extra: dict[str, Any],
) -> dict[str, Any]:
    """The manifest of the finished set, which is written last: only then the set is finished."""
    out = Path(config.out)
    manifest_path = out / "manifest.json"
    manifest_path.unlink(missing_ok=True)
    _write_audit(out / "audit.parquet", logs)
    write_atomic(out / FUNNEL_PAGE, funnel_page(config.name, funnel, out))
    if not sum(shard.rows for shard in shards):
        told = f"{out / FUNNEL_PAGE} shows examples of what every rule dropped"
        raise UserError(f"no problem is left; {_losses(logs)}; {told}")
    for stale in (out / "data").glob("train-*.parquet"):
        stale.unlink()
    names = _write_problems(out, shards)
    columns = ["difficulty", "source"]
    finished = pa.concat_tables(pq.read_table(out / name, columns=columns) for name in names)
    manifest = {
        "name": config.name,
        "record_version": VERSION,
        "mcbench": version("mcbench"),
        "rows": sum(shard.rows for shard in shards),
        # without what only says where and how fast it ran
        "config": config.model_dump(mode="json", exclude={"out", "cache", "workers"}),
        "funnel": funnel,
        "counts": {name: numbers_of(finished[name].to_pylist()) for name in columns},
        "files": {name: file_digest(out / name) for name in [*names, "audit.parquet"]},
        **extra,
    }
    manifest["digest"] = digest(manifest["files"][name] for name in names)
    write_atomic(out / "README.md", card(config.name, config.description, manifest))
    write_atomic(manifest_path, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return manifest


def _losses(logs: Sequence[Shard]) -> str:
    """Which rules dropped how many, each with a reason."""
    log = _log(logs, ["stage", "rule", "action", "record", "detail"])
    dropped = log[log.action == "drop"].groupby(["stage", "rule"], sort=False)
    told = [
        f"{stage}/{rule} dropped {of_rule.record.nunique()} (such as: {of_rule.detail.iloc[0]})"
        for (stage, rule), of_rule in dropped
    ]
    return "; ".join(told) or "the sources hold none"


def _write_problems(out: Path, shards: Sequence[Shard]) -> list[str]:
    """The files of the finished set, by name."""
    items = (Item(problem) for shard in shards for problem in read_problems(shard.path))
    names: list[str] = []
    for batch, _ in batches(items, _OUT_ROWS, _OUT_MB):
        problems = [item.value for item in batch if isinstance(item.value, Problem)]
        if problems:
            names.append(f"data/train-{len(names):05}.parquet")
            write_problems(out / names[-1], problems)
    return names


def _write_audit(path: Path, logs: Sequence[Shard]) -> None:
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, audit.SCHEMA, compression="zstd") as writer,
    ):
        for shard in logs:
            writer.write_table(pq.read_table(shard.audit))
