"""open-r1's sets: codeforces and verifiable-coding-problems-python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, texts
from mcbench.data.collect.apps import add_pairs, form_of, json_or_itself, method_name, python_only
from mcbench.data.collect.decode import Unusable, mebibytes, parse_json, seconds, type_name
from mcbench.data.collect.rows import Row, read_rows, text_field
from mcbench.data.schema import ProblemRecord

# Codeforces ratings; 1200 and 1900 are where its divisions of contestants begin.
EASY_BELOW, HARD_FROM = 1200, 1900


def codeforces(row: dict[str, Any], reader: RowReader) -> ProblemRecord:
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
        reader.stdio(number, test.get("input"), test.get("output"))
    if reader.other is not None and row.get("generated_tests"):
        _add_generated(reader, reader.other, text_field(row, "id"))
    checker = row.get("generated_checker") or ""
    return reader.record(
        text_field(row, "id"),
        {
            "title": row.get("title"),
            "rating": row.get("rating"),
            "contest": row.get("contest_name"),
            "tests_complete": row.get("official_tests_complete"),
        },
        statement=statement,
        form="stdin",
        checker=checker,
        checker_language="python" if checker else "",
        time_limit_s=seconds(row.get("time_limit")),
        memory_limit_mb=mebibytes(row.get("memory_limit")),
        date=_day(row.get("contest_start")),
        language="en",
        tags=texts(row.get("tags")),
        url=_url(row["id"]),
        **_rated(row.get("rating")),
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
        if isinstance(row, Row) and row.data.get("problem_id") == problem:
            number = len(reader.tests) + len(reader.left_out)
            reader.stdio(number, row.data.get("input"), row.data.get("output"))


def _statement(row: dict[str, Any]) -> str:
    """The parts of the page in its order, each under its heading."""
    parts = [text_field(row, "description")]
    headings = {"input_format": "Input", "output_format": "Output", "note": "Note"}
    for name, heading in headings.items():
        if name == "note":
            parts += _examples(row.get("examples"))
        if row.get(name):
            parts.append(f"{heading}\n\n{row[name]}")
    return "\n\n".join(parts)


def _examples(examples: Any) -> list[str]:
    shown = [e for e in examples or [] if isinstance(e, dict)]
    return [f"Example input\n{e.get('input')}\nExample output\n{e.get('output')}" for e in shown]


def _rated(rating: Any) -> dict[str, str]:
    if not isinstance(rating, (int, float)):
        return {}
    name = "easy" if rating < EASY_BELOW else "hard" if rating >= HARD_FROM else "medium"
    return level(name, THREE_LEVELS)


def _day(timestamp: Any) -> str:
    """Unix time as a date; empty where there is none that a calendar holds."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).date().isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def _url(problem: str) -> str:
    contest, _, index = problem.partition("/")
    return f"https://codeforces.com/problemset/problem/{contest}/{index}" if index else ""


def verifiable(row: dict[str, Any], reader: RowReader) -> ProblemRecord:
    """A row of open-r1/verifiable-coding-problems-python or of the sets made from it."""
    statement = text_field(row, "problem_statement", "problem", "prompt")
    info = _object(row.get("verification_info"), "verification_info")
    if info.get("language", "python") != "python":
        raise Unusable("unsupported", f"its tests are for {info['language']}, not Python")
    cases = info.get("test_cases")
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise Unusable("malformed", "verification_info.test_cases should be a list of objects")
    fn_name = method_name(cases[0].get("fn_name") if cases else None)
    rows = [(case.get("input"), case.get("output")) for case in cases]
    if fn_name:
        rows = [(json_or_itself(args), json_or_itself(output)) for args, output in rows]
    add_pairs(reader, rows, fn_name)
    about = _object(row.get("metadata") or {}, "metadata")
    solution = row.get("gold_standard_solution")
    return reader.record(
        row.get("problem_id") or None,
        {
            "platform": row.get("source"),
            "id_in_source": row.get("in_source_id"),
            "source_difficulty": about.get("difficulty"),
        },
        statement=statement,
        **form_of(fn_name),
        references=python_only([solution]),
        time_limit_s=seconds(about.get("time_limit")),
        memory_limit_mb=mebibytes(about.get("memory_limit")),
        url=about.get("problem_url") or "",
        **level(about.get("difficulty"), VERIFIABLE_LEVELS),
    )


# The words of its sources: APPS (introductory, interview, competition) and TACO.
VERIFIABLE_LEVELS = {
    **THREE_LEVELS,
    "introductory": "easy",
    "interview": "medium",
    "competition": "hard",
    "medium_hard": "medium",
    "very_hard": "hard",
}


def _object(value: Any, field: str) -> dict[str, Any]:
    data = parse_json(value, field) if isinstance(value, str) else value
    if not isinstance(data, dict):
        raise Unusable("malformed", f"{field} should be an object, found {type_name(data)}")
    return data


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

_VERIFIABLE = "https://huggingface.co/datasets/open-r1/verifiable-coding-problems-python"

VERIFIABLE = Adapter(
    name="verifiable-coding-problems",
    about=f"open-r1's Python problems of PrimeIntellect's set ({_VERIFIABLE})",
    repo="open-r1/verifiable-coding-problems-python",
    subsets={"train": ("data/train-*.parquet",)},
    needs=(("problem_statement", "problem", "prompt"), ("verification_info",)),
    reads=("problem_id", "source", "in_source_id", "gold_standard_solution", "metadata"),
    convert=verifiable,
)
