"""The process that runs tests: started by exec, imports only the standard library, forks.

    python zygote.py DESCRIPTOR

Two processes. The *supervisor* (the one that was started) enters new namespaces, forks the zygote
proper and does nothing but wait: when the evaluator is gone it kills the zygote. The *zygote* is
init of its pid namespace. It reads one request at a time from the control socket, forks a fresh
child, waits with an eye on CPU time, wall time and memory, kills everything the child left
behind, and reports the raw outcome. It never sees an expected output and gives no verdict.
"""
# Plain string paths: pathlib would cost every start and every test.
# ruff: noqa: PTH100, PTH101, PTH108, PTH118, PTH120

import contextlib
import gc
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NoReturn

POLL_MS = 20  # how often a running child is inspected
PARENT_POLL_S = 0.5
STDERR_KEPT = 4096
LARGE = 1 << 20  # bytes in or out after which free memory is given back


def _load(name: str) -> Any:
    """A sibling file, without making its folder importable."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_mcbench_" + name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from mcbench.evaluator import child, encoding, isolation
else:
    child, encoding, isolation = map(_load, ("child", "encoding", "isolation"))


def main() -> None:
    """Set up the supervisor and the zygote."""
    control = socket.socket(fileno=int(sys.argv[1]))
    evaluator_pid = os.getppid()
    isolation.default_thread_stack()
    layers = isolation.Layers()
    os.environ["MCBENCH_ZYGOTE"] = str(os.getpid())
    isolation.enter_namespaces(layers)
    isolation.protect_self()
    zygote_pid = os.fork()
    if zygote_pid == 0:
        isolation.die_with_parent()
        os.setpgid(0, 0)
        isolation.protect_self()
        isolation.enter_file_system(layers)
        serve(control, layers)
        os._exit(0)
    control.close()
    supervise(zygote_pid, evaluator_pid, layers)


def supervise(zygote_pid: int, evaluator_pid: int, layers: "isolation.Layers") -> None:
    """Wait for the zygote; kill it when the evaluator's process is gone."""
    handle = os.pidfd_open(zygote_pid)
    while not select.select([handle], [], [], PARENT_POLL_S)[0]:
        if os.getppid() != evaluator_pid:
            break
    # The end of init is the end of its namespace. Without one, sweep what was re-parented to us.
    with contextlib.suppress(ProcessLookupError):
        os.kill(zygote_pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(zygote_pid, 0)
    if not layers.pid_namespace:
        isolation.kill_everything(layers, zygote_pid)


def serve(control: socket.socket, layers: "isolation.Layers") -> None:
    """Answer requests until the evaluator closes its end."""
    make_scratch(layers)
    names = child.leetcode_namespace()
    gc.collect()
    gc.freeze()  # the collector of a child need not touch, and so copy, our pages
    control.sendall(encoding.frame({"granted": layers.granted, "missing": layers.missing}))
    try:
        while True:
            header, body = read_request(control)
            try:
                outcome, output = run_test(header, body, control, layers, names)
            except EvaluatorGoneError:
                raise
            except OSError as error:  # our own failure: no descriptor, no process, no memory
                outcome, output = {"failure": f"{type(error).__name__}: {error}"}, b""
            control.sendall(encoding.frame(outcome | {"id": header["id"]}, output))
            large = len(body) + len(output) > LARGE
            del header, body, output  # the next child must not inherit them
            if large:
                isolation.return_free_memory()
    except (EvaluatorGoneError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        if not layers.scratch_is_mount:
            shutil.rmtree(layers.scratch, ignore_errors=True)


class EvaluatorGoneError(OSError):
    """The other end of the control socket was closed."""


def read_request(control: socket.socket) -> tuple[dict[str, Any], bytes]:
    """One request and not a byte more: a later one has no business in this test's memory."""
    header_size, body_size = encoding.PREFIX.unpack(read_exactly(control, encoding.PREFIX.size))
    header = json.loads(read_exactly(control, header_size))
    return header, bytes(read_exactly(control, body_size))


def read_exactly(control: socket.socket, size: int) -> bytearray:
    """``size`` bytes of the control socket."""
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = control.recv_into(view[done:])
        if count == 0:
            raise EvaluatorGoneError
        done += count
    return data


def make_scratch(layers: "isolation.Layers") -> None:
    """The working directory of the tests: a mount of our own or, failing that, a temporary one."""
    if not layers.scratch:
        layers.scratch = tempfile.mkdtemp(prefix="mcbench-")
        if layers.test_uid is not None:
            os.chown(layers.scratch, layers.test_uid, layers.test_uid)
    os.chdir(layers.scratch)
    os.environ.update(HOME=layers.scratch, TMPDIR=layers.scratch)
    tempfile.tempdir = None


def run_test(
    header: dict[str, Any],
    body: bytes,
    control: socket.socket,
    layers: "isolation.Layers",
    names: dict[str, Any],
) -> tuple[dict[str, Any], bytes]:
    """Fork, wait, clean up, read the output: the raw outcome and stdout + stderr + result."""
    # Standard streams are files in memory: nothing to drain, RLIMIT_FSIZE is the cap, and
    # standard input has a size and can be seeked, as when a judge redirects it from a file.
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr", "result")]
    setup_read, setup_write = os.pipe()
    try:
        if header["call"] is None:
            write_all(files[0], memoryview(body)[header["code_size"] :])
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            become_submission(header, body, files, setup_write, layers, names)
        try:
            stopped = watch(pid, header, control, layers)
        finally:
            isolation.kill_everything(layers, pid)
            _, status, usage = os.wait4(pid, 0)
            isolation.reap_orphans(layers)
            sweep(layers.scratch)
        wall = time.monotonic() - started
        os.close(setup_write)
        setup_write = -1
        if setup_error := os.read(setup_read, 1000):
            return {"failure": setup_error.decode()}, b""
        cap = header["output_bytes"]
        too_much = any(os.fstat(file).st_size > cap for file in files[1:])
        parts = [os.pread(file, cap, 0) for file in (files[1], files[3])]
        stderr_size = os.fstat(files[2]).st_size
        parts.append(os.pread(files[2], STDERR_KEPT, max(0, stderr_size - STDERR_KEPT)))
        outcome = {
            "status": os.waitstatus_to_exitcode(status),
            "stopped": stopped,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "wall_s": wall,
            "memory_mb": usage.ru_maxrss / 1024,
            "too_much_output": too_much,
            "sizes": [len(part) for part in parts],
        }
        return outcome, b"".join(parts)
    finally:
        for descriptor in (*files, setup_read, setup_write):
            if descriptor >= 0:
                os.close(descriptor)


def become_submission(
    header: dict[str, Any],
    body: bytes,
    files: list[int],
    setup_write: int,
    layers: "isolation.Layers",
    names: dict[str, Any],
) -> NoReturn:
    """In the child: real descriptors, limits, then the program. Does not return.

    The set-up pipe is closed before any of the submission runs, so only our own failures can be
    reported on it: a submission cannot pass for a victim of the infrastructure.
    """
    status = 1
    try:
        try:
            setup = os.dup2(setup_write, 60)
            for number, file in enumerate([os.dup(file) for file in files]):
                os.dup2(file, number)
            is_call = header["call"] is not None
            os.set_inheritable(child.RESULT, False)
            os.closerange(4 if is_call else 3, setup)
            os.closerange(setup + 1, 4096)
            os.lseek(child.STDIN, 0, os.SEEK_SET)
            os.setsid()
            code = body[: header["code_size"]]
            args: Any = encoding.loads(body[header["code_size"] :]) if is_call else []
            file_bytes = header["output_bytes"] + 1  # one more, to see that it was exceeded
            isolation.confine_child(layers, header["cpu_s"], header["memory_bytes"], file_bytes)
        except BaseException as error:  # our failure, not the submission's
            os.write(setup_write, f"child set-up: {type(error).__name__}: {error}".encode()[:900])
            os._exit(1)
        os.close(setup)
        if is_call:
            status = child.run_call(code, header["call"], args, names, encoding.dumps)
        else:
            status = child.run_program(code)
    finally:
        os._exit(status)


def watch(
    pid: int, header: dict[str, Any], control: socket.socket, layers: "isolation.Layers"
) -> "str | None":
    """Wait until the child ends (None) or exceeds a limit ("time", "wall" or "memory")."""
    handle = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        poller.register(control, 0)  # only its hang-up: the evaluator is gone
        deadline = time.monotonic() + header["wall_s"]
        while True:
            ready = [descriptor for descriptor, _ in poller.poll(POLL_MS)]
            if handle in ready:
                return None
            if ready:
                raise EvaluatorGoneError
            cpu_s, memory = isolation.usage(layers, pid)
            if cpu_s > header["cpu_s"]:
                return "time"
            if memory > header["memory_bytes"]:
                return "memory"
            if time.monotonic() > deadline:
                return "wall"
    finally:
        os.close(handle)


def write_all(descriptor: int, data: memoryview) -> None:
    """Write every byte of ``data`` from the start of a file."""
    offset = 0
    while offset < len(data):
        offset += os.pwrite(descriptor, data[offset:], offset)


def sweep(scratch: str) -> None:
    """Empty the scratch directory: no test finds what another one left."""
    with os.scandir(scratch) as entries:
        left = list(entries)
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            for folder, _, _ in os.walk(entry.path):
                os.chmod(folder, 0o700)
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


if __name__ == "__main__":
    main()
