"""Stand-ins for what stays in the other process of an assert-style test, and how they travel.

Standard library only: the zygote loads this file. `encoding` sends values, `link` the questions; an
object without an encoding travels as a number by which its owner knows it, and is a `Remote` at the
other end. Exceptions and their classes, named tuples and coroutines get stand-ins of a kind that
`except`, `==` and `await` take; numpy's arrays are values where numpy is installed.
"""

import builtins
import collections
import functools
import importlib
import re
import sys
import types
from collections.abc import Callable
from typing import Any

MAX_TEXT = 1 << 16  # of an exception


class Remote:
    """An object of the other process. What is asked of it is done there."""

    __slots__ = ("__weakref__", "_link", "_number")

    def __init__(self, link: Any, number: int) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return _ask(self, "call", list(args), named)

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__" and _trusting(self):
            raise AttributeError(f"{name!r} is not permitted")
        return _ask(self, "getattr", name)

    def __contains__(self, item: Any) -> bool:
        if not _may_judge(self, item):  # looked for here: the submission could lie
            return any(item == own for own in _ask(self, "iter"))
        return _ask(self, "contains", item) is True

    def __bool__(self) -> bool:
        return _ask(self, "bool") is True

    async def __anext__(self) -> Any:
        return _ask(self, "anext")

    def __await__(self) -> Any:
        return iter(_coroutine(self._link, self).__await__())

    def __enter__(self) -> Any:
        return self.__getattr__("__enter__")()

    def __exit__(self, *exception: object) -> Any:
        return self.__getattr__("__exit__")(*exception[:2], None)

    async def __aenter__(self) -> Any:
        return await self.__getattr__("__aenter__")()

    async def __aexit__(self, *exception: object) -> Any:
        return await self.__getattr__("__aexit__")(*exception[:2], None)

    def __eq__(self, other: object) -> bool:
        """Two objects of the submission are as equal as it says; no other value equals one."""
        return _may_judge(self, other) and _ask(self, "eq", other) is True

    def __instancecheck__(self, instance: object) -> bool:
        theirs = type(instance) is Remote or _remote_of(instance) is not None
        return theirs and self._link.ask("isinstance", instance, self) is True

    def __subclasscheck__(self, kind: object) -> bool:
        return type(kind) is Remote and self._link.ask("issubclass", kind, self) is True


def _trusting(remote: Remote) -> bool:
    return bool(object.__getattribute__(remote, "_link").trusting)


def _may_judge(remote: Remote, *values: object) -> bool:
    """Whether the other end may say how its object and these values compare.

    Not the submission with a value of the test's: it could lie.
    """
    return _trusting(remote) or all(type(value) is Remote for value in values)


def _question(name: str, kind: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    def ask(own: Remote, *operands: Any) -> Any:
        answer = _ask(own, name, *operands)
        return answer if kind is None else kind(answer)

    return ask


for _name in ("setattr", "getitem", "setitem", "delitem", "iter", "next", "reversed", "aiter"):
    setattr(Remote, f"__{_name}__", _question(_name))
for _name, _kind in (("str", str), ("repr", str), ("float", float)):
    setattr(Remote, f"__{_name}__", _question(_name, _kind))
for _name in ("int", "index", "len", "hash"):
    setattr(Remote, f"__{_name}__", _question(_name, int))


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def ask(own: Remote, *others: Any) -> Any:
        if not _may_judge(own, *others):
            return NotImplemented
        operands = (*others, own) if swapped else (own, *others)
        return object.__getattribute__(own, "_link").ask(name, *operands)

    return ask


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    setattr(Remote, f"__{_name}__", _operator(_name))
    setattr(Remote, f"__r{_name}__", _operator(_name, swapped=True))
for _name in ("lt", "le", "gt", "ge", "matmul", "neg", "abs"):
    setattr(Remote, f"__{_name}__", _operator(_name))


class NamedTuple(tuple):
    """A named tuple of the other process: its items are here, its names and methods there."""

    _remote: Remote

    def __new__(cls, items: Any, remote: Remote) -> "NamedTuple":
        if type(items) is not tuple:
            raise ValueError("no items of a tuple")
        made = super().__new__(cls, items)
        made._remote = remote
        return made

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return getattr(self._remote, name)


def _remote_of(value: Any) -> Remote | None:
    """The other end's object that a value of ours stands for."""
    if isinstance(value, type):
        found = vars(value).get("_remote_class")
    elif isinstance(value, Exception) or type(value) is NamedTuple:
        found = vars(value).get("_remote")
    else:
        return None
    return found if type(found) is Remote else None


def _of_remote(error: Exception, name: str) -> Any:
    remote = vars(error).get("_remote")
    if remote is None or name[:2] == "__":
        raise AttributeError(name)
    return getattr(remote, name)


def _exception_text(error: Exception) -> str:
    text = vars(error).get("_message")
    return BaseException.__str__(error) if text is None else str(text)


def _exception(link: Any, remote: Remote, kind: Any, args: Any, text: Any, line: Any) -> Exception:
    """An exception of the other end as one of the class that stands for its class here."""
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or type(args) is not tuple:
        raise ValueError("no exception")
    try:
        error = kind(*args)
    except Exception:  # it wants other arguments than it kept
        error = kind.__new__(kind, *args)
    line = line if type(line) is int and 0 < line < 1 << 31 else 0
    vars(error).update(_remote=remote, _message=str(text), _line=line)
    return error


def _generator(link: Any, remote: Remote) -> Any:
    """A generator of our own that goes through one of the other end, and passes on what it gets."""
    ask: Any = remote.__next__
    while True:
        try:
            item = ask()
        except StopIteration as end:
            return end.value
        try:
            sent = yield item
            ask = remote.__next__ if sent is None else functools.partial(remote.send, sent)
        except GeneratorExit:
            remote.close()
            raise
        except Exception as error:
            ask = functools.partial(remote.throw, error)


async def _coroutine(link: Any, remote: Remote) -> Any:
    return link.ask("await", remote)


_NOT_SENT = (type, super, property, classmethod, staticmethod)
_BUILTIN_TYPES = {
    kind.__name__: kind
    for kind in (*vars(builtins).values(), type(None))
    if isinstance(kind, type) and kind not in _NOT_SENT
}
_DTYPE = re.compile(r"[<>|=][biufcSUMm][0-9]+(\[[A-Za-z0-9]+\])?")


def pack_array(value: Any) -> Any:
    """An array or a scalar of numpy as JSON; None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "generic"):
        return None
    scalar = isinstance(value, numpy.generic)
    if not scalar and type(value) is not numpy.ndarray:
        return None
    array = numpy.asarray(value)
    if not _DTYPE.fullmatch(array.dtype.str):
        return None
    return ["array", array.dtype.str, list(array.shape), array.tobytes().hex(), scalar]


def _unpack_array(dtype: Any, shape: Any, data: Any, scalar: Any) -> Any:
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError("no type of an array")
    try:
        import numpy
    except ImportError:
        raise ValueError("numpy is not installed") from None
    array = numpy.frombuffer(bytes.fromhex(data), dtype).reshape(shape).copy()
    return array[()] if scalar is True else array


def _ask(remote: Remote, operation: str, *operands: Any) -> Any:
    link = object.__getattribute__(remote, "_link")
    return link.ask(operation, remote, *operands)


def pack(link: Any, value: Any, pack: Callable[[Any], Any]) -> Any:
    """The JSON of what has no encoding; see `encoding.Other`."""
    remote = value if type(value) is Remote else _remote_of(value)
    if remote is not None:
        return ["own", object.__getattribute__(remote, "_number")]
    for kind, packed in _PACKED:
        if isinstance(value, kind):
            return packed(link, value, pack)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if name in _BY_TEXT and type(value) is _by_text(name):
        return ["text", name, str(value)]
    return pack_array(value) or ["handle", link.number(value)]


# Values that their text says all about, of modules that are loaded when they are needed.
_BY_TEXT = ("pathlib.PosixPath", "pathlib.PurePosixPath", "uuid.UUID")


def _by_text(name: Any) -> Any:
    if name not in _BY_TEXT:
        raise ValueError("no value that has a text")
    module, _, kind = name.partition(".")
    return getattr(importlib.import_module(module), kind)


def _pack_class(link: Any, value: type, pack: Callable[[Any], Any]) -> Any:
    if _BUILTIN_TYPES.get(value.__name__) is value:
        return ["type", value.__name__]
    if issubclass(value, Exception):
        bases = [base for base in value.__bases__ if issubclass(base, Exception)]
        return ["class", link.number(value), value.__name__, *map(pack, bases)]
    return ["handle", link.number(value)]


def _pack_exception(link: Any, value: Exception, pack: Callable[[Any], Any]) -> Any:
    try:
        args = pack(value.args)
    except TypeError:  # nested too deeply
        args = pack(())
    told = text_of(value), _line_of(value)
    return ["exception", link.number(value), pack(type(value)), args, *told]


def _line_of(error: Exception) -> int:
    """The line of the submission that raised it last; 0 where none did."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "main.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _pack_tuple(link: Any, value: Any, pack: Callable[[Any], Any]) -> Any:
    if not hasattr(type(value), "_fields"):
        return None
    return ["names", link.number(value), pack(tuple(tuple.__iter__(value)))]


def _pack_dict(link: Any, value: Any, pack: Callable[[Any], Any]) -> Any:
    if type(value) is not collections.defaultdict:
        return None
    return ["factory", pack(value.default_factory), pack(dict(value))]


def _generator_tag(link: Any) -> str:
    """The test gets a generator, the submission no more than something to iterate over."""
    return "generator" if link.trusting else "handle"


_PACKED: list[tuple[Any, Callable[..., Any]]] = [
    (type, _pack_class),
    (Exception, _pack_exception),
    (tuple, _pack_tuple),
    (dict, _pack_dict),
    ((list, set, frozenset, bytearray), lambda link, value, pack: None),
    (range, lambda link, value, pack: ["range", *map(pack, (value.start, value.stop, value.step))]),
    (types.CoroutineType, lambda link, value, pack: ["coroutine", link.number(value)]),
    (types.GeneratorType, lambda link, value, pack: [_generator_tag(link), link.number(value)]),
]


def unpack(link: Any, tag: Any, parts: list[Any], unpack: Callable[[Any], Any]) -> Any:
    """The value of such JSON; nothing about it is trusted."""
    if tag == "own":
        return link.objects[parts[0]]
    if tag == "type":
        return _BUILTIN_TYPES[parts[0]]
    if tag == "range":
        return range(*map(unpack, parts))
    if tag == "text":
        return _by_text(parts[0])(parts[1])
    if tag == "array":
        return _unpack_array(*parts)
    if tag == "factory":
        factory, items = map(unpack, parts)
        return collections.defaultdict(factory, items)
    number, *parts = parts
    if type(number) is not int:
        raise ValueError("a handle is a number")
    remote = link.remotes.get(number)
    if remote is None:
        remote = link.remotes[number] = Remote(link, number)
    return _STAND_INS[tag](link, remote, *map(unpack, parts))


def _mirror(link: Any, remote: Remote, name: str, *bases: Any) -> type:
    """A class of our own for an exception class of the other end, for `except`."""
    number = object.__getattribute__(remote, "_number")
    if number not in link.mirrors:
        if not all(isinstance(base, type) and issubclass(base, Exception) for base in bases):
            raise ValueError("no bases of an exception class")
        body = {"_remote_class": remote, "__str__": _exception_text, "__getattr__": _of_remote}
        link.mirrors[number] = type(name, tuple(dict.fromkeys(bases)) or (Exception,), body)
    mirror: type = link.mirrors[number]
    return mirror


_STAND_INS: dict[Any, Callable[..., Any]] = {
    "handle": lambda link, remote: remote,
    "class": _mirror,
    "exception": _exception,
    "names": lambda link, remote, items: NamedTuple(items, remote),
    "coroutine": _coroutine,
    "generator": _generator,
}


def text_of(error: BaseException) -> str:
    """What an exception says."""
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:  # a broken __str__
        return ""
