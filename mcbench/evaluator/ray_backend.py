"""The evaluator's sandboxes on the machines of a Ray cluster: ``Evaluator(backend="ray")``.

Each actor has one sandbox. Submissions travel to it in small chunks, of which
an actor has two at most, the one it judges and the next: that hides the way there and back, keeps
the load even, and bounds what is under way. As on one machine, expected outputs reach the actor
but no sandboxed process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator.schedule import LocalSandboxes
from mcbench.evaluator.submission import Result, Submission, TestResult
from mcbench.ray_session import ray_session

_DEPTH = 2  # chunks an actor has at a time
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
    chunks: dict[Any, list[int]] = field(default_factory=dict)
    """Under way, by the reference to the results; the first one is being judged."""


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
        self._calls = 0
        self._actors: list[_Actor] = []
        with ExitStack() as stack:
            self._ray = stack.enter_context(ray_session(address, workers))
            stack.callback(self._end_actors)
            self._class = self._ray.remote(SandboxActor)
            for _ in range(workers):
                self._start()
            self._wait_for(workers)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End the actors, and the cluster where it was started for them. Idempotent."""
        self._stack.close()

    def evaluate(
        self, submissions: Sequence[Submission], early_exit: bool, cancelled: threading.Event
    ) -> list[Result]:
        """The results in the order of ``submissions``; incomplete ones if the call is cancelled.

        Raises:
            UserError: a submission holds what cannot be sent to another machine.
            RuntimeError: an actor could not start its sandbox, or no actor could be started.
        """
        self._calls += 1
        call = _Call(submissions, early_exit, self._calls, len(self._actors))
        try:
            while not cancelled.is_set():
                self._feed(call)
                if not call.waiting and not any(actor.chunks for actor in self._actors):
                    break
                self._advance(call)
        finally:
            self._abandon(call)
        return [result or Result(()) for result in call.results]

    @property
    def _up(self) -> list[_Actor]:
        return [actor for actor in self._actors if actor.starting is None]

    def _feed(self, call: _Call) -> None:
        for depth in range(1, _DEPTH + 1):
            for actor in self._up:
                if call.waiting and len(actor.chunks) < depth:
                    chunk = call.waiting.popleft()
                    programs = [call.submissions[index] for index in chunk]
                    try:
                        reference = actor.handle.evaluate.remote(
                            call.number, programs, call.early_exit
                        )
                    except (TypeError, RecursionError) as error:
                        raise UserError(
                            f"a submission cannot be sent to another machine: {error}"
                        ) from error
                    actor.chunks[reference] = chunk

    def _advance(self, call: _Call) -> None:
        if not self._up:
            self._wait_for(1)
            return
        for actor, reference in self._answers(self._actors, _POLL_SECONDS):
            if reference is actor.starting:
                self._joined(actor)
            else:
                self._take(call, actor, reference)

    def _answers(self, actors: Sequence[_Actor], seconds: float) -> list[tuple[_Actor, Any]]:
        """An answer that has come within the time, if one has, and whose it is."""
        awaited = {
            reference: (actor, reference)
            for actor in actors
            for reference in (actor.chunks if actor.starting is None else [actor.starting])
        }
        ready, _ = self._ray.wait(list(awaited), num_returns=1, timeout=seconds)
        return [awaited[reference] for reference in ready]

    def _take(self, call: _Call, actor: _Actor, reference: Any) -> None:
        try:
            results = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise RuntimeError(f"an evaluator actor failed: {error.cause}") from error
        except self._ray.exceptions.RayError:
            # Lost, and replaced; only what it was judging is suspected of having brought it down.
            for position, chunk in enumerate(actor.chunks.values()):
                call.repeat(chunk, suspected=position == 0)
            self._actors.remove(actor)
            self._kill(actor)
            self._start()
            return
        for index, result in zip(actor.chunks.pop(reference), results, strict=True):
            call.results[index] = result

    def _abandon(self, call: _Call) -> None:
        """Have the actors stop what they still judge of a call, and wait until they have."""
        for actor in self._actors:
            asked = [actor.handle.cancel.remote(call.number)] if actor.chunks else []
            for reference in (*asked, *actor.chunks):
                with contextlib.suppress(self._ray.exceptions.RayError):
                    self._ray.get(reference)
            actor.chunks.clear()

    def _start(self) -> None:
        handle = self._class.options(
            num_cpus=1, max_concurrency=_DEPTH + 1, max_restarts=0, scheduling_strategy="SPREAD"
        ).remote(*self._settings)
        self._actors.append(_Actor(handle, handle.isolation.remote()))

    def _joined(self, actor: _Actor) -> None:
        try:
            self.isolation = self._ray.get(actor.starting)
        except self._ray.exceptions.RayActorError as error:
            self._actors.remove(actor)
            cause = str(error).strip().splitlines()[-1]
            raise RuntimeError(f"an evaluator actor could not be started: {cause}") from error
        actor.starting = None

    def _wait_for(self, count: int) -> None:
        """Wait until ``count`` actors can judge."""
        deadline = time.monotonic() + _START_SECONDS
        while len(self._up) < count:
            starting = [actor for actor in self._actors if actor.starting is not None]
            for actor, _ in self._answers(starting, 1.0):
                self._joined(actor)
            if time.monotonic() > deadline:
                free = self._ray.available_resources().get("CPU", 0)
                raise UserError(
                    f"only {len(self._up)} of {count} evaluator actors were up within "
                    f"{_START_SECONDS:g} s; each takes one CPU of the Ray cluster, of which "
                    f"{free:g} are free"
                )

    def _end_actors(self) -> None:
        closing = [actor.handle.close.remote() for actor in self._up]
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
        self, submissions: Sequence[Submission], early_exit: bool, number: int, actors: int
    ) -> None:
        self.submissions = submissions
        self.early_exit = early_exit
        self.number = number
        self.results: list[Result | None] = [None] * len(submissions)
        self.waiting: deque[list[int]] = deque(_chunks(len(submissions), actors))
        self._losses: dict[int, int] = {}

    def repeat(self, chunk: list[int], suspected: bool) -> None:
        """Judge a lost chunk again: a suspected one piece by piece, to find what is to blame."""
        if not suspected:
            self.waiting.appendleft(chunk)
            return
        for index in chunk:
            self._losses[index] = self._losses.get(index, 0) + 1
            if self._losses[index] <= _MAX_LOSSES:
                self.waiting.append([index])
                continue
            count = 1 if self.early_exit else len(self.submissions[index].tests)
            failure = TestResult("IE", message="the evaluator actor died")
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
        self._lock = threading.Lock()
        self._cancelled: dict[int, threading.Event] = {}

    def isolation(self) -> dict[str, Any]:
        """Layers that the actor's machine grants and refuses."""
        return self._sandboxes.isolation

    def evaluate(self, call: int, submissions: list[Submission], early_exit: bool) -> list[Result]:
        """One chunk of a call."""
        cancelled = self._cancelled.setdefault(call, threading.Event())
        with self._lock:
            return self._sandboxes.evaluate(submissions, early_exit, cancelled)

    def cancel(self, call: int) -> None:
        """Stop what is judged of a call, and what comes later."""
        self._cancelled.setdefault(call, threading.Event()).set()

    def close(self) -> None:
        """End the sandbox; what it judges is waited for."""
        with self._lock:
            self._sandboxes.close()
