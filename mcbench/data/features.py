"""Five dimensions of difficulty, from the statement and a reference solution.

They are ours: the paper names Bloom, McCabe and Halstead as its grounds and publishes neither the
dimensions nor their weights. Each lies between 0 and 1 on a fixed scale, so that the number of a
problem does not depend on the set it stands in.

- ``reading``: how much there is to understand: words and quantities of the statement (log scale).
- ``scale``: how large inputs get, and so how good the algorithm must be: the largest bound.
- ``control``: McCabe's cyclomatic complexity of the reference (log scale).
- ``volume``: Halstead's volume of the reference (log scale).
- ``technique``: nesting of loops, recursion, and the data structures and methods it uses.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize

from mcbench.data.schema import Problem

DIMENSIONS = ("reading", "scale", "control", "volume", "technique")


def dimensions(record: Problem) -> dict[str, float]:
    """The dimensions that can be told; without a reference that parses only those of the text."""
    values = {"reading": reading(record.statement), "scale": scale(record)}
    found = [v for code in record.references[:3] if (v := code_dimensions(code)) is not None]
    if found:  # the simplest reference: what the problem needs, not what one author wrote
        values.update({name: min(v[name] for v in found) for name in found[0]})
    return {name: round(value, 6) for name, value in values.items()}


def _log_scale(value: float, low: float, high: float) -> float:
    """0 at ``low``, 1 at ``high``, logarithmic between."""
    if value <= low:
        return 0.0
    return min(math.log(value / low) / math.log(high / low), 1.0)


# Statement ---------------------------------------------------------------------------------------

_QUANTITY = re.compile(r"(?:≤|≥|<=|>=|<|>|=)\s*-?\d|\b\d+\b")


def reading(statement: str) -> float:
    """Words plus twice the quantities, on a log scale from 20 to 1000."""
    return _log_scale(len(statement.split()) + 2 * len(_QUANTITY.findall(statement)), 20, 1000)


_POWER = re.compile(r"(?:(\d+)\s*(?:×|x|\*|·|⋅)\s*)?\b10\s*\^\s*\(?(\d{1,3})\)?")
_PLAIN = re.compile(r"(?:≤|<=|<|up to|at most)\s*(\d{1,3}(?:[, ]\d{3})+|\d+)(?!\s*[\^\d])")
_LARGEST = 18.0  # decimal digits: 64-bit numbers


def scale(record: Problem) -> float:
    """Decimal digits of the largest bound that the statement gives, or else of the test inputs."""
    powers = [
        int(match[2]) + math.log10(int(match[1]) if match[1] and int(match[1]) else 1)
        for match in _POWER.finditer(record.statement)
    ]
    plain = (re.sub(r"[, ]", "", match[1])[:40] for match in _PLAIN.finditer(record.statement))
    bounds = [*powers, *(math.log10(max(int(digits), 1)) for digits in plain)]
    if bounds:
        return min(max(bounds) / _LARGEST, 1.0)
    sizes = [len(str(test.get("stdin", test.get("args", "")))) for test in record.tests[:50]]
    return min(math.log10(max(*sizes, 1)) / _LARGEST, 1.0) if sizes else 0.0


# Reference solution ------------------------------------------------------------------------------


def code_dimensions(code: str) -> dict[str, float] | None:
    """``control``, ``volume`` and ``technique`` of a Python program; None if it does not parse."""
    try:
        tree = ast.parse(code)
        return {
            "control": _log_scale(cyclomatic(tree), 1, 30),
            "volume": _log_scale(halstead_volume(code), 50, 8000),
            "technique": technique(tree),
        }
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None


_BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.comprehension,
    ast.Assert, ast.match_case,
)  # fmt: skip


def cyclomatic(tree: ast.AST) -> int:
    """McCabe's complexity of the whole program: one plus its decisions."""
    total = 1
    for node in ast.walk(tree):
        if isinstance(node, _BRANCHES):
            total += 1
        if isinstance(node, ast.comprehension):
            total += len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


_LAYOUT = {
    tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT,
    tokenize.ENDMARKER, tokenize.ENCODING,
}  # fmt: skip


def halstead_volume(code: str) -> float:
    """N log2 n for N tokens of which n differ; layout and comments are no tokens."""
    tokens = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type not in _LAYOUT
    ]
    return len(tokens) * math.log2(max(len(set(tokens)), 2)) if tokens else 0.0


_METHODS = {
    "heapq": 0.2, "bisect": 0.15, "collections": 0.05, "itertools": 0.1, "functools": 0.1,
    "math": 0.05, "deque": 0.1, "lru_cache": 0.15, "cache": 0.15, "heappush": 0.05,
}  # fmt: skip


def technique(tree: ast.AST) -> float:
    """Loop nesting (0.12 a level), recursion (0.25), tables (0.15), and modules' methods."""
    names: set[str | None] = set()
    for node in ast.walk(tree):
        names |= {getattr(node, name, None) for name in ("id", "attr", "module")}
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.name for alias in node.names}
    total = 0.12 * min(_loop_depth(tree), 4) + 0.25 * _recursive(tree) + 0.15 * _has_table(tree)
    return min(total + sum(value for name, value in _METHODS.items() if name in names), 1.0)


def _loop_depth(node: ast.AST, depth: int = 0) -> int:
    if isinstance(node, (ast.For, ast.While, ast.comprehension)):
        depth += 1
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        depth += len(node.generators)
    return max((_loop_depth(child, depth) for child in ast.iter_child_nodes(node)), default=depth)


def _recursive(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and function.name in (getattr(node.func, "id", None), getattr(node.func, "attr", None))
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    )


def _has_table(tree: ast.AST) -> bool:
    """Whether a table with two indices is read or written: dynamic programming, grids."""
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript)
        for node in ast.walk(tree)
    )


def weighted(values: dict[str, float], weights: dict[str, float]) -> float:
    """Mean of the known dimensions under their weights."""
    known = [name for name in values if weights.get(name, 0) > 0]
    total = sum(weights[name] for name in known)
    return sum(values[name] * weights[name] for name in known) / total if total else 0.0
