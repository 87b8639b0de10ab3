"""The evaluator's sandboxes on the machines of a Ray cluster: ``Evaluator(backend="ray")``.

Each actor has one sandbox, and a thread here that feeds it. Submissions travel to it in small
chunks, which keeps the load even and bounds what is under way. As on one machine, expected outputs
reach the actor but no sandboxed process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator.schedule import LocalSandboxes, side_by_side
from mcbench.evaluator.submission import Result, Submission, TestResult
from mcbench.ray_session import ray_session

_MOST = 16  # submissions in a chunk
_CHUNKS_EACH = 8  # for an even load, an actor gets about that many, if there are enough
_MAX_LOSSES = 2  # actors that a submission may bring down before it is given up
_START_SECONDS = 120.0
_CLOSE_SECONDS = 10.0
_POLL_SECONDS = 0.25


@dataclass(eq=False)
class _Actor:
    """An actor as its users see it: ``starting`` until its first answer, which is its isolation."""

    handle: Any
    starting: Any


class RaySandboxes:
    """Evaluator actors; a lost one is replaced, and what it had is judged again.

    Args:
        workers: actors, each of which takes one CPU.
        address: of the cluster, see :func:`mcbench.ray_session.ray_session`.

    Raises:
        UserError: Ray is not installed, there is no cluster, or it has no room for the actors.
    """

    isolation: dict[str, Any]

    def __init__(self, workers: int, output_limit_mb: int, rules: str, address: str) -> None:
        self._settings = (output_limit_mb, rules)
        self._actors: list[_Actor] = []
        with ExitStack() as stack:
            self._ray = stack.enter_context(ray_session(address, workers))
            stack.callback(self._end_actors)
            self._class = self._ray.remote(SandboxActor)
            self._actors = [self._started() for _ in range(workers)]
            deadline = time.monotonic() + _START_SECONDS
            while not all(self._is_up(actor) for actor in self._actors):
                if time.monotonic() > deadline:
                    raise self._too_few()
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End the actors, and the cluster where it was started for them. Idempotent."""
        self._stack.close()

    def evaluate(
        self, submissions: Sequence[Submission], early_exit: bool, cancelled: threading.Event
    ) -> list[Result]:
        """The results in the order of ``submissions``; incomplete ones if the call is cancelled.

        Raises:
            UserError: a submission holds what cannot be sent to another machine, or no actor could
                be started in place of lost ones.
            RuntimeError: an actor could not start its sandbox.
        """
        call = _Call(submissions, early_exit, len(self._actors), cancelled)
        places = range(len(self._actors))
        side_by_side([partial(self._work, place, call) for place in places], cancelled)
        if call.waiting and not cancelled.is_set():
            raise self._too_few()
        return [result or Result(()) for result in call.results]

    def _work(self, place: int, call: _Call) -> None:
        """Have an actor judge until nothing waits."""
        deadline = time.monotonic() + _START_SECONDS
        while call.waiting and not call.cancelled.is_set() and time.monotonic() < deadline:
            if self._is_up(self._actors[place]) and (chunk := call.next()):
                self._judge(place, call, chunk)
                deadline = time.monotonic() + _START_SECONDS

    def _judge(self, place: int, call: _Call, chunk: list[int]) -> None:
        actor = self._actors[place].handle
        programs = [call.submissions[index] for index in chunk]
        try:
            reference = actor.evaluate.remote(programs, call.early_exit)
        except (TypeError, RecursionError) as error:
            raise UserError(f"a submission cannot be sent to another machine: {error}") from error
        try:
            while not self._ray.wait([reference], timeout=_POLL_SECONDS)[0]:
                if call.cancelled.is_set():  # more than once: it may not have begun
                    self._ray.get(actor.cancel.remote())
            results = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise RuntimeError(f"an evaluator actor failed: {error.cause}") from error
        except self._ray.exceptions.RayError:  # lost
            self._kill(self._actors[place])
            self._actors[place] = self._started()
            call.repeat(chunk)
        else:
            for index, result in zip(chunk, results, strict=True):
                call.results[index] = result

    def _started(self) -> _Actor:
        handle = self._class.options(
            num_cpus=1, max_concurrency=2, max_restarts=0, scheduling_strategy="SPREAD"
        ).remote(*self._settings)
        return _Actor(handle, handle.isolation.remote())

    def _is_up(self, actor: _Actor) -> bool:
        """Whether an actor can judge; waits for it a moment."""
        if actor.starting is not None:
            if not self._ray.wait([actor.starting], timeout=_POLL_SECONDS)[0]:
                return False
            try:
                self.isolation = self._ray.get(actor.starting)
            except self._ray.exceptions.RayActorError as error:
                cause = str(error).strip().splitlines()[-1]
                raise RuntimeError(f"an evaluator actor could not be started: {cause}") from error
            actor.starting = None
        return True

    def _too_few(self) -> UserError:
        up = sum(self._is_up(actor) for actor in self._actors)
        free = self._ray.available_resources().get("CPU", 0)
        return UserError(
            f"only {up} of {len(self._actors)} evaluator actors were up within "
            f"{_START_SECONDS:g} s; each takes one CPU of the Ray cluster, of which {free:g} are "
            "free"
        )

    def _end_actors(self) -> None:
        closing = [actor.handle.close.remote() for actor in self._actors if not actor.starting]
        if closing:
            self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_SECONDS)
        for actor in self._actors:
            self._kill(actor)

    def _kill(self, actor: _Actor) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(actor.handle)


class _Call:
    """One call of `RaySandboxes.evaluate`: what waits and what came of it."""

    def __init__(
        self, submissions: Sequence[Submission], early_exit: bool, actors: int,
        cancelled: threading.Event,
    ) -> None:  # fmt: skip
        self.submissions = submissions
        self.early_exit = early_exit
        self.cancelled = cancelled
        self.results: list[Result | None] = [None] * len(submissions)
        self.waiting: deque[list[int]] = deque(_chunks(len(submissions), actors))
        self._losses: Counter[int] = Counter()

    def next(self) -> list[int] | None:
        """The chunk that is to be judged next; None if another thread has got it."""
        with contextlib.suppress(IndexError):
            return self.waiting.popleft()
        return None

    def repeat(self, chunk: list[int]) -> None:
        """Judge a lost chunk again, piece by piece, to find what is to blame."""
        self._losses.update(chunk)
        for index in chunk:
            if self._losses[index] <= _MAX_LOSSES:
                self.waiting.append([index])
                continue
            count = 1 if self.early_exit else len(self.submissions[index].tests)
            failure = TestResult("IE", message="the evaluator actor died", lost=True)
            self.results[index] = Result((failure,) * count)


def _chunks(count: int, actors: int) -> Iterator[list[int]]:
    """0 to ``count`` - 1 in order, in pieces small enough for an even load."""
    size = min(_MOST, max(1, count // (_CHUNKS_EACH * actors)))
    for first in range(0, count, size):
        yield list(range(first, min(first + size, count)))


class SandboxActor:
    """What runs in an actor. Its calls come in threads of their own, so that `cancel` gets in."""

    def __init__(self, output_limit_mb: int, rules: str) -> None:
        self._sandboxes = LocalSandboxes(1, output_limit_mb, rules)
        self._cancelled = threading.Event()  # what is judged

    def isolation(self) -> dict[str, Any]:
        """Layers that the actor's machine grants and refuses."""
        return self._sandboxes.isolation

    def evaluate(self, submissions: list[Submission], early_exit: bool) -> list[Result]:
        """One chunk of a call; the next comes when it is judged."""
        self._cancelled = threading.Event()
        return self._sandboxes.evaluate(submissions, early_exit, self._cancelled)

    def cancel(self) -> None:
        """Stop what is judged, if anything is."""
        self._cancelled.set()

    def close(self) -> None:
        """End the sandbox, which judges nothing."""
        self._sandboxes.close()
