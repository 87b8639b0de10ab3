"""The problem record: what it refuses, and that a row and back is the same record."""

import hashlib
import json

import pytest

from mcbench.data import ProblemRecord
from mcbench.errors import UserError
from mcbench.nano.problems import load_split

STDIN = {"stdin": "1 2\n", "expected": "3\n"}
RECORD = ProblemRecord(
    id="s/1",
    statement="Print the sum — of two numbers.",
    form="stdin",
    tests=(STDIN, {"stdin": "\ud800"}),
    references=("print(1)",),
    tags=("maths", ""),
    difficulty="easy",
    difficulty_provenance="source",
    dimensions={"reading": 0.25},
    metadata={"rating": 800, "nested": {"b": [None, 1.5], "a": 10**30}},
)


def test_row_and_back_is_the_same_record():
    assert ProblemRecord.from_row(RECORD.to_row()) == RECORD


def test_a_finished_record_becomes_a_problem():
    problem = ProblemRecord(**{**RECORD.__dict__, "tests": (STDIN,), "url": "u"}).to_problem()
    assert (problem.id, problem.reference, problem.tests) == ("s/1", "print(1)", (STDIN,))
    assert problem.metadata["url"] == "u"
    with pytest.raises(UserError, match="lacks"):
        RECORD.to_problem()  # a test without an expected output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "needs an id"),
        ({"statement": None}, "statement must be text, got NoneType"),
        ({"statement": "\ud800"}, "lone surrogate"),
        ({"form": "stdio"}, "unknown problem form 'stdio'"),
        ({"form": "call"}, "needs fn_name"),
        ({"fn_name": "a b"}, "Python name"),
        ({"tests": (3,)}, "test 0 must be a dict"),
        ({"tests": ({"expected": "1"},)}, "lacks 'stdin'"),
        ({"tests": ({"stdin": "1", "expected": 1},)}, "expected of test 0 must be text"),
        ({"tests": ({"stdin": "1", "output": "1"},)}, "unknown field of test 0 'output'"),
        ({"form": "call", "fn_name": "f", "tests": ({"args": 1},)}, "args of test 0 must be list"),
        ({"tags": ["a"]}, "tags must be a tuple"),
        ({"date": "2024-13-01"}, "date must be YYYY-MM-DD"),
        ({"date": "20240101"}, "date must be YYYY-MM-DD"),
        ({"time_limit_s": 0}, "time_limit_s must be positive"),
        ({"pass_rate": 1.5}, "pass_rate must lie between 0 and 1"),
        ({"pass_rate": float("nan")}, "pass_rate must be a number"),
        ({"difficulty": "brutal"}, "unknown difficulty"),
        ({"difficulty_provenance": "guess"}, "unknown difficulty_provenance"),
        ({"metadata": []}, "must be dicts"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(change, message):
    with pytest.raises(UserError, match=message):
        ProblemRecord(**{**RECORD.__dict__, **change})


def test_a_row_of_another_layout_is_refused():
    row = RECORD.to_row()
    with pytest.raises(UserError, match="column 'url' is missing"):
        ProblemRecord.from_row({k: v for k, v in row.items() if k != "url"})
    with pytest.raises(UserError, match="unknown column 'rating'"):
        ProblemRecord.from_row({**row, "rating": 1})
    with pytest.raises(UserError, match="column tests is damaged"):
        ProblemRecord.from_row({**row, "tests": "[1"})


def test_nano_rows_keep_their_bytes():
    """Run ids hash them."""
    rows = json.dumps([p.to_row() for p in load_split("test")], sort_keys=True)
    assert hashlib.sha256(rows.encode()).hexdigest()[:16] == "26ba59c2f35add2a"
