"""What goes into the evaluator (submissions and tests) and what comes out (results)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mcbench.errors import UserError

Verdict = Literal["AC", "WA", "RE", "TLE", "MLE", "OLE", "IE"]
VERDICTS: tuple[Verdict, ...] = ("AC", "WA", "RE", "TLE", "MLE", "OLE", "IE")

# A checker is trusted code: checker(expected, actual) or checker(expected, actual, test) -> bool.
Checker = Callable[..., bool]


def check_tolerances(rtol: float | None, atol: float | None) -> None:
    """Refuse a tolerance that is negative or not finite with a UserError."""
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UserError(f"{name} must be a finite number >= 0, got {value!r}")


@dataclass(frozen=True)
class StdioTest:
    """Feed ``stdin`` to a program and compare what it prints with ``expected``.

    The options are the problem's own rules and default to `mcbench.evaluator.compare`'s:
    ``rtol`` and ``atol`` (relative and absolute tolerance), ``case_sensitive`` (None: only yes/no
    words ignore case; True: never; False: always), ``space_sensitive`` (white space must agree
    exactly, but for one newline at the end), ``any_order`` (lines, or the tokens of a single line,
    in any order), ``checker``.

    Raises:
        UserError: stdin or expected is not text, a tolerance is negative or not finite.
    """

    stdin: str
    expected: str
    rtol: float | None = None
    atol: float | None = None
    case_sensitive: bool | None = None
    space_sensitive: bool = False
    any_order: bool = False
    checker: Checker | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.stdin, str) or not isinstance(self.expected, str):
            raise UserError("StdioTest takes stdin and expected as str")
        check_tolerances(self.rtol, self.atol)


@dataclass(frozen=True)
class CallTest:
    """Call ``fn_name(*args)``, a method of ``class Solution`` or a plain function.

    ``expected`` is compared with the returned value or, for in-place problems, with the argument
    at position ``result_arg`` after the call. Every test gets fresh arguments. Arguments may be
    None, bool, int, float, str, bytes, list, tuple, set, frozenset and dict, nested.

    Raises:
        UserError: no function name, args is not a sequence, result_arg is out of range,
            a tolerance is negative or not finite.
    """

    fn_name: str
    args: Sequence[Any]
    expected: Any
    rtol: float | None = None
    atol: float | None = None
    any_order: bool = False
    checker: Checker | None = None
    result_arg: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.fn_name, str) or not self.fn_name.isidentifier():
            raise UserError(f"CallTest needs fn_name, a Python name, got {self.fn_name!r}")
        if not isinstance(self.args, (list, tuple)):
            raise UserError("CallTest takes args as a list or tuple of positional arguments")
        if self.result_arg is not None and self.result_arg not in range(len(self.args)):
            raise UserError(f"result_arg must be between 0 and {len(self.args) - 1}")
        check_tolerances(self.rtol, self.atol)


Test = StdioTest | CallTest


@dataclass(frozen=True)
class Submission:
    """A program, the tests it must pass and its limits per test.

    ``time_limit_s`` is CPU time (the wall limit is twice that plus one second, so that a loaded
    machine does not fail right programs); ``memory_limit_mb`` is peak resident memory in MiB.

    Raises:
        UserError: no tests, code that is not text, a limit that is not positive and finite.
    """

    code: str
    tests: Sequence[Test]
    time_limit_s: float = 2.0
    memory_limit_mb: float = 512

    def __post_init__(self) -> None:
        if not isinstance(self.code, str):
            raise UserError(f"Submission takes code as str, got {type(self.code).__name__}")
        if not self.tests:
            raise UserError("a submission needs at least one test: without one nothing is judged")
        for test in self.tests:
            if not isinstance(test, (StdioTest, CallTest)):
                raise UserError(f"tests are StdioTest or CallTest, got {type(test).__name__}")
        for name in ("time_limit_s", "memory_limit_mb"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not (math.isfinite(value) and value > 0):
                raise UserError(f"{name} must be a positive finite number, got {value!r}")


@dataclass(frozen=True)
class TestResult:
    """How one test ended: times in seconds, peak resident memory in MiB.

    ``strategy`` names the comparison that accepted (AC only); ``message`` says for people why
    the test was not accepted.
    """

    __test__ = False  # not a test class, whatever its name tells pytest

    verdict: Verdict
    time_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0
    strategy: str | None = None
    message: str = ""


@dataclass(frozen=True)
class Result:
    """The judged tests of one submission, in the order of its tests.

    With early exit the list ends at the first test that was not accepted.
    """

    tests: tuple[TestResult, ...]

    @property
    def verdicts(self) -> list[str]:
        """One verdict per judged test."""
        return [test.verdict for test in self.tests]

    @property
    def passed(self) -> bool:
        """Whether tests were judged and every one was accepted."""
        return bool(self.tests) and all(test.verdict == "AC" for test in self.tests)
