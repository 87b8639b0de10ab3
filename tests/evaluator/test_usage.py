"""What a sandbox as a whole uses is counted, by a control group or by the sum of its processes."""

import os
import re
from pathlib import Path

import pytest

from benchmarks.suite.reader import blocks
from mcbench.evaluator import StdioTest, Submission
from mcbench.evaluator.usage import BY_GROUP, Group
from tests.evaluator.machines import run
from tests.evaluator.processes import eventually

# Two seconds of CPU time in children that nobody waits for.
UNWAITED = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range({count}):
    if os.fork() == 0:
        while time.process_time() < {each}: pass
        os._exit(0)
    time.sleep({each})
"""
SHARED = """
import mmap, os, time
for _ in range({processes}):
    if os.fork() == 0:
        data = mmap.mmap(-1, {size} << 20)
        for start in range(0, len(data), 1 << 20):
            for at in range(start, start + (1 << 20), 4096): data[at] = 1
            data.madvise(mmap.MADV_DONTNEED, start, 1 << 20)
        time.sleep({pause})
        os._exit(0)
time.sleep({pause})
"""
NAPPING = """
import threading, time
def nap():
    while True: time.sleep(0.001)
for _ in range(40): threading.Thread(target=nap, daemon=True).start()
print(flush=True)
time.sleep(99)
"""
MEASURE_NAPS = """
import subprocess, sys, time
from mcbench.evaluator.isolation import Layers
from mcbench.evaluator.usage import Meter
from tests.evaluator.machines import run
from tests.evaluator.processes import eventually
with subprocess.Popen([sys.executable, "-c", {program!r}], stdout=subprocess.PIPE) as process:
    try:
        started = time.monotonic()
        assert process.stdout.readline()
        meter = Meter(Layers(), [process.pid])
        assert eventually(lambda: meter.waited() > 0 or time.monotonic() > started + 1)
        assert meter.waited() <= time.monotonic() - started
    finally:
        process.kill()
"""


@pytest.fixture
def group():
    try:
        made = Group()
    except OSError as error:
        pytest.skip(f"no control group: {error}")
    yield made
    made.remove()


def test_time_of_children_nobody_waits_for(evaluator):
    code = UNWAITED.format(count=50, each=0.04)
    test = evaluator.evaluate([Submission(code, [StdioTest("", "")], 1.0)])[0].tests[0]
    assert (test.verdict, test.message) == ("TLE", "used more than 1 s of CPU time")
    assert test.time_s > 1


def test_a_group_counts_the_shortest_children(group, evaluator):
    assert BY_GROUP in evaluator.isolation["granted"]
    code = UNWAITED.format(count=400, each=0.005)
    test = evaluator.evaluate([Submission(code, [StdioTest("", "")], 1.0)])[0].tests[0]
    assert test.verdict == "TLE"


def test_a_group_counts_all_that_was_ever_in_it_and_goes(group):
    before = group.cpu_time()
    pid = os.fork()
    if pid == 0:
        group.join()
        exec(UNWAITED.format(count=5, each=0.02))
        os._exit(0)
    os.waitpid(pid, 0)
    assert eventually(lambda: group.cpu_time() - before > 0.1)
    assert Path(group.path).is_dir()
    assert re.fullmatch("mcbench-[0-9a-f]{12}", Path(group.path).name)  # tests can read it
    assert eventually(lambda: (group.remove(), not Path(group.path).exists())[1])


def test_no_group_is_a_reason(tmp_path):
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    with pytest.raises(OSError, match="no control groups"):
        Group(mounts=str(tmp_path / "mounts"))


def test_shared_memory_that_no_process_shows(evaluator):
    code = SHARED.format(processes=3, size=200, pause=9)
    test = evaluator.evaluate([Submission(code, [StdioTest("", "")], 5.0, 128)])[0].tests[0]
    assert test.verdict == "MLE"
    assert test.memory_mb > 128


def test_the_kinds_of_memory_add_up(evaluator):
    # Threads, processes and what these share are each within the limit. No group is asked.
    code = dict(blocks("programs/harm"))["memory_of_every_kind"]
    result = evaluator.evaluate([Submission(code, [StdioTest("", "")], 5.0, 128)])[0].tests[0]
    assert result.verdict == "MLE", result
    assert 128 < result.memory_mb < 256


def test_memory_shared_within_the_limit_is_right(evaluator):
    code = SHARED.format(processes=3, size=10, pause=0.2)
    test = evaluator.evaluate([Submission(code, [StdioTest("", "")], 5.0, 128)])[0].tests[0]
    assert test.verdict == "AC", test
    assert test.memory_mb > 30


def test_naps_do_not_stretch_the_wall_time():
    # In a process of its own: all that descends from who measures belongs to the test.
    run(MEASURE_NAPS.format(program=NAPPING))
