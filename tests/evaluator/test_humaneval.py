"""HumanEval: the reference solutions are accepted, and broken ones judged as plain Python does."""

import ast
import gzip
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcbench.evaluator import AssertTest, Submission

DATA = Path(__file__).parents[3] / "shared" / "data" / "HumanEval.jsonl.gz"
pytestmark = pytest.mark.skipif(
    not DATA.exists(), reason="the HumanEval file is not beside the repository"
)
TIME_LIMIT_S = 5.0
SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.Mult, ast.Lt: ast.GtE}
SWAPS |= {ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
SWAPS |= {ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.FloorDiv: ast.Mult}


@pytest.fixture(scope="module")
def problems() -> list[dict]:
    rows = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
    assert len(rows) == 164
    return rows


def test_of(problem: dict) -> AssertTest:
    name = problem["entry_point"]
    return AssertTest(f"{problem['test']}\ncheck({name})", name, problem["prompt"])


test_of.__test__ = False


def mutant(source: str, entry_point: str, rng: random.Random) -> str:
    """The program with one constant or one operator of the solution changed."""
    tree = ast.parse(source)
    function = next(f for f in tree.body[::-1] if getattr(f, "name", "") == entry_point)
    body = [node for statement in function.body[1:] for node in ast.walk(statement)]
    places = [n for n in body if type(getattr(n, "op", None)) in SWAPS]
    places += [n for n in body if isinstance(n, ast.Compare) and type(n.ops[0]) in SWAPS]
    places += [n for n in body if isinstance(n, ast.Constant) and type(n.value) in (int, str, bool)]
    if not places:  # such as: return x
        function.body[-1:] = ast.parse("return None").body
        return ast.unparse(ast.fix_missing_locations(tree))
    node = rng.choice(places)
    if isinstance(node, ast.Constant):
        changed = {bool: lambda v: not v, int: lambda v: v + 1, str: lambda v: v + "x"}
        node.value = changed[type(node.value)](node.value)
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    else:
        node.op = SWAPS[type(node.op)]()
    return ast.unparse(tree)


def plain_python_passes(program: str) -> bool:
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, timeout=2 * TIME_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def test_reference_solutions(problems, evaluator):
    submissions = [
        Submission(p["prompt"] + p["canonical_solution"], [test_of(p)], TIME_LIMIT_S)
        for p in problems
    ]
    results = evaluator.evaluate(submissions)
    assert not [r for r in results if not r.passed]


@pytest.mark.slow
def test_mutants_are_judged_as_plain_python_judges_them(problems, evaluator):
    rng = random.Random(0)
    programs = [
        mutant(p["prompt"] + p["canonical_solution"], p["entry_point"], rng) for p in problems
    ]
    plain = [
        f"{program}\n{p['test']}\ncheck({p['entry_point']})"
        for program, p in zip(programs, problems, strict=True)
    ]
    with ThreadPoolExecutor(2) as pool:
        expected = list(pool.map(plain_python_passes, plain))
    assert 5 < sum(expected) < 60  # some mutants are equal to their original
    results = evaluator.evaluate(
        [
            Submission(program, [test_of(p)], TIME_LIMIT_S)
            for program, p in zip(programs, problems, strict=True)
        ]
    )
    differ = [
        (p["task_id"], wanted, result)
        for p, wanted, result in zip(problems, expected, results, strict=True)
        if result.passed != wanted
    ]
    assert not differ
