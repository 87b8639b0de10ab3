"""``mcbench evaluate`` on problem sets and benchmarks."""

import json
import shutil
from contextlib import nullcontext

import pytest
from jinja2 import TemplateError
from transformers import AutoTokenizer

from mcbench.cli import app
from mcbench.data.benchmarks import BENCHMARKS, PAPER_COUNTS, BenchmarkSet
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.report.table import paper_rows
from mcbench.runs.resolve import described
from mcbench.runs.scores import table_text
from mcbench.worlds.nano import model_path

from . import published
from .published import jsonl


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def evaluate(*arguments):
    app.main(["evaluate", *arguments], standalone_mode=False)


SUMS = [
    {
        "id": f"p{n}", "statement": "add", "form": "stdin", "difficulty": ("easy", "hard")[n % 2],
        "tests": [{"stdin": "1 2", "expected": "3"}],
    }
    for n in range(3)
]  # fmt: skip


def test_every_kind_of_set_is_evaluated_and_its_samples_kept(capsys, tmp_path):
    jsonl(tmp_path / "sums.jsonl", *SUMS)
    path = jsonl(tmp_path / "test6.jsonl", published.lcb(), published.lcb_call())
    few = ("--limit", "2", "--attempts", "2", "--lengths", "12,24", "-o", "result.json")
    for test_set, heads in (
        (("nano:test",), ["stdin", "call", "all"]),
        (("sums.jsonl",), ["stdin"]),
        (("livecodebench", "--data", str(path)), ["atcoder", "leetcode", "LiveCodeBench"]),
    ):
        evaluate("nano-s", "--test-set", *test_set, *few)
        out = capsys.readouterr().out
        lines = out.splitlines()
        assert lines[0] == (
            f"nano-s on {test_set[0]}, 2 problems x 2 attempts, temperature 1, "
            "plain prompts (its tokenizer has no chat template)"
        )
        assert lines[1].startswith("up to 12 tokens: pass@1")
        assert lines[-5].split() == heads
        assert lines[-2].startswith("up to 24 tokens ")
        folder = lines[-1].partition(": ")[2]
        [samples] = (tmp_path / folder / "samples").iterdir()
        written = samples.stat().st_mtime_ns
        results = json.loads((tmp_path / "result.json").read_text())
        assert [row["max_completion_length"] for row in results] == [12, 24]
        evaluate("nano-s", "--test-set", *test_set, *few)
        assert capsys.readouterr().out == out
        assert samples.stat().st_mtime_ns == written


def test_what_could_not_be_read_is_said(capsys, tmp_path):
    path = jsonl(tmp_path / "test6.jsonl", published.lcb(), published.lcb(private_test_cases="?"))
    options = ("--attempts", "1", "--lengths", "8", "--prompt-style", "plain")
    evaluate("nano-s", "--test-set", "livecodebench", "--data", str(path), *options)
    out = capsys.readouterr().out
    assert "1 published problems or tests were left out, the first: " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--test-set", "livecodebench:v8"), "unknown subset"),
        (("--test-set", "livecodebench", "--data", "none"), "none does not exist"),
        (
            ("--test-set", "nano:test", "--from", "2025-01-01"),
            "nano:test is none",
        ),
        (("--test-set", "livecodebench", "--from", "2020-13-01"), "YYYY-MM-DD, got '2020-13-01'"),
        (("--from", "2025-02-01", "--to", "2025-01-31"), "no day is from 2025-02-01 on"),
        (("--test-set", "x"), "unknown problem set 'x'"),
        (("--workers", "0"), "--workers must be at least 1"),
        (("--attempts", "0"), "attempts must be at least 1"),
        (("--temperature", "0"), "temperature must be greater than 0"),
        (("--limit", "1", "--prompt-style", "chat"), "no chat template; prompt style plain"),
        (("--limit", "1", "--lengths", "8", "--backend", "vllm"), "vLLM is not installed"),
    ],
)
def test_wrong_input_is_one_clear_sentence(arguments, message):
    with pytest.raises(UserError, match=message):
        evaluate("nano-s", *arguments)


def test_thinking_is_off_where_asked_and_where_a_run_trained_without(tmp_path, capsys):
    """The model's template refuses a conversation in which thinking is on, or left to it."""
    shutil.copytree(model_path("nano-s"), tmp_path / "run" / "checkpoints" / "final")
    tokenizer = AutoTokenizer.from_pretrained(model_path("nano-s"))
    tokenizer.chat_template = (
        "{% if enable_thinking is not defined or enable_thinking %}"
        "{{ raise_exception('it thinks') }}{% endif %}{{ messages[-1].content }}"
    )
    tokenizer.save_pretrained(tmp_path / "run" / "checkpoints" / "final")
    few = ("--limit", "1", "--attempts", "1", "--lengths", "8")
    model = "run/checkpoints/final"
    evaluate(model, *few, "--disable-thinking")
    assert "(its tokenizer has a chat template, thinking off)" in capsys.readouterr().out
    for asked in ((), ("--enable-thinking",)):
        with pytest.raises(TemplateError, match="it thinks"):
            evaluate(model, *few, *asked)
    for thinking, told in ((False, "thinking off"), (True, "thinking on")):
        config = described("nano", settings={"enable_thinking": thinking}).to_dict()
        (tmp_path / "run" / "run.json").write_text(json.dumps({"config": config}))
        with nullcontext() if not thinking else pytest.raises(TemplateError):
            evaluate("run", *few)
        assert told in capsys.readouterr().out


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
    assert BenchmarkSet(BENCHMARKS["livecodebench"], entries, "").is_the_papers
    assert not BenchmarkSet(BENCHMARKS["livecodebench"], entries[1:], "").is_the_papers
    rows = paper_rows()
    assert rows["paper: 4B MicroCoder-GRPO, 8K"]["LiveCodeBench", "all"] == 38.7
    assert table_text(rows).splitlines()[0].split() == ["atcoder", "leetcode", "LiveCodeBench"]
