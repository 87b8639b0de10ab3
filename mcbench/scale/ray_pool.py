"""The processes of a sweep on the machines of a Ray cluster.

Each run is a Ray task that starts the training process and streams what happens to it. The task
ends with the machine, with Ray's worker process, or with the sweep, and takes the training process
along; it is never repeated by Ray itself, so that what is tried again is decided in one place.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.ray_session import ray_session
from mcbench.runs.store import Run, RunStore
from mcbench.scale.launch import check_placed
from mcbench.scale.machine import Machine, gpu_here, kind_of, known_gpu
from mcbench.scale.process import REFUSED, Ended, Event, RunJob, follow, start
from mcbench.version import __version__

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05


class RayPool:
    """Where each task finds room.

    Args:
        address: see :func:`mcbench.ray_session.ray_session`.
        tasks: all that will be submitted, to check that some machine can hold each.
    """

    def __init__(self, address: str, tasks: Sequence[RunJob], store: RunStore) -> None:
        self._address = address
        self._tasks = tasks
        self._store = store
        self._marker = store.root.absolute() / f".sweep-{os.getpid()}"
        self._running: dict[Any, RunJob] = {}

    @contextmanager
    def connected(self) -> Iterator[RayPool]:
        """The pool, connected to its cluster; leaving the context stops what runs.

        Raises:
            UserError: the cluster cannot be reached, or no machine of it is large enough, by its
                processors and GPUs or by the memory of the GPUs.
        """
        with ray_session(self._address) as self._ray:
            self._check_room()
            self._remote = self._ray.remote(_train_on_ray)
            self._store.root.mkdir(parents=True, exist_ok=True)
            self._marker.touch()
            try:
                yield self
            finally:
                self.stop()
                self._marker.unlink(missing_ok=True)

    def describe(self) -> str:
        """The machines of the cluster and what they have together."""
        nodes = self._nodes()
        have = ", ".join(
            f"{sum(node.get(name, 0) for node in nodes):g} {name}s"
            for name in ("CPU", "GPU")
            if any(node.get(name) for node in nodes)
        )
        return f"{len(nodes)} machine{'s' if len(nodes) > 1 else ''}, {have}"

    def submit(self, task: RunJob) -> None:
        """Start the task as soon as there is room."""
        remote = self._remote.options(
            num_returns="streaming",
            num_cpus=task.cpus,
            num_gpus=task.gpus,
            max_retries=0,
            scheduling_strategy="SPREAD",
            name=task.label,
        )
        self._running[remote.remote(task, str(self._marker), str(Path.cwd()))] = task

    def events(self) -> Sequence[tuple[RunJob, Event]]:
        """The next event of each task that has one; waits until one does."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1, fetch_local=False)
        return [(self._running[stream], self._next(stream)) for stream in ready]

    def _next(self, stream: Any) -> Event:
        event: Event
        try:
            event = self._ray.get(next(stream))
        except StopIteration:
            event = Ended(None, "Ray's task ended without saying how the run did")
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()
            event = Ended(None, f"{type(error).__name__}: {reason[0] if reason else ''}")
        if isinstance(event, Ended):
            del self._running[stream]
        return event

    def stop(self) -> None:
        """Cancel what runs or waits, and wait until it has ended.

        A training process dies with Ray's worker, but a moment later; on another machine that is
        not to be seen from here.
        """
        runs = [self._store.run_with_id(task.run_id) for task in self._running.values()]
        for stream in self._running:
            self._ray.cancel(stream, force=True)
        deadline = time.monotonic() + _STOP_SECONDS
        while self._running and time.monotonic() < deadline:
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=1.0)
            for stream in ready:
                self._next(stream)
        while any(map(_trained_here, runs)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _check_room(self) -> None:
        """GPUs of a kind that is not known here are looked at where a run is placed."""
        nodes = self._nodes()
        for task in self._tasks:
            need = {"CPU": task.cpus, "GPU": task.gpus}
            roomy = [node for node in nodes if all(node.get(k, 0) >= n for k, n in need.items())]
            if not roomy:
                raise UserError(
                    f"{task.label} needs {task.cpus} CPUs and {task.gpus:g} GPUs, which no machine "
                    f"of the Ray cluster at {self._address!r} has"
                )
            machines = [_machine_of(node) for node in roomy]
            if None not in machines:
                check_placed([task], max(filter(None, machines), key=lambda one: one.memory))


def _machine_of(node: dict[str, float]) -> Machine | None:
    """A node by the kind of its GPUs, which Ray lists among its resources; None where unknown."""
    listed = next((name for name in node if name.startswith("accelerator_type:")), "")
    kind = kind_of(listed.partition(":")[2])
    return None if kind is None else known_gpu(kind, int(node.get("GPU", 0)))


def _trained_here(run: Run) -> bool:
    owner = run.lock.owner()
    return owner is not None and owner["host"] == socket.gethostname()


def _train_on_ray(task: RunJob, marker: str, folder: str) -> Iterator[Event]:
    """The run's process on the machine that Ray chose, if it sees what the sweep sees."""
    if __version__ != task.version:
        yield Ended(REFUSED, f"this machine has mcbench {__version__}, the sweep {task.version}")
    elif not Path(marker).exists():
        yield Ended(REFUSED, f"the folder {task.runs_dir} is not the sweep's on this machine")
    else:
        if Path(folder).is_dir():  # paths of models and problems may be relative
            os.chdir(folder)
        try:
            if (here := gpu_here()) is not None:
                check_placed([task], here)
        except UserError as error:
            yield Ended(REFUSED, str(error))
            return
        yield from follow(task, start(task))
