"""A run of self-play by its real model: killed, it resumes to the same record."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mcbench.errors import UserError
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.runs.train import train

from .test_train_resume import TRAIN, assert_same_record

SMALL = {
    "train_batch_size": 6, "ppo_mini_batch_size": 2, "num_generations": 2, "steps": 6,
    "per_device_batch_size": 4, "eval_every": 3, "eval_attempts": 1, "test_limit": 4,
    "eval_lengths": [64], "reward_workers": 1, "warmup_steps": 0,
}  # fmt: skip


def test_killed_it_resumes_to_the_same_record(tmp_path):
    config = resolve("nano-self-play", "grpo_plus", {**SMALL, "self_play": "trained"}, seed=1)
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
def test_settings_that_do_not_fit_are_refused(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        train(
            resolve("nano-self-play", "grpo_plus", {**SMALL, **settings}), tmp_path,
            lambda line: None,
        )  # fmt: skip
