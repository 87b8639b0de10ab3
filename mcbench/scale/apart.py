"""One run of a sweep in a process of its own, followed line by line.

The process ends with the one that started it. What it prints is kept in the run's folder as
``output.log``, attempt after attempt, so that a crash can be understood later.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from mcbench import __version__

REFUSED = 2  # exit status of a run that was asked for wrongly: trying again would not help


@dataclass(frozen=True)
class Task:
    """A run to be trained apart, as plain data that can be sent to another machine.

    ``config`` is the resolved configuration as JSON. ``cpus`` and ``gpus`` are what it needs.
    ``arguments`` are further ones of ``mcbench train``.
    """

    label: str
    run_id: str
    config: str
    runs_dir: str
    cpus: int = 1
    gpus: float = 0
    arguments: tuple[str, ...] = ()
    attempt: int = 1
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
class Line:
    """A line that it printed."""

    text: str


@dataclass(frozen=True)
class Ended:
    """It ended with an exit status, negative for a signal; ``last`` is the last line it printed."""

    status: int
    last: str


@dataclass(frozen=True)
class Lost:
    """It is gone together with what watched it, such as the machine it was on."""

    reason: str


Event = Started | Line | Ended | Lost


def train_apart(task: Task) -> Iterator[Event]:
    """Train the run; the last event is `Ended`. Closing the iterator stops the process."""
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with task.log.open("a") as log:
        process = _start(task)
        try:
            host = socket.gethostname()
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            log.write(f"== attempt {task.attempt}, {now}, process {process.pid} on {host}\n")
            yield Started(host, process.pid)
            last = ""
            for text in _lines(process, log):
                last = text or last
                yield Line(text)
            status = process.wait()
            log.write(f"== exit status {status}\n")
            yield Ended(status, last)
        finally:
            process.terminate()
            process.wait()


def _start(task: Task) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mcbench", "train", "--config", "-", "--label", task.label]
    command += ["--runs-dir", task.runs_dir, "--parent", str(os.getpid()), *task.arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    process.stdin.write(task.config)
    process.stdin.close()
    return process


def _lines(process: subprocess.Popen[str], log: IO[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        log.write(line)
        log.flush()
        yield line.rstrip()


def end_with_parent(pid: int) -> None:
    """Have this process killed when the one with that id, which started it, ends in any way.

    A run must not train on when its experiment was killed: the same command, given again, would
    find it locked. (The kernel watches the thread that started us; it waits for our end.)
    """
    from mcbench.evaluator.isolation import die_with_parent

    die_with_parent()
    if os.getppid() != pid:  # it has ended already
        sys.exit(1)
