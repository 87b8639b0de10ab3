"""Fields as published data sets encode them, decoded without trusting the data.

Nothing here executes what it reads: a pickle is parsed, not loaded, and whatever unpacks to more
than it may is refused before it fills the memory.
"""

from __future__ import annotations

import ast
import base64
import binascii
import pickletools
import re
import zlib
from itertools import islice
from typing import Any

from mcbench.data.audit import shorten
from mcbench.data.schema import is_date
from mcbench.evaluator.reward import json_value

MB = 1024 * 1024
# How much one row may hold, in MiB of text; what exceeds it is refused, never truncated.
TEST_MB = 32.0  # input and expected output of a test: a longer one is left out
TESTS_MB = 32.0  # the tests of a problem package together, of which the longest are left out
UNPACKED_MB = 256.0  # what a compressed field unpacks to
UNPACKED_VALUES = 1_000_000  # texts, lists, objects and further items in it: each takes far more
ROW_MB = 1024.0  # a line of a JSON-lines file; of a compressed one UNPACKED_MB

# Opcodes of a pickle that holds one str. None of them can name, build or call anything.
_TEXT = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
_BOOKKEEPING = frozenset({"PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP"})
_DEPTH = 100
_LITERAL_MAX = 20_000  # characters; ast.literal_eval is neither fast nor frugal


class Unusable(ValueError):
    """A field that cannot be read. The message is one line that says what is wrong with it.

    ``rule`` is the name under which the funnel counts it.
    """

    def __init__(self, message: str, rule: str = "malformed") -> None:
        super().__init__(message)
        self.rule = rule


def parse_json(text: Any, field: str) -> Any:
    """The data behind a JSON text.

    Raises:
        Unusable: not text, not JSON, or nested deeper than Python reads.
    """
    of_type(str, text, field, "JSON text")
    try:
        return json_value(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(":")[0] or type(error).__name__
        raise Unusable(f"{field} is not JSON ({reason})") from None


def json_or_itself(value: Any) -> Any:
    """The data of a JSON text; any other value as it is."""
    try:
        return json_value(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def object_or_none(value: Any) -> dict[str, Any]:
    """An object, also in a JSON text; an empty one where there is none."""
    data = json_or_itself(value)
    return data if isinstance(data, dict) else {}


def names(value: Any) -> tuple[str, ...]:
    """The names in a list, or in a text such as "['Greedy', 'Sorting']", which nothing evaluates.

    Empty where there are none, or the text is too long to be a list of names.
    """
    if isinstance(value, str) and len(value) <= _LITERAL_MAX:
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return ()
    return tuple(n for n in value if isinstance(n, str)) if isinstance(value, (list, tuple)) else ()


def unpack_pickled_json(text: str, field: str) -> Any:
    """What LiveCodeBench's private tests hold: base64 of zlib of a pickled JSON text.

    Raises:
        Unusable: not of that form; it unpacks to more than :data:`UNPACKED_MB` or
            :data:`UNPACKED_VALUES`; the pickle holds anything but one str (such a pickle is never
            loaded).
    """
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unusable(f"{field} is neither JSON nor base64") from None
    unpacked = pickled_text(inflate(packed, field, UNPACKED_MB), field)
    check_values(unpacked, field)
    return parse_json(unpacked, field)


def check_values(unpacked: str, field: str) -> None:
    """Refuse a JSON text with so many values that they would fill the memory.

    Raises:
        Unusable: it has more than :data:`UNPACKED_VALUES`.
    """
    if next(islice(_VALUES.finditer(unpacked), UNPACKED_VALUES, None), None):
        raise Unusable(f"{field} unpacks to more than {UNPACKED_VALUES:,} values", "oversized")


_VALUES = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{,]', re.DOTALL)


def inflate(packed: bytes, field: str, limit_mb: float) -> bytes:
    """zlib's decompression of at most ``limit_mb``.

    Raises:
        Unusable: not zlib data, cut short, or larger when unpacked.
    """
    limit = int(limit_mb * MB)
    engine = zlib.decompressobj()
    try:
        data = engine.decompress(packed, limit + 1)
    except zlib.error as error:
        raise Unusable(f"{field} is not zlib data ({error})") from None
    if len(data) > limit:
        sizes = f"{len(packed) / MB:.1f} MB to more than {limit_mb:g} MB"
        raise Unusable(f"{field} unpacks from {sizes}", "oversized")
    if not engine.eof:
        raise Unusable(f"{field} is zlib data that ends early")
    return data


def pickled_text(data: bytes, field: str) -> str:
    """The str in a pickle, read off its opcodes; no unpickler runs.

    Raises:
        Unusable: the pickle has any opcode that a pickled str does not need.
    """
    found: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _TEXT:
                found.append(str(argument))
            elif opcode.name not in _BOOKKEEPING:
                told = "where only text is allowed; it was not loaded"
                raise Unusable(f"{field} is a pickle with {opcode.name}, {told}", "hostile")
    except Unusable:
        raise
    except Exception as error:  # pickletools raises many kinds on damaged data
        raise Unusable(f"{field} is no pickle ({shorten(str(error))})") from None
    if len(found) != 1:
        raise Unusable(f"{field} is a pickle of {len(found)} texts, not of one", "hostile")
    return found[0]


_SECONDS = {"ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3}
_MEBIBYTES = {"b": 1 / MB, "byte": 1 / MB, "bytes": 1 / MB, "k": 1 / 1024, "g": 1024.0}


def seconds(value: Any) -> float | None:
    """A time limit in seconds from a number or a text such as "2.0 seconds" or "500 ms"."""
    number, unit = _quantity(value)
    return number and number * _SECONDS.get(unit, 1)


def mebibytes(value: Any) -> float | None:
    """A memory limit in MiB from a number of MiB or a text such as "256.0 megabytes"."""
    number, unit = _quantity(value)
    unit = unit[:1] if unit[:1] in ("k", "g") else unit
    return number and number * _MEBIBYTES.get(unit, 1)


def _quantity(value: Any) -> tuple[float | None, str]:
    """A positive number and the unit that follows it in a text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (float(value) if 0 < value < 1e9 else None), ""
    match = re.match(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([A-Za-z]*)", str(value), re.ASCII)
    if not isinstance(value, str) or not match or not float(match[1]):
        return None, ""
    return float(match[1]), match[2].lower()


def iso_date(value: Any) -> str:
    """The date written YYYY-MM-DD with which ``value`` begins, else nothing."""
    text = str(value or "")[:10]
    return text if is_date(text) else ""


def is_plain(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a value is JSON data nested no deeper than any reader of it can follow.

    A parquet column may hold bytes or times, and JSON text may nest up to Python's own limit, which
    writing it again from deeper in a program would exceed.
    """
    if isinstance(value, (dict, list)):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(is_plain(item, depth - 1) for item in inner)
    return value is None or isinstance(value, (str, int, float))


_KINDS: dict[type, str] = {str: "text", dict: "an object", list: "a list", type(None): "nothing"}


def type_name(value: Any) -> str:
    """What a value is, for people."""
    return _KINDS.get(type(value), type(value).__name__)


def of_type(kind: type, value: Any, field: str, wanted: str = "") -> Any:
    """``value``, which has to be of this kind.

    Raises:
        Unusable: it is not; the message says what was ``wanted`` and what was found.
    """
    if not isinstance(value, kind):
        raise Unusable(f"{field} should be {wanted or _KINDS[kind]}, found {type_name(value)}")
    return value
