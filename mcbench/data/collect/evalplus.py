"""HumanEval+ and MBPP+ of EvalPlus, as the hub has them and as its releases do.

A release is JSON, which knows neither tuples nor sets nor complex numbers. Which of them an input
was, and how answers are compared, is taken from the assertions that the same row shows: inputs get
the types of the arguments there; where these compare sets, or ask for truth alone, so do we.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from numbers import Number
from typing import Any, TypeGuard

from mcbench.data.collect.adapter import Adapter, RowReader, text_field
from mcbench.data.collect.decode import Unusable, names, type_name
from mcbench.data.collect.functions import Row, humaneval_row, mbpp_row
from mcbench.data.programs import parsed

Kinds = tuple[type, type]
# How EvalPlus compares, in short: equal, or floats that are near; a tuple is no list.
_SAME = """

def _same(expected, given, atol):
    if isinstance(expected, float) or isinstance(given, float):
        try:
            near = abs(expected - given) <= max(atol, 1e-6 * max(1, abs(expected)))
        except TypeError:
            return False
        return near or expected == given or (expected != expected and given != given)
    if isinstance(expected, (list, tuple)):
        alike = type(expected) is type(given) and len(expected) == len(given)
        return alike and all(_same(e, g, atol) for e, g in zip(expected, given))
    return expected == given

_names = {}
exec(_SOURCE, _names)
"""
_SETS = ("find_dissimilar", "Diff")  # EvalPlus compares them as sets; their rows do not show it
_MAX_INPUTS = 60  # of EvalPlus' own that are kept; the set has up to thousands


def evalplus_row(row: Row, reader: RowReader, of_mbpp: bool) -> Row:
    """A row from the hub has tests like HumanEval's or all in one module; one of a release lists
    inputs, and its reference solution tells the answers, in the tests' own process.
    """
    if row.get("base_input") is None:
        return mbpp_row(row, reader) if of_mbpp else humaneval_row(row, reader)
    name, prompt = text_field(row, "entry_point"), text_field(row, "prompt")
    solution = text_field(row, "canonical_solution")
    if of_mbpp:
        calls = [f"{name}(*{given!r})" for given in _listed(row, "base_input")[:3]]
        stated = _asserts(str(row.get("assertion") or "")).splitlines()
        shown = list(names(row.get("test_list"))) or stated or calls
        values: Row = {
            "id": str(row.get("task_id")).rpartition("/")[2],
            "statement": prompt.strip().strip("'\"").strip() + "\n",
            "fn_name": name,
            "language": "en",
            "references": (solution,),
            "metadata": {"shown_tests": shown},
        }
    else:
        values = humaneval_row({**row, "test": None}, reader)
    texts = [*names(row.get("test_list")), str(row.get("assertion") or ""), _asserts(prompt)]
    nodes = [node for text in texts if (tree := parsed(text)) for node in ast.walk(tree)]
    places, look = list(zip_longest(*_arguments(nodes, name))), _look(nodes, name)
    setup = f"_SOURCE = {values['references'][0]!r}\n{_SAME}"
    for given in [*_listed(row, "base_input"), *_listed(row, "plus_input")[:_MAX_INPUTS]]:
        call = f"{name}(*copy.deepcopy(_given))"
        if not isinstance(given, list):
            raise Unusable("malformed", f"an input is a {type_name(given)}, no list of arguments")
        typed = [as_argument(one, at) for one, at in zip_longest(given, places[: len(given)])]
        code = (
            f"import copy\nfrom math import inf, nan\n_given = {typed!r}\n"
            f"_expected = _names[{name!r}](*copy.deepcopy(_given))\n"
            f"assert _same({look}(_expected), {look}({call}), {float(row.get('atol') or 0)!r})"
        )
        reader.check(code, setup=setup, entry_point=name)
    return values


def _listed(row: Row, name: str) -> list[Any]:
    value = row.get(name)
    return value if isinstance(value, list) else []


def _asserts(text: str) -> str:
    """The assertions among the lines of a text."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line.startswith("assert "))


def _arguments(shown: Sequence[ast.AST], name: str) -> Iterator[list[Any]]:
    """The arguments of the calls of a function, where they are literals."""
    for node in shown:
        if _calls(node, name):
            try:
                yield [ast.literal_eval(argument) for argument in node.args]
            except (ValueError, TypeError, RecursionError):
                continue


def _calls(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def as_argument(value: Any, shown: Sequence[Any] | None) -> Any:
    """An argument that went through JSON, in the types of those in its place; a text where only
    numbers were shown is a complex one.
    """
    if isinstance(value, str) and shown and all(isinstance(one, Number) for one in shown):
        with suppress(ValueError):
            return complex(value)
    return as_shown(value, shown or ())


def as_shown(value: Any, shown: Sequence[Any], around: Kinds = (list, list)) -> Any:
    """A value whose lists are tuples or sets where those in their place are; what is nested deeper
    than anything shown is as the two levels ``around`` it, where these are alike.
    """
    if isinstance(value, dict):
        inner = [item for one in shown if isinstance(one, dict) for item in one.values()]
        return {key: as_shown(item, inner) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    containers = [one for one in shown if isinstance(one, list | tuple | set)]
    kinds: set[type] = {type(one) for one in containers}
    if not kinds and around[0] is around[1]:
        kinds = {around[0]}
    kind = kinds.pop() if len(kinds) == 1 else list
    inner = [item for one in containers for item in one]
    items = [as_shown(item, inner, (around[1], kind)) for item in value]
    try:
        return kind(items)
    except TypeError:  # a set of what cannot be in one
        return items


def _look(shown: Sequence[ast.AST], name: str) -> str:
    """What the shown assertions look at, of an answer: ``set``, ``bool``, or all of it."""
    if name in _SETS:
        return "set"
    tests = [node.test for node in shown if isinstance(node, ast.Assert)]
    asked = [t.operand if isinstance(t, ast.UnaryOp) else t for t in tests]
    for test in asked:
        if isinstance(test, ast.Compare) and _calls(test.left, "set"):
            return "set"
    return "bool" if asked and all(_calls(test, name) for test in asked) else ""


HUMANEVAL_PLUS, MBPP_PLUS = (
    Adapter(
        name=f"{base}plus",
        about=f"{title} of EvalPlus (https://github.com/evalplus/{base}plus_release)",
        repo=f"evalplus/{base}plus",
        licence="Apache-2.0",
        time_limit_s=6.0,
        subsets={"test": ("data/test-*.parquet", f"{stem}*.jsonl.gz", f"{stem}*.jsonl")},
        needs=("task_id", "prompt", solution, "test|base_input"),
        columns={"id": "task_id"},
        reads=(
            "canonical_solution", "entry_point", "test_list", "test_imports", "plus_input", "atol",
            "assertion",
        ),
        tests=partial(evalplus_row, of_mbpp=base == "mbpp"),
    )
    for base, title, stem, solution in (
        ("humaneval", "HumanEval+", "HumanEvalPlus", "entry_point"),
        ("mbpp", "MBPP+", "MbppPlus", "code|canonical_solution"),
    )
)  # fmt: skip
