"""Evaluation sets by name: what is asked, and how answers are judged."""

from pathlib import Path

import pytest

from mcbench.data.benchmarks import (
    PAPER_COUNTS,
    benchmark,
    open_benchmark,
)
from mcbench.data.prompts import prompt_for
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.report import paper
from mcbench.runs.problems import load_problems

from . import published
from .published import jsonl


@pytest.fixture
def problems(tmp_path):
    """Two problems of AtCoder, one of LeetCode."""
    path = jsonl(
        tmp_path / "test6.jsonl",
        published.lcb(),
        published.lcb(
            question_id="abc390_b", contest_date="2025-01-25T00:00:00", difficulty="hard"
        ),
        published.lcb_call(),
    )
    return open_benchmark("livecodebench", tmp_path / "cache", str(path))


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=2) as evaluator:
        yield evaluator


# Sets ------------------------------------------------------------------------------------------


def test_the_set_of_the_paper_has_these_counts():
    """Every percentage of Table 1 is a whole number of four attempts at this many problems."""
    cells = dict(PAPER_COUNTS)
    for level in ("easy", "medium", "hard"):
        cells["both", level] = cells["atcoder", level] + cells["leetcode", level]
    names = ("atcoder", "leetcode", "both")
    counts = []
    for name in names:
        levels = [cells[name, level] for level in ("easy", "medium", "hard")]
        counts += [*levels, sum(levels)]
    assert counts[-1] == 175
    rows = [row for rows in paper.TABLE_1.values() for arm, row in rows.items() if arm != "delta"]
    for row in rows:
        for value, count in zip(row, counts, strict=True):
            passes = value * 4 * count / 100
            assert abs(round(passes) * 100 / (4 * count) - value) < 0.051


def test_a_set_knows_its_problems_without_their_tests(problems):
    assert len(problems) == 3
    assert problems.counts()["atcoder", "hard"] == 1
    assert [r.id for r in problems.problems(1, 3)] == [
        "livecodebench/abc390_b",
        "livecodebench/3500",
    ]
    assert problems.refused == ()


def test_a_window_of_dates(problems):
    assert [e.id for e in problems.window("2025-02-01").entries] == [
        "livecodebench/abc400_a",
        "livecodebench/3500",
    ]
    assert len(problems.window(end="2025-01-25")) == 1
    assert problems.window("2025-02-01").digest != problems.digest
    with pytest.raises(UserError, match="its problems are of 2025-01-25 to 2025-04-05"):
        problems.window("2026-01-01")
    with pytest.raises(UserError, match="YYYY-MM-DD"):
        problems.window("01.02.2025")


def test_what_could_not_be_read_is_said(tmp_path):
    path = jsonl(tmp_path / "test6.jsonl", published.lcb(), published.lcb(private_test_cases="?"))
    opened = open_benchmark("livecodebench", tmp_path / "cache", str(path))
    assert len(opened) == 1
    assert "line 2 of test6.jsonl: private_test_cases is neither" in opened.refused[0]
    jsonl(path, published.lcb(private_test_cases="?"))
    with pytest.raises(UserError, match="no usable problem"):
        open_benchmark("livecodebench", tmp_path / "cache", str(path))


def test_sets_are_named():
    assert benchmark("livecodebench").subset == "v6"
    assert benchmark("livecodebench:release_v5").subset == "release_v5"
    with pytest.raises(UserError, match="unknown benchmark 'livecode'; did you mean livecodebench"):
        benchmark("livecode")
    with pytest.raises(UserError, match="unknown subset"):
        benchmark("livecodebench:v9")


def test_prompts(problems):
    stdin, _, call = problems.problems()
    system, user = prompt_for(call)
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Return the sum of the list times k." in user["content"]
    assert "```python\nclass Solution:" in user["content"]
    assert "stdin" in prompt_for(stdin, "plain")
    (nano, *_) = load_problems("nano:test")
    assert prompt_for(nano, "plain") == nano.statement
    with pytest.raises(UserError, match="unknown prompt style"):
        prompt_for(nano, "chatty")


def test_prompts_for_functions(tmp_path):
    path = jsonl(tmp_path / "HumanEval.jsonl", published.humaneval())
    [record] = open_benchmark("humaneval", tmp_path / "cache", str(path)).problems()
    assert "def quarter(x):" in prompt_for(record)[1]["content"]
    path = jsonl(tmp_path / "mbpp.jsonl", published.mbpp())
    [record] = open_benchmark("mbpp", tmp_path / "cache", str(path)).problems()
    assert "Write a function to add." in prompt_for(record)[1]["content"]
    assert "assert add(1, 2) == 3" in prompt_for(record)[1]["content"]


def verdicts(evaluator, name, path, tmp_path, *programs):
    opened = open_benchmark(name, tmp_path / "cache", str(path))
    pairs = zip(opened.problems(), programs, strict=True)
    submissions = [problem.submission(code) for problem, code in pairs]
    return [result.passed for result in evaluator.evaluate(submissions, early_exit=True)]


def test_functions_are_judged_by_their_statements(tmp_path, evaluator):
    rows = [published.humaneval(task_id=f"HumanEval/{n}") for n in range(3)]
    path = jsonl(tmp_path / "HumanEval.jsonl", *rows)
    right, wrong = "def quarter(x): return x / 4", "def quarter(x): return x / 2"
    with_a_helper_of_the_prompt = "def quarter(x): return half(half(x))"
    programs = (right, with_a_helper_of_the_prompt, wrong)
    assert verdicts(evaluator, "humaneval", path, tmp_path, *programs) == [True, True, False]
    path = jsonl(tmp_path / "mbpp.jsonl", published.mbpp(), published.mbpp(task_id=12))
    programs = ("def add(a, b): return a + b", "def add(a, b): return 3")
    assert verdicts(evaluator, "mbpp", path, tmp_path, *programs) == [True, False]


HUMANEVAL = Path(__file__).parents[3] / "shared" / "data" / "HumanEval.jsonl.gz"


@pytest.mark.slow
@pytest.mark.skipif(
    not HUMANEVAL.exists(), reason="the HumanEval file is not beside the repository"
)
def test_all_references_of_humaneval_pass(tmp_path, evaluator):
    opened = open_benchmark("humaneval", tmp_path / "cache", str(HUMANEVAL))
    assert len(opened) == 164
    programs = [record.references[0] for record in opened.problems()]
    assert all(verdicts(evaluator, "humaneval", HUMANEVAL, tmp_path, *programs))
