"""Self-play: rewards worked out by hand, which group solves what, and in training."""

import math

import pytest
import torch
from transformers import TrainerCallback

from mcbench.errors import UserError
from mcbench.grpo.batch_plan import posing_groups
from mcbench.grpo.self_play import posing_reward, taken
from mcbench.worlds.base import Judged

from .conftest import logged, make_dataset

# valid, share of attempts that are right, reward: -1; -0.8 at either end; else 1 - 1.8 s.
REWARDS = [
    (False, None, -1.0), (True, 0.0, -0.8), (True, 1.0, -0.8), (True, 0.125, 0.775),
    (True, 0.25, 0.55), (True, 0.5, 0.1), (True, 0.75, -0.35), (True, 0.875, -0.575),
]  # fmt: skip


@pytest.mark.parametrize(("valid", "solved", "reward"), REWARDS)
def test_who_poses_is_rewarded_for_what_is_just_solved(valid, solved, reward):
    assert posing_reward(valid, solved) == pytest.approx(reward)


def test_what_nobody_knows_has_no_reward():
    assert math.isnan(posing_reward(None, None))
    assert math.isnan(posing_reward(True, None))


def test_one_group_poses_for_as_many_as_it_has_responses():
    assert [posing_groups(n, 8) for n in (9, 18, 36)] == [1, 2, 4]
    for groups in (8, 16, 17):
        with pytest.raises(UserError, match=f"1 \\+ num_generations = 9 prompts .*got {groups}"):
            posing_groups(groups, 8)


def test_a_place_without_a_valid_problem_takes_another():
    assert taken([True, False, True, False, False]) == [0, 0, 2, 2, 0]
    assert taken([False, False]) == [None, None]
    assert taken([True, True]) == [0, 1]


class Letters:
    """Poses for prompt p the prompt "p p"; whoever says an even number of "a" is right, and what
    ends in "b" or "c" poses nothing.
    """

    __name__ = "letters"
    can_pose = True

    def __init__(self):
        self.scored = []

    def asked(self, row):
        return {**row, "problem_id": f"ask {row['problem_id']}", "prompt": f"{row['prompt']} a"}

    def posed(self, rows, completions):
        found = []
        for row, text in zip(rows, completions, strict=True):
            good = not text or text.split()[-1] not in "bc"
            posed = {**row, "problem_id": f"posed {row['problem_id']}", "prompt": "a b c"}
            found.append(
                (posed if good else None, Judged(None, good, message="" if good else "no"))
            )
        return found

    def __call__(self, completions, problem_id, log_extra, **columns):
        self.scored += problem_id
        log_extra("verdicts", ["AC"] * len(completions))
        return [float(text.split().count("a") % 2 == 0) for text in completions]


# 10 groups of 4: two pose, eight solve.
BATCH = {
    "per_device_train_batch_size": 8, "steps_per_generation": 5, "max_steps": 5,
    "sample_unfinished": True,
}  # fmt: skip


def trained(make_trainer, how, **changes):
    batches, reward = [], Letters()
    trainer = make_trainer(
        self_play=how, **{**BATCH, **changes},
        trainer={"reward_funcs": reward, "train_dataset": make_dataset(40),
                 "on_generation": batches.append},
    )  # fmt: skip
    return trainer, batches, reward


@pytest.mark.parametrize("how", ["trained", "unrewarded", "idle"])
def test_groups_that_pose_come_first_and_those_that_solve_last(make_trainer, how):
    trainer, batches, reward = trained(make_trainer, how)
    trainer.train()
    (batch,) = batches
    ids, rewards = batch.columns["problem_id"], batch.rewards
    posing, solving = ids[:8], ids[8:]
    assert reward.scored == solving  # once
    assert all(one.startswith("ask p") for one in posing)
    assert len(set(posing)) == 8
    assert all(len(set(solving[i : i + 4])) == 1 for i in range(0, 32, 4))
    prompts = {"ask": " a", "pos": "a b c"}
    assert all(p.endswith(prompts.get(n[:3], "")) for p, n in zip(batch.prompts, ids, strict=True))
    verdicts = batch.columns["verdicts"]
    assert set(verdicts[8:]) == {"AC"}
    valid = [one == "AC" for one in verdicts[:8]]
    assert set(verdicts[:8]) <= {"AC", "no"}
    places = [one.removeprefix("ask ") for one in posing]
    told = logged(trainer, "task/posed_valid")
    assert told == [pytest.approx(sum(valid) / 8)]
    assert logged(trainer, "task/passed") == [pytest.approx(rewards[8:].mean())]
    if how == "idle":
        assert solving[::4] == places
    else:
        own = [one == f"posed {place}" for one, place in zip(solving[::4], places, strict=True)]
        assert own == valid
    if how == "trained":
        for place, name in enumerate(places):
            of = [r for r, n in zip(rewards, ids, strict=True) if n == f"posed {name}"]
            wanted = posing_reward(valid[place], sum(of) / len(of) if of else None)
            assert rewards[place] == pytest.approx(wanted)
        assert logged(trainer, "task/posing_reward") == [pytest.approx(rewards[:8].mean())]
        assert batch.advantages[:8].any()
    else:
        assert all(math.isnan(one) for one in rewards[:8])
        assert not batch.advantages[:8].any()
    assert [len(row) for row in batch.log_probs] == batch.lengths.tolist()


class Stop(TrainerCallback):
    """Ends a run after each of its updates."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = True


@pytest.mark.slow
def test_a_run_killed_after_every_step_is_the_uninterrupted_one(make_trainer, tmp_path):
    changes = {"max_steps": 7, "save_strategy": "steps", "save_steps": 1}
    straight, _, _ = trained(make_trainer, "trained", output_dir=str(tmp_path / "all"), max_steps=7)
    straight.train()
    checkpoint = None
    for step in range(1, 8):
        trainer, _, _ = trained(make_trainer, "trained", **changes)
        trainer.add_callback(Stop())
        trainer.train(resume_from_checkpoint=checkpoint)
        checkpoint = str(tmp_path / f"checkpoint-{step}")
    assert trainer.state.global_step == 7
    pairs = zip(trainer.model.parameters(), straight.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"self_play": "always"}, "allowed: idle, none, trained, unrewarded"),
        ({"steps_per_generation": 4}, r"1 \+ num_generations = 5 prompts in a batch.*got 8"),
        ({"dynamic_sampling": 3}, "self_play makes batches of its own: no dynamic_sampling"),
        ({"drop_above": 0.9}, "no drop_above"),
        ({"substitute_flat": 0.3}, "no substitute_flat"),
        ({"staleness": 1}, "no staleness"),
        ({"remove_unused_columns": True}, "set remove_unused_columns=False"),
    ],
)
def test_what_does_not_go_with_self_play_is_refused(config, changes, message):
    with pytest.raises(UserError, match=message):
        config(**{**BATCH, "self_play": "trained", **changes})


def test_a_reward_that_knows_nothing_of_posing_is_refused(make_trainer):
    with pytest.raises(UserError, match="train_set=self-play:train"):
        make_trainer(self_play="trained", **BATCH)
