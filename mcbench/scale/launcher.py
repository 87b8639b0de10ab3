"""Starting the processes of one run with accelerate, following them, and seeing to their end.

Whatever ends one of them ends all: accelerate's launcher stops the others when one is gone, the
kernel stops them when the launcher is gone, and the launcher when this process is gone. The record
says which process went first and how; the same command resumes from the last checkpoint.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from mcbench.errors import UserError
from mcbench.runs.config import Config
from mcbench.runs.store import Run, RunStore
from mcbench.scale.launch import Launch

Say = Callable[[str], None]

_KEPT_LINES = 200  # of the end of the output, where the reason of a failure is looked for
_STOP_SECONDS = 45.0  # the launcher itself gives its processes 30


class LaunchFailedError(Exception):
    """The processes of a run ended before the run did; the message names the first."""


def train_launched(
    config: Config,
    runs_dir: str,
    chosen: Launch,
    arguments: Sequence[str],
    say: Say | None = None,
) -> Run:
    """Train a run with several processes and return it when it is finished.

    Args:
        arguments: of ``mcbench train`` in each process; they must resolve to ``config``.
        say: receives each line that the processes print; prints where None.

    Raises:
        UserError: the batch does not divide by the processes, what the configuration needs is not
            installed, or the processes refused the run.
        LaunchFailedError: a process crashed; the record holds the reason.
    """
    from mcbench.runs.recorder import say as print_line

    say = say or print_line
    config.batch(chosen.processes)
    if chosen.sharding in ("zero2", "zero3") and find_spec("deepspeed") is None:
        raise UserError(
            f"{chosen.config.name} needs DeepSpeed, which is not installed; pip install deepspeed, "
            "or use --launch fsdp2"
        )
    run = RunStore(runs_dir).run(config)
    if run.state == "finished":
        say(f"finished before: reusing {run.path}")
        return run
    with _readable_by_all(arguments, config) as readable:
        say(f"starting {chosen.processes} processes: {chosen.shown(readable)}")
        environment = {**os.environ, **chosen.environment}
        status, lines = _follow(chosen.command(readable), environment, run, say)
    if status == 0:
        return run
    reason = first_failure(lines) or f"accelerate launch ended with exit status {status}"
    refusals = [line for line in lines if line.startswith("mcbench: ")]
    if refusals and "exit status 2" in reason:
        raise UserError(refusals[0].removeprefix("mcbench: "))
    if chosen.machine_rank == 0:
        _mark_failed(run, reason)
    raise LaunchFailedError(f"{reason}; the same command resumes")


@contextmanager
def _readable_by_all(arguments: Sequence[str], config: Config) -> Iterator[list[str]]:
    """The arguments, with a file for a configuration that came through standard input."""
    with tempfile.TemporaryDirectory(prefix="mcbench-launch-") as folder:
        path = Path(folder, "config.json")
        if "-" in arguments:
            path.write_text(json.dumps(config.to_dict()))
        yield [str(path) if argument == "-" else argument for argument in arguments]


def _follow(
    command: Sequence[str], environment: dict[str, str], run: Run, say: Say
) -> tuple[int, Sequence[str]]:
    """Run the command to its end: exit status and the last lines of its output."""
    from mcbench.evaluator.isolation import die_with_parent

    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,  # Ctrl-C reaches us alone, and we stop the processes in order
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    try:
        for line in without_launcher_traceback(_remember(process.stdout, last)):
            say(line)
        return process.wait(), last
    except BaseException as error:
        _stop(process)
        _mark_failed(run, "interrupted" if isinstance(error, KeyboardInterrupt) else repr(error))
        raise


def _stop(process: subprocess.Popen[str]) -> None:
    """End the launcher, which ends its processes; by force where it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _mark_failed(run: Run, reason: str) -> None:
    """What a killed main process could not write itself, unless another one trains the run now."""
    if run.state in ("running", "failed"):
        run.fail(time.time(), reason)


def _remember(lines: Iterable[str], last: deque[str]) -> Iterator[str]:
    for line in lines:
        last.append(line.rstrip())
        yield line.rstrip()


def without_launcher_traceback(lines: Iterable[str]) -> Iterator[str]:
    """The lines less the launcher's own traceback, which says where accelerate noticed a failure.

    The failure itself has been printed by the process that had it, and `first_failure` reads the
    summary at the end.
    """
    held: list[str] = []
    for line in lines:
        if line.startswith("Traceback (most recent call last)"):
            yield from held
            held = [line]
        elif held and "accelerate/commands/" in held[-1] + line:
            for _ in lines:  # the launcher's traceback is the last thing it prints
                pass
            return
        elif held:
            held.append(line)
            if len(held) > 8:  # runpy comes before the launcher's own frames
                yield from held
                held = []
        else:
            yield line
    yield from held


def first_failure(lines: Sequence[str]) -> str | None:
    """Which process ended first and how, from the launcher's summary; None where there is none."""
    text = "\n".join(lines).rpartition("Root Cause")[2]
    rank = re.search(r"^\s*rank\s*:\s*(\d+)", text, re.MULTILINE)
    code = re.search(r"^\s*exitcode\s*:\s*(-?\d+)", text, re.MULTILINE)
    if rank is None or code is None:
        return None
    number = int(code[1])
    if number < 0:
        return f"process {rank[1]} was killed by signal {-number} ({_signal_name(-number)})"
    return f"process {rank[1]} ended with exit status {number}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def join_launch() -> None:
    """Called by a process that accelerate started: end when the launcher ends, in whatever way.

    The launcher puts each process into a session of its own, so that nothing else would.
    """
    from mcbench.evaluator.isolation import die_with_parent

    die_with_parent()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
