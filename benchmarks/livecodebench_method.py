"""How LiveCodeBench's published method runs a program: in the process of its submission.

Written anew from the rules of lcb_runner/evaluation/testing_util.py (July 2025); what it misjudges
follows from them and is kept. **No sandbox**: see `benchmarks.published`.
"""

from __future__ import annotations

import ast
import builtins
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import mock_open, patch

from mcbench.evaluator.rule_sets import RuleSet, rule_set
from mcbench.evaluator.submission import TestResult, Verdict

_MODULES = [
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
]
# The names that every submission finds, in this order: later modules overwrite earlier ones, so
# that `open` is the real one again, and is not affected by the patch of `builtins.open`.
_PREAMBLE = "\n".join(
    [
        *(f"from {module} import *" for module in (*_MODULES, "builtins", "typing")),
        *(f"import {module}" for module in _MODULES),
        "sys.setrecursionlimit(50000)\n",
    ]
)
_NO_LONGER_IN_OS = (
    "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames "
    "truncate replace unlink fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir"
)


@dataclass(frozen=True)
class Sample:
    """One submission, as its process gets it; expected outputs included, as published."""

    code: str
    fn_name: str | None
    inputs: list[Any]
    expected: list[Any]
    alarm_s: int


class _Timeout(Exception):
    pass


def run_sample(sample: Sample, outcome: Any) -> None:
    """In the sample's process: append the results of its tests, up to the first failure."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdout = sys.stderr = open(nowhere, "w")  # noqa: PTH123, SIM115 (a descriptor, until we end)
    rules = rule_set("livecodebench")
    signal.signal(signal.SIGALRM, _on_alarm)
    _reliability_guard()
    signal.alarm(sample.alarm_s)
    results: list[TestResult] = []
    try:
        run = (_stdio_runner if sample.fn_name is None else _call_runner)(sample, rules)
        for given, expected in zip(sample.inputs, sample.expected, strict=True):
            results.append(_run_one(run, given, expected, sample.alarm_s))
            if results[-1].verdict != "AC":
                break
    except Exception:  # the program does not compile, or lacks the function
        results = [TestResult("RE")]
    finally:
        signal.alarm(0)
    outcome.append(results)


_Run = Callable[[Any, Any], bool]


def _run_one(run: _Run, given: Any, expected: Any, alarm_s: int) -> TestResult:
    cpu, wall = time.process_time(), time.monotonic()
    verdict: Verdict
    signal.alarm(alarm_s)
    try:
        verdict = "AC" if run(given, expected) else "WA"
    except _Timeout:
        verdict = "TLE"
    except Exception:
        verdict = "RE"
    finally:
        signal.alarm(0)
    return TestResult(verdict, time.process_time() - cpu, time.monotonic() - wall)


def _on_alarm(number: int, frame: object) -> None:
    raise _Timeout


def _stdio_runner(sample: Sample, rules: RuleSet) -> _Run:
    code = _as_function(_without_main_block(sample.code))
    function = _compile(code, sample.alarm_s).wrapped_function

    def run(text: str, expected: str) -> bool:
        captured = io.StringIO()
        captured.close = lambda: None  # type: ignore[method-assign]  # a closed stdout keeps its text
        lines = iter(text.split("\n"))
        with (
            redirect_stdout(captured),
            # The real object too: programs that import its name hold on to that one.
            patch("sys.stdin.read", lambda *args: text),
            patch("sys.stdin.readlines", lambda *args: text.split("\n")),
            patch("sys.stdin.readline", lambda *args: next(lines)),
            patch("sys.stdin", _Stdin(text)),
            patch("builtins.open", mock_open(read_data=text)),
        ):
            with suppress(SystemExit):
                function()
            signal.alarm(0)
        return rules.compare(expected, captured.getvalue(), True).accepted

    return run


def _call_runner(sample: Sample, rules: RuleSet) -> _Run:
    assert sample.fn_name is not None
    owner = _compile(_PREAMBLE + "\n\n" + sample.code, sample.alarm_s)
    function = getattr(owner, sample.fn_name)

    def run(args: list[Any], expected: Any) -> bool:
        value = function(*args)
        signal.alarm(0)
        return rules.compare(expected, value, False).accepted

    return run


def _compile(code: str, alarm_s: int) -> Any:
    """Run the definitions; whatever mentions ``class Solution`` is taken for a method's program."""
    signal.alarm(alarm_s)
    try:
        module = ModuleType("tmp_sol", "")
        exec(code, module.__dict__)
        return module.Solution() if "class Solution" in code else module
    finally:
        signal.alarm(0)


def _without_main_block(code: str) -> str:
    """Move the body of a ``__main__`` block to the top level, if it is the last statement."""
    try:
        *others, last = ast.parse(code).body
        if isinstance(last, ast.If) and ast.unparse(last.test) == "__name__ == '__main__'":
            return ast.unparse(_module(others)) + "\n" + ast.unparse(_module(last.body))
    except Exception:  # no valid program; running it will say so
        pass
    return code


def _as_function(code: str) -> str:
    """Imports first, then all other statements of the module as the body of one function."""
    try:
        statements = ast.parse(code).body
        imports: list[ast.stmt] = [
            s for s in statements if isinstance(s, (ast.Import, ast.ImportFrom))
        ]
        others = [s for s in statements if s not in imports]
        function = ast.parse("def wrapped_function(): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = others
        return "\n".join([_PREAMBLE, ast.unparse(_module(imports)), ast.unparse(function)])
    except Exception:  # no valid program; running it will say so
        return code


def _module(statements: list[ast.stmt]) -> ast.Module:
    return ast.Module(body=statements, type_ignores=[])


class _Stdin:
    """Standard input as the method offers it: no iteration, and reads that never advance."""

    def __init__(self, text: str) -> None:
        self._stream = io.StringIO(text)
        data = text.encode()
        self.buffer = SimpleNamespace(
            read=lambda *args: data, readline=lambda *args: data.split(b"\n")[0] + b"\n"
        )
        self.read = lambda *args: text
        self.readlines = lambda *args: text.split("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _reliability_guard() -> None:
    """Take away what a careless program could do harm with. No security."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for module, names in (
        (builtins, "quit help"),
        (os, _NO_LONGER_IN_OS),
        (shutil, "rmtree move chown"),
        (subprocess, "Popen"),
    ):
        for name in names.split():
            setattr(module, name, None)
    missing: dict[str, Any] = dict.fromkeys(("ipdb", "joblib", "resource", "psutil", "tkinter"))
    sys.modules.update(missing)
