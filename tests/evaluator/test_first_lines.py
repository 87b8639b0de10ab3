"""Right programs that plain Python takes are taken: first lines, long integers, coroutines."""

import gzip
import json

import pytest

from mcbench.errors import UserError
from mcbench.evaluator import AssertTest, CallTest, CodeReward, StdioTest, Submission
from tests.evaluator.test_humaneval import DATA, TIME_LIMIT_S, test_of

PREAMBLE = "import math\nfrom typing import List\n\ndef helper(x):\n    return x\n"
FIRST_LINES = [
    "from __future__ import annotations\n",
    '"""A docstring."""\nfrom __future__ import annotations\nassert __doc__ == "A docstring."\n',
    "#!/usr/bin/env python3\n# -*- coding: latin-1 -*-\nassert len('é') == 1\n",
    "# coding: no-such-coding\n",
    "\ufefffrom __future__ import annotations\n",
]


@pytest.mark.parametrize("first", FIRST_LINES)
def test_first_lines_hold_after_a_preamble(first, evaluator):
    body = (
        "def f(x: Undefined) -> int: return helper(x)\n"
        if "future" in first
        else ("def f(x): return helper(x)\n")
    )
    tests = [CallTest("f", [3], 3), AssertTest("assert f(3) == 3")]
    given = [
        Submission(first + body, tests, preamble=PREAMBLE),
        Submission(f"{first}print(helper(int(input())))", [StdioTest("3", "3")], preamble=PREAMBLE),
    ]
    results = evaluator.evaluate(given)
    assert [result.verdicts for result in results] == [["AC", "AC"], ["AC"]], results


def test_a_preamble_is_run_first_and_its_features_hold_for_the_program(evaluator):
    code = "def f(x: Undefined): return later(x)"
    preamble = "from __future__ import annotations\ndef later(x): return x + 1"
    given = [Submission(code, [CallTest("f", [1], 2)], preamble=p) for p in (preamble, "")]
    assert [result.verdicts for result in evaluator.evaluate(given)] == [["AC"], ["RE"]]
    with pytest.raises(UserError, match=r"the preamble of a submission is not Python: .*line 2"):
        Submission(code, [CallTest("f", [1], 2)], preamble="x = 1\ndef (")


def test_a_preamble_of_a_row(evaluator):
    tests = json.dumps([{"args": [3], "expected": 3}])
    answer = "```python\nfrom __future__ import annotations\ndef f(x): return helper(x)\n```"
    columns = {"tests": [tests], "form": ["call"], "fn_name": ["f"], "preamble": [PREAMBLE]}
    assert CodeReward(evaluator)([""], [answer], **columns) == [1.0]


BIG = "7" * 6000
LONG_INTEGERS = [
    ("print(int(input()) + 1)", StdioTest(BIG, BIG[:-1] + "8")),
    ("print(10 ** 5000 // 3 % 10 ** 6)", StdioTest("", "333333")),
    ("def f(n): return str(7 ** n)[:3]", CallTest("f", [6000], str(7**6000 // 10**5068))),
    ("def f(n): return n + 1", CallTest("f", [10**5000], 10**5000 + 1)),
    ("def f(n): return int('9' * n) + 1", AssertTest("assert f(5000) == 10 ** 5000")),
    ("def f(n): return str(n)", AssertTest("assert f(10 ** 5000) == str(10 ** 5000)")),
]


@pytest.mark.parametrize(("code", "test"), LONG_INTEGERS)
def test_integers_have_any_length(code, test, evaluator):
    (result,) = evaluator.evaluate([Submission(code, [test])])
    assert result.verdicts == ["AC"], result


def test_coroutine_functions_are_awaited(evaluator):
    code = "import asyncio\nclass Solution:\n    async def f(self, x):\n"
    code += "        await asyncio.sleep(0)\n        return [x]\n"
    code += "    async def g(self, x):\n        for i in range(x): yield i"
    tests = [CallTest("f", [3], [3]), CallTest("g", [3], [0, 1, 2])]
    (result,) = evaluator.evaluate([Submission(code, tests)])
    assert result.verdicts == ["AC", "AC"], result


@pytest.mark.skipif(not DATA.exists(), reason="the HumanEval file is not beside the repository")
def test_humaneval_is_solved_with_a_future_import_in_every_answer(evaluator):
    future = "from __future__ import annotations\n"
    rows = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
    given = []
    for row in rows:
        before, found, rest = row["prompt"].rpartition(f"def {row['entry_point']}(")
        answer = f"{future}{found}{rest}{row['canonical_solution']}"
        given.append(Submission(answer, [test_of(row)], TIME_LIMIT_S, preamble=before))
    assert not [
        row["task_id"]
        for row, r in zip(rows, evaluator.evaluate(given), strict=True)
        if not r.passed
    ]
