"""Python programs and tests as text: whether they parse, how much they check."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from typing import Any

from mcbench.data.schema import Problem
from mcbench.data.words import hash_of

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


def missing_module(code: str) -> str:
    """A module that a program cannot do without and that is not installed here; empty where none.

    The sandboxes have what this environment has. An import that the program tries may fail.
    """
    tree = parsed(code)
    nodes = list(ast.walk(tree)) if tree else []
    tried = {inner for node in nodes if isinstance(node, ast.Try) for inner in ast.walk(node)}
    for node in nodes:
        if node in tried:
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if not _is_installed(name.partition(".")[0]):
                return name.partition(".")[0]
    return ""


@cache
def _is_installed(name: str) -> bool:
    if name == "__main__" or name in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a module of this process that nothing was found by
        return True


@cache
def installed(folders: tuple[str, ...]) -> list[str]:
    """The names of the distributions in these folders."""
    return sorted(
        {str(found.name) for found in importlib.metadata.distributions(path=list(folders))}
    )


def cases(test: dict[str, Any]) -> int:
    """Inputs that a test tries: one, or as many as it has assertions.

    Those of functions that it calls count, and a loop of them for many.
    """
    return max(1, sum(map(_count, _asserting(test)))) if "code" in test else 1


def _asserting(test: dict[str, Any]) -> list[ast.AST]:
    """A test of assertions and the functions of its setup that it calls; [] if it is no Python.

    The function that is tested has the same name in all.
    """
    tree = parsed(test["code"])
    if tree is None:
        return []
    called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names = (test.get("entry_point"), "candidate")
    functions = _functions(test.get("setup", ""), names)
    return [_renamed(tree, names), *(one for one in functions if one.name in called)]


@lru_cache(maxsize=8)
def _functions(setup: str, names: tuple[str | None, ...]) -> list[ast.FunctionDef]:
    """The functions of a setup, which the tests of a problem often share."""
    tree = parsed(setup) if "assert" in setup else None  # else nothing of it matters
    inside = _renamed(tree, names).body if tree else []
    return [node for node in inside if isinstance(node, ast.FunctionDef)]


def _renamed(tree: ast.Module, names: tuple[str | None, ...]) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = _TESTED
    return tree


def _count(tree: ast.AST) -> int:
    total = 0
    for node in ast.iter_child_nodes(tree):
        inner = int(isinstance(node, ast.Assert)) + _count(node)
        total += inner * _MANY if isinstance(node, (ast.For, ast.While)) else inner
    return total


# What tests compare -------------------------------------------------------------------------------

_TESTED = "f"  # stands in for the function's name, which differs between copies of a problem


def comparisons(test: dict[str, Any], most: int | None = None) -> list[tuple[str, str]]:
    """Inputs of a test with their expected answers, as text that does not depend on layout.

    Assertions count one by one, also those of functions that the test calls; one that compares
    nothing is an input whose answer is that it holds. With ``most``, only the first so many.
    """
    if "code" not in test:
        given = test["stdin"] if "stdin" in test else test["args"]
        return [(_plain(given), _plain(test["expected"]))]
    pairs = islice(_asserted(test), most)
    found = [(ast.unparse(left), ast.unparse(right) if right else "") for left, right in pairs]
    if found:
        return found
    setup = _plain(test.get("setup", "")) if parsed(test["code"]) else ""
    return [(_plain(test["code"]) + setup, "")]


def _plain(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


def _asserted(test: dict[str, Any]) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What a test asserts: an expression and what it equals, None where it has to be true."""
    nodes = (node for part in _asserting(test) for node in ast.walk(part))
    for asked in (node.test for node in nodes if isinstance(node, ast.Assert)):
        if isinstance(asked, ast.Compare) and isinstance(asked.ops[0], ast.Eq):
            yield asked.left, asked.comparators[0]
        else:
            yield asked, None


_EXAMPLE = re.compile(r"^[\s*>#-]*Input\s*\**:\**\s*(.+)$", re.MULTILINE | re.IGNORECASE)
_WORDS = {"true": "True", "false": "False", "null": "None"}
_WORD = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(true|false|null)\b""")


def example_calls(problem: Problem, most: int = 40) -> dict[str, str]:
    """Arguments with which the function of a problem is called in its tests and examples, as text.

    With what is expected of them, where that is known. Those that are too short to tell problems
    apart are one text together, with their answers. A test whose arguments are all computed is a
    text as a whole, where a literal of some length is in it or its setup. Empty for problems
    without a function to call.
    """
    if not problem.fn_name:
        return {}
    found: dict[str, str] = {}
    for test in problem.tests[:most]:
        if "args" in test:
            found[_values(test["args"])] = _values([test["expected"]])
        elif "code" in test:
            pairs = islice(_asserted(test), most)
            calls = {_called(left): _literals([right] if right else []) for left, right in pairs}
            whole = f"{test['code']}\n{test.get('setup', '')}"
            found.update(calls if any(calls) else {_plain(whole): ""} if _tells(whole) else {})
    for line in _EXAMPLE.findall(problem.statement):
        code = _WORD.sub(lambda m: m[1] or _WORDS[m[2]], line.strip().strip("`* "))
        found.setdefault(_called(parsed(f"{_TESTED}({code})")), "")
    short = sorted(given for given in found if given and len(given) < _TELLING)
    telling = {given: told for given, told in found.items() if len(given) >= _TELLING}
    together = ";".join(f"{given}={found[given]}" for given in short)
    return telling | ({together: ""} if len(short) > 1 else {})


def example_inputs(problem: Problem) -> dict[int, bool]:
    """Hashes of what a program reads and prints in the tests of a problem, both as words; whether
    such a pair is so long that two problems do not share it by chance.

    Letter case and trailing zeros of what is printed, which a copy may ask for otherwise, do not
    count.
    """
    tests = (test for test in problem.tests if test.get("stdin", "").strip())
    pairs = (comparisons(test)[0] for test in tests)
    found = ((given, _ZEROS.sub(r"\1", told.casefold())) for given, told in pairs)
    return {hash_of(f"{given}\n{told}"): len(given) >= _LONG for given, told in found}


_LONG = 64  # characters of an input
_ZEROS = re.compile(r"\.0+\b|(\.\d*[1-9])0+\b")
_TELLING = 5  # characters of arguments that two problems hardly share by chance


def _tells(code: str) -> bool:
    """Whether a literal of some length is in a test, other than what its assertions say."""
    nodes: list[ast.AST] = [tree] if (tree := parsed(code)) else []
    for node in nodes:  # and what it adds to them
        if isinstance(node, ast.expr) and len(_literals([node])) >= _TELLING + len("[]"):
            return True
        nodes += [node.test] if isinstance(node, ast.Assert) else ast.iter_child_nodes(node)
    return False


def _called(tree: ast.AST | None) -> str:
    """The arguments of the first call of the tested function in an expression, where literal."""
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == _TESTED:
            return _literals([*node.args, *(keyword.value for keyword in node.keywords)])
    return ""


def _literals(nodes: list[ast.expr]) -> str:
    """Literals as text, each also as the only argument of what makes a list or tree of it."""
    made = (node.args if isinstance(node, ast.Call) else [node] for node in nodes)
    try:
        return _values([ast.literal_eval(only) for (only,) in made])
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ""


def _values(given: Any) -> str:
    try:
        return json.dumps(given, separators=(",", ":"), sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return ""
