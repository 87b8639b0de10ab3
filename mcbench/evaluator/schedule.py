"""The sandboxes of this machine: which test goes to which, and what came of it.

The life of one test: `judge.job_for` puts program and input (never the expected output) into files
in memory; a worker's zygote forks a child, which runs the program under limits and writes to
further such files; the zygote reports how it ended (status, time, memory); `judge.judge` turns that
and the written output into a verdict, and has a further job run where that is to find it. One
thread does this for each sandbox, which is sent the next test before the last one is judged.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator.judge import Run, job_for, judge
from mcbench.evaluator.pool import ATTEMPTS, CancelledError, Job, Worker
from mcbench.evaluator.rule_sets import RuleSet, rule_set
from mcbench.evaluator.submission import AssertTest, Result, Submission, TestResult

_NOT_RUN = TestResult("IE", message="the test was not run", lost=True)
_ATTEMPTS = 2  # a job whose run failed through no fault of its own is repeated once
_NUMPY = re.compile(r"\b(numpy|scipy|pandas)\b")
_FOR_PYTEST = re.compile(r"\bpytest\b|^\s*(async )?def test|^class Test|TestCase\b", re.MULTILINE)


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
        self.workers = [Worker() for _ in range(count)]
        self._slots = [_Slot(worker) for worker in self.workers]
        try:
            side_by_side([worker.start for worker in self.workers], threading.Event())
        except BaseException:
            self.close()
            raise

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
        call = _Call(submissions, early_exit, self.output_bytes, self.rule_set, cancelled)
        # Near the end a sandbox is given no test ahead, which another could have run at once.
        least = 2 * len(self._slots)
        side_by_side([partial(slot.work, call, least) for slot in self._slots], cancelled)
        return [call.result(index) for index in range(len(submissions))]

    def close(self) -> None:
        """End the sandboxes."""
        for slot in self._slots:
            for worker in slot.workers.values():
                worker.stop()


def side_by_side(tasks: Sequence[Callable[[], None]], cancelled: threading.Event) -> None:
    """Do each task in a thread; ``cancelled`` is set when one fails or this thread is interrupted.

    Raises:
        Exception: that of a task.
    """
    with ThreadPoolExecutor(len(tasks)) as threads:
        try:
            for done in as_completed([threads.submit(task) for task in tasks]):
                done.result()
        except BaseException:
            cancelled.set()
            raise


@dataclass
class _Call:
    """One call of `LocalSandboxes.evaluate`."""

    submissions: Sequence[Submission]
    early_exit: bool
    output_bytes: int
    rules: RuleSet | None
    cancelled: threading.Event

    def __post_init__(self) -> None:
        self.results: list[dict[int, TestResult]] = [{} for _ in self.submissions]
        # First tests of all, then second tests of all: one submission full of endless loops
        # delays the others little, and early exit saves most.
        most = max((len(given.tests) for given in self.submissions), default=0)
        self.waiting = deque(
            (index, number)
            for number in range(most)
            for index, given in enumerate(self.submissions)
            if number < len(given.tests)
        )

    def next(self, least: int) -> Job | None:
        """That of the test which is to be run next, while more than ``least`` wait."""
        while len(self.waiting) > least and not self.cancelled.is_set():
            try:
                index, number = self.waiting.popleft()
            except IndexError:
                break
            # A later test may have been judged first.
            before = [test for at, test in list(self.results[index].items()) if at < number]
            if not (self.early_exit and any(test.verdict != "AC" for test in before)):
                given = self.submissions[index]
                flavour = _flavour(given, number)
                job = job_for(given, number, self.output_bytes, flavour)
                job.test = index, number
                return job
        return None

    def judge(self, job: Job, run: Run) -> None:
        """Note the verdict on a test, when its job has run."""
        index, number = job.test
        with closing(job):
            try:
                found = judge(self.submissions[index], number, job, run, self.rules)
            except _FailedError as error:
                found = TestResult("IE", message=str(error), lost=True)
        self.results[index][number] = found

    def result(self, index: int) -> Result:
        """Of one submission, as far as its tests were judged."""
        judged, tests = self.results[index], []
        for number in range(len(self.submissions[index].tests)):
            tests.append(judged.get(number, _NOT_RUN))
            if self.early_exit and tests[-1].verdict != "AC":
                break
        return Result(tuple(tests))


class _Slot:
    """A place where one job runs at a time: a worker of each flavour, started when it is needed."""

    def __init__(self, worker: Worker) -> None:
        self.workers = {worker.flavour: worker}
        self.given: deque[Job] = deque()  # to one of them, which runs them in turn
        self._cancelled = threading.Event()

    def work(self, call: _Call, least: int) -> None:
        """Judge tests until none waits: each of them, while more than ``least`` wait, as the next
        one runs.
        """
        for worker in self.workers.values():
            worker.see_to()
        self._cancelled = call.cancelled
        last = following = None
        try:
            while (following := call.next(least if last else 0)) or last:
                if following:
                    self._begin(following)
                if last:
                    call.judge(last, self._run)
                last = following
        except CancelledError:
            pass
        finally:
            for job in filter(None, (last, following)):
                job.close()
            if self.given:  # the zygote is mid-test
                worker = self.workers[self.given[0].flavour]
                self.given.clear()
                worker.start(ATTEMPTS)

    def _run(self, job: Job) -> dict[str, Any]:
        """How a job ended, which is begun unless it was."""
        if not (job.outcome or job in self.given):
            self._begin(job)
        while not job.outcome:
            self._end_first()
        if "failure" in job.outcome:
            raise _FailedError(job.outcome["failure"])
        return job.outcome

    def _begin(self, job: Job) -> None:
        """Have a job run once those have ended that were begun before."""
        try:
            job.open()
        except OSError as error:
            job.outcome = {"failure": f"the files of a test could not be made: {error}"}
            return
        while self.given and self.given[0].flavour != job.flavour:
            self._end_first()
        worker = self.workers.setdefault(job.flavour, Worker(job.flavour))
        if not self.given:
            worker.see_to()
        self.given.append(job)
        try:
            worker.channel.send(job.request, job.files)
        except OSError:
            worker.stop()  # which is seen when it is waited for

    def _end_first(self) -> None:
        """Wait for the job that was begun first; it is repeated where that was our own failure."""
        first = self.given[0]
        worker, lost = self.workers[first.flavour], 1
        outcome = worker.end(first, self._cancelled)
        if not worker.running:
            worker.see_to()
            lost = len(self.given)
        again = [self.given.popleft() for _ in range(lost)]
        first.attempts += 1
        if "failure" not in outcome or first.attempts == _ATTEMPTS:
            first.outcome = outcome
            again.remove(first)
        for job in again:
            self._begin(job)


def _flavour(submission: Submission, number: int) -> str:
    """What a worker is to have loaded for a test."""
    test = submission.tests[number]
    if isinstance(test, AssertTest) and _FOR_PYTEST.search(test.code):
        return "pytest"
    program = submission.code, submission.preamble
    return "numpy" if any(map(_NUMPY.search, program)) else "plain"


class _FailedError(Exception):
    """No run of a job came to an end."""
