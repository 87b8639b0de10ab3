"""Whatever a submission takes, the verdict is about it, and its sandbox has done little work.

Programs are put together at random of what takes resources: mappings, memory, threads, processes,
descriptors, files, sockets, signals. Their verdict is never IE, and the sandbox goes on.
"""

import os
import random
from pathlib import Path

import pytest

from mcbench.evaluator import Evaluator, StdioTest, Submission
from tests.evaluator.machines import elsewhere, on_linux, run
from tests.evaluator.processes import eventually, levels

pytestmark = on_linux
LIMIT_S, LIMIT_MB = 0.3, 128
VERDICTS = {"AC", "WA", "RE", "TLE", "MLE", "OLE"}

PREAMBLE = """
import ctypes, mmap, os, resource, select, signal, socket, subprocess, sys, threading, time
libc, kept = ctypes.CDLL(None), []
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
def forked(*actions):
    if os.fork() == 0:
        try:
            for action in actions: action()
        finally: os._exit(0)
def nap(): time.sleep(99)
def spin():
    while True: pass
def filled(size):
    data = mmap.mmap(-1, size << 10)
    for at in range(0, size << 10, 4096): data[at] = 1
    return data
def sent(pair):
    pair[0].setblocking(False)
    while True: pair[0].send(bytes(1 << 16))
def killed_each(number):
    for pid in range(1, 300):
        if pid != os.getpid():
            try: os.kill(pid, number)
            except OSError: pass
"""
# What is done {n} times or with {n} of something; the exceptions of a few are passed over.
ACTIONS = [
    "for i in range({n}): libc.mmap(None, 4096, 1 + i % 2 * 2, 0x22, -1, 0)",
    "for i in range({n}): kept.append(mmap.mmap(-1, 4096))",
    "for i in range({n}): libc.mmap(None, 1 << 21, 0, 0x4022, -1, 0)",
    "kept.append(bytearray({n} << 10))",
    "kept.append(filled({n}))",
    "kept.append(filled({n}).madvise(mmap.MADV_DONTNEED))",
    "for i in range({n}): threading.Thread(target=nap, daemon=True).start()",
    "for i in range({n}): threading.Thread(target=spin, daemon=True).start()",
    "for i in range({n}): forked(nap)",
    "for i in range({n}): forked(spin)",
    "for i in range({n}): forked(os.setsid, nap)",
    "for i in range({n}): forked(lambda: forked(nap))",
    "for i in range({n}): forked()",
    "for i in range({n}): forked(lambda: kept.append(bytearray(4 << 20)), nap)",
    "for i in range({n}): kept.append(os.dup(1))",
    "for i in range({n}): kept.append(os.pipe())",
    "for i in range({n}): kept.append((select.epoll(), os.eventfd(1)))",
    "for i in range({n}): kept.append(socket.socketpair())",
    "for i in range({n}): forked(lambda: sent(socket.socketpair()), nap)",
    "for i in range({n}): kept.append(open(f'f{{i}}', 'w'))",
    "for i in range({n}): open(f'g{{i}}', 'wb').write(bytes(1 << 20))",
    "for i in range({n}): os.mkdir('d' * 99); os.chdir('d' * 99)",
    "for i in range({n}): os.mkfifo(f'p{{i}}')",
    "os.chmod('.', 0)",
    "killed_each({signal})",
    "os.kill(os.getppid(), {signal})",
    "os.killpg(0, {signal})",
    "os.kill(-1, {signal})",
    "os.kill(os.getpid(), {signal})",
    "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "for s in range(1, 65): libc.signal(s, ctypes.c_void_p(1))",
    "for i in range({n}): libc.sigqueue(os.getpid(), 40, None)",
    "signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)",
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "for w in range(16): resource.setrlimit(w, ({n}, {n}))",
    "subprocess.Popen(['sleep', '99'], start_new_session=True)",
    "os.execvp('sleep', ['sleep', '99'])",
    "os.closerange(0, {n})",
    "libc.prctl(15, b'\\xff) 1 2 3')",
    "os.write(1, bytes({n} << 8))",
    "os.ftruncate(1, {n} << 16)",
    "sys.setrecursionlimit({n} * 9); f = lambda: f(); f()",
    "os.nice(19)",
    "libc.sched_setaffinity(os.getppid(), 8, b'\\1' + bytes(7))",
    "libc.setpriority(0, os.getppid(), 19)",
]
ENDS = ["nap()", "spin()", "os._exit(0)", "sys.exit(1)", "os.abort()", "signal.pause()", ""]


def program(rng: random.Random) -> str:
    lines = [PREAMBLE]
    for action in rng.sample(ACTIONS, rng.randint(1, 5)):
        number = rng.choice((1, 15, 19, 11, 2, 6, 20, 23))
        text = action.format(n=rng.choice((3, 100, 3000, 60_000)), signal=number)
        body = "\n".join(f"    {line}" for line in text.split("\n"))
        lines.append(f"try:\n{body}\nexcept (OSError, RuntimeError, MemoryError, ValueError): pass")
    return "\n".join([*lines, rng.choice(ENDS)])


def cpu_time(pid: int) -> float:
    """Seconds of CPU time that a process itself has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def take_everything(seeds: range) -> None:
    """Judge a program of each seed in one sandbox, which must be as good afterwards."""
    with Evaluator(workers=1) as evaluator:
        worker = evaluator._sandboxes.workers[0]
        (zygote,), sandbox = levels(worker.pid)[0], worker.pid
        for seed in seeds:
            code, before = program(random.Random(seed)), cpu_time(zygote)
            test = Submission(code, [StdioTest("", "")], LIMIT_S, LIMIT_MB)
            result = evaluator.evaluate([test])[0].tests[0]
            used = cpu_time(zygote) - before
            told = seed, result, used, code
            assert result.verdict in VERDICTS, told
            assert used < LIMIT_S + 2, told
            assert worker.pid == sandbox, told
            assert eventually(lambda: len(levels(sandbox)) == 1), told
            right = Submission(f"print(len(input())) # {seed}", [StdioTest("abc\n", "3")], 20)
            assert evaluator.evaluate([right])[0].passed, told


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_what_a_submission_takes_is_never_our_failure(first):
    take_everything(range(first, first + 15))


TAKE = "from tests.evaluator.test_resources import *\nfrom tests.evaluator.machines import *\n"


@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "user"])
def test_nor_is_it_in_a_container(user):
    run(f"{TAKE}enter_container()\ntake_everything(range(100, 130))", *elsewhere(user))
