"""Assert-style tests: the test in one process, the submission in another, a socket between them.

Standard library only: the zygote loads this file. The test's process holds the expected values and
gives the verdict; the submission's process answers calls and sees arguments only. Neither unpickles
anything: values travel as `encoding` packs them, everything else stays where it is and travels as a
handle, on which the other side may call, read and set attributes, index and iterate (`remote`).

A list, dict, set, deque or bytearray given as an argument and changed by the call is changed on the
test's side too, as it would be in one process.
"""

import builtins
import collections
import contextlib
import functools
import itertools
import json
import operator
import os
import socket
import sys
import traceback
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from mcbench.evaluator import encoding, remote, unit_tests

MAX_MESSAGE = 64 << 20
LINK, RESULT = 3, 4  # descriptors
_MAX_MESSAGE_TEXT, _MAX_RESULT_TEXT = 300, 1000
_DAMAGED = "the answer is damaged"
ENDED_EARLY = "the submission ended before it answered"


def _awaited(awaitable: Any) -> Any:
    """What it comes to, in an event loop of this process."""
    import asyncio  # large and rarely needed
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await awaitable

    global _loop
    if asyncio._get_running_loop() is None:
        _loop = _loop or asyncio.new_event_loop()
        return _loop.run_until_complete(wait())
    # Asked in the middle of a coroutine of our own, whose loop has this thread.
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, wait()).result()


_loop: Any = None

_BUILTINS = (
    *(iter, next, len, str, repr, bool, float, int, hash, abs, isinstance, issubclass, aiter),
    *(reversed, getattr, setattr),
)
_OPERATORS = (
    *("getitem", "setitem", "delitem", "contains", "eq", "lt", "le", "gt", "ge", "add", "sub"),
    *("mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul", "neg", "index"),
)
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, args, named: function(*args, **named),
    "await": _awaited,
    "anext": lambda iterator: _awaited(anext(iterator)),
    **{function.__name__: function for function in _BUILTINS},
    **{name: getattr(operator, f"__{name}__") for name in _OPERATORS},
}

_CLOSED = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.GeneratorType),
    *(types.CoroutineType, types.FrameType, types.CodeType, types.ModuleType, types.TracebackType),
    *(functools.partial, functools.partialmethod, type),
)
_NUMBERS = (bool, int, float, complex)  # on the left of an operator
_OF_NAMED_TUPLES = ("_asdict", "_fields", "_make", "_replace")


def _harmless(operation: Any, operands: list[Any]) -> bool:
    """Whether the submission may do this with an object that the test gave it.

    It may use it, but not look behind it, and change data in it, but no methods.
    """
    if operation not in _OPERATIONS or not operands:
        return False
    target, *rest = operands
    if operation in ("setitem", "delitem"):
        return not isinstance(target, _CLOSED)
    if operation not in ("getattr", "setattr"):
        return True
    name = rest[0] if rest else None
    if not isinstance(name, str) or isinstance(target, _CLOSED):
        return False
    if operation == "setattr":
        return name[:1] != "_" and not callable(getattr(target, name, None))
    return name[:1] != "_" or (isinstance(target, tuple) and name in _OF_NAMED_TUPLES)


class SubmissionEndedError(Exception):
    """The other process is gone, or talks nonsense."""


class Link:
    """One end: sends values, keeps the objects that the other end has handles on."""

    def __init__(self, permits: Callable[[Any, list[Any]], bool], trusting: bool) -> None:
        self.permits = permits  # what the other end may do with the objects it has handles on
        self.trusting = trusting  # whether the other end's objects may compare themselves with ours
        self.socket = socket.socket(fileno=LINK)
        self.reader = self.socket.makefile("rb")
        self.objects: dict[int, Any] = {}  # ours that the other end has handles on
        self.number_of: dict[int, int] = {}  # by id; none is reused, since we keep the objects
        self.numbers = itertools.count()
        self.remotes: Any = weakref.WeakValueDictionary()
        self.mirrors: dict[int, type] = {}
        self.questions = 0
        self.looked_up = False  # whether it has shown us a value of its own, or lacks a name
        self.broken: SubmissionEndedError | None = None
        self.ends: list[Exception] = []  # that C code may swallow, until seen to be handled
        self.left: dict[types.FrameType, int] = {}  # where frames have ended since these

    def send(self, *message: Any) -> None:
        """One message: its length in 8 bytes, then the encoded list."""
        if self.broken:
            raise self.broken
        data = encoding.dumps(list(message), lambda *part: remote.pack(self, *part))
        try:
            self.socket.sendall(len(data).to_bytes(8, "big") + data)
        except OSError:
            raise self._break(ENDED_EARLY) from None

    def receive(self) -> list[Any]:
        """The next message.

        Raises:
            SubmissionEndedError: there is none, or it is no message.
        """
        size = int.from_bytes(self._read(8), "big")
        if size > MAX_MESSAGE:
            raise self._break("the answer is too large")
        try:
            data = self._read(size)
            message = encoding.loads(data, lambda *part: remote.unpack(self, *part))
        except (ValueError, LookupError, TypeError) as error:
            raise self._break(f"{_DAMAGED} ({error})") from None
        if not isinstance(message, list) or not message:
            raise self._break(_DAMAGED)
        return message

    def _break(self, reason: str) -> "SubmissionEndedError":
        """For good: a test that catches the exception does not bring the submission back."""
        self.broken = SubmissionEndedError(reason)
        return self.broken

    def _read(self, size: int) -> bytes:
        data = b""
        with contextlib.suppress(OSError):
            data = self.reader.read(size)
        if len(data) < size:
            raise self._break(ENDED_EARLY)
        return data

    def number(self, value: Any) -> int:
        """The same one whenever the same object is sent."""
        number = self.number_of.get(id(value))
        if number is None:
            number = self.number_of[id(value)] = next(self.numbers)
            self.objects[number] = value
        return number

    def ask(self, operation: str, *operands: Any) -> Any:
        """Have the other end do something, and answer its questions until it is done."""
        self.questions += 1
        self.insist_on_handling()
        self.send("do", operation, *operands)
        while True:
            match self.receive():
                case ["do", *question]:
                    self.answer(question)
                case ["done", value, changed]:
                    self._restore(operands, changed)
                    return value
                case ["raised", Exception() as error, changed]:
                    self._restore(operands, changed)
                    vars(error)["from_submission"] = True
                    if isinstance(error, _ENDS) and not _is_own_end(operation, error):
                        self.ends.append(error)
                        sys.setprofile(self._note_left)
                    try:
                        raise error
                    except Exception:  # so that it has a traceback: see _was_handled
                        raise
                case _:
                    raise self._break(_DAMAGED)

    def look_up(self, name: str) -> Any:
        """A global name of the submission's.

        Raises:
            KeyError: it has none such.
        """
        asked = self.questions
        try:
            value = self.ask("global", name)
        except KeyError:
            self.looked_up = True
            raise KeyError(name) from None
        self.questions = asked
        self.looked_up |= type(value) is not remote.Remote  # a class of Python's own is used here
        return value

    def insist_on_handling(self) -> None:
        """What the submission raised has met a handler, and not ended the test's iteration.

        Raises:
            SubmissionEndedError: `map`, `zip` or a loop took it for the end of the data.
        """
        if not self.ends:
            return
        sys.setprofile(None)
        swallowed = [error for error in self.ends if not self._was_handled(error)]
        self.ends, self.left = [], {}
        if swallowed:
            name = type(swallowed[0]).__name__
            raise self._break(f"the submission raised {name}, and no handler of the test saw it")

    def _note_left(self, frame: types.FrameType, event: str, _: object) -> None:
        """A profile function: where a frame ends, also by an exception."""
        if event == "return":
            self.left[frame] = frame.f_lasti

    def _was_handled(self, error: BaseException) -> bool:
        """Whether Python code has handled it: the outermost frame that it reached went on.

        Where C code clears an exception, it has ended that frame before: where it was raised (after
        a `with`), or where one that the handlers are not for is raised again. Much of the library
        (`heapq.merge`, `collections.abc`) is Python code that takes it for the end of the data, as
        `async for` does; a task keeps what its coroutine raised.
        """
        trace = error.__traceback__
        if trace is None:  # who handled it has removed that
            return True
        import dis  # rarely needed, and loaded it would make every fork dearer

        frame, code = trace.tb_frame, trace.tb_frame.f_code
        if isinstance(error, StopAsyncIteration) or code.co_flags & _COROUTINE:
            return not isinstance(error, StopAsyncIteration)
        end = self.left.get(frame, -2)
        again = {(dis.opmap["RERAISE"], level) for level in range(3)}
        again.add((dis.opmap["RAISE_VARARGS"], 0))  # a bare `raise`
        through = end == trace.tb_lasti or (*code.co_code[end : end + 2],) in again
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        return not through and (module not in sys.stdlib_module_names or module in _HANDLERS)

    def answer(self, question: list[Any]) -> None:
        """Do what the other end asked for."""
        operation, *operands = question
        changed: dict[Any, Any] = {}
        try:
            if not self.permits(operation, operands) or not self._concerns_us(operands):
                raise AttributeError(f"{operation!r} is not permitted")
            changeable = self._changeable(operands)
            before = {place: self._form(value) for place, value in changeable.items()}
            try:
                outcome = "done", _OPERATIONS[operation](*operands)
            except SubmissionEndedError:
                raise
            except Exception as error:
                outcome = "raised", error
                self.ends = [end for end in self.ends if end is not error]
            changed = {p: v for p, v in changeable.items() if self._form(v) != before[p]}
            self.send(*outcome, changed)
        except SubmissionEndedError:
            raise
        except Exception as error:  # such as an answer that is nested too deeply
            self.send("raised", error, {})

    def _concerns_us(self, operands: list[Any]) -> bool:
        """Whether an object of ours is asked.

        The methods of a value of the submission's making, such as `str.format`, would look at our
        objects for it.
        """
        given = [id(operand) in self.number_of for operand in operands]
        return self.trusting or given[0] or (type(operands[0]) in _NUMBERS and any(given))

    def _form(self, value: Any) -> bytes:
        """To tell whether a value was changed."""
        data: bytes = encoding.dumps(
            value, lambda item, pack: remote.pack_array(item) or ["id", id(item)]
        )
        return data

    def _changeable(self, operands: Any) -> dict[Any, Any]:
        """The arguments that a call can change, by position or name."""
        if len(operands) != 3 or not isinstance(operands[1], list):
            return {}
        args: list[Any] = [*enumerate(operands[1])]
        args += operands[2].items() if isinstance(operands[2], dict) else ()
        return {place: v for place, v in args if isinstance(v, _CHANGEABLE) or self._is_array(v)}

    def _is_array(self, value: Any) -> bool:
        return type(value).__name__ == "ndarray" and remote.pack_array(value) is not None

    def _restore(self, operands: tuple[Any, ...], changed: Any) -> None:
        """Change the arguments of a call as the other end has changed its copies."""
        targets = self._changeable(operands)
        for place, value in changed.items() if isinstance(changed, dict) else ():
            target: Any = targets.get(place)
            if self._is_array(target) and self._is_array(value):
                target[...] = value
            elif any(isinstance(target, k) and isinstance(value, k) for k in _CHANGEABLE):
                _refill(target, value)


# What C code takes for the end of an iteration, or for something that is not there.
_ENDS = (StopIteration, StopAsyncIteration, LookupError, AttributeError)
_COROUTINE = 0x80  # inspect.CO_COROUTINE
# The modules of the library that handle an exception for the test.
_HANDLERS = ("asyncio", "concurrent", "contextlib", "doctest", "threading", "unittest")


def _is_own_end(operation: str, error: Exception) -> bool:
    """Whether it ends data of the submission's own, which may be as long as it says."""
    if isinstance(error, (LookupError, AttributeError)):
        return operation not in ("call", "await")
    return operation in ("next", "anext")


def _refill(target: Any, value: Any) -> None:
    target.clear()
    (target.update if isinstance(target, (dict, set)) else target.extend)(value)


# What a call can change besides objects and arrays.
_CHANGEABLE = (list, dict, set, collections.deque, bytearray)


def serve(names: dict[str, Any]) -> None:
    """In the submission's process: answer until the test's process is gone."""
    _OPERATIONS["global"] = names.__getitem__
    link = Link(lambda operation, _: operation in _OPERATIONS, trusting=True)
    try:
        while True:
            _, *question = link.receive()
            link.answer(question)
    except (SubmissionEndedError, ConnectionError):
        return


def run_test(test: dict[str, Any]) -> NoReturn:
    """In the test's process: run it, leave the verdict in the result file, end."""
    link = Link(_harmless, trusting=False)
    try:
        _run(test, link)
        link.insist_on_handling()
        verdict, message = "AC", ""
        if not link.questions and not link.looked_up:
            verdict, message = "IE", "the test ended without a question to the submission"
    except BaseException as error:
        verdict = _verdict_on(error, link)
        message = f"{type(error).__name__}: {remote.text_of(error)[:_MAX_MESSAGE_TEXT]}"
        message = message.rstrip(": ") + _place(error, test)
        if verdict == "IE":
            message = f"the test itself failed: {message}"
    if link.broken:
        verdict, message = "RE", str(link.broken)
    os.pwrite(RESULT, json.dumps([verdict, message[:_MAX_RESULT_TEXT]]).encode(), 0)
    os._exit(0)


def _verdict_on(error: BaseException, link: Link) -> str:
    """Who is at fault: the submission (WA or RE), or a test that cannot be run or asked nothing."""
    if {"from_submission", "_remote"} & vars(error).keys():
        return "RE"
    if isinstance(error, (ModuleNotFoundError, unit_tests.UnsupportedError)):
        return "IE"
    if not (link.questions or link.looked_up):
        return "IE"
    return "WA" if isinstance(error, AssertionError) else "RE"


def _run(test: dict[str, Any], link: Link) -> None:
    import ast  # large, and only the test's own process needs it

    setup, code = (ast.parse(test[part].removeprefix("\ufeff")) for part in ("setup", "code"))
    entry_point = test["entry_point"]
    unit_tests.prepare(test["setup"] + test["code"])
    nodes = [*ast.walk(setup), *ast.walk(code)]
    attributes = (node.value for node in nodes if isinstance(node, ast.Attribute))
    modules = {value.id for value in attributes if isinstance(value, ast.Name)}
    names: dict[str, Any] = {"__name__": "__main__"}
    names["__builtins__"] = _Further(link, names, modules & sys.stdlib_module_names - {entry_point})
    sys.modules[_SOLUTION] = _Solution(link)
    try:
        found = entry_point and link.look_up(entry_point)
    except KeyError:
        raise link._break(f"the submission does not define {entry_point!r}") from None
    exec(compile(setup, "setup", "exec", dont_inherit=True), names)
    if entry_point:
        names[entry_point] = names["candidate"] = found
        _keep_apart(code, entry_point)
    ended = None
    try:
        exec(compile(code, "test", "exec", dont_inherit=True), names)
    except SystemExit as end:  # sys.exit(unittest.main())
        ended = end
    defined = [node.name for node in code.body if type(node).__name__ in _DEFINITIONS]
    called, inner = map(set, (map(_name_of, _calls(code)), map(_name_of, _calls(code, True))))
    unit_tests.run({name: names[name] for name in defined if name in names}, called, inner)
    if ended is not None and ended.code:
        raise ended


class _Further(dict[str, Any]):
    """What a test's names are looked up in that are none of its own: Python's, modules of the
    library that it uses without an import, the submission's.
    """

    def __init__(self, link: Link, names: dict[str, Any], modules: set[str]) -> None:
        super().__init__(vars(builtins))
        self.link, self.names, self.modules = link, names, modules

    def __missing__(self, name: str) -> Any:
        known = __import__(name) if name in self.modules else self.link.look_up(name)
        return self.names.setdefault(name, known)


_SOLUTION = "solution"  # the module that tests import the submission as


class _Solution(types.ModuleType):
    def __init__(self, link: Link) -> None:
        super().__init__(_SOLUTION)
        vars(self).update(_link=link, __all__=())  # any name is found without an import

    def __getattr__(self, name: str) -> Any:
        if name[:2] != "__":
            with contextlib.suppress(KeyError):
                return self._link.look_up(name)
        raise AttributeError(f"module {_SOLUTION!r} has no attribute {name!r}")


_FUNCTIONS = ("FunctionDef", "AsyncFunctionDef")
_DEFINITIONS = (*_FUNCTIONS, "ClassDef")


def _keep_apart(code: Any, entry_point: str) -> None:
    """A function of the test's that is named as the submission's, as in ``check(check)``.

    What the test calls outside of functions is its own, what it gives to that the submission's.
    """
    own = [n for n in code.body if type(n).__name__ in _FUNCTIONS and n.name == entry_point]
    for function in own:
        function.name = f"{entry_point} of the test"
    for called in _calls(code) if own else ():
        if getattr(called, "id", "") == entry_point:
            called.id = own[0].name


def _calls(code: Any, within: bool = False) -> list[Any]:
    """What a test calls outside of functions and classes, or within them."""
    import ast

    statements = (n for n in code.body if (type(n).__name__ in _DEFINITIONS) is within)
    nodes = (node for statement in statements for node in ast.walk(statement))
    return [node.func for node in nodes if isinstance(node, ast.Call)]


def _name_of(called: Any) -> str:
    return str(getattr(called, "id", getattr(called, "attr", "")))


def _place(error: BaseException, test: dict[str, Any]) -> str:
    """The line of the submission, or else of the test, where an exception was raised."""
    if line := vars(error).get("_line"):
        return f" (line {line} of the submission)"
    lines = {"test": test["code"].splitlines(), "setup": test["setup"].splitlines()}
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, number) for frame, number in frames]
    found = [(name, number) for name, number in places if number <= len(lines.get(name, ()))]
    if not found:
        return ""
    name, number = found[-1]
    return f" ({lines[name][number - 1].strip()[:_MAX_MESSAGE_TEXT]})"
