"""Labelled comparisons of printed output and returned values: what judges accept and refuse.

Labels follow the rules that contests publish: Kattis' default validator (tokens, optional
tolerances, optional case and space sensitivity), testlib's checkers (ncmp, wcmp, rcmp, yesno),
AtCoder and the ICPC (integers exact, floats within 1e-6 unless stated), LeetCode for values. Where
they differ on letter case or tolerance, the options that a test states decide; on anything else
there is no case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcbench.evaluator.suite.cases import ComparisonCase
from mcbench.evaluator.suite.comparison_text import TEXT
from mcbench.evaluator.suite.comparison_values import VALUES, VALUES_OPTIONS


def _sum_is(expected: str, actual: str) -> bool:
    return sum(map(int, actual.split())) == int(expected)


def _permutation(expected: str, actual: str) -> bool:
    return sorted(map(int, actual.split())) == list(range(1, int(expected) + 1))


_SENSITIVE: Mapping[str, Any] = {"case_sensitive": True}
_INSENSITIVE: Mapping[str, Any] = {"case_sensitive": False}
_SPACES: Mapping[str, Any] = {"space_sensitive": True}
_ANY_ORDER: Mapping[str, Any] = {"any_order": True}
_SUM: Mapping[str, Callable[..., bool]] = {"checker": _sum_is}
_PERMUTATION: Mapping[str, Callable[..., bool]] = {"checker": _permutation}

# (group, expected, actual, match, options)
_WITH_OPTIONS: tuple[tuple[str, str, str, bool, Mapping[str, Any]], ...] = (
    ("stated tolerance", "0.1", "0.12", True, {"atol": 0.05}),
    ("stated tolerance", "0.1", "0.16", False, {"atol": 0.05}),
    ("stated tolerance", "100.0", "105.0", True, {"rtol": 0.1}),
    ("stated tolerance", "100.0", "105.0", False, {"rtol": 0.01}),
    ("stated tolerance", "100", "105.0", True, {"rtol": 0.1}),
    ("stated tolerance", "1", "1.4", True, {"atol": 0.5}),
    ("stated tolerance", "1", "1.4", False, {"atol": 0.1}),
    ("stated tolerance", "1", "1.1", True, {"atol": 0.5, "rtol": 0.5}),
    ("stated tolerance", "1", "1.50001", False, {"atol": 0.5, "rtol": 0.5}),
    ("stated tolerance", "0", "1", False, {"rtol": 0.01}),
    ("stated tolerance", "0.0", "1.0", False, {"rtol": 0.01}),
    ("stated tolerance", "inf", "0", False, {"atol": 0.5, "rtol": 0.5}),
    ("stated tolerance", "0.5", "nan", False, {"atol": 10.0}),
    ("stated tolerance", "0.5", "inf", False, {"rtol": 10.0}),
    ("stated tolerance", "1", "1.4" + "\U0001f680" * 40, False, {"atol": 0.5}),
    ("stated tolerance", "0.333333", "0.3333334", True, {"atol": 1e-6}),
    ("stated tolerance", "3", "3.0000000", True, {"atol": 1e-6}),
    ("stated tolerance", "3", "3.1", False, {"atol": 1e-6}),
    ("stated tolerance", "1000000.0", "1000000.9", True, {"rtol": 1e-6}),
    ("stated tolerance", "1000000.0", "1000002.0", False, {"rtol": 1e-6}),
    ("stated tolerance", "0.12345", "0.12345", True, {"atol": 0.0}),
    ("stated tolerance", "0.12345", "0.12346", False, {"atol": 0.0}),
    ("stated tolerance", "0.12345678", "0.12345679", False, {"rtol": 0.0, "atol": 1e-9}),
    ("stated tolerance", "PI is 1.0", "PI is 2.0", False, {"atol": 0.5, "rtol": 0.5}),
    ("stated tolerance", "PI is 3.14", "PI was 3.14", False, {"atol": 0.5}),
    ("stated tolerance", "2.0 YES", "2.3 YES", True, {"atol": 0.5}),
    ("stated tolerance", "2.0 YES", "2.3 NO", False, {"atol": 0.5}),
    ("case sensitive", "Hello", "Hello", True, _SENSITIVE),
    ("case sensitive", "Hello", "hello", False, _SENSITIVE),
    ("case sensitive", "YES", "yes", False, _SENSITIVE),
    ("case sensitive", "YES", "YES\n", True, _SENSITIVE),
    ("case sensitive", "No", "NO", False, _SENSITIVE),
    ("case sensitive", "aaaaaAaaa", "aaaaAaaaa", False, _SENSITIVE),
    ("case sensitive", "A 0.5", "A 0.50", True, _SENSITIVE),
    ("case insensitive", "Impossible", "IMPOSSIBLE", True, _INSENSITIVE),
    ("case insensitive", "abc DEF", "ABC def", True, _INSENSITIVE),
    ("case insensitive", "YES", "yes", True, _INSENSITIVE),
    ("case insensitive", "hello world", "Hello  World", True, _INSENSITIVE),
    ("case insensitive", "Impossible", "Possible", False, _INSENSITIVE),
    ("case insensitive", "abc", "abd", False, _INSENSITIVE),
    ("case insensitive", "abc", "AB", False, _INSENSITIVE),
    ("case insensitive", "kg", "\u212ag", False, _INSENSITIVE),
    ("case insensitive", "5", "6", False, _INSENSITIVE),
    ("space sensitive", "hello\n world\n", "hello\n world\n", True, _SPACES),
    ("space sensitive", "hello\n world\n", "hello\nworld\n", False, _SPACES),
    ("space sensitive", "hello\nworld\n", "hello\n world\n", False, _SPACES),
    ("space sensitive", "a b", "a  b", False, _SPACES),
    ("space sensitive", "a b", "a\tb", False, _SPACES),
    ("space sensitive", "a b", "a\nb", False, _SPACES),
    ("space sensitive", "a b", " a b", False, _SPACES),
    ("space sensitive", "  *\n ***", "  *\n ***", True, _SPACES),
    ("space sensitive", "  *\n ***", "*\n***", False, _SPACES),
    ("space sensitive", "1\n\n2\n", "1\n2\n", False, _SPACES),
    ("space sensitive", "a  0.5", "a  0.50", True, _SPACES),
    ("all options", "PI is 3.14\n", "PI is 3.14\n", True, {**_SENSITIVE, **_SPACES, "atol": 0.5}),
    ("all options", "PI is 1.0\n", "PI is 2.0\n", False, {**_SENSITIVE, **_SPACES, "atol": 0.5}),
    ("all options", "PI is 3.0\n", "PI is 3.4\n", True, {**_SENSITIVE, **_SPACES, "atol": 0.5}),
    ("all options", "PI is 3.0\n", "pi is 3.0\n", False, {**_SENSITIVE, **_SPACES, "atol": 0.5}),
    ("all options", "PI is 3.0\n", "PI  is 3.0\n", False, {**_SENSITIVE, **_SPACES, "atol": 0.5}),
    ("any order", "a\nb\nc", "c\na\nb\n", True, _ANY_ORDER),
    ("any order", "1 2 2", "2 1 2", True, _ANY_ORDER),
    ("any order", "1 2\n3 4", "3 4\n1 2", True, _ANY_ORDER),
    ("any order", "0.5\n1.5", "1.50\n0.50", True, _ANY_ORDER),
    ("any order", "a b c", "a b c", True, _ANY_ORDER),
    ("any order", "0.0 0.1", "0.1 0.2", True, {**_ANY_ORDER, "atol": 0.1}),
    ("any order", "1.05 2.0\n1.0 7.0", "1.04 7.0\n1.06 2.0", True, {**_ANY_ORDER, "atol": 0.1}),
    ("any order", "a\nb\nc", "a\nb\nb", False, _ANY_ORDER),
    ("any order", "1 2 2", "1 1 2", False, _ANY_ORDER),
    ("any order", "1 2", "1 2 2", False, _ANY_ORDER),
    ("any order", "1 2 2", "1 2", False, _ANY_ORDER),
    ("any order", "1 2\n3 4", "2 1\n4 3", False, _ANY_ORDER),
    ("any order", "1 2\n3 4", "1 3\n2 4", False, _ANY_ORDER),
    ("any order", "0.0 0.1", "0.1 0.3", False, {**_ANY_ORDER, "atol": 0.1}),
    ("any order", "12 21", "11 22", False, _ANY_ORDER),
    ("any order", "abc", "cba", False, _ANY_ORDER),
    ("checker", "4", "2 2", True, _SUM),
    ("checker", "4", "1\n3\n", True, _SUM),
    ("checker", "4", "2 3", False, _SUM),
    ("checker", "4", "four", False, _SUM),
    ("checker", "3", "2 1 3", True, _PERMUTATION),
    ("checker", "3", "3 1 2\n", True, _PERMUTATION),
    ("checker", "3", "3", False, _PERMUTATION),
    ("checker", "3", "1 2 2", False, _PERMUTATION),
    ("checker", "3", "", False, _PERMUTATION),
)


def _number_within_groups(rows: list[tuple[str, Any, Any, bool, Any]]) -> list[ComparisonCase]:
    seen: dict[str, int] = {}
    cases = []
    for group, expected, actual, match, options in rows:
        seen[group] = seen.get(group, 0) + 1
        name = f"{group.replace(',', '').replace(' ', '-')}-{seen[group]}"
        cases.append(ComparisonCase(name, group, expected, actual, match, options))
    return cases


def _comparisons() -> tuple[ComparisonCase, ...]:
    rows: list[tuple[str, Any, Any, bool, Any]] = []
    for group, by_label in [*TEXT.items(), *VALUES.items()]:
        for match, pairs in zip((True, False), by_label, strict=True):
            rows.extend((group, expected, actual, match, {}) for expected, actual in pairs)
    rows.extend(_WITH_OPTIONS)
    rows.extend(VALUES_OPTIONS)
    return tuple(_number_within_groups(rows))


COMPARISONS: tuple[ComparisonCase, ...] = _comparisons()
