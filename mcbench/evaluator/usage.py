"""What a running test uses: CPU time, memory, time spent waiting for a processor.

Standard library only: the zygote loads this file. Totals of the pid namespace, of which every
process belongs to the test: what one of them had used when it was last seen stays counted. Where
the machine grants a control group (version 2), the group's own total of CPU time counts as well,
which no process can leave.
"""
# Plain string paths: pathlib would cost every start and every test.
# ruff: noqa: PTH102, PTH106, PTH116, PTH119, PTH123, PTH208

import contextlib
import os
import re
import resource
import time
from typing import Any

BY_GROUP = "control group for CPU time"  # a layer; without it the sum of processes counts
_MUCH = 16 << 20  # address space that may hide shared memory
# What belongs to no process or is held for it by the kernel, and what it takes long to look at: a
# test that has more of it uses too much memory.
_SOCKETS = 512  # and what is on its way between them
PROCESSES = 256
_SHARED = 1024  # pieces of shared memory
_FILES = 1 << 14  # on disk, which take as long to remove
_MAPS_BYTES = 4 << 20  # of text that lists mappings, some 60,000 of them
_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = resource.getpagesize()
_PREFIX, _STARTING_S = "mcbench-", 60.0


class Group:
    """A control group around a sandbox, below the one we are in: it counts the CPU time of all
    processes that were ever in it. Nobody's settings are changed.
    """

    def __init__(self, mounts: str = "/proc/self/mounts", own: str = "/proc/self/cgroup") -> None:
        """Make one, empty.

        Raises:
            OSError: the system has no control groups (version 2), or lets us make none.
        """
        with open(mounts) as file:
            points = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
        with open(own) as file:
            names = [line[3:].strip() for line in file if line.startswith("0::")]
        if not points or not names:
            raise OSError("no control groups (version 2)")
        parent = (points[0] + names[0]).rstrip("/")
        _sweep(parent)
        # Tests see its name, which is no number of a process of the machine.
        self.path = f"{parent}/{_PREFIX}{os.urandom(6).hex()}"
        os.mkdir(self.path)
        # Opened before the sandbox has its own view of the file system.
        self._parent = os.open(parent, os.O_PATH | os.O_CLOEXEC)
        try:
            self._members = os.open(f"{self.path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            self._time = os.open(f"{self.path}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.remove()
            raise

    def join(self) -> None:
        """Put this process, and what it will fork, into it.

        Raises:
            OSError: the system refuses it.
        """
        os.write(self._members, b"0")

    def cpu_time(self) -> float:
        """Seconds that all processes have used that were ever in it."""
        first = os.pread(self._time, 100, 0).split(b"\n", 1)[0]  # usage_usec 123
        return int(first.split()[1]) / 1e6

    def remove(self) -> None:
        """Once all have ended; best effort."""
        with contextlib.suppress(OSError):
            os.rmdir(os.path.basename(self.path), dir_fd=self._parent)


def _sweep(parent: str) -> None:
    """Remove the empty groups of sandboxes that were killed, and not those that are starting."""
    for name in os.listdir(parent):
        if name.startswith(_PREFIX):
            with contextlib.suppress(OSError):
                if time.time() - os.stat(f"{parent}/{name}").st_mtime > _STARTING_S:
                    os.rmdir(f"{parent}/{name}")


class Meter:
    """The use of one test, whose first processes are ``children``.

    ``layers`` says what can be seen of them. Nothing is read before a test is first looked at, and
    no look takes long, whatever a test has.
    """

    def __init__(self, layers: Any, children: "list[int]") -> None:
        self.layers = layers
        self.children = children
        self.most_memory = 0
        self.crowded = False  # more sockets, processes, files or mappings than a look can cope with
        self._cpu: dict[int, float] = {}
        self._group_before: float | None = None
        self._free_inodes: int | None = None

    def look(self) -> "tuple[float, int]":
        """CPU time in seconds so far, memory in bytes now."""
        pids = self._pids()
        sizes, own, shared = 0, 0, 0
        for pid in pids[:PROCESSES]:
            with contextlib.suppress(OSError, IndexError):
                self._cpu[pid] = cpu_time_of(pid)
                size, resident, in_common = pages(f"/proc/{pid}/statm")
                # Of further processes only what they do not share with the zygote they stem from.
                inherited = 0 if pid in self.children[:1] else self.layers.own_pages[1]
                own += max(0, resident - inherited)
                shared += max(0, in_common - self.layers.own_pages[2])
                sizes += max(0, size - self.layers.own_pages[0])
        memory = own * _PAGE
        self.crowded |= len(pids) > PROCESSES or self._sockets() > _SOCKETS or self._littered()
        # Shared memory outlives its pages' use in a process: more than is resident can be held.
        if sizes * _PAGE > _MUCH and not self.crowded:
            held = _held(pids)
            self.crowded = held is None
            memory += max(0, (held or 0) - shared * _PAGE)
        self.most_memory = max(self.most_memory, memory)
        return self.cpu_time(), memory

    def cpu_time(self) -> float:
        """Seconds of CPU time as far as seen, by process or by the group."""
        seen = sum(self._cpu.values())
        group = self.layers.group
        if group is None or not self._cpu:
            return seen
        total = group.cpu_time()
        if self._group_before is None:
            self._group_before = total - seen
        return max(seen, total - self._group_before)

    def _sockets(self) -> int:
        """Sockets in the network namespace, if it is the sandbox's."""
        if "network namespace" not in self.layers.granted:
            return 0
        try:
            with open("/proc/net/sockstat") as file:
                return int(file.readline().split()[2])  # sockets: used 3
        except OSError:
            return 0

    def _littered(self) -> bool:
        """Whether there are too many files in the tests' folder: counted only where as many were
        made on its disk, if it is on one.
        """
        if self.layers.world:
            return False
        folder = self.layers.scratch.path
        free = os.statvfs(folder).f_ffree
        if self._free_inodes is None:
            self._free_inodes = free
        return self._free_inodes - free > _FILES and _has_many_files(folder)

    def waited(self) -> float:
        """Seconds that the test was ready to run while other work had the processors.

        Of the thread that waited most: threads that sleep and wake side by side add up to nothing.
        """
        waited = [0]
        for pid in self._pids()[:PROCESSES]:
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                        waited.append(int(file.read().split()[1]))
        return max(waited) / 1e9

    def _pids(self) -> "list[int]":
        """The test's processes."""
        if self.layers.world:
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        return [*self.children, *(set(descendants(os.getpid())) - set(self.children))]


def descendants(root: int) -> "list[int]":
    """What descends from a process, which orphans become children of: not all of very many."""
    found: list[int] = []
    queue = [root]
    while queue and len(found) <= PROCESSES:
        tasks = f"/proc/{queue.pop()}/task"
        with contextlib.suppress(OSError):
            for thread in os.listdir(tasks):
                with open(f"{tasks}/{thread}/children") as file:
                    below = list(map(int, file.read().split()))
                found += below
                queue += below
    return found


def _has_many_files(folder: str) -> bool:
    """Whether a folder holds more than are removed in a moment, or hides how many."""
    number, queue = 0, [folder]
    try:
        while queue and number <= _FILES:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    number += 1
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
    except FileNotFoundError:  # the test is at work there
        return False
    except OSError:
        return True
    return number > _FILES


def pages(statm: str) -> "tuple[int, int, int]":
    """Size, resident and shared memory in pages."""
    with open(statm, "rb") as file:
        size, resident, shared = map(int, file.read().split()[:3])
    return size, resident, shared


def cpu_time_of(pid: int) -> float:
    """Seconds of a process's threads, ended ones included, not of its children."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # it has a name, which need not be text
        user, system = file.read().rpartition(b")")[2].split()[11:13]
    return (int(user) + int(system)) * _TICK


def _held(pids: "list[int]") -> "int | None":
    """Bytes of memory shared without a file: what is allocated, or where that is hidden, mapped.

    None if there are too many mappings to look at.
    """
    held: dict[bytes, int] = {}
    budget = _MAPS_BYTES
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as file:
            text = file.read(budget)
            budget -= len(text)
            for first, last, offset, inode in _SHARED_MAP.findall(text):
                size = int(offset, 16) + int(last, 16) - int(first, 16)
                if inode not in held:
                    where = f"/proc/{pid}/map_files/{first.decode()}-{last.decode()}"
                    with contextlib.suppress(OSError):
                        size = os.stat(where).st_blocks * 512
                held[inode] = max(size, held.get(inode, 0))
        if budget <= 0 or len(held) > _SHARED:
            return None
    return sum(held.values())


# 7f00-7f10 rw-s 00000000 00:01 4711     /dev/zero (deleted)
_SHARED_MAP = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ ([0-9]+) +/dev/zero", re.MULTILINE
)
