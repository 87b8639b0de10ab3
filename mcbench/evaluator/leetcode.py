"""What LeetCode gives to a Python submission, and how it reads what one returns.

Standard library only: the zygote loads this file. The imports are those of LeetCode's header, which
LiveCodeBench publishes with its evaluator (``import_string`` in its ``testing_util.py``), and a few
more that people expect.
"""

import datetime
import io
import time
from collections.abc import Iterable, Mapping, MappingView, Set
from types import ModuleType
from typing import Any

RECURSION_LIMIT = 50_000  # LiveCodeBench's

# builtins last, so that open and pow stay themselves.
_STAR_IMPORTS = [
    *("typing", "string", "re", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json", "datetime"),
    "builtins",
]
_MODULES = [*_STAR_IMPORTS, "decimal", "fractions", "array"]
_NAMES = {"enum": "Enum, IntEnum", "decimal": "Decimal", "fractions": "Fraction"}
STREAMS = ("stdin", "stdout", "stderr")  # of sys; to be bound when the test's are open


def namespace() -> dict[str, Any]:
    """The names a call-based submission may use without importing them."""
    names: dict[str, Any] = {}
    for module in _STAR_IMPORTS:
        exec(f"from {module} import *", names)
    for module in _MODULES:
        names[module] = __import__(module)
    for module, some in _NAMES.items():
        exec(f"from {module} import {some}", names)
    names["datetime"] = _ModuleAndClass(datetime, datetime.datetime)
    names["time"] = _ModuleAndClass(time, datetime.time)
    for own in (ListNode, TreeNode, Node, dataclass, field):
        names[own.__name__] = own
    for name in ("__builtins__", *STREAMS):
        names.pop(name, None)
    return names


class _ModuleAndClass(ModuleType):
    """A module that is also the class of the same name in datetime.

    LeetCode's header imports both, the module last; programs are written for either.
    """

    def __init__(self, module: ModuleType, kind: type) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(vars(module))
        self._kind = kind

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._kind(*args, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._kind)

    def __or__(self, other: Any) -> Any:  # in annotations
        return self._kind | other

    def __ror__(self, other: Any) -> Any:
        return other | self._kind


class ListNode:
    """A node of a singly linked list."""

    def __init__(self, val: Any = 0, next: Any = None) -> None:
        self.val = val
        self.next = next


class TreeNode:
    """A node of a binary tree."""

    def __init__(self, val: Any = 0, left: Any = None, right: Any = None) -> None:
        self.val = val
        self.left = left
        self.right = right


class Node:
    """LeetCode's third kind of node; its parts differ from problem to problem."""

    def __init__(self, val: Any = 0, *parts: Any, **named: Any) -> None:
        self.val = val
        for name, part in zip(("left", "right", "next"), parts, strict=False):
            setattr(self, name, part)
        self.__dict__.update(named)


def dataclass(*args: Any, **named: Any) -> Any:
    """`dataclasses.dataclass`, imported on use: the module would cost every test a little."""
    import dataclasses

    return dataclasses.dataclass(*args, **named)


def field(**named: Any) -> Any:
    """`dataclasses.field`, likewise."""
    import dataclasses

    return dataclasses.field(**named)


def items_of(value: object) -> list[Any] | None:
    """The items of a returned value that is read as a list; None if it is none.

    LeetCode iterates over what is returned where a list is expected: a generator, map, zip, range,
    deque or the values of a dict are as good as a list. Sets and mappings have no order or lose
    their values, text is no list.
    """
    iterable = isinstance(value, Iterable) and not isinstance(value, (type, io.IOBase))
    bare = isinstance(value, (Set, Mapping)) and not isinstance(value, MappingView)
    return list(value) if iterable and not bare else None  # type: ignore[call-overload]
