"""Codeforces problems as open-r1 publishes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, texts
from mcbench.data.collect.decode import Unusable, mebibytes, seconds, type_name
from mcbench.data.collect.rows import read_rows, text_field
from mcbench.data.schema import Problem

# Codeforces ratings; 1200 and 1900 are where its divisions of contestants begin.
EASY_BELOW, HARD_FROM = 1200, 1900


def codeforces(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of open-r1/codeforces.

    Only problems that standard input and a set answer or a checker can judge: interactive ones and
    those that read files are refused.
    """
    if row.get("interaction_format"):
        raise Unusable(
            "unsupported", "interactive: its answers depend on a dialogue with the judge"
        )
    if row.get("input_mode") not in (None, "stdio"):
        raise Unusable("unsupported", f"reads its input from a {row['input_mode']}")
    statement = _statement(row)
    tests = row.get("official_tests") or []
    if not isinstance(tests, list):
        raise Unusable("malformed", f"official_tests should be a list, found {type_name(tests)}")
    for number, test in enumerate(tests):
        if not isinstance(test, dict):
            raise Unusable("malformed", f"test {number} should be an object")
        reader.stdio(test.get("input"), test.get("output"))
    if reader.other is not None and row.get("generated_tests"):
        _add_generated(reader, reader.other, text_field(row, "id"))
    checker = row.get("generated_checker") or ""
    key = text_field(row, "id")
    contest, _, index = key.partition("/")
    return reader.record(
        key,
        {
            "title": row.get("title"),
            "rating": row.get("rating"),
            "contest": row.get("contest_name"),
            "tests_complete": row.get("official_tests_complete"),
        },
        statement=statement,
        checker=checker,
        checker_language="python" if checker else "",
        checker_protocol="score" if checker else "",
        time_limit_s=seconds(row.get("time_limit")),
        memory_limit_mb=mebibytes(row.get("memory_limit")),
        date=_day(row.get("contest_start")),
        language="en",
        tags=texts(row.get("tags")),
        url=f"https://codeforces.com/problemset/problem/{contest}/{index}" if index else "",
        **level(level_of_rating(row.get("rating")), THREE_LEVELS),
    )


def _add_generated(reader: RowReader, other: Callable[[str], Path], problem: str) -> None:
    """Add the tests that open-r1 generated; a file holds those of one contest.

    The official tests are only those that the site shows whole, which are short.
    """
    contest = problem.partition("/")[0]
    if not contest.isdecimal():
        raise Unusable("malformed", f"the id {problem!r} does not begin with a contest's number")
    path = other(f"generated_tests/test_cases_{int(contest):04}.parquet")
    columns = ("problem_id", "input", "output")
    for row in read_rows(path, columns, reader.limits):
        if isinstance(row.data, dict) and row.data.get("problem_id") == problem:
            reader.stdio(row.data.get("input"), row.data.get("output"))


def _statement(row: dict[str, Any]) -> str:
    """The parts of the page in its order, each under its heading."""
    parts = [text_field(row, "description")]
    headings = {"input_format": "Input", "output_format": "Output", "note": "Note"}
    for name, heading in headings.items():
        if name == "note":
            parts += [
                f"Example input\n{example.get('input')}\nExample output\n{example.get('output')}"
                for example in row.get("examples") or []
                if isinstance(example, dict)
            ]
        if row.get(name):
            parts.append(f"{heading}\n\n{row[name]}")
    return "\n\n".join(parts)


def level_of_rating(rating: Any) -> str:
    """The level of a Codeforces rating; empty where there is none."""
    if not isinstance(rating, (int, float)):
        return ""
    return "easy" if rating < EASY_BELOW else "hard" if rating >= HARD_FROM else "medium"


def _day(timestamp: Any) -> str:
    """Unix time as a date; empty where there is none that a calendar holds."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).date().isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


CODEFORCES = Adapter(
    name="codeforces",
    about="open-r1's Codeforces problems (https://huggingface.co/datasets/open-r1/codeforces)",
    repo="open-r1/codeforces",
    licence="CC-BY-4.0",
    subsets={
        "train": ("data/train-*.parquet",),
        "test": ("data/test-*.parquet",),
        "verifiable": ("verifiable/train-*.parquet",),
        "verifiable-test": ("verifiable/test-*.parquet",),
    },
    needs=(("id",), ("description",), ("official_tests",), ("input_mode",)),
    reads=(
        "title", "input_format", "output_format", "interaction_format", "note", "examples",
        "rating", "tags", "contest_name", "contest_start", "time_limit", "memory_limit",
        "official_tests_complete", "generated_checker", "generated_tests",
    ),
    convert=codeforces,
)  # fmt: skip
