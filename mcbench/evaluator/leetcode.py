"""What LeetCode gives to a Python submission, and how it reads what one returns.

Standard library only: the zygote loads this file. The imports are those of LeetCode's header, which
LiveCodeBench publishes with its evaluator (``import_string`` in its ``testing_util.py``), and a few
more that people expect.
"""

import datetime
import io
import re
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
_NAMES = (
    *("from enum import Enum, IntEnum", "from decimal import Decimal"),
    "from fractions import Fraction",
)


def namespace() -> dict[str, Any]:
    """The names a call-based submission may use without importing them."""
    names: dict[str, Any] = {}
    header = [f"from {module} import *" for module in _STAR_IMPORTS]
    exec("\n".join([*header, f"import {', '.join(_MODULES)}", *_NAMES]), names)
    names["datetime"] = _ModuleAndClass(datetime, datetime.datetime)
    names["time"] = _ModuleAndClass(time, datetime.time)
    for own in (ListNode, TreeNode, Node, dataclass, field):
        names[own.__name__] = own
    for name in ("__builtins__", "stdin", "stdout", "stderr"):  # bound when the test's are open
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
    deque or the values of a dict are as good as a list. A linked list or tree goes as LeetCode
    writes it. Sets and mappings have no order or lose their values, text is no list.
    """
    if type(value).__name__ in _KINDS:
        return _KINDS[type(value).__name__][1](value)
    iterable = isinstance(value, Iterable) and not isinstance(value, (type, io.IOBase))
    bare = isinstance(value, (Set, Mapping)) and not isinstance(value, MappingView)
    return list(value) if iterable and not bare else None  # type: ignore[call-overload]


# Linked lists and trees, which tests give and expect as lists ------------------------------------


def with_nodes(function: Any, args: list[Any], names: dict[str, Any]) -> list[Any]:
    """The arguments, lists made nodes where the function's signature wants such.

    The classes are those of ``names``: a program may bring its own.
    """
    code, hints = getattr(function, "__code__", None), _hints(function)
    if code is None or not any(kind in str(hints) for kind in _KINDS):
        return args
    start = 1 if getattr(function, "__self__", None) is not None else 0
    wanted = [str(hints.get(name, "")) for name in code.co_varnames[start : code.co_argcount]]
    wanted += [""] * (len(args) - len(wanted))
    return [_made(value, hint, names) for value, hint in zip(args, wanted, strict=False)]


def _hints(function: Any) -> dict[str, Any]:
    """The types of parameters and of what is returned: annotations, or a docstring's as LeetCode's
    header for Python 2 has them.
    """
    found = _DOCUMENTED.findall(str(getattr(function, "__doc__", None) or ""))
    documented = {name or "return": hint for name, hint in found}
    return documented | (getattr(function, "__annotations__", None) or {})


_DOCUMENTED = re.compile(r"^\s*:(?:type (\w+)|rtype): *(.+)$", re.MULTILINE)


def without_node(function: Any, value: Any) -> Any:
    """An empty list where a signature promises nodes and there are none."""
    promised = str(_hints(function).get("return", ""))
    return [] if value is None and any(kind in promised for kind in _KINDS) else value


def _made(value: Any, hint: str, names: dict[str, Any]) -> Any:
    kind = next((kind for kind in _KINDS if kind in hint), None)
    if kind is None or not isinstance(value, list):
        return value
    make, own = _KINDS[kind][0], names[kind]
    if "List[" in hint or "list[" in hint:
        return [make(item, own) if isinstance(item, list) else item for item in value]
    return make(value, own)


def _linked(values: list[Any], kind: Any) -> Any:
    head = None
    for value in reversed(values):
        node = kind(value)
        node.next, head = head, node
    return head


def _tree(values: list[Any], kind: Any) -> Any:
    """A tree by levels, None where a child is missing and nothing below it."""
    if not values or values[0] is None:
        return None
    rest = iter(values[1:])
    root = kind(values[0])
    level = [root]
    for node in level:  # grows
        for side in ("left", "right"):
            value = next(rest, None)
            if value is not None:
                setattr(node, side, kind(value))
                level.append(getattr(node, side))
    return root


_MOST = 1_000_000  # nodes; beyond, a list is a circle


def _values(node: Any) -> list[Any]:
    values: list[Any] = []
    while node is not None and len(values) < _MOST:
        values.append(node.val)
        node = node.next
    return values


def _levels(root: Any) -> list[Any]:
    values: list[Any] = []
    level = [root]
    for node in level:  # grows
        values.append(None if node is None else node.val)
        if node is not None and len(values) < _MOST:
            level += [node.left, node.right]
    while values and values[-1] is None:
        values.pop()
    return values


_KINDS: dict[str, Any] = {"ListNode": (_linked, _values), "TreeNode": (_tree, _levels)}
