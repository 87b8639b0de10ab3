"""Credit for tokens against numbers worked out by hand, and in training."""

import json
import math

import pytest
import torch

from mcbench.errors import UserError
from mcbench.grpo import tokens

from .conftest import logged, make_model


def test_lines_of_tokens():
    assert tokens.lines_of(["a", " = 1\n", "b", "\n\n", "c", "\n"]) == [1, 1, 2, 2, 4, 4]


def test_tokens_of_lines():
    lines = torch.tensor([[1, 1, 2, 3], [1, 2, 0, 0], [1, 2, 2, 0]])
    mask = tokens.line_mask(lines, [[2, 3], [0], []])
    assert mask.tolist() == [
        [False, False, True, True], [True, True, False, False], [False] * 4,
    ]  # fmt: skip


def test_auroc():
    assert tokens.auroc([0.1, 0.9, 0.5, 0.5], [False, True, True, False]) == 3.5 / 4
    assert math.isnan(tokens.auroc([0.1], [True]))


def test_the_coefficient_adapts_by_at_most_two_percent():
    assert tokens.adapted(0.5, 2.0, 2.0) == 0.5
    assert tokens.adapted(0.5, 9.0, 2.0) == pytest.approx(0.51)
    assert tokens.adapted(0.5, 0.0, 2.0) == pytest.approx(0.49)
    assert tokens.adapted(0.5, 2.2, 2.0) == pytest.approx(0.5 * 1.01)


def test_the_critic_learns_outcomes_and_weighs_tokens_by_the_one_that_came():
    critic = tokens.Critic(make_model().get_decoder())
    states = torch.zeros(4, 3, 32)
    states[:2, 1, 0], states[2:, 2, 1] = 3.0, 3.0  # two kinds of responses
    states[:, 2, 5] = 99.0  # beyond the mask of the first two
    mask = torch.tensor([[True, True, False]] * 2 + [[True] * 3] * 2)
    outcomes = torch.tensor([3, 3, 1, 1])
    assert critic.of_responses(states, mask).tolist() == [[0.25] * 4] * 4
    critic.learn(states, mask, outcomes)
    assert critic.of_responses(states, mask).argmax(dim=1).tolist() == [3, 3, 1, 1]
    weights = critic.of_tokens(states, outcomes)
    assert weights.shape == (4, 3)
    assert weights[0, 1] > weights[0, 0]
    again = tokens.Critic(make_model().get_decoder(), critic.layer.tolist())
    assert torch.equal(again.of_tokens(states, outcomes), weights)


# In training -------------------------------------------------------------------------------------


def noted(notes):
    def reward(completions, log_extra, **_):  # of the greedy answers, too
        log_extra("notes", [json.dumps(notes(text)) for text in completions])
        return [float(text.split().count("a") % 2) for text in completions]

    return reward


def trained(make_trainer, notes, **options):
    """The trainer, and every batch with what it was trained as."""
    batches, outputs = [], []
    parts = {"reward_funcs": noted(notes), "on_generation": batches.append}
    trainer = make_trainer(trainer=parts, per_device_train_batch_size=8, **options)
    as_trained = trainer.as_trained
    trainer.as_trained = lambda output: outputs.append(as_trained(output)) or outputs[-1]
    trainer.train()
    return trainer, batches, outputs


def test_blamed_tokens_lose_and_unexecuted_ones_have_no_advantage(make_trainer):
    notes = lambda text: {"outcome": 1, "blamed": 1 if "b" in text else None,  # noqa: E731
                          "unexecuted": [1] if "b" in text else []}  # fmt: skip
    for credit, name in (("blame", "task/blamed"), ("executed", "task/unexecuted")):
        trainer, batches, outputs = trained(make_trainer, notes, token_credit=credit, max_steps=3)
        for batch, output in zip(batches, outputs, strict=True):
            for row, text in enumerate(batch.completions):
                length, own = batch.lengths[row], batch.advantages[row]
                wanted = own
                if "b" in text:
                    wanted = own - 0.3 if credit == "blame" else 0.0
                found = output["advantages"][row, :length]
                assert found.tolist() == pytest.approx([wanted] * length, abs=1e-6)
        assert 0 < max(logged(trainer, name)) <= 1


def test_the_critic_s_advantages_are_against_the_greedy_answer(make_trainer):
    notes = lambda text: {"outcome": 3 * (text.split().count("a") % 2),  # noqa: E731
                          "blamed": None, "unexecuted": []}  # fmt: skip
    trainer, batches, outputs = trained(make_trainer, notes, token_credit="critic", max_steps=4)
    for batch, output in zip(batches, outputs, strict=True):
        found = output["advantages"]
        assert found.shape == output["completion_ids"].shape
        for start in (0, 4):  # one greedy answer a prompt: right answers gain 0 or more
            right = batch.rewards[start : start + 4] > 0
            assert (found[start : start + 4][right] >= 0).all()
            assert (found[start : start + 4][~right] <= 0).all()
        if batch.step == 0:  # the critic knows nothing yet
            assert set(found.abs().unique().tolist()) <= {0.0, 0.25}
    assert len(trainer.checkpoint_state["critic"]) == 4
    assert all(0 <= value <= 1 for value in logged(trainer, "task/critic_auroc"))


def test_the_kl_coefficient_adapts_and_is_kept(make_trainer):
    options = {"beta": 0.1, "kl_target": 0.001, "steps_per_generation": 2, "max_steps": 6}
    trainer = make_trainer(gradient_accumulation_steps=1, **options)
    trainer.train()
    found = logged(trainer, "task/beta")
    assert found[0] == pytest.approx(0.098)  # no distance yet
    assert found[-1] > found[0]
    assert trainer.beta == trainer.checkpoint_state["beta"] == pytest.approx(found[-1])


def test_a_batch_without_notes_has_none_of_the_batch_before(make_trainer):
    """Nothing was judged in the second batch; in the third the reward tells nothing."""
    notes = lambda text: {"outcome": 1, "blamed": 0, "unexecuted": []}  # noqa: E731
    own, calls = noted(notes), []

    def reward(completions, log_extra=None, **columns):
        calls.append(completions)
        if len(calls) == 2:
            return [None] * len(completions)
        say = log_extra if len(calls) == 1 else lambda *_: None
        return own(completions, say, **columns)

    parts, batches = {"reward_funcs": reward}, []
    parts["on_generation"] = batches.append
    trainer = make_trainer(
        trainer=parts, per_device_train_batch_size=8, token_credit="blame", max_steps=3
    )
    with pytest.raises(UserError, match="tells outcomes and lines"):
        trainer.train()
    assert [one["task/blamed"] for one in trainer.state.log_history if "task/blamed" in one] == [
        1, 0,
    ]  # fmt: skip


def test_one_coefficient_for_all_processes_from_the_mean_of_all(make_trainer):
    """A second process, whose responses are three nats further from the reference each."""
    trainer = make_trainer(beta=0.1, kl_target=4.0, steps_per_generation=2)
    trainer.training = True
    trainer.gather = lambda rows: torch.cat([rows, rows + 3])
    ones = torch.ones(2, 4)
    output = {
        "old_per_token_logps": ones, "ref_per_token_logps": ones * 0, "completion_mask": ones,
        "advantages": torch.zeros(2),
    }  # fmt: skip
    trainer.as_trained(output)
    assert trainer.beta == pytest.approx(tokens.adapted(0.1, (4 + 7) / 2, 4.0))


def test_a_reward_that_tells_nothing_is_refused(make_trainer):
    with pytest.raises(UserError, match="tells outcomes and lines"):
        make_trainer(token_credit="blame").train()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_credit": "best"}, "allowed: blame, critic, executed, none"),
        ({"kl_target": 1.0}, "must be above 0 at the start"),
        ({"token_credit": "blame", "loss_type": "cispo", "epsilon_high": 5.0}, "one of the losses"),
        ({"token_credit": "blame", "truncation_mask": "conditional"}, "undo the conditional mask"),
        ({"token_credit": "critic", "advantage_rule": "uncut"}, "advantages of its own"),
        ({"token_credit": "executed", "sampler_noise": 0.1}, "sampler_noise"),
        ({"staleness": 1, "dynamic_sampling": 2}, "samples anew"),
    ],
)
def test_wrong_options_are_refused(config, changes, message):
    with pytest.raises(UserError, match=message):
        config(**changes)
