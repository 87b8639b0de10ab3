"""What a program forged costs the trusted process little, whatever it is; and is never right."""

import itertools
import math
import os
import random
import sys
from collections import Counter, deque
from decimal import Decimal
from fractions import Fraction

import pytest

import mcbench.evaluator.judge
from mcbench.evaluator import CallTest, StdioTest
from mcbench.evaluator.encoding import dumps, loads
from tests.evaluator.forged import (
    BYTES,
    FAMILIES,
    MOST,
    SECONDS,
    TEXTS,
    cost,
    forged,
    forger,
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


@pytest.mark.parametrize("size", ALL_SIZES)
def test_a_forged_value_costs_little(size):
    for family in FAMILIES:
        insist(EXPECTED, forged(family, size))


@pytest.mark.parametrize("size", ALL_SIZES)
def test_a_long_text_costs_little(size):
    for piece in TEXTS.values():
        insist(TEXT_TESTS[:-1], piece * (size // len(piece)))


@pytest.mark.slow
def test_a_large_expected_value_costs_no_more_than_the_right_answer():
    expected = [[i, i + 0.5] for i in range(5000)]
    test = CallTest("f", [], expected)
    right = cost(test, dumps(expected))
    for family in FAMILIES:
        seconds, memory = cost(test, forged(family, MOST))
        assert seconds < BUSY * (right[0] + SECONDS), family
        assert memory < BUSY * right[1] + BYTES, family


def against(cases, tests, size):
    """Each case with every test; with one in turn at the largest size, where one takes a second."""
    if size == MOST:
        return zip(cases, itertools.cycle(tests), strict=False)
    return itertools.product(cases, tests)


@pytest.mark.parametrize(
    "size", [SIZES[0], *(pytest.param(size, marks=pytest.mark.slow) for size in (SIZES[1], MOST))]
)
def test_what_is_forged_is_wrong_whatever_it_does_to_the_comparison(size, evaluator):
    given = [
        forger(test, forged(family, size)) for family, test in against(FAMILIES, EXPECTED, size)
    ]
    for piece, test in against(TEXTS.values(), TEXT_TESTS, size):
        given.append(forger(test, piece * (size // len(piece))))
    for submission, result in zip(given, evaluator.evaluate(given), strict=True):
        assert result.verdicts == ["WA"], (submission.tests, result)


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


def fuzz(seed, count, evaluator):
    rng = random.Random(seed)
    given = []
    for expected, data in itertools.islice(results(rng), count):
        options = {
            "any_order": rng.random() < 0.2,
            "rtol": rng.choice((None, None, 1e-6)),
            "checker": refuse if rng.random() < 0.1 else None,
        }
        given.append((CallTest("f", [1], expected, **options), data))
    judged_by = evaluator.evaluate([forger(test, data) for test, data in given])
    for (test, data), result in zip(given, judged_by, strict=True):
        found = result.tests[0]
        assert found.verdict in ("AC", "WA") or not data, (test, data[:200], found)
        assert found.message.isprintable()
        if found.verdict == "AC" and not test.any_order:
            assert canonical(loads(data)) == canonical(test.expected), data
    assert sum(result.passed for result in judged_by) > count // 20


@pytest.mark.slow
def test_fuzzed_results_are_wrong_or_equal(evaluator):
    fuzz(0, 1500, evaluator)


# These give what they gave before, in half a minute: MCBENCH_FUZZED=100000 after a change.
FUZZED = int(os.environ.get("MCBENCH_FUZZED", "4000"))


@pytest.mark.slow
def test_many_fuzzed_results_are_wrong_or_equal(evaluator):
    fuzz(1, FUZZED, evaluator)


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


def test_honest_values_of_the_odd_kind_are_let_through(evaluator):
    powers = {2**i for i in range(2000)}  # of which many hash alike
    grid = [[i * j for j in range(300)] for i in range(300)]
    long = list(range(39_000))
    numbers = "\n".join(map(str, range(200_000)))
    given = []
    for expected, actual in [
        (powers, powers),
        ([1, 2.5] * 5000, [Decimal("1"), 2.5] * 5000),
        ([0.5] * 9000, [Fraction(1, 2)] * 9000),
        (grid, deque(map(deque, grid))),
        ([",[" * 20_000], (",[" * 20_000,)),
        ({str(i): i for i in range(9000)}, {i: i for i in range(9000)}),
        (range(50_000), list(range(50_000))),
        ("\x00" * 50_000, "\x00" * 50_000),
        ({Fraction(3**20_000, 7**10_000)}, {Fraction(3**20_000, 7**10_000)}),
        (Decimal("1E+99999"), Decimal("10E+99998")),
        ([10**6000, {10**7000: 1}], (10**6000, {10**7000: 1})),
    ]:
        given.append(forger(CallTest("f", [], expected), dumps(actual)))
    test = CallTest("f", [39_000], 39_000, checker=lambda n, found: len(found) == n)
    given.append(forger(test, dumps(long)))
    test = CallTest("f", [3], 3, checker=lambda n, found: found == {n: {n}})
    given.append(forger(test, dumps({3: {3}})))
    text = StdioTest("200000\n", "200000\n", checker=lambda n, t: len(t.split()) == int(n))
    given.append(forger(text, numbers.encode()))
    for submission, result in zip(given, evaluator.evaluate(given), strict=True):
        assert result.verdicts == ["AC"], (submission.tests, result)


def test_pairs_in_any_order_are_found_among_many(evaluator):
    rng = random.Random(0)
    wanted = [(float(rng.randrange(20)), rng.random()) for _ in range(600)]
    got = [(a + rng.uniform(-1, 1) * 1e-8, b) for a, b in wanted]
    rng.shuffle(got)
    test = CallTest("f", [], wanted, any_order=True)
    wrong = [(got[0][0], 2.0), *got[1:]]
    found = evaluator.evaluate([forger(test, dumps(each)) for each in (got, wrong)])
    assert [each.tests[0].strategy for each in found] == ["any_order", None]


def test_an_expected_answer_that_cannot_be_compared_is_at_fault_itself(evaluator, monkeypatch):
    # Without time nothing can be compared, but what is equal as it is.
    for name in ("_CPU_S", "_CPU_S_PER_MIB"):
        monkeypatch.setattr(mcbench.evaluator.judge, name, 0.0)
    test = CallTest("f", [], set(range(300_000)))
    backwards = b'["s",' + b",".join(b"%d" % i for i in range(299_999, -1, -1)) + b"]"
    equal, other = evaluator.evaluate([forger(test, dumps(test.expected)), forger(test, backwards)])
    assert equal.passed
    assert other.verdicts == ["IE"]
    assert other.tests[0].message.startswith("of the expected one, too, the answer cannot be")
