"""Evaluation sets by name.

``livecodebench`` is the file that release v6 added: 175 problems of January to April 2025. That is
the set behind the paper's Table 1: its percentages are multiples of 1/104 for AtCoder easy, 1/240
for AtCoder hard and so on, which are four attempts at that file's counts (`PAPER_COUNTS`), not at
those of the union of all six files, which is ``livecodebench:release_v6``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import pyarrow.parquet as pq

from mcbench.data.collect import ADAPTERS, Source
from mcbench.data.collect.shards import collect
from mcbench.data.pipeline import read_audit
from mcbench.data.schema import Problem, is_date
from mcbench.data.storage import SCHEMA, decode, read_problems
from mcbench.errors import UserError, unknown
from mcbench.files import digest

# Problems of the paper's LiveCodeBench v6 by platform and difficulty.
PAPER_COUNTS = {
    ("atcoder", "easy"): 26,
    ("atcoder", "medium"): 26,
    ("atcoder", "hard"): 60,
    ("leetcode", "easy"): 17,
    ("leetcode", "medium"): 26,
    ("leetcode", "hard"): 20,
}


_MEMORY_MB = 1024  # for tests of problems that set no limit; of the time, the adapter knows


@dataclass(frozen=True)
class Benchmark:
    """An evaluation set; ``title`` heads its column in a table. ``path`` is a local copy; empty:
    the hub.
    """

    name: str
    title: str
    adapter: str
    subset: str
    path: str = ""

    @property
    def source(self) -> Source:
        """Where its problems come from."""
        return Source(adapter=self.adapter, path=self.path, subset=self.subset)


BENCHMARKS: dict[str, Benchmark] = {
    name: Benchmark(name, title, adapter, subset)
    for name, title, adapter, subset in (
        ("livecodebench", "LiveCodeBench", "livecodebench", "v6"),
        ("humaneval", "HumanEval", "humaneval", "test"),
        ("mbpp", "MBPP", "mbpp", "full"),
        ("evalplus", "HumanEval+", "humanevalplus", "test"),
        ("mbppplus", "MBPP+", "mbppplus", "test"),
    )
}


def is_benchmark(name: str) -> bool:
    """Whether a name is meant as that of an evaluation set, with or without a subset or path."""
    return name.partition(":")[0] in BENCHMARKS


def benchmark(name: str) -> Benchmark:
    """An evaluation set by its name.

    A subset may follow, as in ``livecodebench:release_v5``, or the file or folder of a local copy,
    as in ``humaneval:HumanEval.jsonl.gz``.

    Raises:
        UserError: no such set, subset or path.
    """
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    base, _, rest = name.partition(":")
    if base not in BENCHMARKS or not rest:
        shown = ("livecodebench:release_v5", "mbpp:sanitized", "humaneval:FILE_OR_FOLDER")
        raise unknown("benchmark", name, [*BENCHMARKS, *shown])
    known = BENCHMARKS[base]
    subsets = ADAPTERS[known.adapter].subsets
    if rest in subsets:
        return replace(known, name=name, subset=rest)
    if not Path(rest).exists():
        raise unknown(
            f"subset of {base}", rest, [*subsets, "the path of a local copy, which must exist"]
        )
    return replace(known, path=rest)


def limited(problem: Problem) -> Problem:
    """A problem of a set, with a limit of memory where it has none."""
    return replace(problem, memory_limit_mb=problem.memory_limit_mb or _MEMORY_MB)


@dataclass(frozen=True, eq=False)
class BenchmarkSet:
    """The problems of an evaluation set; tests stay on disk until a problem's turn comes.

    ``entries`` are the problems, without tests where ``places`` says which shard, and which row of
    it, has the whole problem. ``content`` is a hash of the whole set with its tests. ``refused``
    holds one line for each published problem that could not be read or lost tests, which makes
    scores incomparable with published ones.
    """

    benchmark: Benchmark
    entries: tuple[Problem, ...]
    content: str
    refused: tuple[str, ...] = ()
    places: dict[str, tuple[Path, int]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def digest(self) -> str:
        """Hash of the problems, tests included."""
        return digest([self.content, *(entry.id for entry in self.entries)])

    def window(self, start: str = "", end: str = "") -> BenchmarkSet:
        """The problems published from ``start`` to ``end``, both included (YYYY-MM-DD).

        Raises:
            UserError: no date, or nothing lies in the window.
        """
        check_window(start, end)
        kept = [
            entry
            for entry in self.entries
            if (not start or entry.date >= start) and (not end or (entry.date or "9") <= end)
        ]
        if not kept:
            dates = sorted(filter(None, (entry.date for entry in self.entries)))
            span = f"its problems are of {dates[0]} to {dates[-1]}" if dates else "it has no dates"
            raise UserError(
                f"{self.benchmark.name} has no problem between {start or 'its first'} and "
                f"{end or 'its last'}; {span}"
            )
        return replace(self, entries=tuple(kept))

    def problems(self, start: int = 0, end: int | None = None) -> list[Problem]:
        """The problems ``start`` to ``end`` of the set, tests included."""
        found = [(entry, self.places.get(entry.id)) for entry in self.entries[start:end]]
        return [limited(_shard(at[0])[at[1]]) if at else entry for entry, at in found]

    @property
    def is_the_papers(self) -> bool:
        """Whether it has the paper's LiveCodeBench v6, as far as the counts tell."""
        return self.benchmark.adapter == "livecodebench" and self.counts() == PAPER_COUNTS

    def counts(self) -> Counter[tuple[str, str]]:
        """Number of problems by platform and difficulty."""
        return Counter((entry.kind, entry.difficulty) for entry in self.entries)


def check_window(start: str, end: str) -> None:
    """Refuses what are no dates, or in the wrong order; an empty one is none."""
    for day in filter(None, (start, end)):
        if not is_date(day):
            raise UserError(f"a date is written YYYY-MM-DD, got {day!r}")
    if end and start > end:
        raise UserError(f"no day is from {start} on and up to {end}")


@lru_cache(maxsize=1)
def _shard(path: Path) -> list[Problem]:
    """The last shard read: problems come in the order of the shards."""
    return read_problems(path)


def open_benchmark(
    name: str, cache: Path, path: str = "", *, progress: bool = False
) -> BenchmarkSet:
    """Open an evaluation set, read once into ``cache``; its tests stay there until they are needed.

    Args:
        path: a local copy; empty: the one that the name says, or the hub.

    Raises:
        UserError: no such set, or it cannot be read or holds nothing usable.
    """
    known = benchmark(name)
    known = replace(known, path=path or known.path)
    shards = collect([known.source], cache, progress=progress)
    columns = [name for name in SCHEMA.names if name != "tests"]
    entries: list[Problem] = []
    places: dict[str, tuple[Path, int]] = {}
    for shard in shards:
        for row, about in enumerate(pq.read_table(shard.path, columns=columns).to_pylist()):
            entries.append(decode({**about, "tests": "[]"}))
            places[entries[-1].id] = shard.path, row
    refused = [f"{note.record}: {note.detail}" for shard in shards for note in read_audit(shard)]
    if not entries:
        reason = refused[0] if refused else "the files are empty"
        raise UserError(f"{known.name} has no usable problem: {reason}")
    content = digest(shard.sha256 for shard in shards)
    return BenchmarkSet(known, tuple(entries), content, tuple(refused), places)
