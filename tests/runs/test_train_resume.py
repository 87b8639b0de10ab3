"""One run through the real trainer: its record, and resuming after an interruption or kill -9."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from mcbench.errors import UserError
from mcbench.runs.compact import read_compact, write_compact
from mcbench.runs.evaluate import evaluate, select_problems
from mcbench.runs.problems import load_problems
from mcbench.runs.resolve import resolve
from mcbench.runs.sampling import load_policy
from mcbench.runs.store import RunStore, read_run
from mcbench.runs.train import train

STEPS = 8  # four generations of two updates
VOLATILE = ("time", "elapsed_s", "step_time")  # and whatever begins with "time/"


@pytest.fixture(scope="module")
def config(tiny_settings):
    return resolve("tiny", "microcoder", {**tiny_settings, "mask_ratio": 0.5}, steps=STEPS)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """The uninterrupted run, and the lines it said."""
    lines = []
    root = tmp_path_factory.mktemp("whole")
    return train(config, root, lines.append), lines


def stable(records):
    return [
        {k: v for k, v in row.items() if k not in VOLATILE and not k.startswith("time/")}
        for row in records
    ]


def assert_same_record(path, other):
    one, two = read_run(path), read_run(other)
    assert stable(one.step_lines) == stable(two.step_lines)
    assert one.eval_lines == two.eval_lines
    assert one.completion_steps() == two.completion_steps()
    for step in one.completion_steps():
        assert one.completions(step).to_json() == two.completions(step).to_json()
    weights = "checkpoints/final/model.safetensors"
    assert (path / weights).read_bytes() == (other / weights).read_bytes()


def test_the_record_is_complete(whole, config):
    run, lines = whole
    record = read_run(run.path)
    assert record.state == "finished"
    assert record.steps["step"].tolist() == list(range(1, STEPS + 1))
    assert record.steps["loss"].abs().sum() > 0
    assert {"reward", "mask/share", "diversity/distinct_4", "temperature"} <= set(record.steps)
    assert record.evals["step"].tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
    assert set(record.evals["max_completion_length"]) == {6, 12}
    assert record.completion_steps() == [1, 3, 5, 7]
    batch = record.completions(1)
    assert len(batch) == 8
    assert (batch["tokens"].map(len) == batch["length"]).all()
    assert batch["group"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(batch["reward"]) <= {0.0, 1.0}
    assert {"versions", "commit", "data_hash", "hardware", "started", "ended"} <= set(record.meta)
    assert record.config == config
    assert record.meta["config"] == config.to_dict()
    assert sorted(p.name for p in run.checkpoints.iterdir() if p.is_dir()) == ["final"]
    assert any(line.startswith("[microcoder seed 0] step 4/8  reward 0.") for line in lines)


def test_every_evaluation_has_its_own_seed(tiny_settings, tmp_path):
    asked = {**tiny_settings, "learning_rate": 1e-12, "eval_attempts": 4, "test_limit": 8}
    config = resolve("tiny", "grpo_plus", asked, seed=3, steps=4)
    lines = read_run(train(config, tmp_path, lambda line: None).path).eval_lines
    assert [line["seed"] for line in lines] == [3, 3, 5, 5, 7, 7]
    responses = {(line["mean_length"], line["distinct_4"]) for line in lines[1::2]}
    assert len(responses) == 3  # of one model to six digits


def test_the_parts_of_a_step_are_disjoint_and_within_it(whole):
    steps = read_run(whole[0].path).steps.set_index("step")
    assert (steps["time/update_s"] <= steps["step_time"]).loc[[1, 3, 5, 7]].all()
    assert (steps["step_time"] <= steps["time/step_s"]).all()
    parts = steps[["time/generate_s", "time/reward_s", "time/update_s"]]
    assert parts.notna().all(axis=1).tolist() == [True, False] * 4
    assert (parts.sum(axis=1) <= steps["time/step_s"]).all()


def test_a_finished_run_is_reused_and_said_so(whole, config):
    run, _ = whole
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("*")}
    lines = []
    train(config, RunStore(run.path.parent), lines.append)
    assert lines == [f"[microcoder seed 0] finished before: reusing {run.path}"]
    assert {p: p.stat().st_mtime_ns for p in run.path.rglob("*")} == before


def test_another_recipe_reuses_the_base_evaluation_and_the_prompts(whole, tiny_settings):
    run, _ = whole
    root = run.path.parent
    cached = sorted((root / "base_evals").iterdir())
    other = train(resolve("tiny", "grpo_plus", tiny_settings, steps=2), root, lambda line: None)
    assert sorted((root / "base_evals").iterdir()) == cached
    ours, theirs = read_run(run.path), read_run(other.path)
    assert ours.eval_lines[:2] == theirs.eval_lines[:2]
    assert (
        ours.completions(1)["completion"].tolist() == theirs.completions(1)["completion"].tolist()
    )


@pytest.mark.parametrize("stale", ["damaged", "empty", "of other code"])
def test_a_base_evaluation_that_is_damaged_or_of_other_code_is_made_anew(
    whole, tiny_settings, tmp_path, monkeypatch, stale
):
    run, _ = whole
    (kept,) = (run.path.parent / "base_evals").iterdir()
    again = tmp_path / "base_evals" / kept.name
    again.parent.mkdir()
    again.write_text({"damaged": kept.read_text()[:-9], "empty": "[]"}.get(stale, "no look at it"))
    if stale == "of other code":
        monkeypatch.setattr("mcbench.runs.held_out.evaluation_code", lambda: "another")
    other = train(resolve("tiny", "grpo_plus", tiny_settings, steps=2), tmp_path, lambda line: None)
    assert read_run(run.path).eval_lines[:2] == read_run(other.path).eval_lines[:2]
    assert (again.read_text() == kept.read_text()) == (stale != "of other code")
    assert len(list(again.parent.iterdir())) == 1 + (stale == "of other code")


def test_evaluations_at_other_temperatures_and_on_a_part(tiny_settings, tmp_path):
    more = {
        "eval_every": 4, "eval_other_temperatures": [0.6, 0.3],
        "small_eval_every": 2, "small_eval_limit": 2,
    }  # fmt: skip
    config = resolve("tiny", "grpo_plus", {**tiny_settings, **more}, steps=6)
    told: list[str] = []
    record = read_run(train(config, tmp_path, told.append).path)
    scored = [line for line in told if "pass@1" in line]
    assert len(scored) == 4  # the base model and each update after which one was measured
    assert ["(2 problems)" in line for line in scored] == [False, True, False, False]
    lines = record.eval_lines
    found = [(one["step"], one["temperature"], len(one["per_problem"])) for one in lines[::2]]
    whole = [(1.0, 4), (1.0, 2), (0.6, 4), (0.3, 4)]  # the part is a curve of its own
    assert found == [
        *((0, *one) for one in whole),
        (2, 1.0, 2),
        *((4, *one) for one in whole),
        *((6, *one) for one in whole),
    ]
    small, own = lines[8], lines[10]
    assert small["dataset_hash"] != own["dataset_hash"]
    ids = [row["id"] for row in small["per_problem"]]
    assert set(ids) < {row["id"] for row in own["per_problem"]}
    assert 0 <= own["unique_programs"] <= 1
    kept = read_compact(write_compact(record, tmp_path / "kept.parquet"))
    assert [one["per_problem"] for one in kept.eval_lines] == [one["per_problem"] for one in lines]
    three_digits = pytest.approx(record.steps["loss"].tolist(), rel=5e-3)
    assert kept.steps["loss"].tolist() == three_digits
    assert kept.steps["elapsed_s"].tolist() == pytest.approx(record.steps["elapsed_s"], abs=0.05)
    (tmp_path / "alone").mkdir()
    with pytest.raises(UserError, match=r"alone need environment-\w+\.json, which is not"):
        read_compact((tmp_path / "kept.parquet").rename(tmp_path / "alone" / "kept.parquet"))


class Stopped(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("said", ["base model", "step 2/8", "step 6/8", "step 8/8"])
def test_an_interrupted_run_resumes_to_the_same_record(whole, config, tmp_path, said):
    run, _ = whole

    def stop(line):
        if said in line:
            raise Stopped(line)

    with pytest.raises(Stopped):
        train(config, tmp_path, stop)
    half = RunStore(tmp_path).run(config)
    assert half.state == "failed"
    with (half.path / "steps.jsonl").open("a") as file:
        file.write('{"step": 99, "lo')  # the line that a kill cut short
    train(config, tmp_path, lambda line: None)
    assert_same_record(run.path, half.path)


TRAIN = """
import json, sys
from mcbench.runs.config import Config
from mcbench.runs.train import train
train(Config.from_dict(json.loads(sys.argv[1])), sys.argv[2])
"""


def test_kill_9_then_the_same_call_resumes_to_the_same_record(whole, config, tmp_path):
    run, _ = whole
    arguments = [json.dumps(config.to_dict()), str(tmp_path / "runs")]
    command = [sys.executable, "-c", TRAIN, *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # as here: sums in the same order
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert any("step 4/8" in line for line in process.stdout)
        process.send_signal(signal.SIGKILL)
    killed = RunStore(tmp_path / "runs").run(config)
    assert (killed.state, killed.is_alive()) == ("interrupted", False)
    resumed = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert "resuming after step" in resumed.stdout
    # A checkpoint holds tied weights once, and transformers would miss them.
    assert "missing keys" not in resumed.stdout + resumed.stderr
    assert_same_record(run.path, killed.path)


def test_killed_after_the_last_step_only_the_state_is_missing(whole, config, tmp_path):
    run, _ = whole
    shutil.copytree(run.path, tmp_path / run.run_id)
    copy = RunStore(tmp_path).run(config)
    meta = {**copy.meta, "state": "running", "ended": None}
    (copy.path / "run.json").write_text(json.dumps(meta))
    train(config, tmp_path, lambda line: None)
    assert copy.state == "finished"
    assert_same_record(run.path, copy.path)


def test_the_final_model_scores_as_recorded(whole, config):
    run, _ = whole
    problems = select_problems(load_problems(config.test_set), config.test_limit)
    results = evaluate(
        load_policy(str(run.path)), problems, lengths=config.eval_lengths,
        attempts=config.eval_attempts, seed=STEPS, workers=1,
    )  # fmt: skip
    recorded = read_run(run.path).eval_lines[-2:]
    assert {line["seed"] for line in recorded} == {STEPS}
    assert [r.pass_at_1 for r in results] == [line["pass_at_1"] for line in recorded]
    assert [list(r.per_problem) for r in results] == [line["per_problem"] for line in recorded]


def test_the_record_explains_the_chosen_temperature_and_the_sandbox(tiny_settings, tmp_path):
    choice = {
        **tiny_settings,
        "temperature_target_diversity": 0.01,
        "temperature_grid": [0.5, 1.0],
        "temperature_probe_prompts": 2,
    }
    lines = []
    run = train(resolve("tiny", "microcoder", choice, steps=2), tmp_path, lines.append)
    assert run.meta["temperature_choice"]["temperature"] == 0.5
    assert "is the lowest temperature" in run.meta["temperature_choice"]["explanation"]
    assert any("T = 0.5 is the lowest temperature" in line for line in lines)
    assert {"granted", "missing"} <= set(run.meta["sandbox"])


# Self-play, by its real model

SELF_PLAY = {
    "train_batch_size": 6, "ppo_mini_batch_size": 2, "num_generations": 2, "steps": 6,
    "per_device_batch_size": 4, "eval_every": 3, "eval_attempts": 1, "test_limit": 4,
    "eval_lengths": [64], "reward_workers": 1, "warmup_steps": 0,
}  # fmt: skip


@pytest.mark.slow
def test_self_play_killed_resumes_to_the_same_record(tmp_path):
    config = resolve("nano-self-play", "grpo_plus", {**SELF_PLAY, "self_play": "trained"}, seed=1)
    whole = train(config, tmp_path / "whole", lambda line: None)
    arguments = [json.dumps(config.to_dict()), str(tmp_path / "runs")]
    command = [sys.executable, "-c", TRAIN, *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # as here: sums in the same order
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert any("step 3/6" in line for line in process.stdout)
        process.send_signal(signal.SIGKILL)
    assert RunStore(tmp_path / "runs").run(config).state == "interrupted"
    train(config, tmp_path / "runs", lambda line: None)
    assert_same_record(whole.path, RunStore(tmp_path / "runs").run(config).path)
    record = read_run(whole.path)
    first = record.completions(1)
    posing = first["problem_id"].str.startswith("self-play/break/")
    assert posing.tolist() == [True] * 4 + [False] * 8
    assert first["prompt"][posing].str.startswith("Break the code.").all()
    assert first["prompt"][~posing].str.startswith("Fix the bug.").all()
    assert {"task/posed_valid", "task/passed"} <= set(record.steps)
    assert all(
        one["id"].startswith("self-play/fix/") for one in record.eval_lines[0]["per_problem"]
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"self_play": "trained", "train_set": "repair-fix:train"}, "train_set=self-play:train"),
        ({"self_play": "trained", "train_batch_size": 8}, r"1 \+ num_generations = 3 prompts"),
        ({"self_play": "sometimes"}, "self_play must be one of|self_play"),
        ({"self_play": "trained", "dynamic_sampling": 3}, "no dynamic_sampling"),
    ],
)
def test_settings_that_do_not_fit_self_play_are_refused(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        train(
            resolve("nano-self-play", "grpo_plus", {**SELF_PLAY, **settings}), tmp_path,
            lambda line: None,
        )  # fmt: skip
