"""Reading a source: rows through an adapter to records, resumable and in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mcbench.data.collect.adapter import Adapter, RowReader
from mcbench.data.collect.decode import Limits, Unusable, shorten
from mcbench.data.collect.files import SourceFile, hub_files, local_files
from mcbench.data.collect.mapping import ColumnMapping
from mcbench.data.collect.problem_package import packages
from mcbench.data.collect.registry import ADAPTERS
from mcbench.data.collect.rows import (
    BrokenRow,
    Disappeared,
    Row,
    column_names,
    read_rows,
    require_columns,
)
from mcbench.data.schema import ProblemRecord, Rejected
from mcbench.errors import UserError, unknown

MAPPING = "mapping"


@dataclass(frozen=True)
class Source:
    """Where problems come from and how they are read.

    Args:
        adapter: a name in :data:`ADAPTERS`, or ``mapping`` for any rows.
        path: a local file or folder; empty reads the hub.
        subset: which part of the set (a split, a release); empty takes the adapter's default.
        repo, revision: another data set on the hub than the adapter's, and its branch, tag or
            commit. ``mapping`` needs ``repo`` or ``path``.
        files: patterns of the files to read, instead of the adapter's.
        limit: only the first rows.
        name: of the source in ids, for ``mapping``.
        columns, test_keys, levels: of a `ColumnMapping`, for ``mapping``.
        generated_tests: read tests that lie in files of their own too (codeforces: those that
            open-r1 generated, 110 GB for the whole set).
        endpoint: another hub's address.

    Raises:
        UserError: an unknown adapter or subset, or fields that do not go together.
    """

    adapter: str
    path: str = ""
    subset: str = ""
    repo: str = ""
    revision: str = "main"
    files: tuple[str, ...] = ()
    limit: int | None = None
    name: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    test_keys: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    generated_tests: bool = False
    endpoint: str | None = None

    def __post_init__(self) -> None:
        if self.adapter != MAPPING and self.adapter not in ADAPTERS:
            raise unknown("source", self.adapter, [*ADAPTERS, MAPPING])
        if self.limit is not None and self.limit < 1:
            raise UserError(f"limit must be at least 1, got {self.limit}")
        if self.adapter == MAPPING and not self.name:
            raise UserError("a source with a mapping needs a name, with which its ids begin")
        if self.adapter != MAPPING and (self.columns or self.test_keys or self.levels):
            raise UserError(f"columns, test_keys and levels belong to {MAPPING!r}, not to adapters")
        adapter = self.reader()
        adapter.subset(self.subset)
        if not self.path and not (self.repo or adapter.repo):
            raise UserError(f"a source of {self.adapter} needs a path (a file or folder)")

    def reader(self) -> Adapter:
        """The adapter that reads the rows."""
        if self.adapter == MAPPING:
            return ColumnMapping(self.columns, self.test_keys, self.levels).adapter(self.name)
        return ADAPTERS[self.adapter]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Source:
        """A source as a configuration file says it.

        Raises:
            UserError: an unknown field, or one of the wrong kind.
        """
        if not isinstance(data, Mapping):
            raise UserError(f"a source is a map of fields with an adapter, got {data!r:.60}")
        known = cls.__dataclass_fields__
        for name, value in data.items():
            if name not in known:
                raise unknown("field of a source", name, known)
            wanted: type | tuple[type, ...] = _KINDS.get(name, str)
            if not isinstance(value, wanted):
                raise UserError(f"{name} of a source cannot be {value!r:.60}")
        if "adapter" not in data:
            allowed = ", ".join([*ADAPTERS, MAPPING])
            raise UserError(f"a source needs an adapter; allowed: {allowed}")
        values = dict(data)
        if "files" in values:
            given = values["files"]
            values["files"] = (given,) if isinstance(given, str) else tuple(given)
        return cls(**values)


_KINDS: dict[str, tuple[type, ...]] = {
    "files": (str, list, tuple),
    "limit": (int, type(None)),
    "columns": (dict,),
    "test_keys": (dict,),
    "levels": (dict,),
    "generated_tests": (bool,),
    "endpoint": (str, type(None)),
}


@dataclass(frozen=True)
class Position:
    """How far a source is read: the file, the rows of it, and the rows of all files."""

    file: int = 0
    row: int = 0
    index: int = 0


@dataclass(frozen=True)
class Item:
    """A record or a rejection, and the position after it."""

    value: ProblemRecord | Rejected
    after: Position


class OpenSource:
    """A source whose files are known; reading it again gives the same items.

    Raises:
        UserError: the source is not there, or lacks a column (found before anything is read).
    """

    def __init__(self, source: Source, limits: Limits | None = None) -> None:
        self.source = source
        self.limits = limits or Limits()
        self.adapter = source.reader()
        self.subset = self.adapter.subset(source.subset)
        self.label = f"{self.adapter.name}/{self.subset}" if self.subset else self.adapter.name
        self._folder = Path(source.path) if self.source.adapter == "problem-package" else None
        self.files = self._files()

    def _files(self) -> list[SourceFile]:
        if self._folder is not None:
            if not self._folder.is_dir():
                raise UserError(f"{self._folder} is no folder; name one with problem packages")
            folder = self._folder
            identity = _folder_identity(folder)
            return [SourceFile(folder.name, identity, lambda: folder, folder.joinpath)]
        patterns = self.source.files or self.adapter.subsets[self.subset]
        if self.source.path:
            return local_files(Path(self.source.path), patterns)
        repo = self.source.repo or self.adapter.repo
        return hub_files(repo, self.source.revision, patterns, self.source.endpoint)

    @property
    def identity(self) -> str:
        """Text that is equal where the same items are read."""
        about = {
            "source": {**asdict(self.source), "path": ""},
            "limits": asdict(self.limits),
            "files": [file.identity for file in self.files],
        }
        return json.dumps(about, sort_keys=True)

    def items(self, start: Position | None = None) -> Iterator[Item]:
        """Records and rejections from ``start`` on.

        A row that cannot be used becomes a rejection, and a source that ends early ends in one.

        Raises:
            UserError: a file holds nothing that can be read, or lacks a column.
        """
        at = start or Position()
        for number in range(at.file, len(self.files)):
            file = self.files[number]
            at = Position(number, at.row if number == at.file else 0, at.index)
            try:
                path = file.fetch()
                if at.row == 0:
                    self._check_columns(path, file.name)
                for row in self._rows(path, at.row):
                    if self.source.limit is not None and at.index >= self.source.limit:
                        return
                    index = at.index
                    at = Position(number, row.number, index + 1)
                    value = self._convert(row, index, file)
                    if value is not None:
                        yield Item(value, at)
            except Disappeared as error:
                detail = f"{error}; what was read before it is kept"
                end = Position(len(self.files), 0, at.index)
                yield Item(Rejected(self.label, "source_disappeared", detail), end)
                return

    def _rows(self, path: Path, start: int) -> Iterator[Row | BrokenRow]:
        if self._folder is not None:
            return iter(packages(self._folder, start))
        return read_rows(path, self.adapter.columns, self.limits, start)

    def _check_columns(self, path: Path, name: str) -> None:
        if self._folder is not None:
            return
        found = column_names(path, self.adapter.needs, self.limits)
        if not found:
            raise UserError(f"{name} of {self.label} holds no readable row; is it the right file?")
        hint = (
            f"The published set has it ({self.adapter.about}): check that this is that set, name a "
            f"revision with the old layout, or read it through adapter: {MAPPING}"
        )
        require_columns(found, self.adapter.needs, f"{name} of {self.label}", hint)

    def _convert(
        self, row: Row | BrokenRow, index: int, file: SourceFile
    ) -> ProblemRecord | Rejected | None:
        if isinstance(row, BrokenRow):
            return Rejected(f"{self.label}: {row.where}", row.rule, row.reason)
        adapter = self.adapter
        if adapter.belongs is not None and not adapter.belongs(row.data, self.subset):
            return None
        other = file.other if self.source.generated_tests else None
        reader = RowReader(adapter.name, self.subset, index, self.limits, adapter.licence, other)
        where = f"{self.label}: {row.where}"
        try:
            return adapter.convert(row.data, reader)
        except Unusable as error:
            return Rejected(where, error.rule, str(error))
        except UserError as error:
            return Rejected(where, "malformed", str(error))
        except Disappeared:
            raise
        except Exception as error:  # foreign data must cost one row, not the build
            reason = shorten(f"{type(error).__name__}: {error}", 160)
            return Rejected(where, "malformed", f"not of the published form ({reason})")


def _folder_identity(folder: Path) -> str:
    """Names, sizes and times of all files below a folder."""
    lines = []
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        lines.append(f"{path.relative_to(folder)} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(lines)


def read_source(
    source: Source,
    limits: Limits | None = None,
    *,
    progress: bool = False,
    reject: Callable[[Rejected], None] | None = None,
) -> Iterator[ProblemRecord]:
    """The records of a source, one at a time; rejections go to ``reject``.

    Raises:
        UserError: the source is not there or lacks a column.
    """
    opened = OpenSource(source, limits)
    seen: set[str] = set()
    for item in with_progress(opened.items(), opened.label, progress):
        value = first_only(item.value, seen, opened.label)
        if isinstance(value, ProblemRecord):
            yield value
        elif reject is not None:
            reject(value)


def first_only(
    value: ProblemRecord | Rejected, seen: set[str], label: str
) -> ProblemRecord | Rejected:
    """A record, or its rejection where a record of the same id came before."""
    if isinstance(value, ProblemRecord):
        if value.id in seen:
            return Rejected(f"{label}: {value.id}", "duplicate_id", "an earlier row has this id")
        seen.add(value.id)
    return value


def with_progress(items: Iterator[Item], label: str, shown: bool, done: int = 0) -> Iterator[Item]:
    """The items, counted by a progress bar on standard error."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    refused = 0
    with tqdm(desc=label, unit=" rows", initial=done, disable=not shown) as bar:
        for item in items:
            refused += isinstance(item.value, Rejected)
            bar.update(item.after.index - bar.n)
            if refused:
                bar.set_postfix(refused=refused, refresh=False)
            yield item


def load_sources(entries: Sequence[Mapping[str, Any]]) -> list[Source]:
    """The sources of a configuration file.

    Raises:
        UserError: which entry is wrong, and how.
    """
    sources = []
    for number, entry in enumerate(entries, start=1):
        try:
            sources.append(Source.from_dict(entry))
        except UserError as error:
            raise UserError(f"source {number}: {error}") from None
    return sources
