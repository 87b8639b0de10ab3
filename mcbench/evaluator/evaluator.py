"""The evaluator: submissions in, verdicts out, sandboxes that outlive the calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Sequence
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.evaluator.ray_backend import RaySandboxes
from mcbench.evaluator.rule_sets import rule_set
from mcbench.evaluator.schedule import LocalSandboxes
from mcbench.evaluator.submission import (
    CallTest,
    Result,
    Submission,
    check_workers,
    checked_submissions,
)

BACKENDS = ("local", "ray")


class Evaluator:
    """Judges programs in sandboxed processes.

    Programs that name numpy, scipy or pandas run in sandboxes that have numpy loaded, where it is
    installed; those are started when they are first needed. Hashing and `random` have fixed seeds,
    so that the same program gets the same verdict.

    Use it as a context manager, or call `close`. Threads may share it; their calls take turns. A
    forked copy of the process must not use it.

    Args:
        workers: sandboxes, and so tests that run at the same time.
        output_limit_mb: MiB that a test may print, write to standard error, return or write to one
            file.
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
        output_limit_mb: int = 16,
        rules: str = "microcoder",
        backend: str = "local",
        address: str = "auto",
    ) -> None:
        check_workers(workers)
        if output_limit_mb not in range(1, 257):
            raise UserError(f"output_limit_mb must be between 1 and 256, got {output_limit_mb!r}")
        if backend not in BACKENDS:
            raise unknown("backend", backend, BACKENDS)
        rule_set(rules)  # refuses an unknown one before anything is started
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._closed = False
        self._sandboxes: LocalSandboxes | RaySandboxes
        if backend == "ray":
            self._sandboxes = RaySandboxes(workers, output_limit_mb, rules, address)
        else:
            self._sandboxes = LocalSandboxes(workers, output_limit_mb, rules)

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def isolation(self) -> dict[str, Any]:
        """Layers the machine grants (``granted``) and refuses (``missing``: name -> reason)."""
        return self._sandboxes.isolation

    def close(self) -> None:
        """End the sandboxes; a call in progress is waited for. Idempotent."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if not self._closed:
                self._sandboxes.close()
            self._closed = True

    def evaluate(self, submissions: Sequence[Submission], early_exit: bool = False) -> list[Result]:
        """Judge submissions; results come in the order of ``submissions``.

        Equal submissions are run once. With ``early_exit`` a submission's result ends at its
        first test that is not accepted, and later tests are not reported.

        Raises:
            UserError: the evaluator is closed, or something other than submissions was given.
        """
        return self._evaluate(submissions, early_exit, threading.Event())

    async def aevaluate(
        self, submissions: Sequence[Submission], early_exit: bool = False
    ) -> list[Result]:
        """`evaluate` without blocking the event loop; cancelling it stops the running tests."""
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(self._evaluate, submissions, early_exit, cancelled)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _evaluate(
        self, submissions: Sequence[Submission], early_exit: bool, cancelled: threading.Event
    ) -> list[Result]:
        """`evaluate` until ``cancelled`` is set; results are incomplete then."""
        if os.getpid() != self._owner:  # the copied lock may be held by a thread left behind
            raise UserError("this evaluator belongs to another process")
        submissions = checked_submissions(submissions)
        forms = [_form(each) for each in submissions]
        unique = dict(zip(forms, submissions, strict=True))
        with self._lock:
            if self._closed:
                raise UserError("this evaluator is closed")
            results = self._sandboxes.evaluate(list(unique.values()), early_exit, cancelled)
        judged = dict(zip(unique, results, strict=True))
        return [judged[form] for form in forms]


def _form(given: Submission) -> Any:
    """Equal only for submissions that must be judged alike, as 1 and True must not."""
    tests: Any = id(given.tests)
    with contextlib.suppress(TypeError):  # a checker without a hash
        if not any(isinstance(test, CallTest) for test in given.tests):
            hash(form := tuple(given.tests))
            tests = form
    return given.preamble, given.code, given.time_limit_s, given.memory_limit_mb, tests
