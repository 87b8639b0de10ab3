"""All reference solutions of HumanEval are accepted, and a broken copy of each is not."""

import copy
import gzip
import json
from pathlib import Path

import pytest

from mcbench.evaluator import CallTest, Submission

DATA = Path(__file__).parents[3] / "shared" / "data" / "HumanEval.jsonl.gz"
MAX_TESTS = 5  # of one problem; some checks loop over a hundred random inputs


def calls_of(problem: dict) -> list[CallTest]:
    """The calls that the problem's own check makes, with the reference's answers.

    Test and reference are the data set's own (trusted) code and run here, not in the sandbox.
    """
    names: dict = {}
    exec(problem["prompt"] + problem["canonical_solution"] + problem["test"], names)
    reference = names[problem["entry_point"]]
    tests: list[CallTest] = []

    def candidate(*args: object) -> object:
        given = copy.deepcopy(args)
        value = reference(*args)
        if len(tests) < MAX_TESTS:
            tests.append(CallTest(problem["entry_point"], given, copy.deepcopy(value)))
        return value

    names["check"](candidate)
    return tests


@pytest.mark.skipif(not DATA.exists(), reason="the HumanEval file is not beside the repository")
def test_reference_solutions(evaluator):
    problems = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
    assert len(problems) == 164
    right, wrong = [], []
    for problem in problems:
        tests = calls_of(problem)
        code = problem["prompt"] + problem["canonical_solution"]
        name = problem["entry_point"]
        right.append(Submission(code, tests, time_limit_s=5))
        lie = f"\n_right = {name}\ndef {name}(*args): return [_right(*args)]"
        wrong.append(Submission(code + lie, tests))
    results = evaluator.evaluate(right)
    failed = [(p["task_id"], r) for p, r in zip(problems, results, strict=True) if not r.passed]
    assert not failed
    assert not any(r.passed for r in evaluator.evaluate(wrong, early_exit=True))
