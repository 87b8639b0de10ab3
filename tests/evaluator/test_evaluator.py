"""Order, early exit, duplicates, calls that share an evaluator, and what a machine refuses."""

import asyncio
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from mcbench.evaluator import CallTest, StdioTest, Submission

DOUBLE = [StdioTest(f"{i}\n", f"{2 * i}\n") for i in range(4)]


def doubling(wrong_at: int | None, mark: object = "") -> Submission:
    lie = "" if wrong_at is None else f"\nif n == {wrong_at}: n = -1"
    return Submission(f"n = int(input()){lie}\nprint(n * 2) # {mark}", DOUBLE)


def expected_verdicts(wrong_at: int | None) -> list[str]:
    return ["WA" if i == wrong_at else "AC" for i in range(4)]


def test_the_evaluator_stands_alone_and_loads_nothing_heavy():
    program = """
import importlib, pkgutil, sys
import mcbench.evaluator as package
for module in pkgutil.walk_packages(package.__path__, "mcbench.evaluator."):
    if not module.name.endswith("zygote"):
        importlib.import_module(module.name)
own = ("mcbench.evaluator", "mcbench.errors", "mcbench.ray_session", "mcbench.version")
print(*(n for n in sys.modules if n.startswith("mcbench.") and not n.startswith(own)))
print(*({"torch", "transformers", "numpy", "scipy", "pandas", "ray"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n\n", "")


def test_order_is_kept(evaluator):
    faults = [None, 3, 0, None, 1, 2, None, 0] * 4
    results = evaluator.evaluate([doubling(fault, i) for i, fault in enumerate(faults)])
    assert [result.verdicts for result in results] == [expected_verdicts(f) for f in faults]
    assert [result.passed for result in results] == [fault is None for fault in faults]


def test_early_exit_reports_up_to_the_first_failure(evaluator):
    faults = [0, 1, 2, 3, None]
    results = evaluator.evaluate([doubling(fault) for fault in faults], early_exit=True)
    wanted = [["WA"], ["AC", "WA"], ["AC", "AC", "WA"], ["AC"] * 3 + ["WA"], ["AC"] * 4]
    assert [result.verdicts for result in results] == wanted


def test_nothing_to_judge(evaluator):
    assert evaluator.evaluate([]) == []


def test_duplicates_are_judged_once(evaluator):
    # The answer is new in every run, so equal results come from one run.
    code = "import os\nprint(os.urandom(8).hex())"
    same = [Submission(code, [StdioTest("", "x")]) for _ in range(3)]
    other = Submission(code, [StdioTest("", "y")])
    results = evaluator.evaluate([*same, other])
    assert results[0] is not results[3]
    assert len({result.tests[0].message for result in results[:3]}) == 1
    assert results[0].tests[0].message != results[3].tests[0].message


def test_tests_that_print_alike_are_not_duplicates(evaluator):
    zeros, other = np.zeros(3000, dtype=int), np.zeros(3000, dtype=int)
    other[1500] = 5
    assert repr(zeros) == repr(other)
    runs = [Submission("def f(x): return sum(x)", [CallTest("f", [a], 0)]) for a in (zeros, other)]
    assert [result.verdicts for result in evaluator.evaluate(runs)] == [["AC"], ["WA"]]


def test_tests_with_unprintable_values(evaluator):
    tests = [CallTest("f", [10**5000], 10**5000 + 1)]
    assert evaluator.evaluate([Submission("def f(a): return a + 1", tests)])[0].passed


def test_async_calls_run_beside_other_work(evaluator):
    async def both() -> list:
        calls = [evaluator.aevaluate([doubling(fault)]) for fault in (None, 2)]
        return await asyncio.gather(*calls)

    (right,), (wrong,) = asyncio.run(both())
    assert right.passed
    assert wrong.verdicts == expected_verdicts(2)


def test_threads_share_an_evaluator(evaluator):
    outcomes = {}

    def ask(fault):
        outcomes[fault] = evaluator.evaluate([doubling(fault, "threads")])[0].verdicts

    threads = [threading.Thread(target=ask, args=(fault,)) for fault in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {fault: expected_verdicts(fault) for fault in range(4)}


def test_isolation_is_reported(evaluator):
    assert set(evaluator.isolation) == {"granted", "missing"}


def test_limits_alone_still_judge_and_clean_up():
    # Without the right to make namespaces: the same verdicts, what is missing is said once.
    program = """
import ctypes, logging, os, sys
libc = ctypes.CDLL(None)
for capability in range(41):
    libc.prctl(24, capability, 0, 0, 0)  # drop it from the bounding set
os.execv(sys.executable, [sys.executable, "-c", '''
import logging
logging.basicConfig(format="%(message)s")
from mcbench.evaluator import CallTest, Evaluator, StdioTest, Submission
from tests.evaluator.processes import descendants, eventually
import os
spawn = "import os, time" + chr(10) + "if os.fork() == 0:" + chr(10) + " os.setsid()" + chr(10)
spawn += " os.fork()" + chr(10) + " time.sleep(99)" + chr(10) + "print(3)"
with Evaluator(workers=2) as evaluator:
    assert "pid namespace" in evaluator.isolation["missing"]
    cases = [("print(3)", "AC"), ("print(4)", "WA"), (spawn, "AC"), ("1/0", "RE"),
             ("while 1: pass", "TLE"), ("x = bytearray(10**9)", "MLE"),
             ("open('f', 'x')\\\\nprint(3)", "AC"), ("open('f', 'x')\\\\nprint(3) #", "AC")]
    limits = {"TLE": 0.3}
    submissions = [Submission(c, [StdioTest("", "3")], limits.get(v, 20), 100) for c, v in cases]
    results = evaluator.evaluate(submissions)
    assert [r.verdicts[0] for r in results] == [v for _, v in cases], results
    sandboxes = descendants(os.getpid())
    assert len(sandboxes) == 4, sandboxes
assert not descendants(os.getpid())
'''])
"""
    if os.geteuid() != 0:
        pytest.skip("only root can give up the right to make namespaces")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("'pid namespace'") == 1
