"""Order, early exit, duplicates, failures of our own, and a clean end."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mcbench.evaluator
from mcbench.errors import UserError
from mcbench.evaluator import CallTest, Evaluator, StdioTest, Submission
from tests.evaluator.processes import alive, descendants, eventually, open_descriptors

ZYGOTE = Path(mcbench.evaluator.__file__).with_name("zygote.py")
DOUBLE = [StdioTest(f"{i}\n", f"{2 * i}\n") for i in range(4)]


def doubling(wrong_at: int | None, mark: object = "") -> Submission:
    lie = "" if wrong_at is None else f"\nif n == {wrong_at}: n = -1"
    return Submission(f"n = int(input()){lie}\nprint(n * 2) # {mark}", DOUBLE)


def expected_verdicts(wrong_at: int | None) -> list[str]:
    return ["WA" if i == wrong_at else "AC" for i in range(4)]


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


def test_cancelled_call_leaves_the_evaluator_usable(evaluator):
    async def cancel() -> None:
        slow = Submission("import time\ntime.sleep(99)", [StdioTest("", "")], time_limit_s=50)
        idle = len(descendants(os.getpid()))
        task = asyncio.create_task(evaluator.aevaluate([slow]))
        await asyncio.to_thread(eventually, lambda: len(descendants(os.getpid())) > idle)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert evaluator.evaluate([doubling(None)])[0].passed


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


def test_killed_zygotes_lose_and_fake_nothing():
    faults = [None, 0, 1, 2, 3] * 60
    submissions = [doubling(fault, i) for i, fault in enumerate(faults)]
    random.seed(0)
    others = descendants(os.getpid())
    with Evaluator(workers=2) as evaluator:
        finished = threading.Event()
        killed = []

        def kill_at_random():
            # Far enough apart that one test is hardly ever hit twice, which would be an IE.
            while not finished.wait(random.uniform(0.2, 0.5)):
                # Supervisors, zygotes and running programs alike.
                for pid in random.sample(sorted(descendants(os.getpid()) - others), 1):
                    killed.append(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_at_random)
        killer.start()
        try:
            results = evaluator.evaluate(submissions)
        finally:
            finished.set()
            killer.join()
        assert killed
        for fault, result in zip(faults, results, strict=True):
            # A killed child, unlike a killed zygote, is the program's own end by signal 9.
            for wanted, test in zip(expected_verdicts(fault), result.tests, strict=True):
                assert test.verdict in (wanted, "IE") or "signal 9" in test.message


def test_test_whose_sandbox_always_dies_is_an_infrastructure_error(monkeypatch):
    with Evaluator(workers=1) as evaluator:
        worker = evaluator._workers[0]
        give = type(worker).give

        def give_and_kill(self, job):
            give(self, job)
            if job.key[0] == 1:
                for pid in descendants(self.pid):
                    os.kill(pid, signal.SIGKILL)

        monkeypatch.setattr(type(worker), "give", give_and_kill)
        endless = Submission("while True: pass", DOUBLE, time_limit_s=50)
        results = evaluator.evaluate([doubling(None, 0), endless, doubling(None, 2)])
    assert [result.passed for result in results] == [True, False, True]
    assert results[1].verdicts == ["IE"] * 4
    assert results[1].tests[0].message == "the sandbox process died"


def test_close_ends_every_process_and_descriptor():
    before, descriptors = descendants(os.getpid()), open_descriptors(os.getpid())
    evaluator = Evaluator(workers=2)
    evaluator.evaluate([doubling(None)])
    evaluator.close()
    evaluator.close()
    assert descendants(os.getpid()) <= before
    assert open_descriptors(os.getpid()) == descriptors
    with pytest.raises(UserError, match="closed"):
        evaluator.evaluate([doubling(None)])


def test_no_descriptor_is_leaked(evaluator):
    def count() -> int:
        zygotes = [pid for worker in evaluator._workers for pid in descendants(worker.pid)]
        return sum(map(open_descriptors, [os.getpid(), *zygotes]))

    evaluator.evaluate([doubling(None)])
    before = count()
    evaluator.evaluate([doubling(i % 5, i) for i in range(20)])
    assert count() == before


def test_nothing_survives_the_death_of_the_parent():
    program = """
import sys
from mcbench.evaluator import Evaluator, StdioTest, Submission
code = "import os, time\\nif os.fork() == 0: os.setsid()\\ntime.sleep(99)"
with Evaluator(workers=2) as evaluator:
    print("ready", flush=True)
    evaluator.evaluate([Submission(code + "#" * i, [StdioTest("", "")], 90) for i in range(2)])
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"ready\n"
    # Two supervisors, two zygotes, two programs and their forks.
    assert eventually(lambda: len(descendants(parent.pid)) == 8)
    left = descendants(parent.pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not alive(left))


def test_a_sandbox_whose_parent_is_gone_before_it_is_ready_ends_quietly():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.close()
        command = [sys.executable, "-s", "-P", str(ZYGOTE), str(theirs.fileno())]
        done = subprocess.run(command, pass_fds=[theirs.fileno()], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


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
    submissions = [Submission(code, [StdioTest("", "3")], 0.3, 100) for code, _ in cases]
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
