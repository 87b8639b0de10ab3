"""Self-play on repair: which injections are bugs, and what becomes of them; nothing leaks."""

from itertools import islice

import pytest

from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.worlds import TASKS, TaskReward, repair, self_play, task_of

from .test_repair import BUGGY, FIX, RIGHT, Spy, block, fixed

LINE = "a = [v + 3 for v in a]"
PROBLEM = FIX.__class__(
    "self-play/fix/1", repair.prompt(FIX.statement, BUGGY, "Fix the bug."), "stdin", FIX.tests,
    kind="fix", source="self-play", references=(RIGHT,), metadata=FIX.metadata,
)  # fmt: skip
BUG = fixed(block(LINE, "a = [v - 3 for v in a]"))
# An injection, and what becomes of it.
INJECTIONS = {
    "wrong on a test": (BUG, "AC"),
    "the same result": (fixed(block(LINE, "a = [3 + v for v in a]")), "not-noticed"),
    "a runtime error": (fixed(block(LINE, "a = b")), "breaks-off"),
    "no program": (fixed(block(LINE, "a = [")), "breaks-off"),
    "a loop without end": (fixed(block(LINE, "while a: a = a")), "breaks-off"),
    "no change": (fixed(block(LINE, LINE)), "no-change"),
    "another file": (fixed(block("", "x").replace(repair.PATH, "x.py")), "no-change"),
    "changed, and changed back": (fixed(block(LINE, "b"), block("b", LINE)), "no-change"),
    "a line of the bug that it had": (fixed(block("a = [v + 4 for v in a]", "a")), "not-found"),
    "no thought": (fixed(block(LINE, "a = a"), thought=" "), "no-thought"),
    "nothing": ("", "tags"),
}


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=1) as one:
        yield one


def test_an_injection_is_a_bug_if_the_program_ends_and_is_wrong(evaluator):
    texts = [text for text, _ in INJECTIONS.values()]
    made = self_play.posed([PROBLEM] * len(texts), texts, evaluator)
    assert [judged.verdict for _, judged in made] == [told for _, told in INJECTIONS.values()]
    assert [one is not None for one, _ in made] == [True] + [False] * (len(texts) - 1)


def test_a_posed_bug_is_a_problem_to_fix(evaluator):
    ((bug, _),) = self_play.posed([PROBLEM], [BUG], evaluator)
    assert bug.metadata["buggy"] == RIGHT.replace("v + 3", "v - 3")
    assert bug.statement == PROBLEM.statement.replace("v + 4", "v - 3")
    assert (bug.kind, task_of([bug])) == ("fix", TASKS["self-play"])
    good = fixed(block("a = [v - 3 for v in a]", LINE))
    judge = TASKS["self-play"].judge
    found = judge([bug] * 2, [good, BUG], "tests", evaluator)
    assert [(one.reward, one.verdict) for one in found] == [(1, "AC"), (0, "not-found")]
    (again, _), (other, _) = self_play.posed(
        [PROBLEM] * 2, [BUG, fixed(block(LINE, "a = [v + 1 for v in a]"))], evaluator
    )
    assert again.id == bug.id != other.id  # by the bug, whoever wrote it


def test_what_fails_by_our_own_fault_is_neither(evaluator):
    class Broken:
        def evaluate(self, submissions):
            from mcbench.evaluator.submission import Result, TestResult

            return [Result((TestResult("IE"),)) for _ in submissions]

    ((bug, judged),) = self_play.posed([PROBLEM], [BUG], Broken())
    assert (bug, judged.passed, judged.verdict) == (None, None, "IE")


def test_the_injector_sees_the_right_program_and_no_test():
    for problem in (PROBLEM, *self_play.load("self-play:train")[:20]):
        asked = self_play.asked(problem)
        assert asked.statement.startswith("Break the code.\nSteps: ")
        assert asked.references[0] in asked.statement
        assert asked.statement.replace(asked.references[0], problem.metadata["buggy"]) == (
            problem.statement.replace("Fix the bug.", "Break the code.")
        )
        assert not any(repr(test["stdin"])[1:-1] in asked.statement for test in asked.tests)


def test_no_child_process_gets_what_is_expected_of_a_bug(evaluator):
    marked = tuple({**test, "expected": "SECRET7351\n"} for test in PROBLEM.tests)
    problem = PROBLEM.__class__(**{**vars(PROBLEM), "tests": marked})
    spy = Spy(evaluator)
    spy_all = type("All", (), {"evaluate": lambda self, given: spy.evaluate(given)})()
    self_play.posed([problem], [BUG], spy_all)
    assert spy.sent
    assert not any("SECRET7351" in one or RIGHT in one for one in spy.sent)


def test_the_sets_have_the_same_programs_and_the_test_others():
    fixed_bugs, mutants, test = (self_play.load(f"{name}") for name in TASKS["self-play"].sets)
    assert (len(fixed_bugs), len(test)) == (48, 120)
    programs = [one.metadata["program"] for one in fixed_bugs]
    assert len(set(programs)) == 48
    assert {one.metadata["program"] for one in mutants} == set(programs)
    assert {one.statement for one in fixed_bugs} <= {one.statement for one in mutants}
    assert len({one.statement for one in mutants}) == len(mutants) > 300
    assert not set(programs) & {one.metadata["program"] for one in test}
    for one in (*fixed_bugs, *mutants, *test):
        assert one.metadata["buggy"] in one.statement
        assert repair.is_noticed(one.metadata["buggy"], one.tests)
        assert not repair.is_noticed(one.references[0], one.tests)


def test_demonstrations_of_both_roles_are_well_formed():
    found = {"Break the code.": 0, "Fix the bug.": 0}
    for prompt, answer in islice(self_play.demonstrations(0), 60):
        found[prompt.partition("\n")[0]] += 1
        _, _, shown = prompt.removesuffix("Answer:\n").partition("### main.py\n")
        (pair,) = repair.edits_of(answer)["main.py"]
        assert pair[0] in shown
    assert min(found.values()) > 15


def test_rows_that_pose_are_plain_texts(evaluator):
    told = TaskReward(TASKS["self-play"], "tests", [PROBLEM], evaluator)
    row = {"problem_id": PROBLEM.id, "prompt": PROBLEM.statement, "other": 1}
    asked = told.asked(row)
    assert (asked["prompt"], asked["other"]) == (self_play.asked(PROBLEM).statement, 1)
    (posed, judged), (none, _) = told.posed([row] * 2, [BUG, "no"])
    assert (judged.passed, none) == (True, None)
    assert posed["prompt"] == told.problems[posed["problem_id"]].statement
    with pytest.raises(UserError, match="prompt_style=plain"):
        told.asked({**row, "prompt": [{"role": "user", "content": "x"}]})
    assert not TaskReward(TASKS["repair"], "tests", [FIX], evaluator).can_pose
