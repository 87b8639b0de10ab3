"""How arguments and returned values travel. Standard library only: the zygote loads this file.

Tagged JSON, rebuilt as exact builtin types: None, bool, str, ints of up to 63 bits and finite
floats stand for themselves, everything else is a list whose first item is a tag. Nothing is ever
unpickled. Between two processes that can ask each other, what has no encoding travels as a handle.
"""

import json
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 400
_INT_BOUND = 1 << 63

_TAG_OF: dict[Any, str] = {list: "l", tuple: "t", set: "s", frozenset: "z"}
_TYPE_OF = {tag: kind for kind, tag in _TAG_OF.items()}


Handle = Callable[[Any], Any]


def dumps(value: object, handle_of: Handle | None = None) -> bytes:
    """Encode a value; ``handle_of`` gives the JSON that stands for a value without an encoding.

    Raises:
        TypeError: a type that has no encoding, or nesting deeper than MAX_DEPTH (also cycles).
    """
    return json.dumps(_pack(value, 0, handle_of)).encode()


def loads(data: bytes, object_of: Handle | None = None) -> object:
    """Decode what `dumps` wrote; the data is untrusted. ``object_of`` takes a handle's JSON.

    Raises:
        ValueError: anything that `dumps` cannot have written.
    """
    try:
        return _unpack(json.loads(data), object_of)
    except (TypeError, AttributeError, IndexError, KeyError, RecursionError) as error:
        raise ValueError(f"not an encoded value ({error})") from None


def _pack(value: Any, depth: int, handle_of: Handle | None) -> object:
    if depth > MAX_DEPTH:
        raise TypeError(f"a value nested more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, (int, float, complex, str, bytes, bytearray)):
        return _pack_scalar(value)
    for kind, tag in _TAG_OF.items():
        if isinstance(value, kind):
            items = list(kind.__iter__(value))
            if _all_plain(items):
                return [tag, *items]
            return [tag, *(_pack(item, depth + 1, handle_of) for item in items)]
    if isinstance(value, dict):
        pairs = dict.items(value)
        packed = ([_pack(part, depth + 1, handle_of) for part in pair] for pair in pairs)
        return ["d", *packed]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        plain = value.tolist()
        if type(plain).__module__ != "numpy":
            return _pack(plain, depth + 1, handle_of)
    if handle_of is not None:
        return ["h", handle_of(value)]
    raise TypeError(f"a value of type {type(value).__name__}")


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


def _unpack(item: Any, object_of: Handle | None) -> Any:
    if not isinstance(item, list):
        if isinstance(item, dict):
            raise ValueError("a bare JSON object is no encoded value")
        return item
    tag, rest = item[0], item[1:]
    if tag in _TYPE_OF:
        return _TYPE_OF[tag](_unpack(part, object_of) for part in rest)
    if tag == "d":
        return {_unpack(key, object_of): _unpack(value, object_of) for key, value in rest}
    (text,) = rest
    if tag == "h" and object_of is not None:
        return object_of(text)
    if tag == "i":
        return int(text, 16)
    if tag == "f" and text in ("nan", "inf", "-inf"):
        return float(text)
    if tag == "c":
        return complex(text)
    if tag == "b":
        return bytes.fromhex(text)
    raise ValueError(f"unknown tag {tag!r}")
