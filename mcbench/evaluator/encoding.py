"""How arguments and returned values travel. Standard library only: the zygote loads this file.

Tagged JSON, rebuilt as exact types: None, bool, str, ints of up to 63 bits and finite floats stand
for themselves, everything else is a list whose first item is a tag. Besides the builtin types there
are the values of the library that functions commonly take and return, told by their exact type;
anything else that is derived from a builtin type is reduced to it. Nothing is ever unpickled.
`mcbench.evaluator.link` adds what only two processes that can ask each other need; between these,
further values of the library and numpy's arrays are made anew.

What was encoded may be forged: to decode it can take any time (keys of one hash) and much memory.
Where that counts, the caller does it in a process with limits, or asks for `plain` values only.
"""

import importlib
import json
import re
import sys
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter, contains
from typing import Any

MAX_DEPTH = 400
_INT_BOUND = 1 << 63

_TAG_OF: dict[Any, str] = {list: "l", tuple: "t", set: "s", frozenset: "z"}
_TYPE_OF = {tag: kind for kind, tag in _TAG_OF.items()}

Pack = Callable[[Any], Any]
# The JSON of a value that has no encoding here, made with the function that encodes its parts; None
# for a value that it has no encoding for, either.
Other = Callable[[Any, Pack], Any]
# The value of such JSON: its tag, its parts as they came, the function that decodes them.
OtherOf = Callable[[str, list[Any], Pack], Any]
ItemsOf = Callable[[Any], list[Any] | None]


def dumps(value: object, other: Other | None = None, items_of: ItemsOf | None = None) -> bytes:
    """Encode a value.

    ``other`` encodes what has no encoding here; it is asked before a value is reduced to a builtin
    type that its class is derived from. ``items_of`` gives the items of what may go as a list.

    Raises:
        TypeError: a type that has no encoding, or nesting deeper than MAX_DEPTH (also cycles).
    """
    try:
        return json.dumps(_Packer(other, items_of).pack(value, 0)).encode()
    except RecursionError:  # what holds values of the library takes more frames a level
        raise TypeError("a deeply nested value") from None


def loads(data: bytes, other_of: OtherOf | None = None, plain: bool = False) -> object:
    """Decode what `dumps` wrote; the data is untrusted. ``other_of`` decodes what ``other`` made.

    With ``plain`` there are scalars, lists, tuples and dicts whose keys stand for themselves, which
    take time and memory in proportion to the bytes whatever these are.

    Raises:
        ValueError: anything that `dumps` cannot have written, or that is not plain.
    """
    try:
        return _Unpacker(other_of, plain).unpack(json.loads(data))
    except (TypeError, AttributeError, LookupError, RecursionError, ArithmeticError) as error:
        raise ValueError(f"not an encoded value ({error})") from None


class _Packer:
    def __init__(self, other: Other | None, items_of: ItemsOf | None) -> None:
        self.other = other
        self.items_of = items_of

    def pack(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise TypeError(f"a value nested more than {MAX_DEPTH} levels deep")
        kind = type(value)
        if kind in _SCALAR_TYPES:
            return _pack_scalar(value)
        if kind not in _TAG_OF and kind is not dict:
            packed = self._pack_special(value, kind, depth)
            if packed is not None:
                return packed
        if isinstance(value, _SCALAR_BASES):
            return _pack_scalar(value)
        for base, tag in _TAG_OF.items():
            if isinstance(value, base):
                items = list(base.__iter__(value))
                if _all_plain(items):
                    return [tag, *items]
                return [tag, *(self.pack(item, depth + 1) for item in items)]
        if isinstance(value, dict):
            pairs = dict.items(value)
            return ["d", *([self.pack(part, depth + 1) for part in pair] for pair in pairs)]
        return self._pack_converted(value, kind, depth)

    def _pack_converted(self, value: Any, kind: type, depth: int) -> Any:
        if isinstance(value, bytearray):
            return ["b", bytes(value).hex()]
        if kind.__module__ == "numpy" and hasattr(value, "tolist"):
            plain = value.tolist()
            if type(plain).__module__ != "numpy":
                return self.pack(plain, depth + 1)
        items = None if self.items_of is None else self.items_of(value)
        if items is not None:
            return self.pack(items, depth)
        raise TypeError(f"a value of type {kind.__name__}")

    def _pack_special(self, value: Any, kind: type, depth: int) -> Any:
        """A value of the library, or one for ``other``; None if it is neither."""
        if kind in _LIBRARY:
            name, parts_of, *_ = _LIBRARY[kind]
            parts = parts_of(value)
            if parts is not None:
                return ["v", name, *(self.pack(part, depth + 1) for part in parts)]
        if self.other is not None:
            return self.other(value, lambda part: self.pack(part, depth + 1))
        return None


_SCALAR_BASES = (int, float, complex, str, bytes)
_SCALAR_TYPES = {type(None), bool, *_SCALAR_BASES}


def _all_plain(items: list[Any]) -> bool:
    """Whether all stand for themselves; long lists of numbers or words are common."""
    kinds = set(map(type, items))
    if items and kinds <= {int}:
        return min(items) > -_INT_BOUND and max(items) < _INT_BOUND
    return kinds <= {str, bool, type(None)}


def _pack_scalar(value: Any) -> object:
    # Subclasses are reduced to their builtin base through the base's own methods, so that an
    # overridden __iter__ or __eq__ plays no part.
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        number = int.__int__(value)
        return number if -_INT_BOUND < number < _INT_BOUND else ["i", hex(number)]
    if isinstance(value, float):
        real = float.__float__(value)
        finite = real - real == 0
        return real if finite else ["f", float.__repr__(real)]
    if isinstance(value, complex):
        return ["c", complex.__repr__(complex.__complex__(value))]
    if isinstance(value, str):
        return str.__str__(value)
    return ["b", bytes(value).hex()]


class _Unpacker:
    def __init__(self, other_of: OtherOf | None, plain: bool) -> None:
        self.other_of = other_of
        self.plain = plain

    def unpack(self, item: Any) -> Any:
        if not isinstance(item, list):
            if isinstance(item, dict):
                raise ValueError("a bare JSON object is no encoded value")
            return item
        tag, rest = item[0], item[1:]
        if self.plain and tag in _NEED_HASHES:
            raise ValueError(f"not plain: {tag!r}")
        if tag in _TYPE_OF:
            return _TYPE_OF[tag](self.unpacked(rest))
        if tag == "d":
            if self.plain and not all(_is_plain_key(key) for key, _ in rest):
                raise ValueError("not plain: keys whose hashes may have been chosen")
            return {self.unpack(key): self.unpack(value) for key, value in rest}
        if tag in _SCALARS:
            (text,) = rest
            return _SCALARS[tag](text)
        if tag == "v":
            return self.special(*rest)
        if self.other_of is not None:
            return self.other_of(tag, rest, self.unpack)
        raise ValueError(f"unknown tag {tag!r}")

    def special(self, name: str, *packed: Any) -> Any:
        forms, build = _BUILD[name]
        parts = self.unpacked(list(packed))
        if len(parts) != len(forms) or not all(map(contains, forms, map(type, parts))):
            raise ValueError(f"not the parts of a {name}")
        return build(*parts)

    def unpacked(self, parts: list[Any]) -> list[Any]:
        if _NOT_PLAIN.isdisjoint(map(type, parts)):
            return parts  # long lists of numbers or words are common
        return [self.unpack(part) if type(part) in _NOT_PLAIN else part for part in parts]


_NOT_PLAIN = {list, dict}
_NEED_HASHES = ("s", "z", "v")  # or are values of the library


def _is_plain_key(key: Any) -> bool:
    """Text, whose hash is random, or a number of which few have the same."""
    return not isinstance(key, list) and not (isinstance(key, int) and abs(key) >= _INT_BOUND)


def _not_finite(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError("a finite float stands for itself")
    return float(text)


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    "i": lambda text: int(text, 16),
    "f": _not_finite,
    "c": complex,
    "b": bytes.fromhex,
}


# Values of the library ---------------------------------------------------------------------------


def _clock_parts(value: Any) -> tuple[Any, ...] | None:
    return (value.isoformat(), value.fold) if type(value.tzinfo) in (_NONE, timezone) else None


def _from_clock(kind: Any) -> Callable[..., Any]:
    return lambda text, fold: kind.fromisoformat(text).replace(fold=fold)


_FACTORIES = {kind.__name__: kind for kind in (list, int, set, dict, str, float, tuple, bool)}


def _defaultdict_parts(value: Any) -> tuple[Any, ...] | None:
    name = getattr(value.default_factory, "__name__", None)
    if value.default_factory is not (_FACTORIES.get(name) if name else None):
        return None
    return name, dict(value)


def _defaultdict(factory: str | None, items: dict[Any, Any]) -> Any:
    return defaultdict(None if factory is None else _FACTORIES[factory], items)


_NONE = type(None)
# Type: name, its parts (None where it has no encoding), their types, what makes it of these.
_LIBRARY: dict[type, tuple[str, Callable[[Any], Any], tuple[Any, ...], Callable[..., Any]]] = {
    Fraction: ("Fraction", attrgetter("numerator", "denominator"), (int, int), Fraction),
    Decimal: ("Decimal", lambda v: (str(v),), (str,), Decimal),
    date: ("date", lambda v: (v.isoformat(),), (str,), date.fromisoformat),
    datetime: ("datetime", _clock_parts, (str, int), _from_clock(datetime)),
    time: ("time", _clock_parts, (str, int), _from_clock(time)),
    timedelta: ("timedelta", attrgetter("days", "seconds", "microseconds"), (int,) * 3, timedelta),
    timezone: ("timezone", lambda v: (v.utcoffset(None),), (timedelta,), timezone),
    deque: ("deque", lambda v: (list(v), v.maxlen), (list, (int, _NONE)), deque),
    OrderedDict: ("OrderedDict", lambda v: (list(v.items()),), (list,), OrderedDict),
    Counter: ("Counter", lambda v: (dict(v),), (dict,), Counter),
    defaultdict: ("defaultdict", _defaultdict_parts, ((str, _NONE), dict), _defaultdict),
    bytearray: ("bytearray", lambda v: (bytes(v),), (bytes,), bytearray),
}
_BUILD = {
    name: ([form if isinstance(form, tuple) else (form,) for form in forms], build)
    for name, _, forms, build in _LIBRARY.values()
}

# Between two processes that ask each other -------------------------------------------------------

# Type: name, its parts, what makes it of these.
_FURTHER: dict[type, tuple[str, Callable[[Any], tuple[Any, ...]], Callable[..., Any]]] = {
    range: ("range", attrgetter("start", "stop", "step"), range),
    slice: ("slice", attrgetter("start", "stop", "step"), slice),
    type({}.keys()): ("keys", lambda v: (list(v),), lambda keys: dict.fromkeys(keys).keys()),
    type({}.values()): ("values", lambda v: (list(v),), lambda v: dict(enumerate(v)).values()),
    type({}.items()): ("items", lambda v: (dict(v),), lambda items: items.items()),
    types.MappingProxyType: ("mappingproxy", lambda v: (dict(v),), types.MappingProxyType),
    defaultdict: ("defaultdict", lambda v: (v.default_factory, dict(v)), defaultdict),
    array: ("array", lambda v: (v.typecode, list(v)), array),
    re.Pattern: ("pattern", attrgetter("pattern", "flags"), re.compile),
}
for _clock in (datetime, time):  # whose time zone is no fixed one
    _FURTHER[_clock] = (
        _clock.__name__,
        lambda value: (value.replace(tzinfo=None), value.tzinfo),
        lambda naive, zone: naive.replace(tzinfo=zone),
    )
_MAKE = {name: make for name, _, make in _FURTHER.values()}
# Made of a text that says all about them; of modules that are loaded when they are needed.
_BY_TEXT = (
    *("pathlib.PosixPath", "pathlib.PurePosixPath", "uuid.UUID", "zoneinfo.ZoneInfo"),
    *("ipaddress.IPv4Address", "ipaddress.IPv6Address"),
    *("ipaddress.IPv4Network", "ipaddress.IPv6Network"),
)
_DTYPE = re.compile(r"[<>|=][biufcSUMm][0-9]+(\[[A-Za-z0-9]+\])?")


def pack_value(value: Any, pack: Pack) -> Any:
    """The JSON of such a value, made with the function that encodes its parts; None for others."""
    if type(value) in _FURTHER:
        name, parts, _ = _FURTHER[type(value)]
        return ["made", name, *map(pack, parts(value))]
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if name in _BY_TEXT and type(value) is _by_text(name):
        return ["text", name, str(value)]
    return pack_array(value)


def unpack_value(tag: Any, parts: list[Any], unpack: Pack) -> Any:
    """The value of such JSON, of which nothing is trusted; None where the tag is another.

    Raises:
        ValueError: nothing that `pack_value` can have packed, or numpy is not installed.
    """
    if tag == "made":
        try:
            return _MAKE[parts[0]](*map(unpack, parts[1:]))
        except Exception as error:
            raise ValueError(f"no parts of a {parts[0]}: {error}") from None
    if tag == "text":
        return _by_text(parts[0])(parts[1])
    return _unpack_array(*parts) if tag == "array" else None


def _by_text(name: Any) -> Any:
    if name not in _BY_TEXT:
        raise ValueError("no value that has a text")
    module, _, kind = name.partition(".")
    return getattr(importlib.import_module(module), kind)


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
