"""LeetCodeDataset: LeetCode's problems with assertions about a method of ``class Solution``."""

from __future__ import annotations

import re
from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, texts
from mcbench.data.collect.apps import method_name, python_only
from mcbench.data.collect.decode import Unusable, iso_date, object_or_none
from mcbench.data.collect.rows import field, text_field
from mcbench.data.programs import parsed
from mcbench.data.schema import Problem

_MAX_TESTS = 40  # that are kept, the first ones; the set has up to thousands of one problem
# Versions differ in how the query asks.
_QUESTION = re.compile(
    r"(?:.*### Question:?\n)?(.*?)\n\s*(?:### (?:Format|Answer)|Please complete the following)",
    re.DOTALL,
)


def convert(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of any version.

    ``prompt`` is LeetCode's header: imports, list and tree nodes and what makes them of lists. A
    submission gets it, as there, and so do the tests, which call the method with such nodes.
    """
    header, test = text_field(row, "prompt"), text_field(row, "test")
    owner, _, name = text_field(row, "entry_point").rpartition(".")
    fn_name = method_name(name)
    if owner not in ("Solution()", "") or not fn_name:
        raise Unusable("unsupported", f"its tests call {row['entry_point']}")
    _add_tests(reader, test, header, fn_name)
    about = object_or_none(row.get("meta"))
    difficulty = field(row, "difficulty") or about.get("difficulty")
    return reader.record(
        text_field(row, "task_id"),
        {
            "platform": "leetcode",
            "number": row.get("question_id") or about.get("question_id"),
            "source_difficulty": difficulty,
        },
        statement=_statement(row),
        fn_name=fn_name,
        starter_code=row.get("starter_code") or _starter(row),
        preamble=header + "\n",
        references=python_only([row.get("completion")]),
        date=iso_date(row.get("estimated_date")),
        language="en",
        tags=texts(row.get("tags")),
        url=f"https://leetcode.com/problems/{row['task_id']}/",
        **level(difficulty, THREE_LEVELS),
    )


def _add_tests(reader: RowReader, source: str, header: str, fn_name: str) -> None:
    """The assertions of ``check(candidate)``, each a test of its own."""
    tree = parsed(source)
    check = tree.body[0] if tree and len(tree.body) == 1 else None
    if check is None or getattr(check, "name", "") != "check":
        raise Unusable("malformed", "test should be one function check(candidate)")
    lines = [line.strip() for line in source.strip().split("\n")[1:]]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not all(line.startswith("assert ") for line in lines):
        raise Unusable("unsupported", "its tests are more than assertions")
    for line in lines[:_MAX_TESTS]:
        reader.check(f"candidate = Solution().{fn_name}\n{line}", setup=header)


def _statement(row: dict[str, Any]) -> str:
    if row.get("problem_description"):
        return text_field(row, "problem_description")
    asked = _QUESTION.match(text_field(row, "query"))
    if not asked:
        raise Unusable("malformed", "neither problem_description nor a question in query")
    return asked[1].strip() + "\n"


def _starter(row: dict[str, Any]) -> str:
    found = re.search(r"```python\n(.*?)```", str(row.get("query")), re.DOTALL)
    return found[1] if found and "class Solution" in found[1] else ""


LEETCODE = Adapter(
    name="leetcode",
    about="LeetCodeDataset (https://huggingface.co/datasets/newfacade/LeetCodeDataset)",
    repo="newfacade/LeetCodeDataset",
    licence="Apache-2.0",
    subsets={
        part: (
            f"LeetCodeDataset-{part}.jsonl",
            f"LeetCodeDataset-*-{part}.jsonl",
            f"LeetCodeDataset-*-{part}.jsonl.gz",
        )
        for part in ("train", "test")
    },
    needs=(("task_id",), ("prompt",), ("entry_point",), ("test",)),
    reads=(
        "question_id", "difficulty", "tags", "problem_description", "starter_code",
        "estimated_date", "completion", "query", "meta",
    ),
    convert=convert,
)  # fmt: skip
