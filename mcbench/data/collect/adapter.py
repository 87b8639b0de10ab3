"""What an adapter is: where a published set lies, which columns it has, how a row is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcbench.data.collect.decode import MB, Limits, Unusable, is_plain, type_name
from mcbench.data.schema import INPUT_KEY, Problem
from mcbench.errors import unknown

_SHOWN = 10  # reasons kept in a record for tests that were left out


@dataclass(frozen=True)
class Adapter:
    """How one published set is read.

    Args:
        about: one line for people: what the set is and where its format is published.
        subsets: for each subset the patterns of its files, relative to the repository or a copy of
            it. The first is the default.
        needs: columns that must be there; each entry lists the names of one column in the versions
            of the set.
        reads: other columns that are used where they are there.
        convert: a row to a record; raises :class:`Unusable` for a row that cannot be one.
        repo: the data set on the hub; empty for sets that only lie in folders.
        licence: of the set as its card says it, kept in every record.
        belongs: whether a row is of a subset, for sets that also come as one file with all of them.
    """

    name: str
    about: str
    subsets: Mapping[str, tuple[str, ...]]
    needs: tuple[tuple[str, ...], ...]
    convert: Callable[[dict[str, Any], RowReader], Problem]
    reads: tuple[str, ...] = ()
    repo: str = ""
    licence: str = ""
    belongs: Callable[[dict[str, Any], str], bool] | None = None

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [name for names in self.needs for name in names] + list(self.reads)

    def subset(self, name: str) -> str:
        """``name``, or the default where it is empty.

        Raises:
            UserError: the set has no such subset.
        """
        name = name or next(iter(self.subsets))
        if name not in self.subsets:
            raise unknown(f"subset of {self.name}", name, self.subsets)
        return name


@dataclass
class RowReader:
    """Reads the tests of one row and remembers which it left out, and why.

    ``index`` is the row's place in the source, from 0. ``other`` gets another file of the set; it
    is there where tests that lie in files of their own are asked for.
    """

    source: str
    subset: str
    index: int
    limits: Limits = field(default_factory=Limits)
    licence: str = ""
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
        elif _lost_keys([*args, expected]):
            self.leave_out("an object whose keys were ints before JSON")
        elif not is_plain([args, expected]):
            self.leave_out("nested too deep, or no JSON data")
        else:
            text = json.dumps([args, expected], ensure_ascii=False)
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
        if size > self.limits.test_mb:
            self.leave_out(f"{size:.1f} MB, more than {self.limits.test_mb:g} MB")
        else:
            self.tests.append(test)

    def record(
        self,
        key: object,
        metadata: Mapping[str, Any],
        also_flags: Sequence[str] = (),
        **values: Any,
    ) -> Problem:
        """The record of this row; ``key`` names it in the source, None: its subset and place.

        Its form is that of the tests.

        Raises:
            Unusable: no test is left.
        """
        if not self.tests:
            reason = f": {self.left_out[0]}" if self.left_out else ""
            raise Unusable("no_tests", f"no usable test{reason}")
        extra = {k: v for k, v in metadata.items() if v not in (None, "", [], {}) and is_plain(v)}
        flags = tuple(also_flags)
        if self.left_out:
            flags = ("tests_left_out", *flags)
            extra["tests_left_out"] = [f"{len(self.left_out)} in all", *self.left_out[:_SHOWN]]
        if key is None:
            key = f"{self.subset}/{self.index}" if self.subset else self.index
        form = next(form for form, name in INPUT_KEY.items() if name in self.tests[0])
        return Problem(
            id=f"{self.source}/{key}",
            form=form,
            source=self.source,
            kind=str(metadata.get("platform") or self.source),
            tests=tuple(self.tests),
            licence=self.licence,
            metadata=extra,
            flags=flags,
            **values,
        )


def _joined(value: Any) -> Any:
    """Text that came as a list of lines, as one text; anything else as it is."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


def _lost_keys(values: list[Any]) -> bool:
    """Whether one of the values is an object with whole numbers for keys.

    JSON made them text, and nothing tells whether they were text before.
    """
    return any(
        isinstance(value, dict) and value and all(str(key).lstrip("-").isdigit() for key in value)
        for value in values
    )


def pairs(inputs: Any, outputs: Any, field_name: str) -> list[tuple[Any, Any]]:
    """Inputs and outputs side by side.

    Raises:
        Unusable: not two lists of one length.
    """
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        found = f"{type_name(inputs)} and {type_name(outputs)}"
        raise Unusable("malformed", f"{field_name} needs lists of inputs and outputs, has {found}")
    if len(inputs) != len(outputs):
        counts = f"{len(inputs)} inputs and {len(outputs)} outputs"
        raise Unusable("malformed", f"{field_name} has {counts}")
    return list(zip(inputs, outputs, strict=True))


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a list, with nothing else."""
    listed = value if isinstance(value, (list, tuple)) else ()
    return tuple(item for item in listed if isinstance(item, str))


def level(value: Any, names: Mapping[str, str]) -> dict[str, str]:
    """The record's difficulty fields for the source's word, or none where it says nothing known."""
    difficulty = names.get(str(value).strip().lower().replace(" ", "_"), "")
    return {"difficulty": difficulty, "difficulty_provenance": "source"} if difficulty else {}


THREE_LEVELS = {"easy": "easy", "medium": "medium", "hard": "hard"}
