"""The filter of system calls, run as the kernel would run it, for both machines it knows."""

import errno
import struct

import pytest

from mcbench.evaluator.seccomp import steps_for, steps_for_group

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
DONE, ALLOWED, EPERM, ENOSYS = -1, 0, errno.EPERM, errno.ENOSYS
NAMED, UNNAMED = (True, True), (False, False)
LEADER = 4711


def answer(machine, steps, number, *arguments, architecture=None):
    """What a call gets: 0 if it is let through, -1 if it only seems to be done, else the error."""
    architecture = architecture or MACHINES[machine][0]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *[*arguments, *[0] * 6][:6])
    at = value = 0
    program = [struct.unpack("=HBBI", step) for step in steps]
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
            return ALLOWED if operand == 0x7FFF0000 else operand & 0xFFFF or DONE


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
        ((162, 81), (), NAMED, DONE),  # sync
        ((141, 140), (0, 1, 19), UNNAMED, EPERM),  # setpriority: of the zygote,
        ((141, 140), (2, 0, 19), UNNAMED, EPERM),  # of a user,
        ((141, 140), (0, 0, 19), UNNAMED, ALLOWED),  # of its own
        ((72, 25), (3, 5), NAMED, EPERM),  # fcntl: F_GETLK,
        ((72, 25), (3, 8), NAMED, EPERM),  # F_SETOWN,
        ((72, 25), (3, 3), NAMED, ALLOWED),  # F_GETFL
        ((16, 29), (3, 0x8901), NAMED, EPERM),  # ioctl: FIOSETOWN,
        ((16, 29), (3, 0x5401), NAMED, ALLOWED),  # TCGETS
        ((228, 113), (0,), NAMED, ALLOWED),  # clock_gettime: CLOCK_REALTIME,
        ((228, 113), (~1 << 3 & (1 << 64) - 1,), NAMED, EPERM),  # of another process
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_system_call_gets(machine, numbers, arguments, settings, wanted):
    number = numbers[MACHINES[machine][1]]
    assert answer(machine, steps_for(machine, *settings), number, *arguments) == wanted


@pytest.mark.parametrize(
    ("numbers", "argument", "wanted"),
    [
        ((62, 129), LEADER - 1, EPERM),  # kill: of what is older,
        ((62, 129), LEADER, ALLOWED),
        ((62, 129), LEADER + 1, ALLOWED),
        ((62, 129), 0, ALLOWED),  # its group,
        ((62, 129), -LEADER, ALLOWED),
        ((62, 129), -1, EPERM),  # everybody,
        ((62, 129), 1 - LEADER, EPERM),  # another group
        ((434, 434), LEADER - 1, EPERM),  # pidfd_open
        ((424, 424), 3, EPERM),  # pidfd_send_signal
        ((112, 157), 0, DONE),  # setsid
        ((0, 63), 0, ALLOWED),  # read
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_group_signals_nobody_else(machine, numbers, argument, wanted):
    steps, number = steps_for_group(machine, LEADER), numbers[MACHINES[machine][1]]
    assert answer(machine, steps, number, argument & 0xFFFFFFFF) == wanted


def test_another_calling_convention_and_machine():
    assert (
        answer("x86_64", steps_for("x86_64", *NAMED), 11, architecture=0x40000003) == ENOSYS
    )  # 32 bits
    with pytest.raises(OSError, match="riscv64 are not known"):
        steps_for("riscv64", *NAMED)
