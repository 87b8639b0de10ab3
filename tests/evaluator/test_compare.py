"""Labelled comparison cases: right answers in other clothes, and wrong answers that look alike."""

import math
from itertools import count

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
    ("checker", "4", "2 2", {"checker": lambda e, a: sum(map(int, a.split())) == int(e)}),
]

REJECTED = [
    ("100000", "100001", {}),
    ("100000", "100001", {"rtol": 1e-2}),
    ("100000", "100000.5", {}),
    ("5", "5.0", {}),
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
    ("4", "x", {"checker": lambda e, a: int(e) == int(a)}),  # a checker that raises
    ("4", "4", {"checker": lambda e, a: False}),
    ("0.12345", "0.12344", {"atol": 0.0, "rtol": 0.0}),
    ("x" * 10, "x" * 9, {}),
    ("１２", "12", {}),
    ("12", "12" + " " * 10**6, {}),
    ("1 2", "ab\n" * 10**6, {}),
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
    ("structure", math.nan, math.nan, {}),
    ("exact", {1, 2}, {2, 1}, {}),
    ("exact", 10**5000, 10**5000, {}),
    ("any_order", [3, 1, 2], [1, 2, 3], {"any_order": True}),
    ("any_order", [[1], [2]], [(2,), (1,)], {"any_order": True}),
    ("any_order", [1, 2], {1, 2}, {"any_order": True}),
    ("checker", 2, -2, {"checker": lambda e, a: abs(a) == e}),
    ("checker", 2, 2, {"checker": lambda e, a, test: test is None}),
]

VALUES_REJECTED = [
    (1, True, {}),
    (True, 1, {}),
    ([1, 0], [True, False], {}),
    ({1}, {True}, {}),
    ({1: 0}, {True: 0}, {}),
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
    (100000, 100000.5, {}),
    (0.5, 0.6, {}),
    (0.5, math.nan, {}),
    (math.inf, 10**400, {}),
    (0.5, True, {}),
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


def test_reason_names_the_first_differing_token():
    reason = compare_text("1 2 3", "1 5 3", Rules()).reason
    assert reason == "token 2: expected '2', got '5'"


def test_unknown_option_is_named():
    with pytest.raises(UserError, match="'fuzzy'; allowed: any_order, atol"):
        outputs_match("1", "1", fuzzy=True)
    with pytest.raises(UserError, match="atol must be a finite number >= 0"):
        outputs_match("1.5", "2.5", atol=-1)
