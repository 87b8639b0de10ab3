"""The problem: what it refuses, and that a row and back is the same problem."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from mcbench.data import Problem
from mcbench.data.storage import decode, read_problems, write_problems
from mcbench.errors import UserError

STDIN = {"stdin": "1 2\n", "expected": "3\n"}
PROBLEM = Problem(
    id="s/1",
    statement="Print the sum — of two numbers.",
    form="stdin",
    tests=(STDIN, {"stdin": "\ud800", "expected": ""}),
    references=("print(1)",),
    tags=("maths", ""),
    difficulty="easy",
    difficulty_provenance="source",
    dimensions={"reading": 0.25},
    metadata={"rating": 800, "nested": {"b": [None, 1.5], "a": 10**30}},
)


def test_row_and_back_is_the_same_problem(tmp_path):
    write_problems(tmp_path / "shard.parquet", [PROBLEM] * 20)
    assert read_problems(tmp_path / "shard.parquet") == [PROBLEM] * 20


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tests": ()}, "it has no tests"),
        ({"tests": (STDIN,), "checker": "int main() {}"}, "a checker in no known language"),
    ],
)
def test_what_cannot_be_judged_says_why(change, reason):
    assert reason in replace(PROBLEM, **change).unjudged()
    assert replace(PROBLEM, tests=(STDIN,)).unjudged() == ""


def test_a_training_row_has_limits_only_where_the_problem_sets_them():
    row = PROBLEM.to_row()
    assert list(row) == ["prompt", "problem_id", "form", "fn_name", "difficulty", "kind", "tests"]
    own = replace(PROBLEM, time_limit_s=3.0, memory_limit_mb=64, preamble="import math")
    assert own.to_row() == {
        **row, "time_limit_s": 3.0, "memory_limit_mb": 64, "preamble": "import math",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "needs an id"),
        ({"tests": (STDIN, {"stdin": "1"})}, "test 1 lacks 'expected'"),
        ({"statement": None}, "statement must be text, got None"),
        ({"statement": "\ud800"}, "lone surrogate"),
        ({"form": "stdio"}, "unknown form 'stdio'"),
        ({"form": "call"}, "needs fn_name"),
        ({"fn_name": "a b"}, "Python name"),
        ({"tests": (3,)}, "tests must be a mapping"),
        ({"tests": ({"expected": "1"},)}, "lacks 'stdin'"),
        ({"tests": ({"stdin": "1", "expected": 1},)}, "expected of test 0 must be text"),
        ({"tests": ({"stdin": "1", "output": "1"},)}, "unknown field of test 0 'output'"),
        ({"form": "call", "fn_name": "f", "tests": ({"args": 1},)}, "args of test 0 must be list"),
        ({"tags": ["a"]}, "tags must be a list .in Python a tuple."),
        ({"date": "2024-13-01"}, "date must be YYYY-MM-DD"),
        ({"date": "20240101"}, "date must be YYYY-MM-DD"),
        ({"time_limit_s": 0}, "time_limit_s must be greater than 0"),
        ({"pass_rate": 1.5}, "pass_rate must be from 0 to 1"),
        ({"pass_rate": float("nan")}, "pass_rate must be from 0 to 1, got nan"),
        ({"difficulty": "brutal"}, "unknown difficulty"),
        ({"difficulty_provenance": "guess"}, "unknown difficulty_provenance"),
        ({"metadata": []}, "metadata must be a mapping"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(change, message):
    with pytest.raises(UserError, match=message):
        Problem(**{**PROBLEM.__dict__, **change})


def test_a_row_of_another_layout_is_refused(tmp_path):
    write_problems(tmp_path / "shard.parquet", [PROBLEM])
    [row] = pq.read_table(tmp_path / "shard.parquet").to_pylist()
    with pytest.raises(UserError, match="column 'url' is missing"):
        decode({k: v for k, v in row.items() if k != "url"})
    with pytest.raises(UserError, match="unknown field 'rating'"):
        decode({**row, "rating": 1})
    with pytest.raises(UserError, match="column tests is damaged"):
        decode({**row, "tests": "[1"})
