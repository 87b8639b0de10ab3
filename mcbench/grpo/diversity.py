"""Diversity of the G responses to one prompt, on token ids and on programs.

The paper never defines its "response diversity". The nearest public code (Polaris) is Distinct-4,
the share of unique 4-grams among all 4-grams, pooled over one prompt's responses and averaged over
prompts: the default here. Others are measured beside it.

A group is a sequence of G responses; a response is a 1-D sequence of token ids.
"""

import ast
import hashlib
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int] | NDArray[np.int64]
Group = Sequence[Ids]
ORDERS = (1, 2, 3, 4)
SELF_BLEU_TOKEN_BUDGET = 524_288
FIRST_TOKENS = 48
_PACKED_BITS = 16


def grouped(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Consecutive groups of ``size``."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def distinct_n(groups: Sequence[Group], orders: Sequence[int] = ORDERS) -> dict[int, float]:
    """Distinct-n for each n: unique n-grams / all n-grams, pooled over a group, mean over groups.

    N-grams never cross two responses. Range: 1/(n-grams of the group) to 1; G equal responses give
    1/G of the value of one. A group without any n-gram is left out of the mean; NaN if all are.
    """
    values: dict[int, list[float]] = {n: [] for n in orders}
    for group in groups:
        ids, lengths = _pooled(group)
        for n in orders:
            grams, _ = _ngrams(ids, lengths, n)
            if grams.size:
                values[n].append(_count_unique(grams) / grams.size)
    return {n: float(np.mean(v)) if v else float("nan") for n, v in values.items()}


def distinct_4_first(groups: Sequence[Group]) -> float:
    """Distinct-4 of the first :data:`FIRST_TOKENS` tokens of each response: Distinct-n falls as
    responses grow, because long texts repeat themselves.
    """
    return distinct_n([[ids[:FIRST_TOKENS] for ids in group] for group in groups], (4,))[4]


def self_bleu(groups: Sequence[Group], token_budget: int = SELF_BLEU_TOKEN_BUDGET) -> float:
    """Mean BLEU-4 of each response against the others of its group; 1 = all alike. Lower is more
    diverse.

    Uniform weights over n = 1..4, of a response of fewer tokens over the orders that it has
    n-grams of (sacrebleu's effective order); the usual brevity penalty (closest reference length),
    a precision of zero replaced by 0.1 / (number of n-grams) (Chen & Cherry 2014, method 1). An
    empty response is like another empty one and like nothing else. Groups of fewer than two
    responses are left out.

    Cost bound: if all groups together exceed ``token_budget`` tokens, only every k-th group is
    scored, with the smallest k that keeps an evenly spread sample within the budget (always at
    least one group). Time and memory grow with the tokens scored.
    """
    usable = [group for group in groups if len(group) > 1]
    if not usable:
        return float("nan")
    total = sum(len(ids) for group in usable for ids in group)
    stride = max(1, -(-total // token_budget))
    return float(np.mean([_group_self_bleu(group) for group in usable[::stride]]))


def unique_share(keys: Sequence[Sequence[int]]) -> float:
    """Mean over groups of distinct non-zero keys / G (zero stands for "no program")."""
    shares = [len({int(key) for key in group} - {0}) / len(group) for group in keys]
    return float(np.mean(shares)) if shares else float("nan")


def program_key(source: str | None) -> int:
    """A 63-bit key that is equal for equal normalised programs; 0 for None.

    Normalised means parsed: comments, blank lines, indentation, quotes, redundant parentheses and
    docstrings do not count; names do (nothing is renamed). Text that does not parse, or whose tree
    cannot be written down, is compared as it is, without surrounding space. No text raises.
    """
    if source is None:
        return 0
    digest = hashlib.blake2b(_normalised(source).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 or 1


_FENCE = re.compile(r"^```[^\n`]*\n", re.MULTILINE)
_END_OF_FENCE = re.compile(r"^```[ \t\r]*$", re.MULTILINE)


def last_code_block(response: str) -> str | None:
    """The last complete fenced block of a response, None without one."""
    block, position = None, 0
    while start := _FENCE.search(response, position):
        end = _END_OF_FENCE.search(response, start.end())
        if end is None:
            break
        block, position = response[start.end() : end.start()], end.end()
    return block


def _normalised(source: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a generated program may hold "\d": no user's concern
            tree = ast.parse(source)
        return repr(_tree_key(tree))  # raises on integers of more than 4,300 digits, for one
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return repr(source.strip())


def _tree_key(node: object) -> object:
    """Nested tuples of an AST, without positions, contexts and docstrings."""
    if isinstance(node, ast.AST):
        fields = [getattr(node, name, None) for name in node._fields if name != "ctx"]
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            fields = [_without_docstring(field) for field in fields]
        return (type(node).__name__, *map(_tree_key, fields))
    if isinstance(node, list):
        return [_tree_key(item) for item in node]
    return node


def _without_docstring(field: object) -> object:
    match field:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
    return field


def _pooled(group: Group) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All tokens of a group in a row, renumbered 0..U-1 so that an n-gram packs into 64 bits, and
    the lengths.
    """
    lengths = np.array([len(ids) for ids in group], dtype=np.int64)
    flat = (
        np.concatenate([np.asarray(ids, dtype=np.int64) for ids in group])
        if len(group)
        else lengths
    )
    if not flat.size:
        return flat.astype(np.uint64), lengths
    seen = np.zeros(int(flat.max()) + 1, dtype=bool)
    seen[flat] = True
    return (np.cumsum(seen) - 1)[flat].astype(np.uint64), lengths


def _ngrams(
    ids: NDArray[np.uint64], lengths: NDArray[np.int64], n: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """One integer per n-gram and the response it comes from; exact (equal integers iff equal
    n-grams).
    """
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if ids.size < n:
        return ids[:0], owner[:0]
    last = ids.size - n + 1
    if ids.size and int(ids.max()) >= 1 << _PACKED_BITS:
        grams = _dense_pairs(ids, n)
    else:
        grams = ids[:last].copy()
        for offset in range(1, n):
            grams = (grams << np.uint64(_PACKED_BITS)) | ids[offset : offset + last]
    inside = owner[:last] == owner[n - 1 :]
    return grams[inside], owner[:last][inside]


def _dense_pairs(ids: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """N-grams of more than 2^16 different tokens: renumber after each added token."""
    grams = ids
    for offset in range(1, n):
        packed = (grams[: ids.size - offset] << np.uint64(32)) | ids[offset:]
        grams = np.unique(packed, return_inverse=True)[1].astype(np.uint64)
    return grams


def _count_unique(grams: NDArray[np.uint64]) -> int:
    ordered = np.sort(grams)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _group_self_bleu(group: Group) -> float:
    ids, lengths = _pooled(group)
    logs, orders = np.zeros(len(lengths)), np.zeros(len(lengths))
    for n in ORDERS:
        total = np.maximum(0, lengths - n + 1)
        some = total > 0
        clipped = _clipped_counts(*_ngrams(ids, lengths, n), len(lengths))
        precision = np.where(clipped > 0, clipped, 0.1)[some] / total[some]
        logs[some] += np.log(precision)
        orders += some
    return float(np.mean(np.exp(logs / np.maximum(orders, 1)) * _brevity_penalty(lengths)))


def _clipped_counts(
    grams: NDArray[np.uint64], owner: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """For each of ``size`` responses its n-grams, each kind counted as often as in that of the
    other responses that has it most, at most. Time and memory grow with the n-grams, not with their
    kinds times ``size``.
    """
    if not grams.size:
        return np.zeros(size, dtype=np.int64)
    order = np.argsort(grams, kind="stable")  # by kind, and then by response as before
    grams, owner = grams[order], owner[order]
    first = np.r_[True, grams[1:] != grams[:-1]]  # of its kind
    pairs = np.flatnonzero(first | np.r_[True, owner[1:] != owner[:-1]])  # of a kind and response
    counts = np.diff(np.r_[pairs, grams.size])
    kinds = np.flatnonzero(first[pairs])
    sizes = np.diff(np.r_[kinds, pairs.size])
    most = np.maximum.reduceat(counts, kinds)
    is_most = counts == np.repeat(most, sizes)
    less = np.maximum.reduceat(np.where(is_most, 0, counts), kinds)
    second = np.where(np.add.reduceat(is_most.astype(np.int64), kinds) > 1, most, less)
    others = np.where(is_most, np.repeat(second, sizes), np.repeat(most, sizes))
    clipped = np.minimum(counts, others)
    return np.bincount(owner[pairs], clipped, minlength=size).astype(np.int64)


def _brevity_penalty(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    distance = np.abs(lengths[:, None] - lengths[None, :]) * 2 + (
        lengths[None, :] > lengths[:, None]
    )
    np.fill_diagonal(distance, np.iinfo(np.int64).max)
    closest = lengths[distance.argmin(axis=1)]  # ties go to the shorter reference
    with np.errstate(divide="ignore"):
        return np.where(lengths >= closest, 1.0, np.exp(1 - closest / np.maximum(lengths, 1e-9)))
