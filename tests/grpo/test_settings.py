"""Configuration, recipes and batch plans: right numbers, and one clear sentence for wrong ones."""

import dataclasses

import pytest
from transformers import HfArgumentParser

from mcbench.errors import UserError
from mcbench.grpo import RECIPES, MicroCoderGRPOConfig, recipe
from mcbench.grpo.batch_plan import BatchPlan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"truncation_mask": "some"}, "allowed: all, conditional, none"),
        ({"mask_when": "wrong"}, "allowed: any, correct, incorrect, non_incorrect"),
        ({"repeat_rule": "loop"}, "allowed: none, periodic, window"),
        ({"mask_ratio": 1.1}, r"in \[0, 1\]"),
        ({"mask_ratio": float("nan")}, r"in \[0, 1\]"),
        ({"repeat_window": 0}, "at least 1"),
        ({"correct_threshold": 0.0}, "must be below"),
        ({"truncation_mask": "conditional", "mask_truncated_completions": True}, "two different"),
        ({"temperature": 0.0}, "greater than 0"),
        ({"temperature_stages": [(0, 1.0), (4, -1.0)]}, "greater than 0"),
        ({"temperature_stages": [(4, 1.0), (4, 1.2)]}, "rising order"),
        ({"temperature_stages": [(4, 1.0), (2, 1.2)]}, "rising order"),
        ({"temperature_stages": []}, "empty"),
        ({"length_stages": [(0, 8.5)]}, "whole"),
        ({"temperature_target_diversity": 1.5}, "share of unique"),
        ({"temperature_target_diversity": 0.6, "temperature_stages": "0:1"}, "give one"),
        ({"temperature_target_diversity": 0.6, "temperature_grid": [0.0]}, "greater than 0"),
        ({"temperature_grid": [1.0, -1.0]}, "greater than 0"),
        ({"temperature_grid": ["1.0"]}, "greater than 0"),
        ({"temperature_restore": [4, 2]}, "rising steps above 0"),
        ({"temperature_restore": ["4"]}, "rising steps above 0"),
        ({"correct_threshold": float("nan")}, "must be below"),
        ({"substitute_flat": 1.0}, "skips every step"),
        ({"loss_type": "ppo"}, "unknown loss_type 'ppo'; allowed: .*dr_grpo, grpo"),
        ({"scale_rewards": "batches"}, "allowed: batch, group, none"),
        ({"importance_sampling_level": "word"}, "allowed: sequence, token"),
        ({"epsilon": -0.1}, "epsilon must be at least 0"),
        ({"top_p": 1.5}, r"top_p must be in \[0, 1\]"),
        ({"num_iterations": 0}, "num_iterations must be at least 1"),
        ({"num_generations_eval": 0}, "num_generations_eval must be at least 1"),
        ({"max_completion_length": 0}, "max_completion_length must be at least 1"),
        ({"steps_per_generation": 0}, "steps_per_generation must be at least 1"),
        ({"off_policy_mask_threshold": -1.0}, "off_policy_mask_threshold must be at least 0"),
        ({"sapo_temperature_pos": 0.0}, "sapo_temperature_pos must be greater than 0"),
        ({"delta": -1.0}, "delta must be greater than 0"),
        ({"entropy_coef": "x"}, "entropy_coef must be a number"),
        ({"reward_weights": "1"}, "reward_weights must be a list of numbers"),
        ({"reward_weights": [float("nan")]}, "reward_weights must be a list of numbers"),
        ({"generation_kwargs": "x"}, "generation_kwargs must be a dictionary"),
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs must be a dictionary"),
        ({"generation_kwargs": {"temperature": 0}}, "temperature of generation_kwargs must be"),
        ({"temperature_stages": "0:1", "generation_kwargs": {"temperature": 2.0}}, "drop one"),
    ],
)
def test_wrong_options_are_refused(config, changes, message):
    with pytest.raises(UserError, match=message):
        config(**changes)


def test_unknown_correctness_reward(make_trainer):
    with pytest.raises(UserError, match="letter_reward"):
        make_trainer(correctness_reward="tests")


def test_configuration_survives_the_command_line_and_a_dictionary(tmp_path):
    line = f"--output_dir {tmp_path} --use_cpu --bf16 False --per_device_train_batch_size 8"
    line += " --truncation_mask all --mask_ratio 0.1 --temperature_stages 0:0.6,140:1.2"
    line += " --temperature_grid 0.5 1.5 --record_columns problem_id verdicts"
    (parsed,) = HfArgumentParser(MicroCoderGRPOConfig).parse_args_into_dataclasses(line.split())
    assert parsed.temperature_stages == [[0, 0.6], [140, 1.2]]
    assert (parsed.temperature, parsed.mask_truncated_completions) == (0.6, True)
    assert parsed.temperature_grid == [0.5, 1.5]
    values = parsed.to_dict()
    names = {f.name for f in dataclasses.fields(MicroCoderGRPOConfig) if f.init}
    kept = {k: v for k, v in values.items() if k in names and k != "generation_batch_size"}
    again = MicroCoderGRPOConfig(**kept)
    assert again.to_dict() == values


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_configure_and_name_their_sources(config, name):
    made = config(**recipe(name).args())
    assert {key: getattr(made, key) for key in recipe(name).args()} == recipe(name).args()
    assert all(RECIPES[name].sources.values())


def test_recipes_differ_where_the_papers_say():
    args = {name: r.args() for name, r in RECIPES.items()}
    assert args["grpo"]["beta"] > 0
    assert (args["grpo"]["epsilon"], args["grpo"]["epsilon_high"]) == (0.2, 0.2)
    assert (args["grpo_plus"]["beta"], args["grpo_plus"]["epsilon_high"]) == (0.0, 0.28)
    added = set(args["microcoder"].items()) - set(args["grpo_plus"].items())
    assert dict(added)["truncation_mask"] == "conditional"
    assert dict(added)["mask_ratio"] == 0.2
    assert args["deepcoder"] == {**args["grpo_plus"], "truncation_mask": "all"}
    assert args["dr_grpo"]["scale_rewards"] == "none"


def test_recipe_changes():
    changed = recipe("microcoder", mask_ratio=0.1)
    assert changed.args()["mask_ratio"] == 0.1
    assert RECIPES["microcoder"].args()["mask_ratio"] == 0.2
    allowed = "cispo, clip_cov, deepcoder, dr_grpo, grpo, grpo_per_response, grpo_plus"
    with pytest.raises(UserError, match=f"allowed: {allowed}"):
        recipe("ppo")
    with pytest.raises(UserError, match="did you mean mask_ratio"):
        recipe("grpo", mask_ration=0.3)
    assert changed.sources["mask_ratio"] == "changed by the user"


def test_batch_plan_of_the_paper(config):
    plan = BatchPlan(64, 16, num_generations=8, per_device_batch_size=4, processes=8)
    assert plan.updates_per_generation == 4
    assert plan.trl_args() == {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "steps_per_generation": 16,
        "num_generations": 8,
    }
    assert "64 prompts x 8 responses, then 4 updates of 16 prompts" in plan.describe()
    alone = BatchPlan(8, 4, num_generations=4, per_device_batch_size=8)
    made = config(**alone.trl_args())
    assert made.generation_batch_size == 8 * 4
    assert made.generation_period == alone.updates_per_generation == 2
    assert "no effect" in BatchPlan(4, 4, 4, 4).describe()


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((10, 4, 8, 4), "multiple of ppo_mini_batch_size .*; try 8 or 12"),
        ((8, 4, 3, 5), "can be 1, 2, 3, 4, 6, 12"),
        ((2, 1, 3, 1, 2), "no per_device_batch_size fits 2 processes"),
        ((8, 4, 1, 4), "at least 2"),
        ((8, 0, 4, 4), "ppo_mini_batch_size must be a whole number"),
    ],
)
def test_batch_plans_that_do_not_divide(numbers, message):
    with pytest.raises(UserError, match=message):
        BatchPlan(*numbers)
