"""The evaluator: submissions in, verdicts out, sandboxes that outlive the calls."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.evaluator import encoding
from mcbench.evaluator.pool import Worker, started
from mcbench.evaluator.rule_sets import rule_set
from mcbench.evaluator.schedule import Schedule, Slot
from mcbench.evaluator.submission import Result, Submission, Test

BACKENDS = ("local", "ray")
OUTPUT_BYTES = 16 << 20  # of standard output, standard error, the result and any file written


class Evaluator:
    """Judges programs in sandboxed processes.

    Programs that name numpy, scipy or pandas run in sandboxes that have numpy loaded, where it is
    installed; those are started when they are first needed. Hashing and `random` have fixed seeds,
    so that the same program gets the same verdict.

    Use it as a context manager, or call `close`. Threads may share it; their calls take turns. A
    forked copy of the process must not use it.

    Args:
        workers: sandboxes, and so tests that run at the same time.
        output_limit_mb: MiB a test may print, return or write to one file.
        rules: how outputs are compared, one of `mcbench.evaluator.rule_sets.RULE_SETS`; those of
            other evaluators are there for comparison.
        backend: "local" for sandboxes on this machine, "ray" for sandboxes on a Ray cluster.
        address: of the cluster: "auto" (the one that runs here), "HOST:PORT", or "local" to start
            one.

    Raises:
        UserError: ``workers`` is not a positive integer, the limit is not between 1 and 256, the
            rules or the backend are unknown, or there is no such cluster.
        RuntimeError: the sandbox processes could not be started.
    """

    def __init__(
        self,
        workers: int = 2,
        output_limit_mb: int = OUTPUT_BYTES >> 20,
        rules: str = "microcoder",
        backend: str = "local",
        address: str = "auto",
    ) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise UserError(f"workers must be an integer of at least 1, got {workers!r}")
        if output_limit_mb not in range(1, 257):
            raise UserError(f"output_limit_mb must be between 1 and 256, got {output_limit_mb!r}")
        if backend not in BACKENDS:
            raise unknown("backend", backend, BACKENDS)
        self._output_bytes = output_limit_mb << 20
        self._rule_set = rule_set(rules)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._closed = False
        self._ray: Any = None
        self._workers: list[Worker] = []
        self._numpy_workers: list[Worker] = []  # started when a submission wants them
        if backend == "ray":
            from mcbench.evaluator.ray_backend import RayPool

            self._ray = RayPool(workers, output_limit_mb, rules, address)
        else:
            self._workers = started([Worker() for _ in range(workers)])

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def isolation(self) -> dict[str, Any]:
        """Layers the machine grants (``granted``) and refuses (``missing``: name -> reason)."""
        return self._ray.isolation if self._ray else self._workers[0].layers

    def close(self) -> None:
        """End the sandboxes; a call in progress is waited for. Idempotent."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if not self._closed:
                for worker in (*self._workers, *self._numpy_workers):
                    worker.stop()
                if self._ray:
                    self._ray.close()
            self._closed = True

    def evaluate(self, submissions: Sequence[Submission], early_exit: bool = False) -> list[Result]:
        """Judge submissions; results come in the order of ``submissions``.

        Equal submissions are run once. With ``early_exit`` a submission's result ends at its
        first test that is not accepted, and later tests are not reported.

        Raises:
            UserError: the evaluator is closed, or something other than submissions was given.
        """
        return self.judge(submissions, early_exit, threading.Event())

    async def aevaluate(
        self, submissions: Sequence[Submission], early_exit: bool = False
    ) -> list[Result]:
        """`evaluate` without blocking the event loop; cancelling it stops the running tests."""
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(self.judge, submissions, early_exit, cancelled)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def judge(
        self, submissions: Sequence[Submission], early_exit: bool, cancelled: threading.Event
    ) -> list[Result]:
        """`evaluate` until ``cancelled`` is set; results are incomplete then."""
        if os.getpid() != self._owner:  # the copied lock may be held by a thread left behind
            raise UserError("this evaluator belongs to another process")
        try:
            submissions = list(submissions)
        except TypeError:
            kind = type(submissions).__name__
            raise UserError(f"evaluate takes a list of Submission, got {kind}") from None
        for given in map(type, submissions):
            if not issubclass(given, Submission):
                raise UserError(f"evaluate takes a list of Submission, found {given.__name__}")
        copies = _first_equal(submissions)
        with self._lock:
            if self._closed:
                raise UserError("this evaluator is closed")
            unique = sorted(set(copies))
            if self._ray:
                sent = [submissions[index] for index in unique]
                judged = dict(
                    zip(unique, self._ray.evaluate(sent, early_exit, cancelled), strict=True)
                )
                return [judged[index] for index in copies]
            schedule = Schedule(submissions, unique, early_exit, self._output_bytes, self._rule_set)
            if schedule.numpy and not self._numpy_workers:
                self._numpy_workers = started([Worker("numpy") for _ in self._workers])
            numpy: list[Worker | None] = [*self._numpy_workers] or [None] * len(self._workers)
            schedule.run(list(map(Slot, self._workers, numpy)), cancelled)
        return [schedule.result(index) for index in copies]


def _first_equal(submissions: Sequence[Submission]) -> list[int]:
    """For each submission the index of the first that must get the same result."""
    forms: dict[int, Any] = {}  # of tests, which may hold unhashable values and are often shared
    first: dict[Any, int] = {}
    copies = []
    for index, submission in enumerate(submissions):
        tests = submission.tests
        if id(tests) not in forms:
            forms[id(tests)] = _form(tests)
        limits = submission.time_limit_s, submission.memory_limit_mb
        copies.append(first.setdefault((submission.code, limits, forms[id(tests)]), index))
    return copies


def _form(tests: Sequence[Test]) -> Any:
    """Equal only for tests that must be judged alike; a `repr` may leave something out."""
    parts = [[type(test).__name__, *vars(test).values()] for test in tests]
    try:
        return encoding.dumps(parts, other=lambda value, pack: ["id", id(value)])
    except TypeError:  # nested too deeply
        return id(tests)
