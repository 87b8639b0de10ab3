"""The lock of a run: live owners are respected, dead ones are not, here and on other machines."""

import json
import multiprocessing
import os
import signal
import time

import pytest

from mcbench import files
from mcbench.errors import UserError
from mcbench.files import ProcessLock

LONG_AGO = (0, 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def as_host(monkeypatch):
    """Takes the host name of another machine."""
    return lambda name: monkeypatch.setattr(files.socket, "gethostname", lambda: name)


@pytest.fixture
def held(path):
    """A process that holds the lock under the host name it is given, and a pipe to it."""
    started = []

    def hold(host):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(
            target=_hold, args=(path, host, there)
        )
        process.start()
        started.append(process)
        assert here.recv() == "held"
        return process, here

    yield hold
    for process in started:
        process.kill()
        process.join()


def _hold(path, host, pipe):
    files.socket.gethostname = lambda: host
    lock = ProcessLock(path)
    lock.acquire()
    pipe.send("held")
    pipe.recv()
    try:
        lock.check()
    except UserError as error:
        pipe.send(str(error))


def test_another_machines_lock_is_its_own_while_it_gives_signs_of_life(path, held):
    process, _ = held("node1")
    message = (
        rf"process {process.pid} on node1 is already training .* last sign of life is \d s old"
    )
    with pytest.raises(UserError, match=message):
        ProcessLock(path).acquire()
    process.kill()  # which nobody on this machine can see
    process.join()
    with pytest.raises(UserError, match="on node1"):
        ProcessLock(path).acquire()
    os.utime(path, (time.time(), time.time() - 601))
    mine = ProcessLock(path)
    taken = f"taken over from process {process.pid} on node1"
    assert mine.acquire() == f"{taken}, which has given no sign of life for 10 min"
    assert mine.owner()["pid"] == os.getpid()


def test_a_process_that_was_taken_for_dead_stops(path, held):
    process, pipe = held("node1")
    os.kill(process.pid, signal.SIGSTOP)
    os.utime(path, LONG_AGO)
    ProcessLock(path).acquire()
    os.kill(process.pid, signal.SIGCONT)
    pipe.send("go on")
    assert pipe.recv() == "another process has taken over this run: it goes on, or has ended, there"


def test_a_lock_of_this_machine_needs_no_heartbeat(path, held):
    process, _ = held(files.socket.gethostname())
    os.utime(path, LONG_AGO)
    with pytest.raises(UserError, match=f"process {process.pid} .*; wait for it$"):
        ProcessLock(path).acquire()
    process.kill()
    process.join()
    assert ProcessLock(path).acquire() is None


def test_a_lock_from_before_this_machine_was_started_is_taken_over(path):
    lock = ProcessLock(path)
    lock.acquire()
    mine = lock.owner()
    path.write_text(json.dumps({**mine, "boot": "an earlier one"}))
    assert lock.owner() is None
    assert ProcessLock(path).acquire() is None


def test_locks_of_earlier_versions_are_read(path, as_host):
    lock = ProcessLock(path)
    lock.acquire()
    path.write_text(json.dumps({k: v for k, v in lock.owner().items() if k != "boot"}))
    assert lock.owner()["pid"] == os.getpid()
    as_host("node1")
    assert lock.owner() is not None
    os.utime(path, LONG_AGO)
    assert "no sign of life" in ProcessLock(path).acquire()


def test_the_owner_renews_the_heartbeat_until_it_lets_go(path, monkeypatch):
    monkeypatch.setattr(files, "BEAT_SECONDS", 0.001)
    lock = ProcessLock(path)
    lock.acquire()
    os.utime(path, LONG_AGO)
    deadline = time.monotonic() + 30
    while path.stat().st_mtime == 0:
        assert time.monotonic() < deadline
    lock.release()
    assert lock.owner() is None


def test_a_lock_that_another_took_and_let_go_is_lost_too(path):
    """Suspended, taken for dead, awake again after the other one has finished."""
    ours = ProcessLock(path)
    ours.acquire()
    path.write_text("")
    with pytest.raises(UserError, match="taken over this run"):
        ours.check()


def test_only_one_s_own_lock_is_let_go(path):
    ours = ProcessLock(path)
    ours.acquire()
    theirs = json.dumps({"pid": os.getpid(), "host": "elsewhere", "start": "1"})
    path.write_text(theirs)
    ours.release()
    assert path.read_text() == theirs


def test_a_released_or_damaged_lock_is_free(path):
    lock = ProcessLock(path)
    assert lock.owner() is None
    lock.acquire()
    lock.release()
    path.write_text('{"pid": 1')
    assert lock.owner() is None
    assert lock.acquire() is None
