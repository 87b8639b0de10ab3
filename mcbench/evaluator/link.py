"""Assert-style tests: the test in one process, the submission in another, a socket between them.

Standard library only: the zygote loads this file. The test's process holds the expected values and
gives the verdict; the submission's process answers calls and sees arguments only. Neither unpickles
anything: values travel as `encoding` packs them, everything else stays where it is and travels as a
handle, on which the other side may call, read and set attributes, index and iterate.

A list, dict or set given as an argument and changed by the call is changed on the test's side too,
as it would be in one process.
"""

import builtins
import itertools
import json
import operator
import os
import socket
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

MAX_MESSAGE = 64 << 20
LINK, RESULT = 3, 4  # descriptors
_MAX_MESSAGE_TEXT = 300

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, args, named: function(*args, **named),
    "getattr": getattr,
    "setattr": setattr,
    "getitem": lambda value, key: value[key],
    "contains": lambda value, item: item in value,
    "iter": iter,
    "next": next,
    "len": len,
    "str": str,
    "repr": repr,
    "bool": bool,
    "float": float,
    "int": int,
    "hash": hash,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "neg": operator.neg,
    "abs": abs,
    "isinstance": isinstance,
}
# What the submission may do with an object that the test gave it: use it, but not look behind it.
_USES = {"call", "getattr", "getitem", "contains", "iter", "next", "len", "bool", "str", "repr"}
_CLOSED = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.GeneratorType),
    *(types.CoroutineType, types.FrameType, types.CodeType, types.ModuleType, types.TracebackType),
    type,
)


def _harmless(operation: Any, operands: list[Any]) -> bool:
    if operation not in _USES or not operands:
        return False
    if operation == "getattr":
        name = operands[1] if len(operands) == 2 else None
        public = isinstance(name, str) and not name.startswith("_")
        return public and not isinstance(operands[0], _CLOSED)
    return True


class SubmissionEndedError(Exception):
    """The other process is gone, or talks nonsense."""


class Link:
    """One end: sends values, keeps the objects that the other end has handles on."""

    def __init__(self, codec: Any, permits: Callable[[Any, list[Any]], bool]) -> None:
        self.codec = codec
        self.permits = permits  # what the other end may do with the objects it has handles on
        self.socket = socket.socket(fileno=LINK)
        self.objects: dict[int, Any] = {}
        self.numbers = itertools.count()
        self.questions = 0
        self.looked_up = False
        self.broken: SubmissionEndedError | None = None

    def send(self, *message: Any) -> None:
        """One message: its length in 8 bytes, then the encoded list."""
        if self.broken:
            raise self.broken
        data = self.codec.dumps(list(message), self._handle_of)
        try:
            self.socket.sendall(len(data).to_bytes(8, "big") + data)
        except OSError:
            raise self._break("the submission ended before it answered") from None

    def receive(self) -> list[Any]:
        """The next message.

        Raises:
            SubmissionEndedError: there is none, or it is no message.
        """
        size = int.from_bytes(self._read(8), "big")
        if size > MAX_MESSAGE:
            raise self._break("the answer is too large")
        try:
            message = self.codec.loads(self._read(size), self._object_of)
        except (ValueError, LookupError, TypeError) as error:
            raise self._break(f"the answer is damaged ({error})") from None
        if not isinstance(message, list) or not message:
            raise self._break("the answer is damaged")
        return message

    def _break(self, reason: str) -> "SubmissionEndedError":
        """For good: a test that catches the exception does not bring the submission back."""
        self.broken = SubmissionEndedError(reason)
        return self.broken

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except OSError:
                part = b""
            if not part:
                raise self._break("the submission ended before it answered")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _handle_of(self, value: Any) -> list[Any]:
        """[whose object it is, its number]: 1 for the receiver's own, 0 for the sender's."""
        if type(value) is Remote:
            return [1, object.__getattribute__(value, "_number")]
        number = next(self.numbers)
        self.objects[number] = value
        return [0, number]

    def _object_of(self, handle: Any) -> Any:
        own, number = handle
        return self.objects[number] if own else Remote(self, number)

    def ask(self, operation: str, *operands: Any) -> Any:
        """Have the other end do something, and answer its questions until it is done."""
        self.questions += 1
        self.send("do", operation, *operands)
        while True:
            kind, *rest = self.receive()
            if kind == "do":
                self.answer(rest)
            elif kind == "done" and len(rest) == 2:
                _restore(operands, rest[1])
                return rest[0]
            elif kind == "raised" and len(rest) == 2:
                raise _exception(*rest)
            else:
                raise self._break("the answer is damaged")

    def answer(self, question: list[Any]) -> None:
        """Do what the other end asked for."""
        operation, *operands = question
        if not self.permits(operation, operands):
            raise self._break(f"{operation!r} is not permitted")
        try:
            before = _changeable(self.codec, operands)
            value = _OPERATIONS[operation](*operands)
            after = _changeable(self.codec, operands)
            changed = {i: operands[1][i] for i in before if before[i] != after.get(i)}
            self.send("done", value, changed)
        except SubmissionEndedError:
            raise
        except Exception as error:
            self.send("raised", type(error).__name__, _text(error))


class Remote:
    """An object of the other process. What is asked of it is done there."""

    def __init__(self, link: Link, number: int) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return _ask(self, "call", list(args), named)

    def __getattr__(self, name: str) -> Any:
        return _ask(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", name, value)

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "getitem", key)

    def __contains__(self, item: Any) -> bool:
        if type(item) is not Remote:  # looked for here: the submission could lie
            return any(item == own for own in self)
        return _ask(self, "contains", item) is True

    def __iter__(self) -> Any:
        return _ask(self, "iter")

    def __next__(self) -> Any:
        return _ask(self, "next")

    def __len__(self) -> int:
        return int(_ask(self, "len"))

    def __bool__(self) -> bool:
        return _ask(self, "bool") is True

    def __float__(self) -> float:
        return float(_ask(self, "float"))

    def __str__(self) -> str:
        return str(_ask(self, "str"))

    def __repr__(self) -> str:
        return str(_ask(self, "repr"))

    def __int__(self) -> int:
        return int(_ask(self, "int"))

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        _ask(self, "delitem", key)

    def __enter__(self) -> Any:
        return self.__getattr__("__enter__")()

    def __exit__(self, *exception: object) -> None:
        self.__getattr__("__exit__")(None, None, None)

    def __eq__(self, other: object) -> bool:
        """Two objects of the submission are as equal as it says; no other value equals one."""
        return type(other) is Remote and _ask(self, "eq", other) is True

    def __hash__(self) -> int:
        return int(_ask(self, "hash"))

    def __instancecheck__(self, instance: object) -> bool:
        return type(instance) is Remote and _ask(instance, "isinstance", self) is True


def _operator(name: str) -> Callable[..., Any]:
    def ask(own: Remote, *other: Any) -> Any:
        # With a value of the test's the submission must not do anything: it could lie.
        if any(type(operand) is not Remote for operand in other):
            return NotImplemented
        return _ask(own, name, *other)

    return ask


for _name in ("lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Remote, f"__{_name}__", _operator(_name))
for _name in ("and", "or", "xor", "neg", "abs"):
    setattr(Remote, f"__{_name}__", _operator(_name))


def _ask(remote: Remote, operation: str, *operands: Any) -> Any:
    link: Link = object.__getattribute__(remote, "_link")
    return link.ask(operation, remote, *operands)


def _changeable(codec: Any, operands: list[Any]) -> dict[int, bytes]:
    """The encoded form of the arguments that a call can change, by position."""
    if len(operands) != 3 or not isinstance(operands[1], list):
        return {}
    forms = {}
    for position, value in enumerate(operands[1]):
        if isinstance(value, (list, dict, set)):
            forms[position] = codec.dumps(value, lambda item: ["id", id(item)])
    return forms


def _restore(operands: tuple[Any, ...], changed: Any) -> None:
    if not isinstance(changed, dict) or len(operands) != 3:
        return
    for position, value in changed.items():
        target = operands[1][position]
        if isinstance(target, list):
            target[:] = value
        elif isinstance(target, (dict, set)):
            target.clear()
            target.update(value)


def _exception(name: Any, text: Any) -> Exception:
    """What the submission raised, as the builtin exception of that name where there is one."""
    kind = getattr(builtins, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = type(str(name), (Exception,), {})
    try:
        error: Exception = kind(str(text))
    except TypeError:  # one that needs more arguments, such as UnicodeDecodeError
        error = Exception(f"{name}: {text}")
    vars(error)["from_submission"] = True
    return error


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE_TEXT]
    except BaseException:  # a broken __str__
        return ""


def serve(names: dict[str, Any], codec: Any) -> None:
    """In the submission's process: answer until the test's process is gone."""
    link = Link(codec, lambda operation, operands: operation in _OPERATIONS)
    try:
        wanted = link.receive()[0]
        link.send({name: names[name] for name in wanted if name in names})
        while True:
            _, *question = link.receive()
            link.answer(question)
    except (SubmissionEndedError, ConnectionError):
        return


def run_test(test: dict[str, Any], codec: Any) -> NoReturn:
    """In the test's process: run it, leave the verdict in the result file, end."""
    link = Link(codec, _harmless)
    try:
        _run(test, link)
        verdict, message = "AC", ""
        if not link.questions and not link.looked_up:
            verdict, message = "IE", "the test ended without a question to the submission"
    except BaseException as error:
        submission = vars(error).get("from_submission", False)
        wrong = isinstance(error, AssertionError) and not submission
        verdict = "WA" if wrong else "RE"
        message = f"{type(error).__name__}: {_text(error)}".rstrip(": ")
        if wrong:
            message = f"{message} ({_failed_line(error, test['code'])})"
    if link.broken:
        verdict, message = "RE", str(link.broken)
    os.pwrite(RESULT, json.dumps([verdict, message]).encode(), 0)
    os._exit(0)


def _run(test: dict[str, Any], link: Link) -> None:
    setup, code = test["setup"], test["code"]
    entry_point = test["entry_point"]
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    wanted, modules = _names_in(f"{setup}\n{code}")
    # What Python itself has is never asked of the submission.
    names |= {module: __import__(module) for module in modules if module != entry_point}
    wanted -= names.keys() | vars(builtins).keys()
    link.send(sorted(wanted | ({entry_point} if entry_point else set())))
    found = link.receive()[0]
    if not isinstance(found, dict):
        raise link._break("the answer is damaged")
    if entry_point and entry_point not in found:
        raise link._break(f"the submission does not define {entry_point!r}")
    link.looked_up = any(not isinstance(found[name], Remote) for name in wanted & found.keys())
    names |= {name: value for name, value in found.items() if name in wanted}
    exec(compile(setup, "setup", "exec", dont_inherit=True), names)
    if entry_point:
        names[entry_point] = names["candidate"] = found[entry_point]
    exec(compile(code, "test", "exec", dont_inherit=True), names)


def _names_in(source: str) -> tuple[set[str], set[str]]:
    """All names that a program uses, and those of them that are modules of the library."""
    import ast  # large, and only the test's own process needs it

    nodes = list(ast.walk(ast.parse(source)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    dotted = {
        node.value.id
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return names, dotted & sys.stdlib_module_names


def _failed_line(error: BaseException, code: str) -> str:
    line = 0
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "test":
            line = step.tb_lineno
        step = step.tb_next
    lines = code.splitlines()
    text = lines[line - 1].strip() if 0 < line <= len(lines) else "outside of the test"
    return text[:_MAX_MESSAGE_TEXT]
