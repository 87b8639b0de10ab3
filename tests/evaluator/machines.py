"""Other machines than this one: a kernel that refuses system calls, a container, another user.

The kernel really refuses: a process puts on a seccomp filter, or becomes the other user, and the
evaluator runs in it.
"""

import ctypes
import functools
import os
import platform
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLUMN = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
on_linux = [
    pytest.mark.skipif(sys.platform != "linux", reason="refuses Linux's system calls"),
    pytest.mark.skipif(COLUMN is None, reason="numbers of system calls are not known"),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")

CALLS = {
    "memfd_create": (319, 279),
    "unshare": (272, 97),
    "landlock_create_ruleset": (444, 444),
    "prctl": (157, 167),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "setns": (308, 268),
    "capset": (126, 91),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "clone": (56, 220),
    "clone3": (435, 435),
}
# What Docker's default profile refuses to a container without CAP_SYS_ADMIN, of what a sandbox
# could use, and the capabilities that its root keeps.
DOCKER = ["unshare", "mount", "umount2", "pivot_root", "setns", "bpf", "perf_event_open", "keyctl"]
DOCKER += ["add_key", "userfaultfd", "io_uring_setup", "fsopen", "mount_setattr", "clone", "clone3"]
DOCKER_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
NEW_NAMESPACES = 0x7E020000
PR_SET_SECCOMP, PR_CAPBSET_DROP = 22, 24
EPERM, ENOSYS, KILL = 0x00050001, 0x00050026, 0x80000000
_LOAD, _EQUAL, _ANY_BIT, _RETURN, _ALLOW = 0x20, 0x15, 0x45, 0x06, 0x7FFF0000

libc = ctypes.CDLL(None, use_errno=True)


def refuse(names: list[str], action: int = EPERM) -> None:
    """Have the kernel refuse system calls to this process and its descendants (of prctl: to put on
    a further filter, of clone: to make namespaces), or kill who makes one."""
    refusal = (_RETURN, 0, 0, action)
    steps = [(_LOAD, 0, 0, 0)]
    for name in names:
        number = CALLS[name][COLUMN]
        if name in ("prctl", "clone"):
            test = (_EQUAL, 0, 1, PR_SET_SECCOMP)
            if name == "clone":
                test = (_ANY_BIT, 0, 1, NEW_NAMESPACES)
            check = [(_LOAD, 0, 0, 16), test, refusal, (_LOAD, 0, 0, 0)]
            steps += [(_EQUAL, 0, len(check), number), *check]
        else:
            steps += [(_EQUAL, 0, 1, number)]
            steps += [(_RETURN, 0, 0, ENOSYS) if name == "clone3" else refusal]
    steps.append((_RETURN, 0, 0, _ALLOW))
    program = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(program)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    described = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    assert libc.prctl(PR_SET_SECCOMP, 2, described, 0, 0) == 0, os.strerror(ctypes.get_errno())


def enter_container() -> None:
    """Be as in a container with Docker's default seccomp profile and capabilities.

    Not simulated: what Docker hides in /proc and /sys, and its own namespaces.
    """
    kept = 0
    for capability in range(64):
        if capability in DOCKER_CAPABILITIES:
            kept |= 1 << capability
        else:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.geteuid() == 0:
        low, high = kept & 0xFFFFFFFF, kept >> 32
        header = struct.pack("=Ii", 0x20080522, 0)
        sets = struct.pack("=6I", low, low, 0, high, high, 0)
        assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())
    refuse(DOCKER)


def run(program: str, *prefix: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which must end well."""
    whole = f"import logging\nlogging.basicConfig()\n{program}"
    done = subprocess.run(
        [*prefix, sys.executable, "-B", "-c", whole],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


USER = 1_234_567
GROUP = 1_234_568  # a further one that the user is in


@functools.cache
def elsewhere(user: str) -> list[str]:
    """Starts a program as "root", or as another "user" without rights, in a pid and a mount
    namespace of its own.

    Python may be installed where others cannot go: such a folder is covered there, and only what
    Python needs appears in it again.
    """
    if not shutil.which("unshare") or not shutil.which("setpriv"):
        pytest.skip("takes the programs unshare and setpriv")
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]
    become = f"setpriv --reuid={USER} --regid={USER} --groups={GROUP}" if user == "user" else ""
    shared = "mount -t tmpfs -o mode=1777 none /dev/shm"  # what programs leave there goes with it
    command += [f'set -e\n{shared}\n{_uncovered(Path(sys.base_prefix))}\nexec {become} "$@"', "sh"]
    tried = [*command, sys.executable, "-c", "import mcbench.evaluator, pytest"]
    done = subprocess.run(tried, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        pytest.skip(f"nobody can run this there: {done.stderr[-300:]}")
    return command


def _uncovered(folder: Path) -> str:
    """Shell commands that let another user reach a folder."""
    closed = [str(p) for p in folder.parents if not p.stat().st_mode & 0o001]
    if not closed:
        return ""
    place, covered = shlex.quote(str(folder)), shlex.quote(closed[-1])
    return (
        f"mount --bind {place} /mnt\nmount -t tmpfs -o mode=0755 none {covered}\n"
        f"mkdir -p {place}\nmount --bind /mnt {place}\numount -l /mnt"
    )
