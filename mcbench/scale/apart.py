"""Training that outlives who asked for it: runs in a process that a notebook's kernel starts and
any later one finds again.

A kernel may be restarted, and its page reloaded, while runs train. So they are trained by a process
in a session of its own, which an interrupt or the end of the kernel does not reach. Who asks for
the same runs again is attached to it: sees what it prints, waits for it, and can stop it. Below the
folder of runs it keeps::

    trainings/<hash of the run ids>/
        plan.json      what it trains, and how
        lock           the process
        output.log     what it printed, attempt after attempt
        problem.json   why it failed; empty text where all is well
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.files import ProcessLock, digest, read_json, write_json
from mcbench.runs.config import Config
from mcbench.runs.say import Say, say
from mcbench.runs.store import INTERRUPTED, RunStore
from mcbench.scale.sweep import PlannedRun, train_all

FOLDER = "trainings"
_LOOK_S, _REQUEST_S, _STOP_S = 0.2, 2.0, 90.0
_SHOWN = 20  # lines of the past that who is attached sees
_HEADING = "== attempt"


def command(folder: Path) -> list[str]:
    """What is executed."""
    return [sys.executable, "-m", "mcbench.scale.apart", str(folder)]


class Training:
    """Some runs that a process of its own trains, or has trained."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = ProcessLock(folder / "lock")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ids(self) -> list[str]:
        """Of its runs; none where the plan cannot be read."""
        return [str(one["run_id"]) for one in self.plan.get("planned", ())]

    @property
    def plan(self) -> dict[str, Any]:
        """What was asked for; empty where it cannot be read."""
        return dict(read_json(self.folder / "plan.json") or {})

    @property
    def problem(self) -> str:
        """Why it failed; empty where it did not."""
        return str(read_json(self.folder / "problem.json") or "")

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.folder / "output.log"

    @property
    def owner(self) -> dict[str, Any] | None:
        """The process that holds its lock: ``pid`` and ``host``."""
        return self._lock.owner()

    def is_alive(self) -> bool:
        """Whether its process is at work."""
        starting = self._process is not None and self._process.poll() is None
        return starting or self.owner is not None

    def begin(self, planned: Sequence[PlannedRun], **options: Any) -> None:
        """Start the process; ``options`` are those of :func:`mcbench.scale.sweep.train_all`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        plan = [
            {
                "run_id": one.config.run_id,
                "arm": one.arm,
                "label": one.label,
                "config": one.config.to_dict(),
            }
            for one in planned
        ]
        write_json(self.folder / "plan.json", {"planned": plan, "options": options})
        (self.folder / "problem.json").unlink(missing_ok=True)  # of the attempt before
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command(self.folder),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def follow(self, say: Say) -> None:
        """Say what it prints until it ends.

        Raises:
            UserError: it failed, or was killed.
        """
        with self.log.open(errors="replace") as log:
            past = log.readlines()
            last = max((n for n, line in enumerate(past) if line.startswith(_HEADING)), default=-1)
            for line in past[last + 1 :][-_SHOWN:]:
                say(line.rstrip())
            rest, alive = "", True  # of a line that is not whole yet
            while alive:
                alive = self.is_alive()  # what it printed last is read after that
                *lines, rest = (rest + log.read()).split("\n")
                for line in lines:
                    if not line.startswith(_HEADING):
                        say(line.rstrip())
                time.sleep(_LOOK_S if alive else 0)
        if self.problem:
            raise UserError(self.problem)
        if not (self.folder / "problem.json").exists():
            raise UserError(f"the process that trains was killed; what it printed is in {self.log}")

    def stop(self) -> None:
        """End it, and with it what it trains; up to the last checkpoint everything is kept.

        Raises:
            UserError: it is another machine's.
        """
        if (owner := self.owner) and owner["host"] != socket.gethostname():
            raise UserError(f"it trains on {owner['host']}: process {owner['pid']} there")
        late = time.monotonic() + _STOP_S
        while self.is_alive() and time.monotonic() < late:
            if owner := self.owner:
                os.kill(owner["pid"], signal.SIGTERM)
            elif self._process is not None:  # not begun yet
                self._process.terminate()
            time.sleep(_LOOK_S)


def training_of(run_ids: Collection[str], store: RunStore) -> Training:
    """The training of exactly these runs, begun or not."""
    return Training(store.root / FOLDER / digest(sorted(run_ids)))


def under_way(run_ids: Collection[str], store: RunStore) -> list[Training]:
    """The trainings at work that have one of these runs, the first begun first."""
    found = [Training(path.parent) for path in (store.root / FOLDER).glob("*/lock")]
    found = [one for one in found if one.is_alive() and set(one.ids) & set(run_ids)]
    return sorted(found, key=lambda one: (one.folder / "plan.json").stat().st_mtime)


def train_apart(planned: Sequence[PlannedRun], store: RunStore, say: Say, **options: Any) -> None:
    """As :func:`mcbench.scale.sweep.train_all`, by a process that outlives this one. Where one is
    at work on some of the runs already, this waits for it and then has the others trained.

    Raises:
        UserError: as there.
        KeyboardInterrupt: interrupted; what trains was stopped.
    """
    ids = [one.config.run_id for one in planned]
    while others := under_way(ids, store):
        owner = others[0].owner or {"pid": "of before"}
        say(f"attached to process {owner['pid']}, which trains these runs already")
        _wait(others[0], say)
    left = [one for one in planned if store.run(one.config).state != "finished"]
    if left:
        mine = training_of([one.config.run_id for one in left], store)
        mine.begin(left, **options)
        say(
            "trained by a process of its own: this goes on if the page is reloaded or the kernel "
            "restarted, and running the cell again shows it; interrupting the kernel stops it"
        )
        _wait(mine, say)


def _wait(training: Training, say: Say) -> None:
    try:
        training.follow(say)
    except KeyboardInterrupt:
        if not _kernel_ends():
            training.stop()
            say("interrupted: training is stopped; running the cell again resumes it")
        raise


def _kernel_ends() -> bool:
    """Whether the kernel is being restarted or shut down: its cell is interrupted first, and the
    request, which another thread answers, comes right after that.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    late = time.monotonic() + _REQUEST_S
    while shell is not None and time.monotonic() < late:
        if shell.exit_now:
            return True
        time.sleep(_LOOK_S)
    return False


def main(folder: Path) -> int:
    """What the process does."""
    training = Training(folder)
    lock = ProcessLock(folder / "lock")
    try:
        lock.acquire()
    except UserError:  # two asked at once
        return 0
    problem = folder / "problem.json"
    problem.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = training.plan
    planned = [
        PlannedRun(one["arm"], one["label"], Config.from_dict(one["config"]))
        for one in plan["planned"]
    ]
    say(f"{_HEADING} of process {os.getpid()}")
    told = ""
    try:
        train_all(planned, RunStore(folder.parents[1]), say, **plan["options"])
    except UserError as error:
        told = str(error)
    except KeyboardInterrupt:
        told = INTERRUPTED
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
        raise  # its traceback belongs into the log
    finally:
        write_json(problem, told)
        lock.release()
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
