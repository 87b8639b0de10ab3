"""The tests of APPS, in which TACO and the sets made from both publish theirs."""

from __future__ import annotations

import json
from typing import Any

from mcbench.data.collect.adapter import RowReader, pairs
from mcbench.data.collect.decode import Unusable, type_name


def add_input_output(reader: RowReader, tests: Any) -> str:
    """Add the tests of ``{"inputs": [...], "outputs": [...], "fn_name": optional}``.

    An input is a list of arguments where there is a method, else text or a list of lines. Where
    every output is a list of one element, that element is what the method returns: the set wraps
    results so, and its judge takes both readings.

    Returns:
        The method's name, empty for standard input.

    Raises:
        Unusable: not of this form.
    """
    if not isinstance(tests, dict):
        raise Unusable("malformed", f"the tests should be an object, found {type_name(tests)}")
    fn_name = method_name(tests.get("fn_name"))
    rows = pairs(tests.get("inputs"), tests.get("outputs"), "the tests")
    add_pairs(reader, rows, fn_name)
    return fn_name


def add_pairs(reader: RowReader, rows: list[tuple[Any, Any]], fn_name: str) -> None:
    """Add pairs of input and output as `add_input_output` reads them."""
    if not fn_name:
        for number, (stdin, expected) in enumerate(rows):
            reader.stdio(number, stdin, expected)
        return
    wrapped = all(isinstance(output, list) and len(output) == 1 for _, output in rows)
    for number, (args, output) in enumerate(rows):
        reader.call(number, args, output[0] if wrapped else output)


def method_name(value: Any) -> str:
    """The name of the method to call, empty where there is none.

    Raises:
        Unusable: not a Python name.
    """
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not value.isidentifier():
        raise Unusable("malformed", f"fn_name is no Python name: {value!r:.60}")
    return value


def json_lines(text: Any) -> Any:
    """LiveCodeBench's arguments, one JSON value a line, as a list.

    Raises:
        Unusable: a line is not JSON.
    """
    try:
        return [json.loads(line) for line in text.split("\n")]
    except (AttributeError, ValueError, RecursionError):
        raise Unusable("malformed", f"arguments are not JSON lines: {text!r:.60}") from None


def json_or_itself(value: Any) -> Any:
    """The data of a JSON text; any other value as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def form_of(fn_name: str) -> dict[str, Any]:
    """The record's form and method."""
    return {"form": "call", "fn_name": fn_name} if fn_name else {"form": "stdin"}


def python_only(solutions: Any) -> tuple[str, ...]:
    """Solutions with their code fences taken off."""
    from mcbench.evaluator import extract_code

    if not isinstance(solutions, (list, tuple)):
        return ()
    codes = [extract_code(text) or text for text in solutions if isinstance(text, str)]
    return tuple(code for code in codes if code.strip())
