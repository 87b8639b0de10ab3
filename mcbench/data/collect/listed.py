"""Sets with tests as lists of inputs and outputs: APPS, TACO, DeepCoder, LiveCodeBench, open-r1's
verifiable problems, CodeContests, Codeforces, and any other rows through a mapping.

Tests are one object of lists, "inputs" and "outputs" with an optional "fn_name", or a list of
objects with one input and output each.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from mcbench.data.collect.adapter import LEVELS, Adapter, RowReader, column, python_only, text_field
from mcbench.data.collect.decode import (
    MB,
    Unusable,
    json_or_itself,
    names,
    object_or_none,
    of_type,
    parse_json,
    type_name,
    unpack_pickled_json,
)
from mcbench.data.collect.rows import read_rows
from mcbench.data.schema import Difficulty
from mcbench.errors import UserError

Row = dict[str, Any]
_KEYS = ("input", "output")


def add_tests(
    reader: RowReader, tests: Any, where: str, fn_name: Any = "", keys: tuple[str, str] = _KEYS
) -> str:
    """Add the tests of ``{"inputs": [...], "outputs": [...]}`` or of a list of objects.

    Both may name the method to call as "fn_name". An input is then a list of arguments (as JSON
    text in a list of objects), else text or a list of lines. Where every output of a method is a
    list of one element, that element is what it returns: the sets wrap results so, and their judge
    takes both readings.

    Returns:
        The method's name, empty for standard input.

    Raises:
        Unusable: not of this form.
    """
    if isinstance(tests, dict):
        fn_name = method_name(tests.get("fn_name")) or method_name(fn_name)
        rows = pairs(tests.get("inputs"), tests.get("outputs"), where)
    else:
        for number, case in enumerate(of_type(list, tests, where)):
            if not isinstance(case, dict) or set(keys) - case.keys():
                raise Unusable(f"test {number} of {where} lacks {', '.join(keys)}")
        fn_name = method_name(fn_name or (tests and tests[0].get("fn_name")))
        rows = [(case[keys[0]], case[keys[1]]) for case in tests]
        if fn_name:
            rows = [(json_or_itself(given), json_or_itself(output)) for given, output in rows]
    wrapped = all(isinstance(output, list) and len(output) == 1 for _, output in rows)
    for given, output in rows:
        if fn_name:
            reader.call(given, output[0] if wrapped else output)
        else:
            reader.stdio(given, output)
    return fn_name


def add_functional(reader: RowReader, tests: Any, name: Any) -> str:
    """Add LiveCodeBench's tests of a method: an argument a line as JSON, and one JSON value.

    Raises:
        Unusable: not of this form, or no name.
    """
    fn_name = method_name(name)
    if not fn_name:
        raise Unusable("the tests call a method that metadata.func_name lacks")
    for number, test in enumerate(tests):
        expected = parse_json(test.get("output"), f"the output of test {number}")
        try:
            args = [json.loads(line) for line in test["input"].split("\n")]
        except (AttributeError, KeyError, ValueError, RecursionError):
            raise Unusable(f"arguments are not JSON lines: {test.get('input')!r:.60}") from None
        reader.call(args, expected)
    return fn_name


def method_name(value: Any) -> str:
    """The name of the method to call, empty where there is none.

    Raises:
        Unusable: not a Python name.
    """
    if not value:
        return ""
    if not isinstance(value, str) or not value.isidentifier():
        raise Unusable(f"fn_name is no Python name: {value!r:.60}")
    return value


def pairs(inputs: Any, outputs: Any, where: str) -> list[tuple[Any, Any]]:
    """Inputs and outputs side by side.

    Raises:
        Unusable: not two lists of one length.
    """
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        found = f"{type_name(inputs)} and {type_name(outputs)}"
        raise Unusable(f"{where} needs lists of inputs and outputs, has {found}")
    if len(inputs) != len(outputs):
        raise Unusable(f"{where} has {len(inputs)} inputs and {len(outputs)} outputs")
    return list(zip(inputs, outputs, strict=True))


# APPS, TACO and DeepCoder -------------------------------------------------------------------------


def lists_row(row: Row, reader: RowReader) -> Row:
    tests = parse_json(row.get("input_output"), "input_output")
    number = column(row, "problem_id|id")
    return {
        "id": None if number is None else f"{reader.subset}/{number}",
        "fn_name": add_tests(reader, tests, "input_output"),
        "metadata": {"skills": list(names(row.get("skill_types")))},
    }


def deepcoder_row(row: Row, reader: RowReader) -> Row:
    tests = row.get("tests")
    tests = parse_json(tests, "tests") if isinstance(tests, str) else tests
    first = object_or_none(tests[0]) if isinstance(tests, list) and tests else {}
    if first.get("testtype") == "functional":
        name = column(first, "metadata.func_name") or column(row, "metadata.func_name")
        fn_name = add_functional(reader, tests, name)
    else:
        fn_name = add_tests(reader, tests, "tests")
    return {
        "fn_name": fn_name,
        "metadata": {"source_metadata": object_or_none(row.get("metadata"))},
    }


# LiveCodeBench ------------------------------------------------------------------------------------

# Problems that its ERRATA.md names; their scores count all the same, as on the leaderboard.
_ERRATA = {
    "errata_several_answers": (
        "abc311_c abc326_d abc327_b abc333_e abc343_e abc362_c arc185_c abc343_a "
        "find-words-containing-character find-the-peaks "
        "generate-binary-strings-without-adjacent-zeros"
    ),
    "errata_wrong_tests": (
        "abc350_c apply-operations-to-make-string-empty most-frequent-ids arc189_a"
    ),
    "errata_interactive": "abc337_e abc355_e",
}


def livecodebench_row(row: Row, reader: RowReader) -> Row:
    """All tests together, the public ones first."""
    columns = ("public_test_cases", "private_test_cases")
    tests = [test for name in columns for test in _tests_of(row, name)]
    kinds = {test.get("testtype") for test in tests}
    fn_name = ""
    if kinds == {"functional"}:
        fn_name = add_functional(reader, tests, column(row, "metadata.func_name"))
    elif kinds == {"stdin"}:
        for test in tests:
            reader.stdio(test.get("input"), test.get("output"))
    else:
        found = ", ".join(sorted(map(str, kinds))) or "no tests"
        raise Unusable(f"tests should be all stdin or all functional, found {found}")
    title = str(row.get("question_title") or "")
    known = {text_field(row, "question_id"), "-".join(title.lower().split())}
    flags = tuple(flag for flag, problems in _ERRATA.items() if known & set(problems.split()))
    return {"fn_name": fn_name, "flags": flags}


def _tests_of(row: Row, name: str) -> list[Row]:
    """Public tests are JSON text, private ones that or base64 of zlib of a pickled JSON text, which
    is parsed without unpickling (:mod:`mcbench.data.collect.decode`).
    """
    text = of_type(str, row.get(name), name)
    read = parse_json if text.lstrip()[:1] == "[" else unpack_pickled_json
    tests: list[Row] = read(text, name)
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise Unusable(f"{name} should hold a list of objects")
    return tests


# open-r1 ------------------------------------------------------------------------------------------


def verifiable_row(row: Row, reader: RowReader) -> Row:
    info = row.get("verification_info")
    info = parse_json(info, "verification_info") if isinstance(info, str) else info
    info = of_type(dict, info, "verification_info")
    if info.get("language", "python") != "python":
        raise Unusable(f"its tests are for {info['language']}, not Python", "unsupported")
    where = "verification_info.test_cases"
    return {"fn_name": add_tests(reader, info.get("test_cases"), where)}


# Codeforces ratings; 1200 and 1900 are where its divisions of contestants begin.
EASY_BELOW, HARD_FROM = 1200, 1900


def level_of_rating(rating: Any) -> str:
    """The level of a Codeforces rating; empty where there is none."""
    if not isinstance(rating, (int, float)):
        return ""
    return "easy" if rating < EASY_BELOW else "hard" if rating >= HARD_FROM else "medium"


def codeforces_row(row: Row, reader: RowReader) -> Row:
    """Interactive problems and those that read files are refused."""
    if row.get("interaction_format"):
        told = "interactive: its answers depend on a dialogue with the judge"
        raise Unusable(told, "unsupported")
    if row.get("input_mode") not in (None, "stdio"):
        raise Unusable(f"reads its input from a {row['input_mode']}", "unsupported")
    tests = row.get("official_tests") or []
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise Unusable("official_tests should be a list of objects")
    for test in tests:
        reader.stdio(test.get("input"), test.get("output"))
    key, checker = text_field(row, "id"), row.get("generated_checker") or ""
    contest, _, index = key.partition("/")
    if reader.other is not None and row.get("generated_tests"):
        _add_generated(reader, contest, key)
    try:
        day = datetime.fromtimestamp(row["contest_start"], UTC).date().isoformat()
    except (KeyError, TypeError, ValueError, OverflowError, OSError):  # in no calendar
        day = ""
    return {
        "statement": _codeforces_page(row),
        "checker": checker,
        "checker_language": "python" if checker else "",
        "checker_protocol": "score" if checker else "",
        "date": day,
        "url": f"https://codeforces.com/problemset/problem/{contest}/{index}" if index else "",
        "difficulty": level_of_rating(row.get("rating")),
    }


def _add_generated(reader: RowReader, contest: str, problem: str) -> None:
    """Add the tests that open-r1 generated; a file holds those of one contest.

    The official tests are only those that the site shows whole, which are short.
    """
    if not contest.isdecimal():
        raise Unusable(f"the id {problem!r} does not begin with a contest's number")
    assert reader.other is not None
    path = reader.other(f"generated_tests/test_cases_{int(contest):04}.parquet")
    for row in read_rows(path, ("problem_id", *_KEYS)):
        if isinstance(row.data, dict) and row.data.get("problem_id") == problem:
            reader.stdio(row.data.get("input"), row.data.get("output"))


def _codeforces_page(row: Row) -> str:
    """The parts of the page in its order, each under its heading."""
    examples = [
        f"Example input\n{example.get('input')}\nExample output\n{example.get('output')}"
        for example in row.get("examples") or []
        if isinstance(example, dict)
    ]
    input_format, output_format, note = (
        [f"{heading}\n\n{row[name]}"] if row.get(name) else [] for name, heading in _HEADED.items()
    )
    description = text_field(row, "description")
    return "\n\n".join([description, *input_format, *output_format, *examples, *note])


_HEADED = {"input_format": "Input", "output_format": "Output", "note": "Note"}


# CodeContests -------------------------------------------------------------------------------------

# The set's own numbers.
_SITES = ("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")
_PYTHON3 = 3
_CONTEST_LEVELS = {1: "easy", 2: "medium", 3: "hard", 4: "hard", 5: "hard"}


def contests_row(row: Row, reader: RowReader) -> Row:
    """The tests that the set's authors generated come last."""
    if row.get("input_file") or row.get("output_file"):
        raise Unusable("reads or writes files", "unsupported")
    for part in ("public_tests", "private_tests", "generated_tests"):
        tests = object_or_none(row.get(part))
        for given, answer in zip(tests.get("input") or [], tests.get("output") or [], strict=False):
            reader.stdio(given, answer)
    solutions = object_or_none(row.get("solutions"))
    programs = zip(solutions.get("language") or [], solutions.get("solution") or [], strict=False)
    site, rating = row.get("source"), row.get("cf_rating") or None
    limit, memory = object_or_none(row.get("time_limit")), row.get("memory_limit_bytes")
    platform = _SITES[site] if isinstance(site, int) and site < len(_SITES) else "unknown"
    return {
        "references": python_only([code for language, code in programs if language == _PYTHON3]),
        "time_limit_s": (limit.get("seconds") or 0) + (limit.get("nanos") or 0) / 1e9 or None,
        "memory_limit_mb": memory / MB if isinstance(memory, int) and memory > 0 else None,
        "difficulty": level_of_rating(rating)
        or _CONTEST_LEVELS.get(row.get("difficulty") or 0, ""),
        "metadata": {"platform": platform, "rating": rating},
    }


# Any rows -----------------------------------------------------------------------------------------

MappedField = Literal[
    "id", "statement", "tests", "inputs", "outputs", "fn_name", "starter_code", "references",
    "difficulty", "url", "date", "language", "tags", "licence", "time_limit_s", "memory_limit_mb",
]  # fmt: skip
TestKey = Literal["input", "output"]
_LISTS = ("inputs", "outputs")
_TEST_FIELDS = ("tests", *_LISTS, "fn_name")


def mapping_adapter(
    name: str,
    columns: dict[MappedField, str],
    test_keys: dict[TestKey, str],
    levels: dict[str, Difficulty],
) -> Adapter:
    """An adapter that reads rows through a mapping from fields of a record to columns.

    Args:
        columns: from field to column, as an adapter's. ``statement`` is needed, and either
            ``tests`` or both of ``inputs`` and ``outputs``. ``tests`` is a list of objects, or one
            object of lists "inputs" and "outputs" as in APPS. With ``fn_name`` (in a column or in
            the tests) an input is the list of arguments.
        test_keys: what "input" and "output" are called in the objects of ``tests``.
        levels: from the source's words for difficulty to easy, medium and hard.

    Raises:
        UserError: there is no name, or a needed column is missing.
    """
    if not name:
        raise UserError("a source with a mapping needs a name, with which its ids begin")
    if "statement" not in columns:
        raise UserError("a mapping needs the column of the statement: columns.statement")
    if "tests" not in columns and not {"inputs", "outputs"} <= columns.keys():
        raise UserError("a mapping needs columns.tests, or columns.inputs and columns.outputs")
    given = {str(key): path for key, path in columns.items()}
    keys = (test_keys.get("input", "input"), test_keys.get("output", "output"))
    needed = [given[key] for key in ("statement", "tests", *_LISTS) if key in given]
    words: dict[str, str] = {key.lower().replace(" ", "_"): value for key, value in levels.items()}
    return Adapter(
        name=name,
        about="rows read through a mapping",
        subsets={"": ()},
        needs=tuple(path.partition(".")[0] for path in needed),
        columns={key: path for key, path in given.items() if key not in _TEST_FIELDS},
        reads=tuple(given[key] for key in _TEST_FIELDS if key in given),
        levels=words or LEVELS,
        tests=partial(_mapped, columns=given, keys=keys),
    )


def _mapped(row: Row, reader: RowReader, columns: dict[str, str], keys: tuple[str, str]) -> Row:
    name = column(row, columns["fn_name"]) if "fn_name" in columns else ""
    if "tests" in columns:
        tests, where = json_or_itself(column(row, columns["tests"])), columns["tests"]
    else:
        inputs, outputs = (json_or_itself(column(row, columns[key])) for key in _LISTS)
        where = "the mapping"
        tests = [dict(zip(keys, pair, strict=True)) for pair in pairs(inputs, outputs, where)]
    return {"fn_name": add_tests(reader, tests, where, name, keys)}
