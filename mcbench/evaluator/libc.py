"""Calls of the C library that Python has no function for. Standard library only: the zygote's."""

import ctypes
import os

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC = 1024, 2048, 4096, 16384
MS_PRIVATE, MS_RELATIME, MNT_DETACH = 1 << 18, 1 << 21, 2

library = ctypes.CDLL(None, use_errno=True)


def checked(what: str, result: int) -> int:
    """The result of a call.

    Raises:
        OSError: it failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def call(name: str, *args: object) -> int:
    """Call a function by its name; raises as `checked` does."""
    return checked(name, getattr(library, name)(*args))


def mount(
    kind: "str | None", point: str, flags: int, source: str = "none", options: str = ""
) -> None:
    """Mount a file system, or with the flags for it change a mount or bind one."""
    kind_bytes = None if kind is None else kind.encode()
    data = options.encode() or None
    call("mount", os.fsencode(source), os.fsencode(point), kind_bytes, flags, data)


def mount_tmpfs(point: str, options: str) -> None:
    """Cover a directory with a file system in memory."""
    mount("tmpfs", point, MS_NOSUID | MS_NODEV | MS_NOATIME, options=options)


def unmount(point: str) -> None:
    """Uncover a directory."""
    call("umount2", os.fsencode(point), MNT_DETACH)
