"""Decontamination: problems of evaluation sets, by their words and by function and example.

A problem that calls a function of the same name with the same arguments, in a test or an example,
is the same problem whatever its words, unless it expects another answer: a rewritten statement
keeps those. So is a program that shares a long test, or most of three or more tests that the two
could share, input and answer. Others are found by their words. A run of ``n`` normalised words
(`mcbench.data.words`: case, punctuation, and the values of numbers do not count) that occurs in a
record and in an evaluation problem is a hit. Runs that many
evaluation problems or many records share are phrases of the trade ("the input is given from
standard input in the following format") and do not count; nor do runs that are mostly numbers.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field

from mcbench.data.audit import Action, shorten
from mcbench.data.pipeline import Decision, GlobalStage
from mcbench.data.programs import example_calls, example_inputs
from mcbench.data.schema import Problem
from mcbench.data.words import NUMBER, Hashes, hash_of, run_hashes, words
from mcbench.files import digest
from mcbench.settings import Settings, Share, ordered

_APART = 0.6
"""Share of runs from which a problem counts whose examples are all others.

Problems about one subject define it in the same words ("times are formatted as HH:MM", "a tree
rooted at node 0, given as a list of parents"). A copy in other words keeps an example.
"""


_SHARED = 3  # short tests that two programs hardly share by chance
_FLAGGED = 0.1  # share of runs from which an overlap is flagged
# A run in more evaluation problems (and 1 % of them) or more records (and 0.1 %) is a phrase of the
# trade. Near-duplicates are gone by now, so a problem does not occur that often.
_PROBLEMS, _RECORDS = 3, 20


class DecontaminateConfig(Settings):
    """What counts as contamination.

    Args:
        run: words per run (8, as open-r1 uses).
        passage: words of the shortest passage, of hits one after another, that counts: two people
            describe the same step in the same dozen words.
        min_share: share of an evaluation problem's runs, or of the record's, that must be hit for
            the record to be dropped.
        numbers: whether the values of numbers count.

    Raises:
        UserError: a value out of range.
    """

    run: Annotated[int, Field(ge=2)] = 8
    passage: int = 16
    min_share: Share = 0.33
    numbers: bool = False

    _in_order = ordered(("run", "passage"))


@dataclass(frozen=True)
class Index:
    """Runs of the evaluation sets: every hash once, and with each problem that it is of."""

    hashes: pd.Index[Any]
    owners: pd.DataFrame  # columns hash and owner, the number of a problem
    ids: tuple[str, ...]
    sizes: np.ndarray  # distinct runs per evaluation problem
    examples: dict[str, dict[str, int]]  # by function and arguments: answer, number of a problem
    calls: tuple[frozenset[int], ...]  # of each problem, hashes of arguments
    inputs: dict[int, list[int]]  # by hash of a test's input and answer: numbers of problems
    tests: tuple[int, ...]  # such hashes per problem
    fingerprint: str

    @classmethod
    def build(cls, problems: Iterable[Problem], config: DecontaminateConfig) -> Index:
        """Index evaluation problems; an empty collection gives an index that nothing hits."""
        known = []
        examples: defaultdict[str, dict[str, int]] = defaultdict(dict)
        inputs: defaultdict[int, list[int]] = defaultdict(list)
        for number, problem in enumerate(problems):
            asked, pairs = example_calls(problem), example_inputs(problem)
            for given, told in asked.items():
                examples[f"{problem.fn_name}{given}"].setdefault(told, number)
            for pair in pairs:
                inputs[pair].append(number)
            tokens = words(problem.statement, config.numbers)
            runs = np.unique(_telling(tokens, config)[0])
            known.append((problem.id, frozenset(_given(asked)), len(pairs), runs))
        ids, calls, tests, all_runs = zip(*known, strict=True) if known else ((),) * 4
        hashes = np.concatenate([*all_runs, np.empty(0, dtype=np.uint64)])
        numbers = np.repeat(np.arange(len(ids)), [len(runs) for runs in all_runs])
        owners = pd.DataFrame({"hash": hashes, "owner": numbers})
        often = owners.groupby("hash").owner.transform("size")
        owners = owners[often <= max(_PROBLEMS, len(ids) // 100)]
        sizes = np.bincount(owners.owner, minlength=len(ids))
        content = [owners[name].to_numpy().tobytes() for name in owners]
        fingerprint = digest([*content, *ids, json.dumps([examples, inputs], sort_keys=True)])
        found = pd.Index(owners.hash.unique())
        return cls(found, owners, ids, sizes, examples, calls, inputs, tests, fingerprint)


def _given(asked: Iterable[str]) -> list[int]:
    """Hashes of what are arguments (JSON lists), not the whole of a test."""
    return [hash_of(text) for text in asked if text.startswith("[")]


def _telling(tokens: list[str], config: DecontaminateConfig) -> tuple[Hashes, np.ndarray]:
    """Hashes of the runs that tell problems apart, and where they start.

    At least half of the words of a run must be distinct words.
    """
    hashes = run_hashes(tokens, config.run)
    if not tokens:
        return hashes, np.empty(0, dtype=np.int64)
    codes = pd.factorize(np.array(tokens, dtype=object))[0] + 1
    codes[[token == NUMBER for token in tokens]] = 0
    n = min(config.run, len(tokens))
    runs = np.sort(np.lib.stride_tricks.sliding_window_view(codes, n), axis=1)
    distinct = (np.diff(runs, axis=1, prepend=0) > 0).sum(axis=1)
    where = np.flatnonzero(distinct >= (n + 1) // 2)
    return hashes[where], where


@dataclass(frozen=True)
class Decontaminate(GlobalStage):
    """The stage. It sees the whole pool, to know the phrases that many of its records share."""

    index: Index = field(repr=False)
    config: DecontaminateConfig = field(default_factory=DecontaminateConfig)

    name: ClassVar[str] = "decontaminate"

    def configuration(self) -> Any:
        """The index counts with its content."""
        return [self.config.model_dump(), self.index.fingerprint]

    def summarise(self, batch: list[Problem]) -> pa.Table:
        """The hits of every record; its words only where there are any."""
        found = [self._look(record) for record in batch]
        return pa.Table.from_pylist(found, schema=_HITS)

    def _look(self, record: Problem) -> dict[str, Any]:
        asked = example_calls(record)
        tokens = words(record.statement, self.config.numbers)
        hashes, where = _telling(tokens, self.config)
        hit = self.index.hashes.get_indexer(pd.Index(hashes)) >= 0
        return {
            "id": record.id,
            "words": " ".join(tokens) if hit.any() else "",
            "places": where[hit],
            "hashes": hashes[hit],
            "runs": len(np.unique(hashes)),
            "calls": _given(asked) if hit.any() else [],
            "example": self._same_call(record.fn_name, asked)
            or self._same_tests(example_inputs(record)),
        }

    def _same_call(self, fn_name: str, asked: dict[str, str]) -> str:
        """Of an evaluation problem and an example that the two share; empty where there is none."""
        for given, told in sorted(asked.items()):
            known = self.index.examples.get(f"{fn_name}{given}", {})
            owner = min(known.values(), default=0) if not told else known.get(told, known.get(""))
            if known and owner is not None:
                name = self.index.ids[owner]
                if given.startswith("["):
                    return f"calls {shorten(fn_name + given, 120)} as {name} does"
                return f"has a test of {name}: {shorten(given, 120)}"
        return ""

    def _same_tests(self, pairs: dict[int, bool]) -> str:
        """Of an evaluation problem and how many tests the two share; empty where too few."""
        shared = Counter(owner for pair in pairs for owner in self.index.inputs.get(pair, ()))
        long = {owner for pair in pairs if pairs[pair] for owner in self.index.inputs.get(pair, ())}
        for owner, number in shared.most_common():
            most = min(len(pairs), self.index.tests[owner])
            if owner in long or (number >= _SHARED and 2 * number >= most):
                return f"has {number} of {self.index.tests[owner]} tests of {self.index.ids[owner]}"
        return ""

    def decide(self, summary: pa.Table) -> dict[str, Decision]:
        """Drop what overlaps with an evaluation problem, flag what nearly does."""
        records = summary.select(["places", "hashes"]).to_pandas()
        hits = records.explode(["places", "hashes"]).dropna().rename_axis("record").reset_index()
        hits = hits.astype({"places": np.int64, "hashes": np.uint64})
        often = hits.groupby("hashes").record.transform("nunique")
        hits = hits[often <= max(_RECORDS, len(summary) // 1000)]
        shared = hits.merge(self.index.owners, left_on="hashes", right_on="hash")
        found = self._passages(shared).groupby(["record", "owner"], as_index=False)
        overlaps = found.agg(
            hits=("places", "size"),
            runs=("hashes", "nunique"),
            first=("places", "min"),
            last=("places", "max"),
        )
        worst = overlaps.sort_values(["record", "hits"], ascending=[True, False], kind="stable")
        decisions = {}
        for record, with_each in worst.groupby("record", sort=False):
            (row,) = summary.slice(record, 1).to_pylist()
            notes = [self._note(row, overlap) for overlap in with_each.to_dict("records")]
            found_in = sorted(filter(None, notes), key=lambda note: note[0] != "drop")
            if found_in:
                decisions[row["id"]] = Decision((found_in[0],))
        for name, example in zip(*(summary[c].to_pylist() for c in ("id", "example")), strict=True):
            if example:
                decisions[name] = Decision((("drop", "contaminated", example),))
        return decisions

    def _passages(self, shared: pd.DataFrame) -> pd.DataFrame:
        """The hits that lie in long enough passages, or in one that is the whole problem."""
        run = self.config.run
        shared = shared.sort_values(["record", "owner", "places"], kind="stable")
        gaps = shared.groupby(["record", "owner"]).places.diff()
        passages = shared.groupby((gaps.isna() | (gaps > run)).cumsum()).places
        lengths = passages.transform("max") - passages.transform("min") + run
        needed = np.minimum(self.config.passage, self.index.sizes[shared.owner] + run - 1)
        return shared[lengths >= needed]

    def _note(self, row: dict[str, Any], overlap: dict[Any, Any]) -> tuple[Action, str, str] | None:
        hit, owner = overlap["runs"], overlap["owner"]
        share = hit / min(self.index.sizes[owner], row["runs"])
        if share < min(_FLAGGED, self.config.min_share):
            return None
        calls, theirs = set(row["calls"]), self.index.calls[owner]
        apart = calls and theirs and not calls & theirs
        tokens = row["words"].split()
        starts = sorted({overlap["first"], overlap["last"]})
        quotes = [" ".join(tokens[start : start + self.config.run]) for start in starts]
        detail = (
            f"{hit} runs of {self.config.run} words ({share:.0%}) as in {self.index.ids[owner]}: "
            + "; ".join(f'"{quote}"' for quote in quotes)
        )
        if share >= (max(_APART, self.config.min_share) if apart else self.config.min_share):
            return "drop", "contaminated", detail
        return "flag", "overlap", detail


_HITS = pa.schema(
    [
        ("id", pa.string()),
        ("words", pa.large_string()),
        ("places", pa.list_(pa.int64())),
        ("hashes", pa.list_(pa.uint64())),
        ("runs", pa.int64()),
        ("calls", pa.list_(pa.int64())),
        ("example", pa.large_string()),
    ]
)
