"""Labelled comparison cases: right answers in other clothes, and wrong answers that look alike."""

import math
import random
import re
from fractions import Fraction
from itertools import count, permutations, zip_longest

import numpy as np
import pytest

from mcbench.errors import UserError
from mcbench.evaluator import outputs_match
from mcbench.evaluator.compare import Rules, compare_text, compare_values

# strategy that must accept, expected, actual, options
ACCEPTED = [
    ("exact", "1 2\n", "1 2\n", {}),
    ("exact", "", "", {}),
    ("lines", "1 2\n", "1 2", {}),
    ("lines", "1 2", "1 2\n\n\n", {}),
    ("lines", "a \nb", "a\nb  \n", {}),
    ("lines", "a\nb\n", "a\r\nb\r\n", {}),
    ("tokens", "1 2 3", "1  2\t3", {}),
    ("tokens", "1 2 3", "1\n2\n3\n", {}),
    ("tokens", "1\n\n2", "1\n2", {}),
    ("tokens", "x", "  x", {}),
    ("numeric", "0.333333333333", "0.3333333333333333", {}),
    ("numeric", "0.5 0.25", "0.50 0.250", {}),
    ("numeric", "3.0", "3", {}),
    ("numeric", "1e-3", "0.001", {}),
    ("numeric", "-0.0", "0", {}),
    ("numeric", "1000000.5", "1000000.9", {}),
    ("numeric", "2 0.5", "2 .5", {}),
    ("numeric", "nan", "NaN", {}),
    ("numeric", "inf", "Infinity", {}),
    ("numeric", "-inf", "-Infinity", {}),
    ("numeric", "0.1", "0.12", {"atol": 0.05}),
    ("numeric", "100.0", "104.0", {"rtol": 0.05}),
    ("numeric", "1", "1.0000001", {"atol": 1e-6}),
    ("numeric", "100", "105", {"rtol": 0.1}),
    ("numeric", "100000", "100001", {"rtol": 1e-2}),
    ("words", "100 Yes", "105 YES", {"rtol": 0.1}),
    ("any_order", "100 7", "7 105", {"rtol": 0.1, "any_order": True}),
    # Where an expected number is not whole, the others are real numbers, too.
    ("numeric", "0.5 1", "0.5 1.0", {}),
    ("numeric", "0.5\n-3 0", "0.50\n-3.000 0.0", {}),
    ("numeric", "1", "1.0", {"real": True}),
    ("numeric", "0.5 10000000000000000 0 -0", "0.5 1e+16 -0.0 0", {}),  # as Python prints them
    ("numeric", "100000 0.5", "100000 0.50001", {"rtol": 1e-4}),
    # A float has no more digits than that.
    ("numeric", "1.2345678901234567e+19", "12345678901234567890", {}),
    ("numeric", "12345678901234567000.0", "12345678901234567890", {"rtol": None}),
    ("words", "YES", "Yes", {}),
    ("words", "no\nYES\n", "NO\nyes", {}),
    ("words", "YES 0.5", "yes 0.50", {}),
    ("words", "Impossible", "IMPOSSIBLE", {"case_sensitive": False}),
    ("any_order", "a\nb\nc", "c\na\nb\n", {"any_order": True}),
    ("any_order", "1 2 2", "2 1 2", {"any_order": True}),
    ("any_order", "0.5\n1", "1\n0.50", {"any_order": True}),
    ("exact", "a  b", "a  b", {"space_sensitive": True}),
    ("lines", "a  b", "a  b\n", {"space_sensitive": True}),
    ("numeric", "a  0.50", "a  0.5", {"space_sensitive": True}),
    ("numeric", "2000000.0", "2000000", {}),
    ("numeric", "1e6", "1000000", {}),
    ("numeric", "2000000.0", "2000000.5", {}),
    ("numeric", "2000000.0", "2000001", {"rtol": 1e-6}),
    ("numeric", "0." + "3" * 1000, "0.333333333333", {}),
    ("tokens", "a\u00a0b c", "a\u00a0b\n\nc", {}),
]

REJECTED = [
    ("100000", "100001", {}),
    ("100000", "100001", {"rtol": 1e-6}),
    ("100000", "100000.5", {}),
    ("100 a", "105 A", {"rtol": 0.1}),
    ("100 7", "105  7", {"rtol": 0.1, "space_sensitive": True}),
    ("5", "5.0", {}),
    ("0.5 1", "0.5 1.00001", {}),
    ("0.5 5", "0.5 5.", {}),
    ("2.0 5", "2 5.0", {}),
    ("1", "1e0", {"real": True}),
    ("1 5", "1 --5", {"real": True}),
    ("0.5 10000000000000000", "0.5 1.0000000000000002e+16", {}),
    ("100000 0.5", "100001 0.5", {"rtol": 1e-4}),
    ("1.2345678901234567e+19", "12345678901234569999", {}),
    ("5", "05", {}),
    ("1000", "1_000", {}),
    ("1000", "1e3", {}),
    ("100000.0", "100001.0", {}),
    ("0.5", "0.5001", {}),
    ("0.5", "0.5 ", {"space_sensitive": True}),
    ("0.5", "1/2", {}),
    ("0.5", "nan", {}),
    ("0.5", "inf", {}),
    ("nan", "0.0", {}),
    ("inf", "-inf", {}),
    ("1e400", "2e400", {}),
    ("1 2", "12", {}),
    ("12", "1 2", {}),
    ("2 1", "1 2", {}),
    ("1 2", "2112", {}),
    ("1\n2", "1", {}),
    ("1", "1\n2", {}),
    ("1", "", {}),
    ("", "1", {}),
    ("YES", "NO", {}),
    ("YES", "yes", {"case_sensitive": True}),
    ("YES", "YESYES", {}),
    ("abc", "ABC", {}),
    ("True", "true", {}),
    ("True", "1", {}),
    ("abc", "cab", {}),
    ("a b", "b a", {}),
    ("a\nb", "a\na", {"any_order": True}),
    ("1 2", "1 2 2", {"any_order": True}),
    ("a b\nc", "b\na c", {"any_order": True}),
    ("a b", "a  b", {"space_sensitive": True}),
    ("a b", "a b\n\n", {"space_sensitive": True}),
    ("a b", " a b", {"space_sensitive": True}),
    ("a b", "a\nb", {"space_sensitive": True}),
    ("0.12345", "0.12344", {"atol": 0.0, "rtol": 0.0}),
    ("x" * 10, "x" * 9, {}),
    ("１２", "12", {}),
    ("12", "12" + " " * 10**6, {}),
    ("1 2", "ab\n" * 10**6, {}),
    ("2000000.0", "2000001", {}),
    ("1e6", "1000001", {}),
    ("9007199254740993.0", "9007199254740992", {}),
    ("1 2", "1\u00a02", {}),
    ("1 2", "1\x1c2", {}),
    ("a\u00a0b", "a b", {}),
    ("YES", "ye\u017f", {}),  # long s, whose upper case is S
    ("kg", "\u212ag", {"case_sensitive": False}),  # the sign of kelvin
    ("Straße", "STRASSE", {"case_sensitive": False}),
    ("INF", "inf", {}),
]

VALUES_ACCEPTED = [
    ("exact", [1, 2], [1, 2], {}),
    ("exact", None, None, {}),
    ("exact", {"a": [1]}, {"a": [1]}, {}),
    ("structure", [1, 2], (1, 2), {}),
    ("structure", [[1], [2]], [(1,), (2,)], {}),
    ("structure", {"a": (1,)}, {"a": [1]}, {}),
    ("structure", {"1": 2, "3": 4}, {1: 2, 3: 4}, {}),
    ("structure", {"true": 1, "null": 2}, {True: 1, None: 2}, {}),
    ("structure", 0.3, 0.1 + 0.2, {}),
    ("structure", [0.5, [1.5]], [0.5000000001, (1.5,)], {}),
    ("structure", 2.0, 2, {}),
    ("structure", 2, 2.0, {}),
    ("structure", 1.2345678901234567e19, 12345678901234567890, {}),
    ("structure", [1e22, {"a": 2.0**60}], (10**22, {"a": 2**60 + 1}), {}),
    ("structure", math.nan, math.nan, {}),
    ("exact", {1, 2}, {2, 1}, {}),
    ("exact", 10**5000, 10**5000, {}),
    ("any_order", [3, 1, 2], [1, 2, 3], {"any_order": True}),
    ("any_order", [[1], [2]], [(2,), (1,)], {"any_order": True}),
    ("any_order", [1, 2], {1, 2}, {"any_order": True}),
    ("structure", ["abc"], ["ABC"], {"case_sensitive": False}),
    ("structure", 2000000.0, 2000001, {"rtol": 1e-6}),
    ("structure", 100, 105, {"rtol": 0.1}),
    ("structure", [[100], (7,)], [[105], [7]], {"rtol": 0.1}),
    ("structure", 10**5000, 10**5000 + 1, {"atol": 1}),
    ("structure", [0.1 + 1j], [0.1 + (1 + 1e-9) * 1j], {}),
    ("any_order", [1j, 0.1 + 0.2 + 2j], [0.3 + 2j, 1j], {"any_order": True}),
]

VALUES_REJECTED = [
    (1, True, {}),
    (True, 1, {}),
    ([1, 0], [True, False], {}),
    ({1}, {True}, {}),
    ({1: 0}, {True: 0}, {}),
    (2.0**53 - 1, 2**53, {}),
    (1.2345678901234567e19, 12345678901234569999, {}),
    (1, "1", {}),
    ("1", 1, {}),
    ("a", "a ", {}),
    ("YES", "yes", {}),
    (None, 0, {}),
    (None, [], {}),
    ([], {}, {}),
    ([1, 2], {1, 2}, {}),
    ([1, 2], [2, 1], {}),
    ([1, 2], [1, 2, 3], {}),
    ([1, 1, 2], [1, 2, 2], {"any_order": True}),
    ([[1, 2]], [[2, 1]], {"any_order": True}),
    (100000, 100001, {}),
    (100000, 100002, {"atol": 1}),
    (1, True, {"atol": 1}),
    (10**5000, 10**5000 + 2, {"atol": 1}),
    (100000, 100000.5, {}),
    (0.5, 0.6, {}),
    (0.5, math.nan, {}),
    (math.inf, 10**400, {}),
    (0.5, True, {}),
    (2000000.0, 2000001, {}),
    ("abc", "ABC", {}),
    ({"1": 2}, {1: 3}, {}),
    ({"a": 1}, {"a": 1, "b": 2}, {}),
    ({"1": 0}, {1: 0, "1": 0}, {}),
    (10**5000, 10**5000 + 1, {}),
    ("abc", ["a", "b", "c"], {}),
    (b"a", "a", {}),
]


@pytest.mark.parametrize(("strategy", "expected", "actual", "options"), ACCEPTED)
def test_text_accepted(strategy, expected, actual, options):
    assert compare_text(expected, actual, Rules(**options)).strategy == strategy
    assert outputs_match(expected, actual, **options)


@pytest.mark.parametrize(("expected", "actual", "options"), REJECTED, ids=count())
def test_text_rejected(expected, actual, options):
    assert not outputs_match(expected, actual, **options)
    assert compare_text(expected, actual, Rules(**options)).reason


@pytest.mark.parametrize(
    ("strategy", "expected", "actual", "options"), VALUES_ACCEPTED, ids=count()
)
def test_value_accepted(strategy, expected, actual, options):
    assert compare_values(expected, actual, Rules(**options)).strategy == strategy


@pytest.mark.parametrize(("expected", "actual", "options"), VALUES_REJECTED, ids=count())
def test_value_rejected(expected, actual, options):
    assert not compare_values(expected, actual, Rules(**options)).accepted


def test_reason_names_the_first_difference():
    def reason(expected, actual, **options):
        return compare_text(expected, actual, Rules(**options)).reason

    assert reason("1 2 3", "1 5 3") == "line 1, token 2: expected '2', got '5'"
    assert reason("yes\n1 2", "YES\n\n1 3\n") == "line 3, token 3: expected '2', got '3'"
    assert reason("1 2", "1\n") == "expected 2 tokens, got 1"
    assert reason("1", "1\n\n2") == "line 3, token 2: expected the output to end, got '2'"
    # What looks alike is told apart.
    assert reason("caf\u00e9", "cafe\u0301") == (
        "line 1, token 1: from character 4 on: expected '\\xe9', got 'e\\u0301'"
    )
    assert reason("\u0041b", "\uff21b").endswith("expected 'Ab', got '\\uff21b'")
    long = "a" * 40
    assert "from character 41 on: expected 'xa" in reason(f"{long}x{long}", f"{long}y{long}")
    assert "expected 'aaa" in reason(2 * long, 2 * long + "y")
    assert compare_values([2 * long], [3 * long], Rules()).reason.endswith(
        "that differs beyond that"
    )
    assert "in any order" in reason("1 2", "1 3", any_order=True)


def test_nothing_but_the_checker_decides():
    assert outputs_match("4", "2 2", checker=lambda e, a: sum(map(int, a.split())) == int(e))
    assert outputs_match(2, -2, checker=lambda e, a: abs(a) == e)
    assert not outputs_match("4", "x", checker=lambda e, a: int(e) == int(a))  # it raises
    assert not outputs_match("4", "4", checker=lambda e, a: False)


def test_a_checker_gets_the_test_only_if_it_asks_for_it():
    assert outputs_match(2, 2, checker=lambda e, a, test: test is None)
    assert outputs_match("1", "1", checker=lambda e, a, digits=3: digits == 3)
    assert not outputs_match("1", "1", checker=lambda e, a, test=1: test == 1)
    assert not outputs_match("1", "1", checker=lambda e, a: np.array([1, 1]))  # has no truth value


async def waits(expected, actual):
    return False


def exits(expected, actual):
    raise SystemExit(0)


ACCEPTING = [True, np.True_, 1, 1.0, np.float64(1), re.match("", "")]
REFUSING = [0.5, math.nan, -1, None, "False", (False, "no"), NotImplemented]


@pytest.mark.parametrize("found", [*ACCEPTING, *REFUSING])
def test_a_checker_accepts_by_what_is_right_or_a_score_of_one(found):
    wanted = any(found is one for one in ACCEPTING)
    assert outputs_match("1", "1", checker=lambda e, a: found) is wanted


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("checker", [waits, exits])
def test_nor_does_one_that_says_nothing(checker):
    assert not outputs_match("1", "1", checker=checker)


def test_unordered_numbers_are_paired_as_well_as_they_can_be():
    options = {"any_order": True, "atol": 0.1}
    assert outputs_match("0.0 0.1", "0.1 0.2", **options)
    assert not outputs_match("0.0 0.1", "0.2 0.3", **options)
    assert outputs_match("1.05 2.0\n1.0 7.0", "1.04 7.0\n1.06 2.0", **options)  # crosswise
    assert not outputs_match("1.05 2.0\n1.0 7.0", "1.04 7.0\n1.06 7.0", **options)
    assert outputs_match([[0.0], [0.1]], [[0.2], [0.1]], **options)
    assert outputs_match([math.nan, 1.0], [1.0, math.nan], any_order=True)
    assert outputs_match([{"1": 0.5}, {"2": 0.5}], [{2: 0.5}, {1: 0.5}], any_order=True)
    assert outputs_match([{1, 2}, {3}], [{3}, {2, 1}], any_order=True)


def test_pairs_of_numbers_are_paired_if_any_order_pairs_them():
    rng = random.Random(5)
    found = 0
    for _ in range(300):
        wanted = [(rng.randrange(4), rng.randrange(4)) for _ in range(4)]
        got = [(a + rng.randrange(-1, 2), b + rng.randrange(-1, 2)) for a, b in wanted]
        got[0] = rng.randrange(4), rng.randrange(4)
        right = any(
            all(
                abs(e[0] - a[0]) <= 1 and abs(e[1] - a[1]) <= 1
                for e, a in zip(wanted, order, strict=True)
            )
            for order in permutations(got)
        )
        assert outputs_match(wanted, got, any_order=True, atol=1) == right
        found += right
    assert 50 < found < 290


def test_hostile_sizes_cost_little():
    many = "1 " * 10**5
    assert outputs_match(many, "1\n" * 10**5)
    assert not outputs_match(many, many + "x")
    assert outputs_match(many + "2", "2 " + many, any_order=True)
    assert not outputs_match("0.5 " * 10**5, ("1" * 400 + "x ") * 5000, any_order=True)
    lines = [f"{i}.5 {i}" for i in range(10**4)]
    others = [f"{i}.50 {i}" for i in range(10**4)]
    assert outputs_match("\n".join(lines), "\n".join(reversed(others)), any_order=True)
    assert not outputs_match("0.5", "9" * 10**7)
    assert not outputs_match([[1]], [[0]] * 10**5)


def test_values_that_are_deep_or_contain_themselves():
    deep, other = [], ()
    for _ in range(5000):
        deep, other = [deep], (other,)
    assert outputs_match(deep, other)
    assert not outputs_match(deep, [other])
    ring, loop = [1], [1]
    ring.append(ring)
    loop.append(loop)
    assert outputs_match(ring, loop)
    assert not outputs_match(ring, [2, loop])
    twice = shared = []
    for _ in range(200):
        twice, shared = [twice, twice], (shared, shared)
    assert outputs_match(twice, shared)


def test_agrees_with_a_naive_judge_on_random_outputs():
    rng = random.Random(3)
    words = [
        "1",
        "01",
        "2",
        "12",
        "0.5",
        ".50",
        "0.500001",
        "0.6",
        "1.0",
        "yes",
        "YES",
        "Yes",
        "no",
    ]
    spaces = [" ", "\n", "  ", "\n\n", "\t", "\r\n"]
    accepted = 0
    for _ in range(3000):
        wanted = [rng.choice(words) for _ in range(rng.randrange(4))]
        got = [w if rng.random() < 0.6 else rng.choice(words) for w in wanted]
        got += ["1"] * (rng.random() < 0.05)
        expected = " ".join(wanted)
        actual = "".join(word + rng.choice(spaces) for word in got)
        if any("." in w and Fraction(w).denominator > 1 for w in wanted):  # real numbers
            got = [g[:-2] if g == "1.0" == f"{w}.0" else g for w, g in zip_longest(wanted, got)]
        right = len(wanted) == len(got) and all(map(naive_token_match, wanted, got))
        assert outputs_match(expected, actual) == right, (expected, actual)
        accepted += right
    assert 500 < accepted < 2500


def test_whole_numbers_agree_with_exact_arithmetic_under_a_stated_tolerance():
    rng = random.Random(4)
    accepted = 0
    for _ in range(2000):
        size = 10 ** rng.choice((1, 3, 20, 400))
        expected = rng.randrange(-size, size)
        actual = expected + rng.randrange(-size // 5 - 1, size // 5 + 1)
        rtol, atol = rng.choice((None, 0, 0.1, 0.3, 1e-6)), rng.choice((0, 1, 0.5, 7))
        limit = max(Fraction(str(rtol or 0)) * abs(expected), Fraction(str(atol)))
        right = abs(expected - actual) <= limit
        options = {"rtol": rtol, "atol": atol}
        assert outputs_match(str(expected), str(actual), **options) == right
        assert outputs_match([expected], (actual,), **options) == right
        accepted += right
    assert 200 < accepted < 1800


def naive_token_match(wanted: str, got: str) -> bool:
    if wanted.upper() in ("YES", "NO"):
        return wanted.upper() == got.upper()
    if "." not in wanted:
        return wanted == got
    try:
        number, answer = Fraction(wanted), Fraction(got)
    except ValueError:
        return False
    if "." not in got and number.denominator == 1:
        return number == answer
    return abs(number - answer) <= Fraction(1, 10**6) * max(1, abs(number))


def test_unknown_option_is_named():
    with pytest.raises(UserError, match="'fuzzy'; allowed: any_order, atol"):
        outputs_match("1", "1", fuzzy=True)
    with pytest.raises(UserError, match="atol must be a finite number >= 0"):
        outputs_match("1.5", "2.5", atol=-1)
