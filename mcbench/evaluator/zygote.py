"""The process that runs tests: started by exec, imports only the standard library, forks.

    python -I -S zygote.py DESCRIPTOR FLAVOUR PACKAGE_FOLDER...

Two processes. The *supervisor* (the one that was started) enters new namespaces, forks the zygote
proper and does nothing but wait: when the evaluator is gone it kills the zygote. The *zygote* is
init of its pid namespace. It reads one request at a time from the control socket, forks a fresh
child, waits with an eye on CPU time, wall time and memory, kills everything the child left
behind, and reports the raw outcome. It never sees an expected output and gives no verdict.
"""
# Plain string paths: pathlib would cost every start and every test.
# ruff: noqa: PTH100, PTH120, E402

import os
import resource
import sys

# The main thread's stack cannot grow beyond what was set when its program was started, and deep
# recursion is legal: start this one again under the limit that its tests are to have.
_STACK_BYTES = 1 << 30
_soft, _hard = resource.getrlimit(resource.RLIMIT_STACK)
_wanted = _STACK_BYTES if _hard == resource.RLIM_INFINITY else min(_STACK_BYTES, _hard)
if _soft != _wanted:
    resource.setrlimit(resource.RLIMIT_STACK, (_wanted, _hard))
    os.execv(sys.executable, sys.orig_argv)

# threading, random and others register functions that run in every forked process: a fifth of the
# cost of a test. A test's process has no threads to forget and no seed to draw, so for it they are
# left out; in the processes that it forks itself they run.
_fork_hooks: list[dict] = []
_register_at_fork = os.register_at_fork
os.register_at_fork = lambda **hooks: _fork_hooks.append(hooks)

import contextlib
import fcntl
import gc
import importlib
import json
import select
import signal
import socket
import threading
import time
from types import ModuleType
from typing import Any, NoReturn

# The sibling files are imported as a package of this one folder, which is forgotten at once: a
# submission can import neither them nor the project.
for _name in ("mcbench", "mcbench.evaluator"):
    sys.modules[_name] = ModuleType(_name)
    sys.modules[_name].__path__ = [os.path.dirname(os.path.abspath(__file__))]
from mcbench.evaluator import (
    asserting,
    child,
    encoding,
    isolation,
    landlock,
    link,
    portable,
    unit_tests,
    usage,
)

if sys.argv[2:3] == ["comparing"]:
    from mcbench.evaluator import compare

for _name in [name for name in sys.modules if name.startswith("mcbench")]:
    del sys.modules[_name]

POLL_S = 0.02  # how often a running child is inspected
PARENT_POLL_S = 0.5
FILES = 5  # program, input, stdout, stderr, result
# What a program of our own user may send us by mistake; against SIGKILL and SIGSTOP nothing helps.
DEAF_TO = (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Set up the supervisor and the zygote."""
    control = reserve_descriptors(int(sys.argv[1]))
    flavour = sys.argv[2]
    # Ray's workers have blocked some. The end of a child is waited for with a time limit.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD})
    sys.path += sys.argv[3:]
    threading.stack_size(isolation.THREAD_STACK)  # the default is the main thread's large one
    isolation.go_first()
    layers = isolation.Layers()
    layers.open_totals()
    isolation.enter_namespaces(layers)
    if not layers.world:
        layers.scratch.make_folder()
    isolation.protect_self()
    zygote_pid = os.fork()
    if zygote_pid == 0:
        isolation.die_with_parent()
        os.setpgid(0, 0)
        isolation.protect_self()
        isolation.enter_file_system(layers)
        Zygote(control, layers).serve(flavour)
        os._exit(0)
    control.close()
    supervise(zygote_pid, layers)


def supervise(zygote_pid: int, layers: isolation.Layers) -> NoReturn:
    """Wait for the zygote; kill it when the evaluator's process is gone."""
    ended: portable.Ended = {}
    while not portable.reap(zygote_pid, ended, os.WNOHANG):
        if os.getppid() != layers.evaluator_pid:
            os.kill(zygote_pid, signal.SIGKILL)
            portable.reap(zygote_pid, ended)
            break
        layers.scratch.sweep()
        signal.sigtimedwait({signal.SIGCHLD}, PARENT_POLL_S)
    # The end of init is the end of its namespace. Without one, what it leaves becomes ours.
    if not layers.world:
        isolation.kill_descendants()
    layers.scratch.remove()
    if layers.group is not None:
        layers.group.remove()
    os._exit(0)


_in_test = False


def forked() -> None:
    """Run the hooks of the preloaded modules, but not in a test's first process."""
    if _in_test:
        for hooks in _fork_hooks:
            if "after_in_child" in hooks:
                hooks["after_in_child"]()


class Zygote:
    """Runs one test after another, as the evaluator asks for them."""

    def __init__(self, control: socket.socket, layers: isolation.Layers) -> None:
        self.control = control
        self.layers = layers
        self.told, self.tell = os.pipe()  # why the set-up of a child has failed
        os.set_blocking(self.told, False)
        self.filling: list[bytes] = []

    def serve(self, flavour: str) -> None:
        """Answer requests until the evaluator closes its end."""
        layers = self.layers
        # The default does nothing to the init of a namespace; others are deaf to what they can be.
        for number in (signal.SIGINT, *(() if layers.world else DEAF_TO)):
            signal.signal(number, signal.SIG_DFL if layers.world else signal.SIG_IGN)
        layers.scratch.enter()
        child.prepare()
        isolation.put_on_filters(layers)
        isolation.confine_zygote(layers)
        with contextlib.suppress(ImportError):  # then it is missing for what is run, too
            if flavour == "numpy":
                importlib.import_module("numpy")
            elif flavour == "pytest":
                unit_tests.warm_up()
        os.register_at_fork = _register_at_fork  # nothing more is loaded here
        os.register_at_fork(after_in_child=forked)
        gc.collect()
        self.filling = isolation.settle_memory()
        gc.freeze()  # the collector of a child need not touch, and so copy, our pages
        try:
            channel = portable.Channel(self.control, FILES)
            layers.note_own_usage()
            greeting = {"granted": layers.granted, "missing": layers.missing}
            channel.send(greeting | {"pid": 0 if layers.world else os.getpid()})
            # The contents stay in the files. This process never reads them, so that nothing of one
            # test can be found in the memory of the next one's child.
            while True:
                request, files = channel.receive()
                try:
                    outcome = self.run_test(request, files)
                except OSError as error:  # our own failure: no descriptor, no process, no memory
                    outcome = {"failure": f"{type(error).__name__}: {error}"}
                finally:
                    for file in files:
                        os.close(file)
                try:
                    isolation.clean_scratch(layers)
                finally:  # where that fails, this process has had its day, but not for nothing
                    channel.send(outcome)
        except (OSError, EOFError):  # the evaluator is gone, or will notice that we are
            pass

    def run_test(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Fork, wait, clean up: how the test ended and what it used.

        An assert-style test has two processes: its own, whose end is waited for, and the
        submission's.
        """
        ends = socket.socketpair() if request["kind"] == "assert" else ()
        started = time.monotonic()
        pids: list[int] = []
        ended: portable.Ended = {}
        self.layers.count_processes_anew()
        try:  # from the first process on: there may be no room for a second one
            for role in ("answering", "assert") if ends else (request["kind"],):
                pid = portable.fork()
                if pid == 0:
                    self.become(role, request, files, ends)
                pids.append(pid)
            for end in ends:
                end.close()  # so that either process sees the other's end
            meter = usage.Meter(self.layers, pids)
            stopped = self.watch(pid, request, ended, meter)
        finally:
            isolation.end_everything(self.layers, pids, ended)
        wall_s = time.monotonic() - started
        with contextlib.suppress(BlockingIOError):
            return {"failure": os.read(self.told, select.PIPE_BUF).decode()}
        used = [each for _, each in ended.values()]
        cpu_s = sum(each.ru_utime + each.ru_stime for each in used)
        memory = 1024 * max(each.ru_maxrss for each in used)  # peak resident, in bytes
        return {
            "status": os.waitstatus_to_exitcode(ended[pid][0]),
            "stopped": stopped,
            "cpu_s": max(cpu_s, meter.cpu_time()),
            "wall_s": wall_s,
            "memory_mb": max(memory, meter.most_memory) / 2**20,
        }

    def watch(
        self, pid: int, request: dict[str, Any], ended: portable.Ended, meter: usage.Meter
    ) -> str | None:
        """Wait until the child ends (None) or exceeds a limit ("time", "wall", "memory") or has
        too much to be looked at ("crowded").

        Raises:
            EOFError: the evaluator is gone.
        """
        hang_up = select.poll()
        hang_up.register(self.control, 0)
        wall_s = portable.wall_limit(request["cpu_s"])
        started = time.monotonic()
        deadline, next_look = started + wall_s, started + POLL_S
        while not portable.reap(pid, ended, os.WNOHANG):
            signal.sigtimedwait({signal.SIGCHLD}, POLL_S)
            if (now := time.monotonic()) < next_look:  # a process of the test has ended
                continue
            next_look = now + POLL_S
            if hang_up.poll(0):
                raise EOFError
            cpu_s, memory = meter.look()
            if cpu_s > request["cpu_s"]:
                return "time"
            if memory > request["memory_bytes"]:
                return "memory"
            if meter.crowded:
                return "crowded"
            if now > deadline:
                deadline = started + min(wall_s + meter.waited(), portable.MOST_WALL * wall_s)
                if now > deadline:
                    return "wall"
        return None

    def become(
        self, role: str, request: dict[str, Any], files: list[int], ends: tuple[socket.socket, ...]
    ) -> NoReturn:
        """In the child: real descriptors, limits, then the program. Does not return.

        The pipe ``tell`` is closed before any of the submission runs, so only our own failures can
        be reported on it: a submission cannot pass for a victim of the infrastructure.
        """
        global _in_test
        _in_test = True
        status = 1
        try:
            try:
                program = b"" if role == "compare" else portable.read_all(files[0])
                given: Any = None
                if role == "compare":
                    given = portable.read_all(files[1])
                elif role == "call":
                    given = encoding.loads(portable.read_all(files[1]))
                elif role == "assert":  # the answers, which the submission's process must not read
                    given = json.loads(portable.read_all(files[1]))
                    sys.path.remove(os.environ["HOME"])  # where the submission may write modules
                streams = choose_streams(role, files, ends)
                landlock.restrict_files(self.layers.ruleset)  # whose descriptor must still be open
                place_descriptors(streams, self.tell)
                os.setsid()
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                for number in () if self.layers.world else DEAF_TO:
                    signal.signal(number, signal.SIG_DFL)
                isolation.confine_child(self.layers, request, role in ("assert", "compare"))
            except BaseException as error:  # our failure, not the submission's
                message = f"child set-up: {type(error).__name__}: {error}"
                os.write(self.tell, message.encode()[:900])
                os._exit(1)
            os.close(self.tell)
            if role == "assert":
                asserting.run_test(given)
            elif role == "compare":
                found = compare.run_comparison(portable.read_all(link.RESULT), given)
                os.pwrite(child.RESULT, found, 0)
                status = 0
            elif role == "stdio":
                status = child.run_program(program)
            elif role == "call":
                status = child.run_call(program, request, given)
            else:
                status = child.run_answering(program, link.serve)
        finally:
            os._exit(status)


def choose_streams(role: str, files: list[int], ends: tuple[socket.socket, ...]) -> list[int]:
    """What becomes the descriptors 0, 1, 2 and, but for stdin/stdout programs, those after them."""
    code, data, stdout, stderr, result = files
    if role == "stdio":
        return [data, stdout, stderr]
    nothing = os.open(os.devnull, os.O_RDWR)
    if role == "compare":
        return [nothing, nothing, stderr, result, code]
    if role == "assert":
        return [nothing, nothing, nothing, ends[1].fileno(), result, stdout, stderr]
    return [nothing, stdout, stderr, result if role == "call" else ends[0].fileno()]


def place_descriptors(streams: list[int], kept: int) -> None:
    """Give the streams the numbers from 0 on and close all else but one that is ``kept``.

    The zygote keeps these numbers occupied (`reserve_descriptors`): no stream has one of them.
    """
    for number, stream in enumerate(streams):
        os.dup2(stream, number, inheritable=number <= child.STDERR)
    os.closerange(len(streams), kept)
    os.closerange(kept + 1, isolation.MAX_FILES)


_MOST = max(link.PRINTED.values())  # of the numbers that a test's streams get


def reserve_descriptors(control: int) -> socket.socket:
    """Move the control socket up and fill the numbers that a test's streams get."""
    moved = fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, _MOST + 1)
    os.close(control)
    while os.dup(child.STDIN) < _MOST:
        pass
    return socket.socket(fileno=moved)


if __name__ == "__main__":
    main()
