"""Defects for the problems of `generated`, beside those that suit any problem."""

import re
from dataclasses import replace

from benchmarks.planted import DEFECTS, TRUTH

FIRST_DATE = "2015-01-01"  # of the window that "old" records lie outside of
MAX_TEST_KB = 64.0  # that "large_tests" are above


def _slow_test(record, rng):
    """A test on which the reference needs far more than the limit."""
    stdin = record.tests[0]["stdin"]
    slow = {"stdin": stdin.replace("\n", "\n99999 ", 1), "expected": record.tests[0]["expected"]}
    code = record.references[0].replace(
        "split()))\n", "split()))\nwhile 99999 in a:\n    pass\n", 1
    )
    return replace(record, tests=(*record.tests, slow), references=(code,))


def _flaky(record, rng):
    code = "import time\n" + record.references[0].rstrip()
    head, _, tail = code.rpartition("print(")
    return replace(record, references=(f"{head}print(time.time_ns() % 999983 + {tail}\n",))


def _echo(record, rng):
    tests = tuple({**test, "expected": test["stdin"]} for test in record.tests)
    return replace(record, references=("print(input())\nprint(input())\n",), tests=tests)


def _weak_tests(record, rng):
    """Tests that reach one branch of a program with many."""
    code = (
        "n = int(input())\na = list(map(int, input().split()))\nif n < 1:\n"
        "    print(len(a) * 3 + 1)\nelif n > 90:\n    print(sum(a) % 7 * 2 - 1)\n"
        "elif n > 80:\n    print(max(a) * 5 + min(a) * 3)\nelif n > 70:\n"
        "    print(a[0] * 2 - a[1] + 9)\nelse:\n    print(n)\n"
    )
    tests = tuple({**t, "expected": t["stdin"].split()[0] + "\n"} for t in record.tests)
    return replace(record, references=(code,), tests=tests)


def _latex(record, rng):
    text = re.sub(r"\((\d+) ≤ n ≤ (\d+)\)", r"($\1 \\le n \\le \2$)", record.statement)
    return replace(record, statement=text.replace(" n ", " $n$ ").replace(" n,", " $n$,"))


def _large_tests(record, rng):
    size = int(MAX_TEST_KB * 1024)
    tests = tuple({**test, "stdin": test["stdin"] + " " * size} for test in record.tests)
    return replace(record, tests=tests)


def _old(record, rng):
    return replace(record, date=f"20{rng.randint(5, 14):02}-06-01")


OWN = {
    "latex": ("process", "repair", _latex),
    "large_tests": ("filter", "drop", _large_tests),
    "old": ("filter", "drop", _old),
    "slow_test": ("verify", "drop_test", _slow_test),
    "flaky": ("verify", "drop", _flaky),
    "echo": ("verify", "drop", _echo),
    "weak_tests": ("verify", "drop", _weak_tests),
}
for name, (stage, action, plant) in OWN.items():
    TRUTH[name] = (stage, action)
    DEFECTS[name] = plant
