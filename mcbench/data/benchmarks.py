"""Evaluation sets by name: what a model is asked, and how its answer is judged.

``livecodebench`` is the file that release v6 added: 175 problems of January to April 2025. That is
the set behind the paper's Table 1: its percentages are multiples of 1/104 for AtCoder easy, 1/240
for AtCoder hard and so on, which are four attempts at that file's counts (`PAPER_COUNTS`), not at
those of the union of all six files, which is ``livecodebench:release_v6``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mcbench.data.collect import Limits, Source
from mcbench.data.collect.shards import collect
from mcbench.data.pipeline import read_audit
from mcbench.data.schema import ProblemRecord
from mcbench.data.storage import digest, read_records
from mcbench.errors import UserError, unknown

# Problems of the paper's LiveCodeBench v6 by platform and difficulty.
PAPER_COUNTS = {
    ("atcoder", "easy"): 26,
    ("atcoder", "medium"): 26,
    ("atcoder", "hard"): 60,
    ("leetcode", "easy"): 17,
    ("leetcode", "medium"): 26,
    ("leetcode", "hard"): 20,
}


@dataclass(frozen=True)
class Benchmark:
    """An evaluation set; ``title`` heads its column in a table.

    ``time_limit_s`` and ``memory_limit_mb`` hold for tests of problems that set none;
    ``attempts`` and ``temperature`` are what is usual for the set.
    """

    name: str
    title: str
    about: str
    adapter: str
    subset: str
    time_limit_s: float
    memory_limit_mb: float = 1024
    attempts: int = 4
    temperature: float = 1.0


LIVECODEBENCH = Benchmark(
    "livecodebench",
    "LiveCodeBench",
    "LiveCodeBench v6: 175 problems of AtCoder and LeetCode, January to April 2025",
    "livecodebench",
    "v6",
    time_limit_s=6.0,  # per test, as its own runner
)
HUMANEVAL = Benchmark(
    "humaneval",
    "HumanEval",
    "HumanEval: 164 functions to complete",
    "humaneval",
    "test",
    time_limit_s=3.0,
)
MBPP = Benchmark(
    "mbpp", "MBPP", "MBPP: the 500 problems of the test split", "mbpp", "full", time_limit_s=3.0
)
NANO = Benchmark(
    "nano:test", "nano", "the held-out problems of the nano world", "nano", "test", 2.0, 512
)

BENCHMARKS: dict[str, Benchmark] = {b.name: b for b in (LIVECODEBENCH, HUMANEVAL, MBPP, NANO)}


def is_benchmark(name: str) -> bool:
    """Whether a name is meant as that of an evaluation set, with or without a subset."""
    return name in BENCHMARKS or (name.partition(":")[0] in BENCHMARKS and ":" in name)


def benchmark(name: str) -> Benchmark:
    """An evaluation set by its name; a subset may follow, as in ``livecodebench:release_v5``.

    Raises:
        UserError: no such set or subset.
    """
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    base, _, subset = name.partition(":")
    if base not in BENCHMARKS or not subset:
        raise unknown(
            "benchmark", name, [*BENCHMARKS, "livecodebench:release_v5", "mbpp:sanitized"]
        )
    known = BENCHMARKS[base]
    Source(known.adapter, subset=subset)  # refuses an unknown subset
    return replace(known, name=name, about=f"{known.title}, {subset}", subset=subset)


@dataclass(frozen=True)
class Entry:
    """What is known of a problem without its tests, and where the rest is."""

    id: str
    form: str
    difficulty: str
    platform: str
    date: str
    shard: Path | None = field(repr=False, default=None)
    row: int = 0


class BenchmarkSet:
    """The problems of an evaluation set; tests stay on disk until a problem's turn comes.

    ``entries`` says what is in it; ``refused`` holds one line for each published problem that could
    not be read or lost tests, which makes scores incomparable with published ones.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        entries: Sequence[Entry],
        content: str,
        refused: Sequence[str] = (),
        records: Mapping[str, ProblemRecord] | None = None,
    ) -> None:
        self.benchmark = benchmark
        self.entries = tuple(entries)
        self.refused = tuple(refused)
        self._content = content
        self._records = dict(records or {})

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def digest(self) -> str:
        """Hash of the problems, tests included."""
        return digest([self._content, *(entry.id for entry in self.entries)])[:16]

    def window(self, start: str = "", end: str = "") -> BenchmarkSet:
        """The problems published from ``start`` to ``end``, both included (YYYY-MM-DD).

        Raises:
            UserError: no date, or nothing lies in the window.
        """
        for day in filter(None, (start, end)):
            _check_day(day)
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
        return self._only(kept)

    def spread(self, limit: int | None) -> BenchmarkSet:
        """``limit`` problems spread evenly over the set; all of them where None."""
        if limit is None or limit >= len(self):
            return self
        return self._only([self.entries[i * len(self) // limit] for i in range(limit)])

    def _only(self, entries: Sequence[Entry]) -> BenchmarkSet:
        return BenchmarkSet(self.benchmark, entries, self._content, self.refused, self._records)

    def records(self, start: int = 0, end: int | None = None) -> list[ProblemRecord]:
        """The problems ``start`` to ``end`` of the set, tests included."""
        return [self._record(entry) for entry in self.entries[start:end]]

    def _record(self, entry: Entry) -> ProblemRecord:
        if entry.shard is None:
            return self._records[entry.id]
        return _shard(entry.shard)[entry.row]

    @property
    def is_the_papers(self) -> bool:
        """Whether it has the paper's LiveCodeBench v6, as far as the counts tell."""
        return self.benchmark.adapter == "livecodebench" and self.counts() == PAPER_COUNTS

    def counts(self) -> Counter[tuple[str, str]]:
        """Number of problems by platform and difficulty."""
        return Counter((entry.platform, entry.difficulty) for entry in self.entries)


@lru_cache(maxsize=1)
def _shard(path: Path) -> list[ProblemRecord]:
    """The last shard read: problems come in the order of the shards."""
    return read_records(path)


def _check_day(day: str) -> None:
    try:
        if date.fromisoformat(day).isoformat() == day:
            return
    except ValueError:
        pass
    raise UserError(f"a date is written YYYY-MM-DD, got {day!r}")


def open_benchmark(
    name: str,
    cache: Path,
    path: str = "",
    *,
    limits: Limits | None = None,
    progress: bool = False,
) -> BenchmarkSet:
    """Open an evaluation set from ``path`` (a file or folder) or the hub, read once into ``cache``.

    Raises:
        UserError: no such set, or it cannot be read or holds nothing usable.
    """
    known = benchmark(name)
    if known.adapter == "nano":
        return _nano(known)
    source = Source(known.adapter, path, known.subset)
    shards = collect([source], cache, limits, progress=progress)
    entries = [entry for shard in shards for entry in _entries(shard.path, known.adapter)]
    notes = [note for shard in shards for note in read_audit(shard)]
    refused = [f"{note.record}: {note.detail}" for note in notes]
    if not entries:
        reason = refused[0] if refused else "the files are empty"
        raise UserError(f"{name} has no usable problem: {reason}")
    return BenchmarkSet(known, entries, digest(shard.sha256 for shard in shards), refused)


def _entries(path: Path, name: str) -> Iterator[Entry]:
    columns = ["id", "form", "difficulty", "date", "metadata"]
    for row, about in enumerate(pq.read_table(path, columns=columns).to_pylist()):
        platform = json.loads(about.pop("metadata")).get("platform", name)
        yield Entry(**about, platform=str(platform), shard=path, row=row)


def _nano(known: Benchmark) -> BenchmarkSet:
    from mcbench.nano.problems import load_split

    records = {
        problem.id: ProblemRecord(
            id=problem.id,
            statement=problem.statement,
            form=problem.form,
            tests=problem.tests,
            fn_name=problem.fn_name or "",
            source="nano",
            language="en",
            difficulty=problem.difficulty,
            difficulty_provenance="source",
            metadata={"platform": problem.kind},
        )
        for problem in load_split("test")
    }
    entries = [
        Entry(r.id, r.form, r.difficulty, str(r.metadata["platform"]), r.date)
        for r in records.values()
    ]
    content = digest(json.dumps(r.to_row(), sort_keys=True) for r in records.values())
    return BenchmarkSet(known, entries, content, records=records)


# What a model is asked --------------------------------------------------------------------------
#
# LiveCodeBench asks a chat model with a system message that casts it as a Python expert, and a user
# message of three headed parts: the question, the format (fill in the starter code; or read stdin
# and write stdout, without testing on the examples) with a code block to follow, and the answer.
# The parts and their order are kept, the wording is ours. MBPP's paper casts the model as a Python
# expert too, states the task and shows the tests; HumanEval's was given the function to complete,
# which a chat model is asked for in words.

_SYSTEM = (
    "You are an expert in Python. You are given a programming problem and answer with a correct "
    "Python program that does what the problem asks and passes all of its tests."
)
_WITH_STARTER = "Complete the starter code below and put the whole solution in one code block."
_COMPLETE = (
    "Complete this function so that it does what its docstring says. Put the whole program, with "
    "its imports and helper functions, in one code block."
)
_PASS = "Your program must pass these tests. Put the whole program in one code block."
_WITHOUT_STARTER = (
    "Write a program that reads the input from stdin, solves the problem and writes the answer to "
    "stdout; do not run it on the examples. Put the whole program in one code block like this."
)


def prompt(record: ProblemRecord, style: str = "chat") -> str | list[dict[str, str]]:
    """What is asked: messages for a chat model (``chat``), or one text for any other (``plain``).

    A nano problem is its statement, as in training.

    Raises:
        UserError: an unknown style.
    """
    if style not in ("chat", "plain"):
        raise unknown("prompt style", style, ("chat", "plain"))
    if record.source == "nano":
        return record.statement if style == "plain" else _chat("", record.statement)
    system, question = _question(record)
    return _chat(system, question) if style == "chat" else f"{system}\n\n{question}"


def _chat(system: str, user: str) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": system}] if system else []
    return [*messages, {"role": "user", "content": user}]


def _question(record: ProblemRecord) -> tuple[str, str]:
    """The system's and the user's text."""
    if record.source == "humaneval":
        return _SYSTEM, f"{_COMPLETE}\n\n```python\n{record.starter_code.strip()}\n```\n"
    if record.source == "mbpp":
        shown = "\n".join(record.metadata["shown_tests"])
        return _SYSTEM, f"{record.statement.strip()}\n\n{_PASS}\n\n```python\n{shown}\n```\n"
    starter = record.starter_code.strip("\n")
    form = _WITH_STARTER if starter else _WITHOUT_STARTER
    block = starter or "# your program"
    return _SYSTEM, (
        f"### Question\n{record.statement}\n\n### Format\n{form}\n```python\n{block}\n```\n\n"
        "### Answer\n"
    )


# How an answer is judged ------------------------------------------------------------------------


def submission(record: ProblemRecord, code: str, known: Benchmark) -> Any:
    """The program with all tests of the problem, as the evaluator takes it.

    An answer to HumanEval is run after the imports and helper functions that its prompt shows, as
    the set's own judge runs it after the whole prompt.
    """
    from mcbench.evaluator import AssertTest, CallTest, StdioTest, Submission

    tests: list[Any]
    if record.form == "stdin":
        tests = [StdioTest(**test) for test in record.tests]
    elif record.form == "call":
        tests = [CallTest(fn_name=record.fn_name, **test) for test in record.tests]
    else:
        tests = [AssertTest(**test) for test in record.tests]
    shown = record.tests[0].get("setup", "") if record.source == "humaneval" else ""
    return Submission(
        f"{shown}\n{code}" if shown else code,
        tests,
        time_limit_s=record.time_limit_s or known.time_limit_s,
        memory_limit_mb=record.memory_limit_mb or known.memory_limit_mb,
    )
