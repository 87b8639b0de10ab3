"""The sources of problems with other layouts, from row to reward."""

import json

import pytest

from mcbench.data.benchmarks import benchmark
from mcbench.data.build import build
from mcbench.data.collect.source import describe_sources
from mcbench.data.config import BuildConfig
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


def test_apps_where_a_download_keeps_it_with_a_fence_in_a_docstring(tmp_path):
    folder = tmp_path / ".cache" / "huggingface" / "snapshots" / "abc"
    fenced = f'"""Adds:\n\n```python\nprint(3)\n```\n"""\n{PROGRAM}'
    jsonl(folder / "train.jsonl", published.apps(solutions=json.dumps([fenced])))
    jsonl(folder / ".cache" / "train.jsonl", published.apps(question="Of the downloader."))
    record = only("apps", folder)
    assert (record.statement, record.references) == ("Print the sum of two numbers.", (fenced,))


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


def test_evalplus_is_read_as_the_hub_has_it(tmp_path, evaluator):
    """HumanEval+ has a ``check`` like HumanEval's, MBPP+ all its tests in one module."""
    path = jsonl(tmp_path / "HumanEvalPlus.jsonl", published.evalplus())
    (problem,) = load_problems(f"evalplus:{path}")
    codes = [
        problem.references[0],
        "def halves(xs): return [x * 0.5 for x in xs]",
        "def halves(xs): return [x / 2 for x in xs if x != 3.3]",
    ]
    assert rewards([problem] * 3, codes, evaluator) == [1.0, 1.0, 0.0]
    row = published.evalplus()
    del row["test"]  # as a release of its own has it
    with pytest.raises(UserError, match="test"):
        load_problems(f"evalplus:{jsonl(tmp_path / 'HumanEvalPlus.jsonl', row)}")


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


SPLIT = """Split the number n into two whole numbers from zero whose sum is n. If there are several
ways, print any of them: one line with the two numbers.
"""
SPLIT_PROGRAM = "n = int(input())\nprint(n - n // 3, n // 3)\n"
SPLIT_CHECKER = """import sys
n = int(open(sys.argv[1]).read())
found = list(map(int, sys.stdin.read().split()))
sys.exit(42 if len(found) == 2 and sum(found) == n and min(found) >= 0 else 43)
"""


@pytest.mark.slow
def test_from_published_rows_to_the_reward(tmp_path, evaluator):
    """Every reference of a built set gets reward 1, whatever its source and its judge."""
    pairs = [(2, 5), (8, 1), (3, 3), (10, 4)]
    io = {"inputs": [f"{a} {b}\n" for a, b in pairs], "outputs": [f"{a + b}\n" for a, b in pairs]}
    jsonl(tmp_path / "apps" / "train.jsonl", published.apps(input_output=json.dumps(io)))
    jsonl(tmp_path / "lcd" / "LeetCodeDataset-train.jsonl", published.leetcode())
    asserts = [f"assert gap({a}, {b}) == {abs(a - b)}" for a, b in pairs]
    code = "def gap(a, b):\n    return a - b if a > b else b - a\n"
    text = "Write a function to find how far apart two numbers are."
    jsonl(tmp_path / "mbpp.jsonl", published.mbpp(text=text, code=code, test_list=asserts))
    cases = {f"data/secret/{n}.in": f"{n}\n" for n in range(3, 9)}
    cases |= {f"data/secret/{n}.ans": f"0 {n}\n" for n in range(3, 9)}
    package = {
        "problem_statement/problem.en.tex": f"\\problemname{{Split}}\n{SPLIT}",
        "data/sample/1.in": "2\n", "data/sample/1.ans": "1 1\n",
        "data/secret/01.in": "1\n", "data/secret/01.ans": "0 1\n",
        "submissions/accepted/sum.py": SPLIT_PROGRAM,
        "output_validators/v.py": SPLIT_CHECKER,
    }  # fmt: skip
    published.package(tmp_path / "packages" / "split", "validation: custom\n", **package, **cases)
    sources = [
        {"adapter": "apps", "path": str(tmp_path / "apps")},
        {"adapter": "leetcode", "path": str(tmp_path / "lcd")},
        {"adapter": "mbpp", "path": str(tmp_path / "mbpp.jsonl")},
        {"adapter": "problem-package", "path": str(tmp_path / "packages")},
    ]
    out = str(tmp_path / "out")
    names = {"name": "mix", "out": out, "cache": str(tmp_path / "cache"), "workers": 2}
    build(BuildConfig(**names, sources=tuple(sources)))
    problems = load_problems(out)
    assert {problem.source for problem in problems} == {
        "apps", "leetcode", "mbpp", "problem-package",
    }  # fmt: skip
    assert rewards(problems, [p.references[0] for p in problems], evaluator) == [1.0] * 4
    split = [p for p in problems if p.checker]
    other = "n = int(input())\nprint(n, 0)\n"
    wrong = "n = int(input())\nprint(n, 1)\n"
    assert rewards(split * 2, [other, wrong], evaluator) == [1.0, 0.0]
