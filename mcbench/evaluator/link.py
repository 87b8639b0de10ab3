"""Assert-style tests: the test in one process, the submission in another, a socket between them.

Standard library only: the zygote loads this file. The test's process holds the expected values and
gives the verdict; the submission's process answers calls and sees arguments only. Neither unpickles
anything: values travel as `encoding` packs them, everything else stays where it is and travels as a
handle, on which the other side may call, read and set attributes, index and iterate (`remote`).

A list, dict, set, deque or bytearray given as an argument and changed by the call is changed on the
test's side too, as it would be in one process.
"""

import collections
import contextlib
import copy
import functools
import os
import socket
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from mcbench.evaluator import encoding, remote, unit_tests

MAX_MESSAGE = 64 << 20
LINK, RESULT = 3, 4  # descriptors
PRINTED = {"stdout": 5, "stderr": 6}  # of what the submission prints
_DAMAGED = "the answer is damaged"
ENDED_EARLY = "the submission ended before it answered"
UNASKED = "unasked"  # the verdict on a test that failed before it asked the submission anything


def _awaited(awaitable: Any) -> Any:
    """What it comes to, in an event loop of this process."""
    import asyncio  # large and rarely needed
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await awaitable

    global _loop
    if asyncio._get_running_loop() is None:
        _loop = _loop or asyncio.new_event_loop()
        return _loop.run_until_complete(wait())
    # Asked in the middle of a coroutine of our own, whose loop has this thread.
    context = contextvars.copy_context()

    def take_part() -> Any:
        with _taking_part():
            return context.run(asyncio.run, wait())

    with ThreadPoolExecutor(1) as other:
        return other.submit(take_part).result()


_loop: Any = None


def _of_dataclasses(name: str, value: Any) -> Any:
    import dataclasses  # large: loaded, it would make every fork dearer

    return getattr(dataclasses, name)(value)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, args, named: function(*args, **named),
    "await": _awaited,
    "anext": lambda iterator: _awaited(anext(iterator)),
    "type": lambda value: type(value),
    **{name: functools.partial(_of_dataclasses, name) for name in remote.OF_DATACLASSES},
    **{f.__name__: f for f in (bool, getattr, isinstance, issubclass, copy.deepcopy, remote.plain)},
    **remote.OPERATIONS,
}

_CLOSED = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.GeneratorType),
    *(types.CoroutineType, types.FrameType, types.CodeType, types.ModuleType, types.TracebackType),
    *(functools.partial, functools.partialmethod, type),
)
_NUMBERS = (bool, int, float, complex)  # on the left of an operator
_OF_NAMED_TUPLES = ("_asdict", "_fields", "_make", "_replace")


def harmless(operation: Any, operands: list[Any]) -> bool:
    """Whether the submission may do this with an object that the test gave it.

    It may use it, but not look behind it, and change data in it, but no methods.
    """
    if operation not in _OPERATIONS or not operands:
        return False
    target, *rest = operands
    if operation in ("setitem", "delitem"):
        return not isinstance(target, _CLOSED)
    if operation not in ("getattr", "setattr", "delattr"):
        return True
    name = rest[0] if rest else None
    if operation == "getattr" and name in remote.TOLD:
        return True
    if not isinstance(name, str) or isinstance(target, _CLOSED):
        return False
    if operation != "getattr":
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
        self.remotes: Any = weakref.WeakValueDictionary()
        self.kept: dict[int, Any] = {}  # stand-ins that cannot be referred to weakly
        self.mirrors: dict[Any, type] = {}
        self.turn = threading.Lock()  # of the threads that ask
        self.streams = {name: getattr(sys, name) for name in PRINTED}
        self.questions = 0
        self.looked_up = False  # whether it has shown us a value of its own, or lacks a name
        self.broken: SubmissionEndedError | None = None
        self.ends: list[Exception] = []  # that C code may swallow, until seen to be handled
        self.left: dict[types.FrameType, int] = {}  # where frames have ended since these

    def send(self, *message: Any) -> None:
        """One message: a line with the encoded list."""
        if self.broken:
            raise self.broken
        data = encoding.dumps(list(message), lambda *part: remote.pack(self, *part))
        try:
            self.socket.sendall(data + b"\n")
        except OSError:
            raise self.break_off(ENDED_EARLY) from None

    def receive(self) -> list[Any]:
        """The next message.

        Raises:
            SubmissionEndedError: there is none, or it is no message.
        """
        data = b""
        with contextlib.suppress(OSError):
            data = self.reader.readline(MAX_MESSAGE)
        if len(data) == MAX_MESSAGE:
            raise self.break_off("the answer is too large")
        if not data.endswith(b"\n"):
            raise self.break_off(ENDED_EARLY)
        try:
            message = encoding.loads(data, lambda *part: remote.unpack(self, *part))
        except (ValueError, LookupError, TypeError) as error:
            raise self.break_off(f"{_DAMAGED} ({error})") from None
        if not isinstance(message, list) or not message:
            raise self.break_off(_DAMAGED)
        return message

    def break_off(self, reason: str) -> "SubmissionEndedError":
        """For good: a test that catches the exception does not bring the submission back."""
        self.broken = SubmissionEndedError(reason)
        return self.broken

    def number(self, value: Any) -> int:
        """The same one whenever the same object is sent."""
        number = self.number_of.setdefault(id(value), len(self.number_of))
        self.objects[number] = value
        return number

    def ask(self, operation: str, *operands: Any) -> Any:
        """Have the other end do something, and answer its questions until it is done.

        Threads take turns; what is asked while one answers is part of its turn.
        """
        if threading.get_ident() in _asking:
            return self._ask(operation, *operands)
        with self.turn, _taking_part():
            return self._ask(operation, *operands)

    def _ask(self, operation: str, *operands: Any) -> Any:
        self.questions += operation != "global"
        printed = {}
        if not self.trusting:
            unit_tests.insist_on_originals()
            self.insist_on_handling()
            replaced = [name for name in PRINTED if getattr(sys, name) is not self.streams[name]]
            printed = {name: os.fstat(PRINTED[name]).st_size for name in replaced}
        self.send("do", operation, *operands)
        while True:
            match self.receive():
                case ["do", *question]:
                    self.answer(question)
                case ["done", value, changed]:
                    self._restore(operands, changed, printed)
                    return value
                case ["raised", Exception() as error, changed]:
                    self._restore(operands, changed, printed)
                    vars(error)["from_submission"] = True
                    if isinstance(error, _ENDS) and not _is_own_end(operation, error):
                        self.ends.append(error)
                        sys.setprofile(self._note_left)
                    try:
                        raise error
                    except Exception:  # so that it has a traceback: see _was_handled
                        raise
                case _:
                    raise self.break_off(_DAMAGED)

    def look_up(self, name: str) -> Any:
        """A global name of the submission's.

        Raises:
            KeyError: it has none such.
        """
        try:
            value = self.ask("global", name)
        except KeyError:
            self.looked_up = True
            raise KeyError(name) from None
        # A class of Python's own is used here.
        self.looked_up |= not issubclass(type(value), remote.Remote)
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
            raise self.break_off(f"the submission raised {name}, and no handler of the test saw it")

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
            if self.trusting:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()  # the test may look at it
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
        return encoding.dumps(value, lambda item, _: encoding.pack_array(item) or ["id", id(item)])

    def _changeable(self, operands: Any) -> dict[Any, Any]:
        """The arguments that a call can change, by position or name."""
        if len(operands) != 3 or not isinstance(operands[1], list):
            return {}
        args: list[Any] = [*enumerate(operands[1])]
        args += operands[2].items() if isinstance(operands[2], dict) else ()
        some = ((p, v) for p, v in args if isinstance(v, _CHANGEABLE) or self._is_array(v))
        return {p: v for p, v in some if not self._stays(v)}

    def _stays(self, value: Any) -> bool:
        """Whether it is known at both ends, and does not travel."""
        return id(value) in self.number_of or issubclass(type(value), remote.Remote)

    def _is_array(self, value: Any) -> bool:
        return type(value).__name__ == "ndarray" and encoding.pack_array(value) is not None

    def _restore(self, operands: tuple[Any, ...], changed: Any, printed: dict[str, int]) -> None:
        """Change the arguments of a call as the other end has changed its copies, and print what
        it has printed since, to where the test wants that.
        """
        for name, start in printed.items():
            text = os.pread(PRINTED[name], MAX_MESSAGE, start).decode("utf-8", "replace")
            getattr(sys, name).write(text)
        targets = self._changeable(operands)
        for place, value in changed.items() if isinstance(changed, dict) else ():
            target: Any = targets.get(place)
            if self._is_array(target) and self._is_array(value):
                target[...] = value
            elif any(isinstance(target, k) and isinstance(value, k) for k in _CHANGEABLE):
                _refill(target, value)


_asking: set[int] = set()  # the threads that take part in the turn


@contextlib.contextmanager
def _taking_part() -> Iterator[None]:
    _asking.add(threading.get_ident())
    try:
        yield
    finally:
        _asking.discard(threading.get_ident())


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
    # A module may have any name (PEP 562).
    _OPERATIONS["setglobal"], _OPERATIONS["delglobal"] = names.__setitem__, names.__delitem__
    _OPERATIONS["global"] = lambda name: (
        names[name] if name in names else names["__getattr__"](name)
    )
    link = Link(lambda operation, _: operation in _OPERATIONS, trusting=True)
    try:
        while True:
            _, *question = link.receive()
            link.answer(question)
    except (SubmissionEndedError, ConnectionError):
        return
