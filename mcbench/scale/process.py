"""The one way in which a run is started beside this process: as ``mcbench train`` in its own.

It ends with the process that started it, whatever ends that one, and what it prints is kept in the
run's folder as ``output.log``, attempt after attempt, so that a crash can be understood later.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mcbench.evaluator.isolation import die_with_parent
from mcbench.version import __version__

REFUSED = 2  # exit status of a run that was asked for wrongly: trying again would not help
PARENT = "MCBENCH_PARENT"  # the process to end with
_STOP_SECONDS = 45.0  # the launcher of several processes gives them 30


@dataclass(frozen=True)
class RunJob:
    """A run to be trained, as plain data that can be sent to another machine.

    ``config`` is the resolved configuration as its ``to_text`` writes it. ``cpus`` and ``gpus`` are
    what the run needs, ``launch`` an accelerate configuration (:mod:`mcbench.scale.launch`).
    ``devices`` are the GPUs that it may use, as ``CUDA_VISIBLE_DEVICES`` names them; none where
    something else decides. ``threads`` are those of each process.
    """

    label: str
    run_id: str
    config: str
    runs_dir: str
    cpus: int = 1
    gpus: float = 0
    threads: int = 1
    launch: str | None = None
    attempt: int = 1
    devices: tuple[str, ...] = ()
    version: str = __version__

    @property
    def log(self) -> Path:
        """What the attempts printed."""
        return Path(self.runs_dir, self.run_id, "output.log")


@dataclass(frozen=True)
class Started:
    """The process runs."""

    host: str
    pid: int


@dataclass(frozen=True)
class Ended:
    """It ended with an exit status, negative for a signal, None where it is lost with what watched
    it, such as its machine. ``last`` is the last line that it printed, or why it is lost.
    """

    status: int | None
    last: str


Event = Started | str | Ended  # a text is a line that it printed


def command(task: RunJob) -> list[str]:
    """What is executed; the configuration comes through standard input."""
    command = [sys.executable, "-m", "mcbench", "train", "--config", "-", "--label", task.label]
    command += ["--runs-dir", task.runs_dir]
    if task.launch is not None:
        command += ["--launch", task.launch]
    return command


def start(task: RunJob) -> subprocess.Popen[str]:
    """Start the run's process. The kernel watches the thread that does so: it has to wait."""
    own = {name: str(task.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    if task.devices:
        own["CUDA_VISIBLE_DEVICES"] = ",".join(task.devices)
    process = subprocess.Popen(
        command(task),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **own, "PYTHONUNBUFFERED": "1", PARENT: str(os.getpid())},
    )
    assert process.stdin is not None
    try:
        process.stdin.write(task.config)
        process.stdin.close()
    except BrokenPipeError:
        pass  # it has ended already, and says why
    return process


def follow(task: RunJob, process: subprocess.Popen[str]) -> Iterator[Event]:
    """What happens to the process; the last event is `Ended`. Closing the iterator stops it."""
    assert process.stdout is not None
    try:
        task.log.parent.mkdir(parents=True, exist_ok=True)
        with task.log.open("a") as log:
            host, last = socket.gethostname(), ""
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            log.write(f"== attempt {task.attempt}, {now}, process {process.pid} on {host}\n")
            yield Started(host, process.pid)
            for line in process.stdout:
                log.write(line)
                log.flush()
                last = line.rstrip() or last
                yield line.rstrip()
            status = process.wait()
            log.write(f"== exit status {status}\n")
            log.flush()
            yield Ended(status, last)
    finally:
        stop([process])


def stop(processes: Collection[subprocess.Popen[str]]) -> None:
    """End the processes, by force those that do not."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_with_parent() -> None:
    """Have this process killed when the one that started it for a run ends in any way.

    A run must not train on when its experiment was killed: the same command, given again, would
    find it locked.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is None and "LOCAL_RANK" not in os.environ:
        return
    die_with_parent()
    if parent is not None and os.getppid() != int(parent):  # it has ended already
        sys.exit(1)


def how_it_ended(status: int | None) -> str:
    """An exit status in words."""
    if status is None:
        return "lost"
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"killed by signal {-status}"
