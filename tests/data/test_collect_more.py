"""The sources of problems with other layouts, from row to reward."""

import json

import pytest

from mcbench.data.benchmarks import benchmark
from mcbench.data.collect import describe_sources
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.runs.problems import load_problems

from . import published
from .published import PROGRAM, jsonl, parquet
from .test_collect_adapters import SUM_TESTS, only, read
from .test_problem_sets import rewards


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=2) as evaluator:
        yield evaluator


def test_apps(tmp_path):
    record = only("apps", jsonl(tmp_path / "train.jsonl", published.apps()))
    assert (record.id, record.tests, record.difficulty) == ("apps/train/17", SUM_TESTS, "easy")
    assert record.references == (PROGRAM,)  # the other is Python 2


def test_solutions_in_a_text_of_json_are_several_programs(tmp_path):
    row = {"text": "Add.", "io": published.STDIO, "sols": json.dumps([PROGRAM, "int main() {}"])}
    columns = {"statement": "text", "tests": "io", "references": "sols"}
    path = jsonl(tmp_path / "rows.jsonl", row)
    assert only("mapping", path, name="mine", columns=columns).references == (PROGRAM,)


def test_code_contests(tmp_path):
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", published.code_contests())
    record = only("codecontests", tmp_path)
    assert (record.tests, record.references) == (SUM_TESTS, (PROGRAM,))
    assert (record.time_limit_s, record.memory_limit_mb) == (1.5, 256)
    assert (record.difficulty, record.kind) == ("easy", "codeforces")
    files = published.code_contests(input_file="in.txt")
    _, rejected = read("codecontests", jsonl(tmp_path / "x.jsonl", files))
    assert rejected[0].rule == "unsupported"


def test_leetcode_s_nodes_and_header_reach_the_reward(tmp_path, evaluator):
    older = published.leetcode(
        task_id="older", problem_description=None, starter_code=None,
        query="Double it.\n \nPlease complete the following python code precisely:\n"
        "```python\nclass Solution:\n    def double(self, head):\n```",
    )  # fmt: skip
    path = jsonl(tmp_path / "LeetCodeDataset-v1-train.jsonl", published.leetcode(), older)
    (first, second), rejected = read("leetcode", path)
    assert rejected == []
    assert (first.date, first.difficulty, len(first.tests)) == ("2024-08-04", "easy", 3)
    assert (second.statement, second.starter_code[:14]) == ("Double it.\n", "class Solution")
    code = first.references[0]
    wrong = code.replace("*= 2", "*= 3")
    assert rewards([first, first], [code, wrong], evaluator) == [1.0, 0.0]


def test_evalplus_compares_with_its_reference(tmp_path, evaluator):
    path = jsonl(tmp_path / "HumanEvalPlus.jsonl", published.evalplus())
    (problem,) = load_problems(f"evalplus:{path}")
    assert len(problem.tests) == 3
    codes = [
        problem.references[0],
        "def halves(xs): return [x * 0.5 for x in xs]",
        "def halves(xs): return tuple(x / 2 for x in xs)",
        "def halves(xs): return [x / 2 for x in xs if x != 3.3]",
    ]
    assert rewards([problem] * 4, codes, evaluator) == [1.0, 1.0, 0.0, 0.0]
    row = published.evalplus(
        task_id=3, prompt="'''\nHalf of every number.\n'''",
        canonical_solution="\ndef halves(xs):\n    return [x / 2 for x in xs]\n",
    )  # fmt: skip
    (problem,) = load_problems(f"mbppplus:{jsonl(tmp_path / 'MbppPlus.jsonl', row)}")
    assert problem.statement == "Half of every number.\n"
    assert rewards([problem], codes[:1], evaluator) == [1.0]


def test_every_source_is_described(capsys):
    assert "deepmind/code_contests" in describe_sources()
    told = describe_sources("apps")
    assert "columns needed: question, input_output" in told
    assert "{adapter: apps, path: FOLDER_OR_FILE}" in told
    assert "adapter: mapping" in describe_sources("mapping")
    with pytest.raises(UserError, match="did you mean apps"):
        describe_sources("aps")


def test_a_benchmark_that_is_not_there_says_where_files_go(monkeypatch):
    import huggingface_hub

    def refuse(*arguments, **named):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", refuse)
    with pytest.raises(UserError, match=r"HumanEval\.jsonl\.gz .* in a folder .*--data PATH"):
        load_problems("humaneval")
    assert benchmark("evalplus").title == "HumanEval+"


def test_packages_show_their_samples_and_years_and_may_be_links(tmp_path):
    published.package(tmp_path / "away" / "sum", "name: Sum\nsource: NCPC 2019\n")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "linked").symlink_to(tmp_path / "away")
    record = only("problem-package", tmp_path)
    assert record.date == "2019-01-01"
    assert "## Sample Input 1\n\n```\n" in record.statement
    records, _ = read("problem-package", tmp_path / "set")
    assert len(records) == 1
