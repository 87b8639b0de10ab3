"""What goes into the evaluator (submissions and tests) and what comes out (results)."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from typing import Any, Literal

from mcbench.errors import UserError, unknown
from mcbench.evaluator.wording import printable, short

Verdict = Literal["AC", "WA", "RE", "TLE", "MLE", "OLE", "IE"]

# A function is trusted code: checker(expected, actual) or checker(expected, actual, test) -> bool.
Checker = Callable[..., bool]


def require(fits: object, needed: str, given: object) -> None:
    """Refuse what does not fit, with a UserError that says what is needed and what was given."""
    if not fits:
        raise UserError(f"{needed}, got {short(given)}")


@dataclass(frozen=True)
class CheckerProgram:
    """A problem's own judge of what a program printed: foreign Python, run in a sandbox.

    It gets input, expected answer and printed output as files, by its ``protocol``:
    ``score`` (open-r1's Codeforces): ``checker.py INPUT ANSWER OUTPUT`` prints a score, 1 or more
    (or a word such as "true") for right; ``icpc`` (Kattis): ``checker.py INPUT ANSWER FEEDBACK_DIR
    [args]`` reads the output as standard input and ends with status 42 for right, 43 for wrong.

    Raises:
        UserError: an unknown protocol, or code that is not Python.
    """

    code: str
    protocol: str = "score"
    args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.protocol not in CHECKER_PROTOCOLS:
            raise unknown("checker protocol", self.protocol, CHECKER_PROTOCOLS)
        check_python("checker", self.code)


CHECKER_PROTOCOLS = ("score", "icpc")


@lru_cache(maxsize=4096)
def check_python(what: str, code: str) -> None:
    """Refuse a problem's own code that is not Python, with a UserError that names the line."""
    if not code:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an odd escape in somebody's test
            compile(code.removeprefix(BYTE_ORDER_MARK), what, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"the {what} is not Python: {error}") from None


BYTE_ORDER_MARK = "\ufeff"
MAX_TIME_S = 86_400
MAX_MEMORY_MB = 1 << 20


def is_number(value: Any) -> bool:
    """Whether a value is a finite int or float, and no bool; an integer that a float holds."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return known and abs(value) <= sys.float_info.max


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def check_rules(rules: Any, checker: Any) -> None:
    """Refuse tolerances that are negative or not finite, and a checker that cannot be called."""
    for name in ("rtol", "atol"):
        value = getattr(rules, name)
        fits = value is None or (is_number(value) and value >= 0)
        require(fits, f"{name} must be a finite number >= 0", value)
    require(checker is None or callable(checker), "checker must be a function", checker)


@dataclass(frozen=True)
class StdioTest:
    """Feed ``stdin`` to a program and compare what it prints with ``expected``.

    The options are the problem's own rules and default to `mcbench.evaluator.compare`'s:
    ``rtol`` and ``atol`` (relative and absolute tolerance, of whole numbers too),
    ``case_sensitive`` (None: only yes/no words ignore case; True: never; False: always),
    ``space_sensitive`` (white space must agree exactly, but for one newline at the end),
    ``any_order`` (lines, or the tokens of a single line, in any order), ``checker`` (a function, or
    a `CheckerProgram`, which runs in a sandbox after the program). ``keep_output`` returns what
    was printed as `TestResult.output`: a function that remembers what it was shown does so where it
    runs, which may be another machine.

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
    checker: Checker | CheckerProgram | None = None
    keep_output: bool = False

    def __post_init__(self) -> None:
        for text in (self.stdin, self.expected):
            require(isinstance(text, str), "StdioTest takes stdin and expected as str", text)
        try:
            self.stdin.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise UserError(f"stdin is not text that a program could read: {error}") from None
        check_rules(self, None if isinstance(self.checker, CheckerProgram) else self.checker)


@dataclass(frozen=True)
class CallTest:
    """Call ``fn_name(*args)``, a method of ``class Solution`` or a plain function.

    ``expected`` is compared with the returned value or, for in-place problems, with the argument
    at position ``result_arg`` after the call. Every test gets fresh arguments; a checker is asked
    about what has up to 2 MiB, or ten times what ``args`` and ``expected`` have. Arguments may be
    None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset and dict, nested, and
    the values of the library that `mcbench.evaluator.encoding` knows; arrays arrive as lists.
    What the program need not import, and what is read as a list: `mcbench.evaluator.leetcode`.

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
        require(_is_name(self.fn_name), "CallTest needs fn_name, a Python name", self.fn_name)
        listed = isinstance(self.args, (list, tuple))
        require(listed, "CallTest takes args as a list or tuple of positional arguments", self.args)
        fits = self.result_arg is None or self.result_arg in range(len(self.args))
        last = len(self.args) - 1
        require(fits, f"result_arg must be between 0 and {last}", self.result_arg)
        check_rules(self, self.checker)


@dataclass(frozen=True)
class AssertTest:
    """Run ``code``, a test written as assertions, against the submission (HumanEval, MBPP).

    The test runs in a process of its own, which gives the verdict; the submission runs in another
    and only sees the arguments of the calls it gets. AC when the code runs to its end, WA when one
    of its assertions fails, RE for any other exception.

    ``entry_point`` is always the submission's, also under the name ``candidate``. Other names that
    the code uses are those of ``setup`` (trusted code that is run first, such as a prompt with its
    helper functions), of Python and its library; what is left is looked up in the submission.

        AssertTest(code=f"{row['test']}\ncheck({row['entry_point']})",
                   entry_point=row["entry_point"], setup=row["prompt"])          # HumanEval
        AssertTest(code="\n".join(row["test_list"]), setup=row["test_setup_code"])   # MBPP

    Raises:
        UserError: code or setup is not Python, entry_point is no name.
    """

    code: str
    entry_point: str | None = None
    setup: str = ""

    def __post_init__(self) -> None:
        fits = self.entry_point is None or _is_name(self.entry_point)
        require(fits, "entry_point must be a Python name", self.entry_point)
        for name in ("code", "setup"):
            text = getattr(self, name)
            require(isinstance(text, str), f"AssertTest takes {name} as str", text)
            check_python(f"{name} of an assert-style test", text)
        if not self.code.strip():
            raise UserError("an assert-style test needs code: without it nothing is judged")


Test = StdioTest | CallTest | AssertTest


def make_test(
    form: str, fn_name: str, row: Mapping[str, Any], checker: str = "", protocol: str = "score"
) -> Test:
    """The test of a problem of ``form`` in whose ``row`` are ``stdin``, ``args`` or ``code``.

    ``checker`` is the source of the problem's `CheckerProgram`, whose arguments the row may hold
    as ``checker_args``.

    Raises:
        UserError: a field that is missing, unknown or does not fit.
    """
    require(isinstance(row, Mapping), f"a test of form {form!r} must be an object", row)
    given = dict(row)
    if form == "call":
        given["fn_name"] = fn_name
    elif checker and form == "stdin":
        arguments = tuple(given.pop("checker_args", ()))
        given["checker"] = CheckerProgram(checker, protocol, arguments)
    kind = FORMS[form]
    known = [each.name for each in fields(kind)]
    unfit = f"a test of form {form!r} does not fit: it"
    if strange := [name for name in given if name not in known]:
        allowed = ", ".join(name for name in known if name not in ("fn_name", "checker"))
        raise UserError(f"{unfit} has {strange[0]!r}; allowed: {allowed}")
    if lacks := [e.name for e in fields(kind) if e.default is MISSING and e.name not in given]:
        raise UserError(f"{unfit} lacks {lacks[0]!r}")
    return kind(**given)


FORMS: dict[str, Any] = {"stdin": StdioTest, "call": CallTest, "assert": AssertTest}


@dataclass(frozen=True)
class Submission:
    """A program, the tests it must pass and its limits per test.

    ``preamble`` is code of the problem's that is run before the program, in the same names. The
    program keeps its first lines: a docstring, ``from __future__ import``.
    ``time_limit_s`` is CPU time (the wall limit is twice that plus one second, so that a loaded
    machine does not fail right programs); ``memory_limit_mb`` is peak resident memory in MiB.

    Raises:
        UserError: no tests, code that is not text, a preamble that is not Python, a limit that is
            not positive and finite.
    """

    code: str
    tests: Sequence[Test]
    time_limit_s: float = 2.0
    memory_limit_mb: float = 512
    preamble: str = ""

    def __post_init__(self) -> None:
        require(isinstance(self.code, str), "Submission takes code as str", self.code)
        check_python("preamble of a submission", self.preamble)
        listed = isinstance(self.tests, (list, tuple))
        require(listed, "tests is a list or tuple of tests", self.tests)
        if not self.tests:
            raise UserError("a submission needs at least one test: without one nothing is judged")
        for test in self.tests:
            require(isinstance(test, Test), "tests are StdioTest, CallTest or AssertTest", test)
        for name, most in (("time_limit_s", MAX_TIME_S), ("memory_limit_mb", MAX_MEMORY_MB)):
            value = getattr(self, name)
            fits = is_number(value) and 0 < value <= most
            require(fits, f"{name} must be a number above 0 and up to {most}", value)


@dataclass(frozen=True)
class TestResult:
    """How one test ended: times in seconds, peak resident memory in MiB.

    ``strategy`` names the comparison that accepted (AC only); ``message`` says for people why
    the test was not accepted, in `printable` text whatever the program did. ``output`` is what a
    program that ended well printed, where the test keeps it and it is no more than a checker would
    be shown: whatever the program liked to print. ``lost`` is an IE of a test that was not judged
    at all, which says nothing; any other is the problem's own fault.
    """

    __test__ = False  # not a test class, whatever its name tells pytest

    verdict: Verdict
    time_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0
    strategy: str | None = None
    message: str = ""
    output: str | None = None
    lost: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))


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


def checked_submissions(given: Sequence[Submission]) -> list[Submission]:
    """What an evaluator was given, as a list.

    Raises:
        UserError: something other than submissions.
    """
    needed = "evaluate takes a list of Submission"
    require(isinstance(given, Iterable), needed, given)
    submissions = list(given)
    for each in submissions:
        require(isinstance(each, Submission), needed, each)
    return submissions


def check_workers(workers: int) -> None:
    """Refuse a number of workers that is not a positive integer with a UserError."""
    fits = isinstance(workers, int) and not isinstance(workers, bool) and workers >= 1
    require(fits, "workers must be an integer of at least 1", workers)
