"""Namespaces, limits and privileges. Standard library only: the zygote loads this file.

With namespaces a sandbox has a root and processes of its own (`world`). Where the machine refuses
these, Landlock and seccomp fence it in. What is granted and what is refused, with the reason, is
recorded in `Layers`, which the zygote reports to the evaluator.
"""
# Plain string paths: pathlib would cost every start and every test.
# ruff: noqa: PTH123

import contextlib
import os
import resource
import signal
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mcbench.evaluator import landlock, libc, portable, seccomp, usage, world
from mcbench.evaluator.scratch import SHARED, Scratch

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

MAX_PROCESSES = 128
MAX_FILES = 256
# Address space beyond the memory limit: reserved but untouched pages (thread stacks, arenas) are
# not memory use. The limit proper is on resident memory and enforced by the zygote.
ADDRESS_SLACK = 1 << 30
THREAD_STACK = 8 << 20
SECCOMP = "system call filter (seccomp)"
LANDLOCK = "file filter (Landlock)"
MEMORY_FILES = "files in memory"
USER = "unprivileged user"
NETWORK, IPC, PIDS, ROOT = "network namespace", "ipc namespace", "pid namespace", "own root"
_USERS = 1_000_000, 1 << 24  # the first number for users of sandboxes, and how many there are

# Without a root of its own: further files that a test can read.
_READABLE = ("/proc", "/etc/passwd", "/etc/group", "/etc/hosts")


# What follows where none of these layers is granted.
_FOLLOWS = (
    ((ROOT,), "programs see which files exist and the command lines of all processes"),
    ((ROOT, LANDLOCK), "they read and write what their user may"),
    ((ROOT, USER), f"they share {SHARED} with the evaluator's user"),
    ((SECCOMP,), "they can talk to the machine's sockets and processes of their user"),
)


def in_words(granted: list[str], missing: dict[str, str]) -> str:
    """One line: what a sandbox has got, what not and why, and what follows."""
    reasons = {
        why: ", ".join(repr(name) for name in missing if missing[name] == why)
        for why in missing.values()
    }
    refused = "; ".join(f"{names} ({why})" for why, names in reasons.items())
    follows = ", ".join(text for layers, text in _FOLLOWS if not {*layers} & {*granted})
    parts = [f"granted {', '.join(granted) or 'nothing'}", refused and f"not granted {refused}"]
    return "; ".join(filter(None, [*parts, follows and f"so {follows}"]))


class Layers:
    """The isolation this process got, and the state needed to pass it on to children."""

    def __init__(self) -> None:
        self.evaluator_pid = os.getppid()
        self.max_processes: int | None = None
        self.granted: list[str] = []
        self.missing: dict[str, str] = {}
        self.world = False  # own root, own processes: nothing of the host is there
        self.user_namespace = False
        self.test_uid: int | None = None  # children drop to it when we are root
        self.scratch = Scratch()
        self.group: usage.Group | None = None
        self.own_pages = 0, 0, 0  # of the zygote, see `usage.pages`
        self._last_pid = -1  # sets the number that the next process follows on
        self.ruleset = -1  # of Landlock, for each child to put on
        with self.attempt(MEMORY_FILES):  # what serves instead is in `portable`
            os.close(os.memfd_create("attempt"))

    def open_totals(self) -> None:
        """What counts a sandbox as a whole; before it has its own view of the file system."""
        with contextlib.suppress(OSError):
            self.group = usage.Group()
        with contextlib.suppress(OSError):
            self._last_pid = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)

    def count_processes_anew(self) -> None:
        """The next test is not to see how many processes earlier ones had."""
        if self.world and self._last_pid >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._last_pid, b"1", 0)

    def note_own_usage(self) -> None:
        """In the zygote, once it is as its children will find it, whom it tells nothing then."""
        with contextlib.suppress(OSError):
            self.own_pages = usage.pages("/proc/self/statm")
        if self.world:
            world.cover("/proc/1")

    @contextlib.contextmanager
    def attempt(self, *names: str) -> Iterator[None]:
        """Record layers as granted, or as missing when the system refuses them."""
        try:
            yield
        except (OSError, AttributeError) as error:
            self.missing |= dict.fromkeys(names, str(error))
        else:
            self.granted += names


def enter_namespaces(layers: Layers) -> None:
    """Leave the host's namespaces; the zygote proper is then forked into the new pid namespace."""
    if os.geteuid() != 0:
        with layers.attempt("user namespace"):
            _enter_user_namespace()
            layers.user_namespace = True
    with layers.attempt(NETWORK):
        libc.call("unshare", CLONE_NEWNET)
    with layers.attempt(IPC):
        libc.call("unshare", CLONE_NEWIPC | CLONE_NEWUTS)
    with layers.attempt(PIDS, ROOT):
        portable.in_fork(_try_world)
        libc.call("unshare", CLONE_NEWNS | CLONE_NEWPID)
        layers.world = True


def _enter_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    libc.call("unshare", CLONE_NEWUSER)
    texts = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in texts.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _try_world() -> None:
    """All of it: there is no way back from half of it, and a part protects from nothing."""
    libc.call("unshare", CLONE_NEWNS | CLONE_NEWPID)
    portable.in_fork(world.enter, 0)


def enter_file_system(layers: Layers) -> None:
    """In the zygote: its own root and processes, if it can have them, and the user of its tests."""
    root = os.geteuid() == 0
    # A user of this zygote's own: RLIMIT_NPROC counts per user, and root is exempt from it.
    first, count = _USERS
    uid = first + int.from_bytes(os.urandom(4)) % count if root else os.geteuid()
    if layers.world:
        # All processes of the mount namespace enter it. What that leaves in the memory of a process
        # would be copied for every test.
        portable.in_fork(world.enter, uid)
        layers.scratch.path, layers.scratch.is_mount = world.folder_for_tests(), True
    if root:
        with contextlib.suppress(OSError):
            os.setgroups([])
        with layers.attempt(USER):
            portable.in_fork(_read_as_user, uid)
            layers.test_uid = layers.scratch.uid = uid


def put_on_filters(layers: Layers) -> None:
    """Refuse system calls from here on; without a root of our own, files to the children."""
    if not layers.world:
        with layers.attempt(LANDLOCK):
            if MEMORY_FILES in layers.missing:  # the filter would close /dev/stdin as well
                raise OSError(f"needs {MEMORY_FILES}")
            layers.ruleset = _file_ruleset(layers)
    with layers.attempt(SECCOMP):
        own_user = layers.test_uid is not None
        named_sockets = layers.world and NETWORK in layers.granted
        seccomp.restrict_system_calls(named_sockets, own_user)


def _file_ruleset(layers: Layers) -> int:
    readable = [*world.python_paths(), *world.SYSTEM, *_READABLE, layers.scratch.path]
    shared = (SHARED, landlock.FILES_ONLY)
    writable = [(path, -1) for path in (layers.scratch.path, *world.DEVICES)] + [shared]
    return landlock.file_ruleset(readable, [world.PROJECT], writable)


def clean_scratch(layers: Layers) -> None:
    """Give the next test an empty directory. A new mount is a new place for the file filter."""
    if layers.scratch.clean() and layers.ruleset >= 0:
        os.close(layers.ruleset)
        layers.ruleset = _file_ruleset(layers)


def _read_as_user(uid: int) -> None:
    os.setgid(uid)
    os.setuid(uid)
    with open(os.__file__, "rb") as file:
        file.read(1)


def protect_self() -> None:
    """Keep children from reading or tracing this process even where they share its user."""
    libc.library.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


_ARENAS = -8  # M_ARENA_MAX of malloc.h


def settle_memory() -> "list[bytes]":
    """Make our memory cheap to fork; what is returned is to be kept.

    A fork pays for every page, so what was freed goes back to the system. A test pays for every
    page that it writes to, so gaps between small objects are filled: its own lie side by side then.
    """
    filling = [bytes(size) for size in range(0, 480, 16) for _ in range(100)]
    with contextlib.suppress(AttributeError):  # not in every C library
        libc.library.malloc_trim(0)
        # Each thread would reserve further 64 MiB or more of address space, which is limited.
        libc.library.mallopt(_ARENAS, 1)
    return filling


def go_first() -> None:
    """Where memory runs out, the kernel is to end what belongs to a sandbox, and not who trains."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent process ends."""
    libc.library.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def confine_zygote(layers: Layers) -> None:
    """What every test needs alike and the zygote can bear: done once, inherited by each child."""
    if layers.group is not None:
        try:
            layers.group.join()
            layers.granted.append(usage.BY_GROUP)
        except OSError:
            layers.group = None
    portable.limit(resource.RLIMIT_CORE, 0)
    portable.limit(resource.RLIMIT_NOFILE, MAX_FILES)
    if layers.test_uid is not None:
        os.setgid(layers.test_uid)  # for root this sets all three
    if layers.test_uid is not None or layers.user_namespace:
        layers.max_processes = MAX_PROCESSES
    elif os.geteuid() != 0:
        with layers.attempt("limit on processes"):
            others = portable.processes_of_user()
            layers.max_processes = others + portable.SHARED_USER_PROCESSES
    libc.library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # A change of credentials undoes both.
    protect_self()
    die_with_parent()


def confine_child(layers: Layers, request: dict[str, Any], secret: bool) -> None:
    """In the child, before any of the submission runs: limits, then privileges for good.

    A process with a ``secret``, the answers, stays closed to others of its user.
    """
    # The zygote stops it first, where it can see the use of time.
    portable.limit(resource.RLIMIT_CPU, int(request["cpu_s"]) + 2)
    portable.limit(resource.RLIMIT_FSIZE, request["output_bytes"] + 1)  # to see that it is exceeded
    portable.limit(resource.RLIMIT_AS, request["memory_bytes"] + ADDRESS_SLACK)
    if layers.max_processes is not None:
        portable.limit(resource.RLIMIT_NPROC, layers.max_processes)
    if layers.test_uid is not None:
        os.setuid(layers.test_uid)  # for root this sets all three, for good
    elif os.geteuid() == 0 or layers.user_namespace:
        header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
        libc.call("capset", header, bytes(24))
    libc.library.prctl(PR_SET_DUMPABLE, int(not secret), 0, 0, 0)  # /dev/stdin is /proc/self/fd/0
    if not layers.world:
        if SECCOMP in layers.granted:
            seccomp.keep_to_group()
        die_with_parent()


def end_everything(layers: Layers, children: list[int], ended: portable.Ended) -> None:
    """Kill the test's processes and whatever they started, and wait for them.

    The numbers of children whose end was taken note of may be those of others by now.
    """
    if layers.world:
        # The zygote is init of its namespace and runs one test at a time: all others belong to
        # it, and the kernel lets no fork slip through this one call.
        _kill(os.kill, {-1})
    else:
        _kill(os.killpg, children)
        _kill(os.kill, set(children) - ended.keys())
    for child in children:
        portable.reap(child, ended)
    reached = layers.world or SECCOMP in layers.granted  # all of them, by what was done
    with contextlib.suppress(ChildProcessError):  # those that became the zygote's
        while os.waitpid(-1, 0 if reached else os.WNOHANG)[0]:
            pass


def _kill(kill: Callable[[int, int], None], numbers: Iterable[int]) -> None:
    for number in numbers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(number, signal.SIGKILL)


def kill_descendants() -> None:
    """Kill all that descends from this process, of which it has become the parent."""
    own = os.getpgrp()
    for _ in range(_KILL_ATTEMPTS):
        below = usage.descendants(os.getpid())
        if not below:
            return
        groups: set[int] = set()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                groups.add(os.getpgid(pid))
        # A group as a whole, whose leader may have ended: what is killed one by one can fork on.
        _kill(os.killpg, groups - {own})
        _kill(os.kill, below)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigtimedwait({signal.SIGCHLD}, _KILL_SECONDS)


_KILL_ATTEMPTS, _KILL_SECONDS = 100, 0.05  # for what forks meanwhile, or takes time to end
