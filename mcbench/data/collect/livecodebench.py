"""LiveCodeBench's code generation set (livecodebench/code_generation_lite), read from its files.

Release n is the union of the first n files. A file is JSON lines; public tests are JSON text,
private ones base64 of zlib of a pickled JSON text, which is parsed without unpickling. A test of a
method has one JSON value a line as input and one as output.
"""

from __future__ import annotations

from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level
from mcbench.data.collect.apps import add_functional
from mcbench.data.collect.decode import (
    Unusable,
    iso_date,
    object_or_none,
    parse_json,
    type_name,
    unpack_pickled_json,
)
from mcbench.data.collect.rows import text_field
from mcbench.data.schema import Problem

FILES = ("test.jsonl", *(f"test{n}.jsonl" for n in range(2, 7)))
COLUMNS = (
    "question_title", "question_content", "platform", "question_id", "contest_date",
    "starter_code", "difficulty", "public_test_cases", "private_test_cases", "metadata",
)  # fmt: skip

# Problems that its ERRATA.md names; their scores count all the same, as on the leaderboard.
SEVERAL_ANSWERS = frozenset(
    [
        "abc311_c", "abc326_d", "abc327_b", "abc333_e", "abc343_e", "abc362_c", "arc185_c",
        "abc343_a", "find-words-containing-character", "find-the-peaks",
        "generate-binary-strings-without-adjacent-zeros",
    ]
)  # fmt: skip
WRONG_TESTS = frozenset(
    ["abc350_c", "apply-operations-to-make-string-empty", "most-frequent-ids", "arc189_a"]
)
INTERACTIVE = frozenset(["abc337_e", "abc355_e"])


def convert(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of any release, all tests together, the public ones first."""
    statement = text_field(row, "question_content")
    tests = _tests(row, "public_test_cases", reader) + _tests(row, "private_test_cases", reader)
    kinds = {test.get("testtype") for test in tests}
    if kinds == {"functional"}:
        metadata = object_or_none(row.get("metadata"))
        fn_name = add_functional(reader, tests, metadata.get("func_name"))
    elif kinds == {"stdin"}:
        fn_name = ""
        for test in tests:
            reader.stdio(test.get("input"), test.get("output"))
    else:
        found = ", ".join(sorted(map(str, kinds))) or "no tests"
        raise Unusable("malformed", f"tests should be all stdin or all functional, found {found}")
    key = text_field(row, "question_id")
    title = str(row.get("question_title") or "")
    return reader.record(
        key,
        {"title": title, "platform": row.get("platform"), "contest": row.get("contest_id")},
        _errata(key, title),
        statement=statement,
        fn_name=fn_name,
        starter_code=row.get("starter_code") or "",
        date=iso_date(row.get("contest_date")),
        language="en",
        **level(row.get("difficulty"), THREE_LEVELS),
    )


def _tests(row: dict[str, Any], column: str, reader: RowReader) -> list[dict[str, Any]]:
    text = row.get(column)
    if not isinstance(text, str):
        raise Unusable("malformed", f"{column} should be text, found {type_name(text)}")
    if text.lstrip()[:1] == "[":
        tests = parse_json(text, column)
    else:
        tests = unpack_pickled_json(text, column, reader.limits.unpacked_mb)
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise Unusable("malformed", f"{column} should hold a list of objects")
    return tests


def _errata(key: str, title: str) -> tuple[str, ...]:
    names = {key, "-".join(title.lower().split())}
    known = {
        "errata_several_answers": SEVERAL_ANSWERS,
        "errata_wrong_tests": WRONG_TESTS,
        "errata_interactive": INTERACTIVE,
    }
    return tuple(flag for flag, problems in known.items() if names & problems)


LIVECODEBENCH = Adapter(
    name="livecodebench",
    about="LiveCodeBench (https://huggingface.co/datasets/livecodebench/code_generation_lite)",
    repo="livecodebench/code_generation_lite",
    licence="CC",
    subsets={
        "release_v6": FILES,
        **{f"release_v{n}": FILES[:n] for n in range(1, 6)},
        **{f"v{n}": (FILES[n - 1],) for n in range(1, 7)},
    },
    needs=tuple((name,) for name in COLUMNS),
    reads=("contest_id",),
    convert=convert,
)
