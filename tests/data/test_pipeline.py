"""The machinery of stages: what is computed again, what a kill leaves, what workers give."""

import json
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from mcbench.data import Problem, storage
from mcbench.data.audit import apply_rules
from mcbench.data.filter import Filter
from mcbench.data.pipeline import (
    BatchStage,
    Decision,
    GlobalStage,
    Pipeline,
    load_shard,
    read_audit,
    store_shard,
)
from mcbench.data.storage import decode, read_problems
from mcbench.data.verify import Verify
from mcbench.errors import UserError
from mcbench.files import code_version


def record(number, statement="Print n."):
    return Problem(id=f"t/{number}", statement=statement, form="stdin")


def source_shards(folder, sizes):
    start, shards = 0, []
    for i, size in enumerate(sizes):
        records = [record(n, f"Print {n}.") for n in range(start, start + size)]
        shards.append(store_shard(folder / f"source-{i}", records, []))
        start += size
    return shards


@dataclass(frozen=True)
class DropOdd(BatchStage):
    word: str = "odd"
    log: str = ""

    name: ClassVar[str] = "drop_odd"

    def configuration(self):
        return self.word

    def run(self, batch):
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{len(batch)}\n")

        def rule(r, ledger):
            return ledger.drop(r, self.word, "odd") if int(r.id[2:]) % 2 else r

        return apply_rules(self.name, batch, [(self.word, rule)])


@dataclass(frozen=True)
class KeepSmallest(GlobalStage):
    name: ClassVar[str] = "keep_smallest"

    def summarise(self, batch):
        ids = pa.array([r.id for r in batch], pa.string())
        return pa.table({"id": ids})

    def decide(self, summary):
        ids = sorted(summary["id"].to_pylist(), key=lambda i: int(i[2:]))
        drops = {i: Decision((("drop", "large", "x"),)) for i in ids[2:]}
        return {**drops, ids[0]: Decision((("flag", "first", "x"),), {"difficulty": "easy"})}


def ids(shards):
    return [r.id for shard in shards for r in read_problems(shard.path)]


@pytest.mark.parametrize("workers", [1, 2])
def test_stages_over_shards(tmp_path, workers):
    shards = source_shards(tmp_path, [4, 0, 7])
    pipeline = Pipeline(tmp_path / "cache", workers)
    even = pipeline.run(DropOdd(), shards)
    assert ids(even) == [f"t/{n}" for n in range(0, 11, 2)]
    assert [[(e.rule, e.action) for e in read_audit(shard)] for shard in even] == [
        [("odd", "drop")] * 2, [], [("odd", "drop")] * 3,
    ]  # fmt: skip
    first, *others = [r for s in pipeline.run(KeepSmallest(), even) for r in read_problems(s.path)]
    assert (first.id, first.flags, first.difficulty) == ("t/0", ("first",), "easy")
    assert [r.id for r in others] == ["t/2"]


@pytest.mark.parametrize("changed", ["python", "numpy", "pytest"])
def test_a_verdict_is_as_old_as_what_runs_the_programs(monkeypatch, changed):
    def key():
        code_version.cache_clear()
        return Verify(judge=None).key

    known, before = metadata.version, key()
    monkeypatch.setattr(metadata, "version", lambda name: known(name) + "!" * (name == changed))
    if changed == "python":
        monkeypatch.setattr(platform, "python_version", lambda: "3.99")
    assert key() != before
    monkeypatch.undo()
    code_version.cache_clear()


def test_dropped_records_are_quoted(tmp_path):
    (shard,) = Pipeline(tmp_path).run(DropOdd(), source_shards(tmp_path, [2]))
    (entry,) = read_audit(shard)
    assert (entry.record, entry.stage, entry.excerpt) == ("t/1", "drop_odd", "Print 1.")


def test_only_what_changed_is_computed_again(tmp_path):
    shards = source_shards(tmp_path, [2, 5])
    log = tmp_path / "log"

    def batches(word="odd", given=shards):
        log.write_text("")
        Pipeline(tmp_path / "cache").run(DropOdd(word, str(log)), given)
        return log.read_text().split()

    assert batches() == ["2", "5"]
    assert batches() == []
    assert batches(given=[*shards, store_shard(tmp_path / "new", [record(99)], [])]) == ["1"]
    assert batches(word="uneven") == ["2", "5"]


@pytest.mark.parametrize("suffix", [".parquet", ".audit.parquet", ".json"])
def test_a_damaged_cache_is_computed_again(tmp_path, suffix):
    shards = source_shards(tmp_path, [5])
    pipeline = Pipeline(tmp_path / "cache")
    (whole,) = pipeline.run(DropOdd(), shards)
    damaged = whole.path.with_suffix("").with_suffix(suffix)
    damaged.write_bytes(damaged.read_bytes()[:-7])
    assert load_shard(whole.path.with_suffix("")) is None
    (again,) = pipeline.run(DropOdd(), shards)
    assert again == whole
    assert load_shard(whole.path.with_suffix("")) == whole


@pytest.mark.slow
def test_a_kill_at_any_write_changes_nothing(tmp_path, monkeypatch):
    """Dies at the n-th moment a file would become visible, for every n, and starts again."""

    class Killed(BaseException):
        pass

    def build(folder):
        shards = source_shards(folder, [4, 5])
        pipeline = Pipeline(folder / "cache")
        pipeline.run(KeepSmallest(), pipeline.run(DropOdd(), shards))
        files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".tmp")
        return {str(p.relative_to(folder)): p.read_bytes() for p in files}

    expected = build(tmp_path / "whole")
    replace = Path.replace
    deaths = 0
    for last in range(10_000):
        writes = iter(range(last))

        def dying(path, target, writes=writes):
            if next(writes, None) is None:
                raise Killed
            return replace(path, target)

        folder = tmp_path / f"killed-{last}"
        monkeypatch.setattr(storage.Path, "replace", dying)
        try:
            build(folder)
            break
        except Killed:
            deaths += 1
        monkeypatch.setattr(storage.Path, "replace", replace)
        assert build(folder) == expected
    assert deaths == len(expected)


def test_a_rule_that_fails_costs_one_record():
    def rule(r, ledger):
        if r.id == "t/1":
            raise RecursionError("too deep")
        return r

    kept, [entry] = apply_rules("s", [record(0), record(1)], [("deep", rule)])
    assert [r.id for r in kept] == ["t/0"]
    assert (entry.stage, entry.rule, entry.action) == ("s", "deep", "drop")
    assert "too deep" in entry.detail


def test_our_own_mistakes_end_the_build():
    def rule(r, ledger):
        return r.no_such_field

    with pytest.raises(AttributeError):
        apply_rules("s", [record(0)], [("wrong", rule)])


def test_files_of_another_layout_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be read as parquet"):
        read_problems(path)
    storage.write_table(path, pa.table({"id": ["a"]}))
    with pytest.raises(UserError, match="no problems of version 3"):
        read_problems(path)


def test_huggingface_datasets_reads_the_shards(tmp_path):
    import datasets

    given = [record(1), record(2, "x" * 10)]
    storage.write_problems(tmp_path / "train-0.parquet", given)
    loaded = datasets.Dataset.from_parquet(
        str(tmp_path / "train-0.parquet"), cache_dir=str(tmp_path / "hf")
    )
    assert [decode(row) for row in loaded] == given
    assert json.loads(loaded[0]["tests"]) == []


@pytest.mark.parametrize("name", ["programs.py", "sources.toml", "zygote.py"])
def test_a_stage_is_known_by_the_code_that_it_uses(monkeypatch, name):
    """Of the evaluator, also what only the sandbox loads: it decides who runs out of time."""

    def key():
        code_version.cache_clear()
        return Filter().key

    def edited(path):
        return read(path) + b"#" * (path.name == name)

    read, before = Path.read_bytes, key()
    assert key() == before
    monkeypatch.setattr(Path, "read_bytes", edited)
    assert key() != before
    code_version.cache_clear()
