"""Sources into shards: killed and continued, side by side with broken ones, and from a hub."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from huggingface_hub import constants

from mcbench.data.collect import Source, read_source
from mcbench.data.collect import shards as shards_module
from mcbench.data.collect.shards import collect
from mcbench.data.collect.source import OpenSource
from mcbench.data.pipeline import read_audit
from mcbench.data.storage import read_problems
from mcbench.errors import UserError

from . import published
from .published import jsonl, parquet

CHILD = """
import os, signal, sys
from pathlib import Path
from mcbench.data import pipeline
from mcbench.data.collect import Source, shards
shards.ROWS = 7
folder, cache, point, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
real = getattr(pipeline, point)
def dying(*arguments):
    global count
    count -= 1
    if count < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
setattr(pipeline, point, dying)
taco, lcb = str(folder / "taco"), str(folder / "lcb")
sources = [
    Source(adapter="taco", path=taco, files=("train-*",)),
    Source(adapter="livecodebench", path=lcb, subset="v1"),
]
shards.collect(sources, cache)
"""


def ids(shards):
    return [record.id for shard in shards for record in read_problems(shard.path)]


def log(shards):
    return [entry for shard in shards for entry in read_audit(shard)]


def contents(folder: Path):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_killed_anywhere_and_started_again_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "ROWS", 7)
    rows = [published.taco(name=str(n)) for n in range(20)]
    rows[3] = "{broken"
    jsonl(tmp_path / "taco" / "train-0.jsonl", *rows)
    parquet(tmp_path / "taco" / "train-1.parquet", *[published.taco(name="p")] * 11)
    jsonl(tmp_path / "lcb" / "test.jsonl", *(published.lcb(question_id=f"{n}") for n in range(9)))
    sources = [
        Source(adapter="taco", path=str(tmp_path / "taco"), files=("train-*",)),
        Source(adapter="livecodebench", path=str(tmp_path / "lcb"), subset="v1"),
    ]
    whole = collect(sources, tmp_path / "whole")
    assert len(ids(whole)) == 39
    assert [shard.rows for shard in whole] == [6, 7, 7, 7, 3, 7, 2]
    points = ("write_problems", 0), ("write_table", 0), ("write_atomic", 0), ("write_atomic", 2)
    for point, count in points:
        arguments = [tmp_path, tmp_path / "cache", point, str(count)]
        ended = subprocess.run([sys.executable, "-c", CHILD, *map(str, arguments)], check=False)
        assert ended.returncode == -signal.SIGKILL
    again = collect(sources, tmp_path / "cache")
    assert [shard.sha256 for shard in again] == [shard.sha256 for shard in whole]
    assert contents(tmp_path / "cache") == contents(tmp_path / "whole")


def test_finished_shards_are_not_read_again(tmp_path, monkeypatch):
    source = Source(adapter="taco", path=str(jsonl(tmp_path / "t.jsonl", published.taco())))
    first = collect([source], tmp_path / "cache")
    monkeypatch.setattr(shards_module, "_items", None)
    assert collect([source], tmp_path / "cache") == first


def test_a_source_that_ends_early_with_a_full_shard_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "ROWS", 3)
    jsonl(tmp_path / "train-0.jsonl", published.taco(), published.taco())
    cut = parquet(tmp_path / "train-1.parquet", published.taco())
    cut.write_bytes(cut.read_bytes()[:-100])
    source = Source(adapter="taco", path=str(tmp_path), files=("train-*",))
    first = collect([source], tmp_path / "cache")
    assert [shard.rows for shard in first] == [2]
    assert [entry.rule for entry in log(first)] == ["source_disappeared"]
    monkeypatch.setattr(shards_module, "_items", None)
    assert collect([source], tmp_path / "cache") == first


def test_a_changed_file_is_read_again(tmp_path):
    path = jsonl(tmp_path / "t.jsonl", published.taco())
    source = Source(adapter="taco", path=str(path))
    assert len(ids(collect([source], tmp_path / "cache"))) == 1
    jsonl(path, published.taco(), published.taco())
    assert len(ids(collect([source], tmp_path / "cache"))) == 2


def test_files_are_told_apart_by_their_contents(tmp_path):
    """Not by name, size and time, which copies and archives keep."""
    read = []
    for letter in "ab":
        (tmp_path / letter).mkdir()
        path = jsonl(tmp_path / letter / "t.jsonl", published.taco(question=f"Which {letter}?"))
        os.utime(path, ns=(0, 0))
        source = Source(adapter="taco", path=str(path))
        for shard in collect([source], tmp_path / "cache"):
            read += [record.statement for record in read_problems(shard.path)]
    assert read == ["Which a?", "Which b?"]


def test_large_tests_end_a_shard(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "TEXT_MB", 0.01)
    tests = json.dumps({"inputs": ["1" * 6000], "outputs": ["1"]})
    path = jsonl(tmp_path / "t.jsonl", *[published.taco(input_output=tests)] * 5)
    shards = collect([Source(adapter="taco", path=str(path))], tmp_path / "cache")
    assert [shard.rows for shard in shards] == [2, 2, 1]


def test_broken_sources_leave_the_others_unharmed(tmp_path):
    good = jsonl(tmp_path / "good.jsonl", published.taco())
    lacking = jsonl(tmp_path / "lacking.jsonl", {"task_id": "HumanEval/1", "prompt": "p"})
    cut = jsonl(tmp_path / "HumanEval.jsonl.gz", published.humaneval())
    cut.write_bytes(cut.read_bytes()[:40])
    empty = jsonl(tmp_path / "empty.jsonl")
    more = jsonl(tmp_path / "more.jsonl", published.lcb(), published.lcb(), "{")
    sources = [
        Source(adapter="taco", path=str(good)),
        Source(adapter="humaneval", path=str(lacking)),
        Source(adapter="humaneval", path=str(cut)),
        Source(adapter="kodcode", path=str(empty)),
        Source(adapter="livecodebench", path=str(more)),
    ]
    shards = collect(sources, tmp_path / "cache")
    assert ids(shards) == ["taco/train/0", "livecodebench/abc400_a"]
    assert [(entry.record, entry.rule) for entry in log(shards)] == [
        ("humaneval/test", "source_unreadable"),
        ("humaneval/test", "source_disappeared"),
        ("kodcode/train", "source_unreadable"),
        ("livecodebench/release_v6: livecodebench/abc400_a", "duplicate_id"),
        ("livecodebench/release_v6: line 3 of more.jsonl", "malformed"),
    ]
    assert "no column entry_point" in log(shards)[0].detail
    assert "no readable row" in log(shards)[2].detail


def test_a_source_that_is_not_there_stops_before_anything_is_read(tmp_path):
    good = Source(adapter="taco", path=str(jsonl(tmp_path / "good.jsonl", published.taco())))
    with pytest.raises(UserError, match="does not exist"):
        collect(
            [good, Source(adapter="kodcode", path=str(tmp_path / "nothing"))], tmp_path / "cache"
        )
    assert not (tmp_path / "cache").exists()
    jsonl(tmp_path / "folder" / "other.jsonl", {})
    with pytest.raises(UserError, match=r"holds no ALL/train.*found: other\.jsonl"):
        list(read_source(Source(adapter="taco", path=str(tmp_path / "folder"))))


def test_the_limit_counts_rows(tmp_path):
    path = jsonl(tmp_path / "t.jsonl", published.taco(), "{", "", published.taco())
    assert len(list(read_source(Source(adapter="taco", path=str(path), limit=2)))) == 1
    assert len(list(read_source(Source(adapter="taco", path=str(path), limit=3)))) == 2


def test_the_limit_counts_rows_of_the_subset_also_after_a_break(tmp_path):
    """MBPP's one file holds all splits, told apart by the number of a task."""
    rows = [{**published.mbpp(), "task_id": task} for task in (11, 601, 602, 12, 603)]
    path = jsonl(tmp_path / "mbpp.jsonl", *rows)
    source = OpenSource(Source(adapter="mbpp", path=str(path), subset="full-train", limit=2))
    assert [item.value.id for item in source.items()] == ["mbpp/601", "mbpp/602"]
    (left,) = source.items(start=2)
    assert (left.value.id, left.after) == ("mbpp/602", 3)


def test_a_progress_bar_counts_rows_and_refusals(tmp_path, capsys):
    path = jsonl(tmp_path / "t.jsonl", published.taco(), "{", published.taco())
    assert len(list(read_source(Source(adapter="taco", path=str(path)), progress=True))) == 2
    shown = capsys.readouterr().err
    assert "taco/train: 3 rows" in shown
    assert "refused=1" in shown


# From a hub --------------------------------------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """The two questions that the hub's client asks, answered from a folder."""

    folder: Path
    gone: set[str]

    def do_GET(self, body=True):
        path = self.path.partition("?")[0]
        if path == "/api/datasets/livecodebench/code_generation_lite/revision/main":
            files = [{"rfilename": p.name} for p in sorted(self.folder.iterdir())]
            about = {"id": "livecodebench/code_generation_lite", "sha": COMMIT, "siblings": files}
            return self.answer(json.dumps(about).encode(), body)
        name = path.rpartition("/")[2]
        if f"/resolve/{COMMIT}/" not in path or name in self.gone:
            return self.answer(b"", body, 404)
        return self.answer((self.folder / name).read_bytes(), body)

    def do_HEAD(self):
        self.do_GET(body=False)

    def answer(self, data, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if status == 404:
            missing = "RepoNotFound" if self.path.startswith("/api") else "EntryNotFound"
            self.send_header("X-Error-Code", missing)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{abs(hash(data)):x}"')
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The address of a hub with two files of LiveCodeBench."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    Hub.folder, Hub.gone = tmp_path / "hub", set()
    jsonl(Hub.folder / "test.jsonl", published.lcb(question_id="a"))
    jsonl(Hub.folder / "test2.jsonl", published.lcb(question_id="b"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_files_come_from_the_hub_once(hub, tmp_path):
    source = Source(adapter="livecodebench", subset="release_v2", endpoint=hub)
    assert [r.id for r in read_source(source)] == ["livecodebench/a", "livecodebench/b"]
    Hub.gone = {"test.jsonl", "test2.jsonl"}  # now they must come from the client's cache
    assert len(list(read_source(source))) == 2


def test_any_set_of_the_hub_through_a_mapping(hub):
    source = Source(
        adapter="mapping",
        name="mine",
        repo="livecodebench/code_generation_lite",
        files=("test.jsonl",),
        columns={"statement": "question_content", "tests": "public_test_cases"},
        endpoint=hub,
    )
    [record] = read_source(source)
    assert (record.id, record.tests[0]["expected"]) == ("mine/0", "3\n")


def test_a_hub_file_that_disappears_ends_that_source_only(hub, tmp_path):
    Hub.gone = {"test2.jsonl"}
    other = Source(adapter="taco", path=str(jsonl(tmp_path / "t.jsonl", published.taco())))
    source = Source(adapter="livecodebench", subset="release_v2", endpoint=hub)
    shards = collect([source, other], tmp_path / "shards")
    assert ids(shards) == ["livecodebench/a", "taco/train/0"]
    [entry] = log(shards)
    assert entry.rule == "source_disappeared"
    assert "test2.jsonl cannot be fetched" in entry.detail
    Hub.gone = set()  # the same command goes on where it was cut
    again = ids(collect([source, other], tmp_path / "shards"))
    assert again[0] == "livecodebench/a"
    assert len(again) > 2


def test_what_the_hub_lacks_is_said_with_what_to_do(hub):
    with pytest.raises(UserError, match=r"has no test3\.jsonl; found: test\.jsonl"):
        list(read_source(Source(adapter="livecodebench", subset="v3", endpoint=hub)))
    with pytest.raises(UserError, match="no such data set, or it needs a login"):
        list(read_source(Source(adapter="taco", endpoint=hub)))
    with pytest.raises(UserError, match=r"no connection.*Offline: put .* in a folder"):
        list(read_source(Source(adapter="taco", endpoint="http://127.0.0.1:9")))
