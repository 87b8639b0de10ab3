"""Stand-ins for what stays in the other process of an assert-style test, and how they travel.

Standard library only: the zygote loads this file. `encoding` sends values, `link` the questions; an
object without an encoding travels as a number by which its owner knows it, and is a `Remote` at the
other end. Exceptions and their classes, values of classes that are derived from builtin ones, and
coroutines get stand-ins of a kind that `except`, `==` and `await` take; what can be made anew is no
stand-in (`encoding`).
"""

import builtins
import collections
import functools
import math
import operator
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from mcbench.evaluator import encoding

OF_DATACLASSES = ("asdict", "astuple", "fields", "is_dataclass")  # functions that ask an object
MAX_TEXT = 1 << 16  # of an exception
# What functions and classes tell of themselves.
TOLD = ("__name__", "__qualname__", "__doc__", "__module__")
# numpy takes these for addresses in this process.
_ADDRESSES = ("__array_interface__", "__array_struct__")


class UnsupportedError(Exception):
    """The test needs something that is not there; the message names it."""


# What a stand-in's methods ask of the object in the other process, and what does it there. A name
# is that of the method (`__add__`), of the question and of the function that answers it.

ARITHMETIC = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"),
    *("lshift", "rshift"),
)
SWAPPED = (*ARITHMETIC, "divmod")  # binary, also with the object on the right (`__radd__`)
IN_PLACE = (*ARITHMETIC, "matmul")  # also as `__iadd__`
COMPARING = ("lt", "le", "gt", "ge")
OPERATORS = (*SWAPPED, *COMPARING, "matmul", "neg", "pos", "invert", "abs")
# Other methods, and the type that the answer is made; None for any.
QUESTIONS: dict[str, Callable[[Any], Any] | None] = {
    **dict.fromkeys(("setattr", "delattr", "getitem", "setitem", "delitem", "iter", "next")),
    **dict.fromkeys(("reversed", "aiter", "round", "floor", "ceil", "trunc")),
    **{kind.__name__: kind for kind in (str, float, complex, bytes, int)},
    **dict.fromkeys(("repr", "format"), str),
    **dict.fromkeys(("index", "len", "hash"), int),
}
_FUNCTIONS = vars(math) | vars(builtins)
OPERATIONS: dict[str, Callable[..., Any]] = {
    name: vars(operator).get(f"__{name}__") or _FUNCTIONS[name]
    for name in (*OPERATORS, *QUESTIONS, *(f"i{name}" for name in IN_PLACE), "contains", "eq")
}


class Remote:
    """An object of the other process. What is asked of it is done there."""

    __slots__ = ("__weakref__", "_link", "_number")

    def __init__(self, link: Any, number: int) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return _ask(self, "call", list(args), named)

    def __getattr__(self, name: str) -> Any:
        if name in _ADDRESSES or (name[:2] == "__" and _trusting(self) and name not in TOLD):
            raise AttributeError(f"{name!r} is not permitted")
        return _ask(self, "getattr", name)

    __doc__ = property(lambda self: _ask(self, "getattr", "__doc__"))

    def __deepcopy__(self, memo: Any) -> Any:
        return _ask(self, "deepcopy")

    def __mro_entries__(self, bases: Any) -> Any:
        raise UnsupportedError("a class derived from one of the submission's is not available")

    def __contains__(self, item: Any) -> bool:
        if not _may_judge(self, item):  # looked for here: the submission could lie
            return any(item == own for own in _ask(self, "iter"))
        return _ask(self, "contains", item) is True

    def __bool__(self) -> bool:
        return _ask(self, "bool") is True

    async def __anext__(self) -> Any:
        return _ask(self, "anext")

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
        return _is_theirs(instance) and self._link.ask("isinstance", instance, self) is True

    def __subclasscheck__(self, kind: object) -> bool:
        return _is_theirs(kind) and self._link.ask("issubclass", kind, self) is True


def _trusting(remote: Remote) -> bool:
    return bool(object.__getattribute__(remote, "_link").trusting)


def _may_judge(remote: Remote, *values: object) -> bool:
    """Whether the other end may say how its object and these values compare.

    Not the submission with a value of the test's: it could lie.
    """
    return _trusting(remote) or all(map(_is_theirs, values))


def _is_theirs(value: object) -> bool:
    return issubclass(type(value), Remote) or _remote_of(value) is not None


def asked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the library that an object of the other process is asked with there."""

    def ask(subject: Any, *rest: Any, **named: Any) -> Any:
        theirs = issubclass(type(subject), Remote) and not (rest or named)
        return _ask(subject, name) if theirs else function(subject, *rest, **named)

    return ask


def _question(name: str, kind: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    def ask(own: Remote, *operands: Any) -> Any:
        answer = _ask(own, name, *operands)
        return answer if kind is None else kind(answer)

    return ask


for _name, _kind in QUESTIONS.items():
    setattr(Remote, f"__{_name}__", _question(_name, _kind))


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def ask(own: Remote, *others: Any) -> Any:
        operands = (*others, own) if swapped else (own, *others)
        if _may_judge(own, *others):
            return object.__getattribute__(own, "_link").ask(name, *operands)
        if type(own) is not RemoteValue:
            return NotImplemented
        apply = OPERATIONS[name]
        return apply(*(_ask(own, "plain") if each is own else each for each in operands))

    return ask


def _in_place(name: str) -> Callable[..., Any]:
    def ask(own: Remote, other: Any) -> Any:
        result = _ask(own, name, other)
        return result if result is own or _may_judge(own, other) else NotImplemented

    return ask


for _name in OPERATORS:
    setattr(Remote, f"__{_name}__", _operator(_name))
for _name in SWAPPED:
    setattr(Remote, f"__r{_name}__", _operator(_name, swapped=True))
for _name in IN_PLACE:
    setattr(Remote, f"__i{_name}__", _in_place(f"i{_name}"))


class AwaitableRemote(Remote):
    """One that can be awaited."""

    __slots__ = ()

    def __await__(self) -> Any:
        return iter(_coroutine(self._link, self).__await__())


class RemoteValue(Remote):
    """One of a class that is derived from a list, dict or other container that can change: it is
    asked as any object, and equal to what its items are equal to.
    """

    __slots__ = ("_base",)
    __class__ = property(lambda self: object.__getattribute__(self, "_base"))
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if _is_theirs(other):
            return _ask(self, "eq", other) is True
        return bool(_ask(self, "plain") == other)


_CONTAINERS = {kind.__name__: kind for kind in (list, dict, set, collections.deque, bytearray)}


def plain(value: Any) -> Any:
    """The items of such an object as those of the builtin type."""
    base: Any = next(kind for kind in _CONTAINERS.values() if isinstance(value, kind))
    return base(dict.items(value) if base is dict else base.__iter__(value))


def _remote_value(link: Any, remote: Any, base: Any) -> Any:
    if type(remote) is not RemoteValue:
        raise ValueError("another object has this number")
    object.__setattr__(remote, "_base", _CONTAINERS[base])
    return remote


# Values of classes that are derived from one of these are sent with the value of that type.
_IMMUTABLE: tuple[Any, ...] = (int, float, complex, str, bytes, tuple, frozenset)


def _builtin_value(base: Any, value: Any) -> Any:
    """By methods of the builtin type alone, whatever its class has in their place."""
    if base is frozenset:
        return frozenset(frozenset.__iter__(value))
    return base(*base.__getnewargs__(value))


_BINARY = (*COMPARING, *SWAPPED, "eq", "ne", "contains", "matmul")
_BINARY_METHODS = {f"__{name}__" for name in _BINARY} | {f"__r{name}__" for name in _BINARY}
_OVERRIDDEN = _BINARY_METHODS | {
    f"__{name}__"
    for name in (
        *("str", "repr", "format", "len", "iter", "bool", "getitem"),
        *("neg", "abs", "round", "call", "invert"),
    )
}


def _pack_derived(link: Any, value: Any, pack: Callable[[Any], Any]) -> Any:
    """The submission's, and named tuples; of the test's other values the builtin says enough."""
    kind = type(value)
    if not (link.trusting or hasattr(kind, "_fields")):
        return None
    base = next(base for base in _IMMUTABLE if isinstance(value, base))
    names = [*_OVERRIDDEN, *(name for name in dir(base) if name[0] != "_")]
    own = [name for name in names if _overrides(kind, base, name)] if link.trusting else []
    return ["derived", link.number(value), pack(_builtin_value(base, value)), kind.__name__, *own]


def _overrides(kind: Any, base: Any, name: str) -> bool:
    own = getattr(kind, name, None)
    return callable(own) and own != getattr(base, name, None) and own != getattr(object, name, None)


def _derived(link: Any, remote: Remote, value: Any, name: Any, *overridden: Any) -> Any:
    """A value of a class of its own, whose methods are there."""
    base = type(value)
    if base not in _IMMUTABLE or any(n[:1] == "_" and n not in _OVERRIDDEN for n in overridden):
        raise ValueError("no value of a derived class")
    number: int = object.__getattribute__(remote, "_number")
    if number not in link.kept:
        key = base, name, overridden
        if key not in link.mirrors:
            body = {"__getattr__": _of_remote, "__hash__": base.__hash__, "_stands_in": True}
            body |= {name: _overriding(base, name) for name in overridden}
            link.mirrors[key] = type(name, (base,), body)
        made: Any = base.__new__(link.mirrors[key], value)
        made._remote = remote
        link.kept[number] = made
    return link.kept[number]


def _overriding(base: Any, name: str) -> Callable[..., Any]:
    def method(own: Any, *args: Any, **named: Any) -> Any:
        if name in _BINARY_METHODS and not all(map(_is_theirs, args)):
            return getattr(base, name)(own, *args)
        return _ask(own._remote, "getattr", name)(*args, **named)

    return method


def _remote_of(value: Any) -> Remote | None:
    """The other end's object that a value of ours stands for."""
    if isinstance(value, type):
        found = vars(value).get("_remote_class")
    elif isinstance(value, Exception) or "_stands_in" in vars(type(value)):
        found = vars(value).get("_remote")
    else:
        return None
    return found if type(found) is Remote else None


def _of_remote(own: Any, name: str) -> Any:
    remote = vars(own).get("_remote")
    if remote is None or name[:2] == "__":
        raise AttributeError(name)
    return getattr(remote, name)


def _exception_text(error: Exception) -> str:
    text = vars(error).get("_message")
    return BaseException.__str__(error) if text is None else str(text)


def _exception(
    link: Any, remote: Remote, kind: Any, args: Any, text: Any, line: Any, cause: Any, own: Any
) -> Exception:
    """An exception of the other end as one of the class that stands for its class here."""
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or type(args) is not tuple:
        raise ValueError("no exception")
    if type(own) is not dict or not all(type(name) is str for name in own):
        raise ValueError("no attributes of an exception")
    try:
        error = kind(*args)
    except Exception:  # it wants other arguments than it kept
        error = kind.__new__(kind, *args)
    line = line if type(line) is int and 0 < line < 1 << 31 else 0
    error.__cause__ = cause if isinstance(cause, Exception) else None
    vars(error).update(own)
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
} | {"Ellipsis": ..., "NotImplemented": NotImplemented}


def _ask(remote: Remote, operation: str, *operands: Any) -> Any:
    link = object.__getattribute__(remote, "_link")
    return link.ask(operation, remote, *operands)


def pack(link: Any, value: Any, pack: Callable[[Any], Any]) -> Any:
    """The JSON of what has no encoding; see `encoding.Other`."""
    remote = value if issubclass(type(value), Remote) else _remote_of(value)
    if remote is not None:
        return ["own", object.__getattribute__(remote, "_number")]
    made = encoding.pack_value(value, pack)
    if made is not None:
        return made
    for kind, packed in _PACKED:
        if isinstance(value, kind):
            return packed(link, value, pack)
    kind = "awaitable" if hasattr(type(value), "__await__") else "handle"
    return [kind, link.number(value)]


def _pack_class(link: Any, value: type, pack: Callable[[Any], Any]) -> Any:
    if _BUILTIN_TYPES.get(value.__name__) is value:
        return ["type", value.__name__]
    if issubclass(value, Exception):
        bases = [base for base in value.__bases__ if issubclass(base, Exception)]
        return ["class", link.number(value), value.__name__, value.__module__, *map(pack, bases)]
    return ["handle", link.number(value)]


def _pack_exception(link: Any, value: Exception, pack: Callable[[Any], Any]) -> Any:
    try:
        args, own = pack(value.args), pack(vars(value))
    except TypeError:  # nested too deeply
        args, own = pack(()), pack({})
    cause = pack(value.__cause__ if isinstance(value.__cause__, Exception) else None)
    told = text_of(value), _line_of(value), cause, own
    return ["exception", link.number(value), pack(type(value)), args, *told]


def _line_of(error: Exception) -> int:
    """The line of the submission that raised it last; 0 where none did."""
    places = traceback.walk_tb(error.__traceback__)
    lines = [number for frame, number in places if frame.f_code.co_filename == "main.py"]
    return lines[-1] if lines else 0


def _pack_container(link: Any, value: Any, pack: Callable[[Any], Any]) -> Any:
    if not link.trusting or type(value) in _CONTAINERS.values():
        return None
    base = next(name for name, kind in _CONTAINERS.items() if isinstance(value, kind))
    return ["value", link.number(value), base]


_PACKED: list[tuple[Any, Callable[..., Any]]] = [
    (type, _pack_class),
    (Exception, _pack_exception),
    (_IMMUTABLE, _pack_derived),
    (tuple(_CONTAINERS.values()), _pack_container),
    ((type(...), type(NotImplemented)), lambda link, value, pack: ["type", repr(value)]),
    (types.CoroutineType, lambda link, value, pack: ["coroutine", link.number(value)]),
    (  # of which the test gets a generator, the submission something to iterate over
        types.GeneratorType,
        lambda link, value, _: ["generator" if link.trusting else "handle", link.number(value)],
    ),
]


def unpack(link: Any, tag: Any, parts: list[Any], unpack: Callable[[Any], Any]) -> Any:
    """The value of such JSON; nothing about it is trusted."""
    if tag == "own":
        return link.objects[parts[0]]
    if tag == "type":
        return _BUILTIN_TYPES[parts[0]]
    made = encoding.unpack_value(tag, parts, unpack)
    if made is not None:
        return made
    number, *parts = parts
    if type(number) is not int:
        raise ValueError("a handle is a number")
    remote = link.remotes.get(number)
    if remote is None:
        remote = link.remotes[number] = _REMOTES.get(tag, Remote)(link, number)
    return _STAND_INS[tag](link, remote, *map(unpack, parts))


def _mirror(link: Any, remote: Remote, name: str, module: Any, *bases: Any) -> type:
    """A class for an exception class of the other end, for `except`: the library's, where it is of
    a module that is loaded here, or one of our own.
    """
    top = str(module).partition(".")[0]
    if top in sys.stdlib_module_names and top not in _RUNNERS:
        known = vars(sys.modules.get(module, builtins)).get(name)
        if isinstance(known, type) and issubclass(known, Exception):
            return known
    number = object.__getattribute__(remote, "_number")
    if number not in link.mirrors:
        if not all(isinstance(base, type) and issubclass(base, Exception) for base in bases):
            raise ValueError("no bases of an exception class")
        body = {"_remote_class": remote, "__str__": _exception_text, "__getattr__": _of_remote}
        link.mirrors[number] = type(name, tuple(dict.fromkeys(bases)) or (Exception,), body)
    mirror: type = link.mirrors[number]
    return mirror


_RUNNERS = ("unittest", "doctest", "bdb")  # whose exceptions would end a test as if it were well

_REMOTES: dict[Any, Any] = {"awaitable": AwaitableRemote, "value": RemoteValue}
_STAND_INS: dict[Any, Callable[..., Any]] = {
    "handle": lambda link, remote: remote,
    "class": _mirror,
    "exception": _exception,
    "awaitable": lambda link, remote: remote,
    "value": _remote_value,
    "derived": _derived,
    "coroutine": _coroutine,
    "generator": _generator,
}


def text_of(error: BaseException) -> str:
    """What an exception says."""
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:  # a broken __str__
        return ""
