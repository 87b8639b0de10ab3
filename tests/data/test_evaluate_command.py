"""``mcbench evaluate`` on benchmarks."""

import argparse
import json

import pytest

from mcbench.data.benchmarks import LIVECODEBENCH, PAPER_COUNTS, BenchmarkSet
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluate_command import add_evaluate
from mcbench.report.table import paper_rows
from mcbench.runs.score_table import table_text

from . import published
from .published import jsonl


def integers(text):
    return [int(part) for part in text.split(",")]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def evaluate(*arguments):
    parser = argparse.ArgumentParser()
    add_evaluate(parser.add_subparsers(), integers)
    options = parser.parse_args(["evaluate", *arguments])
    options.command(options)


def test_a_benchmark_is_evaluated_and_its_samples_kept(capsys, tmp_path):
    few = ("--limit", "3", "--attempts", "2", "--lengths", "12,24", "-o", "result.json")
    evaluate("nano-s", *few)
    out = capsys.readouterr().out
    assert "3 problems x 2 attempts, up to 12 tokens" in out
    assert "pass@2" in out
    assert "up to 24 tokens" in out.splitlines()[-2]
    folder = out.splitlines()[-1].partition(": ")[2]
    assert list((tmp_path / folder / "samples").iterdir())
    rows = json.loads((tmp_path / "result.json").read_text())
    assert [row["max_completion_length"] for row in rows] == [12, 24]
    evaluate("nano-s", *few)
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--test-set", "livecodebench:v8"), "unknown subset"),
        (("--test-set", "livecodebench", "--data", "none"), "none does not exist"),
        (("--test-set", "nano:test", "--from", "2025"), "YYYY-MM-DD"),
        (("--test-set", "x"), "unknown problem set 'x'"),
        (("--workers", "0"), "--workers must be at least 1"),
        (("--attempts", "0"), "attempts must be at least 1"),
        (("--temperature", "0"), "temperature must be greater than 0"),
        (("--test-set", "a.jsonl", "--backend", "vllm"), "vllm is for benchmarks"),
    ],
)
def test_wrong_input_is_one_clear_sentence(arguments, message):
    with pytest.raises(UserError, match=message):
        evaluate("nano-s", *arguments)


@pytest.mark.parametrize("option", ["--folder", "--output"])
def test_where_nothing_can_be_written_nothing_is_sampled(tmp_path, option):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written to: Not a directory"):
        evaluate("nano-s", "--limit", "1", option, str(tmp_path / "file" / "sub" / "x"))


def test_a_window_without_problems_names_the_dates(tmp_path):
    path = jsonl(tmp_path / "test6.jsonl", published.lcb())
    with pytest.raises(UserError, match="its problems are of 2025-04-05"):
        evaluate("nano-s", "--test-set", "livecodebench", "--data", str(path), "--to", "2025-01-01")


def test_the_papers_numbers_stand_below_its_own_set_only():
    entries = [
        Problem(f"{platform}/{level}/{n}", "s", "stdin", difficulty=level, kind=platform)
        for (platform, level), count in PAPER_COUNTS.items()
        for n in range(count)
    ]
    assert BenchmarkSet(LIVECODEBENCH, entries, "").is_the_papers
    assert not BenchmarkSet(LIVECODEBENCH, entries[1:], "").is_the_papers
    rows = paper_rows()
    assert rows["paper: 4B MicroCoder-GRPO, 8K"]["LiveCodeBench", "all"] == 38.7
    assert table_text(rows).splitlines()[0].split() == ["atcoder", "leetcode", "LiveCodeBench"]
