"""Landlock and seccomp: which files a test may see, which system calls it may make.

Standard library only: the zygote loads this file. The zygote puts on the filter of system calls
once, and every process that it forks has it; it prepares the filter of files, which every test puts
on first. Neither can be taken off again.
"""
# Plain string paths: pathlib would cost every start.
# ruff: noqa: PTH112, PTH118, PTH208

import contextlib
import ctypes
import errno
import os
import struct

from mcbench.evaluator.libc import checked, library

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38


# Landlock ----------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_DIR = 8
_READ = 1 | 4 | _READ_DIR  # execute, read a file, read a directory
_ON_FILES = 1 | 2 | 4 | 1 << 14 | 1 << 15  # what applies to a file: + write, truncate, ioctl
# Number of file rights by version of the interface, and what else a version can restrict.
_FILE_RIGHTS = ((5, 16), (3, 15), (2, 14), (1, 13))
_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3

# What programs find outside Python's own folders.
SYSTEM_FILES = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/proc", "/etc/alternatives"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/timezone", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts"),
    *("/etc/locale.alias", "/etc/mime.types", "/dev/random", "/dev/urandom"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/shm", "/dev/fd")


def file_ruleset(readable: list[str], hidden: list[str], writable: list[str]) -> int:
    """A descriptor of the rule that these paths, and no others, can be read and written.

    What is below a ``hidden`` folder stays out, also where it is inside a readable one.

    Raises:
        OSError: the kernel has no Landlock, or does not allow it.
    """
    version = checked("landlock", library.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    rights = (1 << next(bits for least, bits in _FILE_RIGHTS if version >= least)) - 1
    attributes = struct.pack("=Q", rights)
    if version >= 4:
        attributes += struct.pack("=Q", _TCP)
    if version >= 6:
        attributes += struct.pack("=Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    size = ctypes.c_size_t(len(attributes))
    ruleset = checked("landlock", library.syscall(_CREATE_RULESET, attributes, size, 0))
    try:
        for path in readable:
            _allow_reading(ruleset, os.path.realpath(path), hidden)
        for path in writable:
            _allow(ruleset, path, rights)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def restrict_files(ruleset: int) -> None:
    """Put the rule on this process, once for all.

    Raises:
        OSError: the kernel refuses.
    """
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


# seccomp -----------------------------------------------------------------------------------------

# Architecture as linux/audit.h numbers it, and the numbers of the refused system calls.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    # namespaces and mounts (mount itself is the zygote's; for tests the kernel refuses it)
    "unshare": (272, 97),
    "setns": (308, 268),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    # System V and POSIX message queues, semaphores and shared memory outlive their makers
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    # files in memory belong to no process, and so to no limit
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # what other sandboxes, or the machine, would notice: locks on and watches of system files,
    # and which of them were read lately
    "flock": (73, 32),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "cachestat": (451, 451),
    # keyrings are kept per user
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # large and rarely needed parts of the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    # the machine
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
}
_CLONE3 = (435, 435)
# What signals a process or gives a handle to do so; the process is the first argument.
_SIGNALS = ((62, 129), (200, 130), (234, 131), (129, 138), (297, 240), (434, 434))
_NEW_NAMESPACES = 0x7E020080  # all CLONE_NEW... flags
_AF_UNIX = 1
_NOWAIT = 8  # RWF_NOWAIT: refuses to read what is not in memory
# F_GETLK, F_OFD_GETLK, F_SETLEASE, F_GETLEASE, F_NOTIFY
_LOCK_OWNERS_AND_NOTICES = (5, 36, 1024, 1025, 1026)
_OF_A_PROCESS = 0x80000000  # the CPU clock of a process by its number; of a thread: 4 as well
_ANY = 0xFFFFFFFF
# By system call: the argument it depends on, the bits of it that count, their values, whether these
# are allowed (and no others) or refused (and no others).
_DEPENDING: "list[tuple[tuple[int, int], int, int, tuple[int, ...], bool]]" = [
    ((56, 220), 0, _NEW_NAMESPACES, (0,), True),  # clone
    ((41, 198), 0, _ANY, (_AF_UNIX,), True),  # socket
    ((53, 199), 0, _ANY, (_AF_UNIX,), True),  # socketpair
    ((302, 261), 0, _ANY, (0,), True),  # prlimit64, of this process only
    ((327, 286), 5, _NOWAIT, (0,), True),  # preadv2
    ((72, 25), 1, _ANY, _LOCK_OWNERS_AND_NOTICES, False),  # fcntl
    ((228, 113), 0, _OF_A_PROCESS | 4, (_OF_A_PROCESS,), False),  # clock_gettime
    ((230, 115), 0, _OF_A_PROCESS | 4, (_OF_A_PROCESS,), False),  # clock_nanosleep
    ((222, 107), 0, _OF_A_PROCESS | 4, (_OF_A_PROCESS,), False),  # timer_create
]

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _AND, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
# Offsets in struct seccomp_data; an argument has eight bytes, the lower four first.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_X32 = 0x40000000


def restrict_system_calls(protected: "list[int]") -> None:
    """Refuse what no test needs and what could touch anything but its own processes.

    The ``protected`` processes, negative numbers for groups, cannot be sent signals.

    Raises:
        OSError: the kernel does not allow filters, or runs on an unknown architecture.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"seccomp: system call numbers of {machine} are not known")
    program = b"".join(_filter(*_ARCHITECTURES[machine], protected))
    buffer = ctypes.create_string_buffer(program)
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    # Gives up set-uid programs for good, as both filters require.
    checked("no_new_privs", library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    checked("seccomp", library.prctl(_PR_SET_SECCOMP, 2, described, 0, 0))


def _filter(architecture: int, column: int, protected: "list[int]") -> list[bytes]:
    """The filter program: one jump a refused call, most calls fall through to the end."""
    refuse = _step(_RETURN, _ERRNO | errno.EPERM)
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, architecture, 1, 0),
        refuse,  # another calling convention, where the numbers mean other things
        _step(_LOAD, _NUMBER),
    ]
    if column == 0:
        steps += [_step(_JUMP_AT_LEAST, _X32, 0, 1), refuse]
    # clone3 takes its flags through memory, which a filter cannot read: libc then uses clone.
    steps += [_step(_JUMP_EQUAL, _CLONE3[column], 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    for refused in (numbers[column] for numbers in _REFUSED.values()):
        if refused is not None:
            steps += [_step(_JUMP_EQUAL, refused, 0, 1), refuse]
    for numbers, argument, bits, values, allowed in _DEPENDING:
        steps += [
            _step(_JUMP_EQUAL, numbers[column], 0, len(values) + 4),
            _step(_LOAD, _FIRST_ARGUMENT + 8 * argument),
            _step(_AND, bits),
            *(_step(_JUMP_EQUAL, v, len(values) - n, 0) for n, v in enumerate(values)),
            refuse if allowed else _step(_RETURN, _ALLOW),
            _step(_RETURN, _ALLOW) if allowed else refuse,
        ]
    last = len(protected) - 1
    for numbers in _SIGNALS if protected else ():
        steps += [
            _step(_JUMP_EQUAL, numbers[column], 0, last + 4),
            _step(_LOAD, _FIRST_ARGUMENT),
            *(
                _step(_JUMP_EQUAL, pid & 0xFFFFFFFF, last - position + 1, 0)
                for position, pid in enumerate(protected)
            ),
            _step(_RETURN, _ALLOW),
            refuse,
        ]
    return [*steps, _step(_RETURN, _ALLOW)]


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)
