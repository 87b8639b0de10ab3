"""Training runs, each in a process of its own: on this machine, or on those of a Ray cluster.

The two differ only in where a run's process is started (`LocalPool`, ``ray_pool.RayPool``). What is
done about a run that crashed, was lost with its machine, or was refused is the same, and so is what
one sees.
"""

from __future__ import annotations

import queue
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from mcbench.errors import UserError
from mcbench.runs.config import Config
from mcbench.runs.say import Say, clock
from mcbench.runs.store import INTERRUPTED, RunStore
from mcbench.scale.launch import check_gpu, check_placed
from mcbench.scale.launch import launch as launch_named
from mcbench.scale.machine import gpu_here, threads_for, visible_gpus
from mcbench.scale.process import (
    REFUSED,
    Ended,
    Event,
    RunJob,
    Started,
    follow,
    how_it_ended,
    start,
    stop,
)
from mcbench.scale.ray_pool import RayPool


@dataclass(frozen=True)
class PlannedRun:
    """A run of a comparison before it is trained; ``label`` names it for people."""

    arm: str
    label: str
    config: Config


def train_all(
    planned: Sequence[PlannedRun],
    store: RunStore,
    say: Say,
    *,
    workers: int | None = None,
    address: str | None = None,
    retries: int = 1,
    launch: str | None = None,
) -> None:
    """Train the runs, each once and in its own process, and return when all are finished.

    Args:
        planned: runs that differ.
        say: receives the lines that the processes print, and what happens to them.
        workers: runs at the same time; where None one, with an address as many as find room.
        address: of a Ray cluster, see :func:`mcbench.ray_session.ray_session`. The folder of runs
            must be one that all its machines share.
        retries: further attempts, each from the last checkpoint, for a run that crashed or whose
            machine was lost.
        launch: trains each run with several processes, see :mod:`mcbench.scale.launch`.

    Raises:
        UserError: runs failed for good; the others are finished first. Or there is no GPU for a
            large model, or the cluster cannot be reached or has no machine large enough.
        KeyboardInterrupt: interrupted; no process is left.
    """
    check_numbers(workers, retries)
    if planned:
        with _placed(planned, store, workers, address, launch) as (tasks, pool, limit, told):
            say(told)
            _Sweep(tasks, store, pool, say, retries, limit).train()


def check_all(
    planned: Sequence[PlannedRun],
    store: RunStore,
    address: str | None = None,
    launch: str | None = None,
) -> None:
    """Refuse runs that :func:`train_all` would refuse before it trains any of them.

    Raises:
        UserError: as there; or one of them is being trained now.
    """
    for one in planned:
        store.run(one.config).check_idle()
    if planned:
        with _placed(planned, store, None, address, launch):
            pass


@contextmanager
def _placed(
    planned: Sequence[PlannedRun],
    store: RunStore,
    workers: int | None,
    address: str | None,
    launch: str | None,
) -> Iterator[tuple[list[RunJob], LocalPool | RayPool, int, str]]:
    """The runs as jobs, the pool where they fit, how many at once, and that for people."""
    tasks = [task_of(one, store, launch) for one in planned]
    if address is not None:
        with RayPool(address, tasks, store).connected() as cluster:
            told = f"training on Ray: {cluster.describe()}"
            yield tasks, cluster, workers or len(tasks), told
        return
    configs = [one.config for one in planned]
    for config in {(one.model, one.precision, one.on_cpu): one for one in configs}.values():
        check_gpu(config)
    gpus = visible_gpus()
    wanted = min(workers or 1, len(tasks))
    limit = min(wanted, _places(tasks, gpus))
    if launch is None:
        tasks = [
            replace(task, threads=threads_for(one.config.model, limit))
            for one, task in zip(planned, tasks, strict=True)
        ]
    together = f", {limit} side by side" if limit > 1 else ""
    fewer = f" (not {workers}: {len(gpus)} GPUs)" if limit < wanted else ""
    if (here := gpu_here()) is not None:
        check_placed(tasks, here)
    told = f"training {len(tasks)} run{'s' if len(tasks) > 1 else ''}{together}{fewer}"
    yield tasks, LocalPool(gpus), limit, told


def check_numbers(workers: int | None, retries: int) -> None:
    """Refuse numbers that :func:`train_all` cannot use.

    Raises:
        UserError: fewer than one worker or than no retry.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers must be at least 1, got {workers}")
    if retries < 0:
        raise UserError(f"retries must be at least 0, got {retries}")


def _places(tasks: Sequence[RunJob], gpus: Sequence[str]) -> int:
    """How many of the runs fit side by side on so many GPUs, one process a GPU.

    Raises:
        UserError: one of them needs more than there are.
    """
    most = max(tasks, key=lambda task: task.gpus)
    if not gpus or not most.gpus:
        return len(tasks)
    if most.gpus > len(gpus):
        raise UserError(
            f"{most.label} needs {most.gpus:g} GPUs and {len(gpus)} are visible here; use --launch "
            "with a configuration of fewer processes, or --address for a Ray cluster"
        )
    return len(gpus) // int(most.gpus)


def task_of(planned: PlannedRun, store: RunStore, launch: str | None = None) -> RunJob:
    """A run of a folder as what a pool trains."""
    config, chosen = planned.config, None if launch is None else launch_named(launch)
    processes = 1 if chosen is None else chosen.processes
    # What is not fp32 with transformers' generation is a profile for GPUs.
    on_gpu = config.precision != "fp32" or config.backend.startswith("vllm")
    on_gpu = on_gpu or (chosen is not None and chosen.on_gpus)
    # Beside a GPU its process mostly waits, and the sandboxes work; without one they take turns.
    judging = config.reward_workers if config.reward_backend == "local" else 1
    return RunJob(
        label=planned.label,
        run_id=config.run_id,
        config=config.to_text(),
        runs_dir=str(store.root.absolute()),
        cpus=processes * (judging if on_gpu else 1),
        gpus=processes * on_gpu,
        launch=launch,
    )


class LocalPool:
    """Processes on this machine; each has GPUs of its own, where there are some."""

    def __init__(self, gpus: Sequence[str] = ()) -> None:
        self._free = deque(gpus)
        self._events: queue.SimpleQueue[tuple[RunJob, Event]] = queue.SimpleQueue()
        self._processes: dict[RunJob, subprocess.Popen[str]] = {}
        self._held: dict[RunJob, tuple[str, ...]] = {}

    def submit(self, task: RunJob) -> None:
        """Start the task."""
        try:
            process = start(replace(task, devices=self._devices(task)))
        except OSError as error:  # such as no memory for another process
            self._events.put((task, Ended(None, str(error))))
            return
        self._processes[task] = process
        threading.Thread(target=self._follow, args=(task, process), daemon=True).start()

    def _devices(self, task: RunJob) -> tuple[str, ...]:
        """The GPUs that wait longest; a run that needs none gets one that others may have too."""
        if not self._free:
            return ()
        if not task.gpus:
            self._free.rotate(-1)
            return (self._free[-1],)
        self._held[task] = tuple(self._free.popleft() for _ in range(int(task.gpus)))
        return self._held[task]

    def _follow(self, task: RunJob, process: subprocess.Popen[str]) -> None:
        try:
            for event in follow(task, process):
                self._events.put((task, event))
        except OSError as error:  # such as a full disk
            self._events.put((task, Ended(None, str(error))))

    def events(self) -> Sequence[tuple[RunJob, Event]]:
        """The next event; waits until there is one. ``Ended`` is the last of a task."""
        task, event = self._events.get()
        if isinstance(event, Ended):
            self._processes.pop(task, None)
            self._free.extend(self._held.pop(task, ()))
        return [(task, event)]

    def stop(self) -> None:
        """End all processes."""
        stop(self._processes.values())
        self._processes.clear()


@dataclass
class _Sweep:
    """What one call of :func:`train_all` knows."""

    tasks: Sequence[RunJob]
    store: RunStore
    pool: LocalPool | RayPool
    say: Say
    retries: int
    limit: int
    active: dict[RunJob, Started | None] = field(default_factory=dict)
    finished: int = 0
    failures: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.waiting = deque(self.tasks)
        self.attempts = self.retries + 1

    def train(self) -> None:
        try:
            while self.waiting or self.active:
                while self.waiting and len(self.active) < self.limit:
                    task = self.waiting.popleft()
                    self.active[task] = None
                    self.pool.submit(task)
                for task, event in self.pool.events():
                    self._handle(task, event)
        except BaseException:
            self.pool.stop()
            for task, started in self.active.items():
                self._record_end(task, started, INTERRUPTED)
            raise
        if self.failures:
            raise UserError(
                f"{len(self.failures)} of {len(self.tasks)} runs failed: {'; '.join(self.failures)}"
            )

    def _handle(self, task: RunJob, event: Event) -> None:
        if isinstance(event, str):
            self.say(event if event.startswith("[") else f"[{task.label}] {event}")
        elif isinstance(event, Started):
            self.active[task] = event
            again = f", attempt {task.attempt} of {self.attempts}" if task.attempt > 1 else ""
            self.say(f"[{task.label}] process {event.pid} on {event.host}{again}")
        else:
            self._ended(task, event, self.active.pop(task))

    def _ended(self, task: RunJob, event: Ended, started: Started | None) -> None:
        run = self.store.run_with_id(task.run_id)
        if run.state == "finished":  # also where only the message of its end was lost
            self.finished += 1
            self._summary()
            return
        reason = how_it_ended(event.status)
        if event.status != REFUSED:  # which says that another process may be training the run
            self._record_end(task, started, reason)
            if task.attempt < self.attempts:
                self.say(f"[{task.label}] {reason}; what it printed is in {task.log}; trying again")
                self.waiting.append(replace(task, attempt=task.attempt + 1))
                return
        self.failures.append(f"{task.label} ({reason}): {event.last} (see {task.log})")
        self.say(f"[{task.label}] failed: {reason}; what it printed is in {task.log}")
        self._summary()

    def _record_end(self, task: RunJob, started: Started | None, reason: str) -> None:
        """What a process that was killed could not write itself."""
        if started is None:
            return
        run = self.store.run_with_id(task.run_id)
        if started.host != socket.gethostname():  # its end is certain, and not to be seen from here
            run.lock.break_from(started.host)
        if run.meta.get("state") == "running":
            run.fail(time.time(), reason)

    def _summary(self) -> None:
        ended = self.finished + len(self.failures)
        spent = time.monotonic() - self.began
        left = spent / ended * (len(self.tasks) - ended)
        failed = f", {len(self.failures)} failed" if self.failures else ""
        self.say(
            f"{self.finished} of {len(self.tasks)} runs finished{failed}; {clock(spent)} so far, "
            f"{clock(left)} left"
        )
