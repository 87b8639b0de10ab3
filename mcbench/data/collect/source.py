"""Reading a source: rows through an adapter to records, resumable and in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_args

import pyarrow.parquet as pq
from pydantic import Field, PositiveInt, field_validator, model_validator

from mcbench.data.audit import shorten
from mcbench.data.collect.adapter import Adapter, RowReader
from mcbench.data.collect.decode import MB, Unusable
from mcbench.data.collect.files import SourceFile, hub_files, local_files, local_folder
from mcbench.data.collect.listed import MappedField, TestKey, mapping_adapter
from mcbench.data.collect.rows import Disappeared, Row, check_columns, package_folders, read_rows
from mcbench.data.schema import Difficulty, Problem, Rejected
from mcbench.errors import UserError, unknown
from mcbench.files import rows_beside
from mcbench.settings import Settings

ADAPTERS = {
    name: Adapter.read({"name": name, **about}, f"source {name}")
    for name, about in rows_beside(__file__, "sources.toml").items()
}
PACKAGES, MAPPING = "problem-package", "mapping"
_OTHER_LAYOUT = (
    "The published set has it ({}): check that this is that set, name a revision with the old "
    f"layout, or read it through adapter: {MAPPING}"
)


class Source(Settings):
    """Where problems come from and how they are read.

    Args:
        adapter: a name in :data:`ADAPTERS`, or ``mapping`` for any rows.
        path: a local file or folder; empty reads the hub.
        subset: which part of the set (a split, a release); empty takes the adapter's default.
        repo, revision: another data set on the hub than the adapter's, and its branch, tag or
            commit. ``mapping`` needs ``repo`` or ``path``.
        files: patterns of the files to read, instead of the adapter's.
        limit: only so many rows of the subset, the first.
        name: of the source in ids, for ``mapping``.
        columns, test_keys, levels: as `listed.mapping_adapter` takes them, for ``mapping``.
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
    limit: PositiveInt | None = None
    name: str = ""
    columns: dict[MappedField, str] = Field(default_factory=dict)
    test_keys: dict[TestKey, str] = Field(default_factory=dict)
    levels: dict[str, Difficulty] = Field(default_factory=dict)
    generated_tests: bool = False
    endpoint: str | None = None

    @field_validator("files", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _check(self) -> Self:
        adapter = self.reader()
        if self.adapter != MAPPING and (self.columns or self.test_keys or self.levels):
            raise UserError(f"columns, test_keys and levels belong to {MAPPING!r}")
        adapter.subset(self.subset)
        if not self.path and not (self.repo or adapter.repo):
            raise UserError(f"a source of {self.adapter} needs a path (a file or folder)")
        return self

    def reader(self) -> Adapter:
        """The adapter that reads the rows."""
        if self.adapter == MAPPING:
            return mapping_adapter(self.name, self.columns, self.test_keys, self.levels)
        return _published(self.adapter)


def _published(name: str) -> Adapter:
    if name not in ADAPTERS:
        raise unknown("source", name, [*ADAPTERS, MAPPING])
    return ADAPTERS[name]


@dataclass(frozen=True)
class Item:
    """A problem or a rejection, and the rows read until then; None: nothing comes after it."""

    value: Problem | Rejected
    after: int | None = None


class OpenSource:
    """A source whose files are known; reading it again gives the same items.

    Raises:
        UserError: the source is not there, or lacks a column (found before anything is read).
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.adapter = source.reader()
        self.subset = self.adapter.subset(source.subset)
        self.label = f"{self.adapter.name}/{self.subset}" if self.subset else self.adapter.name
        self.files = self._files()

    def _files(self) -> list[SourceFile]:
        if self.source.adapter == PACKAGES:
            return [local_folder(Path(self.source.path))]
        patterns = self.source.files or self.adapter.subsets[self.subset]
        if self.source.path:
            return local_files(Path(self.source.path), patterns)
        repo = self.source.repo or self.adapter.repo
        return hub_files(repo, self.source.revision, patterns, self.source.endpoint)

    @property
    def identity(self) -> str:
        """Text that is equal where the same items are read."""
        about = self.source.model_dump(exclude={"path"})
        return json.dumps([about, *(file.identity for file in self.files)], sort_keys=True)

    def items(
        self, start: int = 0, seen: set[str] | None = None, *, progress: bool = False
    ) -> Iterator[Item]:
        """Problems and rejections after the first ``start`` rows.

        A row that cannot be used becomes a rejection, so does a problem whose id is in ``seen`` or
        came before, and a source that ends early ends in one. ``progress`` shows a bar on standard
        error.

        Raises:
            UserError: a file holds nothing that can be read, or lacks a column.
        """
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        seen, refused = set() if seen is None else seen, 0
        with tqdm(desc=self.label, unit=" rows", initial=start, disable=not progress) as bar:
            for item in self._read(start):
                value = first_only(item.value, seen, self.label)
                bar.update((item.after or bar.n) - bar.n)
                if isinstance(value, Rejected):
                    refused += 1
                    bar.set_postfix(refused=refused, refresh=False)
                yield Item(value, item.after)

    def _read(self, start: int) -> Iterator[Item]:
        done = taken = 0
        try:
            for row, file in self._rows():
                if taken == self.source.limit:
                    return
                done += 1
                if self._belongs(row):
                    taken += 1
                    if done > start:
                        yield Item(self._convert(row, done - 1, file), done)
        except Disappeared as error:
            detail = f"{error}; what was read before it is kept"
            yield Item(Rejected(self.label, "source_disappeared", detail))

    def _rows(self) -> Iterator[tuple[Row, SourceFile]]:
        for file in self.files:
            path = file.get(file.name)
            if self.adapter.needs:
                hint = _OTHER_LAYOUT.format(self.adapter.about)
                check_columns(path, self.adapter.needs, f"{file.name} of {self.label}", hint)
            for row in read_rows(path, self.adapter.all_columns):
                yield row, file

    def _belongs(self, row: Row) -> bool:
        """Whether a row is of the subset; what cannot be read is, so that it is told of."""
        belongs = self.adapter.belongs
        return not belongs or isinstance(row.data, Unusable) or belongs(row.data, self.subset)

    def _convert(self, row: Row, index: int, file: SourceFile) -> Problem | Rejected:
        adapter = self.adapter
        where = f"{self.label}: {row.where}"
        try:
            if isinstance(row.data, Unusable):
                raise row.data
            other = file.get if self.source.generated_tests else None
            return adapter.convert(row.data, RowReader(self.subset, index, other))
        except Unusable as error:
            return Rejected(where, error.rule, str(error))
        except UserError as error:
            return Rejected(where, "malformed", str(error))
        except Disappeared:
            raise
        except Exception as error:  # foreign data must cost one row, not the build
            reason = shorten(f"{type(error).__name__}: {error}", 160)
            return Rejected(where, "malformed", f"not of the published form ({reason})")


def read_source(
    source: Source,
    *,
    progress: bool = False,
    reject: Callable[[Rejected], None] | None = None,
) -> Iterator[Problem]:
    """The problems of a source, one at a time; rejections go to ``reject``.

    Raises:
        UserError: the source is not there or lacks a column.
    """
    for item in OpenSource(source).items(progress=progress):
        if isinstance(item.value, Problem):
            yield item.value
        elif reject is not None:
            reject(item.value)


def first_only(value: Problem | Rejected, seen: set[str], label: str) -> Problem | Rejected:
    """A problem, or its rejection where one of the same id came before."""
    if isinstance(value, Problem):
        if value.id in seen:
            return Rejected(f"{label}: {value.id}", "duplicate_id", "an earlier row has this id")
        seen.add(value.id)
    return value


def load_sources(entries: Sequence[Mapping[str, Any]]) -> list[Source]:
    """The sources of a configuration file.

    Raises:
        UserError: which entry is wrong, and how.
    """
    return [Source.read(entry, f"source {number}") for number, entry in enumerate(entries, 1)]


def describe_sources(name: str | None = None) -> str:
    """The adapters in a line each; or one with its columns, files and an example.

    Raises:
        UserError: there is no such adapter.
    """
    if name is None:
        width = max(map(len, ADAPTERS))
        lines = [f"{a.name:<{width}}  {a.about}" for a in ADAPTERS.values()]
        lines.append(f"{MAPPING:<{width}}  any other rows, through a mapping of columns")
        return "\n".join(
            [*lines, "", "mcbench data sources NAME tells columns, files and an example"]
        )
    if name == MAPPING:
        return _MAPPING_HELP
    adapter = _published(name)
    needed = [names.replace("|", " or ") for names in adapter.needs]
    known = {name for names in adapter.needs for name in names.split("|")}
    used = [name for name in adapter.all_columns if name not in known]
    subsets = [f"  {subset or '(one)'}: {', '.join(files) or 'folders with problem.yaml'}"
               for subset, files in adapter.subsets.items()]  # fmt: skip
    return "\n".join(
        [
            f"{name}: {adapter.about}",
            f"licence: {adapter.licence or 'each problem has its own, or none is stated'}",
            f"on the hub: {adapter.repo or 'no; a path is needed'}",
            f"columns needed: {', '.join(needed) or 'none'}",
            f"columns used: {', '.join(used) or 'none'}",
            f"seconds a test, unless a row says: {adapter.time_limit_s or 'as the build says'}",
            "subsets and their files, the first is the default:",
            *subsets,
            "in a build's configuration:",
            "  sources:",
            f"    - {{adapter: {name}, path: FOLDER_OR_FILE}}"
            + (f"   # or from the hub: {{adapter: {name}}}" if adapter.repo else ""),
        ]
    )


_MAPPING_HELP = r"""mapping: any rows, JSON lines or parquet, from a path or a data set on the hub
rows.jsonl, a program that reads and prints, and a method that is called:
  {"id": "double", "text": "Read an integer x and print twice its value.", "io": [{"input": "3\n", "output": "6\n"}, {"input": "-4\n", "output": "-8\n"}, {"input": "10\n", "output": "20\n"}], "solutions": ["print(2 * int(input()))"]}
  {"id": "add", "text": "Complete class Solution: add(self, a, b) returns the sum of two integers.", "io": [{"input": [1, 2], "output": 3}, {"input": [5, -7], "output": -2}, {"input": [10, 20], "output": 30}], "name": "add", "solutions": ["class Solution:\n    def add(self, a, b):\n        return a + b"]}
mine.yaml:
  name: mine
  out: build/mine
  sources:
    - adapter: mapping
      name: mine
      path: rows.jsonl
      columns: {id: id, statement: text, tests: io, fn_name: name, references: solutions}
train on it:
  mcbench data build mine.yaml
  mcbench train --set train_set=build/mine
test_keys: {input: ..., output: ...} where a test's keys have other names
a problem without references is dropped, unless verify: {without_reference: flag}
dots lead into objects; statement is needed, and tests, or two lists, inputs and outputs
columns may name: """ + ", ".join(get_args(MappedField))  # noqa: E501


def local_size(source: Source) -> str:
    """How much a source with a path holds, and about how long its text stages take.

    Raises:
        UserError: the path is not there, or holds no file of the set.
    """
    if not source.path:
        return f"{source.adapter}: from the hub, its size is known once it is read"
    opened = OpenSource(source)
    if source.adapter == PACKAGES:
        number = sum(1 for _ in package_folders(Path(source.path)))
        return f"{source.adapter}: {number} packages, about {number * _PACKAGE_S / 60:.0f} min"
    paths = [file.get(file.name) for file in opened.files]
    size = sum(path.stat().st_size for path in paths) / MB
    told = f"{source.adapter}: {len(paths)} files, {size:.0f} MB"
    if rows := sum(pq.read_metadata(p).num_rows for p in paths if p.suffix == ".parquet"):
        told += f", {rows} rows, about {rows * _ROW_S / 60:.0f} min before the verification"
    return told


_ROW_S, _PACKAGE_S = 0.01, 0.5  # of the stages before the verification, on two cores
