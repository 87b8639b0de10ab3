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
        found = _ngrams(group, orders)
        for n in orders:
            grams, _ = found[n]
            if grams.size:
                values[n].append((1 + int(grams.max())) / grams.size)
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


_DOCUMENTED = (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)


def _normalised(source: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a generated program may hold "\d": no user's concern
            tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
        return ast.dump(tree)  # raises on integers of more than 4,300 digits, for one
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return repr(source.strip())


def _ngrams(
    group: Group, orders: Sequence[int] = ORDERS
) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """By n the n-grams of a group, as numbers 0..U-1 that are equal where the n-grams are, and the
    response that each comes from. None crosses two responses.
    """
    lengths = np.array([len(ids) for ids in group], dtype=np.int64)
    owner, ends = (np.repeat(of, lengths) for of in (np.arange(len(group)), np.cumsum(lengths)))
    flat = np.concatenate([lengths[:0], *(np.asarray(ids, dtype=np.int64) for ids in group)])
    tokens = grams = np.unique(flat, return_inverse=True)[1]
    starts, found = np.arange(flat.size), {}
    for n in range(1, max(orders) + 1):
        found[n] = grams, owner[starts]
        goes_on = starts + n < ends[starts]
        starts = starts[goes_on]
        longer = grams[goes_on] * flat.size + tokens[starts + n]
        grams = np.unique(longer, return_inverse=True)[1]
    return found


def _group_self_bleu(group: Group) -> float:
    lengths = np.array([len(ids) for ids in group])
    logs, orders = np.zeros(len(lengths)), np.zeros(len(lengths))
    for n, (grams, owner) in _ngrams(group).items():
        total = np.maximum(0, lengths - n + 1)
        some = total > 0
        clipped = _clipped_counts(grams, owner, len(lengths))
        precision = np.where(clipped > 0, clipped, 0.1)[some] / total[some]
        logs[some] += np.log(precision)
        orders += some
    return float(np.mean(np.exp(logs / np.maximum(orders, 1)) * _brevity_penalty(lengths)))


def _clipped_counts(
    grams: NDArray[np.int64], owner: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """For each of ``size`` responses its n-grams, each kind counted as often as in that of the
    other responses that has it most, at most. Time and memory grow with the n-grams, not with their
    kinds times ``size``.
    """
    if not grams.size:
        return np.zeros(size, dtype=np.int64)
    pairs, counts = np.unique(grams * size + owner, return_counts=True)  # of a kind and response
    kinds, owners = np.divmod(pairs, size)
    most, second = np.zeros((2, kinds[-1] + 1), dtype=np.int64)
    np.maximum.at(most, kinds, counts)
    has_most = counts == most[kinds]
    np.maximum.at(second, kinds[~has_most], counts[~has_most])
    alone = has_most & (np.bincount(kinds[has_most])[kinds] == 1)
    others = np.where(alone, second[kinds], most[kinds])
    return np.bincount(owners, np.minimum(counts, others), minlength=size).astype(np.int64)


def _brevity_penalty(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    distance = np.abs(lengths[:, None] - lengths[None, :]) * 2 + (
        lengths[None, :] > lengths[:, None]
    )
    np.fill_diagonal(distance, np.iinfo(np.int64).max)
    closest = lengths[distance.argmin(axis=1)]  # ties go to the shorter reference
    with np.errstate(divide="ignore"):
        return np.where(lengths >= closest, 1.0, np.exp(1 - closest / np.maximum(lengths, 1e-9)))
