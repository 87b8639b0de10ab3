"""Resolving names and changes into a configuration, and its content-addressed id."""

import dataclasses
import json
from pathlib import Path
from typing import get_type_hints

import pytest
from mcbench.runs.profiles import PROFILES, Profile

from mcbench.errors import UserError
from mcbench.grpo import RECIPES, MicroCoderGRPOConfig
from mcbench.runs.compact import read_compact
from mcbench.runs.config import ALGORITHM_FIELDS, Config, resolve
from mcbench.runs.train import plan, prompt_schedule, trainer_arguments

RECORDS = Path(__file__).parents[2] / "reports" / "records"


def test_a_configuration_survives_json(tiny_profile):
    config = resolve(tiny_profile, "microcoder", {"mask_ratio": 0.1}, seed=3)
    again = Config.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.run_id == config.run_id


def test_the_id_is_about_the_computation_and_not_about_names(tiny_profile):
    base = resolve(tiny_profile, "grpo_plus")
    plus = {"truncation_mask": "conditional", "mask_ratio": 0.2, "mask_when": "incorrect"}
    assert resolve(tiny_profile, "grpo_plus", {**plus, "repeat_rule": "window"}).run_id == (
        resolve(tiny_profile, "microcoder").run_id
    )
    renamed = dataclasses.replace(tiny_profile, name="other", reward_workers=2)
    assert resolve(renamed, "grpo_plus").run_id == base.run_id
    assert resolve(tiny_profile, "grpo_plus", seed=1).run_id != base.run_id
    assert resolve(tiny_profile, "grpo_plus", steps=2).run_id != base.run_id


def test_the_id_follows_the_content_of_the_model(tiny_profile, tmp_path):
    before = resolve(tiny_profile, "grpo")
    copy = tmp_path / "model"
    copy.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (copy / name).write_bytes(Path(tiny_profile.model, name).read_bytes())
    one = resolve(dataclasses.replace(tiny_profile, model=str(copy)), "grpo")
    (copy / "model.safetensors").write_bytes(b"other weights")
    other = resolve(dataclasses.replace(tiny_profile, model=str(copy)), "grpo")
    assert len({before.run_id, one.run_id, other.run_id}) == 3


def test_records_from_before_the_rules_were_a_setting_keep_their_ids(tiny_profile):
    records = [read_compact(path) for path in sorted(RECORDS.glob("*.parquet"))]
    old = [r for r in records if "reward_rules" not in r.config["profile"]]
    assert len(old) == 30
    for record in old:
        assert Config.from_dict(record.config).run_id == record.run_id
    profile, changes = old[0].config.profile, old[0].config["changes"]
    again = resolve(profile, old[0].config.recipe, changes, old[0].seed)
    assert again.run_id == old[0].run_id
    assert again.profile.reward_rules == "microcoder"


def test_other_rules_and_other_evaluators_are_other_runs(tiny_profile):
    changes = ({}, {"reward_rules": "livecodebench"}, {"reward_evaluator": "process_per_sample"})
    ids = {resolve(tiny_profile, "grpo_plus", change).run_id for change in changes}
    assert len(ids) == 3
    spelled_out = {"reward_rules": "microcoder", "reward_evaluator": "microcoder"}
    assert resolve(tiny_profile, "grpo_plus", spelled_out).run_id in ids
    with pytest.raises(UserError, match="brings its own rules"):
        resolve(tiny_profile, "grpo_plus", {**changes[1], **changes[2]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rat": 1.0}, "unknown parameter 'learning_rat'; allowed: .*learning_rate"),
        ({"mask_ratio": "much"}, "mask_ratio must be a number"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"steps": True}, "steps must be a whole number"),
        ({"backend": "jax"}, "unknown backend 'jax'; allowed: transformers, .*vllm_colocate"),
        ({"eval_lengths": 128}, "eval_lengths must be a list"),
        ({"temperature": 0}, "temperature must be greater than 0"),
        ({"model": "./nowhere"}, "'./nowhere' does not exist"),
        ({"train_set": "squad"}, "unknown problem set 'squad'; allowed: .*nano:test, nano:train"),
        ({"reward_rules": "strict"}, "unknown rule set 'strict'; allowed: .*livecodebench"),
        ({"reward_evaluator": "fast"}, "unknown reward_evaluator 'fast'; allowed: microcoder"),
    ],
)
def test_a_wrong_change_is_one_clear_sentence(tiny_profile, changes, message):
    with pytest.raises(UserError, match=message) as caught:
        resolve(tiny_profile, "microcoder", changes)
    assert "\n" not in str(caught.value)


def test_every_name_is_one_that_the_trainer_knows():
    known = get_type_hints(MicroCoderGRPOConfig)
    assert set(ALGORITHM_FIELDS) <= set(known)
    assert not set(ALGORITHM_FIELDS) & set(Profile.field_names())
    for recipe in RECIPES.values():
        assert set(recipe.args()) <= {*ALGORITHM_FIELDS, "repeat_window"}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda p: p.name)
def test_every_profile_divides_and_updates_more_than_once_a_generation(profile):
    batch = plan(profile)
    assert batch.updates_per_generation >= 2
    assert profile.eval_lengths == (
        profile.max_completion_length,
        2 * profile.max_completion_length,
    )
    assert 2 * profile.repeat_window <= profile.max_completion_length


def test_the_profile_sets_the_repeat_window_of_the_trainer(tiny_profile, tmp_path):
    arguments = trainer_arguments(resolve(tiny_profile, "microcoder"), tmp_path / "x")
    assert (arguments.repeat_window, arguments.truncation_mask) == (4, "conditional")
    assert not (tmp_path / "x").exists()


def test_the_prompt_order_depends_on_the_seed_only_and_a_longer_run_begins_alike():
    problems = list(range(5))
    short, long = prompt_schedule(problems, 7, seed=1), prompt_schedule(problems, 12, seed=1)
    assert long[:7] == short
    assert sorted(long[:5]) == sorted(long[5:10]) == problems
    assert prompt_schedule(problems, 7, seed=2) != short
