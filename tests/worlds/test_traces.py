"""Execution traces: frames as ``sys.settrace`` gives them, judged frame by frame."""

import json
import sys
from dataclasses import replace

import pytest

from mcbench.data.schema import Problem
from mcbench.worlds import TASKS, task_of, traces

SOURCE = "def solve(a):\n    a = [v + 3 for v in a]\n    a = sorted(a)\n    return sum(a)\n"
FRAMES = [
    ("call", {"a": [7, 2]}, "def solve(a):"),
    ("line", {"a": [7, 2]}, "a = [v + 3 for v in a]"),
    ("line", {"a": [10, 5]}, "a = sorted(a)"),
    ("line", {"a": [5, 10]}, "return sum(a)"),
    ("return", 15, "return sum(a)"),
]
TEXT = """\
<call>{"a": "[ 7, 2]"}<at>def solve(a):
<line>{"a": ".."}<at>a = [v + 3 for v in a]
<line>{"a": "[ 10, 5]"}<at>a = sorted(a)
<line>{"a": "[ 5, 10]"}<at>return sum(a)
<return>return sum(a)<arg>" 15"
"""
PROBLEM = Problem(
    "traces/test/0", "Trace.", "call", tests=({"args": [[7, 2]], "expected": 15},),
    fn_name="solve", source="traces", metadata={"frames": [list(one) for one in FRAMES]},
)  # fmt: skip


def judged(text):
    (one,) = traces.judge([PROBLEM], [text], "tests", None)
    return one


def test_frames_are_those_of_settrace():
    before = sys.gettrace()
    assert traces.trace(SOURCE, [7, 2]) == FRAMES
    assert sys.gettrace() is before
    raises = traces.trace("def solve(a):\n    return max(a)\n", [])
    assert raises == [
        ("call", {"a": []}, "def solve(a):"),
        ("line", {"a": []}, "return max(a)"),
        ("exception", "ValueError", "return max(a)"),
        ("return", None, "return max(a)"),
    ]
    text = traces.write(raises)
    assert text.splitlines()[2:] == [
        '<exception>return max(a)<arg>"ValueError"', '<return>return max(a)<arg>"None"'
    ]  # fmt: skip
    assert traces.read(text) == (raises, True)


def test_a_trace_is_written_with_what_changed_alone():
    assert traces.write(FRAMES) == TEXT
    assert traces.read(TEXT) == (FRAMES, True)


# Locals from frame to frame, and how they are written after CWM's ``PROMPTING_GUIDE.md`` (a space
# before a number is ours).
LOCALS = [
    ([{}], ["{}"]), ([{"a": 1}], ['{"a": " 1"}']), ([{"a": -1}], ['{"a": " -1"}']),
    ([{"a": []}], ['{"a": "[]"}']), ([{"a": [1]}], ['{"a": "[ 1]"}']),
    ([{"a": [1, 20]}], ['{"a": "[ 1, 20]"}']), ([{"a": None}], ['{"a": "None"}']),
    ([{"a": 1}, {"a": 1}], ['{"a": " 1"}', '{"a": ".."}']),
    ([{"a": 1}, {"a": 2}], ['{"a": " 1"}', '{"a": " 2"}']),
    ([{"a": 1}, {"a": 1, "b": 2}], ['{"a": " 1"}', '{"a": "..", "b": " 2"}']),
    ([{"a": 1, "b": 2}, {"a": 1, "b": 3}], ['{"a": " 1", "b": " 2"}', '{"a": "..", "b": " 3"}']),
    ([{"a": 1, "b": 2}, {"a": 3, "b": 2}], ['{"a": " 1", "b": " 2"}', '{"a": " 3", "b": ".."}']),
    ([{"a": 1, "b": 2}, {"b": 2}], ['{"a": " 1", "b": " 2"}', '{"b": ".."}']),
    ([{"a": [1]}, {"a": [1]}, {"a": [1]}], ['{"a": "[ 1]"}', '{"a": ".."}', '{"a": ".."}']),
    ([{"a": [1]}, {"a": [2]}, {"a": [1]}], ['{"a": "[ 1]"}', '{"a": "[ 2]"}', '{"a": "[ 1]"}']),
    ([{"a": []}, {"a": []}], ['{"a": "[]"}', '{"a": ".."}']),
    ([{"a": [0]}, {"a": 0}], ['{"a": "[ 0]"}', '{"a": " 0"}']),
    ([{}, {"a": 5}], ["{}", '{"a": " 5"}']),
    ([{"a": None}, {"a": None}], ['{"a": "None"}', '{"a": ".."}']),
    ([{"x": 3, "y": [3]}], ['{"x": " 3", "y": "[ 3]"}']),
    ([{"v": 10}, {"v": 10, "w": 10}, {"v": 11, "w": 10}],
     ['{"v": " 10"}', '{"v": "..", "w": " 10"}', '{"v": " 11", "w": ".."}']),
]  # fmt: skip


@pytest.mark.parametrize(("frames", "written"), LOCALS)
def test_locals_are_cwm_s(frames, written):
    given = [("line", told, "x") for told in frames]
    text = "".join(f"<line>{one}<at>x\n" for one in written)
    assert traces.write(given) == text
    assert traces.read(text) == (given, True)


def test_every_frame_must_be_right():
    right = judged(TEXT)
    assert (right.reward, right.passed, right.message) == (1.0, True, "")
    assert right.parts == {"frames": 1, "first_wrong": 1, "malformed": 0}
    wrong = judged(TEXT.replace("[ 10, 5]", "[ 10, 6]"))
    assert (wrong.reward, wrong.passed, wrong.message) == (-1.0, False, "wrong frame")
    assert wrong.parts == {"frames": 4 / 5, "first_wrong": 2 / 5, "malformed": 0}
    longer = judged(TEXT + '<return>return sum(a)<arg>" 15"\n')
    assert (longer.reward, longer.parts["frames"]) == (-1.0, 5 / 6)
    # What did not change is carried on: one wrong frame makes those after it wrong, too.
    carried = judged(TEXT.replace("[ 5, 10]", ".."))
    assert carried.parts["frames"] == 4 / 5
    assert judged(TEXT.replace(" 15", " true")).reward == -1
    assert judged(TEXT.replace(" 15", " 15.0")).reward == -1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Answer",
        TEXT[:-4],
        TEXT.replace("<at>", "", 1),
        TEXT.replace("{", "[", 1),
        TEXT.replace("<call>", "<cull>"),
        TEXT.replace("[ 10, 5]", "[ 10, 5"),
        TEXT + "[" * 3000,
        TEXT.replace("[ 10, 5]", "[" * 2000),
        TEXT.replace(" 15", " " + "9" * 3500),
        TEXT.replace('"[ 10, 5]"', "[10, 5]"),
        TEXT.replace('{"a": "[ 7, 2]"}', '{"a": ".."}'),
        TEXT * 100,
        TEXT + "\n\nmore",
    ],
)
def test_a_malformed_trace_is_wrong(text):
    found = judged(text)
    assert (found.reward, found.passed) == (-1.0, False)
    assert found.parts["malformed"] == 1 or found.message == "wrong frame"


def test_no_trace_reaches_a_prompt_and_nothing_is_run():
    marker = "SECRET7351"
    hidden = replace(PROBLEM, references=(marker,), metadata={**PROBLEM.metadata, "note": marker})

    class Nothing:
        def __getattr__(self, name):
            raise AssertionError(f"{name}: a trace needs no child process")

    assert traces.judge([hidden], [TEXT], "tests", Nothing())[0].passed
    train, test = traces.load("traces:train"), traces.load("traces:test")
    assert (len(train), len(test)) == (600, 120)
    for one in (*train[:100], *test):
        frames = [tuple(frame) for frame in one.metadata["frames"]]
        assert traces.trace(one.references[0], one.tests[0]["args"][0]) == frames
        assert traces.write(frames) not in one.statement
        later = [f for f in frames[1:] if f[0] == "line" and f[1] != frames[0][1]]
        assert not any(json.dumps(f[1]) in one.statement for f in later)
        assert judge_one(one, traces.write(frames)).passed
        assert task_of([one]) is TASKS["traces"]
    assert not {one.metadata["program"] for one in train} & {
        one.metadata["program"] for one in test
    }
    assert {one.kind for one in test} == {"returns", "raises"}


def judge_one(problem, text):
    return traces.judge([problem], [text], "tests", None)[0]


def test_both_corpora_have_the_same_programs_and_one_has_traces():
    some = [next(stream) for stream in [traces.demonstrations(0)] for _ in range(20)]
    alone = [next(stream) for stream in [traces.untraced(0)] for _ in range(10)]
    assert some[::2] == alone
    assert all(traces.read(answer)[1] for _, answer in some[1::2])
