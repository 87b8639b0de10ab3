"""Repair: SWE-RL's and Kimi-Dev's rewards against numbers worked out by hand; nothing leaks."""

import json
from dataclasses import replace

import pytest

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.evaluator.judge import job_for
from mcbench.worlds import TASKS, TaskReward, repair, task_of
from mcbench.worlds.base import Judged

BUGGY = "a = list(map(int, input().split()))\na = [v + 4 for v in a]\nprint(sum(a))\n"
RIGHT = BUGGY.replace("v + 4", "v + 3")
FIX = Problem(
    "repair/fix/1", "Fix the bug.", "stdin",
    tests=({"stdin": "1 2 3\n", "expected": "15\n"}, {"stdin": "5\n", "expected": "8\n"}),
    kind="fix", source="repair", references=(RIGHT,),
    metadata={"program": "described:add3,sum", "bug": "1", "buggy": BUGGY},
)  # fmt: skip
WRITE = replace(FIX, id="repair/write/1", kind="write", statement="Write a test that fails.")


def block(search, put, path="main.py"):
    return f"```python\n### {path}\n<<<<<<< SEARCH\n{search}\n=======\n{put}\n>>>>>>> REPLACE\n```"


def fixed(*blocks, thought="look"):
    body = "\n".join(blocks)
    return f"<think>\n{thought}\n</think>\n<solution>\n{body}\n</solution>"


def written(given, out, thought="look"):
    return f"<think>\n{thought}\n</think>\n<test>\nin{given} out{out}\n</test>"


LINE = "a = [v + 4 for v in a]"
GOOD = fixed(block(LINE, "a = [v + 3 for v in a]"))
NEAR = fixed(block(LINE, "a = [v + 5 for v in a]"))
MALFORMED = {
    "empty": ("", "tags"),
    "no thought's tags": (GOOD.replace("<think>\n", ""), "tags"),
    "a tag twice": (GOOD + "<think>", "tags"),
    "no solution": (GOOD.partition("<solution>")[0], "tags"),
    "empty thought": (fixed(block(LINE, "a = a"), thought=" "), "no thought"),
    "no edit": (fixed("print(1)"), "no edit"),
    "cut inside the edit": (fixed(block(LINE, "a = a")[:-4]), "no edit"),
    "search is replacement": (fixed(block(LINE, LINE)), "no change"),
    "not there": (fixed(block("a = [v + 9 for v in a]", "a = a")), "not found"),
    "not at a line's start": (fixed(block("[v + 4 for v in a]", "a")), "not found"),
    "a file that is not there": (fixed(block("x", "y", "other.py")), "not found"),
    "oversized": (fixed(block(LINE, "a = a  #" + "x" * repair.MAX_ANSWER)), "oversized"),
}


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=1) as one:
        yield one


def test_similarity_is_the_ratio_of_the_diffs():
    old = {"main.py": "a = 1\nb = 2\nprint(a)\n"}
    gold = {"main.py": "a = 1\nb = 3\nprint(a)\n"}
    assert repair.diff(old["main.py"], gold["main.py"]) == (
        "@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n print(a)"
    )
    near = {"main.py": "a = 1\nb = 4\nprint(a)\n"}
    # 46 characters each, of which 45 match
    assert repair.similarity(old, near, gold) == pytest.approx(2 * 45 / 92)
    assert repair.similarity(old, gold, gold) == 1
    assert repair.similarity(old, {**gold, "other.py": "x = 1\n"}, gold) == 0.5  # the union
    assert repair.similarity(old, old, gold) == 0  # one side is empty
    assert repair.similarity(old, old, old) == 1  # no file changes on either side


def test_every_occurrence_at_a_line_s_start_is_replaced():
    files = {"f": "x = 1\ny\nx = 1\n  x = 1\n"}
    assert repair.edited(files, {"f": [("x = 1", "z")]}) == {"f": "z\ny\nz\n  x = 1\n"}
    twice = {"f": [("y", "w"), ("w", "v")]}  # one edit after the other
    assert repair.edited(files, twice)["f"].splitlines()[1] == "v"


def test_patches_are_judged_by_tests_and_by_similarity(evaluator):
    problems = [FIX] * 2
    by_tests = repair.judge(problems, [GOOD, NEAR], "tests", evaluator)
    assert [(one.reward, one.passed, one.verdict) for one in by_tests] == [
        (1.0, True, "AC"), (0.0, False, "WA")
    ]  # fmt: skip
    alike = repair.judge(problems, [GOOD, NEAR], "similarity", evaluator)
    assert [one.passed for one in alike] == [True, False]
    shown = repair.diff(BUGGY, RIGHT)
    assert alike[0].reward == 1
    assert alike[1].reward == pytest.approx((len(shown) - 1) / len(shown))
    assert alike[1].parts == {"malformed": 0, "fixed": 0, "similarity": alike[1].reward}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_patch_has_its_penalty(case, evaluator):
    text, message = MALFORMED[case]
    for reward, value in (("tests", 0.0), ("similarity", -1.0)):
        (one,) = repair.judge([FIX], [text], reward, evaluator)
        assert (one.reward, one.passed, one.message) == (value, False, message)
        assert one.parts["malformed"] == 1


def test_a_test_must_fail_before_and_pass_after(evaluator):
    cases = {
        written(" 1 2 3", " 15"): 1.0,
        written(" 1 2 3", " 18"): 0.0,  # passes before, fails after
        written(" 1 2 3", " 16"): 0.0,  # fails before and after
        written(" 1 2 3", ""): 0.0,
        written("", " 15"): 0.0,
        written(" x", " 15"): 0.0,
        written(" 1 2 3", " 15", thought=""): 0.0,
        written(" 1 2 3", " 15") + "more": 0.0,
        written(" 1" * 13, " 52"): 0.0,
        written(" 1 2 3", " 15")[:-2]: 0.0,
        "x" * 10_000: 0.0,
        "": 0.0,
    }
    found = repair.judge([WRITE] * len(cases), list(cases), "similarity", evaluator)
    assert [one.reward for one in found] == list(cases.values())
    equal = replace(WRITE, metadata={**WRITE.metadata, "buggy": RIGHT})
    (one,) = repair.judge([equal], [written(" 1 2 3", " 15")], "tests", evaluator)
    assert (one.passed, one.message) == (False, "bug not shown")


def test_our_own_failure_is_no_reward():
    class Broken:
        def evaluate(self, submissions, early_exit=False):
            from mcbench.evaluator.submission import Result, TestResult

            return [Result((TestResult("IE"),)) for _ in submissions]

    for problem, text in ((FIX, GOOD), (WRITE, written(" 1 2 3", " 15"))):
        (one,) = repair.judge([problem], [text], "tests", Broken())
        assert (one.reward, one.passed, one.verdict) == (None, None, "IE")


def test_written_tests_choose_a_patch(evaluator):
    # Two fail before and one passes: patch 0 passes one and none, 1 both and all, 2 none and all.
    before = [False, False, True]
    after = [[True, False, False], [True, True, True], [False, False, True]]
    assert repair.scores(before, after) == [0.5, 2.0, 1.0]
    assert repair.scores([], [[], []]) == [0, 0]
    texts = [[NEAR, "no patch", GOOD], [written(" 1 2 3", " 15"), written(" 2", " 6"), ""]]
    assert repair.summary([FIX, WRITE], texts, evaluator) == pytest.approx(
        {"selected": 1, "single": 1 / 3, "any": 1}
    )
    nothing = repair.summary([FIX, WRITE], [["", ""], ["", ""]], evaluator)
    assert nothing == {"selected": 0, "single": 0, "any": 0}
    assert repair.summary([FIX], [[GOOD]], evaluator) == {}


class Spy:
    """An evaluator that keeps all that would be sent to a child process."""

    def __init__(self, evaluator):
        self.evaluator, self.sent = evaluator, []

    def evaluate(self, submissions, early_exit=False):
        for one in submissions:
            for i in range(len(one.tests)):
                job = job_for(one, i, 1 << 16)
                self.sent += [job.code.decode(), job.data.decode(), repr(job.request)]
        return self.evaluator.evaluate(submissions, early_exit=early_exit)


def test_no_child_process_gets_the_right_program_or_what_is_expected(evaluator):
    marker = "SECRET7351"
    gold = replace(
        FIX,
        references=(RIGHT + f"# {marker}\n",),
        tests=tuple({**test, "expected": f"{marker}\n"} for test in FIX.tests),
        metadata={**FIX.metadata, "note": marker},
    )
    spy = Spy(evaluator)
    write = replace(WRITE, references=gold.references, tests=gold.tests, metadata=gold.metadata)
    problems = [gold, gold, write, write]
    texts = [GOOD, NEAR, written(" 1 2 3", " 15"), written(" 1 2 3", " 18")]
    for reward in repair.TASK.rewards:
        repair.judge(problems, texts, reward, spy)
    repair.summary([gold, write], [texts[:2], texts[2:]], spy)
    assert spy.sent
    assert not any(marker in one for one in spy.sent)


def test_prompts_hold_the_bug_and_not_the_right_line():
    train, test = repair.load("repair:train")[:80], repair.load("repair:test")
    assert (len(repair.load("repair:train")), len(test)) == (600, 120)
    assert [one.kind for one in test[:4]] == ["fix", "write"] * 2
    for one in (*train, *test):
        assert one.metadata["buggy"] in one.statement
        assert one.references[0] not in one.statement
        assert one.metadata["buggy"] != one.references[0]
        assert not any(json.dumps(t["expected"]) in one.statement for t in one.tests)
        assert task_of([one]) is TASKS["repair"]
    programs = {one.metadata["program"] for one in repair.load("repair:train")}
    assert not programs & {one.metadata["program"] for one in test}
    alone = repair.load("repair-fix:train")
    both = repair.load("repair:train")
    assert [one.id for one in alone] == [one.id for one in both if one.kind == "fix"]


def test_demonstrations_are_well_formed_and_partly_right(evaluator):
    stream = repair.demonstrations(0)
    kinds = {"Fix": FIX, "Write": WRITE}
    rows = [next(stream) for _ in range(60)]
    answers = [repair.read(_as_problem(kinds[p.split()[0]], p), a) for p, a in rows]
    assert not [one.error for one in answers if one.error not in ("", "no change")]


def _as_problem(known, prompt):
    _, _, buggy = prompt.removesuffix("Answer:\n").partition("### main.py\n")
    return replace(known, metadata={**known.metadata, "buggy": buggy})


def test_a_reward_of_another_task_is_refused_and_parts_are_logged(evaluator):
    with pytest.raises(UserError, match="reward of the task 'repair'"):
        TaskReward(repair.TASK, "nothing", [FIX], evaluator)
    logged, extra = {}, {}
    reward = TaskReward(repair.TASK, "similarity", [FIX, WRITE], evaluator)
    found = reward(
        ["p"] * 2, [[{"role": "assistant", "content": GOOD}], "nothing"],
        problem_id=[FIX.id, WRITE.id], log_extra=extra.__setitem__, log_metric=logged.__setitem__,
    )  # fmt: skip
    assert found == [1.0, 0.0]
    assert extra == {"verdicts": ["AC", "tags"]}
    assert logged == {
        "task/passed": 0.5, "task/malformed": 0.5, "task/fixed": 1, "task/killed": 0,
        "task/similarity": 1,
    }  # fmt: skip
    assert Judged(None, None).verdict == "IE"
    assert Judged(0.0, False, {}, "bug not shown").verdict == "bug-not-shown"
