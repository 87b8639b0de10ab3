"""From a model's response to a reward."""

import asyncio
import json
import time

import pytest
from datasets import Dataset

from mcbench.errors import UserError
from mcbench.evaluator import (
    AsyncCodeReward,
    CodeReward,
    Evaluator,
    Result,
    TestResult,
    extract_code,
)

ADDS = "import sys\ndef add(a, b):\n    return a + b\n"
ADD = f"```python\n{ADDS}```\n"
_SOLVE = "```python\ndef solve(n):\n  return n\n```\n"
EXTRACTIONS = [
    ("```python\nx = 1\n```", "x = 1\n"),
    ("```py\nx\n```\nDone.", "x\n"),
    ("```\nx\n```", "x\n"),
    ("~~~python\nx\n~~~", "x\n"),
    ("   ```python\nx\n   ```", "x\n"),
    ("text\n```python\na\n```\nno, rather\n```python\nb\n```\nend", "b\n"),
    ("````python\n```\nx\n````", "```\nx\n"),
    ("```python\r\nx\r\ny\r\n```", "x\ny\n"),
    ("```python\n\n```", "\n"),
    ("```python\ns = '```'\n```", "s = '```'\n"),
    ("```python\nx\n```  ", "x\n"),
    ("`````python\nx\n```````", "x\n"),
    ("use ```x``` here\n```python\ny\n```", "y\n"),
    ("```python\nx\n``` \nThe end: ```inline```", "x\n"),
    ("```python\nx = 1", None),
    ("```python\na\n```\n```python\nb", None),
    ("```python\na\n```\n```", None),
    ("x = 1", None),
    ("", None),
    ("```python x = 1```", None),
    # In a list item or a quotation; what is indented with the fence is as far to the left as it.
    ("1. So:\n\n   ```python\n   if x:\n       y\n   ```\n", "if x:\n    y\n"),
    ("- ```py\n  x\n  ```\n- and", "x\n"),
    ("10. a\n    - b\n\n      ~~~\n      x\n\n      y\n      ~~~", "x\n\ny\n"),
    ("> ```python\n> if x:\n>     y\n> ```", "if x:\n    y\n"),
    ("\t```python\n\tx\n\t```", "x\n"),
    ("   ```python\nif x:\n  y\n   ```", "if x:\n  y\n"),
    # After words, and closed on the line of a statement, but not within a text or comment.
    ("Answer: ```python\nx\n```", "x\n"),
    ("```python\nx\ny = 2```\nDone.", "x\ny = 2\n"),
    ("```python\nx```\nor\n```python\ny```", "y\n"),
    ("```python\nprint('''```\n''')\n```", "print('''```\n''')\n"),
    ('```python\n"""\nin ```\n"""\n# in ```\n```', '"""\nin ```\n"""\n# in ```\n'),
    (
        "```python\ndef f():\n    '''\n    ```\n    '''\n```",
        "def f():\n    '''\n    ```\n    '''\n",
    ),
    # What follows the program in another language is no program, what is cut off none either.
    ("```python\nx\n```\nIt prints:\n```text\n1\n```\n```console\n$ x\n```", "x\n"),
    ("```python\nx\n```\n```sh\npython main.py", None),
    ("```python\nx\n```\n```\ny = 1\n```", "y = 1\n"),
    ("```python\nx\n```\nIt prints\n```\n3 4\n```", "x\n"),
    ("```code\nx\n```\n```text\n3\n```", "x\n"),
    ("```language-python\nx\n```\n```\n3\n```", "x\n"),
    # Nor is an example of its use, or some of its lines.
    (f"{ADD}```python\nprint('add:', add(1, 2))  # 3\n```", ADDS),
    (f"{ADD}```python\nimport unittest\nfrom your_module import add\nadd(1, 2)\n```", ADDS),
    (f"{ADD}```py\ndef test():\n    assert add(1, 2) == 3\n```", ADDS),
    (f"{ADD}```python\n>>> add(1, 2)\n3\n```", ADDS),
    (f"{ADD}The point is\n```python\nreturn a + b\n```", ADDS),
    (f"{ADD}```python\nadd(1, 2)\n```\nBetter\n```python\nadd = max\n```", "add = max\n"),
    (
        f"{ADD}```python\nfrom operator import add\nadd(1, 2)\n```",
        "from operator import add\nadd(1, 2)\n",
    ),
    (
        f"{ADD}```python\ndef f(add):\n    return add(1, 2)\n```",
        "def f(add):\n    return add(1, 2)\n",
    ),
    (f"{ADD}```python\n# not add(1)\nx.add(2)\n```", "# not add(1)\nx.add(2)\n"),
    # Tags around it, Markdown around it, a fence that is begun anew.
    ("<answer>```python\nx\n```</answer>", "x\n"),
    ("**Code**```python\nx\ny = 2```<|im_end|>", "x\ny = 2\n"),
    ("```markdown\n# So\n```python\nx\n```\nDone.\n```", "x\n"),
    ("````md\n```python\nx\n```\n````", "x\n"),
    ("```python\nno, again\n```python\nx\n```", "x\n"),
    ("```text\na\n```\n```Python3\nx\n```\n", "x\n"),
    ("```text\nx\n```", "x\n"),
    ("~~~{.python .numberLines}\nx\n~~~", "x\n"),
    ('```python title="a.py"\nx\n```', "x\n"),
    # The prompt has opened the fence.
    # Used by its name alone, or repeated in part; a trace, a formula, data.
    (f"{_SOLVE}```py\nfor f in (solve,):\n    print(f(3))\n```", "def solve(n):\n  return n\n"),
    (f"{_SOLVE}The key:\n```py\n  return n\n```", "def solve(n):\n  return n\n"),
    (f"{_SOLVE}```\nn = 3 -> 4\n```\n```\nd[i] = d[i-1]\n```", "def solve(n):\n  return n\n"),
    (f"{_SOLVE}```py\n3\n# the input\n```\n```py\n%timeit x\n```", "def solve(n):\n  return n\n"),
    # Another meaning of a name is no use of it, nor is what every program has.
    (
        f"{_SOLVE}```py\nfor solve in '1':\n  print(solve)\n```",
        "for solve in '1':\n  print(solve)\n",
    ),
    ("```py\nclass TreeNode: 0\n```\n```py\nprint(TreeNode())\n```", "print(TreeNode())\n"),
    ("代码如下：```python\nx\n```", "x\n"),
    ("<|channel|>analysis<|message|>```py\nx\n```", None),
    ("<|channel|>analysis<|message|>So<|channel|>final<|message|>```py\nx\n```", "x\n"),
    ("def f(x):\n    return x\n```\nIt returns x.", "def f(x):\n    return x\n"),
    (
        "a, b = map(int, input().split())\nprint(a)\n```",
        "a, b = map(int, input().split())\nprint(a)\n",
    ),
    ("# Read.\nprint(input())\n```\n```\n3\n```", "# Read.\nprint(input())\n"),
    ("# Head\nFor example:\n```\nx\n```", "x\n"),
    ("It is:\n```\nx", None),
]


@pytest.mark.parametrize(("response", "code"), EXTRACTIONS)
def test_extraction(response, code):
    assert extract_code(response) == code


HOSTILE = [
    "\n",
    "```\n",
    "```py\n",
    "`",
    "~~~\n",
    "   ",
    "```\ns = '```'\n",
    "````\n```\n",
    "\r\n",
    "\x00",
    "x ```\n",
    "x = 1```\n",
    "- ",
    "</think>\n",
    "```\n</think>'\n",
    "'''\n",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_any_response_is_searched_in_linear_time(piece):
    def cost(size: int) -> float:
        response = piece * (size // len(piece))
        times = []
        for _ in range(3):
            started = time.process_time()
            assert isinstance(extract_code(response), str | None)
            times.append(time.process_time() - started)
        return min(times)

    # Eight times the length: a quadratic search would take 64 times as long.
    assert cost(1 << 18) < 24 * cost(1 << 15) + 0.01


def block(code: str) -> str:
    return f"Let me think.\n```python\n{code}\n```"


STDIN_TESTS = json.dumps([{"stdin": f"{i}\n", "expected": f"{2 * i}\n"} for i in (1, 2)])
CALL_TESTS = json.dumps([{"args": [[1, 2]], "expected": [2, 1]}])


def test_rewards_and_verdicts(evaluator):
    reward = CodeReward(evaluator)
    completions = [
        block("print(int(input()) * 2)"),
        block("print(2)"),
        block("print(int(input()) * 2)")[:-3],
        "no program",
        block("class Solution:\n    def f(self, a: List[int]): return a[::-1]"),
        [{"role": "assistant", "content": block("def f(a): return a")}],
    ]
    logged = {}
    columns = {
        "tests": [STDIN_TESTS] * 4 + [CALL_TESTS] * 2,
        "form": ["stdin"] * 4 + ["call"] * 2,
        "fn_name": [""] * 4 + ["f"] * 2,
        "problem_id": list("abcdef"),
        "completion_ids": [[]] * 6,
        "trainer_state": None,
        "log_metric": None,
    }
    rewards = reward([""] * 6, completions, log_extra=logged.__setitem__, **columns)
    assert rewards == [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    assert reward.last_verdicts == ["AC,AC", "AC,WA", "no code", "no code", "AC", "WA"]
    assert logged == {"verdicts": reward.last_verdicts}
    assert reward.__name__ == "code"


def test_infrastructure_failure_is_no_reward():
    class Broken:
        def evaluate(self, submissions, early_exit):
            return [Result((TestResult("AC"), TestResult("IE"))) for _ in submissions]

    rewards = CodeReward(Broken())(
        [""] * 2, [block("x"), "no program"], tests=[STDIN_TESTS] * 2, form=["stdin"] * 2
    )
    assert rewards == [None, 0.0]


def test_why_there_is_no_verdict_is_said_once(evaluator, caplog):
    tests = json.dumps([{"code": "import no_such_module\nassert f(1) == 1"}])
    reward, completions = CodeReward(evaluator), [block("def f(x): return x")] * 2
    for _ in range(2):
        columns = {"tests": [tests] * 2, "form": ["assert"] * 2}
        assert reward([""] * 2, completions, **columns) == [None, None]
    assert [one.message for one in caplog.records] == [
        "a response gets no verdict: the test itself failed: ModuleNotFoundError: No module named "
        "'no_such_module' (import no_such_module)"
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "needs the dataset columns tests and form"),
        ({"tests": ["[]"], "form": ["stdin"]}, "no tests"),
        ({"tests": ["{"], "form": ["stdin"]}, "JSON"),
        ({"tests": [None], "form": ["stdin"]}, "JSON"),
        (
            {"tests": ["[3]"], "form": ["stdin"]},
            "row 0 of the batch: test 0: .* be an object, got 3",
        ),
        (
            {"tests": ['{"inputs": []}'], "form": ["stdin"]},
            "a list of tests, as JSON, got {'inputs'",
        ),
        ({"tests": ['[{"stdin": ""}]'], "form": ["stdin"]}, "it lacks 'expected'"),
        (
            {"tests": ['[{"input": ""}]'], "form": ["stdin"]},
            "it has 'input'; allowed: stdin, expec",
        ),
        ({"tests": ['[{"stdin": ["1"], "expected": ""}]'], "form": ["stdin"]}, r"got \['1'\]"),
        ({"tests": [STDIN_TESTS], "form": ["file"]}, "allowed: assert, call, stdin"),
        ({"tests": [STDIN_TESTS], "form": ["call"], "fn_name": ["f"]}, "does not fit"),
        ({"tests": [CALL_TESTS], "form": ["call"]}, "needs fn_name"),
    ],
)
def test_unusable_rows_are_refused(columns, message, evaluator):
    with pytest.raises(UserError, match=message):
        CodeReward(evaluator)([""], [block("x")], **columns)


def test_completion_that_is_no_text_is_refused(evaluator):
    for completion, message in (
        (3, "completion must be text"),
        ([{"content": [3]}], "completion must be text"),
        ([{"content": 3}], "content must be text or parts with text, got 3"),
    ):
        with pytest.raises(UserError, match=message):
            CodeReward(evaluator)([""], [completion], tests=[STDIN_TESTS], form=["stdin"])


def test_content_in_parts_and_tests_as_lists(evaluator):
    text = block("print(int(input()) * 2)")
    parts = [
        {"type": "text", "text": text[:20]},
        {"type": "image"},
        {"type": "text", "text": text[20:]},
    ]
    # As a table holds rows of several forms: each has all fields.
    tests = [{**test, "rtol": None, "args": None} for test in json.loads(STDIN_TESTS)]
    reward = CodeReward(evaluator)
    completions = [[{"role": "assistant", "content": parts}], [{"content": None}]]
    assert reward([""] * 2, completions, tests=[tests] * 2, form=["stdin"] * 2) == [1.0, 0.0]


def test_each_row_of_a_lazy_column_is_judged_by_its_own_tests(evaluator):
    """Its items are new objects each time they are asked for."""
    rows = [{"tests": [{"stdin": "", "expected": str(n)}], "form": "stdin"} for n in range(8)]
    table = Dataset.from_list(rows)
    programs = [f"```python\nprint({n})\n```" for n in range(8)]
    rewards = CodeReward(evaluator)([""] * 8, programs, tests=table["tests"], form=table["form"])
    assert rewards == [1.0] * 8


def test_integers_of_any_length_in_columns_of_json(evaluator):
    tests = '[{"args": [' + "9" * 5000 + '], "expected": ' + "9" * 4999 + "8}]"
    given = {"tests": [tests], "form": ["call"], "fn_name": ["f"]}
    assert CodeReward(evaluator)([""], [block("def f(x): return x - 1")], **given) == [1.0]


def test_the_coroutine_gives_the_same_rewards_beside_other_work(evaluator):
    completions = [block("print(int(input()) * 2)"), block("print(2)"), "no program"]
    columns = {"tests": [STDIN_TESTS] * 3, "form": ["stdin"] * 3}

    async def other_work(done: asyncio.Event) -> int:
        turns = 0
        while not done.is_set():
            await asyncio.sleep(0)
            turns += 1
        return turns

    async def both() -> tuple[list[float | None], int]:
        done = asyncio.Event()
        other = asyncio.create_task(other_work(done))
        rewards = await AsyncCodeReward(evaluator)([""] * 3, completions, **columns)
        done.set()
        return rewards, await other

    rewards, turns = asyncio.run(both())
    assert rewards == CodeReward(evaluator)([""] * 3, completions, **columns) == [1.0, 0.0, 0.0]
    assert turns > 1


def test_assert_style_rows(evaluator):
    tests = json.dumps([{"code": "assert f(1) == 2", "entry_point": "f"}])
    columns = {"tests": [tests] * 2, "form": ["assert"] * 2}
    completions = [block("def f(a): return a + 1"), block("def f(a): return a")]
    assert CodeReward(evaluator)([""] * 2, completions, **columns) == [1.0, 0.0]


class Counting:
    """An evaluator that counts its calls."""

    def __init__(self, evaluator):
        self.evaluator, self.calls = evaluator, 0

    def evaluate(self, submissions, early_exit):
        self.calls += 1
        return self.evaluator.evaluate(submissions, early_exit=early_exit)


def test_what_was_started_is_judged_once(evaluator):
    counting = Counting(evaluator)
    reward = CodeReward(counting)
    columns = {"tests": [STDIN_TESTS] * 2, "form": ["stdin"] * 2}
    completions = [block("print(int(input()) * 2)"), block("print(2)")]
    reward.start_scoring(completions, **columns)
    assert reward([""] * 2, completions, **columns) == [1.0, 0.0]
    assert counting.calls == 1
    reward.start_scoring(completions, **columns)
    assert reward([""] * 2, completions[::-1], **columns) == [0.0, 1.0]  # others than were started
    assert counting.calls == 3


def test_an_error_in_the_background_is_raised_by_the_call():
    with Evaluator(workers=1) as evaluator:
        reward = CodeReward(evaluator)
    columns = {"tests": [STDIN_TESTS], "form": ["stdin"]}
    reward.start_scoring([block("print(2)")], **columns)
    with pytest.raises(UserError, match="closed"):
        reward([""], [block("print(2)")], **columns)
