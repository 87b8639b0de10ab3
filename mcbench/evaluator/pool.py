"""The evaluator's side of a zygote: start it, talk to it without blocking, replace it."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcbench.evaluator import encoding

_log = logging.getLogger(__name__)
_ZYGOTE = Path(__file__).with_name("zygote.py")
# The main thread's stack cannot grow beyond what was set when its program was started, and deep
# recursion is legal.
_STACK_BYTES = 1 << 30
_START_SECONDS = 30.0
_GRACE_SECONDS = 10.0  # beyond a test's wall limit, before the zygote itself counts as dead

_said: set[str] = set()


@dataclass
class Job:
    """One test on its way: ``key`` is the scheduler's, ``wall_s`` the limit the zygote enforces."""

    key: tuple[int, int]
    request: bytes
    wall_s: float
    failures: int = 0
    deadline: float = 0.0


@dataclass
class Worker:
    """A zygote and the jobs it was given, in order.

    A job that is not at the head has not been started: when the zygote dies it is innocent.
    """

    jobs: deque[Job] = field(default_factory=deque)
    layers: dict[str, Any] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _socket: socket.socket | None = None
    _incoming: bytearray = field(default_factory=bytearray)
    _outgoing: bytearray = field(default_factory=bytearray)

    def start(self) -> None:
        """Start the zygote; `finish_start` waits until it is ready, so that several start at once.

        The environment is emptied: it may hold secrets, and hashing must not depend on it.
        """
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-s", "-P", "-B", str(_ZYGOTE), str(theirs.fileno())]
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
        self._socket = ours
        self._incoming.clear()
        self._outgoing.clear()

    def finish_start(self) -> None:
        """Wait for the zygote's greeting, which names the isolation layers it got.

        Raises:
            RuntimeError: the zygote did not come up.
        """
        assert self._socket is not None
        self._socket.settimeout(_START_SECONDS)
        greeting = None
        with contextlib.suppress(OSError):
            while greeting is None and (data := self._socket.recv(1 << 16)):
                self._incoming += data
                greeting = encoding.parse_frame(self._incoming)
        if greeting is None:
            self.stop()
            raise RuntimeError("a sandbox process of the evaluator could not be started")
        self.layers = greeting[0]
        for layer, reason in self.layers["missing"].items():
            if layer not in _said:
                _said.add(layer)
                _log.warning("code runs without isolation layer %r: %s", layer, reason)
        self._socket.setblocking(False)

    @property
    def pid(self) -> int:
        """Process id of the zygote's supervisor."""
        assert self._process is not None
        return self._process.pid

    def fileno(self) -> int:
        """The control socket, for a selector."""
        assert self._socket is not None
        return self._socket.fileno()

    @property
    def has_output(self) -> bool:
        """Whether bytes wait to be written."""
        return bool(self._outgoing)

    def give(self, job: Job) -> None:
        """Hand over one more job."""
        if not self.jobs:
            job.deadline = time.monotonic() + job.wall_s + _GRACE_SECONDS
        self.jobs.append(job)
        self._outgoing += job.request
        self.write()

    def write(self) -> None:
        """Send what the socket takes now.

        Raises:
            OSError: the zygote is gone.
        """
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while self._outgoing:
                sent = self._socket.send(memoryview(self._outgoing)[: 1 << 20])
                del self._outgoing[:sent]

    def read(self) -> list[tuple[Job, dict[str, Any], bytes]]:
        """The outcomes that have arrived, each with its job.

        Raises:
            OSError: the zygote is gone.
            ValueError: it sent something that is no outcome.
        """
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self._socket.recv(1 << 20)
                if not data:
                    raise ConnectionResetError("the zygote ended")
                self._incoming += data
                if len(data) < 1 << 16:
                    break
        outcomes = []
        while (message := encoding.parse_frame(self._incoming)) is not None:
            header, body = message
            if not self.jobs or list(self.jobs[0].key) != header.get("id"):
                raise ValueError("an outcome that belongs to no job")
            outcomes.append((self.jobs.popleft(), header, body))
            if self.jobs:
                self.jobs[0].deadline = time.monotonic() + self.jobs[0].wall_s + _GRACE_SECONDS
        return outcomes

    @property
    def overdue(self) -> bool:
        """Whether the zygote missed the deadline of the job it runs."""
        return bool(self.jobs) and time.monotonic() > self.jobs[0].deadline

    def stop(self) -> None:
        """Kill the zygote and everything below it. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            # The supervisor ends by itself once the zygote has seen the closed socket; if it does
            # not, its death takes the zygote and the pid namespace along.
            try:
                self._process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self.jobs.clear()


@contextlib.contextmanager
def _large_stack() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = _STACK_BYTES if hard == resource.RLIM_INFINITY else min(_STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
