"""The rivals' formulas against numbers worked out by hand, and each of them in training."""

import math

import pytest
import torch
from trl.trainer.utils import nanstd

from mcbench.errors import UserError
from mcbench.grpo import advantages, tokens
from mcbench.grpo.temperature import nearest_temperature

from .conftest import letter_reward, logged
from .table import right

NAN = float("nan")


def close(found, wanted):
    assert found.tolist() == pytest.approx(wanted, abs=1e-3)


def test_cut_answers_leave_mean_and_deviation():
    rewards = torch.tensor([1.0, 0, 0, 0, 1, 1, NAN, 0])
    cut = torch.tensor([False, False, True, True, False, False, False, True])
    # {1, 0}: mean 1/2, deviation sqrt(1/2); {1, 1}: no deviation.
    close(advantages.uncut_advantages(rewards, cut, 4), [0.7071, -0.7071, 0, 0, 0, 0, 0, 0])
    alone = advantages.uncut_advantages(torch.tensor([1.0, 0]), torch.tensor([False, True]), 2)
    assert alone.tolist() == [0, 0]


def test_without_cut_answers_the_advantages_are_trl_s():
    rewards = torch.rand(3, 4)
    wanted = (rewards - rewards.mean(1, keepdim=True)) / (nanstd(rewards, 1)[:, None] + 1e-4)
    found = advantages.uncut_advantages(rewards.view(-1), torch.zeros(12, dtype=torch.bool), 4)
    torch.testing.assert_close(found, wanted.view(-1))


def test_pass_at_k_advantages():
    right = torch.tensor([True, False, False, False, True, True, True, False])
    scored = torch.ones(8, dtype=torch.bool)
    # One of four, k = 2: C(3,2)/C(4,2) = 1/2 fail, deviation 1/2; a wrong one: C(2,1)/C(3,1) = 2/3.
    close(advantages.pass_at_k_advantages(right, scored, 4, 2)[:4], [1, -1 / 3, -1 / 3, -1 / 3])
    # Three of four: any two hold a right one.
    assert advantages.pass_at_k_advantages(right, scored, 4, 2)[4:].tolist() == [0] * 4
    # k = 1: GRPO's, with p = 3/4: (1 - p) / sqrt(p (1 - p)) and -p / sqrt(p (1 - p)).
    close(advantages.pass_at_k_advantages(right, scored, 4, 1)[4:], [0.5774] * 3 + [-1.7321])
    # One without a reward counts nowhere: one of three, k = 2: C(2,2)/C(3,2) = 1/3; C(1,1)/C(2,1).
    some = torch.tensor([True, True, True, False])
    close(advantages.pass_at_k_advantages(right[:4], some, 4, 2), [0.7071, -0.3536, -0.3536, 0])
    assert not advantages.pass_at_k_advantages(right[:4], some, 4, 4).any()


LOG_PROBS = torch.tensor([[-1.0, -3.0], [-2.0, -9.0]])
ADVANTAGES = torch.tensor([[2.0, 2.0], [-4.0, -4.0]])
MASK = torch.tensor([[True, True], [True, False]])
# Means over the three tokens: -2 and 0.
COVARIANCES = [[2.0, -2.0], [0.0, -math.inf]]


def test_token_covariances():
    assert tokens.token_covariances(LOG_PROBS, ADVANTAGES, MASK).tolist() == COVARIANCES


def test_clip_cov_takes_a_share_at_random_from_the_band():
    found = torch.tensor([[2.0, 0.5, 6.0, 3.0, 1.0, -math.inf]])
    draws = torch.tensor([0.9, 0.0, 0.1, 0.2, 0.5, 0.0])
    free = torch.zeros_like(found, dtype=torch.bool)
    assert tokens.clip_cov_tokens(found, free, 0.4, draws).nonzero()[:, 1].tolist() == [0, 3]
    assert tokens.clip_cov_tokens(found, free, 1e-9, draws).nonzero()[:, 1].tolist() == [3]
    taken = torch.tensor([[False, False, False, True, False, False]])
    assert tokens.clip_cov_tokens(found, taken, 1.0, draws).nonzero()[:, 1].tolist() == [0]
    assert not tokens.clip_cov_tokens(found[:, 1:3], free[:, 1:3], 1.0, draws[:2]).any()


# How many tokens ``compute_policy_loss_clip_cov`` of PRIME-RL/Entropy-Mechanism-of-RL takes out of
# the gradient with ``clip_ratio`` 1, and its loss, run outside of this repository on these inputs.
CLIP_COV = [
    (7, 0.483608), (6, 1.094499), (6, 0.993722), (11, 0.243217), (2, -0.954265), (7, -0.929444),
    (6, 0.369343), (7, 0.084323), (0, 1.350059), (5, 0.534509), (6, -0.628272), (9, -0.843136),
    (6, -0.482883), (9, 0.246878), (5, 0.992945), (7, 0.080632), (8, -0.257095), (4, -1.480075),
    (4, -0.452879), (8, -0.062164), (9, 0.726827), (8, 0.786359), (4, -0.063563), (4, -1.197474),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CLIP_COV)))
def test_clip_cov_is_the_authors(case):
    n = torch.arange(32, dtype=torch.float64).view(4, 8)
    old = -2 + 1.9 * torch.sin(n * (case + 1) * 0.7)
    new = old + (0.15 + 0.1 * (case % 5)) * torch.sin(n * 1.3 + case)
    new = torch.where((n % 7) == case % 7, new + 0.9, new)
    own = 3 * torch.cos(torch.arange(4, dtype=torch.float64) * 1.1 + case)
    mask, (low, high) = (n + case) % 6 != 5, ((0.2, 0.28), (1.0, 1.0))[case % 2]
    found = own.unsqueeze(1).expand(4, 8)
    covariances = tokens.token_covariances(new, found, mask)
    taken = tokens.clipped(new - old, found, low, high)
    chosen = tokens.clip_cov_tokens(covariances, taken, 1.0, torch.rand(32))
    ratio = (new - old).exp()
    losses = torch.maximum(-found * ratio, -found * ratio.clamp(1 - low, 1 + high)) * ~chosen
    number, loss = CLIP_COV[case]
    assert int(chosen.sum()) == number
    assert float((losses * mask).sum() / mask.sum()) == pytest.approx(loss, abs=2e-6)


def test_kl_cov_takes_the_highest():
    assert tokens.kl_cov_tokens(torch.tensor(COVARIANCES), 0.7).tolist() == [
        [True, False],
        [True, False],
    ]
    assert tokens.kl_cov_tokens(torch.tensor(COVARIANCES), 0.0).sum() == 1


def test_the_advantages_of_kl_cov_have_the_penalty_s_gradient():
    log_ratio = torch.tensor([0.3, -0.2, 0.4, 0.0], requires_grad=True)
    advantages, chosen = (
        torch.tensor([1.0, 2.0, -1.0, 1.0]),
        torch.tensor([True, True, False, True]),
    )
    (rival,) = torch.autograd.grad(
        (-log_ratio.exp() * advantages + tokens.KL_COV * chosen * log_ratio.abs()).sum(), log_ratio
    )
    changed = tokens.with_kl_penalty(advantages, log_ratio.detach(), chosen)
    (ours,) = torch.autograd.grad((-log_ratio.exp() * changed).sum(), log_ratio)
    torch.testing.assert_close(ours, rival)


def test_the_nearest_temperature_is_taken():
    measured = {1.4: 0.7, 0.6: 0.2, 1.0: 0.4}
    choice = nearest_temperature(measured, 0.3)
    assert (choice.temperature, choice.reached) == (0.6, True)  # the lower of two equally near
    assert "H(0.6) = 0.200" in choice.explanation
    assert not nearest_temperature(measured, 0.8).reached
    with pytest.raises(UserError, match="at least one"):
        nearest_temperature({}, 0.3)


# In training -------------------------------------------------------------------------------------


def test_uncut_advantages_reach_the_loss_and_the_record(make_trainer):
    batches = []
    options = {"max_completion_length": 5, "per_device_train_batch_size": 8, "max_steps": 4}
    parts = {"on_generation": batches.append}
    make_trainer(advantage_rule="uncut", trainer=parts, **options).train()
    assert any(batch.truncated.any() for batch in batches)
    for batch in batches:
        wanted = advantages.uncut_advantages(
            torch.tensor(batch.rewards), torch.tensor(batch.truncated), 4
        )
        close(torch.tensor(batch.advantages), wanted.tolist())
        assert not batch.advantages[batch.truncated].any()


def test_pass_at_k_trains(make_trainer):
    batches = []

    def seldom(completions, **_):
        return [float(text.startswith("a")) for text in completions]

    parts = {"reward_funcs": seldom, "on_generation": batches.append}
    options = {"per_device_train_batch_size": 16, "max_steps": 5}
    make_trainer(advantage_rule="pass_at_k", pass_k=2, trainer=parts, **options).train()
    found = {round(float(a), 3) for batch in batches for a in batch.advantages}
    # One or two of four are right: (1, -1/3) and, with C(2,2)/C(4,2) = 1/6, (.447, -.447).
    assert found <= {0, 1, -0.333, 0.447, -0.447}
    assert 1 in found


@pytest.mark.slow
def test_tokens_chosen_by_covariance_are_trained_otherwise(make_trainer):
    def weights(**options):
        trainer = make_trainer(gradient_accumulation_steps=1, steps_per_generation=2, **options)
        trainer.train()
        return trainer, torch.cat([p.detach().flatten() for p in trainer.model.parameters()])

    free = {"epsilon": 1.0, "epsilon_high": 1000.0}
    for rule in ("clip_cov", "kl_cov"):
        _, plain = weights(**free)
        trainer, changed = weights(token_rule=rule, token_share=0.2, **free)
        assert not torch.equal(plain, changed)
        shares = logged(trainer, "covariance/chosen")
        assert len(shares) == 5
        assert 0 < max(shares) <= 0.25
        _, again = weights(token_rule=rule, token_share=0.2, **free)
        assert torch.equal(changed, again)


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_long_answers_are_punished_and_correctness_is_not_theirs(make_trainer, weight):
    batches = []
    options = {"soft_overlong": 0.25, "soft_overlong_weight": weight, "max_completion_length": 8}
    trainer = make_trainer(**options, trainer={"on_generation": batches.append})
    trainer.train()
    assert trainer.deciding_reward == "letter_reward"
    (batch, *_) = [one for one in batches if one.truncated.any()]
    assert set(batch.rewards) <= {0.0, 1.0}
    punished = -(batch.lengths - 6).clip(0) / 2
    mean = logged(trainer, "rewards/soft_overlong_punishment_reward/mean")[batch.step]
    assert mean == pytest.approx(punished.mean())
    total = trainer.reward_weights @ torch.tensor([batch.rewards.mean(), punished.mean()]).float()
    assert logged(trainer, "reward")[batch.step] == pytest.approx(float(total))
    assert trainer.reward_weights.tolist() == [1.0, weight]


def overlong(make_trainer, **options):
    return make_trainer(soft_overlong=0.5, **options)


def test_the_punishment_is_of_the_limit_that_cuts(make_trainer):
    trainer = overlong(make_trainer, generation_kwargs={"max_new_tokens": 4})
    ids = [[2] * n for n in (2, 3, 4, 12)]
    assert trainer.reward_funcs[-1](completions=None, completion_ids=ids) == [0, -0.5, -1, -1]


def test_settings_with_a_punishment_serve_a_second_trainer(make_trainer, config):
    args = config(soft_overlong=0.5, soft_overlong_weight=0.5, reward_weights=[2.0])
    for reward in (letter_reward, right):
        trainer = make_trainer(trainer={"args": args, "reward_funcs": reward})
        assert trainer.deciding_reward == reward.__name__
        assert trainer.reward_weights.tolist() == [2.0, 0.5]
    assert (args.correctness_reward, args.reward_weights) == (None, [2.0])


@pytest.mark.parametrize(
    ("rewards", "weights", "message"),
    [
        (letter_reward, [1.0, 1.0, 1.0], "3 numbers and there are 1 reward functions; with soft_o"),
        ([letter_reward, right], None, "with soft_overlong .* one of letter_reward, right"),
    ],
)
def test_errors_name_the_punishment(make_trainer, rewards, weights, message):
    with pytest.raises(UserError, match=message):
        overlong(make_trainer, trainer={"reward_funcs": rewards}, reward_weights=weights)


def test_a_temperature_is_chosen_by_the_sampler_s_entropy(make_trainer):
    options = {"temperature_grid": [0.3, 1.0, 2.5], "temperature_probe_prompts": 8, "max_steps": 1}
    trainer = make_trainer(temperature_target_entropy=1.4, sample_unfinished=True, **options)
    trainer.train()
    choice = trainer.stages.choice
    nearest = min(choice.measured, key=lambda t: abs(choice.measured[t] - 1.4))
    assert choice.temperature == float(nearest)
    assert choice.measured["0.3"] < choice.measured["1"] < choice.measured["2.5"]
    assert logged(trainer, "temperature") == [choice.temperature]
    with pytest.raises(UserError, match="sample_unfinished=True"):
        make_trainer(temperature_target_entropy=1.4, **options).train()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage_rule": "best"}, "allowed: group, pass_at_k, uncut"),
        ({"advantage_rule": "uncut", "scale_rewards": "none"}, "leave scale_rewards at 'group'"),
        (
            {"advantage_rule": "uncut", "multi_objective_aggregation": "normalize_then_sum"},
            "leave multi_objective_aggregation at 'sum_then_normalize'",
        ),
        ({"token_credit": "critic", "scale_rewards": "none"}, "leave scale_rewards at 'group'"),
        ({"multi_objective_aggregation": "sum"}, "allowed: normalize_then_sum, sum_then_normalize"),
        ({"dynamic_sampling": 1, "remove_unused_columns": True}, "set remove_unused_columns=False"),
        ({"drop_above": 0.9, "remove_unused_columns": True}, "set remove_unused_columns=False"),
        ({"imitate": "reference", "remove_unused_columns": True}, "set remove_unused_columns"),
        ({"record_columns": ["level"], "remove_unused_columns": True}, "set remove_unused_col"),
        ({"soft_overlong": 0.2, "max_completion_length": None}, "needs the limit of a response"),
        ({"advantage_rule": "pass_at_k", "pass_k": 9}, "at most num_generations, 4"),
        (
            {"token_rule": "clip_cov", "loss_type": "cispo", "epsilon_high": 5.0},
            "one of the losses",
        ),
        ({"token_rule": "kl_cov"}, "epsilon=1 and epsilon_high=1000"),
        ({"soft_overlong": 0.2, "length_stages": "0:8"}, "for one limit"),
        ({"soft_overlong_weight": 0.5}, "weighs soft_overlong, which is off"),
        ({"soft_overlong": 1.2}, r"soft_overlong must be in \[0, 1\]"),
        ({"dynamic_sampling": 1.5}, "must be a whole number"),
        ({"temperature_target_entropy": 0.3, "temperature_stages": "0:1"}, "give one"),
    ],
)
def test_wrong_options_are_refused(config, changes, message):
    with pytest.raises(UserError, match=message):
        config(**changes)
