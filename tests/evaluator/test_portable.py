"""Where the system refuses something: the same verdicts, said once, nothing left.

The kernel really refuses here: the evaluator runs in a process that a seccomp filter keeps from
single system calls. What may harm others runs as a user without rights in a pid namespace.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from benchmarks.suite import ATTACKS
from mcbench.evaluator import AssertTest, CallTest, Evaluator, StdioTest, Submission, pool, portable
from tests.evaluator.machines import ROOT, as_root, elsewhere, on_linux, run
from tests.evaluator.processes import alive, descendants, eventually, levels

EVERYTHING = "from tests.evaluator.test_portable import *\nfrom tests.evaluator.machines import *\n"
pytestmark = on_linux

WORLD = {"pid namespace", "own root"}
MISSING = {  # by refused calls: the layers that are then named
    ("memfd_create",): {"files in memory"},
    ("mount",): WORLD,
    ("pivot_root",): WORLD,
    ("unshare",): WORLD | {"network namespace", "ipc namespace"},
    ("unshare", "landlock_create_ruleset"): WORLD | {"file filter (Landlock)"},
    ("unshare", "memfd_create"): WORLD | {"files in memory", "file filter (Landlock)"},
    ("prctl",): {"system call filter (seccomp)"},
}
ONCE = (("memfd_create",), ("unshare",))  # the others take as long again, each

ECHO, ADD = [StdioTest("3\n", "3")], [CallTest("add", [1, 2], 3)]
CHECK = [AssertTest("assert candidate(1, 2) == 3", entry_point="add")]
CASES = [
    ("TLE", "import time\ntime.sleep(99)", ECHO),  # first: the others run meanwhile
    ("AC", "print(input())", ECHO),
    ("AC", "import sys\nprint(sys.stdin.buffer.read().decode())", ECHO),
    ("AC", "print(open('/dev/stdin').read())", ECHO),
    ("AC", "open('f', 'x').write('3')\nprint(open('f').read())", ECHO),
    ("AC", "open('f', 'x').write('3')\nprint(open('f').read()) # again", ECHO),
    ("AC", "import subprocess\nprint(subprocess.check_output(['cat']).decode())", ECHO),
    (
        "AC",
        "import os\nif os.fork() == 0:\n  os.fork()\n  import time\n  time.sleep(99)\nprint(3)",
        ECHO,
    ),
    ("WA", "print(4)", ECHO),
    ("RE", "print(3)\n1/0", ECHO),
    ("RE", "import os\nprint(3, flush=True)\nos.kill(os.getpid(), 9)", ECHO),
    ("TLE", "while True: pass", ECHO),
    ("MLE", "x = bytearray(10**10)", ECHO),
    ("MLE", "x = bytearray(150 << 20)\nprint(3)", ECHO),
    ("AC", "def add(a, b): return a + b", ADD),
    ("WA", "def add(a, b): return a - b", ADD),
    ("AC", "def add(a, b): return a + b", CHECK),
    ("WA", "def add(a, b): return a - b", CHECK),
    ("RE", "import sys\nsys.exit(0)", CHECK),
]
FLOOD = Submission("while True: print('3' * 10**6)", ECHO, memory_limit_mb=128)
HONEST = Submission("import os\nassert not os.listdir()\nopen('f', 'x')\nprint(input())", ECHO)
ENDLESS = Submission("while True: pass", ECHO, time_limit_s=50)


def judge_all() -> None:
    """In such a process: print the missing layers and which cases were misjudged."""
    # Only what is to exceed the time has little of it: on a busy machine the others take longer.
    limit = {"TLE": 0.3}
    submissions = [Submission(c, tests, limit.get(v, 20), 100) for v, c, tests in CASES]
    with Evaluator(workers=2) as evaluator:
        results = evaluator.evaluate([*submissions, FLOOD])
        missing = evaluator.isolation["missing"]
    Evaluator(workers=1).close()  # says nothing new
    wanted = [*(verdict for verdict, _, _ in CASES), "OLE"]
    verdicts = [result.verdicts[0] for result in results]
    wrong = [
        (*CASES[i][:2], str(results[i].tests[0])) if i < len(CASES) else str(results[i].tests[0])
        for i in range(len(wanted))
        if verdicts[i] != wanted[i]
    ]
    print(json.dumps({"missing": missing, "wrong": wrong, "left": len(descendants(os.getpid()))}))


@pytest.mark.parametrize(
    "calls", [pytest.param(c, marks=[pytest.mark.slow] * (c not in ONCE)) for c in MISSING]
)
def test_a_refused_feature_changes_no_verdict(calls):
    done = run(f"{EVERYTHING}refuse({calls})\njudge_all()")
    report = json.loads(done.stdout)
    assert (report["wrong"], report["left"]) == ([], 0)
    assert set(report["missing"]) >= MISSING[calls]
    for layer in report["missing"]:
        assert done.stderr.count(repr(layer)) == 1, done.stderr


def test_messages_that_arrive_together_are_told_apart():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender, receiver = portable.Channel(ours), portable.Channel(theirs, 1)
        for number, size in enumerate((100_000, 1, 0)):  # more than is read at once
            file = portable.memory_file("content")
            os.write(file, str(number).encode())
            sender.send({"number": number, "text": "x" * size}, [file])
            os.close(file)
        for number in range(3):
            message, (file,) = receiver.receive()
            assert message["number"] == number
            assert portable.read_all(file) == str(number).encode()
            os.close(file)


def test_a_killed_zygote_takes_its_test_along():
    others = descendants(os.getpid())
    with Evaluator(workers=1) as evaluator:
        seen: list[set[int]] = []

        def kill_once() -> bool:
            found = [level - others for level in levels(os.getpid())]
            if len(found) < 3 or not found[2]:
                return False
            seen.extend(found)
            os.kill(min(found[1]), signal.SIGKILL)
            return True

        killer = threading.Thread(target=eventually, args=(kill_once, 30))
        killer.start()
        slow = Submission("x = 0\nwhile x < 2 * 10**7: x += 1\nprint(3)", ECHO, time_limit_s=30)
        assert evaluator.evaluate([slow])[0].passed
        killer.join()
        assert eventually(lambda: not alive(set.union(*seen)))


def test_nothing_outlives_a_killed_evaluator(tmp_path):
    program = f"{EVERYTHING}\nwith Evaluator(workers=2) as e: e.evaluate([ENDLESS])"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = str(ROOT)
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, cwd=ROOT)
    try:
        assert eventually(lambda: len(levels(process.pid)) == 3, 60)
        sandboxes = descendants(process.pid)
    finally:
        process.kill()
        process.wait()
    assert eventually(lambda: not alive(sandboxes))
    assert eventually(lambda: list(tmp_path.iterdir()) == [])


# As a user without rights -----------------------------------------------------------------------


# The kernel sends a signal for us where there is something to read; a folder is a handle.
SIGNALS_BY_OTHERS = """
import ctypes, fcntl, os, signal, socket, struct
for pid in range(2, 400):
    for call, owner in ((fcntl.fcntl, 8), (fcntl.ioctl, 0x8901)):
        ours, theirs = socket.socketpair()
        try:
            if pid == os.getpid(): continue
            call(ours, owner, pid if owner == 8 else struct.pack("i", pid))
            fcntl.fcntl(ours, 10, signal.SIGKILL)  # F_SETSIG
            fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            theirs.send(b"x")
        except OSError: pass
    try:
        if pid != os.getpid(): signal.pidfd_send_signal(os.open(f"/proc/{pid}", 0), signal.SIGKILL)
    except OSError: pass
"""


def attack_all(names: list[str]) -> None:
    """In a process of that user: print the attacks that came through or did harm."""
    found = {case.id: case for case in ATTACKS}
    found["signals_by_others"] = replace(found["harm_kill_parent"], code=SIGNALS_BY_OTHERS)
    wrong = {}
    with Evaluator(workers=1) as evaluator:
        worker = evaluator._sandboxes.workers[0]
        sandbox = worker.pid
        for name in names:
            attack = evaluator.evaluate([found[name].submission])[0].tests[-1]
            after = evaluator.evaluate([HONEST])[0].tests[0]
            harmed = worker.pid != sandbox or len(descendants(sandbox)) != 1
            if attack.verdict not in found[name].verdicts or after.verdict != "AC" or harmed:
                wrong[name] = [str(attack), str(after), harmed]
                sandbox = worker.pid
    print(json.dumps(wrong))


GENTLE = ["harm_interrupts_parent", "harm_fork_bomb", "harm_shell_fork_bomb", "harm_zombies"]
GENTLE += ["harm_own_limits_to_zero", "harm_deaf_loop", "harm_memory_bomb", "harm_stopped_for_good"]
DAEMONS = ["harm_daemon", "harm_daemons_deaf_to_signals", "harm_own_subreaper"]
KILLERS = ["harm_kill_all", "harm_kill_parent", "harm_kill_group", "harm_stop_parent"]
KILLERS += ["signals_by_others"]


@as_root
@pytest.mark.parametrize(
    ("refused", "attacks"),
    [
        pytest.param(
            [],
            [*GENTLE, *DAEMONS, *KILLERS, "escape_other_processes", "state_files"],
            id="namespaces",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["unshare"],
            [*GENTLE, *DAEMONS, *KILLERS],
            id="filters",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["unshare", "landlock_create_ruleset"],
            KILLERS,
            id="seccomp",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_another_user_than_root(refused, attacks):
    program = f"{EVERYTHING}refuse({refused}, EPERM)\nattack_all({attacks})\njudge_all()"
    done = run(program, *elsewhere("user"))
    attacked, judged = map(json.loads, done.stdout.splitlines())
    assert attacked == {}
    assert judged["wrong"] == []


def starve(needed: int) -> None:
    """Where there are no namespaces: print the verdict on a bomb that keeps its zygote from
    running, and how many of its processes are left.
    """
    pool._GRACE_SECONDS, portable.MOST_WALL = 3.0, 0.1

    def hold_zygote() -> bool:
        for zygote in (levels(os.getpid())[1:2] or [set()])[0]:
            if len(descendants(zygote)) >= needed:
                os.kill(zygote, signal.SIGSTOP)
                return True
        return False

    bomb = {case.id: case for case in ATTACKS}["harm_fork_bomb"].submission
    with Evaluator(workers=1) as evaluator:
        holder = threading.Thread(target=eventually, args=(hold_zygote, 60))
        holder.start()
        result = evaluator.evaluate([bomb])[0].tests[0]
        holder.join()
        left = descendants(os.getpid()) - set.union(*levels(os.getpid())[:2])
    print(json.dumps([result.verdict, result.message, len(left)]))


@as_root
@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "user"])
def test_a_bomb_that_starves_its_sandbox_is_judged_and_ends(user):
    program = f"{EVERYTHING}refuse(['unshare'])\nstarve(80)"
    verdict, message, left = json.loads(run(program, *elsewhere(user)).stdout)
    assert (verdict, left) == ("MLE", 0), message


def litter() -> None:
    """Print the verdicts after a program that leaves much in a folder it locks; whether it took
    its sandbox along.
    """
    code = "import os\nfor i in range(20_000): os.mkdir(f'd{i}')\nos.chmod('.', 0)"
    with Evaluator(workers=1) as evaluator:
        worker = evaluator._sandboxes.workers[0]
        sandbox = worker.pid
        given = [Submission(code, [StdioTest("", "")], 20), HONEST]
        verdicts = [result.verdicts[0] for result in evaluator.evaluate(given)]
    print(json.dumps([*verdicts, worker.pid == sandbox]))


@as_root
@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "user"])
def test_what_takes_long_to_remove_holds_nobody_up(user):
    program = f"{EVERYTHING}refuse(['unshare'])\nlitter()"
    verdict, *others = json.loads(run(program, *elsewhere(user)).stdout)
    assert verdict in ("AC", "MLE")
    assert others == ["AC", True]
