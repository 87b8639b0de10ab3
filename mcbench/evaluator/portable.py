"""Files, ends of processes and messages, also where the kernel refuses the calls meant for them.

Standard library only: the zygote loads this file. Each feature is tried, and where it is refused
(often by a container's filter) done in a way that works everywhere.
"""

import collections
import contextlib
import json
import os
import resource
import select
import signal
import socket
import struct
import time
from typing import Any

MAX_PACKET = 1 << 16
SHARED_USER_PROCESSES = 512  # beyond those the user has, where the limit counts all of them
# A test that waits for a processor does not use up its wall time, but ends after so many times it.
MOST_WALL = 5
_PIDS = struct.Struct("=2i")
_SHORTEST_POLL_MS, _POLLS = 1, 8


def memory_file(name: str) -> int:
    """An empty file that no name leads to: in memory, or a temporary one already removed.

    Raises:
        OSError: neither could be made.
    """
    with contextlib.suppress(OSError, AttributeError):
        return os.memfd_create(name)
    import tempfile  # rarely needed

    descriptor, path = tempfile.mkstemp(prefix="mcbench-")
    os.unlink(path)  # noqa: PTH108
    os.fchmod(descriptor, 0o666)  # a sandbox's user may open it as /dev/stdin
    return descriptor


def limit(which: int, value: int, hard: "int | None" = None) -> None:
    """Lower both limits of a resource, as far as they are not lower already.

    ``hard`` is its present hard limit, for a caller that knows it.

    Raises:
        OSError: the system refuses this limit.
    """
    if hard is None:
        hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(which, (value, value))
    except ValueError as error:  # how Python words some refusals
        raise OSError(f"setrlimit: {error}") from None


def processes_of_user() -> int:
    """How many processes and threads this user has.

    Raises:
        OSError: the system does not tell.
    """
    import subprocess  # rarely needed

    done = subprocess.run(["ps", "-eLo", "uid="], capture_output=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ps: exit status {done.returncode}")
    return done.stdout.split().count(str(os.getuid()).encode())


def in_fork(action: Any) -> None:
    """Do something that cannot be undone in a process of its own, to see whether it works.

    Raises:
        OSError: it does not, with the reason.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except BaseException as error:
            os.write(writer, str(error).encode()[:500])
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as file:  # noqa: PTH123
        why = file.read().decode()
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError(why or "the system refuses it")


# The end of a process ---------------------------------------------------------------------------

Ended = dict[int, tuple[int, Any]]  # status and resource usage by process id


class ChildWatch:
    """Waits for a child, and for the hang-up of the control socket, at the same time.

    Without ``handles`` (pidfd) it asks again and again: each time after an eighth of the time that
    has passed, so that a short test waits little and a long one costs little.
    """

    def __init__(self, pid: int, control: socket.socket, handles: bool, ended: Ended) -> None:
        self.pid = pid
        self.ended = ended
        self.started = time.monotonic()
        self.poller = select.poll()
        self.poller.register(control, 0)
        self.handle = os.pidfd_open(pid) if handles else -1
        if handles:
            self.poller.register(self.handle, select.POLLIN)

    def wait(self, milliseconds: int) -> "str | None":
        """What happened first: "ended", "hang-up" or, within the time, nothing."""
        if self.handle < 0:
            passed = int((time.monotonic() - self.started) * 1000)
            milliseconds = min(milliseconds, max(_SHORTEST_POLL_MS, passed // _POLLS))
        ready = [descriptor for descriptor, _ in self.poller.poll(milliseconds)]
        if self.handle in ready or (self.handle < 0 and reap(self.pid, self.ended, os.WNOHANG)):
            return "ended"
        return "hang-up" if ready else None

    def close(self) -> None:
        """Let go of the handle."""
        if self.handle >= 0:
            os.close(self.handle)


def reap(pid: int, ended: Ended, options: int = 0) -> bool:
    """Take note of a child's end, once; whether it has ended."""
    if pid not in ended:
        found, status, usage = os.wait4(pid, options)
        if found == pid:
            ended[pid] = status, usage
    return pid in ended


def peak_memory(usage: Any) -> int:
    """Peak resident memory in bytes, from what `os.wait4` reports."""
    return int(usage.ru_maxrss) * 1024


def kill_groups(pids: "list[int]", ended: Ended) -> None:
    """Kill the process groups that tests lead, and the tests themselves."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if pid not in ended:  # else the number may be another's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


class Lifeline:
    """A pipe from the zygote to its supervisor: it closes when the zygote ends, however it does.

    The zygote writes which tests it runs, for a supervisor that has no other way to find them. Its
    children close their copy before they run a submission.
    """

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.running: list[int] = []

    def tell(self, pids: "list[int]") -> None:
        """In the zygote: these tests run now."""
        with contextlib.suppress(OSError):  # no supervisor: the evaluator's end is seen anyway
            os.write(self.writer, _PIDS.pack(*[*pids, 0, 0][:2]))

    def broken(self, seconds: float) -> bool:
        """In the supervisor: whether the zygote ended within that time."""
        if not select.select([self.reader], [], [], seconds)[0]:
            return False
        if data := os.read(self.reader, 512 * _PIDS.size):
            self.running = [pid for pid in _PIDS.unpack(data[-_PIDS.size :]) if pid]
        return not data


# Messages ---------------------------------------------------------------------------------------


class Channel:
    """JSON messages, each with a fixed number of descriptors, over a stream socket.

    A message is a line. (Packet sockets, which would need no lines, are not everywhere.)
    """

    def __init__(self, connection: socket.socket, files: int = 0) -> None:
        self.socket = connection
        self._files = files
        self._data = b""
        self._received: collections.deque[int] = collections.deque()

    def send(self, message: "dict[str, Any]", files: "list[int] | None" = None) -> None:
        """Send one message.

        Raises:
            OSError: the other end is gone, or has not room for it.
        """
        data = json.dumps(message).encode() + b"\n"
        if not files:
            self.socket.sendall(data)
        elif socket.send_fds(self.socket, [data], files) < len(data):
            raise OSError("the message is too long")

    def receive(self) -> "tuple[dict[str, Any], list[int]] | None":
        """The next message with its descriptors; None when the other end was closed.

        Raises:
            BlockingIOError: none has arrived, on a socket that does not wait.
            ValueError: what arrived is no message.
        """
        while b"\n" not in self._data:
            part, files, _, _ = socket.recv_fds(self.socket, MAX_PACKET, 2 * self._files)
            if not part:
                return None
            self._data += part
            self._received += files
        line, _, self._data = self._data.partition(b"\n")
        return json.loads(line), [self._received.popleft() for _ in range(self._files)]
