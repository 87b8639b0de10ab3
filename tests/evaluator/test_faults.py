"""What breaks is repeated or reported, and nothing is left behind: real kills, real leaks."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcbench.evaluator
from benchmarks.suite import ATTACKS
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator, StdioTest, Submission, portable
from tests.evaluator.processes import (
    alive,
    descendants,
    eventually,
    levels,
    open_descriptors,
    same_namespace,
)
from tests.quick import every

ZYGOTE = Path(mcbench.evaluator.__file__).with_name("zygote.py")
ROOT = Path(__file__).parents[2]
DOUBLE = [StdioTest(f"{i}\n", f"{2 * i}\n") for i in range(4)]
ENDLESS = Submission("while True: pass", [StdioTest("", "")], time_limit_s=50)


def doubling(wrong_at: int | None, mark: object = "") -> Submission:
    lie = "" if wrong_at is None else f"\nif n == {wrong_at}: n = -1"
    return Submission(f"n = int(input()){lie}\nprint(n * 2) # {mark}", DOUBLE)


def expected_verdicts(wrong_at: int | None) -> list[str]:
    return ["WA" if i == wrong_at else "AC" for i in range(4)]


def kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("level", every(2, [0, 1]), ids=["supervisor", "zygote"])
def test_killed_sandboxes_lose_and_fake_nothing(level):
    faults = [None, 0, 1, 2, 3] * 20
    submissions = [doubling(fault, i) for i, fault in enumerate(faults)]
    rng, kills = random.Random(level), 0
    others = descendants(os.getpid())

    def kill_one() -> None:
        nonlocal kills
        found = levels(os.getpid())
        if len(found) > level and (targets := sorted(found[level] - others)):
            kill({rng.choice(targets)})
            kills += 1

    with Evaluator(workers=2) as evaluator:
        for _ in range(20):
            # Once in a call, so that no test is hit twice, which would be an IE.
            killer = threading.Timer(rng.uniform(0.05, 0.3), kill_one)
            killer.start()
            results = evaluator.evaluate(submissions)
            killer.cancel()
            killer.join()
            assert [r.verdicts for r in results] == [expected_verdicts(f) for f in faults]
            if kills >= 3:
                break
        assert kills >= 3, "killed sandboxes were not replaced"
        sandboxes = [found - others for found in levels(os.getpid())[:2]]
    assert eventually(lambda: not alive(set.union(*sandboxes)))


def test_sandboxes_that_were_killed_between_calls_are_replaced():
    others = descendants(os.getpid())
    with Evaluator(workers=2) as evaluator:
        sandboxes = levels(os.getpid())[0] - others
        kill(sandboxes)
        assert eventually(lambda: not alive(sandboxes))
        assert evaluator.evaluate([doubling(None)])[0].passed
        assert len(levels(os.getpid())[0] - others) == 2


def test_a_killed_program_has_itself_ended(evaluator):
    before = descendants(os.getpid())
    killer = threading.Thread(
        target=eventually,
        args=(lambda: bool(kill(descendants(os.getpid()) - before)) or ended.is_set(),),
    )
    ended = threading.Event()
    killer.start()
    result = evaluator.evaluate([ENDLESS])[0]
    ended.set()
    killer.join()
    assert (result.verdicts, result.tests[0].message) == (["RE"], "killed by signal 9")


def is_test(pid: int) -> bool:
    """Whether a process below a zygote runs a program: what starts a sandbox leads no session."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def test_a_fork_waits_for_others_that_have_taken_all_processes(monkeypatch):
    forks = iter([BlockingIOError, BlockingIOError, 4711])

    def fork() -> int:
        if isinstance(found := next(forks), int):
            return found
        raise found

    monkeypatch.setattr(os, "fork", fork)
    assert portable.fork() == 4711


def test_a_test_whose_sandbox_always_dies_is_an_infrastructure_error():
    others = descendants(os.getpid())
    ended = threading.Event()

    def kill_two_sandboxes_while_it_runs() -> bool:
        found = levels(os.getpid())
        if len(found) > 2 and any(map(is_test, found[2] - others)):
            kill((found[0] | found[1]) - others)
            others.update(*found)
            killed.append(found)
        return ended.is_set() or len(killed) == 2

    killed: list[list[set[int]]] = []
    with Evaluator(workers=1) as evaluator:
        killer = threading.Thread(target=eventually, args=(kill_two_sandboxes_while_it_runs, 60))
        killer.start()
        try:
            result, *behind = evaluator.evaluate([ENDLESS, *(doubling(i, i) for i in range(3))])
        finally:
            ended.set()
            killer.join()
        assert result.verdicts == ["IE"]
        assert not result.passed
        assert result.tests[0].message
        # What had been sent to the same sandboxes was not tried yet.
        assert [each.verdicts for each in behind] == [expected_verdicts(i) for i in range(3)]


def test_cancelled_calls_leave_the_evaluator_usable():
    others = descendants(os.getpid())

    def found(level: int) -> set[int]:
        """Supervisors, zygotes or tests."""
        return set().union(*levels(os.getpid())[level : level + 1]) - others

    async def cancel() -> None:
        task = asyncio.create_task(evaluator.aevaluate([ENDLESS, *hostile(8)]))
        await asyncio.to_thread(eventually, lambda: bool(found(2)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Evaluator(workers=2) as evaluator:
        descriptors = open_descriptors(os.getpid()) - len(found(0))
        for _ in range(3):
            asyncio.run(cancel())
            assert evaluator.evaluate([doubling(2)])[0].verdicts == expected_verdicts(2)
        assert eventually(lambda: not found(2))
        # In each place one for programs, and one that compares where a hostile answer was judged.
        assert 2 <= len(found(0)) == len(found(1)) <= 4
        assert open_descriptors(os.getpid()) - len(found(0)) == descriptors


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


def test_close_waits_for_the_call_in_progress():
    before = descendants(os.getpid())
    evaluator = Evaluator(workers=2)
    faults = [None, 1] * 20
    submissions = [doubling(fault, i) for i, fault in enumerate(faults)]
    results = []
    thread = threading.Thread(target=lambda: results.extend(evaluator.evaluate(submissions)))
    sandboxes = len(descendants(os.getpid()))
    thread.start()
    eventually(lambda: len(descendants(os.getpid())) > sandboxes or not thread.is_alive())
    evaluator.close()
    thread.join()
    assert [r.verdicts for r in results] == [expected_verdicts(fault) for fault in faults]
    assert descendants(os.getpid()) <= before


def hostile(count: int) -> list[Submission]:
    """Programs of the labelled suite that fork, daemonise, kill and do not want to end."""
    cases = [case for case in ATTACKS if "TLE" in case.verdicts or "fork" in case.code]
    assert len(cases) >= 5
    return [case.submission for case in cases[:count]]


HOSTILE_CALLER = """
import sys
from mcbench.evaluator import Evaluator
from tests.evaluator.test_faults import hostile
with Evaluator(workers=2) as evaluator:
    print("ready", flush=True)
    while True:
        evaluator.evaluate(hostile(30))
"""
FORKING_CALLER = """
from mcbench.evaluator import Evaluator, StdioTest, Submission
code = "import os, time\\nif os.fork() == 0: os.setsid()\\ntime.sleep(99)"
with Evaluator(workers=2) as evaluator:
    print("ready", flush=True)
    evaluator.evaluate([Submission(code + "#" * i, [StdioTest("", "")], 90) for i in range(2)])
"""


@contextlib.contextmanager
def started_caller(program: str) -> Iterator[subprocess.Popen]:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT
    ) as caller:
        try:
            assert caller.stdout.readline() == b"ready\n"
            yield caller
        finally:
            caller.kill()  # also when the test has failed


def assert_nothing_survives(caller: subprocess.Popen) -> None:
    left = descendants(caller.pid)
    namespaces = same_namespace(left) if os.geteuid() == 0 else set
    caller.kill()
    caller.wait()
    assert eventually(lambda: not alive(left) and not namespaces())


def test_nothing_survives_the_death_of_the_parent():
    with started_caller(FORKING_CALLER) as caller:
        # Two supervisors, two zygotes, two programs and their forks.
        assert eventually(lambda: len(descendants(caller.pid)) == 8)
        assert_nothing_survives(caller)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_survives_the_death_of_the_parent_amid_attacks(seed):
    # At a moment of its own in each run: after so many different processes were seen.
    wanted, seen = random.Random(seed).randint(6, 30), set()
    with started_caller(HOSTILE_CALLER) as caller:
        assert eventually(lambda: seen.update(descendants(caller.pid)) or len(seen) >= wanted, 30)
        assert_nothing_survives(caller)


def test_a_sandbox_whose_parent_is_gone_before_it_is_ready_ends_quietly():
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        command = [sys.executable, "-I", "-S", str(ZYGOTE), str(theirs.fileno()), "plain", "full"]
        done = subprocess.run(command, pass_fds=[theirs.fileno()], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


NO_DESCRIPTORS = """
import os, resource
from mcbench.evaluator.pool import Worker
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for left in (0, 3):  # for no channel; for one and no process
    before = len(os.listdir("/proc/self/fd")) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + left, most))
    try:
        Worker("plain").start()
    except RuntimeError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(len(os.listdir("/proc/self/fd")) - 1 - before)
"""


def test_a_sandbox_for_which_no_descriptor_is_left_says_so_and_leaves_none_open():
    done = subprocess.run(
        [sys.executable, "-c", NO_DESCRIPTORS], capture_output=True, text=True, cwd=ROOT
    )
    why = "a sandbox process of the evaluator could not be started: [Errno 24] Too many open files"
    assert done.stdout.splitlines() == [why, "0", why, "0"], done.stderr


def test_no_descriptor_is_leaked(evaluator):
    def count() -> int:
        sandboxes = [pid for found in levels(os.getpid())[:2] for pid in found]
        return sum(map(open_descriptors, [os.getpid(), *sandboxes]))

    evaluator.evaluate([doubling(None)])
    before = count()
    evaluator.evaluate([doubling(i % 5, i) for i in range(20)])
    assert count() == before


@pytest.mark.slow
def test_a_soak_leaves_everything_as_it_was(tmp_path):
    # Verdicts, processes, descriptors, temporary files and memory, with sandboxes killed.
    command = [sys.executable, "benchmarks/soak.py", "--tests=1500", "--repeats=0"]
    options = ["--kill-every=2", "--hostile-seconds=0.2", "--batch=250"]
    own = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT, env=own)
    assert done.returncode == 0, done.stdout + done.stderr
