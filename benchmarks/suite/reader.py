"""How the suite's data files are read: named blocks, and values as Python writes them."""

from __future__ import annotations

import functools
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def blocks(name: str) -> Iterator[tuple[str, str]]:
    """The (heading, content) blocks of the file ``<name>.txt``, each below a ``### heading``."""
    text = (_FOLDER / f"{name}.txt").read_bytes().decode()
    for block in ("\n" + text).split("\n### ")[1:]:
        heading, _, content = block.partition("\n")
        yield heading, content.rstrip("\n") + "\n"


def values(text: str) -> tuple[Any, ...]:
    """Values with commas between them, as Python writes them; the names are those of `_NAMES`."""
    found: tuple[Any, ...] = eval(f"({text},)", {"__builtins__": {}}, _NAMES)
    return found


def _nested(levels: int, core: Any, kind: Callable[[Any], Any] = list) -> Any:
    for _ in range(levels):
        core = kind([core])
    return core


def _rows(kind: Callable[[Any], Any], count: int) -> list[Any]:
    return [kind((number, number + 0.5)) for number in range(count)]


@functools.cache  # millions of characters, for several cases
def _numbers(separator: str, count: int) -> str:
    return separator.join(map(str, range(count)))


# Checkers, which a problem would state as code.


def _sum_is(expected: str, actual: str) -> bool:
    return sum(map(int, actual.split())) == int(expected)


def _permutation(expected: str, actual: str) -> bool:
    return sorted(map(int, actual.split())) == list(range(1, int(expected) + 1))


def _is_root(expected: Any, actual: Any) -> bool:
    return bool(actual * actual == expected)


_TYPES = (list, tuple, set, frozenset, range, str, deque, Counter, OrderedDict, defaultdict)
_NAMES: dict[str, Any] = {kind.__name__: kind for kind in (*_TYPES, Decimal, Fraction)}
_NAMES |= {"nan": math.nan, "inf": math.inf}
_NAMES |= {"nested": _nested, "rows": _rows, "numbers": _numbers}
_NAMES |= {"sum_is": _sum_is, "permutation": _permutation, "is_root": _is_root}
