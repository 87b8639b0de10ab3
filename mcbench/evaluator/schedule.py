"""The sandboxes of this machine: which test goes to which, and what came of it.

The life of one test: `judge.job_for` puts program and input (never the expected output) into files
in memory; a worker's zygote forks a child, which runs the program under limits and writes to
further such files; the zygote reports how it ended (status, time, memory); `judge.judge` turns that
and the written output into a verdict, or into a further job that finds it.
"""

from __future__ import annotations

import contextlib
import re
import selectors
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator.judge import job_for, judge
from mcbench.evaluator.pool import Job, Worker, started
from mcbench.evaluator.rule_sets import rule_set
from mcbench.evaluator.submission import Result, Submission, TestResult

_MAX_FAILURES = 2  # a test whose run failed through no fault of its own is repeated once
_NUMPY = re.compile(r"\b(numpy|scipy|pandas)\b")


def _names_numpy(given: Submission) -> bool:
    return any(map(_NUMPY.search, (given.code, given.preamble)))


class LocalSandboxes:
    """Sandboxes that outlive the calls of `evaluate`; the caller sees to it that these take turns.

    Raises:
        UserError: unknown rules, or no Linux.
        RuntimeError: the sandbox processes could not be started.
    """

    def __init__(self, count: int, output_limit_mb: int, rules: str) -> None:
        if sys.platform != "linux":
            raise UserError(f"the evaluator's sandboxes need Linux, this is {sys.platform}")
        self.output_bytes = output_limit_mb << 20
        self.rule_set = rule_set(rules)
        self.workers = started([Worker() for _ in range(count)])
        self._slots = [_Slot({"plain": worker}) for worker in self.workers]

    @property
    def isolation(self) -> dict[str, Any]:
        """Layers the machine grants (``granted``) and refuses (``missing``: name -> reason)."""
        return self.workers[0].layers

    def evaluate(
        self, submissions: Sequence[Submission], early_exit: bool, cancelled: threading.Event
    ) -> list[Result]:
        """The results in the order of ``submissions``; incomplete ones if the call is cancelled.

        Raises:
            UserError: an argument of a test cannot be sent.
        """
        schedule = _Schedule(self, submissions, early_exit)
        schedule.run(self._slots, cancelled)
        return [schedule.result(index) for index in range(len(submissions))]

    def close(self) -> None:
        """End the sandboxes."""
        for slot in self._slots:
            for worker in slot.workers.values():
                worker.stop()


class _Slot:
    """A place where one job runs at a time: a worker of each flavour, started when it is needed."""

    def __init__(self, workers: dict[str, Worker]) -> None:
        self.workers = workers

    @property
    def load(self) -> int:
        """Jobs given and not yet finished."""
        return sum(len(worker.jobs) for worker in self.workers.values())

    def takes(self, flavour: str) -> bool:
        """Whether a further job of that kind would wait behind, not run beside, the present one."""
        worker = self.workers.get(flavour)
        return self.load == (len(worker.jobs) if worker else 0)


def _workers(slots: Sequence[_Slot]) -> list[Worker]:
    return [worker for slot in slots for worker in slot.workers.values()]


class _Schedule:
    """One call of `LocalSandboxes.evaluate`."""

    def __init__(
        self, sandboxes: LocalSandboxes, submissions: Sequence[Submission], early_exit: bool
    ) -> None:
        self.submissions = submissions
        self.early_exit = early_exit
        self.output_bytes = sandboxes.output_bytes
        self.rule_set = sandboxes.rule_set
        self.flavours = ["numpy" if _names_numpy(given) else "plain" for given in submissions]
        self.results: list[dict[int, TestResult]] = [{} for _ in submissions]
        # First tests of all, then second tests of all: one submission full of endless loops
        # delays the others little, and early exit saves most.
        most = max((len(given.tests) for given in submissions), default=0)
        self.waiting = deque(
            (index, number)
            for number in range(most)
            for index, given in enumerate(submissions)
            if number < len(given.tests)
        )
        self.retries: deque[Job] = deque()
        self.further: deque[Job] = deque()  # comparisons, and runs of problems' own checkers

    def run(self, slots: Sequence[_Slot], cancelled: threading.Event) -> None:
        """Feed the workers until every test is judged, or the call is cancelled."""
        with selectors.DefaultSelector() as selector:
            for worker in _workers(slots):
                if worker.running:
                    selector.register(worker, selectors.EVENT_READ, worker)
                else:  # an earlier call failed to start it
                    self._restart(worker, selector)
            try:
                while not cancelled.is_set():
                    self._feed(slots, selector)
                    if not any(slot.load for slot in slots):
                        return
                    self._advance(_workers(slots), selector)
            finally:
                # Interrupted or cancelled: the zygotes are mid-test, so they are replaced.
                for worker in _workers(slots):
                    if worker.jobs:
                        self._restart(worker, selector)

    def result(self, index: int) -> Result:
        """The result of one submission; with early exit, up to its first failure."""
        judged = self.results[index]
        tests = []
        for number in range(len(self.submissions[index].tests)):
            tests.append(judged.get(number, TestResult("IE", message="the test was not run")))
            if self.early_exit and tests[-1].verdict != "AC":
                break
        return Result(tuple(tests))

    def _feed(self, slots: Sequence[_Slot], selector: selectors.BaseSelector) -> None:
        # A second job per slot hides the round trip; near the end it would only wait in line.
        for depth in (1, 2):
            for slot in slots:
                while slot.load < depth:
                    if depth == 2 and len(self.waiting) <= 2 * len(slots):
                        break
                    job = self._next_job(slot)
                    if job is None:
                        break
                    if job.flavour not in slot.workers:
                        self._start(job.flavour, slots, selector)
                    worker = slot.workers[job.flavour]
                    try:
                        worker.give(job)
                    except OSError:
                        self._replace(worker, selector)

    def _next_job(self, slot: _Slot) -> Job | None:
        if self.retries:
            return self.retries.popleft() if slot.load == 0 else None
        if self.further and slot.takes(self.further[0].flavour):
            return self.further.popleft()
        while self.waiting:
            index, number = self.waiting[0]
            judged = self.results[index]
            if self.early_exit and any(test.verdict != "AC" for test in judged.values()):
                self.waiting.popleft()
            elif slot.takes(flavour := self.flavours[index]):
                self.waiting.popleft()
                given = self.submissions[index]
                return job_for((index, number), given, self.output_bytes, flavour)
            else:
                return None
        return None

    def _advance(self, workers: Sequence[Worker], selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select(timeout=0.25):
            worker = key.data
            outcomes, alive = worker.read()
            for job, outcome in outcomes:
                self._record(job, outcome)
            if not alive:
                self._replace(worker, selector)
        for worker in workers:
            if worker.overdue:
                self._replace(worker, selector)

    def _record(self, job: Job, outcome: dict[str, Any]) -> None:
        if "failure" in outcome:
            job.close()
            self._failed(job, outcome["failure"])
            return
        index, number = job.key
        found = judge(self.submissions[index], job, outcome, self.rule_set)
        if isinstance(found, Job):
            self.further.append(found)
        else:
            self.results[index][number] = found
        job.close()

    def _failed(self, job: Job, reason: str) -> None:
        job.failures += 1
        if job.failures < _MAX_FAILURES:
            self.retries.append(job)
        else:
            index, number = job.key
            self.results[index][number] = TestResult("IE", message=reason)

    def _start(
        self, flavour: str, slots: Sequence[_Slot], selector: selectors.BaseSelector
    ) -> None:
        for slot, worker in zip(slots, started([Worker(flavour) for _ in slots]), strict=True):
            slot.workers[flavour] = worker
            selector.register(worker, selectors.EVENT_READ, worker)

    def _replace(self, worker: Worker, selector: selectors.BaseSelector) -> None:
        """The zygote died: repeat what it was given, and count it against what it was running."""
        jobs = list(worker.jobs)
        self._restart(worker, selector)
        self.retries.extend(jobs[1:])
        if jobs:
            self._failed(jobs[0], "the sandbox process died")

    def _restart(self, worker: Worker, selector: selectors.BaseSelector) -> None:
        with contextlib.suppress(KeyError, ValueError):
            selector.unregister(worker)
        worker.restart()
        selector.register(worker, selectors.EVENT_READ, worker)
