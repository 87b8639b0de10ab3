"""Sets whose tests are Python statements about a function: HumanEval, MBPP, KodCode, and
LeetCodeDataset with methods of ``class Solution``.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from mcbench.data.collect.adapter import RowReader, text_field
from mcbench.data.collect.decode import Unusable, names, object_or_none, type_name
from mcbench.data.programs import parsed

Row = dict[str, Any]


def humaneval_row(row: Row, reader: RowReader) -> Row:
    """The prompt is a module that ends in the signature to complete.

    What it defines before that (imports, helper functions) is the tests' setup: some checks use it,
    and no submission should be able to change it.
    """
    prompt, name = text_field(row, "prompt"), text_field(row, "entry_point")
    before, found, _ = prompt.rpartition(f"def {name}(")
    if not found:
        raise Unusable(f"the prompt does not define its entry_point {name}")
    if row.get("test") is not None:
        code = f"{text_field(row, 'test')}\n\ncheck({name})\n"
        reader.check(code, setup=before, entry_point=name)
    solution = row.get("canonical_solution")
    return {
        "id": text_field(row, "task_id").rpartition("/")[2],
        "preamble": before,
        "references": (prompt + solution,) if isinstance(solution, str) else (),
    }


def mbpp_row(row: Row, reader: RowReader) -> Row:
    """The tests of ``full`` (test_setup_code), ``sanitized`` (test_imports) and MBPP+ (test)."""
    asserts = names(row.get("test_list"))
    if not asserts:
        raise Unusable(f"test_list should be texts, found {type_name(row.get('test_list'))}")
    solution = text_field(row, "code").replace("\r\n", "\n")
    name = _tested_function(asserts, solution)
    if row.get("test") is not None:  # MBPP+: all in one module
        reader.check(text_field(row, "test"), entry_point=name)
    else:
        setup = row.get("test_setup_code") or "\n".join(names(row.get("test_imports")))
        for statement in asserts:
            reader.check(statement, setup=setup, entry_point=name)
    return {
        "statement": text_field(row, "text|prompt").replace("\r\n", "\n"),
        "fn_name": name,
        "references": (solution,),
        "metadata": {"shown_tests": list(asserts)},
    }


def _tested_function(asserts: tuple[str, ...], solution: str) -> str:
    """The function that the solution defines and the tests call; the last one, if several.

    Raises:
        Unusable: the solution or a test is no Python, or no function of the one is in the other.
    """
    defined = [n.name for n in _parse(solution, "code").body if isinstance(n, ast.FunctionDef)]
    used = {
        node.id
        for text in asserts
        for node in ast.walk(_parse(text, "test_list"))
        if isinstance(node, ast.Name)
    }
    names = [name for name in defined if name in used]
    if not names:
        raise Unusable("no function of the solution is called by the tests")
    return names[-1]


def _parse(source: str, what: str) -> ast.Module:
    if (tree := parsed(source)) is None:
        raise Unusable(f"{what} is no Python")
    return tree


# The paper's split by task_id (Austin et al. 2021): 1-10 are the few-shot prompts.
MBPP_SPLITS = {
    "test": range(11, 511),
    "validation": range(511, 601),
    "train": range(601, 975),
    "prompt": range(1, 11),
}


def in_mbpp_split(row: Row, subset: str) -> bool:
    """Whether a row is of a subset; one file has all."""
    return row.get("task_id") in MBPP_SPLITS[subset.partition("-")[2] or "test"]


# KodCode ------------------------------------------------------------------------------------------


def kodcode_row(row: Row, reader: RowReader) -> Row:
    """The tests are a pytest module that imports from ``solution``; each function is one test, or
    the module as a whole, where it needs pytest.

    Some look at what the solution prints or replace what it calls, which they cannot: it runs in a
    process of its own. The verification drops them, as its reference fails.
    """
    source = text_field(row, "test|test_code")
    body = _parse(source, "test").body
    tests = [n for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
    info = row.get("test_info")
    info = object_or_none(info[0] if isinstance(info, list) and info else info)
    imports = (n for n in body if isinstance(n, ast.ImportFrom) and n.module == "solution")
    imported = (one.name for node in imports for one in node.names if one.name != "*")
    entry = info.get("function_name") or next(imported, "")
    if "pytest" in source or any(isinstance(node, ast.ClassDef) for node in body):
        reader.check(source, entry_point=entry)
    else:
        for test in tests:
            reader.check(f"{test.name}()", setup=source, entry_point=entry)
    return {"fn_name": entry, "starter_code": info.get("function_declaration") or ""}


# LeetCodeDataset ----------------------------------------------------------------------------------

_MAX_TESTS = 40  # that are kept, the first ones; the set has up to thousands of one problem
# Versions differ in how the query asks.
_QUESTION = re.compile(
    r"(?:.*### Question:?\n)?(.*?)\n\s*(?:### (?:Format|Answer)|Please complete the following)",
    re.DOTALL,
)


def leetcode_row(row: Row, reader: RowReader) -> Row:
    """A row of any version.

    ``prompt`` is LeetCode's header: imports, list and tree nodes and what makes them of lists. A
    submission gets it, as there, and so do the tests, which call the method with such nodes.
    """
    header, query = text_field(row, "prompt"), str(row.get("query"))
    owner, _, name = text_field(row, "entry_point").rpartition(".")
    if owner not in ("Solution()", "") or not name.isidentifier():
        raise Unusable(f"its tests call {row['entry_point']}", "unsupported")
    for line in _assertions(text_field(row, "test"))[:_MAX_TESTS]:
        reader.check(f"candidate = Solution().{name}\n{line}", setup=header)
    asked, code = _QUESTION.match(query), re.search(r"```python\n(.*?)```", query, re.DOTALL)
    shown = code[1] if code and "class Solution" in code[1] else ""
    if row.get("problem_description"):
        statement = text_field(row, "problem_description")
    elif asked:
        statement = asked[1].strip() + "\n"
    else:
        raise Unusable("neither problem_description nor a question in query")
    return {
        "statement": statement,
        "fn_name": name,
        "starter_code": row.get("starter_code") or shown,
        "preamble": header + "\n",
        "url": f"https://leetcode.com/problems/{row['task_id']}/",
        "metadata": {"platform": "leetcode"},
    }


def _assertions(source: str) -> list[str]:
    """Those of ``check(candidate)``, each a test of its own."""
    tree = parsed(source)
    check = tree.body[0] if tree and len(tree.body) == 1 else None
    if check is None or getattr(check, "name", "") != "check":
        raise Unusable("test should be one function check(candidate)")
    lines = [line.strip() for line in source.strip().split("\n")[1:]]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not all(line.startswith("assert ") for line in lines):
        raise Unusable("its tests are more than assertions", "unsupported")
    return lines
