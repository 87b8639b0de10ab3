"""Inside the forked child: run the submission as `python3` would, then end.

Standard library only: the zygote loads this file. Nothing here is trusted by anyone: the child
knows the program and one input, and whatever it reports is only a claimed output.
"""

import atexit
import builtins
import io
import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, Literal

STDIN, STDOUT, STDERR, RESULT = 0, 1, 2, 3

# What LeetCode imports for every submission; builtins last, so that open and pow stay themselves.
_STAR_IMPORTS = [
    *("typing", "string", "re", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "json", "datetime", "builtins"),
]
_NAMED_IMPORTS = [*_STAR_IMPORTS, "sys", "decimal", "fractions", "array", "time"]
_NAMED_IMPORTS.remove("datetime")  # the class of that name is what people use


def leetcode_namespace() -> dict[str, Any]:
    """The names a call-based submission may use without importing them."""
    names: dict[str, Any] = {}
    for module in _STAR_IMPORTS:
        exec(f"from {module} import *", names)
    for module in _NAMED_IMPORTS:
        names[module] = __import__(module)
    names.pop("__builtins__", None)
    return names


def run_program(code: bytes) -> int:
    """Run a stdin/stdout program; returns the exit status."""
    module = _main_module("__main__")
    return _run(lambda: exec(_compile(code), module.__dict__))


def run_call(
    code: bytes,
    call: dict[str, Any],
    args: list[Any],
    names: dict[str, Any],
    dumps: Callable[[object], bytes],
) -> int:
    """Define the submission, call its function, write the encoded result to descriptor 3."""

    def define_and_call() -> None:
        module = _main_module("solution")
        module.__dict__.update(names)
        exec(_compile(code), module.__dict__)
        value = _resolve(module.__dict__, call["fn_name"])(*args)
        if call["result_arg"] is not None:
            value = args[call["result_arg"]]
        try:
            data = dumps(value)
        except TypeError as error:
            raise TypeError(f"cannot compare {error}") from None
        os.ftruncate(RESULT, 0)
        offset = 0
        while offset < len(data):
            offset += os.pwrite(RESULT, data[offset:], offset)

    return _run(define_and_call)


def _main_module(name: str) -> ModuleType:
    module = ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = sys.modules["__main__"] = module
    sys.argv = ["main.py"]
    sys.stdin = _text(STDIN, "r")
    sys.stdout = _text(STDOUT, "w")
    sys.stderr = io.TextIOWrapper(
        open(STDERR, "wb", buffering=0, closefd=False),  # noqa: SIM115 (lives as long as we)
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    return module


def _text(descriptor: int, mode: Literal["r", "w"]) -> io.TextIOWrapper:
    return open(descriptor, mode, encoding="utf-8", errors="surrogateescape", closefd=False)


def _compile(code: bytes) -> CodeType:
    return compile(code, "main.py", "exec", dont_inherit=True)


def _resolve(names: dict[str, Any], fn_name: str) -> Callable[..., Any]:
    solution = names.get("Solution")
    if isinstance(solution, type) and hasattr(solution, fn_name):
        return getattr(solution(), fn_name)
    if callable(names.get(fn_name)):
        return names[fn_name]
    raise NameError(f"neither class Solution nor the module defines {fn_name!r}")


def _run(body: Callable[[], None]) -> int:
    """What the interpreter does around a program: errors, threads, exit hooks, flushing."""
    status = 0
    try:
        body()
    except SystemExit as error:
        status = _exit_status(error.code)
    except BaseException as error:  # the interpreter's own last resort
        status = 1
        _print_error(error)
    wait_for_threads: Callable[[], None] = vars(threading)["_shutdown"]
    for finish in (wait_for_threads, atexit._run_exitfuncs):
        try:
            finish()
        except BaseException as error:
            _print_error(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException as error:
        _print_error(error)
        status = status or 120
    return status


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _print_error(error: BaseException) -> None:
    try:
        # The frames of this file are of no interest to the author of the submission.
        shown = error.__traceback__
        while shown is not None and shown.tb_frame.f_code.co_filename == __file__:
            shown = shown.tb_next
        text = "".join(traceback.format_exception(type(error), error, shown, limit=-20))
        os.write(STDERR, text[-8000:].encode("utf-8", "backslashreplace"))
    except BaseException:  # a broken __str__; the status still says it failed
        pass
