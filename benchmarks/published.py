"""The published ways to judge programs that `Evaluator` is measured against.

For measurements only: **no sandbox**. Programs run with the rights of
the caller, so give these classes nothing that is hostile. Both take the place of an `Evaluator` in
`CodeReward`, both return the same `Result`.

`SingleThreaded` is the evaluator people write first: a new Python for every test, one after
another. `ProcessPerSample` follows LiveCodeBench (lcb_runner/evaluation/testing_util.py and
compute_code_generation_metrics.py, as of July 2025), written anew from its rules; what it misjudges
follows from them and is kept.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.livecodebench_method import Sample, run_sample
from mcbench.errors import UserError
from mcbench.evaluator import encoding
from mcbench.evaluator.checking import run_checker
from mcbench.evaluator.compare import as_text, compare_text, compare_values
from mcbench.evaluator.judge import input_of, result_of, rules_of
from mcbench.evaluator.rule_sets import RuleSet, rule_set, through_json
from mcbench.evaluator.submission import (
    AssertTest,
    CallTest,
    Result,
    StdioTest,
    Submission,
    Test,
    TestResult,
    check_workers,
    checked_submissions,
)

OUTPUT_BYTES = 16 << 20
_FOLDER = Path(encoding.__file__).parent


class _Baseline:
    """What both have in common with `Evaluator`."""

    _closed = False

    def close(self) -> None:
        """Refuse further calls; nothing is kept between calls. Idempotent."""
        self._closed = True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check(self, given: Sequence[Submission], kinds: tuple[type, ...]) -> list[Submission]:
        if self._closed:
            raise UserError("this evaluator is closed")
        submissions = checked_submissions(given)
        for kind in {type(test) for submission in submissions for test in submission.tests}:
            if not issubclass(kind, kinds):
                names = " and ".join(kind.__name__ for kind in kinds)
                raise UserError(f"{type(self).__name__} takes {names}, got {kind.__name__}")
        return submissions


def _whole(submission: Submission) -> str:
    """The program as other evaluators get it: one text."""
    return "\n".join(filter(None, (submission.preamble, submission.code)))


def _work_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mcbench-", ignore_cleanup_errors=True)


# One Python per test -----------------------------------------------------------------------------

# Runs `main.py` as a module of a call-based submission and leaves the encoded result in a file.
_CALL_DRIVER = """\
import sys
folder, fn_name, result_arg = sys.argv[1:]
sys.path.insert(0, folder)
import encoding, leetcode
del sys.path[0]
names = leetcode.namespace()
sys.setrecursionlimit(leetcode.RECURSION_LIMIT)
names["__name__"] = "solution"
with open("main.py", "rb") as file:
    exec(compile(file.read(), "main.py", "exec"), names)
owner = names.get("Solution")
is_method = isinstance(owner, type) and hasattr(owner, fn_name)
function = getattr(owner(), fn_name) if is_method else names[fn_name]
args = encoding.loads(sys.stdin.buffer.read())
value = function(*args)
if result_arg:
    value = args[int(result_arg)]
with open("result", "wb") as file:
    file.write(encoding.dumps(value, items_of=leetcode.items_of))
"""


class SingleThreaded(_Baseline):
    """One test after another, each in a new ``sys.executable main.py`` with default flags.

    The time limit is wall time, as ``subprocess`` offers it; memory is not limited. An
    assert-style test runs in one program with the submission, which can spoil it.

    Args:
        rules: how outputs are compared, a name of `mcbench.evaluator.rule_sets.RULE_SETS`.

    Raises:
        UserError: an unknown rule set.
    """

    def __init__(self, rules: str = "microcoder") -> None:
        self._rule_set = rule_set(rules)

    def evaluate(self, submissions: Sequence[Submission], early_exit: bool = False) -> list[Result]:
        """Judge submissions in order; see `Evaluator.evaluate`. Equal ones are run again.

        Raises:
            UserError: the evaluator is closed, or something other than submissions was given.
        """
        given = self._check(submissions, (StdioTest, CallTest, AssertTest))
        return [self._evaluate_one(submission, early_exit) for submission in given]

    def _evaluate_one(self, submission: Submission, early_exit: bool) -> Result:
        tests: list[TestResult] = []
        for number in range(len(submission.tests)):
            with _work_folder() as work:
                tests.append(_run_plainly(submission, number, Path(work), self._rule_set))
            if early_exit and tests[-1].verdict != "AC":
                break
        return Result(tuple(tests))


def _run_plainly(
    submission: Submission, number: int, work: Path, rule_set: RuleSet | None
) -> TestResult:
    test, code = submission.tests[number], _whole(submission)
    command, data = [sys.executable, "main.py"], b""
    if isinstance(test, AssertTest):
        name = f"candidate = {test.entry_point}" if test.entry_point else ""
        code = "\n".join([test.setup, code, name, test.code, ""])
    else:
        data = input_of(test, number)
    if isinstance(test, CallTest):
        (work / "call.py").write_text(_CALL_DRIVER)
        result_arg = "" if test.result_arg is None else str(test.result_arg)
        command = [sys.executable, "call.py", str(_FOLDER), test.fn_name, result_arg]
    (work / "main.py").write_bytes(code.encode("utf-8", "surrogatepass"))
    (work / "stdin").write_bytes(data)

    started = time.monotonic()
    with ExitStack() as stack:
        modes = {"stdin": "rb", "stdout": "wb", "stderr": "wb"}
        streams: Any = {n: stack.enter_context((work / n).open(mode)) for n, mode in modes.items()}
        process = subprocess.Popen(command, cwd=work, start_new_session=True, **streams)
    if hasattr(resource, "prlimit"):  # Linux; elsewhere the size is only checked afterwards
        limit = OUTPUT_BYTES + 1
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    late = threading.Event()

    def stop() -> None:
        late.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    # Popen.wait(timeout) polls with growing pauses; a timer lets us wait for the end itself.
    timer = threading.Timer(submission.time_limit_s, stop)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if late.is_set():
        result = TestResult("TLE", message="did not end in time")
    else:
        result = _judge(process.returncode, test, work, rule_set)
    wall_s = time.monotonic() - started
    return replace(result, time_s=usage.ru_utime + usage.ru_stime, wall_s=wall_s)


def _judge(status: int, test: Test, work: Path, rule_set: RuleSet | None) -> TestResult:
    if (work / "stdout").stat().st_size > OUTPUT_BYTES:
        return TestResult("OLE", message="wrote more than the output limit")
    if status != 0:
        lines = (work / "stderr").read_bytes()[-4096:].decode("utf-8", "replace").splitlines()
        last = lines[-1] if lines else ""
        failed = isinstance(test, AssertTest) and last.startswith("AssertionError")
        message = f"exit status {status}: {last}".rstrip(": ")
        return TestResult("WA" if failed else "RE", message=message)
    if isinstance(test, AssertTest):
        return TestResult("AC", strategy="assertions")
    written = work / ("result" if isinstance(test, CallTest) else "stdout")
    written.touch()
    data = written.read_bytes()
    text = isinstance(test, StdioTest)
    if not (text or data):
        return TestResult("RE", message="ended before the function returned")
    value: Any = as_text(data) if text else encoding.loads(data)
    if rule_set:
        found = rule_set.compare(test.expected, value, text)
    elif callable(test.checker):
        found = run_checker(test.checker, test.expected, value, test)
    else:
        rules = rules_of(test)
        found = (compare_text if text else compare_values)(test.expected, value, rules)
    return result_of(test, data, found)


# LiveCodeBench's published method ----------------------------------------------------------------


class ProcessPerSample(_Baseline):
    """LiveCodeBench's method: a Manager and a forked process for every submission.

    ``workers`` submissions at a time. All tests of one run in its process, with the program wrapped
    in a function, standard input replaced by an object and standard output by a StringIO; an alarm
    per test (whole seconds, the submission's limit rounded up); it stops at the first failure, so
    results end there with or without ``early_exit``. Comparison by the rule set "livecodebench",
    which knows no options of a test. No limit on memory.

    Everything is forked from the calling process, as published, also where that one holds a model:
    the larger the caller, the slower the fork.

    Arguments and expected values pass through JSON, as in its data (tuples become lists); values
    that JSON lacks, which its data cannot hold, are handed over as they are.

    Raises:
        UserError: ``workers`` is not a positive integer.
    """

    def __init__(self, workers: int = 2) -> None:
        check_workers(workers)
        self._workers = workers

    def evaluate(self, submissions: Sequence[Submission], early_exit: bool = False) -> list[Result]:
        """Judge submissions; see `Evaluator.evaluate`. Equal ones are run again.

        Raises:
            UserError: the evaluator is closed, or something other than submissions was given.
        """
        samples = [_sample(given) for given in self._check(submissions, (StdioTest, CallTest))]
        with (
            _work_folder() as work,
            ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("fork"),
                initializer=os.chdir,  # what programs write is not to end up with the caller
                initargs=(work,),
            ) as pool,
        ):
            futures = [pool.submit(_check_sample, sample) for sample in samples]
            results = []
            for future in futures:
                try:
                    results.append(future.result())
                except BrokenProcessPool:
                    results.append(Result((TestResult("IE", message="a worker process died"),)))
        return results


def _sample(submission: Submission) -> Sample:
    tests = [test for test in submission.tests if not isinstance(test, AssertTest)]
    if any(isinstance(test, StdioTest) and test.keep_output for test in tests):
        raise UserError("ProcessPerSample keeps no output of programs, which these tests ask for")
    names = [test.fn_name if isinstance(test, CallTest) else None for test in tests]
    if len(set(names)) > 1:
        raise UserError("ProcessPerSample takes tests of one form and one function")
    inputs = [
        through_json(list(test.args)) if isinstance(test, CallTest) else test.stdin
        for test in tests
    ]
    expected = [through_json(test.expected) for test in tests]
    alarm_s = math.ceil(submission.time_limit_s)
    return Sample(_whole(submission), names[0], inputs, expected, alarm_s)


def _check_sample(sample: Sample) -> Result:
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        outcome = manager.list()
        process = context.Process(target=run_sample, args=(sample, outcome))
        process.start()
        process.join(timeout=(sample.alarm_s + 1) * len(sample.inputs) + 5)
        if process.is_alive():
            process.kill()
            process.join()
            return Result((TestResult("TLE", message="the global timeout"),))
        if not outcome:
            return Result((TestResult("RE", message="the process ended without a result"),))
        return Result(tuple(outcome[0]))
