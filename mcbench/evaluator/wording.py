"""Values and texts of any making, as a message shows them. Standard library only."""

import reprlib
from typing import Any
from unicodedata import normalize


class _ShortRepr(reprlib.Repr):
    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, (dict, set, frozenset)) and len(x) > _MOST_SORTED:
            return f"<a {type(x).__name__} of {len(x)} items>"
        return super().repr1(x, level)

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 1000 else f"<an integer of {x.bit_length()} bits>"


_MOST_SORTED = 100  # what has no order is shown in one
_REPR = _ShortRepr()
_REPR.maxlist = _REPR.maxtuple = _REPR.maxset = _REPR.maxfrozenset = _REPR.maxdict = 20
_REPR.maxstring = _REPR.maxother = 60


def short(value: object, limit: int = 60) -> str:
    """A value for a message, whatever its size and depth."""
    text = _REPR.repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


def told_apart(expected: Any, actual: Any) -> str:
    """Expected and actual value for people, so that they do not look alike."""
    shown = short(expected), short(actual)
    if normalize("NFKC", shown[0]) != normalize("NFKC", shown[1]):
        return f"expected {shown[0]}, got {shown[1]}"
    if not isinstance(expected, str) or not isinstance(actual, str):
        return f"expected {shown[0]}, got a {type(actual).__name__} that differs beyond that"
    pairs = enumerate(zip(expected, actual, strict=False))
    start = next((i for i, (e, a) in pairs if e != a), min(len(expected), len(actual)))
    parts = (ascii(text[start : start + 20]) for text in (expected, actual))
    return "from character {} on: expected {}, got {}".format(start + 1, *parts)


MAX_MESSAGE = 1000


def printable(text: str) -> str:
    """Text that any terminal, log or page can take: what is not to be seen stands as an escape.

    That is control and format characters, lone surrogates and odd white space; what is long is cut.
    """
    text = text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
