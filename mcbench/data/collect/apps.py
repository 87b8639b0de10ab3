"""Sets with tests in the form of APPS: this, TACO, DeepCoder and open-r1's verifiable problems.

Tests are one object of lists, "inputs" and "outputs" with an optional "fn_name", or a list of
objects with one input and output each. DeepCoder's ``lcbv5`` has LiveCodeBench's.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, pairs, texts
from mcbench.data.collect.decode import (
    Unusable,
    iso_date,
    json_or_itself,
    mebibytes,
    object_or_none,
    parse_json,
    parse_literal,
    seconds,
    type_name,
)
from mcbench.data.collect.rows import field, text_field
from mcbench.data.programs import is_python
from mcbench.data.schema import Problem
from mcbench.evaluator import extract_code

_MAX_REFERENCES = 24  # of a row that are kept: TACO has up to hundreds


def add_tests(
    reader: RowReader,
    tests: Any,
    where: str,
    fn_name: str = "",
    keys: tuple[str, str] = ("input", "output"),
) -> str:
    """Add the tests of ``{"inputs": [...], "outputs": [...]}`` or of a list of objects.

    Both may name the method to call as "fn_name". An input is then a list of arguments (as JSON
    text in a list of objects), else text or a list of lines.

    Returns:
        The method's name, empty for standard input.

    Raises:
        Unusable: not of this form.
    """
    if isinstance(tests, dict):
        fn_name = method_name(tests.get("fn_name")) or fn_name
        add_pairs(reader, pairs(tests.get("inputs"), tests.get("outputs"), where), fn_name)
        return fn_name
    if not isinstance(tests, list):
        raise Unusable("malformed", f"{where} should be a list, found {type_name(tests)}")
    for number, case in enumerate(tests):
        if not isinstance(case, dict) or set(keys) - case.keys():
            raise Unusable("malformed", f"test {number} of {where} lacks {', '.join(keys)}")
    if not fn_name and tests:
        fn_name = method_name(tests[0].get("fn_name"))
    add_pairs(reader, [(case[keys[0]], case[keys[1]]) for case in tests], fn_name, as_json=True)
    return fn_name


def add_pairs(
    reader: RowReader, rows: list[tuple[Any, Any]], fn_name: str, as_json: bool = False
) -> None:
    """Add pairs of input and output, for a method in JSON text or as they are.

    Where every output of a method is a list of one element, that element is what it returns: the
    sets wrap results so, and their judge takes both readings.
    """
    if fn_name and as_json:
        rows = [(json_or_itself(args), json_or_itself(output)) for args, output in rows]
    wrapped = all(isinstance(output, list) and len(output) == 1 for _, output in rows)
    for given, output in rows:
        if fn_name:
            reader.call(given, output[0] if wrapped else output)
        else:
            reader.stdio(given, output)


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
        reader.call(args, expected)
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


def python_only(solutions: Any) -> tuple[str, ...]:
    """The solutions that are Python 3, the first few, with their code fences taken off.

    ``solutions`` may be a list, a JSON text of one, or one program.
    """
    if isinstance(solutions, str):
        listed = json_or_itself(solutions)
        solutions = listed if isinstance(listed, list) else [solutions]
    if not isinstance(solutions, (list, tuple)):
        return ()
    codes = (extract_code(text) or text for text in solutions if isinstance(text, str))
    return tuple(islice(filter(is_python, codes), _MAX_REFERENCES))


# APPS, TACO and DeepCoder -------------------------------------------------------------------------

LEVELS = {  # of APPS and of TACO
    **THREE_LEVELS,
    "introductory": "easy",
    "interview": "medium",
    "competition": "hard",
    "medium_hard": "medium",
    "very_hard": "hard",
}


def taco(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of TACO, or of APPS."""
    statement = text_field(row, "question")
    tests = parse_json(row.get("input_output"), "input_output")
    fn_name = add_tests(reader, tests, "input_output")
    number = field(row, "problem_id", "id")
    return reader.record(
        None if number is None else f"{reader.subset}/{number}",
        {
            "name": row.get("name"),
            "platform": row.get("source"),
            "skills": list(_names(row.get("skill_types"))),
            "source_difficulty": row.get("difficulty"),
            "pictures": row.get("picture_num"),
        },
        statement=statement,
        fn_name=fn_name,
        starter_code=row.get("starter_code") or "",
        references=python_only(row.get("solutions")),
        time_limit_s=seconds(row.get("time_limit")),
        memory_limit_mb=mebibytes(row.get("memory_limit")),
        url=row.get("url") or "",
        date=iso_date(row.get("date")),
        tags=_names(row.get("tags")),
        **level(row.get("difficulty"), LEVELS),
    )


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


APPS = Adapter(
    name="apps",
    about="APPS (https://huggingface.co/datasets/codeparrot/apps)",
    repo="codeparrot/apps",
    licence="MIT",
    subsets={"train": ("train.jsonl",), "test": ("test.jsonl",)},
    needs=(("question",), ("input_output",)),
    reads=("problem_id", "id", "solutions", "starter_code", "difficulty", "url"),
    convert=taco,
)


def deepcoder(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of any subset."""
    statement = text_field(row, "problem")
    tests = row.get("tests")
    tests = parse_json(tests, "tests") if isinstance(tests, str) else tests
    metadata = object_or_none(row.get("metadata"))
    first = object_or_none(tests[0]) if isinstance(tests, list) and tests else {}
    if first.get("testtype") == "functional":
        own = object_or_none(first.get("metadata"))
        fn_name = add_functional(reader, tests, own.get("func_name") or metadata.get("func_name"))
    else:
        fn_name = add_tests(reader, tests, "tests")
    return reader.record(
        None,
        {"source_metadata": metadata},
        statement=statement,
        fn_name=fn_name,
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
    info = row.get("verification_info")
    info = parse_json(info, "verification_info") if isinstance(info, str) else info
    if not isinstance(info, dict):
        found = type_name(info)
        raise Unusable("malformed", f"verification_info should be an object, found {found}")
    if info.get("language", "python") != "python":
        raise Unusable("unsupported", f"its tests are for {info['language']}, not Python")
    fn_name = add_tests(reader, info.get("test_cases"), "verification_info.test_cases")
    about = object_or_none(row.get("metadata"))
    solution = row.get("gold_standard_solution")
    return reader.record(
        row.get("problem_id") or None,
        {
            "platform": row.get("source"),
            "id_in_source": row.get("in_source_id"),
            "source_difficulty": about.get("difficulty"),
        },
        statement=statement,
        fn_name=fn_name,
        references=python_only([solution]),
        time_limit_s=seconds(about.get("time_limit")),
        memory_limit_mb=mebibytes(about.get("memory_limit")),
        url=about.get("problem_url") or "",
        **level(about.get("difficulty"), LEVELS),
    )


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
