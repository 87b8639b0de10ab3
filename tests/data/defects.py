"""Defects for the problems of `generated`, beside those that suit any problem."""

from dataclasses import replace

from mcbench.data.planted import DEFECTS, TRUTH


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


def _missing_outputs(record, rng):
    """Inputs alone, and two references that agree."""
    tests = tuple({"stdin": test["stdin"]} for test in record.tests)
    code = record.references[0]
    return replace(record, tests=tests, references=(code, "# again\n" + code))


OWN = {
    "slow_test": ("drop_test", _slow_test),
    "flaky": ("drop", _flaky),
    "echo": ("drop", _echo),
    "weak_tests": ("drop", _weak_tests),
    "missing_outputs": ("fill", _missing_outputs),
}
for name, (action, plant) in OWN.items():
    TRUTH[name] = ("verify", action)
    DEFECTS[name] = plant
