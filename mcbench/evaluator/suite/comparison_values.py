"""Labelled comparisons of returned values: LeetCode's judgement, in Python's types.

A list and a tuple are one sequence, JSON's string keys are the keys they were made from, floats
have a tolerance of 1e-6, and nothing else is forgiven: True is not 1, "1" is not 1.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

_Pairs = tuple[tuple[Any, Any], ...]


def _nested(levels: int, core: Any, kind: type = list) -> Any:
    for _ in range(levels):
        core = kind([core])
    return core


# group -> (values that match, values that do not), each (expected, actual)
VALUES: dict[str, tuple[_Pairs, _Pairs]] = {
    "value: library types": (
        (
            ([1, 2], deque([1, 2])),
            ([0, 1, 2], range(3)),
            ([[0, 1], [2]], [range(2), deque([2], 5)]),
            ({"a": 2}, Counter("aa")),
            ({"1": [2]}, defaultdict(list, {1: [2]})),
            ({"a": 1, "b": 2}, OrderedDict([("b", 2), ("a", 1)])),
            (0.5, Fraction(1, 2)),
            (2, Fraction(4, 2)),
            (1 / 3, Fraction(1, 3)),
            ([0.1, 3], [Decimal("0.1"), Decimal("3.00")]),
            (Fraction(1, 3), Fraction(1, 3)),
            (Decimal("1.50"), Decimal("1.5")),
        ),
        (
            ([1, 2], deque([2, 1])),
            ([1, 2], range(3)),
            ({1, 2}, deque([1, 2])),
            ([1, 2], {1: 1, 2: 2}),
            (["a"], Counter("a")),
            (0.5, Fraction(1, 3)),
            (2, Fraction(5, 2)),
            (True, Fraction(1)),
            ("1", Decimal(1)),
            (1, Decimal("NaN")),
            (5, Decimal("1e999999999")),
            (Fraction(1, 3), Fraction(333333, 1000000)),
        ),
    ),
    "value: sequences": (
        (
            ([1, 2, 3], [1, 2, 3]),
            ([1, 2], (1, 2)),
            ((1, 2), [1, 2]),
            ([], ()),
            ([[1, 2], [3]], [(1, 2), (3,)]),
            ([[1, 2], [3]], ([1, 2], [3])),
            ([(1, "a"), (2, "b")], [[1, "a"], [2, "b"]]),
            ([[], [[]]], [(), ([],)]),
            ([[[1]], [[2]]], (((1,),), ((2,),))),
            (["a", "b"], ("a", "b")),
            ([None, 1], (None, 1)),
            ([[0.5, 1.5]], [(0.5, 1.5)]),
        ),
        (
            ([1, 2], [2, 1]),
            ([1, 2], [1, 2, 3]),
            ([1, 2, 3], [1, 2]),
            ([1, 2], []),
            ([], [1]),
            ([1, 2], 1),
            ([1], 1),
            (1, [1]),
            ([1, 2], {1, 2}),
            ([[1, 2]], [1, 2]),
            ([1, 2], [[1, 2]]),
            ([[1], [2]], [[1, 2]]),
            ([[]], []),
            ([1, 2], [1, [2]]),
            ([1, 2], "12"),
            ([1, 2], "[1, 2]"),
            ("abc", ["a", "b", "c"]),
            (["ab"], ["a", "b"]),
            ([], None),
            ([], {}),
            ([1, 2], {0: 1, 1: 2}),
            ([1, 1, 2], [1, 2, 2]),
        ),
    ),
    "value: bool, int, str, None": (
        (
            (True, True),
            (False, False),
            (None, None),
            (["abc"], ["abc"]),
            ([""], [""]),
            (0, 0),
            (-5, -5),
            ([True, False], (True, False)),
            (10**40, 10**40),
            (10**5000, 10**5000),
        ),
        (
            (1, True),
            (True, 1),
            (0, False),
            (False, 0),
            (True, False),
            ([1, 0], [True, False]),
            ([True], [1]),
            ([[1]], [[True]]),
            (1.0, True),
            (1, "1"),
            ("1", 1),
            ([1, 2], ["1", "2"]),
            ("True", True),
            (None, 0),
            (None, False),
            (None, ""),
            (None, []),
            (None, "None"),
            (False, None),
            ("", None),
            (["abc"], ["ABC"]),
            (["abc"], ["abc "]),
            (["abc"], ["abcd"]),
            (["YES"], ["yes"]),
            (["a b"], ["a  b"]),
            (5, 6),
            (5, -5),
            (100000, 100001),
            (10**40, 10**40 + 1),
            (10**5000, 10**5000 + 1),
            (100000, 100000.5),
            (2**53, 2**53 + 1),
            (5, None),
            (5, "five"),
        ),
    ),
    "value: floats": (
        (
            (0.3, 0.1 + 0.2),
            (1 / 3, 0.333333333333),
            ([0.5, [1.5]], [0.5000000001, (1.5,)]),
            (2.0, 2),
            (math.nan, math.nan),
            (math.inf, math.inf),
            (-math.inf, -math.inf),
            (0.0, -0.0),
            (1e20, 1e20),
            (1234567.891, 1234567.8910001),
            ([[0.1, 0.2]], [[0.1, 0.20000000000000001]]),
            (2000000.0, 2000000),
        ),
        (
            (0.5, 0.6),
            (0.5, 0.5001),
            (0.5, -0.5),
            (0.5, 0),
            (0.5, 1),
            (0.5, "0.5"),
            (0.5, None),
            (0.5, math.nan),
            (0.5, math.inf),
            (math.nan, 0.5),
            (math.inf, -math.inf),
            (math.inf, 10**400),
            (math.inf, 1e308),
            (0.5, 10**400),
            (2000000.0, 2000001),
            (3.14159265, 3.14),
            (3.0, 4),
            ([0.5, 0.25], [0.25, 0.5]),
            ([0.5, 0.5], [0.5]),
        ),
    ),
    "value: dicts": (
        (
            ({"a": 1}, {"a": 1}),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            ({"1": 2, "3": 4}, {1: 2, 3: 4}),
            ({"true": 1, "null": 2}, {True: 1, None: 2}),
            ({"a": (1,)}, {"a": [1]}),
            ({"a": 0.3}, {"a": 0.1 + 0.2}),
            ({"1": {"2": 3}}, {1: {2: 3}}),
            ({1: 2}, {1: 2}),
            ([{"1": 2}], [{1: 2}]),
            ({}, {}),
        ),
        (
            ({"a": 1}, {"a": 2}),
            ({"a": 1}, {"b": 1}),
            ({"a": 1}, {"a": 1, "b": 2}),
            ({"a": 1, "b": 2}, {"a": 1}),
            ({"1": 2}, {1: 3}),
            ({"1": 2}, {2: 1}),
            ({"a": 1}, {"a": True}),
            ({"a": 1}, {"a": "1"}),
            ({1: 0}, {True: 0}),
            ({"a": [1, 2]}, {"a": [2, 1]}),
            ({"a": 1}, [["a", 1]]),
            ({"a": 1}, ["a"]),
            ({}, None),
            ({"1": 0, "a": 1}, {1: 0, "1": 0}),
        ),
    ),
    "value: sets and bytes": (
        (
            ({1, 2, 3}, {3, 2, 1}),
            ({1, 2}, frozenset({1, 2})),
            (set(), set()),
            ({"a", "b"}, {"b", "a"}),
            ({(1, 2), (3, 4)}, {(3, 4), (1, 2)}),
            (b"ab", b"ab"),
        ),
        (
            ({1, 2}, {1, 3}),
            ({1, 2}, {1}),
            ({1}, {True}),
            ({1, 2}, {"1", "2"}),
            ({(1, 2)}, {(2, 1)}),
            (set(), {}),
            (set(), []),
            (b"ab", "ab"),
            (b"ab", b"ac"),
            ("ab", b"ab"),
        ),
    ),
    "value: deep and long": (
        (
            (_nested(200, 1), _nested(200, 1)),
            (_nested(200, 1), _nested(200, 1, tuple)),
            (list(range(20000)), tuple(range(20000))),
            ([[i, i + 0.5] for i in range(2000)], [(i, i + 0.5) for i in range(2000)]),
            (["x" * 100000], ["x" * 100000]),
        ),
        (
            (_nested(200, 1), _nested(200, 2)),
            (_nested(200, 1), _nested(201, 1)),
            (_nested(200, 1), _nested(200, True)),
            (list(range(20000)), [*range(19999), 0]),
            (["x" * 100000], ["x" * 99999]),
            ([1], [1] * 100000),
        ),
    ),
}


def _is_root(expected: Any, actual: Any) -> bool:
    return bool(actual * actual == expected)


_ANY_ORDER: Mapping[str, Any] = {"any_order": True}
_ROOT: Mapping[str, Any] = {"checker": _is_root}

# (group, expected, actual, match, options)
VALUES_OPTIONS: tuple[tuple[str, Any, Any, bool, Mapping[str, Any]], ...] = (
    ("value: any order", [3, 1, 2], [1, 2, 3], True, _ANY_ORDER),
    ("value: any order", [[1, 2], [3]], [[3], [1, 2]], True, _ANY_ORDER),
    ("value: any order", [[1], [2]], [(2,), (1,)], True, _ANY_ORDER),
    ("value: any order", ["b", "a"], ["a", "b"], True, _ANY_ORDER),
    ("value: any order", [0.3, 1.5], [1.5, 0.1 + 0.2], True, _ANY_ORDER),
    ("value: any order", [{"a": 1}, {"b": 2}], [{"b": 2}, {"a": 1}], True, _ANY_ORDER),
    ("value: any order", [1, 1, 2], [1, 2, 2], False, _ANY_ORDER),
    ("value: any order", [1, 2], [1, 2, 2], False, _ANY_ORDER),
    ("value: any order", [1, 2, 2], [1, 2], False, _ANY_ORDER),
    ("value: any order", [[1, 2]], [[2, 1]], False, _ANY_ORDER),
    ("value: any order", [1, 0], [True, False], False, _ANY_ORDER),
    ("value: any order", [1, 2], ["1", "2"], False, _ANY_ORDER),
    ("value: any order", ["ab"], ["ba"], False, _ANY_ORDER),
    ("value: stated tolerance", 0.1, 0.12, True, {"atol": 0.05}),
    ("value: stated tolerance", 0.1, 0.16, False, {"atol": 0.05}),
    ("value: stated tolerance", [100.0, 1.0], [101.0, 1.0], True, {"rtol": 0.02}),
    ("value: stated tolerance", [100.0, 1.0], [101.0, 1.1], False, {"rtol": 0.02}),
    ("value: stated tolerance", 0.5, math.nan, False, {"atol": 10.0}),
    ("value: checker", 4, -2, True, _ROOT),
    ("value: checker", 4, 2, True, _ROOT),
    ("value: checker", 4, 4, False, _ROOT),
    ("value: checker", 4, "2", False, _ROOT),
)
