"""Denser rewards against values worked out by hand; what is malformed gets its penalty."""

import json
import pickle
import subprocess
import sys

import pytest

from benchmarks.published import ProcessPerSample
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.worlds import TASKS, branches, code_bleu, dense
from mcbench.worlds.words import FENCE_CLOSE
from tests.quick import every

from .originals import FAULTS, LIKENESS


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=1) as found:
        yield found


@pytest.fixture(scope="module")
def problem():
    """The first value even: reverse the list; else sort it. Then drop the first value, give all."""
    task = (0, ((10, None), (8, None), (11, None)), 0)  # flip, sort, tail; all
    return branches.problem(task, ["2 3 1", "4 1 1", "3 1 2", "5 4 6"], "branch")


RIGHT = """\
a = list(map(int, input().split()))
if a[0] % 2 == 0:
    a = a[::-1]
else:
    a = sorted(a)
a = a[1:]
print(*a)
"""


def judged(problem, evaluator, *codes, reward="outcomes", end=FENCE_CLOSE):
    found = dense.judge([problem] * len(codes), [code + end for code in codes], reward, evaluator)
    return [(one, json.loads(one.notes)) for one in found]


def test_the_reference_is_the_program_above(problem):
    assert problem.references == (RIGHT,)
    assert [test["expected"] for test in problem.tests] == ["3 2\n", "1 4\n", "2 3\n", "5 6\n"]


def test_the_four_outcomes_and_what_they_are_worth(problem, evaluator):
    wrong = RIGHT.replace("a[1:]", "a[:-1]")
    half = RIGHT.replace("sorted(a)", "a")  # right where the first value is even; "1 2" is not
    crash = RIGHT.replace("a = a[1:]", "a = b")
    broken = RIGHT.replace("else:", "else")
    codes = (RIGHT, wrong, half, crash, broken)
    by_reward = {
        reward: [one.reward for one, _ in judged(problem, evaluator, *codes, reward=reward)]
        for reward in ("tests", "outcomes", "ratio")
    }
    assert by_reward["tests"] == [1, 0, 0, 0, 0]
    assert by_reward["outcomes"] == [1, -0.3, -0.3, -0.6, -1]
    # 2 of 4 and, unsorted, "1 2" and "4 6" for "2 3" and "5 6".
    assert by_reward["ratio"] == pytest.approx([1, -0.3, -0.3 + 1.3 / 2, -0.6, -1])
    found = judged(problem, evaluator, *codes)
    assert [notes["outcome"] for _, notes in found] == [3, 1 + 1, 2, 1, 0]
    assert [one.passed for one, _ in found] == [True, False, False, False, False]
    spans = [notes["blamed"] for _, notes in found]
    assert spans[:3] == [None, None, None]
    assert [crash[slice(*spans[3])], broken[slice(*spans[4])]] == ["a = b", "else"]
    assert [one.parts["runtime_error"] for one, _ in found] == [0, 0, 0, 1, 0]


def test_lines_that_no_test_reached(problem, evaluator):
    crash = RIGHT.replace("    a = a[::-1]", "    a = b").replace("    a = sorted(a)", "    a = c")
    dead = RIGHT.replace("a = a[1:]\n", "a = a[1:]\nif not a:\n    a = [0]\n    a = [1]\n")
    (_, ran), (_, broke), (_, unreached) = judged(problem, evaluator, RIGHT, crash, dead)
    assert ran["unexecuted"] == []  # either branch is taken, and "else:" is no statement
    assert (broke["unexecuted"], crash[slice(*broke["blamed"])]) == ([6, 7], "a = b")
    assert unreached["unexecuted"] == [8, 9]


@pytest.mark.parametrize(
    ("response", "blamed"),
    [
        ("", None), ("no fence", None), (RIGHT, None), (FENCE_CLOSE, None),
        ("x\n" * 1500 + FENCE_CLOSE, None), ("def f(:\n" + FENCE_CLOSE, [0, 10**9]),
        ("x = 1\na = (\n" + FENCE_CLOSE, [6, 11]), ("\x00" + FENCE_CLOSE, None),
        ("(" * 900 + FENCE_CLOSE, [0, 900]),
    ],
)  # fmt: skip
def test_malformed_answers_are_no_program(problem, evaluator, response, blamed):
    """Only the empty program is one: it runs, and prints nothing."""
    (one,) = dense.judge([problem], [response], "outcomes", evaluator)
    empty = response == FENCE_CLOSE
    assert (one.reward, one.message) == ((-0.3, "wrong answer") if empty else (-1, "no program"))
    assert json.loads(one.notes)["blamed"] == blamed
    alike = dense.judge([problem], [response], "ppocoder", evaluator)[0].reward
    assert (1 <= alike < 3) if empty else (-1 <= alike <= 1)


def test_runs_that_never_end_are_blamed_as_a_whole(problem, evaluator):
    (one, notes), (deep, whole), (left, end) = judged(
        problem, evaluator, "while True: pass\n", "def f(): f()\nf()\n", "input()\ninput()\n"
    )
    assert (one.reward, deep.reward, left.reward) == (-0.6, -0.6, -0.6)
    assert [one["blamed"] for one in (notes, whole, end)] == [[0, 10**9], [0, 10**9], [0, 7]]
    assert notes["unexecuted"] == []  # nobody knows


@pytest.mark.parametrize("forged", ["[3]", "[[1], [2]]", "{}", "[[null], []]", "[[1], []] x"])
def test_a_forged_trace_is_no_trace(problem, evaluator, forged):
    code = f"import os, sys\nos.write(1, b'{forged}')\nos._exit(0)\nprint(1)\n"
    ((one, notes),) = judged(problem, evaluator, code)
    assert one.passed is False
    assert (notes["blamed"], notes["unexecuted"]) == (None, [])


def test_lines_that_were_given_count_and_are_not_blamed(problem, evaluator):
    half = branches.problem((0, ((10, None), (8, None), (11, None)), 0), ["2 3 1"], "half")
    given = half.metadata["given"]
    assert given.count("\n") == 5
    assert half.statement.endswith(given)
    (one,) = dense.judge([half], ["a = b\nprint(1)\n" + FENCE_CLOSE], "outcomes", evaluator)
    notes = json.loads(one.notes)
    assert (notes["blamed"], notes["unexecuted"]) == ([0, 5], [2])


def test_nothing_of_the_hidden_truth_is_in_a_prompt_or_reaches_the_traced_process(
    problem, evaluator
):
    seen = []

    class Spy:
        def evaluate(self, submissions, **options):
            seen.extend(submissions)
            return evaluator.evaluate(submissions, **options)

    dense.judge([problem], ["print(1)\n" + FENCE_CLOSE], "ppocoder", Spy())
    assert RIGHT not in problem.statement
    for one in seen:
        assert RIGHT not in one.code
        assert all(RIGHT.strip() not in test.stdin for test in one.tests)
    assert "3 2" not in seen[1].tests[0].stdin  # an expected output


@pytest.mark.parametrize(("ours", "gold", "syntax", "flow"), LIKENESS)
def test_likeness_is_ppocoder_s(ours, gold, syntax, flow):
    assert code_bleu.matches(ours, gold) == pytest.approx((syntax, flow), abs=1e-8)


@pytest.mark.parametrize(("code", "kind", "text"), FAULTS)
def test_blame_is_rltf_s(code, kind, text):
    tree = dense.parsed(code)
    failed = []
    if not isinstance(tree, SyntaxError):
        asked = json.dumps([code, [""]])
        traced = subprocess.run(
            [sys.executable, "-c", dense._TRACER], input=asked, capture_output=True, text=True
        )
        failed = json.loads(traced.stdout)[1]
    found = dense.fault(code, tree if isinstance(tree, SyntaxError) else None, failed, [])
    assert found == {"ignore": None, "whole": "", "line": text}[kind]


def test_the_first_place_of_the_text_is_blamed():
    """As in RLTF, whatever line it was: where it first stands in the response."""
    assert dense.blamed("b = 1\nb = 1\n", "b = 1") == (0, 5)
    assert dense.blamed("b = 1", "given") is None


def test_similarity_can_rise_while_nothing_passes(problem, evaluator):
    (wrong, _), (right, _) = judged(
        problem, evaluator, RIGHT.replace("a[1:]", "a[2:]"), RIGHT, reward="ppocoder"
    )
    assert right.reward == 3
    assert wrong.reward == pytest.approx(2 + 15 / 17)  # what comes of "1" and of "2" differs
    assert (wrong.passed, right.passed) == (False, True)


class Elsewhere:
    """An evaluator on another machine: what it is given and what it finds travel as data."""

    def __init__(self, evaluator):
        self.evaluator = evaluator

    def evaluate(self, submissions, **options):
        sent = pickle.loads(pickle.dumps(list(submissions)))
        return pickle.loads(pickle.dumps(self.evaluator.evaluate(sent, **options)))


@pytest.mark.parametrize(
    ("name", "reward"),
    every(4, [(task.name, r) for task in TASKS.values() if task.judge for r in task.rewards]),
)
def test_what_a_task_tells_does_not_depend_on_where_programs_run(evaluator, name, reward):
    task = TASKS[name]
    given = task.load(task.sets[0])[:4]
    responses = [
        *(f"{''.join(one.references[:1])}{FENCE_CLOSE}" for one in given), "x = b\n" + FENCE_CLOSE,
    ]  # fmt: skip
    asked = [*given, given[0]], responses, reward
    here, there = (task.judge(*asked, one) for one in (evaluator, Elsewhere(evaluator)))
    assert here == there
    if name == "branches" and reward != "tests":
        assert json.loads(there[-1].notes)["blamed"] == [0, 5]


def test_rules_of_others_leave_a_trace_too(problem):
    with Evaluator(workers=1, rules="livecodebench") as found:
        ((_, notes),) = judged(problem, found, "a = b\n")
    assert notes["blamed"] == [0, 5]
    with ProcessPerSample(1) as found, pytest.raises(UserError, match="keeps no output"):
        judged(problem, found, "a = b\n")


def test_the_sets():
    train, test = branches.load("branches:train"), branches.load("branches:test")
    assert (len(train), len(test)) == (400, 120)
    assert not {one.references for one in train} & {one.references for one in test}
    assert {one.kind for one in test} == {"branch"}
    text, rest = next(branches.demonstrations(0))
    assert text.startswith(branches.HEAD)
    assert rest.endswith(FENCE_CLOSE)
