"""The evaluator's side of a zygote: start it, have it run a job, replace it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcbench.evaluator import portable, usage
from mcbench.evaluator.isolation import MAX_PROCESSES, in_words

_log = logging.getLogger(__name__)
_ZYGOTE = Path(__file__).with_name("zygote.py")
_START_SECONDS = 30.0
_START_PAUSE_S = 1.0
_GRACE_SECONDS = 10.0  # beyond a test's longest time, before the zygote itself counts as dead
_POLL_SECONDS = 0.25
# What a zygote without a namespace leaves its supervisor kills, on a busy machine.
_CLEARING_SECONDS = 60.0

ATTEMPTS = 5  # to replace one
_STDERR_KEPT = 4096
COMPARING = "comparing"  # the flavour of workers that run no program

_said: set[str] = set()


class CancelledError(Exception):
    """The call was given up while a job ran."""


@dataclass(eq=False)
class Job:
    """One run in a sandbox: ``request`` describes it.

    Program, input and outputs are nameless files that both sides hold, in memory where there are
    such; only their descriptors and ``request`` pass through the socket.
    """

    request: dict[str, Any]
    code: bytes | int  # a number is the descriptor of a file that is there
    data: bytes
    flavour: str = "plain"  # of the worker that is to run it
    files: list[int] = field(default_factory=list)
    attempts: int = 0
    test: tuple[int, int] = 0, 0  # the number of its submission, and its own in that
    outcome: dict[str, Any] = field(default_factory=dict)  # how it ended, once it has

    def open(self) -> None:
        """Fresh files, also for a repeated run: the first may have written to all of them."""
        self.close()
        given = {"code": self.code, "input": self.data}
        for name in ("code", "input", "stdout", "stderr", "result"):
            content = given.get(name, b"")
            if isinstance(content, int):
                self.files.append(os.dup(content))
            else:
                self.files.append(portable.memory_file(name))
                portable.write_all(self.files[-1], content)

    # What was written is to be read before `close`, and nothing before its size was seen.

    @property
    def stdout(self) -> int:
        """The file that standard output went to."""
        return self.files[2]

    @property
    def result(self) -> int:
        """The file for what a function returned, a test or a comparison has found."""
        return self.files[4]

    @property
    def largest(self) -> int:
        """Bytes in the largest of the files written to."""
        return max(map(size_of, self.files[2:]))

    def last_error(self) -> str:
        """The end of standard error."""
        start = max(0, size_of(self.files[3]) - _STDERR_KEPT)
        return os.pread(self.files[3], _STDERR_KEPT, start).decode("utf-8", "replace")

    def last_line(self) -> str:
        """Of standard error."""
        return self.last_error().strip().rsplit("\n", 1)[-1][:300]

    def close(self) -> None:
        """Let go of the files. Idempotent."""
        while self.files:
            os.close(self.files.pop())


def size_of(descriptor: int) -> int:
    """Bytes in a file."""
    return os.fstat(descriptor).st_size


@dataclass(eq=False)
class Worker:
    """A zygote, which runs one job at a time, in the order in which they were begun.

    ``flavour`` is what the zygote has loaded: "plain" for the usual modules of the standard
    library, "numpy" or "pytest" for that as well, COMPARING for what compares answers and runs no
    program.
    """

    flavour: str = "plain"
    layers: dict[str, Any] = field(default_factory=dict)
    running: bool = False  # a zygote was started and not stopped since
    _process: subprocess.Popen[bytes] = field(init=False)
    channel: portable.Channel = field(init=False)  # which takes the request and files of a job
    _zygote_pid: int = 0  # where it is not in a pid namespace of its own

    def start(self, attempts: int = 1) -> None:
        """Start the zygote, in place of one that there may be.

        Raises:
            RuntimeError: none came up in so many attempts.
        """
        for attempt in range(attempts):
            self.stop()
            if attempt:
                time.sleep(_START_PAUSE_S)
            try:
                return self._start()
            except (OSError, EOFError) as error:
                why = error
        self.stop()
        raise RuntimeError(f"a sandbox process of the evaluator could not be started: {why}")

    def _start(self) -> None:
        """Start it, and wait for its greeting, which names the isolation layers it got.

        The environment is emptied: it may hold secrets, and hashing must not depend on it.

        Raises:
            OSError: others have taken all processes that there can be, or it does not answer.
            EOFError: it has ended.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        command = [sys.executable, "-I", "-S", "-B", str(_ZYGOTE), str(theirs.fileno())]
        # Not what path files add, such as this project's own folder.
        packages = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
        environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.channel = portable.Channel(ours)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*command, self.flavour, *dict.fromkeys(packages)],
                    pass_fds=[theirs.fileno()],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        self.running = True
        ours.settimeout(_START_SECONDS)
        self.layers, _ = self.channel.receive()
        self._zygote_pid = self.layers.pop("pid")
        _say(self.layers)
        ours.settimeout(_POLL_SECONDS)

    @property
    def pid(self) -> int:
        """Process id of the zygote's supervisor."""
        return self._process.pid

    def see_to(self) -> None:
        """Start a zygote where there is none yet, where it was killed or could not be started."""
        if not self.running or self._process.poll() is not None:
            self.start(ATTEMPTS)

    def end(self, job: Job, cancelled: threading.Event) -> dict[str, Any]:
        """How a job ended: the first of those begun that have not. Its files hold then what it has
        written. Where the zygote is gone or overdue, the worker is not running then.

        Raises:
            CancelledError: so was the call; the zygote still runs the job.
        """
        longest = portable.MOST_WALL * portable.wall_limit(job.request["cpu_s"])
        deadline = time.monotonic() + longest + _GRACE_SECONDS
        while True:
            try:
                return self.channel.receive()[0]
            except TimeoutError:
                if cancelled.is_set():
                    raise CancelledError from None
                if time.monotonic() <= deadline:
                    continue
                outcome = self._overdue(job.request)
            except (OSError, EOFError, ValueError) as error:
                outcome = {"failure": f"the sandbox process died: {error}"}
            self.stop()
            return outcome

    def _overdue(self, request: dict[str, Any]) -> dict[str, Any]:
        """How a job ended whose zygote does not answer. A test that takes all of its time,
        with many processes, keeps it from that, which is seen from here, too.
        """
        tests = usage.descendants(self._zygote_pid or self.pid)
        if not self._zygote_pid:
            tests = tests[1:]  # the first is the zygote, whose number only its supervisor knows
        cpu_s = 0.0
        for pid in tests:
            with contextlib.suppress(OSError):
                cpu_s += usage.cpu_time_of(pid)
        crowded = len(tests) >= MAX_PROCESSES // 2
        if not crowded and cpu_s <= request["cpu_s"]:
            return {"failure": "the sandbox process did not answer"}
        stopped = "crowded" if crowded else "time"
        wall_s = portable.MOST_WALL * portable.wall_limit(request["cpu_s"])
        ended = {"status": -int(signal.SIGKILL), "stopped": stopped}
        return ended | {"cpu_s": cpu_s, "wall_s": wall_s, "memory_mb": 0.0}

    def stop(self) -> None:
        """Kill the zygote and everything below it. Idempotent."""
        if self.running:
            self.running = False
            self.channel.socket.close()
            # The supervisor ends by itself once the zygote has seen the closed socket, or was
            # killed; if it does not, its death takes the zygote and the pid namespace along.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1.0)
            if self._zygote_pid and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._zygote_pid, signal.SIGKILL)  # the supervisor's, so still its own
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=_CLEARING_SECONDS)
            self._process.kill()
            self._process.wait()


def _say(layers: dict[str, Any]) -> None:
    """Tell what the machine refuses: once in this process."""
    if not layers["missing"].keys() <= _said:
        _said.update(layers["missing"])
        _log.warning("sandboxes: %s", in_words(layers["granted"], layers["missing"]))
