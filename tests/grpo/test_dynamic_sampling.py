"""Groups without a signal are replaced, whatever samples the responses: alone and by several
processes, in one turn, with tools and in environments.
"""

import itertools
import json

import pytest
import torch
from datasets import Dataset

from mcbench.grpo import early, stages
from mcbench.grpo.batches import flat_groups, next_prompts, with_signal
from mcbench.grpo.diversity import distinct_n, grouped

from . import shared_out
from .conftest import EOS, logged, make_dataset, make_tokenizer
from .test_processes import launch

NAN = float("nan")


def test_groups_that_fare_alike_are_flat():
    rewards = torch.tensor([1.0, 1, 0, 1, NAN, 0, NAN, NAN])
    assert flat_groups(rewards, 2).tolist() == [True, False, True, True]


def test_further_prompts_replace_flat_groups(make_trainer):
    batches, scored = [], []

    def some(prompts, completions, **_):
        """Half of the prompts are always solved."""
        scored.append(len(completions))
        return [
            1.0 if prompt < "g" else float(text.split().count("a") % 2)
            for prompt, text in zip(prompts, completions, strict=True)
        ]

    options = {"per_device_train_batch_size": 16, "max_steps": 3, "sample_unfinished": True}
    parts = {"reward_funcs": some, "on_generation": batches.append}
    trainer = make_trainer(dynamic_sampling=20, trainer=parts, **options)
    trainer.train()
    rows = {row["problem_id"]: row["prompt"] for row in make_dataset()}
    for batch in batches:
        assert not flat_groups(torch.tensor(batch.rewards), 4).any()
        ids = batch.columns["problem_id"]
        assert batch.prompts == [rows[one] for one in ids]
        assert all(len(set(ids[i : i + 4])) == 1 for i in range(0, 16, 4))
        assert [len(row) for row in batch.log_probs] == batch.lengths.tolist()
    assert max(logged(trainer, "dynamic/groups_sampled")) > 1
    assert max(scored) == 16
    assert len(scored) > 6


def test_further_prompts_are_not_those_that_were_solved(make_trainer):
    asked = []

    def reward(problem_id, **_):  # every third group has a signal
        asked.append(problem_id[0])
        return [float(len(asked) % 3 == 0 and n == 0) for n in range(4)]

    trainer = make_trainer(
        dynamic_sampling=9, drop_above=0.5, steps_per_generation=1, gradient_accumulation_steps=2,
        remove_unused_columns=False, max_steps=1, trainer={"reward_funcs": reward},
    )  # fmt: skip
    solved = [f"p{n}" for n in range(8)]
    trainer.checkpoint_state["solved"] = solved
    trainer.train()
    assert len(asked) == 6  # two batches, which are of one update
    assert not set(asked) & set(solved)


# Groups of the batches that are sampled one after another, with a signal (1) or without (0), how
# many are wanted, and what verl's ``dapo_ray_trainer.py`` trains on: (batch, group) of each. None:
# it ends with an error, where here those with a signal are filled up.
GATHERED = [
    ("1", 1, [(0, 0)]), ("0 1", 1, [(1, 0)]), ("0 0", 1, None), ("11", 2, [(0, 0), (0, 1)]),
    ("10 01", 2, [(0, 0), (1, 1)]), ("10 11", 2, [(0, 0), (1, 0)]), ("00 11", 2, [(1, 0), (1, 1)]),
    ("00 00 11", 2, [(2, 0), (2, 1)]), ("10 00", 2, None), ("10 00 01", 2, [(0, 0), (2, 1)]),
    ("111", 3, [(0, 0), (0, 1), (0, 2)]), ("110 100", 3, [(0, 0), (0, 1), (1, 0)]),
    ("110 111", 3, [(0, 0), (0, 1), (1, 0)]), ("001 010 100", 3, [(0, 2), (1, 1), (2, 0)]),
    ("100 000 000", 3, None),
    ("0101 1010", 4, [(0, 1), (0, 3), (1, 0), (1, 2)]),
    ("0111 1110", 4, [(0, 1), (0, 2), (0, 3), (1, 0)]),
    ("0000 1111", 4, [(1, n) for n in range(4)]),
    ("1000 0100 0010 0001", 4, [(n, n) for n in range(4)]), ("1000 0100 0010", 4, None),
    ("1111 1111", 4, [(0, n) for n in range(4)]),
]  # fmt: skip


@pytest.mark.parametrize(("sampled", "wanted", "trained"), GATHERED)
def test_groups_are_gathered_as_dapo_does(sampled, wanted, trained):
    asked = []
    flags = ([one == "0" for one in batch] for batch in sampled.split())
    batches = (asked.append(1) or batch for batch in flags)
    kept, flat = with_signal(batches, wanted)
    if trained is None:
        signals = [sampled.split()[batch][group] for batch, group in kept + flat]
        assert signals == ["1"] * len(kept) + ["0"] * len(flat)
        assert len(signals) == wanted
        assert len(asked) == len(sampled.split())
        return
    assert (kept, flat) == (trained, [])
    assert len(asked) == trained[-1][0] + 1  # no batch more than needed


def test_prompts_come_at_most_once_in_an_epoch():
    epochs = [[next_prompts(taken, 3, 10, 0) for taken in range(e, e + 9, 3)] for e in (0, 9)]
    for batches in epochs:
        places = [one for batch in batches for one in batch]
        assert len(set(places)) == len(places) == 9
        assert set(places) <= set(range(10))
    assert epochs[0] != epochs[1]
    assert next_prompts(3, 3, 10, 0) == epochs[0][1] != next_prompts(3, 3, 10, 1)


def test_batches_without_a_signal_cost_no_run(make_trainer):
    trainer = make_trainer(
        dynamic_sampling=2, max_steps=1, trainer={"reward_funcs": lambda prompts, **_: [1.0] * 4}
    )
    trainer.train()
    assert logged(trainer, "dynamic/groups_sampled") == [3]
    assert logged(trainer, "dynamic/flat_left") == [1]
    assert logged(trainer, "loss") == [0]


def test_groups_of_which_some_batches_have_responses_without_a_token(make_trainer):
    batches, calls = [], []

    def rollout(prompts, trainer):
        calls.append(prompts)
        ids = [[] if len(calls) == 1 and n == 1 else [2 + n, EOS] for n in range(8)]
        return {"prompt_ids": make_tokenizer()(prompts)["input_ids"], "completion_ids": ids,
                "logprobs": None}  # fmt: skip

    def reward(completions, **_):  # of the first batch one group has a signal
        return [float(n == 0 or (n == 4 and len(calls) > 1)) for n in range(8)]

    parts = {"rollout_func": rollout, "reward_funcs": reward, "on_generation": batches.append}
    options = {"per_device_train_batch_size": 8, "dynamic_sampling": 3, "max_steps": 1}
    make_trainer(trainer=parts, **options).train()
    assert len(calls) == 2
    assert [own.any() for own in batches[0].own] == [n != 1 for n in range(8)]


def test_the_time_of_a_batch_holds_all_rounds_of_its_sampling(make_trainer, monkeypatch):
    calls = []

    def at_last(prompts, **_):
        calls.append(1)
        return [float(len(calls) > 2 and place == 0) for place in range(4)]

    trainer = make_trainer(dynamic_sampling=3, max_steps=1, trainer={"reward_funcs": at_last})
    clock = itertools.count()  # a second passes with every look at it
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    trainer.train()
    assert logged(trainer, "time/generate_s")[0] >= 3  # rounds
    assert logged(trainer, "time/reward_s")[0] >= 3


# With tools and environments ----------------------------------------------------------------------

TEMPLATE = """{% for m in messages %}{{ m.content }} {% for c in m.tool_calls or [] %}
{{ c.function.name }} {{ c.function.arguments }} {% endfor %}
{% if m.role == 'assistant' %} <eos> {% endif %}{% endfor %}"""
TOLD = "n m n"  # what the tool answers
TOLD_IDS = [15, 14, 15]


def look() -> str:
    """Looks.

    Returns:
        What there is.
    """
    return TOLD


class Room:
    """An environment in which looking pays."""

    def reset(self, **row):
        """Begins."""
        self.looked = False
        return " d"

    def look(self) -> str:
        """Looks.

        Returns:
            What there is.
        """
        self.looked = True
        return TOLD

    def get_reward(self) -> float:
        """1 where it was looked."""
        return float(self.looked)


def tool_tokenizer():
    """Reads a response that begins with one of the letters a to k as a call of ``look``."""
    made = make_tokenizer()

    class Calling(type(made)):
        def parse_response(self, response, schema=None, *, prefix=None, tools=None):
            text = self.decode(response, skip_special_tokens=True)
            message = {"role": "assistant", "content": text}
            if text[:1] in tuple("abcdefghijk"):
                call = {"type": "function", "function": {"name": "look", "arguments": {}}}
                message["tool_calls"] = [call]
            return message

    made.__class__ = Calling
    made.chat_template, made.response_template = TEMPLATE, {}
    return made


def spoken(rows=16):
    prompts = [[{"role": "user", "content": prompt}] for prompt in make_dataset(rows)["prompt"]]
    return Dataset.from_dict({"prompt": prompts, "problem_id": [f"p{i}" for i in range(rows)]})


def seldom(completions, **_):
    """Half of the groups fare alike."""
    return [float(len(messages) > 3) for messages in completions]


@pytest.mark.parametrize("sampled_by", ["tools", "environment"])
@pytest.mark.parametrize("own_loop", [False, True])
def test_tools_and_environments(make_trainer, monkeypatch, sampled_by, own_loop):
    """The tool's text is in no length, no diversity and no loss, and not in the probes of T(D)."""
    batches, probes, outputs = [], [], []
    of = {"tools": {"tools": [look], "reward_funcs": seldom}, "environment": {
        "environment_factory": Room, "reward_funcs": None}}[sampled_by]  # fmt: skip
    trainer = make_trainer(
        trainer={
            **of, "train_dataset": spoken(), "processing_class": tool_tokenizer(),
            "on_generation": batches.append,
        },
        per_device_train_batch_size=16, max_steps=2, steps_per_generation=2, dynamic_sampling=9,
        max_completion_length=24, sample_unfinished=own_loop, max_tool_calling_iterations=2,
        temperature_target_diversity=0.99, temperature_grid=[0.5, 1.0, 1.5],
        temperature_probe_prompts=8, truncation_mask="conditional", mask_ratio=1.0,
        repeat_rule="none",
    )  # fmt: skip
    loss, sample = trainer._compute_loss, early.responses

    def responses(trainer, rows):
        probes.append(sample(trainer, rows))
        return probes[-1]

    monkeypatch.setattr(stages, "responses", responses)
    trainer._compute_loss = lambda model, inputs: outputs.append(inputs) or loss(model, inputs)
    trainer.train()

    measured = trainer.stages.choice.measured["0.5"]
    first = [one.own_ids for one in probes[0]]
    assert measured == pytest.approx(distinct_n(grouped(first, 4), (4,))[4], abs=1e-6)
    others = [
        [token for token, own in zip(one.ids, one.own, strict=True) if not own] for one in probes[0]
    ]
    assert max(map(len, others)) > 0
    assert all(ids == TOLD_IDS * (len(ids) // 3) for ids in others)
    (batch,) = batches
    assert any(not own.all() for own in batch.own)
    assert batch.lengths.tolist() == [own.sum() for own in batch.own]
    for ids, own, text in zip(batch.completion_ids, batch.own, batch.completions, strict=True):
        assert len(ids[~own]) == 3 * text.split("\n").count(TOLD)
    found = torch.cat(
        [(one["tool_mask"] * one["completion_mask"]).sum(dim=1) for one in outputs[:2]]
    )
    assert sorted(found.tolist()) == sorted(batch.lengths.tolist())
    assert logged(trainer, "dynamic/groups_sampled")[0] > 1
    assert logged(trainer, "tools/call_frequency")[0] > 0
    flat = flat_groups(torch.tensor(batch.rewards), 4).float().mean().item()
    assert flat == 0
    assert logged(trainer, "completions/mean_length")[0] == pytest.approx(batch.lengths.mean())
    cut = [
        not own[-1] or ids[-1] != EOS
        for ids, own in zip(batch.completion_ids, batch.own, strict=True)
    ]
    assert (batch.truncated <= cut).all()
    assert not batch.advantages[batch.masked].any()


def test_an_environment_s_own_prompts_are_as_many_as_a_choice_asks_for(make_trainer):
    """Its training set is a placeholder of one generation's rows."""
    parts = {"environment_factory": Room, "reward_funcs": None, "train_dataset": None}
    trainer = make_trainer(
        trainer={**parts, "processing_class": tool_tokenizer()}, max_completion_length=24,
        temperature_target_diversity=0.9, temperature_grid=[0.5, 1.5], temperature_probe_prompts=6,
        max_steps=1, dynamic_sampling=2,
    )  # fmt: skip
    trainer.train()
    assert (len(trainer.train_dataset), trainer.stages.choice.prompts) == (1, 6)


def test_a_reward_is_asked_for_once(make_trainer):
    """Also its further columns are those of the responses that are kept."""
    asked, batches = [], []

    def first(prompts, completions, log_extra, **_):
        asked.extend(completions)
        log_extra("text", completions)
        return [
            float(prompt < "g" or text < "e")
            for prompt, text in zip(prompts, completions, strict=True)
        ]

    parts = {"reward_funcs": first, "on_generation": batches.append}
    trainer = make_trainer(
        trainer=parts, per_device_train_batch_size=16, max_steps=1, dynamic_sampling=9
    )
    trainer.train()
    assert batches[0].columns["text"] == batches[0].completions
    assert len(asked) == 16 * logged(trainer, "dynamic/groups_sampled")[0] > 16


# By several processes -----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_replace_what_one_replaces(tmp_path):
    """A response is by its prompt and its place in the group alone, so that they must agree."""
    launch("tests.grpo.shared_out", str(tmp_path))
    two, threes, tools = json.loads((tmp_path / "result.json").read_text())
    one = json.loads(json.dumps(shared_out.run(str(tmp_path), 16, 4)))
    assert two == one
    assert max(threes["sampled"]) > 1
    assert max(one["sampled"]) > 1
    assert max(one["without"]) > 0
    assert 0 < tools["used"][0] <= 8
    assert tools["entropies"] == [False]  # what one process does not know, the others leave out
