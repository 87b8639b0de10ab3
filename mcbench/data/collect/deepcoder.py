"""DeepCoder's training set (agentica-org/DeepCoder-Preview-Dataset), four subsets.

The column ``tests`` is JSON text in three forms: TACO's object of inputs and outputs,
PrimeIntellect's list of {type, fn_name, input, output}, and LiveCodeBench's list of {testtype,
input, output} with the method's name in the row's or the test's metadata.
"""

from __future__ import annotations

from typing import Any

from mcbench.data.collect.adapter import Adapter, RowReader
from mcbench.data.collect.apps import (
    add_input_output,
    add_pairs,
    form_of,
    json_lines,
    json_or_itself,
    method_name,
    python_only,
)
from mcbench.data.collect.decode import Unusable, parse_json, type_name
from mcbench.data.collect.rows import text_field
from mcbench.data.schema import ProblemRecord


def convert(row: dict[str, Any], reader: RowReader) -> ProblemRecord:
    """A row of any subset."""
    statement = text_field(row, "problem")
    tests = row.get("tests")
    tests = parse_json(tests, "tests") if isinstance(tests, str) else tests
    metadata = json_or_itself(row.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    if isinstance(tests, dict):
        fn_name = add_input_output(reader, tests)
    elif isinstance(tests, list):
        fn_name = add_listed(reader, tests, metadata.get("func_name"))
    else:
        raise Unusable("malformed", f"tests should be JSON, found {type_name(tests)}")
    return reader.record(
        None,
        {"source_metadata": metadata},
        statement=statement,
        **form_of(fn_name),
        starter_code=row.get("starter_code") or "",
        references=python_only(row.get("solutions")),
    )


def add_listed(reader: RowReader, tests: list[Any], func_name: Any) -> str:
    """Add tests that are objects of their own; returns the method's name, if any.

    Raises:
        Unusable: a test is no object, or a method is to be called that nothing names.
    """
    for test in tests:
        if not isinstance(test, dict):
            raise Unusable("malformed", f"a test should be an object, found {type_name(test)}")
    first = tests[0] if tests else {}
    if first.get("testtype") == "functional":
        own = first.get("metadata")
        fn_name = method_name((own if isinstance(own, dict) else {}).get("func_name") or func_name)
        if not fn_name:
            raise Unusable("malformed", "the tests call a method that metadata.func_name lacks")
        for number, test in enumerate(tests):
            args, expected = json_lines(test.get("input")), json_or_itself(test.get("output"))
            reader.call(number, args, expected)
        return fn_name
    fn_name = method_name(first.get("fn_name"))
    rows = [(test.get("input"), test.get("output")) for test in tests]
    if fn_name:
        rows = [(json_or_itself(args), json_or_itself(output)) for args, output in rows]
    add_pairs(reader, rows, fn_name)
    return fn_name


_REPO = "https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset"

DEEPCODER = Adapter(
    name="deepcoder",
    about=f"DeepCoder's training set ({_REPO})",
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
    convert=convert,
)
