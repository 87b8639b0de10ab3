"""Does this output answer the test? Named strategies, tried in a fixed order.

Text, from strict to lenient; the first that accepts is reported:

1. ``exact``: the same characters.
2. ``lines``: the same lines but for white space at line ends and empty lines at the end.
3. ``tokens``: the same words; the amount and kind of white space between them is free.
4. ``numeric``: as tokens, where an expected token that is a float (has a point or an exponent)
   accepts a number within ``atol`` or ``rtol``. Integers are exact, unless the problem states a
   tolerance and the answer is written as a float ("1.0000000" for 1).
5. ``words``: as numeric, where an expected yes or no is matched in any letter case.
6. ``any_order``: only on request; the lines (of one line: the tokens) as a multiset.
7. ``checker``: only on request, and then nothing but the checker decides.

Values: ``exact`` (equal, types included) and ``structure``: list and tuple alike at every depth,
bool is not int, str is not a number, an int equals a float of the same value, expected floats
accept a tolerance, and string keys of an expected dict match the keys that JSON turned into them;
``any_order`` and ``checker`` as above.

This module runs in the trusted process and treats the actual side as hostile text or as exact
builtin values.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

from mcbench.errors import unknown
from mcbench.evaluator.submission import Checker, check_tolerances

DEFAULT_RTOL = 1e-6
DEFAULT_ATOL = 1e-6
# Hostile output is refused before it costs the trusted process time and memory: what is this much
# longer than the expected output cannot be another way to write it.
MAX_LONGER = 10
MIN_LONG = 1 << 16
MAX_UNORDERED = 2000  # items compared pair by pair, after the equal ones were set aside

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = {"nan": "nan", "inf": "inf", "+inf": "inf", "-inf": "-inf"}
_NOT_FINITE |= {"infinity": "inf", "+infinity": "inf", "-infinity": "-inf"}
_YES_NO = ("yes", "no")


@dataclass(frozen=True)
class Comparison:
    """``strategy`` is the name of the one that accepted, or None with a ``reason``."""

    strategy: str | None
    reason: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the output answers the test."""
        return self.strategy is not None


@dataclass(frozen=True)
class Rules:
    """The comparison options of one test; see `StdioTest` and `CallTest`."""

    rtol: float | None = None
    atol: float | None = None
    case_sensitive: bool | None = None
    space_sensitive: bool = False
    any_order: bool = False
    checker: Checker | None = None

    @property
    def stated_tolerance(self) -> bool:
        """Whether the problem itself allows a tolerance."""
        return self.rtol is not None or self.atol is not None

    def close(self, expected: float, actual: float) -> bool:
        """Within the absolute or the relative tolerance; NaN only for NaN, infinities exact."""
        if math.isnan(expected) or math.isnan(actual):
            return math.isnan(expected) and math.isnan(actual)
        if math.isinf(expected) or math.isinf(actual):
            return expected == actual
        rtol, atol = self.rtol, self.atol
        if not self.stated_tolerance:
            rtol, atol = DEFAULT_RTOL, DEFAULT_ATOL
        return abs(expected - actual) <= max((rtol or 0.0) * abs(expected), atol or 0.0)


RULE_NAMES = tuple(field.name for field in fields(Rules))


def outputs_match(expected: Any, actual: Any, **options: Any) -> bool:
    """Whether ``actual`` answers ``expected``: text if both are str, values otherwise.

    Options are those of `Rules`.

    Raises:
        UserError: an unknown option, a tolerance that is negative or not finite.
    """
    if strange := sorted(options.keys() - set(RULE_NAMES)):
        raise unknown("comparison option", strange[0], RULE_NAMES)
    rules = Rules(**options)
    check_tolerances(rules.rtol, rules.atol)
    if isinstance(expected, str) and isinstance(actual, str):
        return compare_text(expected, actual, rules).accepted
    return compare_values(expected, actual, rules).accepted


def run_checker(checker: Checker, expected: Any, actual: Any, test: Any) -> Comparison:
    """Ask the problem's own checker; one that raises has not accepted."""
    try:
        count = len(inspect.signature(checker).parameters)
    except (TypeError, ValueError):
        count = 2
    try:
        accepted = checker(expected, actual, test) if count >= 3 else checker(expected, actual)
    except Exception as error:  # user code; the reason is reported
        return Comparison(None, f"the checker raised {type(error).__name__}: {error}")
    return Comparison("checker") if accepted else Comparison(None, "the checker refused")


# Text --------------------------------------------------------------------------------------------


def compare_text(expected: str, actual: str, rules: Rules, test: Any = None) -> Comparison:
    """Compare printed output; see the module for the strategies."""
    if rules.checker is not None:
        return run_checker(rules.checker, expected, actual, test)
    if expected == actual:
        return Comparison("exact")
    if len(actual) > MAX_LONGER * len(expected) + MIN_LONG:
        return Comparison(None, f"{len(actual)} characters, far more than the expected output")
    if rules.space_sensitive and not _same_spaces(expected, actual):
        return Comparison(None, "white space differs")
    if _lines(expected) == _lines(actual):
        return Comparison("lines")
    wanted, got = expected.split(), actual.split()
    if wanted == got:
        return Comparison("tokens")
    return _compare_tokens(wanted, got, expected, actual, rules)


def _compare_tokens(
    wanted: list[str], got: list[str], expected: str, actual: str, rules: Rules
) -> Comparison:
    if len(wanted) == len(got):
        for strategy in ("numeric", "words"):
            pairs = zip(wanted, got, strict=True)
            if all(_tokens_match(w, g, rules, strategy == "words") for w, g in pairs):
                return Comparison(strategy)
    if rules.any_order and _unordered_text(expected, actual, rules):
        return Comparison("any_order")
    return Comparison(None, _first_difference(wanted, got, rules))


def _same_spaces(expected: str, actual: str) -> bool:
    """Whether all white space agrees; a newline at the end, which print adds, is free."""
    expected, actual = expected.removesuffix("\n"), actual.removesuffix("\n")
    starts = expected[:1].isspace() == actual[:1].isspace()
    return starts and re.findall(r"\s+", expected) == re.findall(r"\s+", actual)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _tokens_match(wanted: str, got: str, rules: Rules, words: bool = True) -> bool:
    if wanted == got:
        return True
    if words and rules.case_sensitive is not True:
        either_case = rules.case_sensitive is False or wanted.lower() in _YES_NO
        if either_case and wanted.casefold() == got.casefold():
            return True
    if _INTEGER.fullmatch(wanted):
        as_float = rules.stated_tolerance and not _INTEGER.fullmatch(got)
        if not as_float:
            return False
    pair = _as_float(wanted), _as_float(got)
    return pair[0] is not None and pair[1] is not None and rules.close(pair[0], pair[1])


def _as_float(token: str) -> float | None:
    if len(token) <= 400 and _NUMBER.fullmatch(token):
        number = float(token)
        return number if math.isfinite(number) else None  # too large to compare as a float
    return float(_NOT_FINITE[token.lower()]) if token.lower() in _NOT_FINITE else None


def _unordered_text(expected: str, actual: str, rules: Rules) -> bool:
    wanted, got = ([line.split() for line in _lines(text)] for text in (expected, actual))
    if len(wanted) == 1 and len(got) == 1:
        wanted, got = ([[token] for token in line[0]] for line in (wanted, got))

    def match(a: list[str], b: list[str]) -> bool:
        return len(a) == len(b) and all(
            _tokens_match(x, y, rules) for x, y in zip(a, b, strict=True)
        )

    return _same_multiset(wanted, got, match, key=tuple)


def _first_difference(wanted: list[str], got: list[str], rules: Rules) -> str:
    for number, (w, g) in enumerate(zip(wanted, got, strict=False), start=1):
        if not _tokens_match(w, g, rules):
            return f"token {number}: expected {_short(w)}, got {_short(g)}"
    return f"expected {len(wanted)} tokens, got {len(got)}"


# Values ------------------------------------------------------------------------------------------


def compare_values(expected: Any, actual: Any, rules: Rules, test: Any = None) -> Comparison:
    """Compare a returned value; see the module for the strategies."""
    if rules.checker is not None:
        return run_checker(rules.checker, expected, actual, test)
    try:
        if _identical(expected, actual):
            return Comparison("exact")
        if _structurally_equal(expected, actual, rules):
            return Comparison("structure")
        if rules.any_order and _unordered_values(expected, actual, rules):
            return Comparison("any_order")
    except (RecursionError, ValueError, OverflowError) as error:
        return Comparison(None, f"the values cannot be compared: {error}")
    return Comparison(None, f"expected {_short(expected)}, got {_short(actual)}")


def _identical(expected: Any, actual: Any) -> bool:
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, (list, tuple)):
        return len(expected) == len(actual) and all(map(_identical, expected, actual))
    if isinstance(expected, dict):
        return _same_items(expected, actual) and all(
            _identical(value, actual[key]) for key, value in expected.items()
        )
    if isinstance(expected, (set, frozenset)):
        return _same_items(expected, actual)
    return bool(expected == actual)


def _same_items(expected: Any, actual: Any) -> bool:
    """The same members, or dict keys; by repr, because for == True is 1."""
    return Counter(map(repr, expected)) == Counter(map(repr, actual))


def _structurally_equal(expected: Any, actual: Any, rules: Rules) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return type(expected) is type(actual) and expected == actual
    if isinstance(expected, float) and isinstance(actual, (int, float)):
        return _number(actual) is not None and rules.close(expected, float(actual))
    if isinstance(expected, int) and isinstance(actual, (int, float)):
        return expected == actual
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        return len(expected) == len(actual) and all(
            _structurally_equal(e, a, rules) for e, a in zip(expected, actual, strict=True)
        )
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _dicts_equal(expected, actual, rules)
    sets = (set, frozenset)
    if isinstance(expected, sets) and isinstance(actual, sets):
        return len(expected) == len(actual) and _same_multiset(
            list(expected), list(actual), lambda e, a: _structurally_equal(e, a, rules), repr
        )
    return type(expected) is type(actual) and bool(expected == actual)


def _number(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _dicts_equal(expected: dict[Any, Any], actual: dict[Any, Any], rules: Rules) -> bool:
    if len(expected) != len(actual):
        return False
    if all(isinstance(key, str) for key in expected):
        restored = {_json_key(key): value for key, value in actual.items()}
        if len(restored) == len(actual):
            actual = restored
    bools = sum(isinstance(key, bool) for key in expected)
    return bools == sum(isinstance(key, bool) for key in actual) and all(
        key in actual and _structurally_equal(value, actual[key], rules)
        for key, value in expected.items()
    )


def _json_key(key: Any) -> Any:
    """The string that json.dumps makes of a key."""
    if isinstance(key, (bool, int, float)) or key is None:
        return json.dumps(key)
    return key


def _unordered_values(expected: Any, actual: Any, rules: Rules) -> bool:
    collections = (list, tuple, set, frozenset)
    if not isinstance(expected, collections) or not isinstance(actual, collections):
        return False

    def match(e: Any, a: Any) -> bool:
        return _structurally_equal(e, a, rules)

    return _same_multiset(list(expected), list(actual), match, repr)


def _same_multiset(wanted: list[Any], got: list[Any], match: Any, key: Any) -> bool:
    """Pair every wanted item with its own matching one: equal keys first, the rest greedily."""
    if len(wanted) != len(got):
        return False
    surplus = Counter(map(key, got))
    rest = []
    for item in wanted:
        if surplus[key(item)] > 0:
            surplus[key(item)] -= 1
        else:
            rest.append(item)
    candidates = []
    for item in got:
        if surplus[key(item)] > 0:
            surplus[key(item)] -= 1
            candidates.append(item)
    if len(rest) > MAX_UNORDERED:
        return False
    for item in rest:
        for position, candidate in enumerate(candidates):
            if match(item, candidate):
                del candidates[position]
                break
        else:
            return False
    return True


def _short(value: Any, limit: int = 60) -> str:
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # an integer with too many digits, somewhere inside
        return f"a {type(value).__name__} with very large integers"
    return text if len(text) <= limit else text[:limit] + "…"
