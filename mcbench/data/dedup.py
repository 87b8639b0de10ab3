"""Near-duplicates: MinHash signatures, bands to find candidates, tests to decide close calls.

Two statements are near-duplicates when the estimated Jaccard similarity of their word triples
reaches ``threshold``, or a lower one when their tests agree as well. They are not when the same
inputs have different answers: problems made from one template differ in just that. (One answer that
differs among many is a broken test.)
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Self

import datasketch  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from mcbench.data.pipeline import Decision, GlobalStage
from mcbench.data.schema import Problem
from mcbench.data.words import run_hashes, words
from mcbench.errors import UserError
from mcbench.settings import Settings

_ROWS = 6  # per band: 64 permutations fewer would miss pairs, fewer rows would find too many
_MANY = 64  # in a bucket: beyond it only the best ranked are compared with the rest
_COMPARED_TESTS = 64
_RULE = "near_duplicate"


class DedupConfig(Settings):
    """When two problems are the same.

    Args:
        threshold: Jaccard similarity of the statements, 0 to 1.
        threshold_same_tests: enough when the tests agree as well:
        min_shared_tests: share of the tests of the one with fewer that the other has, too.
        numbers: whether numbers tell statements apart; False: their values do not count.
        run: words per shingle.
        permutations: of MinHash; the standard error of a similarity s is sqrt(s(1-s)/permutations).

    Raises:
        UserError: a value out of range.
    """

    threshold: float = 0.7
    threshold_same_tests: float = 0.5
    min_shared_tests: Annotated[float, Field(gt=0, le=1)] = 0.5
    numbers: bool = True
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
    runs = run_hashes(words(statement, config.numbers), config.run)
    minhash = _empty(config.permutations).copy()
    if len(runs):
        minhash.update_batch((runs >> np.uint64(32)).tolist())
    return minhash.hashvalues.astype(np.uint32)


def _test_hashes(record: Problem) -> tuple[list[int], list[int]]:
    """Hashes of the first tests' inputs and of input and answer together."""
    tests = record.tests[:_COMPARED_TESTS]
    given = [_plain(test.get("stdin", test.get("args", test.get("code")))) for test in tests]
    told = [_plain(test.get("expected", "")) for test in tests]
    pairs = [_hash(f"{key}\0{answer}") for key, answer in zip(given, told, strict=True)]
    return [_hash(key) for key in given], pairs


def _plain(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


def _hash(text: str) -> int:
    return int(run_hashes([text], 1)[0] >> np.uint64(1))  # arrow's int64


@dataclass(frozen=True)
class Dedup(GlobalStage):
    """The stage. Of a group the record with most references and tests is kept."""

    config: DedupConfig = field(default_factory=DedupConfig)

    name: ClassVar[str] = "dedup"
    modules: ClassVar[tuple[str, ...]] = ("mcbench.data.dedup", "mcbench.data.words")
    libraries: ClassVar[tuple[str, ...]] = ("datasketch", "numpy")

    def summarise(self, batch: list[Problem]) -> pa.Table:
        """Signature, hashed tests, and what ranks a record."""
        tests = [_test_hashes(record) for record in batch]
        signatures = [signature(record.statement, self.config).tobytes() for record in batch]
        return pa.table(
            {
                "id": pa.array([record.id for record in batch], pa.string()),
                "signature": pa.array(signatures, pa.binary(4 * self.config.permutations)),
                "inputs": pa.array([t[0] for t in tests], pa.list_(pa.int64())),
                "pairs": pa.array([t[1] for t in tests], pa.list_(pa.int64())),
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
        for first, second, similarity in _candidates(signatures, rank, self.config):
            mine, yours = (set(pairs[record].as_py()) for record in (first, second))
            given, given_too = (set(inputs[record].as_py()) for record in (first, second))
            same, common = len(mine & yours), len(given & given_too)
            if 4 * (common - same) > common:  # of the inputs they share have two answers
                continue
            fewer = min(len(mine), len(yours))
            agree = fewer > 0 and same >= self.config.min_shared_tests * fewer
            if agree or similarity >= self.config.threshold:
                found[first][second] = found[second][first] = similarity
        return found


def _ranking(summary: pa.Table) -> NDArray[np.int64]:
    """Record numbers, the most worth keeping first; ties go to the earlier one."""
    references = summary["references"].to_numpy() > 0
    return np.lexsort((-summary["tests"].to_numpy(), ~references)).astype(np.int64)


def _candidates(
    signatures: NDArray[np.uint32], rank: NDArray[np.int64], config: DedupConfig
) -> Iterator[tuple[int, int, float]]:
    """Pairs that share a band and reach the lower threshold, each once."""
    count = len(signatures)
    found = [np.empty(0, dtype=np.int64)]
    for start in range(0, signatures.shape[1] - _ROWS + 1, _ROWS):
        band = np.ascontiguousarray(signatures[:, start : start + _ROWS])
        keys = band.view([("", band.dtype)] * _ROWS).ravel()
        _, buckets = np.unique(keys, return_inverse=True)
        order = np.lexsort((rank, buckets))
        edges = np.flatnonzero(np.diff(buckets[order])) + 1
        for bucket in np.split(order, edges):
            if len(bucket) > 1:
                found.append(_pairs(bucket, count))
        if sum(map(len, found)) > 1 << 22:
            found = [np.unique(np.concatenate(found))]
    codes = np.unique(np.concatenate(found))
    for part in np.array_split(codes, max(len(codes) // 65536, 1)):
        first, second = part // count, part % count
        similarity = (signatures[first] == signatures[second]).mean(axis=1)
        for i in np.flatnonzero(similarity >= config.threshold_same_tests):
            yield int(first[i]), int(second[i]), float(similarity[i])


def _pairs(bucket: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Codes first * count + second of the pairs of a bucket that is sorted by rank."""
    leaders = bucket[:_MANY] if len(bucket) > _MANY else bucket
    i, j = np.meshgrid(np.arange(len(leaders)), np.arange(len(bucket)), indexing="ij")
    a, b = leaders[i[i < j]], bucket[j[i < j]]
    codes: NDArray[np.int64] = np.minimum(a, b) * count + np.maximum(a, b)
    return codes
