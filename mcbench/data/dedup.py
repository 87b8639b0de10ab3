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
from typing import Annotated, Any, ClassVar, Self

import datasketch  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from mcbench.data.pipeline import Decision, GlobalStage
from mcbench.data.programs import comparisons
from mcbench.data.schema import Problem
from mcbench.data.words import hash_of, run_hashes, words
from mcbench.errors import UserError
from mcbench.settings import Settings

_ROWS = 6  # per band: 64 permutations fewer would miss pairs, fewer rows would find too many
_MANY = 64  # in a bucket: beyond it only the best ranked are compared with the rest
_COMPARED_TESTS = 64
_MANY_TESTS = 5  # that agree say more than a few of functions of different names
_TELLING = 60  # tests times characters that two problems hardly share by chance
_RULE = "near_duplicate"


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

    threshold: float = 0.95
    threshold_same_tests: float = 0.5
    min_shared_tests: Annotated[float, Field(gt=0, le=1)] = 0.5
    run: PositiveInt = 3
    permutations: Annotated[int, Field(ge=_ROWS)] = 252

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 0 < self.threshold_same_tests <= self.threshold <= 1:
            raise UserError("0 < threshold_same_tests <= threshold <= 1 must hold")
        return self


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
        """Keep the best record of every group, in order of rank."""
        ids = summary["id"].to_pylist()
        similar = self._similar(summary)
        copies: dict[int, int] = {}
        decisions: dict[str, Decision] = {}
        for record in _ranking(summary).tolist():
            best = max(
                ((s, -o) for o, s in similar.get(record, {}).items() if o in copies),
                default=None,
            )
            if best is None:
                copies[record] = 0
                continue
            copies[-best[1]] += 1
            detail = f"{best[0]:.2f} similar to {ids[-best[1]]}"
            decisions[ids[record]] = Decision((("drop", _RULE, detail),))
        for record, number in copies.items():
            if number:
                detail = f"chosen of {number + 1} near-duplicates"
                decisions[ids[record]] = Decision((("keep", _RULE, detail),))
        return decisions

    def _similar(self, summary: pa.Table) -> dict[int, dict[int, float]]:
        """Near-duplicate pairs, both ways: record -> other -> similarity."""
        width = self.config.permutations
        raw = b"".join(summary["signature"].to_pylist())
        signatures = np.frombuffer(raw, dtype=np.uint32).reshape(-1, width)
        rank = np.empty(len(signatures), dtype=np.int64)
        rank[_ranking(summary)] = np.arange(len(signatures))
        inputs, pairs = summary["inputs"].combine_chunks(), summary["pairs"].combine_chunks()
        found: defaultdict[int, dict[int, float]] = defaultdict(dict)
        whole = summary["all_tests"].to_numpy()
        forms, names = (summary[c].to_numpy(zero_copy_only=False) for c in ("form", "name"))
        texts = summary["text"].to_numpy()
        for first, second, similarity in _candidates(signatures, whole, rank, self.config):
            mine, yours = (set(pairs[record].as_py()) for record in (first, second))
            given, given_too = (set(inputs[record].as_py()) for record in (first, second))
            same, common = len(mine & yours), len(given & given_too)
            if 4 * (common - same) > common:  # of the inputs they share have two answers
                continue
            fewer = min(len(mine), len(yours))
            telling = same >= _MANY_TESTS or (same == fewer and names[first] == names[second])
            if telling and whole[first] == whole[second] != 0:
                needed = 0.0
            elif telling and fewer and same >= self.config.min_shared_tests * fewer:
                needed = self.config.threshold_same_tests
            elif fewer and forms[first] == forms[second]:  # tests that tell two problems apart
                needed = 0.0 if texts[first] == texts[second] else 2.0
            else:
                needed = self.config.threshold
            if similarity >= needed:
                found[first][second] = found[second][first] = similarity
        return found


def _ranking(summary: pa.Table) -> NDArray[np.int64]:
    """Record numbers, the most worth keeping first; ties go to the earlier one."""
    references = summary["references"].to_numpy() > 0
    return np.lexsort((-summary["tests"].to_numpy(), ~references)).astype(np.int64)


def _candidates(
    signatures: NDArray[np.uint32],
    whole: NDArray[np.int64],
    rank: NDArray[np.int64],
    config: DedupConfig,
) -> Iterator[tuple[int, int, float]]:
    """Pairs that share a band and reach the lower threshold, or all tests; each once."""
    count = len(signatures)
    found: list[NDArray[np.int64]] = []
    for start in range(0, signatures.shape[1] - _ROWS + 1, _ROWS):
        band = np.ascontiguousarray(signatures[:, start : start + _ROWS])
        found.append(_alike(band.view([("", band.dtype)] * _ROWS).ravel(), rank))
        if sum(map(len, found)) > 1 << 22:
            found = [np.unique(np.concatenate(found))]
    alone = -1 - np.arange(count)  # nobody's tests are those of a record without any
    tested = np.unique(_alike(np.where(whole == 0, alone, whole), rank))
    codes = np.unique(np.concatenate([*found, tested]))
    for part in np.array_split(codes, max(len(codes) // 65536, 1)):
        first, second = part // count, part % count
        similarity = (signatures[first] == signatures[second]).mean(axis=1)
        enough = (similarity >= config.threshold_same_tests) | np.isin(part, tested)
        for i in np.flatnonzero(enough):
            yield int(first[i]), int(second[i]), float(similarity[i])


def _alike(keys: NDArray[Any], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Codes first * count + second of the pairs of records with equal keys."""
    _, buckets = np.unique(keys, return_inverse=True)
    records = pd.DataFrame({"bucket": buckets, "record": np.arange(len(keys))})
    records = records.iloc[np.argsort(rank)]
    records = records[records.bucket.duplicated(keep=False)]
    records["place"] = records.groupby("bucket").cumcount()
    pairs = records[records.place < _MANY].merge(records, on="bucket")
    pairs = pairs[pairs.place_x < pairs.place_y]
    both = pairs[["record_x", "record_y"]].to_numpy()
    codes: NDArray[np.int64] = both.min(axis=1) * len(keys) + both.max(axis=1)
    return codes
