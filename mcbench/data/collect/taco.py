"""TACO (BAAI/TACO): 26,443 contest problems; fields hold JSON or Python literals as text."""

from __future__ import annotations

from typing import Any

from mcbench.data.collect.adapter import Adapter, RowReader, level, texts
from mcbench.data.collect.apps import add_input_output, form_of, python_only
from mcbench.data.collect.decode import (
    Unusable,
    iso_date,
    mebibytes,
    parse_json,
    parse_literal,
    seconds,
)
from mcbench.data.collect.rows import text_field
from mcbench.data.schema import ProblemRecord

LEVELS = {
    "easy": "easy",
    "medium": "medium",
    "medium_hard": "medium",
    "hard": "hard",
    "very_hard": "hard",
}


def convert(row: dict[str, Any], reader: RowReader) -> ProblemRecord:
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
    convert=convert,
)  # fmt: skip
