"""Python programs and tests as text: whether they parse, how much they check."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache
from typing import Any

_MANY = 10  # cases that a loop of assertions counts for


def is_python(code: str) -> bool:
    """Whether it parses as Python 3, and so is no Python 2, C++ or prose."""
    return bool(code.strip()) and parsed(code) is not None


def parsed(code: str) -> ast.Module | None:
    """The syntax tree; None where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an odd escape in somebody's program
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def cases(test: dict[str, Any]) -> int:
    """Inputs that a test tries: one, or as many as it has assertions.

    Those of functions that it calls count, and a loop of them for many.
    """
    if "code" not in test:
        return 1
    tree = parsed(test["code"])
    if tree is None:
        return 1
    called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    helpers = _assertions(test.get("setup", ""))
    return max(1, _count(tree) + sum(n for name, n in helpers.items() if name in called))


@lru_cache(maxsize=256)
def _assertions(setup: str) -> dict[str, int]:
    """Assertions by the function that makes them."""
    tree = parsed(setup)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
    return {function.name: _count(function) for function in functions}


def _count(tree: ast.AST) -> int:
    total = 0
    for node in ast.iter_child_nodes(tree):
        inner = int(isinstance(node, ast.Assert)) + _count(node)
        total += inner * _MANY if isinstance(node, (ast.For, ast.While)) else inner
    return total
