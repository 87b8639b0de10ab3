"""Which system calls a test may make (seccomp).

Standard library only: the zygote loads this file. It puts the filter on once, and every process
that it forks has it; nobody can take it off again. Refused is what an ordinary user could do to
anything but the test's own processes and files; what takes a privilege the kernel refuses, since
tests have none. A call that is newer than this file does not exist for a test.
"""

import ctypes
import errno
import os
import struct

from mcbench.evaluator.libc import checked, library

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38

# Architecture as linux/audit.h numbers it, and the column of its numbers below.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_LAST_KNOWN = 469  # file_setattr, of Linux 6.17
# Each with its numbers on both; a dash where there is none.
_REFUSED = {
    "other processes": "ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, "
    "kcmp 312 272, pidfd_getfd 438 438, process_madvise 440 440",
    "namespaces, in which an ordinary user has privileges, and files by number": "unshare 272 97, "
    "setns 308 268, open_by_handle_at 304 265",
    "memory, semaphores and queues that outlive their makers": "shmget 29 194, shmat 30 196, "
    "shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192, "
    "msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, "
    "mq_unlink 241 181",
    "memory that belongs to no process, and so to no limit": "memfd_create 319 279, "
    "memfd_secret 447 447",
    "what others would notice: locks and watches, which files were read lately": "flock 73 32, "
    "inotify_init 253 -, inotify_init1 294 26, fanotify_init 300 262, cachestat 451 451",
    "keyrings, kept per user": "add_key 248 217, request_key 249 218, keyctl 250 219",
    "large and rarely needed parts of the kernel": "bpf 321 280, perf_event_open 298 241, "
    "userfaultfd 323 282, io_uring_setup 425 425, modify_ldt 154 -, syslog 103 116",
}
_CLONE3 = (435, 435)
# What waits for the disk, with all that the machine has to write there, and cannot be killed then.
# It seems to be done: sync, syncfs, fsync, fdatasync
_SYNCS = ((162, 81), (306, 267), (74, 82), (75, 83))
# What signals a process or gives a handle to do so; the process is the first argument.
_SIGNALS = ((62, 129), (200, 130), (234, 131), (129, 138), (297, 240), (434, 434))
_SIGNAL_BY_HANDLE = (424, 424)  # which a folder in /proc is, too
_NEW_SESSION_OR_GROUP = ((112, 157), (109, 154))  # setsid, setpgid
_NEGATIVE = 1 << 31
_NEW_NAMESPACES = 0x7E020080  # all CLONE_NEW... flags
_AF_UNIX, _CONNECTED = 1, (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET: these cannot be sent elsewhere
_NOWAIT = 8  # RWF_NOWAIT: refuses to read what is not in memory
# F_GETLK, F_OFD_GETLK, F_SETLEASE, F_GETLEASE, F_NOTIFY
_LOCK_OWNERS_AND_NOTICES = (5, 36, 1024, 1025, 1026)
# Whom the kernel sends a signal, any one, when there is something to read: F_SETOWN, F_SETOWN_EX;
# FIOSETOWN, SIOCSPGRP
_OWNERS, _OWNERS_BY_IOCTL = (8, 15), (0x8901, 0x8902)
_OF_A_PROCESS = 0x80000000  # the CPU clock of a process by its number; of a thread: 4 as well
_ANY = 0xFFFFFFFF

# A system call, the argument it depends on, the bits of it that count, their values, whether these
# are allowed (and no others) or refused (and no others).
_Rule = tuple[tuple[int, int], int, int, tuple[int, ...], bool]
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_DEPENDING: list[_Rule] = [
    ((56, 220), 0, _NEW_NAMESPACES, (0,), True),  # clone
    (_SOCKETPAIR, 0, _ANY, (_AF_UNIX,), True),
    ((302, 261), 0, _ANY, (0,), True),  # prlimit64, of this process only
    ((327, 286), 5, _NOWAIT, (0,), True),  # preadv2
    ((72, 25), 1, _ANY, (*_LOCK_OWNERS_AND_NOTICES, *_OWNERS), False),  # fcntl
    ((16, 29), 1, _ANY, _OWNERS_BY_IOCTL, False),  # ioctl
    ((228, 113), 0, _OF_A_PROCESS | 4, (_OF_A_PROCESS,), False),  # clock_gettime
    ((230, 115), 0, _OF_A_PROCESS | 4, (_OF_A_PROCESS,), False),  # clock_nanosleep
    ((222, 107), 0, _OF_A_PROCESS | 4, (_OF_A_PROCESS,), False),  # timer_create
]
# Where the zygote has the same user: of this process only. Call, argument, its one value.
_OF_ONE_USER = (
    *(((203, 122), 0, 0), ((144, 119), 0, 0)),  # sched_setaffinity, sched_setscheduler
    *(((142, 118), 0, 0), ((314, 274), 0, 0)),  # sched_setparam, sched_setattr
    *(((141, 140), 0, 0), ((141, 140), 1, 0)),  # setpriority
    *(((251, 30), 0, 1), ((251, 30), 1, 0)),  # ioprio_set
)

_LOAD, _AND, _JUMP, _JUMP_EQUAL, _JUMP_ABOVE, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x25, 0x06
# Offsets in struct seccomp_data; an argument has eight bytes, the lower four first.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


_ERRNO = 0x00050000
_ALLOWED, _DONE = _step(_RETURN, 0x7FFF0000), _step(_RETURN, _ERRNO)
_REFUSAL, _NOTHING = (_step(_RETURN, _ERRNO | code) for code in (errno.EPERM, errno.ENOSYS))


def _answer(number: int, answer: bytes) -> "list[bytes]":
    """What one system call gets."""
    return [_step(_JUMP_EQUAL, number, 0, 1), answer]


def restrict_system_calls(named_sockets: bool, own_user: bool) -> None:
    """Refuse what no test needs and what could touch anything but its own processes.

    Sockets that can be sent to a name are refused unless ``named_sockets``: the host has such.
    ``own_user`` says whether tests run as another user than the zygote.

    Raises:
        OSError: the kernel does not allow filters, or runs on an unknown architecture.
    """
    _put_on(steps_for(os.uname().machine, named_sockets, own_user))


def steps_for(machine: str, named_sockets: bool, own_user: bool) -> "list[bytes]":
    """The filter program of `restrict_system_calls`."""
    architecture, column = _known(machine)
    rules = [*_DEPENDING, (_SOCKET, 0, _ANY, (_AF_UNIX,) if named_sockets else (), True)]
    if not named_sockets:
        rules.append((_SOCKETPAIR, 1, 0xF, _CONNECTED, True))
    if not own_user:
        rules += [(call, at, _ANY, (value,), True) for call, at, value in _OF_ONE_USER]
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, architecture, 1, 0),
        _NOTHING,  # another calling convention, where the numbers mean other things
        _step(_LOAD, _NUMBER),
        *(_step(_JUMP_ABOVE, _LAST_KNOWN, 0, 1), _NOTHING),
        # clone3 takes its flags through memory, which a filter cannot read: libc then uses clone.
        *_answer(_CLONE3[column], _NOTHING),
    ]
    for refused in ", ".join(_REFUSED.values()).split(", "):
        number = refused.split()[1 + column]
        if number != "-":
            steps += _answer(int(number), _REFUSAL)
    for numbers in _SYNCS:
        steps += _answer(numbers[column], _DONE)
    for rule in rules:
        steps += _depending(*rule, column)
    return [*steps, _ALLOWED]


def keep_to_group() -> None:
    """From here on a process stays in the process group that it leads, so that one signal reaches
    all of it, and signals nobody else: no process that is older than it.

    To leave the group seems to succeed: a program that tries does not depend on it.

    Raises:
        OSError: as `restrict_system_calls`.
    """
    _put_on(steps_for_group(os.uname().machine, os.getpid()))


def steps_for_group(machine: str, leader: int) -> "list[bytes]":
    """The filter program of `keep_to_group`."""
    _, column = _known(machine)
    steps = [_step(_LOAD, _NUMBER), *_answer(_SIGNAL_BY_HANDLE[column], _REFUSAL)]
    for numbers in _NEW_SESSION_OR_GROUP:
        steps += _answer(numbers[column], _DONE)
    for left, numbers in zip(reversed(range(len(_SIGNALS))), _SIGNALS, strict=True):
        steps += [_step(_JUMP_EQUAL, numbers[column], left + 1, 0)]
    return [
        *(*steps, _ALLOWED),
        *(_step(_LOAD, _FIRST_ARGUMENT), _step(_JUMP_EQUAL, 0, 4, 0)),
        _step(_JUMP_EQUAL, -leader & _ANY, 3, 0),
        *(_step(_JUMP_ABOVE, _NEGATIVE - 1, 1, 0), _step(_JUMP_ABOVE, leader - 1, 1, 0)),
        *(_REFUSAL, _ALLOWED),
    ]


def _known(machine: str) -> "tuple[int, int]":
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"seccomp: system call numbers of {machine} are not known")
    return _ARCHITECTURES[machine]


def _put_on(steps: "list[bytes]") -> None:
    buffer = ctypes.create_string_buffer(b"".join(steps))
    described = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    # Gives up set-uid programs for good, as both filters require.
    checked("no_new_privs", library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    checked("seccomp", library.prctl(_PR_SET_SECCOMP, 2, described, 0, 0))


def _depending(
    numbers: "tuple[int, int]",
    argument: int,
    bits: int,
    values: "tuple[int, ...]",
    allowed: bool,
    column: int,
) -> "list[bytes]":
    """The steps of a rule; a call that it does not refuse goes on to the next one."""
    steps = [_step(_LOAD, _FIRST_ARGUMENT + 8 * argument), _step(_AND, bits)]
    steps += [_step(_JUMP_EQUAL, v, len(values) - n, 0) for n, v in enumerate(values)]
    if not allowed:  # over the refusal
        steps.append(_step(_JUMP, 1))
    steps += [_REFUSAL, _step(_LOAD, _NUMBER)]
    return [_step(_JUMP_EQUAL, numbers[column], 0, len(steps)), *steps]
