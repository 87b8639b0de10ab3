"""Any other set of rows, through a mapping from record fields to columns."""

from __future__ import annotations

from typing import Any, Literal

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, pairs, texts
from mcbench.data.collect.apps import add_pairs, add_tests, method_name, python_only
from mcbench.data.collect.decode import Unusable, json_or_itself, mebibytes, seconds
from mcbench.data.schema import Difficulty, Problem
from mcbench.errors import UserError

MappedField = Literal[
    "id", "statement", "tests", "inputs", "outputs", "fn_name", "starter_code", "references",
    "difficulty", "url", "date", "language", "tags", "licence", "time_limit_s", "memory_limit_mb",
]  # fmt: skip
TestKey = Literal["input", "output"]


def mapping_adapter(
    name: str,
    columns: dict[MappedField, str],
    test_keys: dict[TestKey, str],
    levels: dict[str, Difficulty],
) -> Adapter:
    """An adapter that reads rows through a mapping from fields of a record to columns.

    Args:
        columns: from field to column; dots lead into objects ("info.test_cases"), and columns may
            hold JSON text. ``statement`` is needed, and either ``tests`` or both of ``inputs`` and
            ``outputs``. ``tests`` is a list of objects, or one object of lists "inputs" and
            "outputs" as in APPS. With ``fn_name`` (in a column or in the tests) an input is the
            list of arguments.
        test_keys: what "input" and "output" are called in the objects of ``tests``.
        levels: from the source's words for difficulty to easy, medium and hard.

    Raises:
        UserError: a needed column is missing.
    """
    if "statement" not in columns:
        raise UserError("a mapping needs the column of the statement: columns.statement")
    if "tests" not in columns and not {"inputs", "outputs"} <= columns.keys():
        raise UserError("a mapping needs columns.tests, or columns.inputs and columns.outputs")
    needed = ("statement", "tests", "inputs", "outputs")
    tops = {key: path.partition(".")[0] for key, path in columns.items()}
    words = {key.lower().replace(" ", "_"): value for key, value in levels.items()}

    def convert(row: dict[str, Any], reader: RowReader) -> Problem:
        values: dict[str, Any] = {key: _at(row, path) for key, path in columns.items()}
        statement, references = values["statement"], values.get("references")
        if not isinstance(statement, str) or not statement.strip():
            raise Unusable("malformed", f"{columns['statement']} should be text")
        fn_name = method_name(values.get("fn_name"))
        if "tests" in columns:
            keys = (test_keys.get("input", "input"), test_keys.get("output", "output"))
            tests = json_or_itself(values["tests"])
            fn_name = add_tests(reader, tests, columns["tests"], fn_name, keys)
        else:
            inputs, outputs = (json_or_itself(values[key]) for key in ("inputs", "outputs"))
            add_pairs(reader, pairs(inputs, outputs, "the mapping"), fn_name, as_json=True)
        reader.licence = str(values.get("licence") or reader.licence)
        plain = ("starter_code", "url", "date", "language")
        return reader.record(
            values.get("id"),
            {"source_difficulty": values.get("difficulty")},
            statement=statement,
            fn_name=fn_name,
            references=python_only(references),
            time_limit_s=seconds(values.get("time_limit_s")),
            memory_limit_mb=mebibytes(values.get("memory_limit_mb")),
            tags=texts(values.get("tags")),
            **{key: str(values[key]) for key in plain if values.get(key) is not None},
            **level(values.get("difficulty"), words or THREE_LEVELS),
        )

    return Adapter(
        name=name,
        about="rows read through a mapping",
        subsets={"": ()},
        needs=tuple((tops[key],) for key in needed if key in tops),
        reads=tuple(top for key, top in tops.items() if key not in needed),
        convert=convert,
    )


def _at(row: Any, path: str) -> Any:
    """The value at a dotted path; None where the row has none."""
    value = row
    for name in path.split("."):
        value = json_or_itself(value)
        value = value.get(name) if isinstance(value, dict) else None
    return value
