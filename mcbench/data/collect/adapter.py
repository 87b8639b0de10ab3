"""What an adapter is: where a published set lies, and a table of how its rows become records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field, ImportString

from mcbench.data.collect.decode import (
    MB,
    TEST_MB,
    Unusable,
    is_plain,
    iso_date,
    json_or_itself,
    mebibytes,
    names,
    of_type,
    seconds,
    type_name,
)
from mcbench.data.programs import is_python
from mcbench.data.schema import INPUT_KEY, Problem
from mcbench.errors import unknown
from mcbench.evaluator import extract_code
from mcbench.evaluator.submission import printable
from mcbench.settings import Settings

_SHOWN = 10  # reasons kept in a record for tests that were left out
_MAX_REFERENCES = 24  # of a row that are kept: TACO has up to hundreds
LEVELS = {
    **{name: name for name in ("easy", "medium", "hard")},
    "introductory": "easy",
    "interview": "medium",
    "competition": "hard",  # APPS
    "medium_hard": "medium",
    "very_hard": "hard",  # TACO
}
"""The sources' words for difficulty, in lower case with underscores."""


class Adapter(Settings):
    """How one published set is read.

    A column is a name, a path such as "info.cases" (objects may be JSON text), or several of these,
    such as "text|prompt", of which the first with a value counts.

    Args:
        about: one line for people: what the set is and where its format is published.
        subsets: for each subset the patterns of its files, relative to the repository or a copy of
            it. The first is the default.
        tests: a function, or where one is; it takes a row and a :class:`RowReader`, adds the tests
            of the row and returns fields of the record that the tables cannot tell; ``metadata``
            is added to theirs. It raises :class:`Unusable` for a row that cannot be a record.
        needs: columns that must be there.
        columns: of the record's fields; ``id`` names the row in the source, where there is none it
            is the subset and the row's place.
        metadata: columns of what goes to the record's metadata.
        reads: columns that only ``tests`` reads.
        repo: the data set on the hub; empty for sets that only lie in folders.
        licence: of the set as its card says it, kept in every record.
        language: of the statements, where all have one.
        time_limit_s: of a test, where a row states none: what the set's own judge allows, or more
            where its own solutions need it.
        levels: the set's words for difficulty.
        belongs: as ``tests``, whether a row is of a subset, for sets that also come as one file
            with all of them.
    """

    name: str
    about: str
    subsets: dict[str, tuple[str, ...]]
    tests: ImportString[Any]
    needs: tuple[str, ...] = ()
    columns: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)
    reads: tuple[str, ...] = ()
    repo: str = ""
    licence: str = ""
    language: str = ""
    time_limit_s: float | None = None
    levels: dict[str, str] = LEVELS
    belongs: ImportString[Any] = None

    @property
    def all_columns(self) -> list[str]:
        """All columns that are read."""
        paths = (*self.needs, *self.columns.values(), *self.metadata.values(), *self.reads)
        tops = [path.partition(".")[0] for several in paths for path in several.split("|")]
        return list(dict.fromkeys(tops))

    def subset(self, name: str) -> str:
        """``name``, or the default where it is empty.

        Raises:
            UserError: the set has no such subset.
        """
        name = name or next(iter(self.subsets))
        if name not in self.subsets:
            raise unknown(f"subset of {self.name}", name, self.subsets)
        return name

    def convert(self, row: dict[str, Any], reader: RowReader) -> Problem:
        """The record of a row; its form is that of the tests.

        Raises:
            Unusable: a row that cannot be one, or of which no test is left.
            UserError: a value that does not fit.
        """
        values = {
            name: _READ.get(name, _text)(column(row, path)) for name, path in self.columns.items()
        }
        if "statement" in self.columns:
            values["statement"] = text_field(row, self.columns["statement"])
        about = {name: column(row, path) for name, path in self.metadata.items()}
        if said := values.get("difficulty"):
            about["source_difficulty"] = said
        own = self.tests(row, reader)
        about |= own.pop("metadata", {})
        values |= own
        if not reader.tests:
            reason = f": {reader.left_out[0]}" if reader.left_out else ""
            raise Unusable(f"no usable test{reason}", "no_tests")
        flags = tuple(values.pop("flags", ()))
        if reader.left_out:
            flags = ("tests_left_out", *flags)
            about["tests_left_out"] = [f"{len(reader.left_out)} in all", *reader.left_out[:_SHOWN]]
        values["time_limit_s"] = values.get("time_limit_s") or self.time_limit_s
        key = values.pop("id", None)
        if key is None:
            key = f"{reader.subset}/{reader.index}" if reader.subset else reader.index
        form = next(form for form, name in INPUT_KEY.items() if name in reader.tests[0])
        word = str(values.pop("difficulty", "")).strip().lower().replace(" ", "_")
        if difficulty := self.levels.get(word, ""):
            values |= {"difficulty": difficulty, "difficulty_provenance": "source"}
        return Problem(
            **{"licence": self.licence, "language": self.language, **values},
            id=printable(f"{self.name}/{key}"),
            form=form,
            source=self.name,
            kind=str(about.get("platform") or self.name),
            tests=tuple(reader.tests),
            metadata={
                k: v for k, v in about.items() if v not in (None, "", [], {}) and is_plain(v)
            },
            flags=flags,
        )


def _text(value: Any) -> Any:
    return "" if value is None else value


def python_only(solutions: Any) -> tuple[str, ...]:
    """The solutions that are Python 3, the first few, with their code fences taken off.

    ``solutions`` may be a list, a JSON text of one, or one program.
    """
    if isinstance(solutions, str):
        listed = json_or_itself(solutions)
        solutions = listed if isinstance(listed, list) else [solutions]
    if not isinstance(solutions, (list, tuple)):
        return ()
    texts = (text for text in solutions if isinstance(text, str))
    # A whole program stays one, though its docstring may hold an example in a fence.
    codes = (text if is_python(text) else extract_code(text) or text for text in texts)
    return tuple(islice(filter(is_python, codes), _MAX_REFERENCES))


_READ: dict[str, Callable[[Any], Any]] = {
    "id": lambda value: value,
    "references": python_only,
    "time_limit_s": seconds,
    "memory_limit_mb": mebibytes,
    "date": iso_date,
    "tags": names,
}


def column(row: dict[str, Any], path: str) -> Any:
    """The value of a column; None where the row has none."""
    return next((value for one in path.split("|") if (value := _at(row, one)) is not None), None)


def _at(value: Any, path: str) -> Any:
    if path in value:  # a row may have a column with a dot in its name
        return value[path]
    for name in path.split("."):
        value = json_or_itself(value)
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_field(row: dict[str, Any], path: str) -> str:
    """A text that must be there and hold more than white space.

    Raises:
        Unusable: it is missing, empty or no text.
    """
    value, label = column(row, path), path.replace("|", " or ")
    if value is None:
        raise Unusable(f"{label} is missing")
    text: str = of_type(str, value, label)
    if not text.strip():
        raise Unusable(f"{label} is empty")
    return text


@dataclass
class RowReader:
    """Reads the tests of one row and remembers which it left out, and why.

    ``index`` is the row's place in the source, from 0. ``other`` gets another file of the set; it
    is there where tests that lie in files of their own are asked for.
    """

    subset: str
    index: int
    other: Callable[[str], Path] | None = None
    tests: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def stdio(self, stdin: Any, expected: Any, **options: Any) -> None:
        """Add a test of standard input; texts may come as lists of lines."""
        stdin, expected = _joined(stdin), _joined(expected)
        for name, value in (("input", stdin), ("output", expected)):
            if not isinstance(value, str):
                self.leave_out(f"{name} should be text, is {type_name(value)}")
                return
        self._add({"stdin": stdin, "expected": expected, **options}, stdin, expected)

    def call(self, args: Any, expected: Any) -> None:
        """Add a test that calls the method with ``args``, a list."""
        if not isinstance(args, list):
            self.leave_out(f"arguments should be a list, are {args!r:.60}")
        elif any(map(_lost_keys, [*args, expected])):
            self.leave_out("an object whose keys were ints before JSON")
        elif not is_plain([args, expected]):
            self.leave_out("nested too deep, or no JSON data")
        else:
            try:
                text = json.dumps([args, expected], ensure_ascii=False)
            except ValueError:  # a built set holds JSON as Python reads it
                self.leave_out("an integer of more than 4300 digits")
            else:
                self._add({"args": args, "expected": expected}, text)

    def check(self, code: str, setup: Any = "", entry_point: str = "") -> None:
        """Add Python statements that check the submission."""
        if isinstance(setup, str):
            test = {"code": code, "entry_point": entry_point, "setup": setup}
            self._add({key: value for key, value in test.items() if value}, code, setup)
        else:
            self.leave_out(f"its setup should be text, is {type_name(setup)}")

    def leave_out(self, reason: str) -> None:
        """Note why the test that comes next is not added."""
        self.left_out.append(f"test {len(self.tests) + len(self.left_out)}: {reason}")

    def _add(self, test: dict[str, Any], *texts: str) -> None:
        try:
            size = sum(len(text.encode()) for text in texts) / MB
        except UnicodeEncodeError:
            self.leave_out("not valid Unicode (a lone surrogate)")
            return
        if size > TEST_MB:
            self.leave_out(f"{size:.1f} MB, more than {TEST_MB:g} MB")
        else:
            self.tests.append(test)


def _joined(value: Any) -> Any:
    """Text that came as a list of lines, as one text; anything else as it is."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


def _lost_keys(value: Any) -> bool:
    """Whether a value is an object with whole numbers for keys.

    JSON made them text, and nothing tells whether they were text before.
    """
    return (
        isinstance(value, dict)
        and bool(value)
        and all(str(key).lstrip("-").isdigit() for key in value)
    )
