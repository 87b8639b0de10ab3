"""DeepMind's CodeContests: problems of several sites with solutions in several languages."""

from __future__ import annotations

from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, texts
from mcbench.data.collect.apps import python_only
from mcbench.data.collect.codeforces import level_of_rating
from mcbench.data.collect.decode import MB, Unusable, object_or_none
from mcbench.data.collect.rows import text_field
from mcbench.data.schema import Problem

# The set's own numbers.
_SITES = ("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")
_PYTHON3 = 3
_LEVELS = {1: "easy", 2: "medium", 3: "hard", 4: "hard", 5: "hard"}
_PARTS = ("public_tests", "private_tests", "generated_tests")


def convert(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of any split; the tests that the set's authors generated come last."""
    if row.get("input_file") or row.get("output_file"):
        raise Unusable("unsupported", "reads or writes files")
    for part in _PARTS:
        tests = object_or_none(row.get(part))
        for given, answer in zip(tests.get("input") or [], tests.get("output") or [], strict=False):
            reader.stdio(given, answer)
    solutions = object_or_none(row.get("solutions"))
    programs = zip(solutions.get("language") or [], solutions.get("solution") or [], strict=False)
    site = row.get("source")
    platform = _SITES[site] if isinstance(site, int) and site < len(_SITES) else "unknown"
    limit = object_or_none(row.get("time_limit"))
    seconds = (limit.get("seconds") or 0) + (limit.get("nanos") or 0) / 1e9
    rated = level_of_rating(row.get("cf_rating") or None) or _LEVELS.get(
        row.get("difficulty") or 0, ""
    )
    memory = row.get("memory_limit_bytes")
    return reader.record(
        None,
        {
            "name": row.get("name"),
            "platform": platform,
            "rating": row.get("cf_rating") or None,
            "source_difficulty": row.get("difficulty"),
        },
        statement=text_field(row, "description"),
        references=python_only([code for language, code in programs if language == _PYTHON3]),
        time_limit_s=seconds or None,
        memory_limit_mb=memory / MB if isinstance(memory, int) and memory > 0 else None,
        tags=texts(row.get("cf_tags")),
        **level(rated, THREE_LEVELS),
    )


CODE_CONTESTS = Adapter(
    name="codecontests",
    about="DeepMind's CodeContests (https://huggingface.co/datasets/deepmind/code_contests)",
    repo="deepmind/code_contests",
    licence="CC-BY-4.0",
    subsets={
        "train": ("data/train-*.parquet",),
        "valid": ("data/valid-*.parquet",),
        "test": ("data/test-*.parquet",),
    },
    needs=(("description",), ("public_tests",), ("private_tests",)),
    reads=(
        "name", "generated_tests", "source", "difficulty", "solutions", "cf_rating", "cf_tags",
        "time_limit", "memory_limit_bytes", "input_file", "output_file",
    ),
    convert=convert,
)  # fmt: skip
