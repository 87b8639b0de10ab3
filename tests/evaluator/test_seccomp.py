"""The filter of system calls, run as the kernel would run it, for both machines it knows."""

import errno
import struct

import pytest

from mcbench.evaluator.seccomp import steps_for

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
ALLOWED, EPERM, ENOSYS = 0, errno.EPERM, errno.ENOSYS
NAMED, UNNAMED = (True, True, []), (False, False, [-1, 4711])


def answer(machine, settings, number, *arguments, architecture=None):
    """What a call gets: 0 if it is let through, else the error."""
    architecture = architecture or MACHINES[machine][0]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *[*arguments, *[0] * 6][:6])
    at = value = 0
    program = [struct.unpack("=HBBI", step) for step in steps_for(machine, *settings)]
    while True:
        code, when_true, when_false, operand = program[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            value &= operand
        elif code == 0x05:
            at += operand
        elif code in (0x15, 0x25):
            true = value == operand if code == 0x15 else value > operand
            at += when_true if true else when_false
        else:
            assert code == 0x06
            return ALLOWED if operand == 0x7FFF0000 else operand & 0xFFFF


@pytest.mark.parametrize(
    ("numbers", "arguments", "settings", "wanted"),
    [
        ((257, 56), (), NAMED, ALLOWED),  # openat
        ((0, 63), (), UNNAMED, ALLOWED),  # read
        ((101, 117), (), NAMED, EPERM),  # ptrace
        ((319, 279), (), NAMED, EPERM),  # memfd_create
        ((462, 462), (), NAMED, ALLOWED),  # mseal, which it knows
        ((470, 470), (), NAMED, ENOSYS),  # newer than the filter
        ((1 << 30, 1 << 30), (), NAMED, ENOSYS),
        ((435, 435), (), NAMED, ENOSYS),  # clone3
        ((56, 220), (0x1200011,), NAMED, ALLOWED),  # clone, as fork does
        ((56, 220), (0x10000011,), NAMED, EPERM),  # with a user namespace
        ((41, 198), (1, 1), NAMED, ALLOWED),  # socket: AF_UNIX
        ((41, 198), (1, 1), UNNAMED, EPERM),
        ((41, 198), (2, 1), NAMED, EPERM),  # AF_INET
        ((53, 199), (1, 1), UNNAMED, ALLOWED),  # socketpair: SOCK_STREAM,
        ((53, 199), (1, 0x80805), UNNAMED, ALLOWED),  # SOCK_SEQPACKET with flags,
        ((53, 199), (1, 2), UNNAMED, EPERM),  # SOCK_DGRAM, which could be sent elsewhere
        ((53, 199), (1, 2), NAMED, ALLOWED),
        ((62, 129), (4711, 9), UNNAMED, EPERM),  # kill: protected,
        ((62, 129), (0xFFFFFFFF, 9), UNNAMED, EPERM),  # everybody,
        ((62, 129), (4712, 9), UNNAMED, ALLOWED),  # another
        ((141, 140), (0, 1, 19), UNNAMED, EPERM),  # setpriority: of the zygote,
        ((141, 140), (2, 0, 19), UNNAMED, EPERM),  # of a user,
        ((141, 140), (0, 0, 19), UNNAMED, ALLOWED),  # of its own
        ((72, 25), (3, 5), NAMED, EPERM),  # fcntl: F_GETLK,
        ((72, 25), (3, 3), NAMED, ALLOWED),  # F_GETFL
        ((228, 113), (0,), NAMED, ALLOWED),  # clock_gettime: CLOCK_REALTIME,
        ((228, 113), (~1 << 3 & (1 << 64) - 1,), NAMED, EPERM),  # of another process
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_system_call_gets(machine, numbers, arguments, settings, wanted):
    number = numbers[MACHINES[machine][1]]
    assert answer(machine, settings, number, *arguments) == wanted


def test_another_calling_convention_and_machine():
    assert answer("x86_64", NAMED, 11, architecture=0x40000003) == ENOSYS  # 32 bits
    with pytest.raises(OSError, match="riscv64 are not known"):
        steps_for("riscv64", *NAMED)
