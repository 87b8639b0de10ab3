"""Arms as data: shares, names, profiles; which record is of which arm."""

import pytest
import yaml

from mcbench.claims.protocol import MAP_SEEDS
from mcbench.errors import UserError
from mcbench.experiments.arms import arm_config, check_arms
from mcbench.experiments.experiments import (
    ARMS,
    EXPERIMENTS,
    REGISTERED,
    ROUND_2,
    plan_runs,
    planned_runs,
)
from mcbench.experiments.study import named_by_settings, planned_study, studies


def test_an_arm_takes_the_recipe_it_names_else_that_of_its_name_else_microcoder():
    arms = check_arms({"grpo": {}, "mine": {"mask_ratio": 0.5}, "x": {"recipe": "dr_grpo"}})
    assert [arm["recipe"] for arm in arms.values()] == ["grpo", "microcoder", "dr_grpo"]


def test_a_number_may_be_written_as_yaml_1_1_gives_it_on():
    """papermill makes texts of exponents without a point."""
    arms = yaml.safe_load(
        "mine: {recipe: grpo_plus, learning_rate: 5e-5, weight_decay: 1e-2, train_set: 1e5,"
        " temperature_grid: [5e-1, 1], eval_lengths: ['12'], temperature_stages: [[0, 6e-1]]}"
    )
    common = {"max_grad_norm": "1E2", "reward_workers": "3"}
    found = arm_config("mine", check_arms(arms)["mine"], "nano", common=common, look=False)
    assert (found.learning_rate, found.weight_decay, found.max_grad_norm) == (5e-5, 0.01, 100.0)
    assert (found.temperature_grid, found.temperature_stages) == ([0.5, 1.0], [[0, 0.6]])
    assert (found.train_set, found.eval_lengths, found.reward_workers) == ("1e5", (12,), 3)
    by_profile = {"recipe": "grpo_plus", "learning_rate": {"nano": "5e-5", "else": 1e-6}}
    assert arm_config("mine", by_profile, "nano", look=False).learning_rate == 5e-5


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (["none"], "arms must map names to settings, such as"),
        ({}, "arms must map names to settings"),
        ({"mine": 3}, "an arm is a name and its settings, .* got 'mine': 3"),
        (
            {"mine": {"mask_ration": 0.5}},
            "arm 'mine': .*did you mean mask_ratio.*the mask settings",
        ),
        ({"mine": {"mask_ratio": 1.5}}, "arm 'mine': mask_ratio must be from 0 to 1"),
        ({"mine": {"recipe": "microcodr"}}, "unknown recipe 'microcodr'; did you mean microcoder?"),
        ({"mine": {"profile": "nanno"}}, "unknown profile 'nanno'; did you mean nano"),
        ({"mine": {"temperature": "50%"}}, "temperature takes no share"),
        ({"mine": {"learning_rate": "1e400"}}, "learning_rate must be finite, got inf"),
        ({"mine": {"learning_rate": "5e-5x"}}, "learning_rate must be a number, got '5e-5x'"),
        ({"mine": {"learning_rate": "true"}}, "learning_rate must be a number, got 'true'"),
        ({"mine": {"length_stages": "0:50%,x:100%"}}, "'x' is no step"),
    ],
)
def test_a_wrong_arm_is_one_sentence(arms, message):
    with pytest.raises(UserError, match=message) as caught:
        planned_study(arms)
    assert "\n" not in str(caught.value)
    assert "vllm" not in str(caught.value)


def test_shares_follow_the_profile_and_what_is_changed_for_every_arm():
    def limits(profile, common=None):
        arms = ARMS["context_length"]
        found = [arm_config(a, arms[a], profile, common, look=False) for a in arms]
        return [(one.max_completion_length, one.length_stages) for one in found[:4]]

    assert limits("nano") == [(48, None), (72, None), (96, None), (96, [[0, 48], [32, 96]])]
    assert limits("qwen3-4b")[0] == (4096, None)
    assert limits("nano", {"max_completion_length": 64, "steps": 80})[3] == (
        64,
        [[0, 32], [16, 64]],
    )
    ramp = arm_config("r", ARMS["temperature"]["ramp_06_18"], "nano", look=False)
    assert ramp.temperature_stages[0] == [0, 0.6]
    assert ramp.temperature_stages[-1] == [96, 1.8]
    assert len(ramp.temperature_stages) == 10


def test_the_older_generation_is_trained_at_the_profile_of_its_scale():
    older = ARMS["cross_model"]["older"]
    assert arm_config("older", older, "nano", look=False).profile == "nano-old"
    assert arm_config("older", older, "qwen3-4b", look=False).profile == "qwen2.5-7b"
    with pytest.raises(UserError, match="unknown profile for the arm 'older' 'nano-m'"):
        arm_config("older", older, "nano-m", look=False)


def test_an_arm_goes_before_what_is_set_for_all():
    plan = plan_runs({"a": {"temperature": 1.2}, "b": {}}, settings={"temperature": 0.6}, steps=40)
    assert [one.config.temperature for one in plan] == [1.2, 0.6]
    assert {one.config.steps for one in plan} == {40}


def test_the_first_seed_of_every_arm_comes_first():
    plan = plan_runs({"a": {}, "b": {"mask_ratio": 0.5}}, seeds=[0, 1])
    assert [p.label for p in plan] == ["a seed 0", "b seed 0", "a seed 1", "b seed 1"]


def test_the_evaluator_experiments_differ_in_the_reward_only():
    trained = [planned.config for planned in planned_runs("code_evaluator", seeds=[0])]
    assert [config.reward_rules for config in trained] == ["microcoder", "livecodebench"]
    timed = [planned.config for planned in planned_runs("evaluator_timing", seeds=[0])]
    assert len({config.run_id for config in (*trained, *timed)}) == 5
    for configs, name in ((trained, "reward_rules"), (timed, "reward_evaluator")):
        same = {one.with_settings({name: "microcoder"}).run_id for one in configs}
        assert len(same) == 1


@pytest.mark.slow
def test_every_committed_record_is_found_under_the_arms_it_was_trained_for(committed):
    """By its id: all arms of every experiment at its profiles, and no record is of none."""
    found, recorded = set(), {one.run_id for one in committed}
    for experiment in EXPERIMENTS.values():
        first = [] if set(experiment.seeds) & set(MAP_SEEDS) else range(5)
        for profile in (*experiment.profiles, *(("nano", "nano-m", "nano-clip") if first else ())):
            arms = {
                arm: own
                for arm, own in experiment.arms.items()
                if profile in own.get("profile", (profile,))
            }
            planned = planned_runs(experiment.name, profile, [*first, *experiment.seeds], arms=arms)
            there = {(one.arm, one.config.seed) for one in planned if one.config.run_id in recorded}
            seeds_of = {arm: {seed for own, seed in there if own == arm} for arm in arms}
            runs = {arm: seeds for arm, seeds in seeds_of.items() if seeds}
            found |= {one.config.run_id for one in planned}
            if profile in experiment.profiles:
                # Round 1 has the paper's GRPO on nano-steady alone, as kl_low_clip.
                results = (experiment.name, profile) == ("results", "nano-steady-m")
                left = {"grpo"} if results else set()
                if not runs and experiment.name in REGISTERED:
                    continue  # registered, not trained yet
                assert list(runs) == [arm for arm in experiment.arms if arm not in left]
                assert all(len(seeds) >= 3 for seeds in runs.values())
    found |= {one.config.run_id for name in ROUND_2 for one in planned_runs(name)}
    lora = {"recipe": "grpo_plus", "lora_rank": 32, "learning_rate": 1e-4}  # notebook 30 has it
    adapters = {one.config.run_id for one in plan_runs({"lora": lora}, ["smollm2-135m"], (80, 81))}
    assert found | adapters >= {one.run_id for one in committed}


@pytest.mark.slow
def test_runs_of_other_lengths_are_not_among_those_of_a_profile(committed):
    mine = [one for one in committed if one.config.profile == "nano-steady" and one.seed == 10]
    changed = [
        one.__class__(
            {**one.meta, "config": shorter.to_dict(), "run_id": shorter.run_id}, [], [], one.path
        )
        for one in mine
        for shorter in [one.config.with_settings({"steps": 80})]
    ]
    assert studies("truncation_mask", changed) == []


@pytest.mark.slow
def test_runs_of_no_experiment_are_named_by_what_differs(committed):
    names = named_by_settings([one for one in committed if one.config.profile == "nano"])
    assert "microcoder (mask_ratio 0.3)" in names
    assert len(names["grpo_per_response (kl_estimator k3)"]) == 5
