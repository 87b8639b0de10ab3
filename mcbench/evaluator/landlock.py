"""Which files a test may read and write where it has no root of its own (Landlock).

Standard library only: the zygote loads this file. The zygote makes the rule, which every test puts
on itself first; it cannot be taken off again.
"""
# Plain string paths: pathlib would cost every start.
# ruff: noqa: PTH112, PTH118, PTH208

import contextlib
import ctypes
import functools
import os
import struct

from mcbench.evaluator.libc import checked, library

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_DIR = 8
_READ = 1 | 4 | _READ_DIR  # execute, read a file, read a directory
FILES_ONLY = 2 | 4 | 1 << 5 | 1 << 8 | 1 << 14  # write, read, remove, make, truncate files
_ON_FILES = 1 | 2 | 4 | 1 << 14 | 1 << 15  # what applies to a file: + write, truncate, ioctl


@functools.cache
def _all_rights() -> "tuple[int, ...]":
    """What the kernel can restrict: files, the network, and what a test can do to others.

    Each is all the bits that this kernel accepts, those that are newer than this file as well.
    """
    known: list[int] = []
    for _ in range(3):
        for bits in range(63, -1, -1):
            attributes = struct.pack(f"={len(known) + 1}Q", *known, (1 << bits) - 1)
            size = ctypes.c_size_t(len(attributes))
            ruleset = library.syscall(_CREATE_RULESET, attributes, size, 0)
            if ruleset >= 0:
                os.close(ruleset)
                known.append((1 << bits) - 1)
                break
    return tuple(known)


def file_ruleset(readable: list[str], hidden: list[str], writable: "list[tuple[str, int]]") -> int:
    """A descriptor of the rule that these paths, and no others, can be read and written.

    What is below a ``hidden`` folder stays out, also where it is inside a readable one. A path that
    can be written to comes with the rights on it, all being -1.

    Raises:
        OSError: the kernel has no Landlock, or does not allow it.
    """
    checked("landlock", library.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    rights = _all_rights()
    attributes = struct.pack(f"={len(rights)}Q", *rights)
    size = ctypes.c_size_t(len(attributes))
    ruleset = checked("landlock", library.syscall(_CREATE_RULESET, attributes, size, 0))
    try:
        for path in readable:
            _allow_reading(ruleset, os.path.realpath(path), hidden)
        for path, granted in writable:
            _allow(ruleset, path, rights[0] & granted)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def restrict_files(ruleset: int) -> None:
    """Put the rule, if there is one, on this process once for all.

    Raises:
        OSError: the kernel refuses.
    """
    if ruleset >= 0:
        checked("landlock", library.syscall(_RESTRICT_SELF, ruleset, 0))


def _allow_reading(ruleset: int, path: str, hidden: list[str]) -> None:
    if path in hidden:
        return
    if not any(folder.startswith(path + "/") for folder in hidden):
        _allow(ruleset, path, _READ)
        return
    _allow(ruleset, path, _READ_DIR)
    for name in os.listdir(path):
        _allow_reading(ruleset, os.path.join(path, name), hidden)


def _allow(ruleset: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(path):
                rights &= _ON_FILES
            rule = struct.pack("=Qi", rights, handle)
            checked("landlock", library.syscall(_ADD_RULE, ruleset, 1, rule, 0))
        finally:
            os.close(handle)
