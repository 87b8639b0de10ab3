"""Statements as sequences of normalised words, and hashes of runs of them."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

NUMBER = "0"
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_LARGE = "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy"
_POWERS = "eighty ninety hundred thousand million billion"
_NUMBER_WORDS = frozenset(f"{_SMALL} {_LARGE} {_POWERS}".split())


def words(text: str, numbers: bool = False) -> list[str]:
    """Words in lower case; case, punctuation and layout do not count.

    Unless ``numbers`` are kept, every number is one token whatever its value and whether it is
    written in digits or words: 10^5, 100,000 and "one hundred thousand" are alike.
    """
    tokens = _TOKEN.findall(text.lower())
    if numbers:
        return tokens
    plain = [NUMBER if t[0].isdigit() or t in _NUMBER_WORDS else t for t in tokens]
    return [t for i, t in enumerate(plain) if t != NUMBER or i == 0 or plain[i - 1] != NUMBER]


@lru_cache(maxsize=1 << 17)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def run_hashes(tokens: list[str], n: int) -> Hashes:
    """64-bit hashes of all runs of ``n`` words, in order; of all words when there are fewer."""
    n = min(n, len(tokens))
    if n == 0:
        return np.empty(0, dtype=np.uint64)
    single = np.array([_word_hash(token) for token in tokens], dtype=np.uint64)
    total = np.zeros(len(tokens) - n + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for i in range(n):  # a polynomial in an odd number, modulo 2^64
            total = total * np.uint64(0x9E3779B97F4A7C15) + single[i : i + len(total)]
        total ^= total >> np.uint64(29)
        total *= np.uint64(0xBF58476D1CE4E5B9)  # splitmix64's finish
        total ^= total >> np.uint64(32)
    return total


def hash_of(text: str) -> int:
    """A hash of a text that arrow's int64 holds."""
    return int(run_hashes([text], 1)[0] >> np.uint64(1))
