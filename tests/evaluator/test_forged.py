"""What a program forged costs the trusted process little, whatever it is; and is never right."""

import itertools
import math
import random
import sys
from collections import Counter, deque
from decimal import Decimal
from fractions import Fraction

import pytest

from mcbench.evaluator import CallTest, StdioTest
from mcbench.evaluator.encoding import dumps, loads, weight
from tests.evaluator.forged import (
    BYTES,
    FAMILIES,
    MOST,
    SECONDS,
    TEXTS,
    cost,
    forged,
    judged,
    results,
)

SIZES = [15 << 10, 370 << 10]
LARGE = [60 << 10, 2 << 20, MOST]
ALL_SIZES = [*SIZES, *(pytest.param(size, marks=pytest.mark.slow) for size in LARGE)]
BUSY = 3  # times the bound, on a machine that does other work


def refuse(expected, actual):
    return False


EXPECTED = [
    CallTest("f", [1], 7),
    CallTest("f", [1], [[1.5, 2], {3: "x"}] * 50, any_order=True),
    CallTest("f", [1], set(range(300)), rtol=0.1),
    CallTest("f", [1], 7, checker=refuse),
]
TEXT_TESTS = [
    StdioTest("", "7"),
    StdioTest("", "0.5 " * 100, rtol=0.1, any_order=True, case_sensitive=False),
    StdioTest("", "a\nb " * 100, any_order=True),
    StdioTest("", "7", checker=refuse),
]


def insist(tests, data):
    for test in tests:
        seconds, memory = cost(test, data)
        assert seconds < BUSY * SECONDS, test
        assert memory < BYTES, test
        assert judged(test, data)[0].verdict in ("WA", "RE")


@pytest.mark.parametrize("size", ALL_SIZES)
def test_a_forged_value_costs_little(size):
    for family in FAMILIES:
        insist(EXPECTED, forged(family, size))


@pytest.mark.parametrize("size", ALL_SIZES)
def test_a_long_text_costs_little(size):
    for piece in TEXTS.values():
        insist(TEXT_TESTS, piece * (size // len(piece)))


@pytest.mark.slow
def test_a_large_expected_value_lets_in_little_more():
    # In proportion to what the right answer costs, itself not a matter of milliseconds.
    expected = [[i, i + 0.5] for i in range(5000)]
    test = CallTest("f", [], expected)
    right = cost(test, dumps(expected))
    for family in FAMILIES:
        seconds, memory = cost(test, forged(family, MOST))
        assert seconds < BUSY * (right[0] + SECONDS), family
        assert memory < BUSY * right[1] + BYTES, family


def canonical(given):
    """Equal for values that are one answer."""
    if isinstance(given, (list, tuple, deque)):
        return "list", *map(canonical, given)
    if isinstance(given, (set, frozenset)):
        return "set", frozenset(Counter(map(canonical, given)).items())
    if isinstance(given, dict):
        scalars = (str, int, float, type(None))  # which may have become text
        keys = (str(key) if isinstance(key, scalars) else canonical(key) for key in given)
        pairs = zip(keys, map(canonical, given.values()), strict=True)
        return "dict", frozenset(Counter(pairs).items())
    if isinstance(given, (bool, str, bytes, type(None))):
        return type(given).__name__, given
    number = complex(given) + 0  # a zero's sign is no difference
    if number != number:
        return "nan"
    return f"{number:.4e}" if abs(number) > 1e-5 or not math.isfinite(abs(number)) else "0"


def fuzz(seed, count):
    rng = random.Random(seed)
    accepted = 0
    for expected, data in itertools.islice(results(rng), count):
        options = {
            "any_order": rng.random() < 0.2,
            "rtol": rng.choice((None, None, 1e-6)),
            "checker": refuse if rng.random() < 0.1 else None,
        }
        test = CallTest("f", [1], expected, **options)
        result, seconds = judged(test, data)
        assert result.verdict in ("AC", "WA", "RE")
        assert result.message.isprintable()
        if result.verdict == "AC" and not options["any_order"]:
            assert canonical(loads(data)) == canonical(expected), data
        accepted += result.verdict == "AC"
        if seconds > SECONDS or len(data) > 1 << 17:
            seconds, memory = cost(test, data)
            assert seconds < BUSY * SECONDS, (expected, data[:200])
            assert memory < BYTES, (expected, data[:200])
    assert accepted > count // 20


def test_fuzzed_results_are_judged_within_bounds():
    fuzz(0, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_fuzzed_results_are_judged_within_bounds(seed):
    fuzz(seed, 10_000)


@pytest.fixture
def lifted():
    """A host that has lifted the interpreter's own limits."""
    digits, frames = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(10**6)
    yield
    sys.set_int_max_str_digits(digits)
    sys.setrecursionlimit(frames)


def test_nothing_hangs_where_the_host_has_lifted_limits(lifted):
    lets_in = CallTest("f", [], [[0]] * 500)
    for family in FAMILIES:
        insist([EXPECTED[0], EXPECTED[3], lets_in], forged(family, SIZES[0]))
        insist([EXPECTED[0], EXPECTED[3]], forged(family, SIZES[1]))


def test_honest_values_of_the_odd_kind_are_let_through():
    powers = {2**i for i in range(2000)}  # of which many hash alike
    grid = [[i * j for j in range(300)] for i in range(300)]
    for expected, actual in [
        (powers, powers),
        ([1, 2.5] * 5000, [Decimal("1"), 2.5] * 5000),
        ([0.5] * 9000, [Fraction(1, 2)] * 9000),
        (grid, deque(map(deque, grid))),
        ([",[" * 20_000], (",[" * 20_000,)),
        ({str(i): i for i in range(9000)}, {i: i for i in range(9000)}),
        (range(50_000), list(range(50_000))),
        ("\x00" * 50_000, "\x00" * 50_000),
    ]:
        assert judged(CallTest("f", [], expected), dumps(actual))[0].verdict == "AC", expected
    long = list(range(39_000))
    test = CallTest("f", [39_000], 39_000, checker=lambda n, found: len(found) == n)
    assert judged(test, dumps(long))[0].verdict == "AC"
    text = StdioTest("200000\n", "200000\n", checker=lambda n, t: len(t.split()) == int(n))
    assert judged(text, "\n".join(map(str, range(200_000))).encode())[0].verdict == "AC"


def test_pairs_in_any_order_are_found_among_many():
    rng = random.Random(0)
    wanted = [(float(rng.randrange(20)), rng.random()) for _ in range(600)]
    got = [(a + rng.uniform(-1, 1) * 1e-8, b) for a, b in wanted]
    rng.shuffle(got)
    test = CallTest("f", [], wanted, any_order=True)
    assert judged(test, dumps(got))[0].strategy == "any_order"
    got[0] = got[0][0], 2.0
    assert judged(test, dumps(got))[0].verdict == "WA"


def test_weight_is_told_without_decoding():
    assert weight(b'["l",["l"],1,"a,["]') == (19, 3, 5)
