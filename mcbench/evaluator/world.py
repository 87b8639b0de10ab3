"""A root file system of the sandbox's own: what Python needs, read-only, and nothing else.

Standard library only: the zygote loads this file. The new root is a small file system in memory.
What a program needs is bound into it at its old place, `pivot_root` makes it the root, and the old
one is let go of: the host's other files, its sockets, homes and processes do not exist then.
"""
# Plain string paths: pathlib would cost every start.
# ruff: noqa: PTH100, PTH102, PTH103, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123, PTH211

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator

from mcbench.evaluator import libc

# What programs find outside Python's own folders.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/timezone", "/etc/nsswitch.conf", "/etc/locale.alias", "/etc/mime.types"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/random", "/dev/urandom"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
# This project stays out of sight: its problem sets come with their answers.
PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# Of an installation of Python or an environment.
_OF_PYTHON = ("bin", "lib", "lib64", "share/zoneinfo", "pyvenv.cfg")
_USERS = "root:x:0:0::/root:/bin/sh\nuser:x:{uid}:{uid}::{home}:/bin/sh\n"
_HOSTS = "127.0.0.1 localhost\n::1 localhost\n"
_OTHER_FOLDER = "/scratch"
# Where the new root is put together: nothing below it is needed any more.
_NEW = "/proc"
_FLAGS = {
    name: getattr(libc, f"MS_{name.upper()}")
    for name in ("nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime")
}


@functools.cache  # the links are resolved once, before anything is covered
def python_paths() -> "tuple[str, ...]":
    """What Python is run from and imports from, by the names in use and the real ones."""
    executable = sys.executable
    environment = os.path.dirname(os.path.dirname(executable))  # a virtual one, maybe
    prefixes = {sys.prefix, sys.base_prefix, sys.base_exec_prefix, environment} - {"/"}
    paths = {os.path.join(prefix, part) for prefix in prefixes for part in _OF_PYTHON}
    paths |= {path for path in sys.path if os.path.isdir(path)}
    while os.path.islink(executable):
        executable = os.path.join(os.path.dirname(executable), os.readlink(executable))
        paths.add(executable)
    paths = set(map(os.path.normpath, paths))
    return tuple(sorted(paths | set(map(os.path.realpath, paths))))


def folder_for_tests() -> str:
    """Where the tests' own folder is in the new root: nothing that is needed lies below it."""
    return _OTHER_FOLDER if os.path.isdir(_OTHER_FOLDER) else "/tmp"


def enter(uid: int) -> None:
    """Leave the host's root for good, with all processes of this mount namespace.

    To be called in a process of its own, in a new pid namespace. ``uid`` is the user of the tests.
    Nothing can be written then, and `folder_for_tests` is empty.

    Raises:
        OSError: the system refuses it.
    """
    libc.mount(None, "/", libc.MS_REC | libc.MS_PRIVATE)
    libc.mount_tmpfs(_NEW, "size=1m,mode=0755")
    os.umask(0o666)  # the folders on the way to what is needed can be passed, not listed
    for path in (*SYSTEM, *DEVICES, *python_paths()):
        _put(path)
    for path in {PROJECT, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}:
        if os.path.isdir(_NEW + path):
            cover(_NEW + path)
    needed = any(path.startswith("/tmp/") for path in (*python_paths(), sys.executable))
    scratch = _OTHER_FOLDER if needed else "/tmp"
    for path in ("/proc", "/dev", "/etc", scratch):
        os.makedirs(_NEW + path, exist_ok=True)
    for link, target in _links(scratch):
        os.symlink(target, _NEW + link)
    texts = {"passwd": _USERS, "group": "root:x:0:\nuser:x:{uid}:\n", "hosts": _HOSTS}
    for name, text in texts.items():
        with open(f"{_NEW}/etc/{name}", "x") as file:
            file.write(text.format(uid=uid, home=scratch))
            os.fchmod(file.fileno(), 0o444)
    flags = libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
    libc.mount("proc", f"{_NEW}/proc", flags)
    os.chdir(_NEW)
    libc.call("pivot_root", b".", b".")
    libc.unmount(".")
    os.chdir("/")
    _make_read_only()


def cover(folder: str) -> None:
    """Let a folder be empty."""
    libc.mount_tmpfs(folder, "size=4k,nr_inodes=1,mode=0555")


def _put(path: str) -> None:
    """Let a file or directory of the host appear at the same place; a link as the link it is."""
    place = _NEW + path
    if os.path.lexists(place) or not os.path.lexists(path):
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), place)
        return
    if os.path.isdir(path):
        os.mkdir(place)
    else:
        open(place, "x").close()
    libc.mount(None, place, libc.MS_BIND | libc.MS_REC, path)


def _links(scratch: str) -> "Iterator[tuple[str, str]]":
    yield "/dev/fd", "/proc/self/fd"
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield f"/dev/{name}", f"/proc/self/fd/{number}"
    yield "/dev/shm", scratch  # where Python's semaphores live


def _make_read_only() -> None:
    """Every mount by itself, with the flags it has: a user namespace may take none away."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split()[4:6] for line in file]
    for point, options in mounts:
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
        kept = sum(_FLAGS.get(option, 0) for option in options.split(","))
        with contextlib.suppress(FileNotFoundError):  # below something covered
            libc.mount(None, place, libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY | kept)
