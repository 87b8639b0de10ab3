"""Training many runs: in turn, side by side on this machine, or on the machines of a Ray cluster.

The last two differ only in where a run's process is started (`LocalPool`, ``ray_pool.RayPool``).
What is done about a run that crashed, was lost with its machine, or was refused is the same, and
so is what one sees.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from mcbench.errors import UserError
from mcbench.runs.store import RunStore
from mcbench.scale.apart import REFUSED, Ended, Event, Line, Lost, Started, Task, train_apart
from mcbench.scale.launch import processes_of

if TYPE_CHECKING:
    from mcbench.experiments.experiments import PlannedRun
    from mcbench.runs.config import Config

Say = Callable[[str], None]


def train_all(
    missing: Sequence[PlannedRun],
    store: RunStore,
    progress: Say,
    *,
    workers: int | None = None,
    address: str | None = None,
    retries: int = 1,
    launch: str | None = None,
) -> None:
    """Train the runs, each once, and return when all are finished.

    Args:
        missing: runs that differ.
        workers: runs at the same time. Without an address 1 where None, and 1 trains them in turn
            in this process; with an address as many as the cluster has room for where None.
        address: of a Ray cluster, see :func:`mcbench.ray_session.ray_session`. The folder of runs
            must be one that all its machines share.
        retries: further attempts, each from the last checkpoint, for a run that crashed or whose
            machine was lost.
        launch: trains each run with several processes, see :mod:`mcbench.scale.launch`.

    Raises:
        UserError: runs failed for good; the others are finished first. Or the cluster cannot be
            reached or has no machine large enough.
    """
    check_numbers(workers, retries)
    if not missing:
        return
    if address is None and workers in (None, 1) and launch is None:
        _train_in_turn(missing, store, progress)
        return
    tasks = [_task(planned, store, launch) for planned in missing]
    if address is None:
        with LocalPool(workers or 1) as pool:
            progress(f"training {min(workers or 1, len(tasks))} runs side by side")
            _Sweep(tasks, store, pool, progress, retries, workers or 1).train()
        return
    from mcbench.scale.ray_pool import RayPool

    with RayPool(address, tasks, store) as pool:
        progress(f"training on Ray: {pool.describe()}")
        _Sweep(tasks, store, pool, progress, retries, workers).train()


def check_numbers(workers: int | None, retries: int) -> None:
    """Refuse numbers that :func:`train_all` cannot use.

    Raises:
        UserError: fewer than one worker or than no retry.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers must be at least 1, got {workers}")
    if retries < 0:
        raise UserError(f"retries must be at least 0, got {retries}")


def _train_in_turn(missing: Sequence[PlannedRun], store: RunStore, progress: Say) -> None:
    from mcbench.runs.train import train

    for number, planned in enumerate(missing, start=1):
        progress(
            f"[{planned.label}] run {number} of {len(missing)}: {store.run(planned.config).path}"
        )
        train(planned.config, store, progress, planned.label)


def _task(planned: PlannedRun, store: RunStore, launch: str | None) -> Task:
    processes = 1 if launch is None else processes_of(launch)
    return Task(
        label=planned.label,
        run_id=planned.config.run_id,
        config=json.dumps(planned.config.to_dict()),
        runs_dir=str(store.root.absolute()),
        cpus=processes,
        gpus=processes * gpus_of(planned.config),
        arguments=() if launch is None else ("--launch", launch),
    )


def gpus_of(config: Config) -> int:
    """The GPUs that one process of a run needs: what is not fp32 with transformers' generation is
    a profile for GPUs.
    """
    return int(config.precision != "fp32" or config.backend.startswith("vllm"))


class Pool(Protocol):
    """Where the processes of a sweep run."""

    def submit(self, task: Task) -> None:
        """Start the task as soon as there is room."""

    def events(self) -> Sequence[tuple[Task, Event]]:
        """What happened since the last call; waits until something did. `Ended` or `Lost` is the
        last of a task.
        """


class LocalPool:
    """Processes on this machine, ``workers`` at a time; leaving the context stops them."""

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._events: queue.SimpleQueue[tuple[Task, Event]] = queue.SimpleQueue()
        self._pids: dict[Task, int] = {}
        self._stopped = False

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pid in list(self._pids.values()):
            os.kill(pid, signal.SIGTERM)
        self._threads.shutdown()

    def submit(self, task: Task) -> None:
        """Start the task as soon as there is room."""
        self._threads.submit(self._follow, task)

    def events(self) -> Sequence[tuple[Task, Event]]:
        """The next event."""
        return [self._events.get()]

    def _follow(self, task: Task) -> None:
        try:
            for event in train_apart(task):
                if isinstance(event, Started):
                    self._pids[task] = event.pid
                if isinstance(event, Ended):  # waited for: the number may be another's soon
                    del self._pids[task]
                self._events.put((task, event))
                if self._stopped and isinstance(event, Started):
                    return  # closes the iterator, which stops the process
        except Exception as error:  # such as no memory for another process
            self._pids.pop(task, None)
            self._events.put((task, Lost(f"{type(error).__name__}: {error}")))


class _Sweep:
    """What one call of :func:`train_all` knows."""

    def __init__(
        self,
        tasks: Sequence[Task],
        store: RunStore,
        pool: Pool,
        progress: Say,
        retries: int,
        limit: int | None,
    ) -> None:
        self.waiting = deque(tasks)
        self.total = len(tasks)
        self.store = store
        self.pool = pool
        self.progress = progress
        self.attempts = retries + 1
        self.limit = limit or len(tasks)
        self.active: dict[Task, Started | None] = {}
        self.finished = 0
        self.failures: list[str] = []
        self.began = time.monotonic()

    def train(self) -> None:
        while self.waiting or self.active:
            while self.waiting and len(self.active) < self.limit:
                task = self.waiting.popleft()
                self.active[task] = None
                self.pool.submit(task)
            for task, event in self.pool.events():
                self._handle(task, event)
        if self.failures:
            raise UserError(
                f"{len(self.failures)} of {self.total} runs failed: {'; '.join(self.failures)}"
            )

    def _handle(self, task: Task, event: Event) -> None:
        if isinstance(event, Line):
            text = event.text
            self.progress(text if text.startswith("[") else f"[{task.label}] {text}")
        elif isinstance(event, Started):
            self.active[task] = event
            again = f", attempt {task.attempt} of {self.attempts}" if task.attempt > 1 else ""
            self.progress(f"[{task.label}] process {event.pid} on {event.host}{again}")
        else:
            self._ended(task, event)

    def _ended(self, task: Task, event: Ended | Lost) -> None:
        started = self.active.pop(task)
        run = self.store.run_with_id(task.run_id)
        if run.state == "finished":  # also where only the message of its end was lost
            self.finished += 1
            self._summary()
            return
        if started is not None:  # its end is certain; another machine could not see that
            run.lock.break_from(started.host)
        reason, last = _reason(event)
        if task.attempt < self.attempts and reason != f"exit status {REFUSED}":
            self.progress(
                f"[{task.label}] {reason}; what it printed is in {task.log}; trying again"
            )
            self.waiting.append(replace(task, attempt=task.attempt + 1))
            return
        self.failures.append(f"{task.label} ({reason}): {last} (see {task.log})")
        self.progress(f"[{task.label}] failed: {reason}; what it printed is in {task.log}")
        self._summary()

    def _summary(self) -> None:
        from mcbench.runs.say import clock

        ended = self.finished + len(self.failures)
        spent = time.monotonic() - self.began
        left = spent / ended * (self.total - ended)
        failed = f", {len(self.failures)} failed" if self.failures else ""
        self.progress(
            f"{self.finished} of {self.total} runs finished{failed}; {clock(spent)} so far, "
            f"{clock(left)} left"
        )


def _reason(event: Ended | Lost) -> tuple[str, str]:
    """What happened, and the last line that was printed."""
    if isinstance(event, Lost):
        return "lost", event.reason
    if event.status < 0:
        return (
            f"killed by signal {-event.status} ({signal.Signals(-event.status).name})",
            event.last,
        )
    return f"exit status {event.status}", event.last
