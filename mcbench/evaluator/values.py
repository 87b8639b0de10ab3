"""Values of an assert-style test that are made anew where `encoding` has no form for them: of their
parts, of a text that says all about them, or of an array's bytes.

Standard library only: the zygote loads this file. numpy may not be installed.
"""

import array
import collections
import datetime
import importlib
import re
import sys
import types
from collections.abc import Callable
from typing import Any

_MADE: dict[type, tuple[str, Callable[[Any], tuple[Any, ...]], Callable[..., Any]]] = {
    range: ("range", lambda v: (v.start, v.stop, v.step), range),
    slice: ("slice", lambda v: (v.start, v.stop, v.step), slice),
    type({}.keys()): ("keys", lambda v: (list(v),), lambda keys: dict.fromkeys(keys).keys()),
    type({}.values()): ("values", lambda v: (list(v),), lambda v: dict(enumerate(v)).values()),
    type({}.items()): ("items", lambda v: (dict(v),), lambda items: items.items()),
    types.MappingProxyType: ("mappingproxy", lambda v: (dict(v),), types.MappingProxyType),
    collections.defaultdict: (
        *("defaultdict", lambda v: (v.default_factory, dict(v)), collections.defaultdict),
    ),
    array.array: ("array", lambda v: (v.typecode, list(v)), array.array),
    re.Pattern: ("pattern", lambda v: (v.pattern, v.flags), re.compile),
}
for _clock in (datetime.datetime, datetime.time):  # whose time zone is no fixed one
    _MADE[_clock] = (
        _clock.__name__,
        lambda value: (value.replace(tzinfo=None), value.tzinfo),
        lambda naive, zone: naive.replace(tzinfo=zone),
    )
_MAKE = {name: make for name, _, make in _MADE.values()}
# Of modules that are loaded when they are needed.
_BY_TEXT = (
    *("pathlib.PosixPath", "pathlib.PurePosixPath", "uuid.UUID", "zoneinfo.ZoneInfo"),
    *("ipaddress.IPv4Address", "ipaddress.IPv6Address"),
    *("ipaddress.IPv4Network", "ipaddress.IPv6Network"),
)
_DTYPE = re.compile(r"[<>|=][biufcSUMm][0-9]+(\[[A-Za-z0-9]+\])?")


def pack_value(value: Any, pack: Callable[[Any], Any]) -> Any:
    """The JSON of such a value, made with the function that encodes its parts; None for others."""
    if type(value) in _MADE:
        name, parts, _ = _MADE[type(value)]
        return ["made", name, *map(pack, parts(value))]
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if name in _BY_TEXT and type(value) is _by_text(name):
        return ["text", name, str(value)]
    return pack_array(value)


def unpack_value(tag: Any, parts: list[Any], unpack: Callable[[Any], Any]) -> Any:
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
