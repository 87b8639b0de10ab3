"""Statements as sequences of normalised words, and hashes of runs of them."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray
from pandas.util import hash_array

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


def run_hashes(tokens: list[str], n: int) -> Hashes:
    """64-bit hashes of all runs of ``n`` words, in order; of all words when there are fewer."""
    n = min(n, len(tokens))
    starts = range(len(tokens) - n + 1) if n else ()
    runs = np.array([" ".join(tokens[start : start + n]) for start in starts], dtype=object)
    return hash_array(runs, categorize=False)


def hash_of(text: str) -> int:
    """A hash of a text that arrow's int64 holds."""
    return int(run_hashes([text], 1)[0] >> np.uint64(1))
