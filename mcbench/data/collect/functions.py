"""Sets whose tests are Python statements about a function: HumanEval, MBPP and KodCode."""

from __future__ import annotations

import ast
from typing import Any

from mcbench.data.collect.adapter import THREE_LEVELS, Adapter, RowReader, level, texts
from mcbench.data.collect.decode import Unusable, object_or_none, type_name
from mcbench.data.collect.rows import field, text_field
from mcbench.data.schema import Problem


def humaneval(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of HumanEval: the prompt is a module that ends in the signature to complete.

    What the prompt defines before that signature (imports, helper functions) is the tests' setup:
    some checks use it, and no submission should be able to change it.
    """
    prompt, check = text_field(row, "prompt"), text_field(row, "test")
    name = text_field(row, "entry_point")
    before, found, _ = prompt.rpartition(f"def {name}(")
    if not found:
        raise Unusable("malformed", f"the prompt does not define its entry_point {name}")
    reader.check(f"{check}\n\ncheck({name})\n", setup=before, entry_point=name)
    solution = row.get("canonical_solution")
    return reader.record(
        text_field(row, "task_id").rpartition("/")[2],
        {"entry_point": name},
        statement=prompt,
        fn_name=name,
        starter_code=prompt,
        preamble=before,
        language="en",
        references=(prompt + solution,) if isinstance(solution, str) else (),
    )


HUMANEVAL = Adapter(
    name="humaneval",
    about="HumanEval (https://github.com/openai/human-eval, also openai/openai_humaneval)",
    repo="openai/openai_humaneval",
    licence="MIT",
    subsets={"test": ("openai_humaneval/test-*.parquet", "HumanEval.jsonl.gz", "HumanEval.jsonl")},
    needs=(("task_id",), ("prompt",), ("entry_point",), ("test",)),
    reads=("canonical_solution",),
    convert=humaneval,
)


def mbpp(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of MBPP, ``full`` (text, test_setup_code) or ``sanitized`` (prompt, test_imports)."""
    statement = text_field(row, "text", "prompt")
    asserts = row.get("test_list")
    if not texts(asserts):
        raise Unusable("malformed", f"test_list should be texts, found {type_name(asserts)}")
    setup = row.get("test_setup_code") or "\n".join(texts(row.get("test_imports")))
    solution = text_field(row, "code").replace("\r\n", "\n")
    name = _tested_function(texts(asserts), solution)
    for statement_text in texts(asserts):
        reader.check(statement_text, setup=setup, entry_point=name)
    return reader.record(
        row.get("task_id"),
        {"entry_point": name, "shown_tests": list(texts(asserts))},
        statement=statement.replace("\r\n", "\n"),
        fn_name=name,
        language="en",
        references=(solution,),
    )


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
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unusable("malformed", f"{what} is no Python ({type(error).__name__})") from None


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
    subsets={
        version if split == "test" else f"{version}-{split}": (
            f"{version}/{split}-*.parquet",
            whole,
        )
        for version, whole in (("full", "mbpp.jsonl"), ("sanitized", "sanitized-mbpp.json"))
        for split in MBPP_SPLITS
    },
    needs=(("task_id",), ("text", "prompt"), ("code",), ("test_list",)),
    reads=("test_setup_code", "test_imports"),
    convert=mbpp,
    belongs=lambda row, subset: (
        row.get("task_id") in MBPP_SPLITS[subset.partition("-")[2] or "test"]
    ),
)


def kodcode(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of KodCode: the tests are a pytest module that imports from ``solution``.

    Each test function becomes one test. Modules that need pytest itself (raises, fixtures,
    parametrize) are refused: it is no part of what judges submissions here.
    """
    statement = text_field(row, "question")
    setup, names, imported = _pytest_module(text_field(row, "test", "test_code"))
    info = field(row, "test_info")
    info = object_or_none(info[0] if isinstance(info, list) and info else info)
    entry = info.get("function_name") or imported
    for name in names:
        reader.check(f"{name}()", setup=setup, entry_point=entry)
    solution = row.get("solution")
    return reader.record(
        row.get("question_id"),
        {
            "style": row.get("style"),
            "subset": row.get("subset"),
            "entry_point": entry,
            "source_pass_rate": row.get("gpt_pass_percentage"),
        },
        statement=statement,
        fn_name=entry,
        starter_code=info.get("function_declaration") or "",
        language="en",
        references=(solution,) if isinstance(solution, str) and solution.strip() else (),
        **level(row.get("gpt_difficulty"), THREE_LEVELS),
    )


# EvalPlus -----------------------------------------------------------------------------------------

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
_MAX_INPUTS = 60  # of EvalPlus' own that are kept; the set has up to thousands


def evalplus(row: dict[str, Any], reader: RowReader) -> Problem:
    """A row of HumanEval+ or MBPP+, from the hub or from a release's JSON lines.

    The hub's have tests like HumanEval's; a release lists inputs, and its reference solution tells
    the answers, in the tests' own process.
    """
    if field(row, "base_input") is None:
        return humaneval_plus(row, reader) if row.get("entry_point") else mbpp_plus(row, reader)
    prompt, name = text_field(row, "prompt"), text_field(row, "entry_point")
    before, solution = prompt, text_field(row, "canonical_solution")
    source = solution if reader.source == "mbppplus" else prompt + solution
    inputs = [*_listed(row, "base_input"), *_listed(row, "plus_input")[:_MAX_INPUTS]]
    setup = f"_SOURCE = {source!r}\n{_SAME}"
    for given in inputs:
        call = f"{name}(*copy.deepcopy(_given))"
        code = (
            f"import copy\n_given = {given!r}\n"
            f"_expected = _names[{name!r}](*copy.deepcopy(_given))\n"
            f"assert _same(_expected, {call}, {float(row.get('atol') or 0)!r})"
        )
        reader.check(code, setup=setup, entry_point=name)
    mine = reader.source == "mbppplus"
    if not mine:
        before = prompt.rpartition(f"def {name}(")[0]
    statement = prompt.strip().strip("'\"").strip() + "\n" if mine else prompt
    return reader.record(
        str(row.get("task_id")).rpartition("/")[2],
        {"entry_point": name, "shown_tests": _shown(row, name) if mine else None},
        statement=statement,
        fn_name=name,
        starter_code="" if mine else prompt,
        preamble="" if mine else before,
        language="en",
        references=(source,),
    )


def _listed(row: dict[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    return value if isinstance(value, list) else []


def _shown(row: dict[str, Any], name: str) -> list[str]:
    """The first assertions that the prompt or the row shows, else the shape of a call."""
    listed = texts(row.get("test_list"))
    return list(listed) or [f"{name}(*{given!r})" for given in _listed(row, "base_input")[:3]]


def humaneval_plus(row: dict[str, Any], reader: RowReader) -> Problem:
    """HumanEval+ on the hub has HumanEval's columns."""
    return humaneval(row, reader)


def mbpp_plus(row: dict[str, Any], reader: RowReader) -> Problem:
    """MBPP+ on the hub: MBPP's columns, and all tests as one module."""
    asserts, solution = texts(row.get("test_list")), text_field(row, "code")
    name = _tested_function(asserts, solution)
    reader.check(text_field(row, "test"), entry_point=name)
    return reader.record(
        row.get("task_id"),
        {"entry_point": name, "shown_tests": list(asserts)},
        statement=text_field(row, "prompt"),
        fn_name=name,
        language="en",
        references=(solution,),
    )


HUMANEVAL_PLUS = Adapter(
    name="humanevalplus",
    about="HumanEval+ of EvalPlus (https://github.com/evalplus/humanevalplus_release)",
    repo="evalplus/humanevalplus",
    licence="Apache-2.0",
    subsets={
        "test": ("data/test-*.parquet", "HumanEvalPlus*.jsonl.gz", "HumanEvalPlus*.jsonl"),
    },
    needs=(("task_id",), ("prompt",), ("entry_point",), ("test", "base_input")),
    reads=("canonical_solution", "plus_input", "atol"),
    convert=evalplus,
)
MBPP_PLUS = Adapter(
    name="mbppplus",
    about="MBPP+ of EvalPlus (https://github.com/evalplus/mbppplus_release)",
    repo="evalplus/mbppplus",
    licence="Apache-2.0",
    subsets={"test": ("data/test-*.parquet", "MbppPlus*.jsonl.gz", "MbppPlus*.jsonl")},
    needs=(("task_id",), ("prompt",), ("code", "canonical_solution"), ("test", "base_input")),
    reads=("entry_point", "test_list", "test_imports", "plus_input", "atol"),
    convert=evalplus,
)

# KodCode ------------------------------------------------------------------------------------------


def _pytest_module(source: str) -> tuple[str, list[str], str]:
    """A test module without its import of the solution, its test functions, the first import."""
    module = _parse(source, "test")
    kept, imported = [], ""
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module == "solution":
            if any(alias.name == "*" or alias.asname for alias in node.names):
                raise Unusable("unsupported", "its tests rename what they import from solution")
            imported = imported or node.names[0].name
        elif not (isinstance(node, ast.Import) and node.names[0].name in ("pytest", "solution")):
            kept.append(node)
    used = {node.id for node in ast.walk(ast.Module(kept, [])) if isinstance(node, ast.Name)}
    if foreign := used & {"pytest", "solution"}:
        raise Unusable("unsupported", f"its tests need the module {sorted(foreign)[0]}")
    functions = [node for node in kept if isinstance(node, ast.FunctionDef)]
    tests = [node for node in functions if node.name.startswith("test")]
    for node in tests:
        if node.args.posonlyargs or node.args.args or node.args.kwonlyargs:
            raise Unusable("unsupported", f"its test {node.name} needs a fixture")
    return ast.unparse(ast.Module(kept, [])), [node.name for node in tests], imported


KODCODE = Adapter(
    name="kodcode",
    about="KodCode-V1, synthetic (https://huggingface.co/datasets/KodCode/KodCode-V1)",
    repo="KodCode/KodCode-V1",
    licence="CC-BY-NC-4.0",
    subsets={
        "train": ("data/train-*.parquet",),
        "use_with_caution": ("data/use_with_caution-*.parquet",),
    },
    needs=(("question_id",), ("question",), ("test", "test_code")),
    reads=(
        "style", "subset", "solution", "test_info", "gpt_difficulty", "gpt_pass_percentage",
    ),
    convert=kodcode,
)  # fmt: skip
