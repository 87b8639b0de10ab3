"""Files, ends of processes and messages, also where the kernel refuses the calls meant for them.

Standard library only: the zygote loads this file. Each feature is tried, and where it is refused
(often by a container's filter) done in a way that works everywhere.
"""

import contextlib
import json
import os
import resource
import socket
import time
from collections.abc import Sequence
from typing import Any

MAX_PACKET = 1 << 16
SHARED_USER_PROCESSES = 512  # beyond those the user has, where the limit counts all of them
# A test that waits for a processor does not use up its wall time, but ends after so many times it.
MOST_WALL = 5


def wall_limit(cpu_s: float) -> float:
    """Seconds that may pass, by the limit on CPU time."""
    return 2 * cpu_s + 1


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


def read_all(descriptor: int) -> bytes:
    """The whole content of a file."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def write_all(descriptor: int, content: bytes) -> None:
    """Write from the start of a file."""
    done = 0
    while done < len(content):
        done += os.pwrite(descriptor, memoryview(content)[done:], done)


def limit(which: int, value: int) -> None:
    """Lower both limits of a resource, as far as they are not lower already.

    Raises:
        OSError: the system refuses this limit.
    """
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


def in_fork(action: Any, *args: Any) -> None:
    """Do something that cannot be undone in a process of its own, to see whether it works.

    Raises:
        OSError: it does not, with the reason.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            action(*args)
            os._exit(0)
        except BaseException as error:
            os.write(writer, str(error).encode()[:500])
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as file:  # noqa: PTH123
        why = file.read().decode()
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError(why or "the system refuses it")


def fork() -> int:
    """`os.fork`, for a while also where others have taken all processes that there can be.

    Raises:
        OSError: they keep them.
    """
    for _ in range(_FORK_ATTEMPTS):
        with contextlib.suppress(BlockingIOError):
            return os.fork()
        time.sleep(_FORK_PAUSE_S)
    return os.fork()


_FORK_ATTEMPTS, _FORK_PAUSE_S = 20, 0.1


# The end of a process ---------------------------------------------------------------------------

Ended = dict[int, tuple[int, Any]]  # status and resource usage by process id


def reap(pid: int, ended: Ended, options: int = 0) -> bool:
    """Take note of a child's end, once; whether it has ended."""
    if pid not in ended:
        found, status, usage = os.wait4(pid, options)
        if found == pid:
            ended[pid] = status, usage
    return pid in ended


# Messages ---------------------------------------------------------------------------------------


class Channel:
    """JSON messages in turn, each with a fixed number of descriptors, over a stream socket.

    A message is a line. (Packet sockets, which would need no lines, are not everywhere.)
    """

    def __init__(self, connection: socket.socket, files: int = 0) -> None:
        self.socket = connection
        self._files = files
        self._data = b""  # of messages that have come in after the last one that was asked for
        self._received: list[int] = []

    def send(self, message: "dict[str, Any]", files: Sequence[int] = ()) -> None:
        """Send one message.

        Raises:
            OSError: the other end is gone, or has not room for it.
        """
        data = json.dumps(message).encode() + b"\n"
        if socket.send_fds(self.socket, [data], files) < len(data):
            raise OSError("the message is too long")

    def receive(self) -> "tuple[dict[str, Any], list[int]]":
        """The next message with its descriptors.

        Raises:
            TimeoutError: none has arrived within the socket's time.
            EOFError: the other end was closed.
            ValueError: what arrived is no message.
        """
        while b"\n" not in self._data:
            part, files, _, _ = socket.recv_fds(self.socket, MAX_PACKET, 2 * self._files)
            if not part:
                raise EOFError("the other end is gone")
            self._data += part
            self._received += files
        data, _, self._data = self._data.partition(b"\n")
        files, self._received = self._received[: self._files], self._received[self._files :]
        return json.loads(data), files
