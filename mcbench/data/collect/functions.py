"""Sets whose tests are Python statements about a function: HumanEval, MBPP, KodCode, and
LeetCodeDataset with methods of ``class Solution``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from mcbench.data.collect.adapter import Adapter, RowReader, text_field
from mcbench.data.collect.decode import Unusable, names, object_or_none, type_name
from mcbench.data.programs import parsed
from mcbench.evaluator.unit_tests import NOT_AVAILABLE

Row = dict[str, Any]


def humaneval_row(row: Row, reader: RowReader) -> Row:
    """The prompt is a module that ends in the signature to complete.

    What it defines before that (imports, helper functions) is the tests' setup: some checks use it,
    and no submission should be able to change it.
    """
    prompt, name = text_field(row, "prompt"), text_field(row, "entry_point")
    before, found, _ = prompt.rpartition(f"def {name}(")
    if not found:
        raise Unusable("malformed", f"the prompt does not define its entry_point {name}")
    if row.get("test") is not None:
        code = f"{text_field(row, 'test')}\n\ncheck({name})\n"
        reader.check(code, setup=before, entry_point=name)
    solution = row.get("canonical_solution")
    return {
        "id": text_field(row, "task_id").rpartition("/")[2],
        "statement": prompt,
        "fn_name": name,
        "starter_code": prompt,
        "preamble": before,
        "language": "en",
        "references": (prompt + solution,) if isinstance(solution, str) else (),
    }


HUMANEVAL = Adapter(
    name="humaneval",
    about="HumanEval (https://github.com/openai/human-eval, also openai/openai_humaneval)",
    repo="openai/openai_humaneval",
    licence="MIT",
    time_limit_s=3.0,  # its own runner's
    subsets={"test": ("openai_humaneval/test-*.parquet", "HumanEval.jsonl.gz", "HumanEval.jsonl")},
    needs=("task_id", "prompt", "entry_point", "test"),
    reads=("canonical_solution",),
    tests=humaneval_row,
)


def mbpp_row(row: Row, reader: RowReader) -> Row:
    """The tests of ``full`` (test_setup_code), ``sanitized`` (test_imports) and MBPP+ (test)."""
    asserts = names(row.get("test_list"))
    if not asserts:
        found = type_name(row.get("test_list"))
        raise Unusable("malformed", f"test_list should be texts, found {found}")
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
        "language": "en",
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
        raise Unusable("malformed", "no function of the solution is called by the tests")
    return names[-1]


def _parse(source: str, what: str) -> ast.Module:
    if (tree := parsed(source)) is None:
        raise Unusable("malformed", f"{what} is no Python")
    return tree


# The paper's split by task_id (Austin et al. 2021): 1-10 are the few-shot prompts.
MBPP_SPLITS = {
    "test": range(11, 511),
    "validation": range(511, 601),
    "train": range(601, 975),
    "prompt": range(1, 11),
}
MBPP = Adapter(
    name="mbpp",
    about="MBPP (https://huggingface.co/datasets/google-research-datasets/mbpp)",
    repo="google-research-datasets/mbpp",
    licence="CC-BY-4.0",
    time_limit_s=10.0,  # the reference of mbpp/123 takes 3.8 s on a slow processor
    subsets={
        version if split == "test" else f"{version}-{split}": (
            f"{version}/{split}-*.parquet",
            whole,
        )
        for version, whole in (("full", "mbpp.jsonl"), ("sanitized", "sanitized-mbpp.json"))
        for split in MBPP_SPLITS
    },
    needs=("task_id", "text|prompt", "code", "test_list"),
    columns={"id": "task_id"},
    reads=("test_setup_code", "test_imports"),
    tests=mbpp_row,
    belongs=lambda row, subset: (
        row.get("task_id") in MBPP_SPLITS[subset.partition("-")[2] or "test"]
    ),
)

# KodCode ------------------------------------------------------------------------------------------


def _kodcode(row: Row, reader: RowReader) -> Row:
    """The tests are a pytest module that imports from ``solution``; each function is one test, or
    the module as a whole, where it needs pytest.

    Those that look at what the solution prints or replace what it calls are refused: it runs in a
    process of its own. So is what the evaluator does not have of pytest.
    """
    source = text_field(row, "test|test_code")
    body = _parse(source, "test").body
    tests = [n for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
    needs_pytest = _looked_through(body, tests)
    info = row.get("test_info")
    info = object_or_none(info[0] if isinstance(info, list) and info else info)
    imports = (n for n in body if isinstance(n, ast.ImportFrom) and n.module == "solution")
    imported = (one.name for node in imports for one in node.names if one.name != "*")
    entry = info.get("function_name") or next(imported, "")
    if needs_pytest:
        reader.check(source, entry_point=entry)
    else:
        for test in tests:
            reader.check(f"{test.name}()", setup=source, entry_point=entry)
    return {
        "fn_name": entry,
        "starter_code": info.get("function_declaration") or "",
        "language": "en",
    }


def _looked_through(body: list[ast.stmt], tests: list[ast.FunctionDef]) -> bool:
    """Whether a module of tests needs pytest, or classes of it to be run.

    Raises:
        Unusable: it reaches into the solution, or needs more of pytest than there is.
    """
    nodes = [node for statement in body for node in ast.walk(statement)]
    modules = _imports(nodes)
    used = {_dotted(node, modules) for node in nodes}
    if inner := used & _WITHIN | {_replaced(node, modules) for node in nodes} - {""}:
        raise Unusable("unsupported", f"its tests reach into the solution ({sorted(inner)[0]})")
    of_pytest = {name.split(".")[1] for name in used if name.startswith("pytest.")}
    arguments = {arg.arg for test in tests for arg in (*test.args.args, *test.args.kwonlyargs)}
    lacking = [f"pytest.{name}" for name in sorted(of_pytest & NOT_AVAILABLE)]
    if lacking := lacking or [f"the fixture {name}" for name in sorted(arguments & _FIXTURES)]:
        raise Unusable("unsupported", f"its tests need {lacking[0]}")
    return bool(of_pytest or arguments) or any(isinstance(node, ast.ClassDef) for node in body)


_FIXTURES = {"capfd", "caplog", "capsys", "monkeypatch", "recwarn", "request", "tmp_path", "tmpdir"}

# What tests see of a program only in its own process, or change only in theirs.
_WITHIN = {
    *("sys.stdin", "sys.stdout", "contextlib.redirect_stdout", "contextlib.redirect_stderr"),
    *("unittest.mock.patch", "mock.patch"),
}


def _imports(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What imported names stand for, with their modules: ``{"p": "unittest.mock.patch"}``."""
    found = {"__builtins__": "builtins"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            roots = {one.name.partition(".")[0] for one in node.names if not one.asname}
            found |= {root: root for root in roots}
            found |= {one.asname: one.name for one in node.names if one.asname}
    return found


def _dotted(node: ast.AST, modules: dict[str, str]) -> str:
    """The full name of what comes from an import; empty for all else."""
    if isinstance(node, ast.Attribute):
        of = _dotted(node.value, modules)
        return of and f"{of}.{node.attr}"
    return modules.get(node.id, "") if isinstance(node, ast.Name) else ""


def _replaced(node: ast.AST, modules: dict[str, str]) -> str:
    """What of an import an assignment, deletion or ``setattr`` changes; empty where nothing."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return _dotted(node if isinstance(node, ast.Attribute) else node.value, modules)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        return _dotted(node.args[0], modules) if node.func.id in ("setattr", "delattr") else ""
    return ""


KODCODE = Adapter(
    name="kodcode",
    about="KodCode-V1, synthetic (https://huggingface.co/datasets/KodCode/KodCode-V1)",
    repo="KodCode/KodCode-V1",
    licence="CC-BY-NC-4.0",
    time_limit_s=10.0,  # its own judge gives all tests together 30 s
    subsets={part: (f"data/{part}-*.parquet",) for part in ("train", "use_with_caution")},
    needs=("question_id", "question", "test|test_code"),
    columns={
        "id": "question_id", "statement": "question", "references": "solution",
        "difficulty": "gpt_difficulty",
    },
    metadata={"style": "style", "subset": "subset", "source_pass_rate": "gpt_pass_percentage"},
    reads=("test_info",),
    tests=_kodcode,
)  # fmt: skip

# LeetCodeDataset ----------------------------------------------------------------------------------

_MAX_TESTS = 40  # that are kept, the first ones; the set has up to thousands of one problem
# Versions differ in how the query asks.
_QUESTION = re.compile(
    r"(?:.*### Question:?\n)?(.*?)\n\s*(?:### (?:Format|Answer)|Please complete the following)",
    re.DOTALL,
)


def _leetcode(row: Row, reader: RowReader) -> Row:
    """A row of any version.

    ``prompt`` is LeetCode's header: imports, list and tree nodes and what makes them of lists. A
    submission gets it, as there, and so do the tests, which call the method with such nodes.
    """
    header, query = text_field(row, "prompt"), str(row.get("query"))
    owner, _, name = text_field(row, "entry_point").rpartition(".")
    if owner not in ("Solution()", "") or not name.isidentifier():
        raise Unusable("unsupported", f"its tests call {row['entry_point']}")
    for line in _assertions(text_field(row, "test"))[:_MAX_TESTS]:
        reader.check(f"candidate = Solution().{name}\n{line}", setup=header)
    asked, code = _QUESTION.match(query), re.search(r"```python\n(.*?)```", query, re.DOTALL)
    shown = code[1] if code and "class Solution" in code[1] else ""
    if row.get("problem_description"):
        statement = text_field(row, "problem_description")
    elif asked:
        statement = asked[1].strip() + "\n"
    else:
        raise Unusable("malformed", "neither problem_description nor a question in query")
    return {
        "statement": statement,
        "fn_name": name,
        "starter_code": row.get("starter_code") or shown,
        "preamble": header + "\n",
        "language": "en",
        "url": f"https://leetcode.com/problems/{row['task_id']}/",
        "metadata": {"platform": "leetcode"},
    }


def _assertions(source: str) -> list[str]:
    """Those of ``check(candidate)``, each a test of its own."""
    tree = parsed(source)
    check = tree.body[0] if tree and len(tree.body) == 1 else None
    if check is None or getattr(check, "name", "") != "check":
        raise Unusable("malformed", "test should be one function check(candidate)")
    lines = [line.strip() for line in source.strip().split("\n")[1:]]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not all(line.startswith("assert ") for line in lines):
        raise Unusable("unsupported", "its tests are more than assertions")
    return lines


LEETCODE = Adapter(
    name="leetcode",
    about="LeetCodeDataset (https://huggingface.co/datasets/newfacade/LeetCodeDataset)",
    repo="newfacade/LeetCodeDataset",
    licence="Apache-2.0",
    time_limit_s=10.0,  # its own judge's
    subsets={
        part: (
            f"LeetCodeDataset-{part}.jsonl",
            f"LeetCodeDataset-*-{part}.jsonl",
            f"LeetCodeDataset-*-{part}.jsonl.gz",
        )
        for part in ("train", "test")
    },
    needs=("task_id", "prompt", "entry_point", "test"),
    columns={
        "id": "task_id", "references": "completion", "date": "estimated_date", "tags": "tags",
        "difficulty": "difficulty|meta.difficulty",
    },
    metadata={"number": "question_id|meta.question_id"},
    reads=("problem_description", "starter_code", "query"),
    tests=_leetcode,
)  # fmt: skip
