"""Scheduling and judging: many submissions over a few zygotes, verdicts in the trusted process.

The life of one test: `_job` puts program and input (never the expected output) into files in
memory; a worker's zygote forks a child, which runs the program under limits and writes to further
such files; the zygote reports how it ended (status, time, memory); `_judge` turns that and the
written output into a verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from mcbench.errors import UserError
from mcbench.evaluator import encoding
from mcbench.evaluator.compare import (
    MAX_LONGER,
    MIN_LONG,
    RULE_NAMES,
    Rules,
    compare_text,
    compare_values,
)
from mcbench.evaluator.pool import Job, Worker
from mcbench.evaluator.submission import (
    CallTest,
    Result,
    StdioTest,
    Submission,
    Test,
    TestResult,
    Verdict,
)

OUTPUT_BYTES = 16 << 20  # of standard output, standard error, the result and any file written
_MAX_FAILURES = 2  # a test whose run failed through no fault of its own is repeated once


class Evaluator:
    """Judges programs in sandboxed processes.

    Use it as a context manager, or call `close`. Threads may share it; their calls take turns. A
    forked copy of the process must not use it.

    Args:
        workers: sandboxes, and so tests that run at the same time.
        output_limit_mb: MiB a test may print, return or write to one file.

    Raises:
        UserError: ``workers`` is not a positive integer, or the limit is not between 1 and 256.
        RuntimeError: the sandbox processes could not be started.
    """

    def __init__(self, workers: int = 2, output_limit_mb: int = OUTPUT_BYTES >> 20) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise UserError(f"workers must be an integer of at least 1, got {workers!r}")
        if output_limit_mb not in range(1, 257):
            raise UserError(f"output_limit_mb must be between 1 and 256, got {output_limit_mb!r}")
        self._output_bytes = output_limit_mb << 20
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._closed = False
        self._workers = [Worker() for _ in range(workers)]
        try:
            for worker in self._workers:
                worker.start()
            for worker in self._workers:
                worker.finish_start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def isolation(self) -> dict[str, Any]:
        """Layers the machine grants (``granted``) and refuses (``missing``: name -> reason)."""
        return self._workers[0].layers

    def close(self) -> None:
        """End the sandboxes; a call in progress is waited for. Idempotent."""
        with self._lock:
            if not self._closed and os.getpid() == self._owner:
                for worker in self._workers:
                    worker.stop()
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
        for given in map(type, submissions):
            if not issubclass(given, Submission):
                raise UserError(f"evaluate takes a list of Submission, found {given.__name__}")
        first_of: dict[Any, int] = {}
        copies = [first_of.setdefault(_key(s), i) for i, s in enumerate(submissions)]
        unique = sorted(set(first_of.values()))
        with self._lock:
            if self._closed or os.getpid() != self._owner:
                raise UserError("this evaluator is closed, or belongs to another process")
            call = _Call(self._workers, submissions, unique, early_exit, self._output_bytes)
            call.run(cancelled)
        return [call.result(index) for index in copies]


def _key(submission: Submission) -> Any:
    """Equal for submissions that must get equal results. Tests may hold unhashable values."""
    tests: Any = submission.tests
    try:
        tests = repr(tests)
    except (ValueError, RecursionError):  # an integer too long to print, a list in itself
        tests = id(tests)
    return submission.code, submission.time_limit_s, submission.memory_limit_mb, tests


class _Call:
    """One call of `Evaluator.evaluate`: which test goes where, and what came of it."""

    def __init__(
        self,
        workers: list[Worker],
        submissions: Sequence[Submission],
        unique: list[int],
        early_exit: bool,
        output_bytes: int,
    ) -> None:
        self.workers = workers
        self.submissions = submissions
        self.early_exit = early_exit
        self.output_bytes = output_bytes
        self.results: dict[int, dict[int, TestResult]] = {index: {} for index in unique}
        # First tests of all, then second tests of all: one submission full of endless loops
        # delays the others little, and early exit saves most.
        most = max((len(submissions[index].tests) for index in unique), default=0)
        self.waiting = deque(
            (index, number)
            for number in range(most)
            for index in unique
            if number < len(submissions[index].tests)
        )
        self.retries: deque[Job] = deque()

    def run(self, cancelled: threading.Event) -> None:
        """Feed the workers until every test is judged, or the call is cancelled."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                if worker.running:
                    selector.register(worker, selectors.EVENT_READ, worker)
                else:  # an earlier call failed to start it
                    self._restart(worker, selector)
            try:
                while not cancelled.is_set():
                    self._feed(selector)
                    if not any(worker.jobs for worker in self.workers):
                        return
                    self._advance(selector)
            finally:
                # Interrupted or cancelled: the zygotes are mid-test, so they are replaced.
                for worker in self.workers:
                    if worker.jobs:
                        self._restart(worker, selector)

    def result(self, index: int) -> Result:
        """The result of one submission; with early exit, up to its first failure."""
        judged = self.results[index]
        tests = []
        for number in sorted(judged):
            tests.append(judged[number])
            if self.early_exit and judged[number].verdict != "AC":
                break
        return Result(tuple(tests))

    def _feed(self, selector: selectors.BaseSelector) -> None:
        # A second job per worker hides the round trip; near the end it would only wait in line.
        for depth in (1, 2):
            for worker in self.workers:
                while len(worker.jobs) < depth:
                    if depth == 2 and len(self.waiting) <= 2 * len(self.workers):
                        break
                    job = self._next_job(alone=depth == 1)
                    if job is None:
                        break
                    try:
                        worker.give(job)
                    except OSError:
                        self._replace(worker, selector)

    def _next_job(self, alone: bool) -> Job | None:
        if alone and self.retries:
            return self.retries.popleft()
        while self.waiting:
            index, number = self.waiting.popleft()
            judged = self.results[index]
            failed = self.early_exit and any(t.verdict != "AC" for t in judged.values())
            if failed:
                continue
            submission = self.submissions[index]
            try:
                return _job((index, number), submission, self.output_bytes)
            except (TypeError, ValueError, RecursionError) as error:
                raise UserError(f"test {number}: an argument cannot be sent: {error}") from None
        return None

    def _advance(self, selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select(timeout=0.25):
            worker = key.data
            try:
                for job, outcome in worker.read():
                    self._record(job, outcome)
            except (OSError, ValueError):
                self._replace(worker, selector)
        for worker in self.workers:
            if worker.overdue:
                self._replace(worker, selector)

    def _record(self, job: Job, outcome: dict[str, Any]) -> None:
        if "failure" in outcome:
            job.close()
            self._failed(job, outcome["failure"])
            return
        index, number = job.key
        submission = self.submissions[index]
        outputs = job.outputs(self.output_bytes)
        job.close()
        self.results[index][number] = _judge(submission, submission.tests[number], outcome, outputs)

    def _failed(self, job: Job, reason: str) -> None:
        job.failures += 1
        if job.failures < _MAX_FAILURES:
            self.retries.append(job)
        else:
            index, number = job.key
            self.results[index][number] = TestResult("IE", message=reason)

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


def _wall_limit(submission: Submission) -> float:
    return 2 * submission.time_limit_s + 1.0


def _job(key: tuple[int, int], submission: Submission, output_bytes: int) -> Job:
    """What the sandbox gets to know: the program, its input and its limits."""
    test = submission.tests[key[1]]
    call = None
    if isinstance(test, CallTest):
        call = {"fn_name": test.fn_name, "result_arg": test.result_arg}
        data = encoding.dumps(list(test.args))
    else:
        data = test.stdin.encode("utf-8", "surrogateescape")
    request = {
        "call": call,
        "cpu_s": submission.time_limit_s,
        "wall_s": _wall_limit(submission),
        "memory_bytes": int(submission.memory_limit_mb * 2**20),
        "output_bytes": output_bytes,
    }
    return Job(key, request, submission.code.encode("utf-8", "surrogatepass"), data)


def _judge(
    submission: Submission,
    test: Test,
    outcome: dict[str, Any],
    outputs: tuple[bytes, bytes, bytes] | None,
) -> TestResult:
    """The verdict on a raw outcome: limits first, then how it ended, then what it answered."""
    strategy = None
    verdict: Verdict
    broken = _broken_limit(submission, outcome)
    if outputs is None:
        verdict, message = "OLE", "wrote more than the output limit"
    elif broken := broken or _bad_ending(outcome, outputs[1].decode("utf-8", "replace")):
        verdict, message = broken
    else:
        verdict, strategy, message = _compare(test, outputs[0], outputs[2])
    return TestResult(
        verdict=verdict,
        time_s=outcome["cpu_s"],
        wall_s=outcome["wall_s"],
        memory_mb=outcome["memory_mb"],
        strategy=strategy,
        message=message,
    )


def _broken_limit(submission: Submission, outcome: dict[str, Any]) -> tuple[Verdict, str] | None:
    stopped = outcome["stopped"]
    if stopped == "memory" or outcome["memory_mb"] > submission.memory_limit_mb:
        return "MLE", f"used more than {submission.memory_limit_mb:g} MiB"
    if stopped == "time" or outcome["cpu_s"] > submission.time_limit_s:
        return "TLE", f"used more than {submission.time_limit_s:g} s of CPU time"
    if stopped == "wall":
        return "TLE", f"did not end within {_wall_limit(submission):g} s"
    return None


def _bad_ending(outcome: dict[str, Any], stderr: str) -> tuple[Verdict, str] | None:
    status = outcome["status"]
    if status == 0:
        return None
    last_line = stderr.strip().rsplit("\n", 1)[-1][:300]
    if last_line.startswith("MemoryError"):  # the limit on address space
        return "MLE", last_line
    ended = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    return "RE", f"{ended}: {last_line}".rstrip(": ")


def _far_larger(expected: Any, returned: bytes) -> bool:
    if len(returned) <= MIN_LONG:
        return False
    try:
        size = len(encoding.dumps(expected))
    except (TypeError, ValueError):
        return False  # compared in full, to fail for the right reason
    return len(returned) > MAX_LONGER * size + MIN_LONG


def _compare(test: Test, stdout: bytes, returned: bytes) -> tuple[Verdict, str | None, str]:
    rules = Rules(**{name: getattr(test, name) for name in RULE_NAMES if hasattr(test, name)})
    if isinstance(test, StdioTest):
        text = stdout.decode("utf-8", "surrogateescape")
        comparison = compare_text(test.expected, text, rules, test)
    elif not returned:
        return "RE", None, "ended before the function returned"
    elif test.checker is None and _far_larger(test.expected, returned):
        return "WA", None, f"{len(returned)} bytes returned, far more than expected"
    else:
        try:
            value = encoding.loads(returned)
        except ValueError:
            return "RE", None, "the returned value is damaged"
        comparison = compare_values(test.expected, value, rules, test)
    return ("AC" if comparison.accepted else "WA"), comparison.strategy, comparison.reason
