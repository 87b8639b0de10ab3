"""Resolving names and settings into a configuration, and its content-addressed id."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest
import torch

from mcbench.errors import UserError
from mcbench.experiments.experiments import (
    EXPERIMENTS,
    REGISTERED,
    ROUND_2,
    plan_runs,
    planned_runs,
    planned_together,
)
from mcbench.grpo import RECIPES, MicroCoderGRPOConfig
from mcbench.grpo.masking import correctness
from mcbench.grpo.metrics import group_metrics
from mcbench.runs.arguments import trainer_arguments, uses_cpu
from mcbench.runs.config import (
    _NAMED_BY_TRL,
    CHANGEABLE,
    SETTINGS,
    Config,
    family_of,
    part_of,
    preset,
)
from mcbench.runs.presets import PROFILES
from mcbench.runs.problems import model_digest
from mcbench.runs.resolve import described, parse_settings, resolve
from mcbench.runs.schedule import admitting_schedule, prompt_schedule, training_prompts
from mcbench.worlds import TASKS
from mcbench.worlds.problems import load_split

RECORDS = Path(__file__).parents[2] / "reports" / "records"


# The id -------------------------------------------------------------------------------------------


def test_a_configuration_survives_json(tiny_settings):
    config = resolve("tiny", "microcoder", {**tiny_settings, "mask_ratio": 0.1}, seed=3)
    again = Config.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.run_id == config.run_id


@pytest.mark.slow
def test_the_ids_of_the_committed_records_follow_from_their_configurations(committed):
    records = {record.path.stem: record for record in committed}
    assert len(records) > 150
    for run_id, record in records.items():
        assert record.config.run_id == run_id == record.run_id
        again = Config.from_dict(json.loads(json.dumps(record.config.to_dict())))
        assert again.run_id == run_id


def test_the_arms_of_all_experiments_give_exactly_the_committed_records():
    planned = {one.config.run_id for one in planned_together(list(EXPERIMENTS))}
    # Round 1 has the paper's GRPO on nano-steady alone, as kl_low_clip.
    later = ("nano", "nano-m", "nano-steady-m")
    untrained = {one.config.run_id for one in planned_runs("results", later, arms=["grpo"])}
    untrained |= {
        one.config.run_id for one in planned_runs("results", later, range(5), arms=["grpo"])
    }
    recorded = {path.stem for path in RECORDS.glob("*.parquet")}
    registered = [{one.config.run_id for one in planned_together([name])} for name in REGISTERED]
    untrained |= set().union(*(ids for ids in registered if not ids & recorded))  # whole or none
    seeds = {"code_evaluator": 5, "data_quality": 5, "truncation_mask": 5}
    three = ("cross_model", "batch_size", "kl_and_clip", "context_length", "temperature")
    seeds |= {**dict.fromkeys(three, 3), "results": 5}
    first_round = {
        one.config.run_id
        for name, profile, count in [
            *((name, "nano", count) for name, count in seeds.items()),
            ("results", "nano-m", 5),
        ]
        for one in planned_runs(name, profile, range(count))
    }
    lora = {"recipe": "grpo_plus", "lora_rank": 32, "learning_rate": 1e-4}  # notebook 30 has it
    first_round |= {
        one.config.run_id for one in plan_runs({"lora": lora}, ["smollm2-135m"], (80, 81))
    }
    blocks = [{one.config.run_id for one in planned_runs(name)} for name in ROUND_2]
    second_round = set().union(*(ids for ids in blocks if ids <= recorded))  # whole or none
    assert (planned | first_round) - untrained | second_round == recorded


def test_the_id_is_about_the_computation_and_not_about_names(tiny_settings):
    def run_id(recipe="grpo_plus", profile="tiny", **options):
        settings = {**tiny_settings, **options.pop("settings", {})}
        return resolve(profile, recipe, settings, **options).run_id

    plus = {"truncation_mask": "conditional", "mask_ratio": 0.2, "mask_when": "incorrect"}
    assert run_id(settings={**plus, "repeat_rule": "window"}) == run_id("microcoder")
    # A profile is its numbers.
    numbers = {name: PROFILES["tiny"][name] for name in PROFILES["tiny"]}
    assert run_id(profile="nano", settings={**numbers, **tiny_settings}) == run_id()
    assert run_id(settings={"reward_workers": 7, "checkpoint_generations": 3}) == run_id()
    assert run_id(seed=1) != run_id()
    assert run_id(steps=2) != run_id()


def test_the_id_follows_the_content_of_the_model(tiny_settings, tmp_path):
    before = resolve("tiny", "grpo", tiny_settings)
    copy = tmp_path / "model"
    copy.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (copy / name).write_bytes(Path(tiny_settings["model"], name).read_bytes())
    moved = {**tiny_settings, "model": str(copy)}
    one = resolve("tiny", "grpo", moved)
    (copy / "model.safetensors").write_bytes(b"other weights")
    other = resolve("tiny", "grpo", moved)
    assert len({before.run_id, one.run_id, other.run_id}) == 3


def test_other_rules_and_other_evaluators_are_other_runs():
    changes = ({}, {"reward_rules": "livecodebench"}, {"reward_evaluator": "process_per_sample"})
    ids = {described("tiny", "grpo_plus", change).run_id for change in changes}
    assert len(ids) == 3
    spelled_out = {"reward_rules": "microcoder", "reward_evaluator": "microcoder"}
    assert described("tiny", "grpo_plus", spelled_out).run_id in ids
    with pytest.raises(UserError, match="brings its own rules"):
        described("tiny", "grpo_plus", {**changes[1], **changes[2]})


def test_differences_are_from_profile_and_recipe():
    config = described("tiny", "microcoder", {"mask_ratio": 0.5, "steps": 8}, seed=4)
    assert config.differences() == {"mask_ratio": 0.5, "steps": 8}
    assert described("tiny").differences() == {}


# Settings -----------------------------------------------------------------------------------------


def test_what_is_said_of_trl_s_options_names_settings():
    for trl_s, text in _NAMED_BY_TRL.items():
        ours = [word.split("=")[0] for word in text.replace(",", "").split()]
        named = [word for word in ours if word in CHANGEABLE]
        assert trl_s not in CHANGEABLE
        assert named, text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mask_ratoi": 1.0}, r"^unknown setting 'mask_ratoi'; did you mean mask_ratio\?"),
        ({"zzz": 1.0}, "^unknown setting 'zzz'; `mcbench settings` lists them, by family: run,"),
        ({"seed": 1}, "^unknown setting 'seed'"),
        ({"use_vllm": True}, "^'use_vllm' is TRL's option .*; set backend=vllm_colocate, or vllm_"),
        ({"mask_ratio": "much"}, "^mask_ratio must be a number, got 'much'$"),
        ({"mask_ratio": 1.5}, r"^mask_ratio must be from 0 to 1, got 1\.5$"),
        (
            {"mask_when": "never"},
            "^unknown mask_when 'never'; allowed: any, correct, incorrect, non_",
        ),
        ({"steps": 2.5}, r"^steps must be a whole number, got 2\.5$"),
        ({"steps": True}, "^steps must be a whole number, got True$"),
        ({"steps": 0}, "^steps must be greater than 0, got 0$"),
        ({"backend": "jax"}, "^unknown backend 'jax'; allowed: transformers, .*vllm_colocate"),
        ({"eval_lengths": 128}, r"^eval_lengths must be a list \(in Python a tuple\), got 128$"),
        ({"temperature": 0}, r"^temperature must be greater than 0(\.0)?, got 0$"),
        ({"model": "./nowhere"}, r"'\./nowhere' does not exist"),
        ({"train_set": "squad"}, "unknown problem set 'squad'; allowed: .*nano:test, nano:train"),
        ({"reward_rules": "strict"}, "unknown rule set 'strict'; allowed: .*livecodebench"),
        ({"reward_evaluator": "fast"}, "unknown reward_evaluator 'fast'; allowed: microcoder"),
        (
            {"temperature_stages": "3:1.2"},
            "step 3 is inside a generated batch .* the nearest allowed start steps are 2 and 4$",
        ),
        ({"length_stages": [[0, 48], [8, 0]]}, "value 0.0 from step 8 must be greater than 0"),
        ({"recipe": "grop"}, r"unknown recipe 'grop'; did you mean grpo"),
    ],
)
def test_a_wrong_setting_is_one_clear_sentence(settings, message):
    with pytest.raises(UserError, match=message) as caught:
        resolve("tiny", "microcoder", settings)
    assert "\n" not in str(caught.value)


def test_a_misspelled_name_is_answered_with_its_family_alone():
    with pytest.raises(UserError) as caught:
        described("tiny", settings={"mask_ratoi": 0.1})
    listed = str(caught.value).partition("settings are ")[2].split(", ")
    assert listed == [name for name in CHANGEABLE if family_of(name) == "mask"]
    assert {"mask_ratio", "mask_when", "repeat_window"} <= set(listed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("huge",), "unknown profile 'huge'; allowed: nano,"),
        (("tiny", "ppo"), "unknown recipe 'ppo'"),
        (("tiny", "grpo", {}, -1), "seed must be a whole number from 0, got -1"),
    ],
)
def test_a_wrong_name_is_one_clear_sentence(arguments, message):
    with pytest.raises(UserError, match=message):
        resolve(*arguments)


def test_what_is_no_configuration_is_refused():
    with pytest.raises(UserError, match="not a run configuration"):
        Config.from_dict({})
    with pytest.raises(UserError, match="not a run configuration: 'steps' is missing"):
        Config.from_dict({k: v for k, v in preset("tiny").to_dict().items() if k != "steps"})


def test_settings_as_text():
    texts = ["mask_ratio=0.5", "eval_lengths=[6, 12]", "lora_rank=null", "test_set=a=b.jsonl"]
    assert parse_settings(texts) == {
        "mask_ratio": 0.5, "eval_lengths": [6, 12], "lora_rank": None, "test_set": "a=b.jsonl",
    }  # fmt: skip
    # A setting that takes texts and no numbers has the text.
    texts = ["model=1e5", "train_set=on", "test_set=null", 'reward="2"', "lr_scheduler_type=null"]
    assert parse_settings(texts) == {
        "model": "1e5", "train_set": "on", "test_set": "null", "reward": "2",
        "lr_scheduler_type": None,
    }  # fmt: skip
    with pytest.raises(UserError, match="--set takes NAME=VALUE such as mask_ratio"):
        parse_settings(["x"], "--set")


# Shares -------------------------------------------------------------------------------------------

# nano: limit 96, 160 steps, 8 updates to a generation


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"max_completion_length": "50%"}, {"max_completion_length": 48}),
        ({"train_batch_size": "200%"}, {"train_batch_size": 32}),
        ({"train_batch_size": "1%"}, {"train_batch_size": 2}),  # one mini batch
        ({"length_stages": "0:50%,20%:100%"}, {"length_stages": [[0, 48], [32, 96]]}),
        ({"length_stages": [[0, 10], ["50%", "50%"]]}, {"length_stages": [[0, 10], [80, 48]]}),
        ({"temperature_stages": "0:0.6,40%:1.2"}, {"temperature_stages": [[0, 0.6], [64, 1.2]]}),
        # The share of the steps is at the nearest boundary, and never before the second generation.
        ({"temperature_stages": "0:1,1%:2"}, {"temperature_stages": [[0, 1.0], [8, 2.0]]}),
        ({"temperature_stages": "0:1,23%:2"}, {"temperature_stages": [[0, 1.0], [40, 2.0]]}),
        (
            # Boundaries follow the batch that the same arm sets: 16 updates to a generation.
            {"train_batch_size": "200%", "temperature_stages": "0:1,15%:2"},
            {"temperature_stages": [[0, 1.0], [32, 2.0]]},
        ),
        (
            {"temperature_stages": "0:0.6,20%..40%:1.8"},  # steps 32, 40, 48, 56, 64
            {
                "temperature_stages": [
                    [0, 0.6], [32, 0.84], [40, 1.08], [48, 1.32], [56, 1.56], [64, 1.8],
                ]
            },
        ),
    ],
)  # fmt: skip
def test_shares_are_of_the_profiles_numbers(settings, found):
    config = described("nano", "grpo_plus", settings)
    assert {name: getattr(config, name) for name in found} == found


def test_the_ramp_of_the_paper_rises_in_equal_steps_between_a_fifth_and_three_fifths():
    config = described("nano", "grpo_plus", {"temperature_stages": "0:0.6,20%..60%:1.8"})
    starts, values = zip(*config.temperature_stages, strict=True)
    assert starts == (0, *range(32, 97, 8))
    rises = [after - before for before, after in itertools.pairwise(values)]
    assert rises == pytest.approx([1.2 / 9] * 9, abs=2e-6)


def test_an_arms_shares_are_of_what_the_whole_comparison_changes():
    settings = {"max_completion_length": "50%", "temperature_stages": "0:1,50%:2"}
    common = {"max_completion_length": 40, "steps": 32}
    config = described("nano", "grpo_plus", settings, common=common)
    assert config.max_completion_length == 20
    assert config.temperature_stages == [[0, 1.0], [16, 2.0]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": "50%"}, "learning_rate takes no share, got '50%'"),
        ({"steps": "much%"}, "steps: 'much%' is no share; write one as 50%"),
        ({"steps": "-5%"}, "steps: '-5%' is no share"),
        ({"temperature_stages": "0:0.6,40%:50%"}, "'50%' must be a temperature"),
        ({"temperature_stages": "20%..60%:1.8"}, "a ramp needs a stage before it, such as"),
        ({"length_stages": "0:48,200:96"}, "ends after 160 updates, before its stage at 200"),
        ({"temperature_stages": "0.6"}, r"0\.6.* is not a list of \(start step, value\), such as"),
        ({"length_stages": "early:50%"}, "'early' is no step; write"),
        ({"length_stages": 7}, "7 is not a list"),
    ],
)
def test_a_wrong_share_is_one_clear_sentence(settings, message):
    with pytest.raises(UserError, match=message) as caught:
        described("nano", "grpo_plus", settings)
    assert "\n" not in str(caught.value)


def test_the_target_diversity_of_a_profile_has_a_name():
    auto = {"temperature_target_diversity": "auto"}
    assert described("nano", "grpo_plus", auto).temperature_target_diversity == 0.4
    assert described("qwen3-4b", "grpo_plus", auto).temperature_target_diversity == 0.65


# Presets and the trainer --------------------------------------------------------------------------


def test_every_name_of_the_algorithm_is_one_that_the_trainer_knows():
    algorithm = {name for name in SETTINGS if part_of(name) == "algorithm"}
    assert algorithm <= set(get_type_hints(MicroCoderGRPOConfig))
    for recipe in RECIPES.values():
        assert set(recipe.args()) <= {*algorithm, "repeat_window"}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_divides_and_updates_more_than_once_a_generation(profile):
    config = preset(profile)
    limit = config.max_completion_length
    assert config.batch().updates_per_generation >= 2
    alone = profile in (
        "nano-turns",
        "nano-search",
        "nano-tab",
    )  # episodes, and responses of two tokens
    assert config.eval_lengths == ((limit,) if alone else (limit, 2 * limit))
    assert 2 * config.repeat_window <= limit


@pytest.mark.parametrize(
    ("name", "reward"), [(one, reward) for one, task in TASKS.items() for reward in task.rewards]
)
def test_a_task_says_which_of_its_rewards_are_right_and_wrong(tmp_path, name, reward):
    """By hand: rewards that are right, wrong, neither; what no task names is 1, 0, and between."""
    own = {
        ("branches", "ppocoder"): ([3.0], [-1.0, 0.9], [1.0, 2.9]),
        ("tab", "accept_25"): ([0.75], [-0.25], [0.0]),
        ("tab", "accept_25_drift"): ([0.75], [-0.25], [0.0]),
        ("tab", "accept_45"): ([0.55], [-0.45], [0.0]),
        ("turns", "rlef"): ([1.0, 0.8, 0.6], [-1.0, -1.2, -1.4], []),
    }
    right, wrong, neither = own.get((name, reward), ([1.0], [0.0, -1.0], [0.5]))
    changed = {"train_set": TASKS[name].sets[0], "reward": reward}
    given = trainer_arguments(preset("tiny").with_settings(changed), tmp_path)
    thresholds = given.correct_threshold, given.incorrect_threshold
    rewards = torch.tensor([*right, *wrong, *neither])
    read = correctness(rewards, *thresholds)
    assert read.correct.tolist() == [one in right for one in [*right, *wrong, *neither]]
    assert read.incorrect.tolist() == [one in wrong for one in [*right, *wrong, *neither]]
    groups = group_metrics(rewards.numpy(), read.correct.numpy(), len(rewards))
    assert groups["group/mixed"] == 1


def test_the_thresholds_of_a_set_of_ones_own_are_those_of_its_task(tmp_path, problem_file):
    own = tmp_path / "own.jsonl"
    rows = map(json.loads, problem_file.read_text().splitlines())
    own.write_text("".join(json.dumps({**row, "source": "tab"}) + "\n" for row in rows))
    changed = {"train_set": str(own), "reward": "accept_45"}
    given = trainer_arguments(preset("tiny").with_settings(changed), tmp_path)
    assert (given.correct_threshold, given.incorrect_threshold) == (0.275, -0.225)


def test_the_profile_sets_the_repeat_window_of_the_trainer(tmp_path):
    arguments = trainer_arguments(preset("tiny", "microcoder"), tmp_path / "x")
    assert (arguments.repeat_window, arguments.truncation_mask) == (4, "conditional")
    assert not (tmp_path / "x").exists()


def test_the_prompt_order_depends_on_the_seed_only_and_a_longer_run_begins_alike():
    problems = list(range(5))
    short, long = prompt_schedule(problems, 7, seed=1), prompt_schedule(problems, 12, seed=1)
    assert long[:7] == short
    assert sorted(long[:5]) == sorted(long[5:10]) == problems
    assert prompt_schedule(problems, 7, seed=2) != short


def test_what_the_base_never_solved_joins_late() -> None:
    problems = [
        replace(one, pass_rate=float(i % 2)) for i, one in enumerate(load_split("test")[:8])
    ]
    config = preset("nano").with_settings({"readmit": [16, 1]})  # two generations of 16 prompts
    schedule = admitting_schedule(problems, config, 5 * 32)
    never = [one.id for one in problems if one.pass_rate == 0]
    for stage in range(5):
        found = {one.id for one in schedule[stage * 32 : (stage + 1) * 32]}
        assert found & set(never) == set(never[:stage])
    usual = preset("nano")
    assert admitting_schedule(problems, usual, 30) == prompt_schedule(problems, 30, usual.seed)
    with pytest.raises(UserError, match="needs a problem that the base solved"):
        admitting_schedule([one for one in problems if one.id in never], config, 4)


def test_further_prompts_come_from_the_whole_set_where_that_is_asked():
    problems = load_split("test")[:50]
    usual = preset("nano")
    whole = usual.with_settings({"draw_from_set": True, "dynamic_sampling": 2})
    assert training_prompts(problems, usual, 30) == prompt_schedule(problems, 30, usual.seed)
    found = training_prompts(problems, whole, 30)
    assert found[:30] == training_prompts(problems, usual, 30)
    assert sorted(one.id for one in found) == sorted(one.id for one in problems)


def test_kinds_of_problems_by_stage() -> None:
    problems = load_split("test")
    schedule = prompt_schedule(problems, 40, 3, [(0.0, "induced"), (0.5, "all")])
    assert {one.kind for one in schedule[:20]} == {"induced"}
    assert {one.kind for one in schedule[20:]} == {"induced", "described"}
    assert len({one.id for one in schedule[20:]}) == 20
    assert prompt_schedule(problems, 40, 3, [(0.0, "all")]) == prompt_schedule(problems, 40, 3)
    with pytest.raises(UserError, match="no problems of kind 'trace'"):
        prompt_schedule(problems, 4, 0, [(0.0, "trace")])


@pytest.mark.parametrize(
    ("stages", "more"),
    [
        ([], {}),
        ([[0]], {}),
        (["0a"], {}),
        ([["a", "all"], ["b", "all"]], {}),
        ([["0", "all"], ["0.5", "all"]], {}),
        ([[0, "induced"], [0.5, 1]], {}),
        ([[0.5, "induced"], [0.7, "all"]], {}),
        ([[0, "induced"], [0.7, "all"], [0.5, "all"]], {}),
        ([[0, "induced"], [30, "described"]], {}),
        ([[0, "induced"]], {"readmit": [16, 1]}),
    ],
)
def test_stages_of_kinds_that_make_no_order_are_refused(stages, more) -> None:
    message = "both choose" if more else r"not a list of \(share of the updates, kind\), from 0 on"
    with pytest.raises(UserError, match=message) as caught:
        resolve("nano", settings={"kind_stages": stages, **more})
    assert "\n" not in str(caught.value)


def test_stages_of_kinds_stay_as_they_were_written() -> None:
    stages = [[0, "induced"], [0.5, "all"]]
    config = resolve("nano", settings={"kind_stages": stages})
    assert json.dumps(config.to_dict()["kind_stages"]) == json.dumps(stages)


def test_a_grid_for_all_arms_goes_before_the_profile_s():
    auto = {"temperature_target_diversity": "auto"}
    grid = {"temperature_grid": [0.6, 1.0]}
    for settings, common in ((auto, grid), (auto | grid, {}), ({}, auto | grid)):
        config = described("nano-steady", "grpo_plus", settings, common=common)
        assert (config.temperature_grid, config.temperature_target_diversity) == ([0.6, 1.0], 0.37)


def test_on_a_gpu_accelerates_flag_decides_by_what_it_says(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = []
    for flag in ("False", "True"):
        monkeypatch.setenv("ACCELERATE_USE_CPU", flag)
        found.append(uses_cpu())
    assert found == [False, True]


def test_a_chat_template_is_part_of_a_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = model_digest(str(tmp_path))
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert model_digest(str(tmp_path)) != before
