"""Mutants of a program: copies with one small mistake, to measure how much tests notice."""

from __future__ import annotations

import ast
import copy
import hashlib
import random
from itertools import islice

from mcbench.data.programs import parsed

_OPERATORS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Add, ast.FloorDiv),
    ast.Div: (ast.Mult,), ast.FloorDiv: (ast.Mult, ast.Mod), ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,), ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,),
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_LARGE = 10**6  # constants beyond are sentinels and moduli, where one more is rarely noticed

Edit = tuple[str, int | None, object]
"""A field of a node, the index in it where it is a list, and what is put there."""


def mutants(code: str, count: int) -> list[str]:
    """Up to ``count`` different mutants, drawn by a hash of the code; [] if it does not parse.

    Operators are exchanged, comparisons shifted or turned around, whole numbers moved by one,
    conditions negated, assignments and calls removed.
    """
    tree = parsed(code)
    try:
        original = ast.unparse(tree) if tree else ""
    except (ValueError, RecursionError, MemoryError):
        return []
    if tree is None:
        return []
    edits = [(place, edit) for place, node in enumerate(ast.walk(tree)) for edit in _edits(node)]
    seed = int.from_bytes(hashlib.blake2b(code.encode(), digest_size=8).digest(), "little")
    random.Random(seed).shuffle(edits)
    found: dict[str, None] = {}
    for place, edit in edits:
        if len(found) == count:
            break
        try:
            text = _changed(tree, place, edit)
        except RecursionError:  # copying goes deeper than reading
            break
        if text != original:
            found.setdefault(text + "\n")
    return list(found)


def _changed(tree: ast.Module, place: int, edit: Edit) -> str:
    """A program after one edit of a node."""
    changed = copy.deepcopy(tree)
    node = next(islice(ast.walk(changed), place, None))
    name, index, value = edit
    if index is None:
        setattr(node, name, value)
    else:
        getattr(node, name)[index] = value
    return ast.unparse(ast.fix_missing_locations(changed))


def _edits(node: ast.AST) -> list[Edit]:
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return [("op", None, other()) for other in _OPERATORS.get(type(node.op), ())]
    if isinstance(node, ast.Compare):
        return [
            ("ops", i, other())
            for i, op in enumerate(node.ops)
            for other in _OPERATORS.get(type(op), ())
        ]
    if isinstance(node, ast.BoolOp):
        return [("op", None, ast.Or() if isinstance(node.op, ast.And) else ast.And())]
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= _LARGE:
        return [("value", None, node.value + 1), ("value", None, node.value - 1)]
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return [("test", None, ast.UnaryOp(op=ast.Not(), operand=node.test))]
    body = getattr(node, "body", None)
    if not isinstance(body, list) or isinstance(node, ast.Module):
        return []
    # Statements whose absence leaves a program that runs.
    kinds = (ast.AugAssign, ast.Expr, ast.Continue, ast.Break)
    return [("body", i, ast.Pass()) for i, part in enumerate(body) if isinstance(part, kinds)]
