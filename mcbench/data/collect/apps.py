"""Sets with tests in the form of APPS: TACO, DeepCoder and open-r1's verifiable problems.

Tests are one object of lists, "inputs" and "outputs" with an optional "fn_name", or a list of
objects with one input and output each. DeepCoder's ``lcbv5`` has LiveCodeBench's.
"""

from __future__ import annotations

import json
from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, pairs, texts
from mcbench.data.collect.decode import (
    Unusable,
    iso_date,
    mebibytes,
    parse_json,
    parse_literal,
    seconds,
    type_name,
)
from mcbench.data.collect.rows import text_field
from mcbench.data.schema import Problem
from mcbench.evaluator import extract_code


def add_input_output(reader: RowReader, tests: Any) -> str:
    """Add the tests of ``{"inputs": [...], "outputs": [...], "fn_name": optional}``.

    An input is a list of arguments where there is a method, else text or a list of lines. Where
    every output is a list of one element, that element is what the method returns: the set wraps
    results so, and its judge takes both readings.

    Returns:
        The method's name, empty for standard input.

    Raises:
        Unusable: not of this form.
    """
    if not isinstance(tests, dict):
        raise Unusable("malformed", f"the tests should be an object, found {type_name(tests)}")
    fn_name = method_name(tests.get("fn_name"))
    rows = pairs(tests.get("inputs"), tests.get("outputs"), "the tests")
    add_pairs(reader, rows, fn_name)
    return fn_name


def add_pairs(reader: RowReader, rows: list[tuple[Any, Any]], fn_name: str) -> None:
    """Add pairs of input and output as `add_input_output` reads them."""
    if not fn_name:
        for number, (stdin, expected) in enumerate(rows):
            reader.stdio(number, stdin, expected)
        return
    wrapped = all(isinstance(output, list) and len(output) == 1 for _, output in rows)
    for number, (args, output) in enumerate(rows):
        reader.call(number, args, output[0] if wrapped else output)


def add_cases(
    reader: RowReader,
    cases: Any,
    where: str,
    fn_name: str = "",
    keys: tuple[str, str] = ("input", "output"),
) -> str:
    """Add tests that are objects of their own, with JSON text as values where a method is called.

    Returns:
        The method's name, empty for standard input.

    Raises:
        Unusable: not of this form.
    """
    if not isinstance(cases, list):
        raise Unusable("malformed", f"{where} should be a list, found {type_name(cases)}")
    for number, case in enumerate(cases):
        if not isinstance(case, dict) or set(keys) - case.keys():
            lacks = ", ".join(keys)
            raise Unusable("malformed", f"test {number} of {where} lacks {lacks}")
    if not fn_name and cases:
        fn_name = method_name(cases[0].get("fn_name"))
    rows = [(case[keys[0]], case[keys[1]]) for case in cases]
    if fn_name:
        rows = [(json_or_itself(args), json_or_itself(output)) for args, output in rows]
    add_pairs(reader, rows, fn_name)
    return fn_name


def add_functional(reader: RowReader, tests: Any, name: Any) -> str:
    """Add LiveCodeBench's tests of a method: an argument a line as JSON, and one JSON value.

    Raises:
        Unusable: not of this form, or no name.
    """
    fn_name = method_name(name)
    if not fn_name:
        raise Unusable("malformed", "the tests call a method that metadata.func_name lacks")
    for number, test in enumerate(tests):
        expected = parse_json(test.get("output"), f"the output of test {number}")
        try:
            args = [json.loads(line) for line in test["input"].split("\n")]
        except (AttributeError, KeyError, ValueError, RecursionError):
            told = f"arguments are not JSON lines: {test.get('input')!r:.60}"
            raise Unusable("malformed", told) from None
        reader.call(number, args, expected)
    return fn_name


def method_name(value: Any) -> str:
    """The name of the method to call, empty where there is none.

    Raises:
        Unusable: not a Python name.
    """
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not value.isidentifier():
        raise Unusable("malformed", f"fn_name is no Python name: {value!r:.60}")
    return value


def json_or_itself(value: Any) -> Any:
    """The data of a JSON text; any other value as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def form_of(fn_name: str) -> dict[str, Any]:
    """The record's form and method."""
    return {"form": "call", "fn_name": fn_name} if fn_name else {"form": "stdin"}


def python_only(solutions: Any) -> tuple[str, ...]:
    """Solutions with their code fences taken off."""
    if not isinstance(solutions, (list, tuple)):
        return ()
    codes = [extract_code(text) or text for text in solutions if isinstance(text, str)]
    return tuple(code for code in codes if code.strip())


# TACO and DeepCoder -------------------------------------------------------------------------------

LEVELS = {  # of APPS and of TACO
    **THREE_LEVELS,
    "introductory": "easy",
    "interview": "medium",
    "competition": "hard",
    "medium_hard": "medium",
    "very_hard": "hard",
}


def taco(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of TACO."""
    statement = text_field(row, "question")
    fn_name = add_input_output(reader, parse_json(row.get("input_output"), "input_output"))
    return reader.record(
        None,
        {
            "name": row.get("name"),
            "platform": row.get("source"),
            "skills": list(_names(row.get("skill_types"))),
            "source_difficulty": row.get("difficulty"),
            "pictures": row.get("picture_num"),
        },
        statement=statement,
        **form_of(fn_name),
        starter_code=row.get("starter_code") or "",
        references=python_only(_solutions(row.get("solutions"))),
        time_limit_s=seconds(row.get("time_limit")),
        memory_limit_mb=mebibytes(row.get("memory_limit")),
        url=row.get("url") or "",
        date=iso_date(row.get("date")),
        tags=_names(row.get("tags")),
        **level(row.get("difficulty"), LEVELS),
    )


def _solutions(value: Any) -> Any:
    """The list in a JSON text. A row without a readable one is kept: its tests are whole."""
    try:
        return parse_json(value, "solutions")
    except Unusable:
        return ()


def _names(value: Any) -> tuple[str, ...]:
    """The names in a text such as "['Greedy', 'Sorting']"."""
    if isinstance(value, list):
        return texts(value)
    try:
        return texts(parse_literal(value, "tags")) if isinstance(value, str) and value else ()
    except Unusable:
        return ()


TACO = Adapter(
    name="taco",
    about="TACO, contest problems (https://huggingface.co/datasets/BAAI/TACO)",
    repo="BAAI/TACO",
    licence="Apache-2.0",
    # The second pattern is that of the copy on BAAI's own DataHub, which `datasets` saved.
    subsets={
        "train": ("ALL/train-*.parquet", "train/data-*.arrow"),
        "test": ("ALL/test-*.parquet", "test/data-*.arrow"),
    },
    needs=(("question",), ("input_output",)),
    reads=(
        "solutions", "starter_code", "difficulty", "name", "source", "tags", "skill_types", "url",
        "time_limit", "memory_limit", "date", "picture_num",
    ),
    convert=taco,
)  # fmt: skip


def deepcoder(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of any subset."""
    statement = text_field(row, "problem")
    tests = row.get("tests")
    tests = parse_json(tests, "tests") if isinstance(tests, str) else tests
    metadata = json_or_itself(row.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    first: Any = tests[0] if isinstance(tests, list) and tests else {}
    if isinstance(tests, dict):
        fn_name = add_input_output(reader, tests)
    elif isinstance(first, dict) and first.get("testtype") == "functional":
        own = first.get("metadata")
        name = own.get("func_name") if isinstance(own, dict) else None
        fn_name = add_functional(reader, tests, name or metadata.get("func_name"))
    else:
        fn_name = add_cases(reader, tests, "tests")
    return reader.record(
        None,
        {"source_metadata": metadata},
        statement=statement,
        **form_of(fn_name),
        starter_code=row.get("starter_code") or "",
        references=python_only(row.get("solutions")),
    )


_DEEPCODER = "https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset"

DEEPCODER = Adapter(
    name="deepcoder",
    about=f"DeepCoder's training set ({_DEEPCODER})",
    repo="agentica-org/DeepCoder-Preview-Dataset",
    licence="MIT",
    subsets={
        "taco": ("taco/train-*.parquet",),
        "primeintellect": ("primeintellect/train-*.parquet",),
        "lcbv5": ("lcbv5/train-*.parquet",),
        "lcbv5-test": ("lcbv5/test-*.parquet",),
        "codeforces": ("codeforces/test-*.parquet",),
    },
    needs=(("problem",), ("tests",)),
    reads=("solutions", "starter_code", "metadata"),
    convert=deepcoder,
)


# open-r1 ------------------------------------------------------------------------------------------


def verifiable(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of open-r1/verifiable-coding-problems-python or of the sets made from it."""
    statement = text_field(row, "problem_statement", "problem", "prompt")
    info = _object(row.get("verification_info"), "verification_info")
    if info.get("language", "python") != "python":
        raise Unusable("unsupported", f"its tests are for {info['language']}, not Python")
    fn_name = add_cases(reader, info.get("test_cases"), "verification_info.test_cases")
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
        **level(about.get("difficulty"), LEVELS),
    )


def _object(value: Any, field: str) -> dict[str, Any]:
    data = parse_json(value, field) if isinstance(value, str) else value
    if not isinstance(data, dict):
        raise Unusable("malformed", f"{field} should be an object, found {type_name(data)}")
    return data


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
