"""Every arm of ``rivals`` trains, and what it logs shows that it acts."""

import pytest

from mcbench.experiments.experiments import ARMS, planned_runs
from mcbench.runs.store import read_run
from mcbench.runs.train import train

SMALL = {
    "num_generations": 8,
    "per_device_batch_size": 16,
    "eval_every": 4,
    "eval_attempts": 1,
    "temperature_probe_prompts": 4,
}


@pytest.fixture(scope="module")
def trained(tiny_settings, tmp_path_factory):
    store, found = tmp_path_factory.mktemp("runs"), {}

    def of(arm):
        if arm not in found:
            home = "rivals_originals" if arm in ARMS["rivals_originals"] else "rivals"
            own = ARMS[home][arm]
            settings = {k: v for k, v in {**tiny_settings, **SMALL}.items() if k not in own}
            (planned,) = planned_runs(home, "tiny", [0], 4, [arm], settings)
            found[arm] = read_run(train(planned.config, store, lambda line: None).path)
        return found[arm]

    return of


def logged(record, name):
    return [line[name] for line in record.step_lines if line.get(name) is not None]


def answers(record):
    return [row for step in record.completion_steps() for row in
            record.completions(step).to_dict("records")]  # fmt: skip


@pytest.mark.slow
def test_cut_answers_of_either_rule_have_no_advantage(trained):
    for arm in ("before", "after"):
        cut = [row for row in answers(trained(arm)) if row["truncated"]]
        assert cut
        assert not any(row["advantage"] for row in cut)
    assert any(row["advantage"] for row in answers(trained("none")) if row["truncated"])
    assert logged(trained("after"), "mask/share") == logged(trained("after"), "mask/truncated")
    assert logged(trained("before"), "mask/share") == [0, 0]


@pytest.mark.slow
def test_a_temperature_is_fixed_or_chosen_by_entropy(trained):
    assert set(logged(trained("t_06"), "temperature")) == {0.6}
    choice = trained("entropy_03").meta["temperature_choice"]
    assert set(logged(trained("entropy_03"), "temperature")) == {choice["temperature"]}
    assert min(choice["measured"], key=lambda t: abs(choice["measured"][t] - 0.3)) == (
        f"{choice['temperature']:g}"
    )


@pytest.mark.slow
def test_dapo_s_rules_act(trained):
    punished = trained("soft_overlong")
    assert min(logged(punished, "rewards/soft_overlong_punishment_reward/mean")) < 0
    assert {row["reward"] for row in answers(punished)} <= {0.0, 1.0}
    sampled = trained("dynamic")
    assert max(logged(sampled, "dynamic/groups_sampled")) > 1
    assert max(logged(sampled, "frac_reward_zero_std")) == 0


@pytest.mark.slow
def test_losses_are_the_ones_asked_for(trained):
    losses = {arm: trained(arm).config.loss_type for arm in ("grpo_no_kl", "dr_grpo", "cispo")}
    assert losses == {"grpo_no_kl": "grpo", "dr_grpo": "dr_grpo", "cispo": "cispo"}
    assert len({tuple(logged(trained(arm), "grad_norm")) for arm in losses}) == 3
    assert len(logged(trained("cispo"), "cispo_clip_ratio")) == 4
    clipped = {
        arm: max(logged(trained(arm), "clip_ratio/region_mean")) for arm in ("gspo", "grpo_no_kl")
    }
    assert clipped["gspo"] > clipped["grpo_no_kl"]  # a range of 0.0003 against one of 0.2


@pytest.mark.slow
def test_a_few_tokens_of_high_covariance_are_treated_otherwise(trained):
    for arm, share in (("clip_cov", 2e-4), ("kl_cov", 2e-3)):
        shares = logged(trained(arm), "covariance/chosen")
        assert len(shares) == 4
        assert max(shares) > share  # one token at the least
        assert max(shares) < 0.02


@pytest.mark.slow
def test_pass_at_k_s_advantages_are_in_the_record(trained):
    found = {round(row["advantage"], 3) for row in answers(trained("pass_at_k"))}
    # Of eight answers, k = 4: by hand for 1 to 4 right ones; with five any four hold one.
    right = {1: 1.0, 2: 0.522, 3: 0.277, 4: 0.120}
    wrong = {1: -0.143, 2: -0.174, 3: -0.166, 4: -0.120}
    assert found <= {0.0, *right.values(), *wrong.values()}
    assert found & set(right.values())
