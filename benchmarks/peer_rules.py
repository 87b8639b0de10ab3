"""The comparison rules of three more published evaluators, to measure how they differ from ours.

Importing this module adds them to ``mcbench.evaluator.rule_sets.RULE_SETS``, so that
``Evaluator(rules="deepcoder")`` knows them. Written anew from what their code does with a program's
output, with their mistakes, as that module says of all of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from mcbench.evaluator.rule_sets import RULE_SETS, RuleSet


def _is_close(actual: float, expected: float) -> bool:
    """numpy.isclose with its defaults."""
    if not math.isfinite(expected):
        return actual == expected
    return abs(actual - expected) <= 1e-8 + 1e-5 * abs(expected)


def _all_close(actual: Iterable[str], expected: Iterable[str]) -> bool:
    """numpy.allclose of texts, False where one is no number."""
    try:
        a, e = ([float(text) for text in texts] for texts in (actual, expected))
    except ValueError:
        return False
    return len(a) == len(e) and all(map(_is_close, a, e))


# DeepCoder (rllm's TACO rules) -------------------------------------------------------------------
# github.com/rllm-org/rllm, rllm/rewards/code_utils/taco.py (of 2025)


def _deepcoder_text(expected: str, actual: str) -> bool:
    """The same but for words, or the same digits in some order.

    First stripped and token by token, where tokens that are not both numbers are never compared
    and numbers may differ by 1e-5; then the characters of the output against the lines expected,
    as numbers; then sets: the sets of characters of each word printed against the sets of words
    of each line expected. Known to be wrong: YES for NO, 100001 for 100000, 2112 for "1 2".
    """
    actual = actual.rstrip("\n")
    a, e = actual.strip(), expected.strip()
    if a == e or _all_close([a], [e]) or _tokens_forgiven(e, a):
        return True
    lines = [line.strip() for line in expected.split("\n") if line]
    if len(actual) == len(lines) and _all_close(actual, lines):
        return True
    printed = {frozenset(word) for word in actual.split()}
    wanted = {frozenset(line.split()) for line in lines}
    return printed == wanted or _rounded(printed) == _rounded(wanted) is not None


def _tokens_forgiven(expected: str, actual: str) -> bool:
    try:
        float(expected), float(actual)
    except ValueError:
        pass
    else:
        return False  # both numbers, and not close
    wanted, got = (
        [line.split() for line in text.split("\n") if line.strip()] for text in (expected, actual)
    )
    if list(map(len, wanted)) != list(map(len, got)):
        return False
    return all(
        w == g or _close_or_no_numbers(w, g)
        for ours, theirs in zip(wanted, got, strict=True)
        for w, g in zip(ours, theirs, strict=True)
    )


def _close_or_no_numbers(wanted: str, got: str) -> bool:
    try:
        return _is_close(float(got), float(wanted))
    except ValueError:
        return True


def _rounded(sets: set[frozenset[str]]) -> set[frozenset[float]] | None:
    """Every member as a number with three decimals; None where one is no number."""
    try:
        return {frozenset(round(float(text), 3) for text in members) for members in sets}
    except (ValueError, OverflowError):
        return None


def _taco_values(expected: Any, actual: Any) -> bool:
    """== after making a list of a tuple; the first item of an expected list does too.

    Keys of an expected dict are made integers where all can be. Known to be wrong: 1 passes for
    [1, 2], True for 1; floats are exact, nested tuples are refused. In their data the expected
    value often stands in a list of its own; here it stands for itself.
    """
    expected = _integer_keys(expected)
    items = [list(item) for item in actual] if _starts_with_tuple(actual) else None
    if isinstance(actual, tuple):
        actual = list(actual)
    if actual == expected:
        return True
    if not isinstance(expected, list) or not expected:
        return False
    return bool(actual == expected[0] or (items is not None and items == expected[0]))


def _starts_with_tuple(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], tuple)


def _integer_keys(expected: Any) -> Any:
    """A dict, or a list that starts with one, becomes a list of this one with integer keys."""
    first = expected[0] if isinstance(expected, list) and expected else expected
    if not isinstance(first, dict):
        return expected
    try:
        return [{int(key): value for key, value in first.items()}]
    except (TypeError, ValueError):
        return expected


# verl's prime_code -------------------------------------------------------------------------------
# github.com/volcengine/verl, verl/utils/reward_score/prime_code/testing_util.py


def _verl_text(expected: str, actual: str) -> bool:
    """Stripped text, then stripped lines without empty ones, then whole lines as floats.

    Known to be wrong: 100001.0 passes for 100000 (all lines of digits are exempt, one with a
    point is enough to lose that), "0.50 0.250" fails for "0.5 0.25", letter case counts.
    """
    printed = actual.splitlines()
    stripped = expected.strip()
    joined = "\n".join(printed).strip()
    if joined == stripped or "\n".join(line.strip() for line in printed).strip() == stripped:
        return True
    wanted = [line.strip() for line in expected.split("\n") if line]
    got = [line for line in printed if line]
    if wanted in (printed, got):
        return True
    if len(wanted) != len(got) or all(line.isdigit() for line in wanted + got):
        return False
    return _all_close(got, wanted)


def _verl_values(expected: Any, actual: Any) -> bool:
    """As DeepCoder's, and what JSON cannot express (sets, bytes, tuple keys) is refused."""
    json.dumps(actual)
    return _taco_values(expected, actual)


# SandboxFusion -----------------------------------------------------------------------------------
# github.com/bytedance/SandboxFusion, sandbox/utils/testing.py and, for values,
# sandbox/datasets/live_code_bench.py


def _sandbox_fusion_text(expected: str, actual: str) -> bool:
    """Stripped lines in lower case; a whole line that is one number within 1e-5 of its size.

    Known to be wrong: 200001 for 200000, abc for ABC; several floats in a line are exact text.
    """
    wanted, got = expected.strip().split("\n"), actual.strip().split("\n")
    if len(wanted) != len(got):
        return False
    return all(
        w == g or _relatively_close(w, g)
        for w, g in zip(map(_lower, wanted), map(_lower, got), strict=True)
    )


def _lower(line: str) -> str:
    return line.lower().strip()


def _relatively_close(wanted: str, got: str) -> bool:
    try:
        e, a = float(wanted), float(got)
    except ValueError:
        return False
    return abs(a - e) / max(abs(e), 1e-10) < 1e-5


PEERS = {
    "deepcoder": RuleSet("deepcoder", _deepcoder_text, _taco_values),
    "verl_prime": RuleSet("verl_prime", _verl_text, _verl_values),
    "sandbox_fusion": RuleSet("sandbox_fusion", _sandbox_fusion_text, _verl_values),
}
RULE_SETS |= PEERS
