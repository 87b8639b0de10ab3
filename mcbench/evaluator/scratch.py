"""The working directory of the tests: the only place they can write to, empty for each of them.

Standard library only: the zygote loads this file. With a root of its own the sandbox has a small
file system in memory here, which is replaced as a whole; else it is a folder on disk.
"""
# Plain string paths: pathlib would cost every test.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH116, PTH118, PTH120, PTH208

import contextlib
import os
import sys
from typing import Any

from mcbench.evaluator import libc

MEGABYTES = 64
INODES = 4096
SHARED = "/dev/shm"  # where Python's semaphores live


class Scratch:
    """One directory at one path, emptied by `clean` where the last test changed it."""

    def __init__(self) -> None:
        self.uid: int | None = None  # the tests' user, if not ours
        self.path = ""
        self.is_mount = False
        self._pristine: Any = None
        self._put_aside = 0
        self._remover = 0  # the supervisor's process that removes what was put aside

    def make_folder(self) -> None:
        """Choose a place on disk, where it cannot be a mount."""
        import tempfile  # where nothing can be mounted only

        self.path = os.path.join(tempfile.mkdtemp(prefix="mcbench-"), "work")

    def enter(self) -> None:
        """Make it the working directory."""
        self._make()
        os.environ.update(HOME=self.path, TMPDIR=self.path)
        if loaded := sys.modules.get("tempfile"):
            vars(loaded)["tempdir"] = None  # it remembers where it was

    def _make(self) -> None:
        if self.is_mount:
            owner = "" if self.uid is None else f",uid={self.uid},gid={self.uid}"
            options = f"size={MEGABYTES}m,nr_inodes={INODES},mode=0700{owner}"
            libc.mount_tmpfs(self.path, options)
        else:
            os.mkdir(self.path, 0o700)
            if self.uid is not None:
                os.chmod(os.path.dirname(self.path), 0o711)
                os.chown(self.path, self.uid, self.uid)
        os.chdir(self.path)
        os.utime(self.path, (0, 0))
        self._pristine = self._state()

    def _state(self) -> Any:
        """Changes with every entry, mode, owner, time or attribute that a test can leave."""
        try:
            stat = os.stat(".")
        except PermissionError:  # a test of our own user has locked it
            return None
        kept = (stat.st_mode, stat.st_uid, stat.st_nlink, stat.st_size)
        return (*kept, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, *os.listxattr("."))

    def clean(self) -> bool:
        """Make it as new if a test changed it; whether it had to be.

        Raises:
            OSError: it could not be done.
        """
        if not self.is_mount and self.uid is not None:
            _remove_shared(self.uid)
        if self._state() == self._pristine:
            return False
        os.chdir("/")
        if self.is_mount:
            libc.unmount(self.path)
        else:  # what a test has left can take long to remove
            self._put_aside += 1
            os.rename(self.path, f"{self.path}-{self._put_aside}")
        self._make()
        return True

    def sweep(self) -> None:
        """In the supervisor, from time to time: have removed what was put aside.

        It only knows the path of a folder, not of a mount.
        """
        if not self.path or (self._remover and not os.waitpid(self._remover, os.WNOHANG)[0]):
            return
        self._remover = 0
        folder = os.path.dirname(self.path)
        with contextlib.suppress(OSError):
            if aside := [f"{folder}/{n}" for n in os.listdir(folder) if n.startswith("work-")]:
                self._remover = _remove_trees(aside)

    def remove(self) -> None:
        """In the supervisor: leave nothing on disk. What takes long goes on after this process."""
        if not self.path:
            return
        os.chdir("/")
        folder = os.path.dirname(self.path)
        try:
            os.rmdir(self.path)
            os.rmdir(folder)
        except OSError:
            _remove_trees([folder])


# Whatever is in them: the system's own programs fail at no depth and no name.
_REMOVE = 'rm -rf "$@" 2>/dev/null || { chmod -R u+rwx "$@"; rm -rf "$@"; }'


def _remove_trees(paths: "list[str]") -> int:
    """Have a process remove them, whose number is returned."""
    return os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", _REMOVE, "sh", *paths)


def _remove_shared(uid: int) -> None:
    """What a sandbox's user has left where the machine keeps its shared memory."""
    with contextlib.suppress(OSError), os.scandir(SHARED) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_uid == uid:
                os.unlink(entry.path)
