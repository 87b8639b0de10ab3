"""Two descriptions of the same computation are one run, and other computations are other runs."""

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from mcbench.grpo import MicroCoderGRPOConfig
from mcbench.runs.arguments import trainer_arguments
from mcbench.runs.canonical import BEFORE, DEFAULTS
from mcbench.runs.config import SETTINGS, part_of
from mcbench.runs.resolve import described


def run_id(recipe="grpo_plus", **settings):
    return described("nano", recipe, settings).run_id


def test_the_defaults_are_the_trainers():
    theirs = {
        one.name: one.default_factory() if one.default is MISSING else one.default
        for one in fields(MicroCoderGRPOConfig)
        if one.default is not MISSING or one.default_factory is not MISSING
    }
    # A run has its own schedule where nothing else is said.
    theirs["lr_scheduler_type"] = trainer_arguments(
        described("nano", "grpo_plus"), Path("x")
    ).lr_scheduler_type.value
    algorithm = [name for name in SETTINGS if part_of(name) == "algorithm"]
    told = {name: theirs[name] for name in algorithm if theirs[name] is not None}
    assert {name: value for name, value in told.items() if name not in BEFORE} == {
        name: value for name, value in DEFAULTS.items() if value is not None
    }


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("recipe", ["grpo", "grpo_plus", "microcoder", "clip_cov", "dr_grpo"])
def test_what_the_trainer_does_anyway_need_not_be_said(recipe, name):
    assert run_id(recipe, **{name: DEFAULTS[name]}) == run_id(recipe, **{name: None})


@pytest.mark.parametrize(
    ("recipe", "one", "other"),
    [
        # What acts on nothing.
        ("grpo_plus", {"mask_ratio": 0.7, "mask_when": "any", "masked_lose": "loss"}, {}),
        ("deepcoder", {"mask_ratio": 0.7}, {}),
        ("grpo_plus", {"pass_k": 2, "token_share": 0.1}, {}),
        ("grpo_plus", {"advantage_rule": "uncut", "pass_k": 2}, {"advantage_rule": "uncut"}),
        ("grpo_plus", {"temperature_grid": [0.5], "temperature_probe_prompts": 8}, {}),
        ("grpo_plus", {"imitate_from": 3}, {}),
        ("grpo_plus", {"imitate": "reference", "imitate_from": 3}, {"imitate": "reference"}),
        ("grpo_plus", {"kl_estimator": "k3", "use_bias_correction_kl": True}, {}),
        ("grpo_plus", {"small_eval_limit": 7, "enable_thinking": True}, {}),
        ("grpo_plus", {"temperature": 0.5, "temperature_stages": "0:0.6,50%:1"},
         {"temperature_stages": "0:0.6,50%:1"}),
        ("grpo_plus", {"temperature": 0.5, "temperature_target_diversity": 0.4},
         {"temperature_target_diversity": 0.4}),
        ("cispo", {"epsilon": 0.1}, {}),
        ("grpo_plus", {"loss_type": "sapo", "epsilon": 0.1, "epsilon_high": 0.5},
         {"loss_type": "sapo"}),
        ("gspo", {"loss_type": "vespo"}, {"loss_type": "vespo", "epsilon": 0.2,
         "importance_sampling_level": "token"}),
        ("microcoder", {"mask_ratio": 0.0}, {"truncation_mask": "none"}),
        ("microcoder", {"mask_ratio": 0.0, "mask_when": "any", "masked_lose": "loss"},
         {"mask_ratio": 0.0}),
        ("grpo", {"kl_target": 0.5, "kl_estimator": "k3", "use_bias_correction_kl": True},
         {"kl_target": 0.5}),
        # What is said in another way.
        ("grpo_plus", {"mask_truncated_completions": True}, {"truncation_mask": "all"}),
        ("deepcoder", {"mask_truncated_completions": True}, {}),
        ("microcoder", {"mask_ratio": None, "mask_when": None, "repeat_rule": None}, {}),
        ("grpo", {"epsilon_high": None}, {}),
        ("grpo_plus", {"temperature_stages": "0:0.7"}, {"temperature": 0.7}),
        ("grpo_plus", {"temperature_stages": "0:0.7,40:0.7,80:1"},
         {"temperature_stages": "0:0.7,80:1"}),
        ("grpo_plus", {"length_stages": "0:100%"}, {}),
        ("grpo_plus", {"length_stages": "0:50%"}, {"max_completion_length": 48}),
        ("grpo_plus", {"length_stages": [[0, 24], [16, 48]], "max_completion_length": 50},
         {"length_stages": [[0, 24], [16, 48]]}),
        ("grpo_plus", {"kind_stages": [[0, "all"]]}, {}),
        ("grpo_plus", {"draw_from_set": True}, {}),
        ("grpo_plus", {"kind_stages": [[0, "induced"]]}, {"kind_stages": [[0.0, "induced"]]}),
        ("grpo_plus", {"temperature_reading": "trend", "temperature_target_diversity": 0.4},
         {"temperature_reading": "trend", "temperature_target_diversity": 0.4,
          "temperature_stretch": 16}),
    ],
)  # fmt: skip
def test_two_descriptions_of_one_computation_are_one_run(recipe, one, other):
    assert run_id(recipe, **one) == run_id(recipe, **other)


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("microcoder", {"mask_ratio": 0.7}),
        ("microcoder", {"mask_when": "any"}),
        ("microcoder", {"masked_lose": "loss"}),
        ("microcoder", {"repeat_rule": "none"}),
        ("grpo_plus", {"repeat_rule": "none"}),  # the log of repetitions is another one
        ("grpo_plus", {"truncation_mask": "conditional"}),
        ("grpo_plus", {"truncation_mask": "all"}),
        ("grpo_plus", {"top_p": 0.9}),
        ("grpo_plus", {"temperature": 0.9}),
        ("grpo_plus", {"temperature_stages": "16:0.7"}),
        ("grpo_plus", {"temperature_stages": "0:0.7,16:1"}),
        ("grpo_plus", {"length_stages": "0:50%"}),
        ("grpo_plus", {"kind_stages": [[0, "induced"]]}),
        ("grpo_plus", {"num_iterations": 2}),
        ("grpo_plus", {"token_rule": "clip_cov"}),
        ("clip_cov", {"token_share": 0.1}),
        ("grpo_plus", {"advantage_rule": "pass_at_k"}),
        ("grpo", {"kl_estimator": "k3"}),
        ("grpo", {"use_bias_correction_kl": True}),
        ("grpo", {"beta": 0.0}),
        ("grpo_plus", {"small_eval_every": 8}),
        ("grpo_plus", {"lr_scheduler_type": "linear"}),
        ("grpo_plus", {"staleness": 1}),
        ("cispo", {"epsilon_high": 3.0}),
    ],
)
def test_what_acts_makes_another_run(recipe, settings):
    assert run_id(recipe, **settings) != run_id(recipe)


@pytest.mark.parametrize("draws", [{"dynamic_sampling": 2}, {"drop_above": 0.9}])
def test_where_further_prompts_come_from_counts_where_they_are_drawn(draws):
    assert run_id(**draws, draw_from_set=True) != run_id(**draws)
