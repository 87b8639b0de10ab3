"""The generated problems: sound references, tests that single them out, splits that do not meet."""

from collections import Counter
from itertools import combinations, islice

import pytest

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.worlds import described, induced
from mcbench.worlds.corpus import MODERN, demonstrations
from mcbench.worlds.graded import load_solvable
from mcbench.worlds.nano import model_path
from mcbench.worlds.problems import execute, induced_programs, load_balanced, load_split


@pytest.fixture(scope="module")
def train():
    return load_split("train", size=400)


@pytest.fixture(scope="module")
def held_out():
    return load_split("test")


def inputs(problem: Problem) -> list:
    return [t["stdin"].strip() if problem.form == "stdin" else t["args"][0] for t in problem.tests]


def test_references_pass_their_own_tests(train, held_out):
    for problem in (*train, *held_out):
        for value, test in zip(inputs(problem), problem.tests, strict=True):
            assert execute(problem.references[0], problem.form, value) == test["expected"]


def examples(statement: str) -> frozenset[str]:
    return frozenset(line for line in statement.splitlines() if line.startswith("in "))


def test_splits_share_no_program_and_no_examples(train, held_out):
    assert not {p.metadata["program"] for p in held_out} & {p.metadata["program"] for p in train}
    assert not {p.statement for p in held_out} & {p.statement for p in train}
    shown = [{examples(p.statement) for p in ps if p.kind == "induced"} for ps in (held_out, train)]
    assert not shown[0] & shown[1]


def test_no_two_induced_programs_compute_the_same_function():
    tables = [induced.values(*p) for split in ("train", "test") for p in induced_programs(split)]
    assert len(tables) == len(set(tables))
    assert not any(table == induced.DOMAIN or len(set(table)) == 1 for table in tables)


def test_examples_of_an_induced_problem_fit_one_function_only():
    problem = induced.Induced(1, 3, ((2, 7), (5, 13), (1, 5), (8, 19)), "stdin")
    assert induced.consistent(problem.examples) == {induced.values(1, 3)}
    # y = 4 for one example only: many functions fit
    assert len(induced.consistent(((1, 4),))) > 5


def test_described_pipelines_need_every_step():
    """A pipeline whose second sort changes nothing is rejected, whatever inputs are drawn."""
    import random

    from mcbench.worlds.problems import described_problem

    sort = next(i for i, op in enumerate(described.OPS) if op.name == "sort")
    twice = described.Described(((sort, None), (sort, None)), 0, "stdin", (0, 0, 0))
    once = described.Described(((sort, None),), 0, "stdin", (0, 0))
    assert described_problem(twice, random.Random(0)) is None
    assert described_problem(once, random.Random(0)) is not None


def test_a_shorter_pipeline_fails_some_test(train):
    for problem in [p for p in train if p.kind == "described" and p.form == "call"][:40]:
        lines = problem.references[0].splitlines()
        head, body, result = lines[:2], lines[2:-1], lines[-1]
        for n in range(len(body)):
            for kept in combinations(body, n):
                source = "\n".join([*head, *kept, result]) + "\n"
                assert any(
                    execute(source, "call", t["args"][0]) != t["expected"] for t in problem.tests
                )


def test_test_set_has_every_form_and_difficulty_equally_often(held_out):
    cells = [(p.form, p.difficulty) for p in held_out]
    assert {cells.count(cell) for cell in cells} == {len(held_out) // 6}


@pytest.mark.slow
def test_balanced_sets_have_every_feature_equally_often_and_share_nothing():
    train, test = load_balanced("train"), load_balanced("test")
    assert (len(train), len(test)) == (1500, 240)
    for problems in (train, test):
        induced_ones = [p for p in problems if p.kind == "induced"]
        assert len(induced_ones) == round(0.65 * len(problems))
        counts = Counter(p.metadata["program"].rpartition("+")[0] for p in induced_ones)
        assert len(counts) == 16
        assert max(counts.values()) - min(counts.values()) <= 1
        cells = Counter((p.form, p.difficulty) for p in problems if p.kind == "described")
        assert max(cells.values()) - min(cells.values()) <= 1
    assert not {p.metadata["program"] for p in train} & {p.metadata["program"] for p in test}
    solvable = load_solvable()  # of the 1,500, 182 were never solved and 29 always
    assert len(solvable) == 1500 - 182 - 29
    assert {p.id for p in solvable} < {p.id for p in train}
    shown = [{examples(p.statement) for p in ps if p.kind == "induced"} for ps in (train, test)]
    assert not shown[0] & shown[1]
    corpus = {statement for statement, _ in islice(demonstrations(0, MODERN), 3000)}
    assert not corpus & {p.statement for p in test}


def test_sets_are_the_same_every_time(held_out):
    load_split.cache_clear()
    assert load_split("test") == held_out


@pytest.mark.slow
def test_demonstrations_show_no_test_problem_and_hide_no_induced_program():
    many = load_split("test", size=600)
    pipelines = {p.statement for p in many if p.kind == "described"}
    shown = {examples(p.statement) for p in many if p.kind == "induced"}
    for statement, _ in islice(demonstrations(0, MODERN), 3000):
        assert statement not in pipelines
        assert examples(statement) not in shown


def test_unknown_names_are_refused():
    with pytest.raises(UserError, match="allowed: test, train"):
        load_split("dev")
    with pytest.raises(UserError, match="allowed: nano-branches, nano-m, nano-old"):
        model_path("nano-xl")
