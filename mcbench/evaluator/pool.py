"""The evaluator's side of a zygote: start it, talk to it without blocking, replace it."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcbench.evaluator import portable
from mcbench.evaluator.isolation import in_words
from mcbench.evaluator.submission import TestResult

_log = logging.getLogger(__name__)
_ZYGOTE = Path(__file__).with_name("zygote.py")
# The main thread's stack cannot grow beyond what was set when its program was started, and deep
# recursion is legal.
_STACK_BYTES = 1 << 30
_START_SECONDS = 30.0
_START_ATTEMPTS = 5
_GRACE_SECONDS = 10.0  # beyond a test's longest time, before the zygote itself counts as dead

_STDERR_KEPT = 4096
COMPARING = "comparing"  # the flavour of workers that run no program

_said: set[str] = set()


@dataclass(frozen=True)
class Outputs:
    """The files that a program wrote to. Nothing is read before its size was seen."""

    stdout: int
    stderr: int
    result: int

    @property
    def largest(self) -> int:
        """Bytes in the largest of them."""
        return max(map(size_of, (self.stdout, self.stderr, self.result)))

    def last_error(self) -> str:
        """The end of standard error."""
        start = max(0, size_of(self.stderr) - _STDERR_KEPT)
        return os.pread(self.stderr, _STDERR_KEPT, start).decode("utf-8", "replace")

    def last_line(self) -> str:
        """Of standard error."""
        return self.last_error().strip().rsplit("\n", 1)[-1][:300]


def size_of(descriptor: int) -> int:
    """Bytes in a file."""
    return os.fstat(descriptor).st_size


@dataclass
class Job:
    """One test on its way: ``key`` is the scheduler's, ``request`` its description.

    Program, input and outputs are nameless files that both sides hold, in memory where there are
    such; only their descriptors and ``request`` pass through the socket.
    """

    key: tuple[int, int]
    request: dict[str, Any]
    code: bytes
    data: bytes
    flavour: str = "plain"  # of the worker that is to run it
    stage: str = "run"  # of the judgement: what follows is a comparison or a checker's run
    ran: TestResult | None = None  # of a later stage: how the program itself went
    written: int = -1  # of a comparison: the file that the program wrote, instead of code
    failures: int = 0
    deadline: float = 0.0
    files: list[int] = field(default_factory=list)

    def open(self) -> None:
        """Fresh files, also for a repeated test: the first run may have written to all of them."""
        self.close()
        if self.written >= 0:
            self.files.append(os.dup(self.written))
        for name, content in (("code", self.code), ("input", self.data))[self.written >= 0 :]:
            self.files.append(portable.memory_file(name))
            write_all(self.files[-1], content)
        for name in ("stdout", "stderr", "result"):
            self.files.append(portable.memory_file(name))

    def outputs(self) -> Outputs:
        """What the test wrote; to be read before `close`."""
        return Outputs(*self.files[2:])

    def close(self) -> None:
        """Let go of the files. Idempotent."""
        while self.files:
            os.close(self.files.pop())


def write_all(descriptor: int, content: bytes) -> None:
    """Write from the start of a file."""
    done = 0
    while done < len(content):
        done += os.pwrite(descriptor, memoryview(content)[done:], done)


@dataclass(eq=False)
class Worker:
    """A zygote and the jobs it was given, in order.

    ``flavour`` is what the zygote has loaded: "plain" for the usual modules of the standard
    library, "numpy" for numpy as well, where it is installed, COMPARING for what compares answers
    and runs no program.

    A job that is not at the head has not been started: when the zygote dies it is innocent.
    """

    flavour: str = "plain"
    jobs: deque[Job] = field(default_factory=deque)
    layers: dict[str, Any] = field(default_factory=dict)
    running: bool = False  # a zygote was started and not stopped since
    _process: subprocess.Popen[bytes] = field(init=False)
    _channel: portable.Channel = field(init=False)
    _zygote_pid: int = 0  # where it is not in a pid namespace of its own

    def start(self) -> None:
        """Start the zygote; `finish_start` waits until it is ready, so that several start at once.

        The environment is emptied: it may hold secrets, and hashing must not depend on it.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        command = [sys.executable, "-I", "-S", "-B", str(_ZYGOTE), str(theirs.fileno())]
        command += [self.flavour, *_package_folders()]
        environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with theirs, _large_stack():
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._channel = portable.Channel(ours)
        self.running = True

    def finish_start(self) -> None:
        """Wait for the zygote's greeting, which names the isolation layers it got.

        Raises:
            RuntimeError: the zygote did not come up.
        """
        self._channel.socket.settimeout(_START_SECONDS)
        greeting = None
        with contextlib.suppress(OSError):
            greeting = self._channel.receive()
        if not greeting:
            self.stop()
            raise RuntimeError("a sandbox process of the evaluator could not be started")
        self.layers = greeting[0]
        self._zygote_pid = self.layers.pop("pid")
        _say(self.layers)
        self._channel.socket.setblocking(False)

    def restart(self) -> None:
        """Replace the zygote.

        Raises:
            RuntimeError: none came up in several attempts.
        """
        for _ in range(_START_ATTEMPTS - 1):
            with contextlib.suppress(RuntimeError):
                return self._start_anew()
        return self._start_anew()

    def _start_anew(self) -> None:
        self.stop()
        self.start()
        self.finish_start()

    @property
    def pid(self) -> int:
        """Process id of the zygote's supervisor."""
        return self._process.pid

    def fileno(self) -> int:
        """The control socket, for a selector."""
        return self._channel.socket.fileno()

    def give(self, job: Job) -> None:
        """Hand over one more job.

        Raises:
            OSError: the zygote is gone.
        """
        self.jobs.append(job)
        if len(self.jobs) == 1:
            self._start_clock()
        job.open()
        self._channel.send({**job.request, "id": job.key}, job.files)

    def read(self) -> tuple[list[tuple[Job, dict[str, Any]]], bool]:
        """The outcomes that have arrived, each with its job; whether the zygote is still there.

        One that was killed with jobs unread resets the connection: what it said before counts.
        """
        outcomes: list[tuple[Job, dict[str, Any]]] = []
        try:
            while received := self._channel.receive():
                outcome = received[0]
                if not self.jobs or list(self.jobs[0].key) != outcome.get("id"):
                    return outcomes, False  # it belongs to no job
                outcomes.append((self.jobs.popleft(), outcome))
                self._start_clock()
        except BlockingIOError:
            return outcomes, True
        except (OSError, ValueError):
            pass
        return outcomes, False

    def _start_clock(self) -> None:
        if self.jobs:
            head = self.jobs[0]
            longest = portable.MOST_WALL * head.request["wall_s"]
            head.deadline = time.monotonic() + longest + _GRACE_SECONDS

    @property
    def overdue(self) -> bool:
        """Whether the zygote missed the deadline of the job it runs."""
        return bool(self.jobs) and time.monotonic() > self.jobs[0].deadline

    def _kill_zygote(self) -> None:
        if self._zygote_pid:  # the supervisor's child, so the number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._zygote_pid, signal.SIGKILL)

    def stop(self) -> None:
        """Kill the zygote and everything below it. Idempotent."""
        if self.running:
            self.running = False
            self._channel.socket.close()
            # The supervisor ends by itself once the zygote has seen the closed socket, or was
            # killed; if it does not, its death takes the zygote and the pid namespace along.
            for kill in (self._kill_zygote, self._process.kill):
                try:
                    self._process.wait(timeout=1.0)
                except subprocess.TimeoutExpired:
                    kill()
            self._process.wait()
        for job in self.jobs:
            job.close()
        self.jobs.clear()


def _say(layers: dict[str, Any]) -> None:
    """Tell what the machine refuses: once in this process."""
    if not layers["missing"].keys() <= _said:
        _said.update(layers["missing"])
        _log.warning("sandboxes: %s", in_words(layers["granted"], layers["missing"]))


def started(workers: list[Worker]) -> list[Worker]:
    """Start workers side by side; all or none.

    Raises:
        RuntimeError: one did not come up.
    """
    with contextlib.ExitStack() as stack:
        for worker in workers:
            stack.callback(worker.stop)
            worker.start()
        for worker in workers:
            worker.finish_start()
        stack.pop_all()
    return workers


def _package_folders() -> list[str]:
    """Where installed packages are; not what path files add, such as this project's own folder."""
    return list(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")))


@contextlib.contextmanager
def _large_stack() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = _STACK_BYTES if hard == resource.RLIM_INFINITY else min(_STACK_BYTES, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
