"""Our judge called as other trainers call a reward; with the trainers themselves where they are."""

import asyncio
import inspect
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mcbench.data.export import FORMS, _unsaid
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator.adapters import (
    rubric_reward,
    verifiers_reward,
    verl_score,
)

STDIN = Problem("a", "s", "stdin", ({"stdin": "2\n", "expected": "4\n"},))
CALL = Problem("b", "s", "call", ({"args": [2], "expected": 4},), fn_name="twice")
RIGHT = "```python\nprint(2 * int(input()))\n```"
METHOD = "```python\nclass Solution:\n    def twice(self, x): return 2 * x\n```"
WRONG = "```python\nprint(5)\n```"


def truth(problem):
    return FORMS["verl"](problem)["reward_model"]["ground_truth"]


def test_verl_scores_what_the_export_wrote():
    for problem, right in ((STDIN, RIGHT), (CALL, METHOD)):
        row = FORMS["verl"](problem)
        common = {"data_source": row["data_source"], "extra_info": row["extra_info"]}
        given = {**common, "ground_truth": truth(problem), "reward_router_address": None}
        assert verl_score(solution_str=right, **given) == 1.0
        assert verl_score(solution_str=WRONG, **given) == 0.0
        assert verl_score(solution_str="no program", **given) == 0.0


BELOW = "def below(n):\n    return 1 if n == 0 else below(n - 1)\n"
LIMITED = replace(CALL, preamble=BELOW, time_limit_s=9.0, memory_limit_mb=900)
USES = "```python\nclass Solution:\n    def twice(self, x): return 2 * x * below(x)\n```"


def test_a_problem_s_own_limits_and_preamble_travel_with_it():
    row = FORMS["verl"](LIMITED)
    told = {name: row["extra_info"][name] for name in ("time_limit_s", "memory_limit_mb")}
    assert told == {"time_limit_s": 9.0, "memory_limit_mb": 900}
    given = {"data_source": "x", "ground_truth": truth(LIMITED)}
    assert verl_score(solution_str=USES, extra_info=row["extra_info"], **given) == 1.0
    assert verl_score(solution_str=USES, **given) == 0.0
    info = LIMITED.to_row()
    assert asyncio.run(rubric_reward([{"content": USES}], info)) == 1.0
    trace = SimpleNamespace(last_reply=USES)
    assert asyncio.run(verifiers_reward(SimpleNamespace(**info), trace)) == 1.0


def test_what_verl_cannot_be_told_is_left_out():
    (test,) = STDIN.tests
    lower = replace(STDIN, tests=(test | {"case_sensitive": False},))
    assert [_unsaid(one) for one in (STDIN, lower)] == [
        "", "answers have a rule of their own on letter case"
    ]  # fmt: skip


SUM = "```python\nn = int(input())\nprint(sum(int(input()) for _ in range(n)))\n```"
WRAP = "```python\ndef f(x): return [x]\n```"
PLAIN = "```python\ndef f(x): return x\n```"
SHAPES = [
    (SUM, {"inputs": [["2", "3", "4"]], "outputs": [["7"]]}),
    (SUM, {"inputs": [["2\n", "3\n", "4\n"]], "outputs": [["7\n"]]}),
    (SUM, {"inputs": [["2\n3\n4\n"], "1\n5\n"], "outputs": ["7\n", ["5"]]}),
    (SUM, {"inputs": "2\n3\n4\n", "outputs": "7\n"}),
    (PLAIN, {"inputs": [[1], [2]], "outputs": [1, 2], "fn_name": "f"}),
    (PLAIN, {"inputs": [[1], [2]], "outputs": [[1], [2]], "fn_name": "f"}),  # wrapped
    (WRAP, {"inputs": [[1], [2]], "outputs": [[1], [2]], "fn_name": "f"}),  # meant
    (PLAIN, {"inputs": ["[1, 2]"], "outputs": ["[1, 2]"], "fn_name": "f"}),
    (PLAIN, {"inputs": ["10" * 3000], "outputs": ["10" * 3000], "fn_name": "f"}),
]


@pytest.mark.parametrize(("response", "tests"), SHAPES)
def test_tests_in_all_forms_of_apps_and_taco(response, tests):
    assert verl_score("apps", response, json.dumps(tests)) == 1.0
    assert verl_score("apps", WRONG, json.dumps(tests)) == 0.0


def test_columns_that_came_as_arrays():
    lines = np.array([np.array(["2", "3", "4"], dtype=object), None], dtype=object)[:1]
    tests = {"inputs": lines, "outputs": np.array(["7"], dtype=object)}
    assert verl_score("apps", SUM, tests) == 1.0


def test_a_fork_judges_with_a_sandbox_of_its_own():
    given = {"data_source": "x", "solution_str": RIGHT, "ground_truth": truth(STDIN)}
    assert verl_score(**given) == 1.0
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        assert pool.submit(verl_score, **given).result() == 1.0


def test_all_outputs_are_read_in_one_way():
    tests = {"inputs": [[1], [[2]]], "outputs": [[1], [2]], "fn_name": "f"}
    sometimes = "```python\ndef f(x): return x\n```"  # right in one reading each
    assert verl_score("apps", sometimes, json.dumps(tests)) == 0.0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"inputs": ["1"], "outputs": []}', None])
def test_a_ground_truth_without_tests_is_said(text):
    with pytest.raises(UserError, match="ground_truth must be JSON with as many inputs as outputs"):
        verl_score("x", RIGHT, text)


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ({"inputs": ["1", 2], "outputs": ["1", "2"]}, "x, row 7: inputs.1. must be text or a list"),
        ({"inputs": ["1"], "outputs": [[["1"]]]}, "outputs.0. must be text or a list of lines"),
        ({"inputs": ["a b"], "outputs": ["1"], "fn_name": "f"}, "inputs.0. must be a list of the"),
        ({"inputs": "1", "outputs": ["1"]}, "as many inputs as outputs"),
    ],
)
def test_other_forms_are_refused_by_row_and_field(tests, message):
    with pytest.raises(UserError, match=message):
        verl_score("x", RIGHT, json.dumps(tests), {"index": 7})


def test_verifiers_calls_by_name():
    row = {k: v for k, v in CALL.to_row().items() if k in ("tests", "form", "fn_name")}
    for reply, expected in ((METHOD, 1.0), (WRONG, 0.0)):
        task, trace = SimpleNamespace(**row), SimpleNamespace(last_reply=reply)
        assert asyncio.run(verifiers_reward(task=task, trace=trace)) == expected
        completion = [{"role": "assistant", "content": reply}]
        assert asyncio.run(rubric_reward(completion=completion, info=row)) == expected
    # Before 0.4 plural names made a function one of whole groups.
    assert set(inspect.signature(rubric_reward).parameters) == {"completion", "info"}


class _Letters:
    """A tokenizer: a character is its code."""

    eos_token = ""

    def decode(self, ids, **_):
        return "".join(map(chr, ids.tolist()))


def _verl_data(responses, problem):
    import torch

    protocol = pytest.importorskip("verl.protocol", reason="verl is not installed")
    longest = max(map(len, responses))
    ids = torch.tensor([[*map(ord, text), *[0] * (longest - len(text))] for text in responses])
    prompt = torch.ones(len(responses), 1, dtype=torch.long)
    row = FORMS["verl"](problem)
    columns = {
        name: np.array([row[name] for _ in responses], dtype=object)
        for name in ("data_source", "reward_model", "extra_info")
    }
    tensors = {"prompts": prompt, "responses": ids}
    tensors["attention_mask"] = torch.cat([prompt, (ids != 0).long()], dim=1)
    return protocol.DataProto.from_dict(tensors=tensors, non_tensors=columns)


@pytest.mark.parametrize("manager", ["naive", "dapo"])
def test_with_verl_itself(manager):
    """As its reward loop finds manager and function: by the names in its configuration."""
    reward = pytest.importorskip("verl.trainer.ppo.reward", reason="verl is not installed")
    from omegaconf import OmegaConf

    plugged = {"path": "pkg://mcbench.evaluator.adapters", "name": "verl_score"}
    chosen = {"source": "register", "name": manager}
    config = {"reward": {"custom_reward_function": plugged, "reward_manager": chosen}, "data": {}}
    one = reward.load_reward_manager(OmegaConf.create(config), _Letters())
    data = _verl_data([METHOD, WRONG], CALL)
    found = [one.loop.run_until_complete(one.run_single(data[i : i + 1])) for i in range(2)]
    assert [each["reward_score"] for each in found] == [1.0, 0.0]


def test_with_verifiers_itself():
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed, or before 0.4")

    class Data(vf.TaskData):
        tests: str
        form: str
        fn_name: str = ""

    row = {k: v for k, v in CALL.to_row().items() if k in ("tests", "form", "fn_name")}
    data = Data(prompt="s", **row)
    plugged = {"code": {"fn": "mcbench.evaluator.adapters:verifiers_reward"}}

    class Program(vf.Task[Data]):
        pass

    for reply, expected in ((METHOD, 1.0), (WRONG, 0.0)):
        task = Program(data, vf.TaskConfig(rewards=plugged))
        trace = SimpleNamespace(rewards={}, metrics={}, last_reply=reply)
        trace.record_reward = lambda name, value, weight, to=trace.rewards: to.update({name: value})
        asyncio.run(task.score(trace))
        assert trace.rewards == {"code": expected}
    assert json.loads(row["tests"])
