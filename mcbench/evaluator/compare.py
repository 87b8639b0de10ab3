"""Does this output answer the test? Named strategies, tried in a fixed order.

Text, from strict to lenient; the first that accepts is reported:

1. ``exact``: the same characters.
2. ``lines``: the same lines but for white space at line ends and empty lines at the end.
3. ``tokens``: the same words; the amount and kind of white space between them is free.
4. ``numeric``: as tokens, where an expected token that is a float (has a point or an exponent)
   accepts a number within ``atol`` or ``rtol``. Integers are exact: an expected one accepts only
   itself, and an integer answer to a float of integer value must be equal to it; above 2**53, where
   a float has no more digits, round to it. Where the expected tokens of the problem include one
   that is not whole, its answers are real numbers: an expected 1 accepts 1.0 then. Where the
   problem states a tolerance, all tokens that are numbers are compared with it, integers too; but
   beside an expected number that is not whole, an integer answers an integer exactly.
5. ``words``: as numeric, where an expected yes or no is matched in any letter case.
6. ``any_order``: only on request; the lines (of one line: the tokens) as a multiset.

White space is what contest judges (C's isspace) take for it: blank, tab, newline, carriage return,
vertical tab, form feed. A no-break space is a character like any other.

Values: ``exact`` (equal, types included) and ``structure``: list, tuple, deque and range alike at
every depth, bool is not int, str is not a number, an int equals a float of the same value (above
2**53, one that rounds to it), numbers accept a tolerance as above, a Fraction or Decimal is taken
as the int or float of its value where one of these is expected, and string keys of an expected
dict match the keys that JSON turned into them; ``any_order`` as above.

Where a test has a checker, nothing but that decides (`mcbench.evaluator.checking`). The actual side
may be forged. What is small and plain, or text, is compared at a cost near linear in its size; all
else in a sandboxed process, which may take its time and be killed (`compare_written`). Standard
library only: that process loads this file.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter, deque
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from itertools import islice
from typing import Any

from mcbench.evaluator import encoding
from mcbench.evaluator.pairing import same_multiset
from mcbench.evaluator.wording import short, told_apart

DEFAULT_RTOL = 1e-6
DEFAULT_ATOL = 1e-6
# What is this much longer than the expected output cannot be another way to write it.
MAX_LONGER = 10
MIN_LONG = 1 << 16
MAX_DIGITS = 5000  # of a number that is compared with a tolerance
_SHALLOW = 10  # values nested deeper may contain themselves

_SPACE = " \t\n\r\f\v"
_TOKEN = re.compile(f"[^{_SPACE}]+")
_SPACES = re.compile(f"[{_SPACE}]+")
# What str.split takes for white space and judges do not.
_ODD_SPACE = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"-?[0-9]+\.0+|-?[0-9](\.[0-9]+)?e\+[0-9]{2,3}")  # 5.0 and 1e+16
_EXACT = 2**53  # a float has all integers up to here
_NOT_FINITE = re.compile("[+-]?(nan|inf(inity)?)", re.IGNORECASE)
_YES_NO = ("yes", "no")


@dataclass(frozen=True)
class Comparison:
    """``strategy`` is the name of the one that accepted, or None with a ``reason``; ``fault`` where
    that is the checker's own.
    """

    strategy: str | None
    reason: str = ""
    fault: bool = False

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
    real: bool = False  # the problem's expected tokens include a number that is not whole

    @property
    def stated_tolerance(self) -> bool:
        """Whether the problem itself allows a tolerance."""
        return self.rtol is not None or self.atol is not None

    def close(self, expected: float, actual: float) -> bool:
        """Within the absolute or the relative tolerance; NaN only for NaN, infinities exact.

        Between integers, and beyond what a float can hold, the arithmetic is exact.
        """
        if not _is_finite(expected) or not _is_finite(actual):
            return expected == actual or (expected != expected and actual != actual)
        rtol, atol = DEFAULT_RTOL, DEFAULT_ATOL
        if self.stated_tolerance:
            rtol, atol = self.rtol or 0.0, self.atol or 0.0
        size = max(abs(expected), abs(actual))
        if size > sys.float_info.max or (isinstance(expected, int) and isinstance(actual, int)):
            e: Any = expected if isinstance(expected, int) else Fraction(expected)
            a: Any = actual if isinstance(actual, int) else Fraction(actual)
            (over, under), (most, share) = map(_as_ratio, (rtol, atol))
            return bool(abs(e - a) * under <= over * abs(e) or abs(e - a) * share <= most)
        limit = max(rtol * abs(expected), atol)
        # What is exactly at the limit in decimals may be a rounding error beyond it in binary.
        slack = 2 * math.ulp(size) if limit else 0.0
        return abs(expected - actual) <= limit + slack


@cache
def _as_ratio(tolerance: float) -> tuple[int, int]:
    return Fraction(str(tolerance)).as_integer_ratio()


def _is_finite(number: float) -> bool:
    # math.isfinite refuses integers that no float can hold.
    return isinstance(number, int) or math.isfinite(number)


RULE_NAMES = tuple(field.name for field in fields(Rules))


# Text --------------------------------------------------------------------------------------------


def compare_text(expected: str, actual: str, rules: Rules) -> Comparison:
    """Compare printed output; see the module for the strategies."""
    if expected == actual:
        return Comparison("exact")
    if far_longer(expected, actual):
        return Comparison(None, f"{len(actual)} characters, far more than the expected output")
    if rules.space_sensitive and not _same_spaces(expected, actual):
        return Comparison(None, "white space differs")
    if _same_lines(expected, actual):
        return Comparison("lines")
    return _compare_words(expected, actual, rules)


def _compare_words(expected: str, actual: str, rules: Rules) -> Comparison:
    wanted = tokens(expected)
    got = tokens(actual, len(wanted) + 1)
    if wanted == got:
        return Comparison("tokens")
    if not rules.real and any(map(_is_not_whole, wanted)):
        rules = replace(rules, real=True)
    strategy, position = _compare_tokens(wanted, got, rules)
    if strategy is not None:
        return Comparison(strategy)
    if rules.any_order:
        if _unordered_text(expected, actual, rules):
            return Comparison("any_order")
        return Comparison(None, "not the expected lines or tokens, in any order")
    return Comparison(None, _first_difference(wanted, got, position, actual))


def has_real_numbers(expected: str) -> bool:
    """Whether a token is a number that is not whole."""
    return "." in expected and any(map(_is_not_whole, tokens(expected)))


def _is_not_whole(token: str) -> bool:
    if "." not in token or len(token) > MAX_DIGITS or not _NUMBER.fullmatch(token):
        return False
    number = float(token)
    return math.isfinite(number) and not number.is_integer()


def far_longer(expected: str, actual: str) -> bool:
    """Whether ``actual`` is too long to be another way to write ``expected``."""
    return len(actual) > MAX_LONGER * len(expected) + MIN_LONG


def tokens(text: str, most: int | None = None) -> list[str]:
    """The words of a text, as contest judges split it, or the first of them."""
    if _ODD_SPACE.search(text):
        return [found[0] for found in islice(_TOKEN.finditer(text), most)]
    return text.split() if most is None else text.split(None, most)[:most]


def _compare_tokens(wanted: list[str], got: list[str], rules: Rules) -> tuple[str | None, int]:
    """The strategy that accepts all tokens, or None and the position of the first that differs."""
    strategy = "numeric"
    for position, (w, g) in enumerate(zip(wanted, got, strict=False)):
        if w == g or _numbers_match(w, g, rules):
            continue
        if not _words_match(w, g, rules):
            return None, position
        strategy = "words"
    if len(wanted) != len(got):
        return None, min(len(wanted), len(got))
    return strategy, 0


def _first_difference(wanted: list[str], got: list[str], position: int, actual: str) -> str:
    if position >= len(got):
        return f"expected {len(wanted)} tokens, got {len(got)}"
    start = next(m.start() for i, m in enumerate(_TOKEN.finditer(actual)) if i == position)
    where = f"line {actual.count(chr(10), 0, start) + 1}, token {position + 1}"
    if position >= len(wanted):
        return f"{where}: expected the output to end, got {short(got[position])}"
    return f"{where}: {told_apart(wanted[position], got[position])}"


def _same_spaces(expected: str, actual: str) -> bool:
    """Whether all white space agrees; a newline at the end, which print adds, is free."""
    expected, actual = expected.removesuffix("\n"), actual.removesuffix("\n")
    starts = (expected[:1] in _SPACE) == (actual[:1] in _SPACE)
    return starts and _SPACES.findall(expected) == _SPACES.findall(actual)


def _same_lines(expected: str, actual: str) -> bool:
    # The same number of them first: an answer of blank lines alone is not split.
    expected, actual = expected.rstrip(_SPACE), actual.rstrip(_SPACE)
    return expected.count("\n") == actual.count("\n") and _lines(expected) == _lines(actual)


def _lines(text: str) -> list[str]:
    return [line.rstrip(_SPACE) for line in text.rstrip(_SPACE).split("\n")]


def _numbers_match(wanted: str, got: str, rules: Rules) -> bool:
    """Whether an expected number accepts a token that is not the same text."""
    if _INTEGER.fullmatch(wanted) and not rules.stated_tolerance:
        return rules.real and _same_whole(wanted, got)
    number, answer = _as_number(wanted), _as_number(got)
    if number is None or answer is None:
        return False
    # Problems ask for words in capitals ("INF if there is no path"); no program prints a float so.
    if not _is_finite(number) and wanted.isupper():
        return False
    if isinstance(answer, int) and isinstance(number, int) and rules.real:
        return number == answer
    if isinstance(answer, int) and isinstance(number, float) and not rules.stated_tolerance:
        exact = Decimal(wanted)
        if exact == exact.to_integral_value():
            return exact == answer or (exact == Decimal(repr(number)) and _rounds(answer, number))
    return rules.close(number, answer)


def _same_whole(wanted: str, got: str) -> bool:
    """Whether a real number, as it is printed, is an expected integer to the last digit. A zero may
    have a sign.
    """
    digits = got
    if _WHOLE.fullmatch(got):
        digits = f"{Decimal(got):f}" if "e" in got else got.partition(".")[0]
    same = digits.lstrip("-") == wanted.lstrip("-") and _NUMBER.fullmatch(got) is not None
    return same and Decimal(got) == Decimal(wanted)  # but for the sign


def _rounds(answer: float, expected: float) -> bool:
    """Whether an answer is an integer, and one of those that a float cannot tell apart."""
    known = isinstance(answer, int) and _EXACT < abs(answer) <= sys.float_info.max
    return known and float(answer) == expected


def _words_match(wanted: str, got: str, rules: Rules) -> bool:
    if rules.case_sensitive is True:
        return False
    either_case = rules.case_sensitive is False or wanted.lower() in _YES_NO
    return either_case and _same_letters(wanted, got)


def _same_letters(wanted: str, got: str) -> bool:
    # Some letters outside ASCII have an ASCII one as their other case: K (kelvin) and k.
    return wanted.isascii() == got.isascii() and wanted.lower() == got.lower()


def _as_number(token: str) -> float | None:
    if len(token) > MAX_DIGITS:
        return None
    if _INTEGER.fullmatch(token):
        return int(Decimal(token))  # int itself refuses long ones
    if _NUMBER.fullmatch(token):
        number = float(token)
        return number if math.isfinite(number) else None  # too large to compare as a float
    return float(token) if _NOT_FINITE.fullmatch(token) else None


def _unordered_text(expected: str, actual: str, rules: Rules) -> bool:
    if expected.rstrip(_SPACE).count("\n") != actual.rstrip(_SPACE).count("\n"):
        return False
    wanted, got = ([tokens(line) for line in _lines(text)] for text in (expected, actual))
    if len(wanted) == 1 and len(got) == 1:
        wanted, got = ([[token] for token in line[0]] for line in (wanted, got))
    if sorted(wanted) == sorted(got):
        return True

    def match(a: list[str], b: list[str]) -> bool:
        return len(a) == len(b) and _compare_tokens(a, b, rules)[0] is not None

    def shape(line: list[str], numbers: list[float]) -> Any:
        parsed = [token.lower() if (n := _as_number(token)) is None else n for token in line]
        return _shape(parsed, numbers, rules)

    return same_multiset(wanted, got, match, shape, rules.close)


# Values ------------------------------------------------------------------------------------------


def compare_values(expected: Any, actual: Any, rules: Rules) -> Comparison:
    """Compare a returned value; see the module for the strategies."""
    try:
        strategy = _compare_structure(expected, actual, rules)
        if strategy is None and rules.any_order and _unordered_values(expected, actual, rules):
            strategy = "any_order"
    except (RecursionError, ValueError, ArithmeticError, TypeError) as error:
        return Comparison(None, f"the values cannot be compared: {error}")
    if strategy is not None:
        return Comparison(strategy)
    return Comparison(None, told_apart(expected, actual))


def _compare_structure(expected: Any, actual: Any, rules: Rules) -> str | None:
    """``exact``, ``structure`` or None. Without recursion: values may be nested deeply."""
    strategy = "exact"
    pairs: list[tuple[Any, Any, int]] = [(expected, actual, 0)]
    compared: set[tuple[int, int]] = set()
    while pairs:
        e, a, depth = pairs.pop()
        if depth > _SHALLOW and isinstance(e, _CONTAINERS):
            if (id(e), id(a)) in compared:
                continue
            compared.add((id(e), id(a)))
        parts = _parts(e, a)
        if parts is not None:
            pairs.extend((x, y, depth + 1) for x, y in parts)
        elif isinstance(e, _CONTAINERS) or not _scalars_equal(e, a, rules):
            return None  # containers: of another size, or with other keys
        keys_differ = isinstance(e, dict) and e.keys() != a.keys()
        if type(e) is not type(a) or keys_differ or (parts is None and e != a):
            strategy = "structure"
    return strategy


def _parts(expected: Any, actual: Any) -> list[tuple[Any, Any]] | None:
    """What two containers of the same form and size hold, in pairs; None for anything else."""
    if isinstance(expected, _SEQUENCES) and isinstance(actual, _SEQUENCES):
        if len(expected) == len(actual):
            return list(zip(expected, actual, strict=True))
    elif isinstance(expected, dict) and isinstance(actual, dict):
        return _by_key(expected, actual)
    return None


_SETS = (set, frozenset)
_SEQUENCES = (list, tuple, deque, range)
_CONTAINERS = (*_SEQUENCES, dict)


def _scalars_equal(expected: Any, actual: Any, rules: Rules) -> bool:
    if isinstance(expected, _SETS) and isinstance(actual, _SETS):
        return len(expected) == len(actual) and _unordered_values(expected, actual, rules)
    if isinstance(expected, bool) or isinstance(actual, bool):
        return type(expected) is type(actual) and expected == actual
    if isinstance(expected, (int, float)) and isinstance(actual, (Decimal, Fraction)):
        actual = _plain_number(actual)
    if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
        whole = isinstance(expected, int) or (isinstance(actual, int) and expected.is_integer())
        if expected == actual:
            return True
        if whole and not rules.stated_tolerance:
            return isinstance(expected, float) and _rounds(actual, expected)
        return rules.close(expected, actual)
    if isinstance(expected, complex) and isinstance(actual, complex):
        parts = (expected.real, actual.real), (expected.imag, actual.imag)
        return all(rules.close(*pair) for pair in parts)
    if isinstance(expected, str) and isinstance(actual, str) and rules.case_sensitive is False:
        return _same_letters(expected, actual)
    if type(expected) is not type(actual):
        return False
    not_numbers = isinstance(expected, Decimal) and expected.is_qnan() and actual.is_qnan()
    return not_numbers or bool(expected == actual)


def _plain_number(value: Decimal | Fraction) -> float | None:
    """The int or float of the same value; None where a float cannot hold it."""
    if isinstance(value, Decimal) and (value.is_snan() or abs(value.adjusted()) > MAX_DIGITS):
        return None
    whole = value.is_finite() if isinstance(value, Decimal) else True
    return int(value) if whole and value == int(value) else _number(value)


def _number(value: float | Decimal | Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _by_key(expected: dict[Any, Any], actual: dict[Any, Any]) -> list[tuple[Any, Any]] | None:
    """Pairs of values of the same key; None if the keys differ."""
    if len(expected) != len(actual):
        return None
    # Apart what == takes for one: True and 1.
    ours, theirs = ({(isinstance(k, bool), k): v for k, v in d.items()} for d in (expected, actual))
    if ours.keys() != theirs.keys() and all(isinstance(key, str) for key in expected):
        theirs = {(False, _json_key(key)): value for key, value in actual.items()}
    if ours.keys() != theirs.keys():
        return None
    return [(value, theirs[key]) for key, value in ours.items()]


def _json_key(key: Any) -> Any:
    """The string that json.dumps makes of a key."""
    if isinstance(key, (bool, int, float)) or key is None:
        return json.dumps(key)
    return key


def _unordered_values(expected: Any, actual: Any, rules: Rules) -> bool:
    collections = (*_SEQUENCES, *_SETS)
    if not isinstance(expected, collections) or not isinstance(actual, collections):
        return False

    def match(e: Any, a: Any) -> bool:
        return _compare_structure(e, a, rules) is not None

    shape = partial(_shape, rules=rules)
    return same_multiset(list(expected), list(actual), match, shape, rules.close)


def _shape(value: Any, numbers: list[float], rules: Rules) -> Any:
    """Equal for values that match but for their numbers, which are appended."""
    if isinstance(value, _SEQUENCES):
        return ("list", *(_shape(item, numbers, rules) for item in value))
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda pair: str(_json_key(pair[0])))
        items = [(str(_json_key(key)), _shape(item, numbers, rules)) for key, item in ordered]
        return ("dict", *items)
    if isinstance(value, _SETS):
        inner: list[float] = []
        shapes = Counter(_shape(item, inner, rules) for item in value)
        numbers.extend(sorted(inner))
        return ("set", frozenset(shapes.items()))
    if isinstance(value, (int, float, Decimal, Fraction)) and not isinstance(value, bool):
        number = value if isinstance(value, int) else _number(value)
        if number is None or number != number:
            return "nan"
        numbers.append(number)
        return "#"
    if isinstance(value, complex):
        return ("complex", *(_shape(part, numbers, rules) for part in (value.real, value.imag)))
    if isinstance(value, str) and rules.case_sensitive is False:
        return ("str", value.lower())
    return (type(value).__name__, bytes(value) if isinstance(value, bytearray) else value)


# What a program wrote ----------------------------------------------------------------------------


def compare_written(data: bytes, expected: Any, rules: Rules | None, text: bool) -> Comparison:
    """Compare what a program printed (``text``), or the encoded value that a function returned;
    without rules only see whether that can be decoded.
    """
    if text:
        return compare_text(expected, as_text(data), rules or Rules())
    try:
        actual = encoding.loads(data)
    except ValueError:
        return DAMAGED
    return compare_values(expected, actual, rules) if rules else Comparison("decoded")


DAMAGED = Comparison(None, "the returned value is damaged")


def as_text(data: bytes) -> str:
    """What was printed; bytes that are no text stay themselves."""
    return data.decode("utf-8", "surrogateescape")


def run_comparison(data: bytes, asked: bytes) -> bytes:
    """In a process of its own: strategy and reason, as JSON, for what a program wrote.

    ``asked`` is a line of JSON (whether the answer is text, the fields of the `Rules`) and the
    expected answer as a program would have written it.
    """
    line, _, own = asked.partition(b"\n")
    text, given = json.loads(line)
    rules = given and Rules(**given)
    expected: Any = own.decode("utf-8", "surrogatepass")
    if rules and not text:
        expected = encoding.loads(own)
    found = compare_written(data, expected, rules, text)
    return json.dumps([found.strategy, found.reason]).encode()
