"""Near-duplicates: MinHash signatures and bands to find candidates, tests to decide.

Two problems are near-duplicates when most of their tests agree and their statements are similar
(the estimated Jaccard similarity of their word triples), or when all their tests agree whatever the
words. Where they cannot be compared by tests (one has none, or they are of other forms) the
statements have to be nearly identical; where their tests differ, the same text. They are no
duplicates when the same inputs have different answers: variants of one problem and problems made
from one template differ in just that. (One answer that differs among many is a broken test.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar

import datasketch  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from mcbench.data.pipeline import Decision, GlobalStage
from mcbench.data.programs import comparisons
from mcbench.data.schema import Problem
from mcbench.data.words import hash_of, run_hashes, words
from mcbench.settings import Settings, ordered

_ROWS = 6  # per band: 64 permutations fewer would miss pairs, fewer rows would find too many
_MANY = 64  # kept of a bucket: beyond it only the best ranked are compared with the rest
_COMPARED_TESTS = 64
_MANY_TESTS = 5  # that agree say more than a few of functions of different names
_TELLING = 60  # tests times characters that two problems hardly share by chance
_RULE = "near_duplicate"

Above0 = Annotated[float, Field(gt=0, le=1)]
"""A share that is not 0."""


class DedupConfig(Settings):
    """When two problems are the same.

    Args:
        threshold: Jaccard similarity of the statements that is near identity, 0 to 1.
        threshold_same_tests: enough when the tests agree as well:
        min_shared_tests: share of the tests of the one with fewer that the other has, too.
        run: words per shingle.
        permutations: of MinHash; the standard error of a similarity s is sqrt(s(1-s)/permutations).

    Raises:
        UserError: a value out of range.
    """

    threshold: Above0 = 0.95
    threshold_same_tests: Above0 = 0.5
    min_shared_tests: Above0 = 0.5
    run: PositiveInt = 3
    permutations: Annotated[int, Field(ge=_ROWS)] = 252

    _in_order = ordered(("threshold_same_tests", "threshold"))


@cache
def _empty(permutations: int) -> Any:
    return datasketch.MinHash(permutations, seed=1, hashfunc=int, scheme="affine32")


def signature(statement: str, config: DedupConfig) -> NDArray[np.uint32]:
    """MinHash signature of a statement, shape (permutations,)."""
    runs = run_hashes(words(statement, numbers=True), config.run)
    minhash = _empty(config.permutations).copy()
    if len(runs):
        minhash.update_batch((runs >> np.uint64(32)).tolist())
    return minhash.hashvalues.astype(np.uint32)


def _test_hashes(record: Problem) -> tuple[list[int], list[int], int]:
    """Hashes of the first tests' inputs, of input and answer together, and of all of those.

    The last is 0 where the tests are too few and short to be more than a coincidence.
    """
    found = [pair for test in record.tests[:_COMPARED_TESTS] for pair in comparisons(test)]
    pairs = [f"{given}\0{told}" for given, told in found]
    distinct = sorted(set(pairs))
    size = sum(map(len, distinct))
    enough = len(distinct) > 1 and size * len(distinct) >= _TELLING
    return (
        [hash_of(given) for given, _ in found],
        [hash_of(pair) for pair in pairs],
        hash_of("\1".join([record.form, *distinct])) if enough else 0,
    )


@dataclass(frozen=True)
class Dedup(GlobalStage):
    """The stage. Of a group the record with most references and tests is kept."""

    config: DedupConfig = field(default_factory=DedupConfig)

    name: ClassVar[str] = "dedup"

    def summarise(self, batch: list[Problem]) -> pa.Table:
        """Signature, hashed tests, and what ranks a record."""
        tests = [_test_hashes(record) for record in batch]
        names = [r.fn_name.lower().replace("_", "") for r in batch]  # as two authors write it alike
        signatures = [signature(record.statement, self.config).tobytes() for record in batch]
        return pa.table(
            {
                "id": pa.array([record.id for record in batch], pa.string()),
                "signature": pa.array(signatures, pa.binary(4 * self.config.permutations)),
                "inputs": pa.array([t[0] for t in tests], pa.list_(pa.int64())),
                "pairs": pa.array([t[1] for t in tests], pa.list_(pa.int64())),
                "all_tests": pa.array([t[2] for t in tests], pa.int64()),
                "text": pa.array(
                    [hash_of(" ".join(r.statement.split())) for r in batch], pa.int64()
                ),
                "form": pa.array([record.form for record in batch], pa.string()),
                "name": pa.array(names, pa.string()),
                "references": pa.array([len(r.references) for r in batch], pa.int64()),
                "tests": pa.array([len(r.tests) for r in batch], pa.int64()),
            }
        )

    def decide(self, summary: pa.Table) -> dict[str, Decision]:
        """Keep the best record of every group: in order of rank, what is like none of those kept
        before.
        """
        records = _Records(summary, self.config)
        copies: dict[int, int] = {}
        kept_in: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        decisions: dict[str, Decision] = {}
        for record in _ranking(summary).tolist():
            places = records.places(record)
            others = sorted({other for place in places for other in kept_in[place]})
            if best := max(records.similar(record, others), default=None):
                similarity, other = best[0], -best[1]
                copies[other] += 1
                detail = f"{similarity:.2f} similar to {records.ids[other]}"
                decisions[records.ids[record]] = Decision((("drop", _RULE, detail),))
                continue
            copies[record] = 0
            for place in places:
                if len(kept_in[place]) < _MANY:
                    kept_in[place].append(record)
        for record, number in copies.items():
            if number:
                detail = f"chosen of {number + 1} near-duplicates"
                decisions[records.ids[record]] = Decision((("keep", _RULE, detail),))
        return decisions


class _Records:
    """All summaries, as what is compared."""

    def __init__(self, summary: pa.Table, config: DedupConfig) -> None:
        rows = {name: summary[name].to_numpy() for name in summary.column_names}
        self.config, self.ids = config, rows["id"].tolist()
        raw = b"".join(rows["signature"])
        self._signatures = np.frombuffer(raw, np.uint32).reshape(-1, config.permutations)
        self._inputs, self._pairs, self._whole = rows["inputs"], rows["pairs"], rows["all_tests"]
        self._texts, self._forms, self._names = rows["text"], rows["form"], rows["name"]
        whole = np.where(self._whole == 0, -1, _buckets(self._whole))  # none of who has no tests
        self._buckets = np.column_stack([*self._bands(), whole])

    def _bands(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, self.config.permutations - _ROWS + 1, _ROWS):
            band = np.ascontiguousarray(self._signatures[:, start : start + _ROWS])
            yield _buckets(band.view([("", band.dtype)] * _ROWS).ravel())

    def places(self, record: int) -> list[tuple[int, int]]:
        """Where records stand that share a band with this one, or all tests."""
        return [place for place in enumerate(self._buckets[record].tolist()) if place[1] >= 0]

    def similar(self, record: int, others: list[int]) -> Iterator[tuple[float, int]]:
        """Similarity and number (negative) of those that are near-duplicates of a record."""
        shares = (self._signatures[others] == self._signatures[record]).mean(axis=1)
        for other, similarity in zip(others, shares.tolist(), strict=True):
            if similarity >= self._needed(record, other):
                yield similarity, -other

    def _needed(self, first: int, second: int) -> float:
        """The similarity from which two records are near-duplicates; 2 where none is enough."""
        mine, yours = (set(self._pairs[record].tolist()) for record in (first, second))
        given, given_too = (set(self._inputs[record].tolist()) for record in (first, second))
        same, common = len(mine & yours), len(given & given_too)
        if 4 * (common - same) > common:  # of the inputs they share have two answers
            return 2.0
        fewer = min(len(mine), len(yours))
        same_name = same == fewer and self._names[first] == self._names[second]
        if same >= _MANY_TESTS or same_name:  # which is telling
            if self._whole[first] == self._whole[second] != 0:
                return 0.0
            if fewer and same >= self.config.min_shared_tests * fewer:
                return self.config.threshold_same_tests
        if fewer and self._forms[first] == self._forms[second]:  # tests that tell two apart
            return 0.0 if self._texts[first] == self._texts[second] else 2.0
        return self.config.threshold


def _ranking(summary: pa.Table) -> NDArray[np.int64]:
    """Record numbers, the most worth keeping first; ties go to the earlier one."""
    references = summary["references"].to_numpy() > 0
    return np.lexsort((-summary["tests"].to_numpy(), ~references)).astype(np.int64)


def _buckets(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Of every record the number of its key; -1 of a key that no other record has."""
    _, number, count = np.unique(keys, return_inverse=True, return_counts=True)
    return np.where(count[number] > 1, number, -1)
