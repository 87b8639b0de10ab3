"""Right and wrong programs in every legal style, with the verdicts a contest judge gives.

The programs stand in ``programs/*.txt``. Their labels follow from the problem that each solves or
does not solve and from what Python's documentation says about how a program ends.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcbench.evaluator.submission import CallTest, StdioTest
from mcbench.evaluator.suite.cases import ProgramCase

_FOLDER = Path(__file__).with_name("programs")


def programs(table: str) -> Iterator[tuple[str, str]]:
    """The (name, source) blocks of ``programs/<table>.txt``; each starts with ``### name``."""
    text = (_FOLDER / f"{table}.txt").read_bytes().decode()
    for block in ("\n" + text).split("\n### ")[1:]:
        name, _, source = block.partition("\n")
        yield name, source.rstrip("\n") + "\n"


def stdio(*pairs: tuple[str, str]) -> tuple[StdioTest, ...]:
    """Tests from (stdin, expected) pairs with the default rules."""
    return tuple(StdioTest(stdin, expected) for stdin, expected in pairs)


# Most programs solve one of two problems: the sum of two integers, one a line; twice an integer.
SUM = stdio(("1\n2\n", "3\n"), ("40\n-45", "-5\n"), ("7 \r\n8\r\n", "15\n"))
DOUBLE = stdio(("21\n", "42\n"), ("-5", "-10\n"))

_READ_SUM = "a, b = map(int, open(0, closefd=False).read().split())\n"
_DOUBLE = "print(2 * int(input()))\n"
_RIGHT = [  # table, what precedes and follows each of its programs, the tests
    ("read", "", "print(a + b)\n", SUM),
    ("write", _READ_SUM, "", SUM),
    ("end", _DOUBLE, "", DOUBLE),
    ("style", "", "", DOUBLE),
    ("concurrent", "", "", DOUBLE),
    ("large", "", "", DOUBLE),
]
_WRONG = {  # table, and verdict: time limit in seconds, memory limit in MiB
    "wa": (2.0, 512),
    "re": (2.0, 512),
    "tle": (0.25, 512),
    "mle": (2.0, 128),
    "ole": (2.0, 512),
}


def _tables() -> Iterator[ProgramCase]:
    numpy = [("numpy", "", "", DOUBLE)] if importlib.util.find_spec("numpy") else []
    for table, before, after, tests in _RIGHT + numpy:
        for name, code in programs(table):
            yield ProgramCase(f"{table}_{name}", table, before + code + after, tests, ("AC",))
    for table, limits in _WRONG.items():
        for name, code in programs(table):
            yield ProgramCase(f"{table}_{name}", table, code, DOUBLE, (table.upper(),), *limits)


def _calls() -> Iterator[ProgramCase]:
    """Call-based cases of the function f: lines ``#: args, expected[, options]`` are the tests."""
    for table in ("call", "call_wrong"):
        for name, source in programs(table):
            lines = source.splitlines(keepends=True)
            tests = []
            for line in lines:
                if line.startswith("#: "):
                    args, expected, *options = ast.literal_eval(f"({line[3:].strip()},)")
                    tests.append(CallTest("f", args, expected, **(options[0] if options else {})))
            # The program does not get to see its tests.
            code = "".join(lines[len(tests) :])
            verdict = "AC" if table == "call" else name.partition("_")[0].upper()
            time_s, memory_mb = _WRONG.get(verdict.lower(), (2.0, 512))
            yield ProgramCase(
                f"call_{name}", "call", code, tuple(tests), (verdict,), time_s, memory_mb
            )


def _special() -> Iterator[ProgramCase]:
    """Programs whose problem, values or bytes do not fit the tables."""
    fast_io = dict(programs("fast_io"))["template"]
    text = "Grüße, 世界 \U0001f600\n"
    lines = "".join(f"{i}\n" for i in range(700_000))  # 4.8 MB
    digits = "0123456789" * 500_000
    echo = "import sys\nsys.stdout.write(sys.stdin.read())\n"
    crlf = "n = int(input())\r\nif n:\r\n    n *= 2\r\nprint(n)\r\n"
    prints = "for i in range(500_000): print(i % 10)\n"
    printed = "".join(f"{i % 10}\n" for i in range(500_000))
    summed = str(sum(range(700_000)))
    flush = "a, b = open(0)\nsys.stdout.write(str(int(a) + int(b)))\nsys.stdout.flush()\n"
    for name, group, code, tests in (
        ("source_bom", "style", "\ufeff" + _DOUBLE, DOUBLE),
        ("source_crlf", "style", crlf, DOUBLE),
        ("source_no_final_newline", "style", f"# comment\n{_DOUBLE}\n# end", DOUBLE),
        ("source_long_line", "style", f"x = [{'1, ' * 50_000}]\n{_DOUBLE}", DOUBLE),
        ("source_many_lines", "style", "x = 1\n" * 20_000 + _DOUBLE, DOUBLE),
        ("unicode", "large", "print(input())\n", stdio((text, text))),
        ("five_megabytes", "large", echo, stdio((lines, lines))),
        ("long_line", "large", "print(input())\n", stdio((digits, digits))),
        ("many_prints", "large", prints, stdio(("", printed))),
        ("many_numbers", "large", "print(sum(map(int, open(0))))\n", stdio((lines, summed))),
        ("no_input", "read", "import sys\nprint(repr(sys.stdin.read()))\n", stdio(("", "''"))),
        ("blank_lines", "read", "input(); print(input())\n", stdio(("\nx\n", "x\n"))),
        ("no_output", "write", "pass\n", stdio(("1\n", ""))),
        (
            "input_that_is_no_text",
            "read",
            "import sys\nprint(*sys.stdin.buffer.read())\n",
            stdio(("\udcff\0\udc80\n", "255 0 128 10")),
        ),
        ("fast_io", "write", fast_io + "print(int(input()) + int(input()))\n", SUM),
        ("fast_io_ended", "write", fast_io + flush + "os._exit(0)\n", SUM),
    ):
        yield ProgramCase(name, group, code, tests, ("AC",))


def _special_calls() -> Iterator[ProgramCase]:
    many = list(range(200_000))
    wide = [2**63, -(2**63), 10**400]
    nested = [[1, [2.5, "x"], {"k": [None, True]}], (1, b"x", frozenset({3}))]
    calls: list[tuple[str, str, list[Any], Any]] = [
        ("long_list", "def f(a): return sorted(a)", [many[::-1]], many),
        ("wide_integers", "def f(a): return a", [wide], wide),
        ("huge_integer", "def f(a): return 2 ** a", [20_000], 2**20_000),
        ("nested_values", "def f(a): return a", [nested], nested),
        ("not_a_number", "def f(a): return float(a)", ["nan"], float("nan")),
        ("infinity", "def f(a): return max(a, inf)", [1], float("inf")),
        ("tuple_keys", "def f(a): return {(1, 2): a}", [3], {(1, 2): 3}),
        ("unicode_text", "def f(a): return a[::-1]", ["aß世\U0001f600"], "\U0001f600世ßa"),
    ]
    if importlib.util.find_spec("numpy"):
        scalar = "import numpy as np\ndef f(a): return np.array(a).max()"
        calls.append(("numpy_scalar", scalar, [[1, 5, 2]], 5))
    for name, code, args, expected in calls:
        yield ProgramCase(f"call_{name}", "call", code, (CallTest("f", args, expected),), ("AC",))
    # LeetCode's names are there for the program's use; they do not solve its problem.
    for fn_name, args, expected in (("gcd", [12, 18], 6), ("sorted", [[2, 1]], [1, 2])):
        test = CallTest(fn_name, args, expected)
        yield ProgramCase(f"call_undefined_{fn_name}", "call", "pass\n", (test,), ("RE",))


EXECUTIONS: tuple[ProgramCase, ...] = (*_tables(), *_special(), *_calls(), *_special_calls())
