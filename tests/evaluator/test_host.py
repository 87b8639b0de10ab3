"""What the host has and did not give: no submission reaches it, whoever runs it and wherever.

The objects are real ones: sockets that listen, fifos that are read and files, in a folder that only
the evaluator's user may enter, in one behind a group of that user, and in one for all.
"""

import json
import os
import select
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mcbench.evaluator import Evaluator, StdioTest, Submission
from tests.evaluator.machines import GROUP, USER, as_root, elsewhere, on_linux, run

pytestmark = on_linux
KINDS = [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]
PROGRAM = Path(__file__).with_name("reach_host.py")
HERE = "from tests.evaluator.test_host import *\nfrom tests.evaluator.machines import *\n"


class Host:
    """Its objects: where they are, and what can be read once somebody has reached one."""

    def __init__(self, stack: ExitStack, folder: Path, user: int) -> None:
        self.stack, self.waiting = stack, []
        self.paths: list[str] = []
        folder.chmod(0o711)
        for name, owner, group, mode in (
            ("own", user, user, 0o700),
            ("group", 0, GROUP, 0o770),
            ("open", 0, 0, 0o777),
        ):
            place = folder / name
            place.mkdir()
            made = [place / str(kind) for kind in range(len(KINDS))]
            for path, kind in zip(made, KINDS, strict=True):
                self.listen(kind, str(path))
            made += [place / "fifo", place / "file"]
            os.mkfifo(made[-2])
            made[-1].write_text("text")
            self.waiting.append(os.open(made[-2], os.O_RDONLY | os.O_NONBLOCK))
            stack.callback(os.close, self.waiting[-1])
            self.paths += map(str, made)
            for path in (*made, place):
                os.chown(path, owner, group)
                path.chmod(mode)
        self.abstract = [f"mcbench-{os.getpid()}-{kind}" for kind in range(len(KINDS))]
        for name, kind in zip(self.abstract, KINDS, strict=True):
            self.listen(kind, f"\0{name}")

    def listen(self, kind: int, address: str) -> None:
        one = self.stack.enter_context(socket.socket(socket.AF_UNIX, kind))
        one.bind(address)
        if kind != socket.SOCK_DGRAM:
            one.listen()
        self.waiting.append(one)


@contextmanager
def host(user: int) -> Iterator[Host]:
    """Of a user whose evaluator it is."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, ExitStack() as stack:
        yield Host(stack, Path(folder), user)


def reach_out(objects: dict[str, object]) -> None:
    """On the machine in question: print what came of a submission that reaches for them."""
    with Evaluator(workers=1) as evaluator:
        told = objects | {"world": "own root" in evaluator.isolation["granted"]}
        test = StdioTest(json.dumps(told) + "\n", "", keep_output=True)
        result = evaluator.evaluate([Submission(PROGRAM.read_text(), [test], 20)])[0].tests[0]
    print(json.dumps([result.verdict, result.output, result.message]))


@as_root
@pytest.mark.parametrize("machine", ["host", "container"])
@pytest.mark.parametrize("user", ["root", "user"])
def test_no_object_of_the_host_is_reached(user, machine):
    prefix, uid = elsewhere(user), USER if user == "user" else 0
    enter = "enter_container()\n" if machine == "container" else ""
    with host(uid) as its:
        objects = {"paths": its.paths, "abstract": its.abstract}
        done = run(f"{HERE}{enter}reach_out({objects})", *prefix)
        reached = select.select(its.waiting, [], [], 0)[0]
    assert (json.loads(done.stdout), reached) == (["AC", "\n", ""], [])
