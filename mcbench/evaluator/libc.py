"""Calls of the C library that Python has no function for. Standard library only: the zygote's."""

import ctypes
import os

MS_NOSUID, MS_NODEV, MS_NOATIME = 2, 4, 1024
MS_BIND, MS_REC, MNT_DETACH = 4096, 16384, 2

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


def mount_tmpfs(point: str, options: str) -> None:
    """Cover a directory with a file system in memory."""
    flags = MS_NOSUID | MS_NODEV | MS_NOATIME
    call("mount", b"tmpfs", point.encode(), b"tmpfs", flags, options.encode())


def bind(source: str, point: str) -> None:
    """Let a directory appear at a further place."""
    call("mount", source.encode(), point.encode(), None, MS_BIND | MS_REC, None)


def unmount(point: str) -> None:
    """Uncover a directory."""
    call("umount2", point.encode(), MNT_DETACH)
