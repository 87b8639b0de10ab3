"""Whatever comes in: an answer or a UserError; no hang, no other exception, no lost sandbox."""

import contextlib
import random
import string
from typing import get_args

import pytest

from mcbench.errors import UserError
from mcbench.evaluator import (
    CallTest,
    CodeReward,
    Evaluator,
    StdioTest,
    Submission,
    extract_code,
    outputs_match,
)
from mcbench.evaluator.encoding import dumps, loads
from mcbench.evaluator.rule_sets import RULE_SETS
from mcbench.evaluator.submission import Verdict

LIMITS = {"time_limit_s": 0.3, "memory_limit_mb": 128}
FRAGMENTS = [
    *("def f(a):", "class Solution:", "print(", "input()", "import sys", "return a", "lambda: 0"),
    *("\n", "\n    ", "\t", ";", "#", "\\", "'''", '"', "f'{", "0x", "1e999", "[" * 300, ")" * 9),
    *("-" * 300, "a.b" * 200, "\0", "\x1a", "\ufeff", "\udcff", "\U0001f600", "# coding: utf-7\n"),
]
WORDS = [
    *("0", "-0", "1", "1.0", "1e5", "1e400", "-1e-400", "nan", "inf", "-Infinity", "0x10", "1_000"),
    *("YES", "no", "", " ", "\n", "\r\n", "\t", "\0", "\x0b\x1c\u2028\u3000", "٣", "½", "9" * 5000),
    *("[1, 2]", "{'a': 1}", "'x'", "\ud800", "é", "e\u0301", "1" + "0" * 400 + ".5", "(" * 2000),
]


def text(rng: random.Random) -> str:
    """Bytes as text, any characters, pieces of programs, or words a comparison knows."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(200)).decode("utf-8", "surrogateescape")
    if kind == 1:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(40)))
    pieces = FRAGMENTS if kind == 2 else WORDS
    return rng.choice(("", " ", "\n")).join(rng.choices(pieces, k=rng.randrange(12)))


def value(rng: random.Random, depth: int = 0) -> object:
    """Any value, also of types that cannot be sent, also deep, cyclic and equal to everything."""
    scalars = [
        *(None, True, False, 0, -1, 2**64, 10**5000, 1.5, -0.0, float("nan"), float("inf")),
        *(b"\0\xff", text(rng), "", 1j, range(3), object(), print, ValueError("x"), ...),
    ]
    kind = rng.randrange(9)
    if depth > 3 or kind < 4:
        return rng.choice(scalars)
    items = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 4:
        return tuple(items)
    if kind == 5:
        return {str(number): item for number, item in enumerate(items)}
    if kind == 6:
        return {rng.choice((1, "1", True, None, 1.0, (1, 2))): item for item in items}
    if kind == 7:
        return frozenset(item for item in items if item.__hash__ and not isinstance(item, tuple))
    if rng.random() < 0.2:
        items.append(items)
    return items


def options(rng: random.Random) -> dict[str, object]:
    """Some options of a test, sensible or not."""
    choices = {
        "rtol": (None, 0, 1e-6, 1.0, 1e308, -1, float("nan"), float("inf"), True, "1", 10**400),
        "atol": (None, 0.0, 1e-9, 5, -0.0, float("-inf"), [], 10**400),
        "case_sensitive": (None, True, False),
        "space_sensitive": (True, False),
        "any_order": (True, False),
        "checker": (None, None, lambda e, a: a == e, lambda e: True, lambda *_: 1 / 0, len, 3),
    }
    names = rng.sample(sorted(choices), rng.randrange(3))
    return {name: rng.choice(choices[name]) for name in names}


def submission(rng: random.Random) -> Submission:
    code = text(rng)
    tests: list[StdioTest | CallTest] = []
    for _ in range(rng.randint(1, 2)):
        if rng.random() < 0.5:
            tests.append(StdioTest(text(rng), text(rng), **options(rng)))
        else:
            chosen = {k: v for k, v in options(rng).items() if k in ("rtol", "atol", "any_order")}
            args = [value(rng) for _ in range(rng.randrange(3))]
            tests.append(CallTest(rng.choice(("f", "g", "__init__")), args, value(rng), **chosen))
            if rng.random() < 0.5:
                code = "def f(*args): return " + rng.choice(("args", "args[0]", "[args] * 9", "f"))
    return Submission(code, tests, **LIMITS)


@pytest.mark.parametrize("seed", range(6))
def test_any_program_input_and_output(seed, evaluator):
    rng = random.Random(seed)
    refused = 0
    for _ in range(25):
        try:
            given = submission(rng)
            result = evaluator.evaluate([given])[0]
        except UserError:
            refused += 1
            continue
        assert len(result.tests) == len(given.tests)
        assert set(result.verdicts) <= set(get_args(Verdict)) - {"IE"}, (given, result)
    assert refused < 20
    honest = Submission(f"print(int(input()) + 1) # {seed}", [StdioTest("1\n", "2\n")])
    assert evaluator.evaluate([honest])[0].passed


def test_any_bytes_as_a_program_in_one_call(evaluator):
    rng = random.Random(0)
    codes = [rng.randbytes(rng.randrange(300)).decode("latin-1") for _ in range(100)]
    codes += [text(rng) for _ in range(100)]
    given = [
        Submission(code, [StdioTest("", "no program prints this")], **LIMITS) for code in codes
    ]
    verdicts = [result.verdicts[0] for result in evaluator.evaluate(given)]
    assert set(verdicts) <= {"WA", "RE", "TLE"}


@pytest.mark.parametrize("rules", sorted(RULE_SETS))
def test_any_two_texts_and_values_are_compared(rules):
    rng = random.Random(1)
    answers = set()
    for _ in range(300):
        draw = rng.choice((text, value))
        expected = draw(rng)
        actual = rng.choice((draw(rng), expected))
        try:
            answers.add(outputs_match(expected, actual, rules=rules, **options(rng)))
        except UserError:
            continue
    assert answers == {True, False}


def test_any_value_is_sent_or_refused():
    rng = random.Random(2)
    for _ in range(500):
        given = value(rng)
        try:
            data = dumps(given)
        except TypeError:
            continue
        assert repr_or_type(loads(data)) == repr_or_type(given)


def repr_or_type(given: object) -> object:
    try:
        return sorted(repr(given))  # sets have no order
    except ValueError:  # too many digits
        return type(given)


def test_any_bytes_as_an_encoded_value():
    rng = random.Random(3)
    pieces = ["[", "]", '"l"', '"d"', '"i"', '"f"', '"b"', ",", "1", "{", "}", ":", "nan", "-" * 9]
    for _ in range(2000):
        data = "".join(rng.choices(pieces, k=rng.randrange(12))).encode()
        with contextlib.suppress(ValueError):
            loads(rng.choice((data, rng.randbytes(20), b"[" * 100_000)))


def test_any_response_and_columns(evaluator):
    rng = random.Random(4)
    reward = CodeReward(evaluator, time_limit_s=0.3)
    scored = 0
    for _ in range(60):
        response = rng.choice(("```", "~~~", "")).join(text(rng) for _ in range(3)) + "\n```\n"
        assert extract_code(response) is None or isinstance(extract_code(response), str)
        tests = rng.choice(('[{"stdin": "", "expected": "1"}]', '[{"args": [1], "expected": 1}]'))
        columns = {
            "tests": [rng.choice((*[tests] * 8, text(rng), "[]", "{}", "[1]", "null", None))],
            "form": [rng.choice((*["stdin", "call"] * 4, text(rng)))],
            "fn_name": [rng.choice((*["f"] * 8, None, text(rng)))],
        }
        completion = rng.choice((response, [{"role": "assistant", "content": response}], [], {}))
        try:
            (score,) = reward(["prompt"], [completion], **columns)
        except UserError:
            continue
        assert score == 0.0
        scored += 1
    assert scored > 5


@pytest.mark.parametrize("seed", range(3))
def test_any_settings(seed):
    rng = random.Random(seed)
    odd = [None, 0, -1, 1.5, "2", True, [], float("nan"), float("inf"), 10**400, b"", object()]
    makers = [
        lambda: Submission(rng.choice(odd), [StdioTest("", "")]),
        lambda: Submission("", rng.choice((*odd, [rng.choice(odd)]))),
        lambda: Submission("", [StdioTest("", "")], time_limit_s=rng.choice(odd)),
        lambda: Submission("", [StdioTest("", "")], memory_limit_mb=rng.choice(odd)),
        lambda: StdioTest(rng.choice(odd), "".join(rng.choices(string.printable, k=5))),
        lambda: StdioTest("", "", **options(rng)),
        lambda: CallTest(rng.choice((*odd, "f", "f.g", "é", "lambda")), rng.choice(odd), 1),
        lambda: CallTest("f", [1], 1, result_arg=rng.choice(odd)),
        lambda: Evaluator(workers=rng.choice((None, 0, -1, 1.5, "2", True, []))),
        lambda: Evaluator(output_limit_mb=rng.choice((None, 0, -1, 1.5, "2", 10**9, []))),
        lambda: Evaluator(rules=rng.choice((None, 0, "", "x", b"microcoder", []))),
    ]
    for make in makers * 12:
        with contextlib.suppress(UserError):
            make()
