"""Any other set of rows, through a mapping from record fields to columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcbench.data.collect.adapter import Adapter, RowReader, level, pairs, texts
from mcbench.data.collect.apps import (
    add_cases,
    add_input_output,
    add_pairs,
    form_of,
    json_or_itself,
    method_name,
    python_only,
)
from mcbench.data.collect.decode import Unusable, mebibytes, seconds
from mcbench.data.schema import DIFFICULTIES, Problem
from mcbench.errors import UserError, unknown

FIELDS = (
    "id", "statement", "tests", "inputs", "outputs", "fn_name", "starter_code", "references",
    "difficulty", "url", "date", "language", "tags", "licence", "time_limit_s", "memory_limit_mb",
)  # fmt: skip
TEST_KEYS = ("input", "output")


@dataclass(frozen=True)
class ColumnMapping:
    """Where each field of a record is found in a row.

    Args:
        columns: from field to column; dots lead into objects ("info.test_cases"), and columns may
            hold JSON text. ``statement`` is needed, and either ``tests`` or both of ``inputs`` and
            ``outputs``. ``tests`` is a list of objects, or one object of lists "inputs" and
            "outputs" as in APPS. With ``fn_name`` (in a column or in the tests) an input is the
            list of arguments.
        test_keys: what "input" and "output" are called in the objects of ``tests``.
        levels: from the source's words for difficulty to easy, medium and hard.

    Raises:
        UserError: an unknown field, test key or level, or a needed one is missing.
    """

    columns: Mapping[str, str]
    test_keys: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in FIELDS:
                raise unknown("field in the mapping", name, FIELDS)
        for name in self.test_keys:
            if name not in TEST_KEYS:
                raise unknown("test key in the mapping", name, TEST_KEYS)
        for name in self.levels.values():
            if name not in DIFFICULTIES:
                raise unknown("difficulty in the mapping", name, DIFFICULTIES)
        if "statement" not in self.columns:
            raise UserError("a mapping needs the column of the statement: columns.statement")
        if "tests" not in self.columns and not {"inputs", "outputs"} <= self.columns.keys():
            raise UserError("a mapping needs columns.tests, or columns.inputs and columns.outputs")

    def adapter(self, name: str) -> Adapter:
        """An adapter that reads rows through this mapping."""
        needed = ("statement", "tests", "inputs", "outputs")
        tops = {key: path.partition(".")[0] for key, path in self.columns.items()}
        return Adapter(
            name=name,
            about="rows read through a mapping",
            subsets={"": ()},
            needs=tuple((tops[key],) for key in needed if key in tops),
            reads=tuple(top for key, top in tops.items() if key not in needed),
            convert=self._convert,
        )

    def _convert(self, row: dict[str, Any], reader: RowReader) -> Problem:
        values = {key: _at(row, path) for key, path in self.columns.items()}
        statement = values["statement"]
        if not isinstance(statement, str) or not statement.strip():
            raise Unusable("malformed", f"{self.columns['statement']} should be text")
        fn_name = self._add_tests(reader, values)
        plain = {
            key: str(values[key])
            for key in ("starter_code", "url", "date", "language")
            if values.get(key) is not None
        }
        references = values.get("references")
        if values.get("licence"):
            reader.licence = str(values["licence"])
        return reader.record(
            values.get("id"),
            {"source_difficulty": values.get("difficulty")},
            statement=statement,
            **form_of(fn_name),
            references=python_only([references] if isinstance(references, str) else references),
            time_limit_s=seconds(values.get("time_limit_s")),
            memory_limit_mb=mebibytes(values.get("memory_limit_mb")),
            tags=texts(values.get("tags")),
            **plain,
            **self._level(values.get("difficulty")),
        )

    def _level(self, value: Any) -> dict[str, str]:
        names = self.levels or {name: name for name in DIFFICULTIES}
        return level(value, {key.lower().replace(" ", "_"): name for key, name in names.items()})

    def _add_tests(self, reader: RowReader, values: dict[str, Any]) -> str:
        fn_name = method_name(values.get("fn_name"))
        if "tests" in self.columns:
            tests = json_or_itself(values["tests"])
            if isinstance(tests, dict):
                return add_input_output(reader, {"fn_name": fn_name, **tests})
            given, expected = (self.test_keys.get(key, key) for key in TEST_KEYS)
            return add_cases(reader, tests, self.columns["tests"], fn_name, (given, expected))
        inputs, outputs = (json_or_itself(values[key]) for key in ("inputs", "outputs"))
        rows = pairs(inputs, outputs, "the mapping")
        if fn_name:
            rows = [(json_or_itself(args), json_or_itself(output)) for args, output in rows]
        add_pairs(reader, rows, fn_name)
        return fn_name


def _at(row: Any, path: str) -> Any:
    """The value at a dotted path; None where the row has none."""
    value = row
    for name in path.split("."):
        value = json_or_itself(value)
        value = value.get(name) if isinstance(value, dict) else None
    return value
