"""Our judge called as other trainers call a reward; with the trainers themselves where they are."""

import asyncio
import inspect
import json
from types import SimpleNamespace

import pytest

from mcbench.data.export import FORMS
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator.adapters import (
    rubric_reward,
    verifiers_reward,
    verl_score,
    verl_scores,
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
    scores = verl_scores(
        data_sources=["x"] * 3, solution_strs=[RIGHT, WRONG, METHOD],
        ground_truths=[truth(STDIN), truth(STDIN), truth(CALL)], extra_infos=[{}, {}, {}],
    )  # fmt: skip
    assert scores == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"inputs": ["1"], "outputs": []}', None])
def test_a_ground_truth_without_tests_is_said(text):
    with pytest.raises(UserError, match="ground_truth must be JSON with as many inputs as outputs"):
        verl_score("x", RIGHT, text)


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
    import numpy as np

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


def test_with_verl_itself():
    pytest.importorskip("verl", reason="verl is not installed")
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.workers.reward_manager.batch import BatchRewardManager

    data = _verl_data([METHOD, WRONG], CALL)
    one = NaiveRewardManager(None, _Letters(), verl_score)
    found = [one.loop.run_until_complete(one.run_single(data[i : i + 1])) for i in range(2)]
    assert [each["reward_score"] for each in found] == [1.0, 0.0]
    assert BatchRewardManager(_Letters(), 0, verl_scores).verify(data) == [1.0, 0.0]


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
