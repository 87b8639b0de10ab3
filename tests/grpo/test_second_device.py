"""Training where model and batches lie on another device than what Python makes: no operation has
tensors of both, which a GPU refuses and a CPU cannot show.
"""

import pytest
import torch

from tests.grpo.conftest import logged
from tests.second_device import THERE, on_second_device

SEVERAL = {"steps_per_generation": 2}  # updates, so that the log-probabilities before are known
OPTIONS = {
    "as it is": {},
    "shared prefix": {"shared_prefix": True},
    "length groups": {"length_groups": 2, "per_device_train_batch_size": 8},
    "mask": {"truncation_mask": "conditional", "mask_ratio": 0.5, "repeat_window": 2},
    "mask of the loss": {"truncation_mask": "all", "masked_lose": "loss"},
    "T(D)": {"temperature_target_diversity": 0.5, "temperature_probe_prompts": 4},
    "stages": {"temperature_stages": "0:0.8,1:1.2", "length_stages": "0:6,1:12"},
    "KL": {"beta": 0.1, "kl_estimator": "k3_clamped", "kl_target": 0.1, **SEVERAL},
    "entropy": {
        "temperature_target_entropy": 1.0,
        "temperature_probe_prompts": 4,
    },
    "pass@k": {"advantage_rule": "pass_at_k", "pass_k": 2},
    "uncut": {"advantage_rule": "uncut"},
    "Clip-Cov": {"token_rule": "clip_cov", "token_share": 0.1},
    "KL-Cov": {"token_rule": "kl_cov", "token_share": 0.1, "epsilon": 1, "epsilon_high": 1000},
    "dynamic sampling": {"dynamic_sampling": 2},
    "staleness": {"staleness": 1, **SEVERAL},
    "dropped and substituted": {"drop_above": 0.9, "substitute_flat": 0.5},
    "overlong": {"soft_overlong": 0.5},
    "noise": {"sampler_noise": 0.1, **SEVERAL},
    "imitation": {"imitate": "own"},
}


QUICK = ("as it is", "shared prefix")


@pytest.mark.parametrize(
    "name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in OPTIONS]
)
def test_no_operation_has_tensors_of_two_devices(make_trainer, monkeypatch, name):
    with on_second_device(monkeypatch):
        # By our sampler: transformers' own now and then reads memory that nothing filled there.
        trainer = make_trainer(max_steps=2, **{"sample_unfinished": True, **OPTIONS[name]})
        assert {one.device for one in trainer.model.parameters()} == {THERE}
        trainer.train()
    assert len(logged(trainer, "loss")) == 2


def test_what_a_gpu_refuses_is_refused(monkeypatch):
    here = torch.arange(3)
    with on_second_device(monkeypatch):
        there = torch.arange(3, device=THERE)
        assert there[here].tolist() == [0, 1, 2]
        assert (there + 1).cpu().tolist() == [1, 2, 3]
        for refused in (
            lambda: here[there],
            lambda: here + there,
            lambda: torch.cat([here, there]),
        ):
            with pytest.raises(RuntimeError, match="device"):
                refused()
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
