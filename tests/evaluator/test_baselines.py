"""The published methods: right and wrong programs, and the misjudgements that are theirs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.published import ProcessPerSample, SingleThreaded
from mcbench.errors import UserError
from mcbench.evaluator import CallTest, CodeReward, StdioTest, Submission
from mcbench.evaluator.submission import AssertTest
from tests.evaluator.processes import descendants

ROOT = Path(__file__).parents[2]
SUM = [StdioTest("3\n4\n", "7\n"), StdioTest("10\n-4\n", "6\n")]
PAIR = [CallTest("f", [1, [2]], [1, 2]), CallTest("f", [1, []], [1])]


@pytest.fixture(scope="module", params=[SingleThreaded, ProcessPerSample])
def baseline(request):
    with request.param() as made:
        yield made


@pytest.fixture(scope="module")
def published():
    with ProcessPerSample(workers=2) as made:
        yield made


def test_verdicts(baseline):
    cases = [
        ("print(int(input()) + int(input()))", SUM, ["AC", "AC"]),
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())))", SUM, ["AC", "AC"]),
        ("if __name__ == '__main__':\n  print(int(input()) + int(input()))", SUM, ["AC", "AC"]),
        ("print(int(input()) + int(input()))\nexit()", SUM, ["AC", "AC"]),
        ("print(7)", SUM, ["AC", "WA"]),
        ("print(int(input()) // 0)", SUM, ["RE"]),
        ("print(", SUM, ["RE"]),
        ("import os\nos._exit(3)", SUM, ["RE"]),
        ("while True: pass", SUM, ["TLE"]),
        ("def f(a, b): return [a] + b", PAIR, ["AC", "AC"]),
        ("class Solution:\n  def f(self, a: int, b: List[int]): return a, *b", PAIR, ["AC", "AC"]),
        ("def f(a, b): return [1, 2]", PAIR, ["AC", "WA"]),
        ("def f(a, b): return b[0]", PAIR, ["WA"]),
        ("def g(a, b): return [a] + b", PAIR, ["RE"]),
        ("import sys\ndef f(a, b): sys.exit(0)", PAIR, ["RE"]),
    ]
    submissions = [
        Submission(code, tests, time_limit_s=1 if "TLE" in verdicts else 20)
        for code, tests, verdicts in cases
    ]
    results = baseline.evaluate(submissions, early_exit=True)
    assert [result.verdicts for result in results] == [verdicts for _, _, verdicts in cases]
    assert [result.passed for result in results] == [v == ["AC", "AC"] for _, _, v in cases]


def test_a_baseline_rewards_like_an_evaluator(baseline):
    reward = CodeReward(baseline)
    answers = ["```python\nprint(2)\n```", "```\nprint(3)\n```", "no program"]
    columns = {"tests": ['[{"stdin": "", "expected": "2"}]'] * 3, "form": ["stdin"] * 3}
    assert reward([""] * 3, answers, **columns) == [1.0, 0.0, 0.0]
    assert reward.last_verdicts == ["AC", "WA", "no code"]


def test_files_of_a_program_do_not_end_up_with_the_caller(baseline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "open('left', 'w').write('x'); print(7)"
    assert baseline.evaluate([Submission(code, SUM[:1])])[0].verdicts == ["AC"]
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_and_a_closed_one_refuses(baseline):
    before = descendants(os.getpid())
    made = type(baseline)()
    with made:
        made.evaluate([Submission("print(7)", SUM)])
    assert descendants(os.getpid()) == before
    with pytest.raises(UserError, match="closed"):
        made.evaluate([])
    with pytest.raises(UserError, match="list of Submission"):
        baseline.evaluate(["print(7)"])


READ = "print(int(read()) + int(read()))"
# Right programs that the published method rejects, each for a reason in its rules.
MISJUDGED = {
    "stdin is not iterable": ("import sys\nprint(sum(map(int, sys.stdin)))", "RE"),
    "for line in stdin": ("import sys\nt = 0\nfor n in sys.stdin: t += int(n)\nprint(t)", "RE"),
    "buffer.readline repeats line 1": (
        f"import sys\nread = sys.stdin.buffer.readline\n{READ}",
        "WA",
    ),
    "an imported stdin is the real one": (
        "from sys import stdin\nprint(sum(map(int, stdin)))",
        "WA",
    ),
    "open(0)": ("print(sum(map(int, open(0))))", "WA"),
    "os.read(0)": ("import os\nprint(sum(map(int, os.read(0, 99).split())))", "WA"),
    "stdout.buffer": (
        "import sys\nsys.stdout.buffer.write(b'%d' % (int(input()) + int(input())))",
        "RE",
    ),
    "quit": ("print(int(input()) + int(input()))\nquit()", "RE"),
    "global": (
        "t = 0\ndef f():\n  global t\n  t = int(input()) + int(input())\nf()\nprint(t)",
        "WA",
    ),
    "__main__ block not last": (
        "if __name__ == '__main__':\n  print(int(input()) + int(input()))\nend = 1",
        "WA",
    ),
    "class Solution in a program": (
        "class Solution:\n  pass\nprint(int(input()) + int(input()))",
        "RE",
    ),
    "from __future__": (
        "from __future__ import annotations\nprint(int(input()) + int(input()))",
        "RE",
    ),
}


def test_misjudgements_of_the_published_method(published):
    submissions = [Submission(code, SUM) for code, _ in MISJUDGED.values()]
    with SingleThreaded() as plain:
        assert all(result.passed for result in plain.evaluate(submissions))
    found = {
        name: result.verdicts[-1]
        for name, result in zip(MISJUDGED, published.evaluate(submissions), strict=True)
    }
    assert found == {name: verdict for name, (_, verdict) in MISJUDGED.items()}


def test_state_passes_from_test_to_test_in_the_published_method(published):
    code = "import math\nmath.seen = getattr(math, 'seen', 0) + 1\nprint(math.seen)"
    tests = [StdioTest("", "1"), StdioTest("", "2")]
    with SingleThreaded() as plain:
        assert plain.evaluate([Submission(code, tests)])[0].verdicts == ["AC", "WA"]
    assert published.evaluate([Submission(code, tests)])[0].verdicts == ["AC", "AC"]


def test_comparison_of_the_published_method(published):
    def judge(answer: str, expected: str) -> str:
        tests = [StdioTest("", expected)]
        return published.evaluate([Submission(f"print({answer!r})", tests)])[0].verdicts[0]

    assert judge("1.50 2", "1.5 2.0") == "AC"
    assert judge("0.3333333", "0.33333333333") == "WA"
    assert judge("a  b", "a b") == "WA"


def test_rules_of_the_plain_method_are_selectable():
    submission = Submission("print('a  b')", [StdioTest("", "a b")])
    verdicts = [
        SingleThreaded(rules).evaluate([submission])[0].verdicts
        for rules in ("microcoder", "livecodebench")
    ]
    assert verdicts == [["AC"], ["WA"]]
    with pytest.raises(UserError, match="allowed"):
        SingleThreaded("none")


def test_in_place_problems():
    test = CallTest("f", [[2, 1]], [1, 2], result_arg=0)
    submission = Submission("def f(a): a.sort()", [test])
    # LiveCodeBench knows returned values only.
    assert SingleThreaded().evaluate([submission])[0].verdicts == ["AC"]
    assert ProcessPerSample().evaluate([submission])[0].verdicts == ["WA"]


def test_assertions():
    tests = [AssertTest("assert candidate(2) == 3", entry_point="f")]
    codes = ["def f(a): return a + 1", "def f(a): return a", "def f(a): return 1 // 0"]
    submissions = [Submission(code, tests) for code in codes]
    results = SingleThreaded().evaluate(submissions)
    assert [result.verdicts for result in results] == [["AC"], ["WA"], ["RE"]]
    with pytest.raises(UserError, match="takes StdioTest and CallTest"):
        ProcessPerSample().evaluate(submissions)


def test_wrong_input_is_refused():
    with pytest.raises(UserError, match="workers"):
        ProcessPerSample(workers=0)
    with pytest.raises(UserError, match="one form"):
        ProcessPerSample().evaluate([Submission("", [*SUM, *PAIR])])


@pytest.mark.slow
def test_the_benchmark_measures_every_method(tmp_path):
    output = tmp_path / "result.json"
    command = [sys.executable, "benchmarks/evaluator.py", "--quick", f"--output={output}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mixes = json.loads(output.read_text())["mixes"].values()
    assert all(figures["time_over_ours"]["ours"] == 1 for figures in mixes)
    measured = {"ours", "process per sample", "python per test", "bare probe"}
    assert all(measured <= figures["tests_per_second"].keys() for figures in mixes)
    assert "start-up" in done.stdout
