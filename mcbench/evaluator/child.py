"""Inside the forked child: run the submission as `python3` would, then end.

Standard library only: the zygote loads this file. Nothing here is trusted by anyone: the child
knows the program and one input, and whatever it reports is only a claimed output.
"""

import __future__

import atexit
import builtins
import functools
import gc
import io
import os
import random
import re
import signal
import site
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from types import AsyncGeneratorType, CoroutineType, ModuleType
from typing import Any, Literal

from mcbench.evaluator import encoding, leetcode, portable

STDIN, STDOUT, STDERR, RESULT = 0, 1, 2, 3

_set_handler = vars(signal)["_signal"].signal  # without signal's enumerations, which cost time

# Only programs with one of these words have objects that do something when they are let go of.
_FINALISING = re.compile(b"__del__|yield|open|IO|Buffered")

# And only these look for the file that they are in.
_READS_ITSELF = re.compile("__file__|argv|inspect|linecache|spawn|forkserver")

_WARM_UPS = 20
_WARM_UP = b"""\0
import sys
a, b = map(int, input().split())
def add(x, y):
    return [x + y for _ in range(2)][0]
print(add(a, b), f"{a} {b:.3f}", *sorted({"a": 1}.items()))
"""

# What `from __future__ import` sets: in a preamble it holds for the program, too.
_FUTURES = 0
for _feature in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _feature).compiler_flag

_modules: dict[str, ModuleType] = {}
_names: dict[str, Any] = {}  # that a call-based submission has


def prepare() -> None:
    """In the zygote: what every test needs and no test has touched yet.

    Made here and not in the child, where each page of memory that is written to has to be copied
    first; that is most of what a test costs.

    The streams are made on files like those that a child gets at the same descriptors, so that what
    they remember of their descriptor (a regular file, at its start) holds there. A small program is
    run first: what is initialised on first use then is so in every child.
    """
    _names.update(leetcode.namespace())
    site.setquit()  # what `site` adds for a plain `python3`; the zygote starts without it
    site.setcopyright()
    site.sethelper()
    sys.set_int_max_str_digits(0)  # a server's protection, not a rule of any contest
    random.seed(0)  # fixed, as for hashing: the same program gets the same verdict
    saved = [os.dup(descriptor) for descriptor in (STDIN, STDOUT, STDERR)]
    for _ in range(_WARM_UPS):
        _open_streams(b"1 2\n")
        _define(_WARM_UP, vars(_module("__main__", {})))
        sys.stdout.flush()
    _open_streams(b"")
    streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    _modules["__main__"] = _module("__main__", {})
    _modules["solution"] = _module("solution", _names | streams)
    _modules["answering"] = _module("solution", {})
    for descriptor, original in enumerate(saved):
        os.dup2(original, descriptor)
        os.close(original)
    sys.argv = ["main.py"]
    sys.path.insert(0, os.environ["HOME"])  # where a program may write modules of its own


def run_program(code: bytes) -> int:
    """Run a stdin/stdout program; returns the exit status."""
    return _run(lambda: _define(code, _enter("__main__", code)), code)


def run_call(code: bytes, call: dict[str, Any], args: list[Any]) -> int:
    """Define the submission, call its function, write the encoded result to descriptor 3."""

    def define_and_call() -> None:
        sys.setrecursionlimit(leetcode.RECURSION_LIMIT)
        bound, name = _enter("solution", code), call["fn_name"]
        given = functools.partial(bound[name]) if callable(bound.get(name)) else None
        if given:  # the program can use it, and is seen to have none of its own
            bound[name] = given
        _define(code, bound)
        function = _resolve(bound, name, given)
        args[:] = leetcode.with_nodes(function, args, bound)
        value = function(*args)
        if isinstance(value, (CoroutineType, AsyncGeneratorType)):
            value = _awaited(value)
        value = leetcode.without_node(function, value)
        if call["result_arg"] is not None:
            value = args[call["result_arg"]]
        try:
            data = encoding.dumps(value, items_of=leetcode.items_of)
        except TypeError as error:
            raise TypeError(f"cannot compare {error}") from None
        os.ftruncate(RESULT, 0)
        portable.write_all(RESULT, data)

    return _run(define_and_call, code)


def _awaited(value: Any) -> Any:
    """What a coroutine returns, or all that an asynchronous generator yields."""
    import asyncio  # large and rarely needed

    async def items() -> list[Any]:
        return [item async for item in value]

    return asyncio.run(value if isinstance(value, CoroutineType) else items())


def run_answering(code: bytes, answer: Callable[[dict[str, Any]], None]) -> int:
    """Define the submission, then answer what an assert-style test asks of it."""

    def define_and_answer() -> None:
        bound = _enter("answering", code)
        _define(code, bound)
        answer(bound)

    return _run(define_and_answer, code)


def _open_streams(stdin: bytes) -> None:
    for descriptor in (STDIN, STDOUT, STDERR):
        placeholder = portable.memory_file("placeholder")
        os.dup2(placeholder, descriptor)
        os.close(placeholder)
    os.pwrite(STDIN, stdin, 0)
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


def _module(name: str, names: dict[str, Any]) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(names)
    module.__dict__.update(__builtins__=builtins, __file__=f"{os.environ['HOME']}/main.py")
    return module


def _enter(kind: str, code: bytes) -> dict[str, Any]:
    """Make one of the prepared modules the program's and return its dictionary.

    What was made in the zygote the collector does not visit, so a program with finalisers gets a
    fresh one.
    """
    module = _modules.pop(kind)
    if _FINALISING.search(code):
        module = _module(module.__name__, vars(module))
    sys.modules["__main__"] = sys.modules[module.__name__] = module
    return vars(module)


def _text(descriptor: int, mode: Literal["r", "w"]) -> io.TextIOWrapper:
    return open(descriptor, mode, encoding="utf-8", errors="surrogateescape", closefd=False)


def _define(code: bytes, names: dict[str, Any]) -> None:
    """Run the problem's preamble, up to a null byte, and the program after it.

    Each keeps its own first lines. The program is text, whatever encoding it says it is in.
    """
    futures = 0
    parts = code.decode("utf-8", "surrogatepass").split("\0", 1)
    for part, file in zip(parts, ("preamble.py", "main.py"), strict=True):
        if part:
            text = part.removeprefix("\ufeff")
            if _READS_ITSELF.search(text):
                with open(file, "wb") as own:  # noqa: PTH123 (pathlib would cost every start)
                    own.write(text.encode("utf-8", "surrogatepass"))
            compiled = compile(text, file, "exec", futures, dont_inherit=True)
            exec(compiled, names)
            futures = compiled.co_flags & _FUTURES


def _resolve(bound: dict[str, Any], fn_name: str, given: Any) -> Callable[..., Any]:
    solution = bound.get("Solution")
    if isinstance(solution, type) and hasattr(solution, fn_name):
        return getattr(solution(), fn_name)
    function = bound.get(fn_name)
    if callable(function) and function is not given:
        return function
    raise NameError(f"neither class Solution nor the module defines {fn_name!r}")


def _run(body: Callable[[], None], code: bytes) -> int:
    """What the interpreter does around a program: errors, threads, exit hooks, finalisation."""
    _set_handler(int(signal.SIGINT), signal.default_int_handler)
    status = 0
    try:
        body()
    except SystemExit as error:
        status = _exit_status(error.code)
    except BaseException as error:  # the interpreter's own last resort
        status = 1
        _report(error)
    _goes_well(_wait_for_threads)
    _goes_well(atexit._run_exitfuncs)
    flushed = _goes_well(_flush, getattr(sys, "stdout", None))
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    if _FINALISING.search(code):
        _finalise()
    flushed = _goes_well(_flush, sys.__stdout__) and flushed
    return status or (0 if flushed else 120)


def _wait_for_threads() -> None:
    if threading.active_count() > 1:
        vars(threading)["_shutdown"]()


def _finalise() -> None:
    """Let go of the program's objects as the interpreter does: their finalisers may still print.

    The module goes first. What only its functions keep alive is a cycle, whose finalisers the
    collector calls while every name is still bound. Names of a module that something else holds are
    unbound one by one, private ones first.
    """
    module = weakref.ref(sys.modules["__main__"])
    for name in ("__main__", "solution"):
        sys.modules.pop(name, None)
    gc.collect()
    if (kept := module()) is None:
        return
    names = vars(kept)
    for private in (True, False):
        for name in list(names):
            if (name[:1] == "_" and name[1:2] != "_") is private and name != "__builtins__":
                names[name] = None
    gc.collect()


def _flush(stream: Any) -> None:
    if stream is not None and not getattr(stream, "closed", False):
        stream.flush()


def _goes_well(step: Callable[..., Any], *args: Any) -> bool:
    """Do a step of the end, whose exception is printed."""
    try:
        step(*args)
    except BaseException as error:
        _print_error(error)
        return False
    return True


def _report(error: BaseException) -> None:
    if sys.excepthook is sys.__excepthook__:
        _print_error(error)
    else:
        _goes_well(sys.excepthook, type(error), error, error.__traceback__)


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 255
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
