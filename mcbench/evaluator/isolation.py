"""Namespaces, limits and privileges. Standard library only: the zygote loads this file.

Every layer is tried on its own. What the machine grants and what it refuses, with the reason, is
recorded in `Layers`, which the zygote reports to the evaluator.
"""
# Plain string paths: pathlib would cost every start and every test.
# ruff: noqa: PTH102, PTH103, PTH106, PTH112, PTH114, PTH116, PTH118, PTH120, PTH123

import contextlib
import ctypes
import functools
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any

from mcbench.evaluator import filters, libc, portable, usage
from mcbench.evaluator.scratch import Scratch

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOEXEC, MS_PRIVATE = 8, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1

MAX_PROCESSES = 128
MAX_FILES = 256
# Address space beyond the memory limit: reserved but untouched pages (thread stacks, arenas) are
# not memory use. The limit proper is on resident memory and enforced by the zygote.
ADDRESS_SLACK = 1 << 30
THREAD_STACK = 8 << 20
# Of a sandbox beyond a test's limit, where a control group caps it: the zygote, the scratch
# directory, the three outputs, what the kernel holds for it.
MEMORY_SLACK = 512 << 20
SECCOMP = "system call filter (seccomp)"
LANDLOCK = "file filter (Landlock)"
MEMORY_FILES = "files in memory"
HANDLES = "process handles (pidfd)"
NAMESPACES = ["network namespace", "ipc namespace", "mount namespace", "pid namespace"]

# Of a test's process: what a test can use up, and macOS does not limit the last.
_LIMITED = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)


class Layers:
    """The isolation this process got, and the state needed to pass it on to children."""

    def __init__(self, linux: bool) -> None:
        self.linux = linux  # whether what only Linux has is to be used
        self.evaluator_pid = os.getppid()
        self.max_processes: int | None = None
        self.hard_limits: dict[int, int] = {}  # of the zygote, so that a child need not ask
        self.granted: list[str] = []
        self.missing: dict[str, str] = {}
        self.pid_namespace = False
        self.user_namespace = False
        self.test_uid: int | None = None  # children drop to it when we are root
        self.scratch = Scratch()
        self.group: usage.Group | None = None
        self.own_pages = 0, 0, 0  # of the zygote, see `usage.pages`
        self._own_statm = -1
        self._last_pid = -1  # sets the number that the next process follows on
        self.ruleset = -1  # of Landlock, for each child to put on
        if not linux:
            names = [*NAMESPACES, LANDLOCK, SECCOMP, MEMORY_FILES, HANDLES]
            self.missing |= dict.fromkeys(names, portable.reason())
            return
        # What serves instead of these is in `portable`.
        for name, make, argument in (
            (MEMORY_FILES, "memfd_create", "attempt"),
            (HANDLES, "pidfd_open", os.getpid()),
        ):
            try:
                os.close(getattr(os, make)(argument))
            except (OSError, AttributeError) as error:
                self.missing[name] = str(error)

    @property
    def handles(self) -> bool:
        """Whether there are process handles."""
        return HANDLES not in self.missing

    def open_totals(self) -> None:
        """What counts a sandbox as a whole; before it has its own view of the file system."""
        if not self.linux:
            return
        with contextlib.suppress(OSError):
            self.group = usage.Group()
        with contextlib.suppress(OSError):
            self._last_pid = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)

    def count_processes_anew(self) -> None:
        """The next test is not to see how many processes earlier ones had."""
        if self.pid_namespace and self._last_pid >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._last_pid, b"1", 0)

    def open_own_usage(self) -> None:
        """In the zygote, before its own entry in /proc is covered."""
        if self.linux:
            with contextlib.suppress(OSError):
                self._own_statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def note_own_usage(self) -> None:
        """In the zygote, once it is as its children will find it."""
        if self._own_statm < 0:
            self.open_own_usage()
        if self._own_statm >= 0:
            self.own_pages = usage.pages(self._own_statm)

    @contextlib.contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Record a layer as granted, or as missing when the system refuses it."""
        try:
            yield
        except (OSError, AttributeError) as error:
            self.missing[name] = str(error)
        else:
            self.granted.append(name)


def default_thread_stack() -> None:
    """Give threads an ordinary stack: their default would be the main thread's large one."""
    attributes = ctypes.create_string_buffer(64)
    with contextlib.suppress(OSError, AttributeError):
        libc.call("pthread_attr_init", attributes)
        libc.call("pthread_attr_setstacksize", attributes, ctypes.c_size_t(THREAD_STACK))
        libc.call("pthread_setattr_default_np", attributes)


def enter_namespaces(layers: Layers) -> None:
    """Leave the host's namespaces; the zygote proper is then forked into the new pid namespace."""
    if not layers.linux:
        return
    if os.geteuid() != 0:
        uid, gid = os.geteuid(), os.getegid()
        with layers.attempt("user namespace"):
            libc.call("unshare", CLONE_NEWUSER)
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{uid} {uid} 1"),
                ("gid_map", f"{gid} {gid} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
            layers.user_namespace = True
    with layers.attempt("network namespace"):
        libc.call("unshare", CLONE_NEWNET)
    with layers.attempt("ipc namespace"):
        libc.call("unshare", CLONE_NEWIPC | CLONE_NEWUTS)
    with layers.attempt("mount namespace"):
        libc.call("unshare", CLONE_NEWNS)
        libc.call("mount", b"none", b"/", None, libc.MS_REC | MS_PRIVATE, None)
    with layers.attempt("pid namespace"):
        libc.call("unshare", CLONE_NEWPID)
        layers.pid_namespace = True


def enter_file_system(layers: Layers) -> None:
    """Inside the pid namespace: own /proc, everything read-only, one small scratch directory."""
    root = os.geteuid() == 0
    # A user id of this zygote's own: RLIMIT_NPROC counts per user, and root is exempt from it.
    # The number is made of the supervisor's host pid, unique among live zygotes.
    uid = 1_000_000 + int(os.environ.pop("MCBENCH_ZYGOTE")) if root else os.geteuid()
    if "mount namespace" in layers.granted:
        if layers.pid_namespace:
            with layers.attempt("own /proc"):
                flags = libc.MS_NOSUID | libc.MS_NODEV | MS_NOEXEC
                libc.call("mount", b"proc", b"/proc", b"proc", flags, None)
                layers.open_own_usage()
                # What the zygote has used would tell of earlier tests.
                libc.mount_tmpfs("/proc/1", "size=4k,nr_inodes=1,mode=0555")
        with layers.attempt("read-only file system"):
            attributes = struct.pack("=4Q", MOUNT_ATTR_RDONLY, 0, 0, 0)
            size = len(attributes)
            libc.call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, size)
        with layers.attempt("scratch mount"):
            layers.scratch.mount(_mount_point())
    if root:
        with layers.attempt("unprivileged user"):
            if layers.scratch.is_mount:
                _open_path_to_interpreter(layers.scratch.path)
            _check_user(layers, uid)
            layers.test_uid = layers.scratch.uid = uid
    if layers.test_uid is not None or layers.user_namespace:
        layers.max_processes = MAX_PROCESSES


def put_on_filters(layers: Layers) -> None:
    """Refuse system calls from here on, and prepare the children's view of the file system."""
    if not layers.linux:
        return
    with layers.attempt(LANDLOCK):
        if MEMORY_FILES in layers.missing:  # the filter would close /dev/stdin as well
            raise OSError(f"needs {MEMORY_FILES}")
        layers.ruleset = _file_ruleset(layers)
    with layers.attempt(SECCOMP):
        filters.restrict_system_calls(_protected(layers))


def _file_ruleset(layers: Layers) -> int:
    """This project stays out of sight: its problem sets come with their answers."""
    project = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    environment = os.path.dirname(os.path.dirname(sys.executable))  # a virtual one, maybe
    python = [f"{environment}/bin", f"{environment}/pyvenv.cfg", *_needed_paths()]
    readable = [*python, *filters.SYSTEM_FILES]
    writable = [layers.scratch.path, *filters.DEVICES]
    return filters.file_ruleset(readable, [project], writable)


def _protected(layers: Layers) -> list[int]:
    """Processes and groups that a test could signal, where no pid namespace hides them."""
    if layers.pid_namespace or layers.test_uid is not None:
        return []
    supervisor = os.getppid()
    ours = [os.getpid(), supervisor, layers.evaluator_pid]
    return [-1, *ours, *(-os.getpgid(pid) for pid in ours)]


def clean_scratch(layers: Layers) -> None:
    """Give the next test an empty directory. A new mount is a new place for the file filter."""
    if layers.scratch.clean() and layers.ruleset >= 0:
        os.close(layers.ruleset)
        layers.ruleset = _file_ruleset(layers)


@functools.cache  # the links are resolved once, before anything is covered
def _needed_paths() -> list[str]:
    """The folders Python imports from, without those inside another one."""
    folders = {sys.base_prefix, sys.prefix, *filter(os.path.isdir, sys.path)}
    return [
        path
        for path in sorted(map(os.path.realpath, folders))
        if not any(path != other and path.startswith(other + "/") for other in folders)
    ]


def _mount_point() -> str:
    """An existing directory to cover, so that nothing is left on disk; not one we import from."""
    for point in ("/tmp", "/var/tmp", "/mnt", "/media"):
        paths = (*_needed_paths(), *sys.path, sys.executable)
        needed = any(path.startswith(point + "/") for path in paths)
        if os.path.isdir(point) and not os.path.islink(point) and not needed:
            return point
    raise OSError("no directory to mount the scratch space on")


def _open_path_to_interpreter(stash: str) -> None:
    """Let another user reach a Python that is installed in a private home.

    Each ancestor that others may not enter is covered by an empty directory in which only the
    needed folders appear again, at their old places. As a side effect the rest of it is hidden.
    """
    hidden: dict[str, list[str]] = {}
    for path in _needed_paths():
        parts = path.split("/")
        ancestors = ["/".join(parts[:size]) for size in range(2, len(parts))]
        closed = next((a for a in ancestors if not os.stat(a).st_mode & 0o001), None)
        if closed is not None:
            hidden.setdefault(closed, []).append(path)
    for closed, paths in hidden.items():
        kept = [f"{stash}/{number}" for number in range(len(paths))]
        for path, place in zip(paths, kept, strict=True):
            os.mkdir(place)
            libc.bind(path, place)
        libc.mount_tmpfs(closed, "mode=0755")
        for path, place in zip(paths, kept, strict=True):
            os.makedirs(path)
            libc.bind(place, path)
            libc.unmount(place)
            os.rmdir(place)


def _become_group(gid: int) -> None:
    """Give up root's groups for good: for root this sets all three."""
    os.setgroups([])
    os.setgid(gid)


def _check_user(layers: Layers, uid: int) -> None:
    """Try the user in a forked process.

    Raises:
        OSError: it cannot be assumed, or cannot read Python's own library.
    """
    library = os.path.dirname(os.__file__)

    def read_as_user() -> None:
        _become_group(uid)
        os.setuid(uid)
        with open(os.path.join(library, "os.py"), "rb") as file:
            file.read(1)

    try:
        portable.in_fork(read_as_user)
    except OSError:
        raise OSError(f"another user cannot be assumed, or cannot read {library}") from None


def protect_self(layers: Layers) -> None:
    """Keep children from reading or tracing this process even where they share its user."""
    if layers.linux:
        libc.library.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def give_back_memory() -> None:
    """Return what was freed to the system: a fork pays for every page, used or not."""
    with contextlib.suppress(AttributeError):  # not in every C library
        libc.library.malloc_trim(0)


def die_with_parent(linux: bool = sys.platform == "linux") -> None:
    """Ask the kernel for SIGKILL when the parent process ends; only Linux's does that."""
    if linux:
        libc.library.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def confine_zygote(layers: Layers) -> None:
    """What every test needs alike and the zygote can bear: done once, inherited by each child."""
    if layers.group is not None:
        try:
            layers.group.join()
            layers.group.limit(usage.PROCESSES, 2 * MAX_PROCESSES)
            layers.granted += [usage.BY_GROUP.format(kind) for kind in layers.group.counts]
        except OSError:
            layers.group = None
    limit, reserve = portable.limit, ADDRESS_SLACK
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, MAX_FILES)
    if not layers.linux:
        with layers.attempt("limit on address space"):
            portable.in_fork(lambda: limit(resource.RLIMIT_AS, 4 * reserve))
    if layers.test_uid is not None:
        _become_group(layers.test_uid)
    elif not layers.user_namespace and os.geteuid() != 0:
        with layers.attempt("limit on processes"):
            others = portable.processes_of_user()
            layers.max_processes = others + portable.SHARED_USER_PROCESSES
    if layers.test_uid is not None and layers.max_processes is not None:
        limit(resource.RLIMIT_NPROC, layers.max_processes)  # root itself is exempt
    layers.hard_limits = {which: resource.getrlimit(which)[1] for which in _LIMITED}
    if layers.linux:
        libc.library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # A change of credentials undoes both.
    protect_self(layers)
    die_with_parent(layers.linux)


def hide_files(layers: Layers) -> None:
    """In the child: put on the file filter, for which its descriptor must still be open."""
    if layers.ruleset >= 0:
        filters.restrict_files(layers.ruleset)


def confine_child(layers: Layers, request: dict[str, Any], secret: bool) -> None:
    """In the child, before any of the submission runs: limits, then privileges for good.

    A process with a ``secret``, the answers, stays closed to others of its user.
    """
    # The zygote stops it first, where it can see the use of time.
    seconds = int(request["cpu_s"]) + (2 if layers.linux else 1)
    file_bytes = request["output_bytes"] + 1  # one more, to see that it was exceeded
    address_space = request["memory_bytes"] + ADDRESS_SLACK
    for which, value in zip(_LIMITED, (seconds, file_bytes, address_space), strict=True):
        try:
            portable.limit(which, value, layers.hard_limits[which])
        except OSError:
            if layers.linux or which != resource.RLIMIT_AS:
                raise
    if layers.max_processes is not None and layers.test_uid is None:
        portable.limit(resource.RLIMIT_NPROC, layers.max_processes)
    if "ipc namespace" in layers.granted and SECCOMP not in layers.granted:
        libc.call("unshare", CLONE_NEWIPC)  # System V memory outlives processes, not its namespace
    if layers.test_uid is not None:
        os.setuid(layers.test_uid)  # for root this sets all three, for good
    elif layers.linux and (os.geteuid() == 0 or layers.user_namespace):
        header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
        libc.call("capset", header, bytes(24))
    if layers.linux:
        libc.library.prctl(
            PR_SET_DUMPABLE, int(not secret), 0, 0, 0
        )  # /dev/stdin is /proc/self/fd/0
    if not layers.pid_namespace:
        die_with_parent(layers.linux)


def kill_everything(layers: Layers, children: list[int], ended: dict[int, Any]) -> None:
    """Kill the test's processes and whatever they started; `reap_orphans` waits for the latter.

    The numbers of children whose end was taken note of may be those of others by now.
    """
    if layers.pid_namespace:
        # The zygote is init of its namespace and runs one test at a time: all others belong to
        # it, and the kernel lets no fork slip through this one call.
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        return
    portable.kill_groups(children, ended)
    if layers.test_uid is not None:
        portable.kill_user(layers.test_uid)
    for _ in range(MAX_PROCESSES if layers.linux else 0):
        targets = _descendants(os.getpid())
        for pid in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if set(targets) <= set(children):
            return
        for pid in targets:
            if pid not in children:  # their status is wanted
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def reap_orphans(layers: Layers) -> None:
    """Wait for the killed processes that were re-parented to the zygote."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0 if layers.pid_namespace else os.WNOHANG)[0]:
            pass


def _descendants(root: int) -> list[int]:
    found: list[int] = []
    queue = [root]
    while queue:
        pid = queue.pop()
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
            found += children
            queue += children
    return found
