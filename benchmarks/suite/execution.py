"""Right and wrong programs in every legal style, with the verdicts a contest judge gives.

The programs stand in ``programs/*.txt``. Their labels follow from the problem that each solves or
does not solve and from what Python's documentation says about how a program ends. Lines ``#: ...``
at the start of a program are its tests, and are not part of it: ``args, expected[, options]`` of
the function f, ``stdin, expected`` in ``special.txt``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from benchmarks.suite.cases import ProgramCase
from benchmarks.suite.reader import blocks, values
from mcbench.evaluator.submission import CallTest, StdioTest

# Most programs solve one of two problems: the sum of two integers, one a line; twice an integer.
SUM = (StdioTest("1\n2\n", "3\n"), StdioTest("40\n-45", "-5\n"), StdioTest("7 \r\n8\r\n", "15\n"))
DOUBLE = (StdioTest("21\n", "42\n"), StdioTest("-5", "-10\n"))

_READ_SUM = "a, b = map(int, open(0, closefd=False).read().split())\n"
_DOUBLE = "print(2 * int(input()))\n"
_RIGHT = [  # table, what precedes and follows each of its programs, the tests
    ("read", "", "print(a + b)\n", SUM),
    ("write", _READ_SUM, "", SUM),
    ("end", _DOUBLE, "", DOUBLE),
    *((table, "", "", DOUBLE) for table in ("style", "concurrent", "large")),
]
_CALL_TABLES = ["call", "call_wrong", "call_values"]
if importlib.util.find_spec("numpy"):
    _RIGHT.append(("numpy", "", "", DOUBLE))
    _CALL_TABLES.append("call_numpy")
_WRONG = {  # table, and verdict: time limit in seconds, memory limit in MiB
    "wa": (2.0, 512),
    "re": (2.0, 512),
    "tle": (0.25, 512),
    "mle": (2.0, 128),
    "ole": (2.0, 512),
}


def _tables() -> Iterator[ProgramCase]:
    for table, before, after, tests in _RIGHT:
        for name, code in blocks(f"programs/{table}"):
            yield ProgramCase(f"{table}_{name}", table, before + code + after, tests, ("AC",))
    for table, limits in _WRONG.items():
        for name, code in blocks(f"programs/{table}"):
            yield ProgramCase(f"{table}_{name}", table, code, DOUBLE, (table.upper(),), *limits)


def _with_tests(table: str) -> Iterator[tuple[str, str, list[tuple[Any, ...]]]]:
    """The programs of a table that state their tests: heading, code, the values of each test."""
    for heading, source in blocks(f"programs/{table}"):
        lines = source.splitlines(keepends=True)
        tests = [values(line[3:]) for line in lines if line.startswith("#: ")]
        yield heading, "".join(lines[len(tests) :]), tests


def _odd_sources() -> Iterator[ProgramCase]:
    """Programs whose bytes do not fit into a table."""
    crlf = "n = int(input())\r\nif n:\r\n    n *= 2\r\nprint(n)\r\n"
    for name, code in (
        ("source_bom", "\ufeff" + _DOUBLE),
        ("source_crlf", crlf),
        ("source_no_final_newline", f"# comment\n{_DOUBLE}\n# end"),
        ("source_long_line", f"x = [{'1, ' * 50_000}]\n{_DOUBLE}"),
        ("source_many_lines", "x = 1\n" * 20_000 + _DOUBLE),
    ):
        yield ProgramCase(name, "style", code, DOUBLE, ("AC",))


def _special() -> Iterator[ProgramCase]:
    for heading, code, tests in _with_tests("special"):
        group, name = heading.split()
        yield ProgramCase(name, group, code, tuple(StdioTest(*test) for test in tests), ("AC",))
    fast_io = dict(blocks("programs/fast_io"))["template"]
    flush = "a, b = open(0)\nsys.stdout.write(str(int(a) + int(b)))\nsys.stdout.flush()\n"
    for name, code in (
        ("fast_io", "print(int(input()) + int(input()))\n"),
        ("fast_io_ended", flush + "os._exit(0)\n"),
    ):
        yield ProgramCase(name, "write", fast_io + code, SUM, ("AC",))


def _calls() -> Iterator[ProgramCase]:
    for table in _CALL_TABLES:
        for name, code, tests in _with_tests(table):
            verdict = name.partition("_")[0] if table == "call_wrong" else "ac"
            calls = tuple(
                CallTest("f", args, expected, **(options[0] if options else {}))
                for args, expected, *options in tests
            )
            limits = _WRONG.get(verdict, ())
            yield ProgramCase(f"call_{name}", "call", code, calls, (verdict.upper(),), *limits)
    # LeetCode's names are there for the program's use; they do not solve its problem.
    for fn_name, args, expected in (("gcd", [12, 18], 6), ("sorted", [[2, 1]], [1, 2])):
        test = CallTest(fn_name, args, expected)
        yield ProgramCase(f"call_undefined_{fn_name}", "call", "pass\n", (test,), ("RE",))


EXECUTIONS: tuple[ProgramCase, ...] = (*_tables(), *_odd_sources(), *_special(), *_calls())
