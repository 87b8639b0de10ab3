"""Decontamination: problems that share runs of words with evaluation sets.

A run of ``n`` normalised words (`mcbench.data.words`: case, punctuation, and the values of numbers
do not count) that occurs in a record and in an evaluation problem is a hit. Runs that many
evaluation problems or many records share are phrases of the trade ("the input is given from
standard input in the following format") and do not count; nor do runs that are mostly numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, PositiveInt, model_validator

from mcbench.data.audit import Action
from mcbench.data.pipeline import Decision, GlobalStage
from mcbench.data.schema import Problem
from mcbench.data.words import NUMBER, Hashes, run_hashes, words
from mcbench.errors import UserError
from mcbench.files import digest
from mcbench.settings import Settings, Share


class DecontaminateConfig(Settings):
    """What counts as contamination.

    Args:
        run: words per run (8, as open-r1 uses).
        passage: words of the shortest passage, of hits one after another, that counts: two people
            describe the same step in the same dozen words.
        min_share: share of an evaluation problem's runs, or of the record's, that must be hit for
            the record to be dropped.
        flag_share: from which an overlap is flagged.
        numbers: whether the values of numbers count.
        max_problems: a run in more evaluation problems than this, and than 1 % of them, is a
            phrase of the trade;
        max_records: and so is one in more records than this, and than 0.1 % of them. (Near-
            duplicates are gone by now, so a problem does not occur that often.)

    Raises:
        UserError: a value out of range.
    """

    run: Annotated[int, Field(ge=2)] = 8
    passage: int = 16
    min_share: Share = 0.33
    flag_share: Share = 0.1
    numbers: bool = False
    max_problems: PositiveInt = 3
    max_records: PositiveInt = 20

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.passage < self.run:
            raise UserError("passage must be at least run")
        if self.min_share < self.flag_share:
            raise UserError("min_share must be at least flag_share")
        return self


@dataclass(frozen=True)
class Index:
    """Runs of the evaluation sets: sorted hashes, and the problem each belongs to."""

    hashes: Hashes
    owners: np.ndarray
    ids: tuple[str, ...]
    sizes: tuple[int, ...]  # distinct runs per evaluation problem
    fingerprint: str

    @classmethod
    def build(cls, problems: Iterable[Problem], config: DecontaminateConfig) -> Index:
        """Index evaluation problems; an empty collection gives an index that nothing hits."""
        ids: list[str] = []
        runs: list[Hashes] = []
        for problem in problems:
            ids.append(problem.id)
            tokens = words(problem.statement, config.numbers)
            runs.append(np.unique(_telling(tokens, config)[0]))
        hashes = np.concatenate([*runs, np.empty(0, dtype=np.uint64)])
        owners = np.repeat(np.arange(len(ids), dtype=np.int32), [len(r) for r in runs])
        unique, which, often = np.unique(hashes, return_inverse=True, return_counts=True)
        common = often > max(config.max_problems, len(ids) // 100)
        kept = ~common[which] if len(unique) else np.empty(0, dtype=bool)
        hashes, owners = hashes[kept], owners[kept]
        order = np.argsort(hashes, kind="stable")
        sizes = np.bincount(owners, minlength=len(ids))
        fingerprint = digest([hashes[order].tobytes(), owners[order].tobytes(), *ids])
        return cls(hashes[order], owners[order], tuple(ids), tuple(sizes.tolist()), fingerprint)


def _telling(tokens: list[str], config: DecontaminateConfig) -> tuple[Hashes, np.ndarray]:
    """Hashes of the runs that tell problems apart, and where they start.

    At least half of the words of a run must be distinct words.
    """
    n = min(config.run, len(tokens))
    hashes = run_hashes(tokens, config.run)
    needed = (n + 1) // 2
    seen = Counter(token for token in tokens[:n] if token != NUMBER)
    telling = []
    for start in range(len(hashes)):
        if start:
            out, new = tokens[start - 1], tokens[start + n - 1]
            if out != NUMBER:
                seen[out] -= 1
                if not seen[out]:
                    del seen[out]
            if new != NUMBER:
                seen[new] += 1
        if len(seen) >= needed:
            telling.append(start)
    where = np.array(telling, dtype=np.int64)
    return hashes[where], where


@dataclass(frozen=True)
class _Hits:
    """The hits of one record: places in its text, their hashes, and how many runs it has."""

    tokens: list[str]
    places: np.ndarray
    hashes: Hashes
    runs: int


@dataclass(frozen=True)
class Decontaminate(GlobalStage):
    """The stage. It sees the whole pool, to know the phrases that many of its records share."""

    index: Index = field(repr=False)
    config: DecontaminateConfig = field(default_factory=DecontaminateConfig)

    name: ClassVar[str] = "decontaminate"
    modules: ClassVar[tuple[str, ...]] = ("mcbench.data.decontaminate", "mcbench.data.words")
    libraries: ClassVar[tuple[str, ...]] = ("numpy",)

    def configuration(self) -> Any:
        """The index counts with its content."""
        return [self.config.model_dump(), self.index.fingerprint]

    def summarise(self, batch: list[Problem]) -> pa.Table:
        """The hits of every record; its words only where there are any."""
        found = [self._look(record.statement) for record in batch]
        return pa.table(
            {
                "id": pa.array([record.id for record in batch], pa.string()),
                "words": pa.array([" ".join(f.tokens) for f in found], pa.large_string()),
                "places": pa.array([f.places for f in found], pa.list_(pa.int64())),
                "hashes": pa.array([f.hashes for f in found], pa.list_(pa.uint64())),
                "runs": pa.array([f.runs for f in found], pa.int64()),
            }
        )

    def _look(self, statement: str) -> _Hits:
        tokens = words(statement, self.config.numbers)
        hashes, where = _telling(tokens, self.config)
        low = np.searchsorted(self.index.hashes, hashes, side="left")
        hit = np.zeros(len(hashes), dtype=bool)
        inside = low < len(self.index.hashes)
        hit[inside] = self.index.hashes[low[inside]] == hashes[inside]
        runs = len(np.unique(hashes))
        return _Hits(tokens if hit.any() else [], where[hit], hashes[hit], runs)

    def decide(self, summary: pa.Table) -> dict[str, Decision]:
        """Drop what overlaps with an evaluation problem, flag what nearly does."""
        lists = summary["hashes"].combine_chunks()
        per_record = [np.unique(row) for row in map(_array, lists) if len(row)]
        runs, often = np.unique(
            np.concatenate([*per_record, np.empty(0, dtype=np.uint64)]), return_counts=True
        )
        limit = max(self.config.max_records, len(summary) // 1000)
        common = runs[often > limit]
        decisions: dict[str, Decision] = {}
        for batch in summary.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                if row["places"] and (note := self._note(row, common)):
                    decisions[row["id"]] = Decision((note,))
        return decisions

    def _note(self, row: dict[str, Any], common: Hashes) -> tuple[Action, str, str] | None:
        hashes = np.array(row["hashes"], dtype=np.uint64)
        at = np.minimum(np.searchsorted(common, hashes), max(len(common) - 1, 0))
        telling = common[at] != hashes if len(common) else np.ones(len(hashes), dtype=bool)
        hits = _Hits(
            row["words"].split(), np.array(row["places"])[telling], hashes[telling], row["runs"]
        )
        passages = {
            owner: self._passages(hits, places, owner)
            for owner, places in self._owners(hits.hashes).items()
        }
        worst, places = max(passages.items(), key=lambda p: (len(p[1]), -p[0]), default=(0, []))
        if not places:
            return None
        hit = len(np.unique(hits.hashes[places]))
        share = max(hit / max(self.index.sizes[worst], 1), hit / max(hits.runs, 1))
        if share < self.config.flag_share:
            return None
        starts = sorted({int(hits.places[places[0]]), int(hits.places[places[-1]])})
        quotes = (" ".join(hits.tokens[s : s + self.config.run]) for s in starts)
        detail = (
            f"{hit} runs of {self.config.run} words ({share:.0%}) as in {self.index.ids[worst]}: "
            + "; ".join(f'"{quote}"' for quote in quotes)
        )
        if share >= self.config.min_share:
            return "drop", "contaminated", detail
        return "flag", "overlap", detail

    def _passages(self, hits: _Hits, places: list[int], owner: int) -> list[int]:
        """The hits that lie in long enough passages, or in one that is the whole problem."""
        needed = min(self.config.passage, self.index.sizes[owner] + self.config.run - 1)
        at = hits.places[places]
        edges = np.flatnonzero(np.diff(at) > self.config.run) + 1
        kept: list[int] = []
        for part in np.split(np.array(places), edges):
            if hits.places[part[-1]] - hits.places[part[0]] + self.config.run >= needed:
                kept += part.tolist()
        return kept

    def _owners(self, hashes: Hashes) -> dict[int, list[int]]:
        """Evaluation problem -> positions in ``hashes`` of the runs they share."""
        low = np.searchsorted(self.index.hashes, hashes, side="left")
        high = np.searchsorted(self.index.hashes, hashes, side="right")
        owners: dict[int, list[int]] = {}
        for place in range(len(hashes)):
            for owner in self.index.owners[low[place] : high[place]].tolist():
                owners.setdefault(owner, []).append(place)
        return owners


def _array(scalar: Any) -> Hashes:
    values: Hashes = scalar.values.to_numpy(zero_copy_only=False).astype(np.uint64)
    return values
