"""Every world trained where the model lies on another device than what Python makes."""

import pytest

from mcbench.runs.config import preset
from mcbench.runs.train import train
from tests.second_device import on_second_device

SCALE = {
    "max_completion_length": 24, "eval_lengths": [24], "repeat_window": 4, "train_batch_size": 8,
    "num_generations": 4, "ppo_mini_batch_size": 4, "per_device_batch_size": 4, "steps": 4,
    "eval_every": 2, "eval_attempts": 1, "test_limit": 4, "reward_workers": 1, "warmup_steps": 0,
}  # fmt: skip
WORLDS = {
    "nano": {"shared_prefix": True},
    "nano-repair": {},
    "nano-self-play": {
        "train_batch_size": 40, "ppo_mini_batch_size": 20, "per_device_batch_size": 20,
    },
    "nano-branches": {},
    "nano-traces": {},
    "nano-turns": {},
    "nano-search": {},
    "nano-tab": {},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("profile", WORLDS)
def test_no_operation_has_tensors_of_two_devices(monkeypatch, tmp_path, profile):
    config = preset(profile).with_settings({**SCALE, **WORLDS[profile]})
    with on_second_device(monkeypatch):
        run = train(config, tmp_path)
    assert run.state == "finished"
