"""How the suite's data files are read: named blocks, and values as Python writes them."""

from __future__ import annotations

import ast
import functools
import math
import operator
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
    """Values with commas between them: literals, arithmetic, and calls of `_NAMES`.

    Raises:
        ValueError: something else.
    """
    found: tuple[Any, ...] = _value(ast.parse(f"({text.strip()},)", mode="eval").body)
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
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Div: operator.truediv,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def _value(node: ast.expr | None) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.List(elts=items):
            return list(map(_value, items))
        case ast.Tuple(elts=items):
            return tuple(map(_value, items))
        case ast.Set(elts=items):
            return set(map(_value, items))
        case ast.Dict(keys=keys, values=parts):
            return dict(zip(map(_value, keys), map(_value, parts), strict=True))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _NAMES:
            return _NAMES[name](*map(_value, args))
    raise ValueError(f"not a value of the suite: {node and ast.unparse(node)}")
