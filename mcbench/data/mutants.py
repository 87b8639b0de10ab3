"""Mutants of a program: copies with one small mistake, to measure how much tests notice."""

from __future__ import annotations

import ast
import copy
import hashlib
import random
from collections.abc import Callable

_ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_LARGE = 10**6  # constants beyond are sentinels and moduli, where one more is rarely noticed

Edit = Callable[[ast.AST], None]


def mutants(code: str, count: int) -> list[str]:
    """Up to ``count`` different mutants, drawn by a hash of the code; [] if it does not parse.

    Operators are exchanged, comparisons shifted or turned around, whole numbers moved by one,
    conditions negated, assignments and calls removed.
    """
    try:
        tree = ast.parse(code)
        original = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    edits = [(place, edit) for place, node in enumerate(ast.walk(tree)) for edit in _edits(node)]
    seed = int.from_bytes(hashlib.blake2b(code.encode(), digest_size=8).digest(), "little")
    random.Random(seed).shuffle(edits)
    found: dict[str, None] = {}
    for place, edit in edits:
        if len(found) == count:
            break
        changed = copy.deepcopy(tree)
        edit(next(node for i, node in enumerate(ast.walk(changed)) if i == place))
        text = ast.unparse(ast.fix_missing_locations(changed))
        if text != original:
            found.setdefault(text + "\n")
    return list(found)


def _edits(node: ast.AST) -> list[Edit]:
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return [_set("op", other()) for other in _ARITHMETIC.get(type(node.op), ())]
    if isinstance(node, ast.Compare):
        return [
            _set_op(i, other())
            for i, op in enumerate(node.ops)
            for other in _COMPARISONS.get(type(op), ())
        ]
    if isinstance(node, ast.BoolOp):
        return [_set("op", ast.Or() if isinstance(node.op, ast.And) else ast.And())]
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= _LARGE:
        return [_set("value", node.value + 1), _set("value", node.value - 1)]
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return [_negate]
    return _removals(node)


def _removals(node: ast.AST) -> list[Edit]:
    """Statements whose absence leaves a program that runs."""
    body = getattr(node, "body", None)
    if not isinstance(body, list) or isinstance(node, ast.Module):
        return []
    kinds = (ast.AugAssign, ast.Expr, ast.Continue, ast.Break)
    return [_remove(i) for i, statement in enumerate(body) if isinstance(statement, kinds)]


def _set(name: str, value: object) -> Edit:
    def edit(node: ast.AST) -> None:
        setattr(node, name, value)

    return edit


def _set_op(index: int, op: ast.cmpop) -> Edit:
    def edit(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[index] = op

    return edit


def _negate(node: ast.AST) -> None:
    assert isinstance(node, (ast.If, ast.While, ast.IfExp))
    node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)


def _remove(index: int) -> Edit:
    def edit(node: ast.AST) -> None:
        body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
        body[index] = ast.Pass()

    return edit
