"""The working directory of the tests: the only place they can write to, empty for each of them.

Standard library only: the zygote loads this file. What a test leaves behind is never walked by
recursion or by full paths, which a hostile tree can make fail: a mount is replaced as a whole, and
without mounts directories are moved up and removed level by level.
"""
# Plain string paths: pathlib would cost every test.
# ruff: noqa: PTH101, PTH102, PTH106, PTH112, PTH116, PTH118, PTH120

import contextlib
import os
import sys
from typing import Any

from mcbench.evaluator import libc

MEGABYTES = 64
INODES = 4096
_SHARED = "/dev/shm"  # where Python's semaphores live: the same directory


class Scratch:
    """One directory at one path, emptied by `clean` where the last test changed it."""

    def __init__(self) -> None:
        self.uid: int | None = None
        self.path = ""
        self.is_mount = False  # a small file system of its own, where the zygote may mount
        self._pristine: Any = None

    def make_folder(self) -> None:
        """Choose a place on disk, where it cannot be a mount."""
        import tempfile  # where nothing can be mounted only

        self.path = os.path.join(tempfile.mkdtemp(prefix="mcbench-"), "work")

    def mount(self, point: str) -> None:
        """Cover a directory with a file system of our own, also seen as shared memory.

        Raises:
            OSError: mounting is not permitted.
        """
        self.path, self.is_mount = point, True
        self._mount()

    def _mount(self) -> None:
        owner = "" if self.uid is None else f",uid={self.uid},gid={self.uid}"
        libc.mount_tmpfs(self.path, f"size={MEGABYTES}m,nr_inodes={INODES},mode=0700{owner}")
        if os.path.isdir(_SHARED):
            libc.bind(self.path, _SHARED)

    def enter(self) -> None:
        """Make it the working directory."""
        if not self.path:
            self.make_folder()
        if not self.is_mount:
            self._make()
        elif self.uid is not None:
            os.chown(self.path, self.uid, self.uid)
        os.environ.update(HOME=self.path, TMPDIR=self.path)
        if loaded := sys.modules.get("tempfile"):
            vars(loaded)["tempdir"] = None  # it remembers where it was
        self._remember()

    def _make(self) -> None:
        os.mkdir(self.path, 0o700)
        if self.uid is not None:
            os.chmod(os.path.dirname(self.path), 0o711)
            os.chown(self.path, self.uid, self.uid)

    def _remember(self) -> None:
        os.chdir(self.path)
        os.utime(self.path, (0, 0))
        self._pristine = self._state()

    def _state(self) -> Any:
        """Changes with every entry, mode, owner, time or attribute that a test can leave."""
        stat = os.stat(".")
        attributes = os.listxattr(".") if hasattr(os, "listxattr") else []
        kept = (stat.st_mode, stat.st_uid, stat.st_nlink, stat.st_size)
        return (*kept, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, *attributes)

    def clean(self) -> bool:
        """Make it as new if a test changed it; whether it had to be.

        Raises:
            OSError: it could not be done.
        """
        if self._state() == self._pristine:
            return False
        os.chdir("/")
        if not self.is_mount:
            remove_tree(self.path)
            self._make()
        else:
            if os.path.isdir(_SHARED):
                libc.unmount(_SHARED)
            libc.unmount(self.path)
            self._mount()
        self._remember()
        return True

    def remove(self) -> None:
        """Leave nothing on disk. Best effort: the process is about to end."""
        if self.path and not self.is_mount:
            os.chdir("/")
            for remove, path in ((remove_tree, self.path), (os.rmdir, os.path.dirname(self.path))):
                with contextlib.suppress(OSError):
                    remove(path)


def remove_tree(path: str) -> None:
    """Remove a directory with everything in it, however deep, in constant memory and descriptors.

    Raises:
        OSError: something in it could not be removed.
    """
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(top, 0o700)
        moved = 0
        unused = os.urandom(8).hex()
        while True:
            folders = [entry.name for entry in _entries(top)]
            if not folders:
                break
            for folder in folders:
                os.chmod(folder, 0o700, dir_fd=top)
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    for entry in _entries(inner):
                        moved += 1
                        name = f"{unused}{moved}"
                        os.rename(entry.name, name, src_dir_fd=inner, dst_dir_fd=top)
                finally:
                    os.close(inner)
                os.rmdir(folder, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _entries(folder: int) -> "list[os.DirEntry[str]]":
    """The directories in a folder; everything else in it is removed."""
    kept = []
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                kept.append(entry)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return kept
