"""The importance correction: its factors, what they leave of long responses, noise to study it."""

import math
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from trl import GRPOTrainer

from mcbench.errors import UserError
from mcbench.grpo.correction import importance_weights, noise, response_weights, weight_by_length

from .conftest import make_dataset

LOG2 = math.log(2)


def test_factors_by_hand():
    policy = torch.tensor([[0.0, 0.0, 9.0], [0.0, 0.0, 0.0]])
    sampler = torch.tensor([[-LOG2, -2 * LOG2, 0.0], [LOG2, float("nan"), 0.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])

    def factors(mode, most=3.0, least=None):
        return importance_weights(policy, sampler, mask, mode, most, least)

    expected = {
        "token_truncate": [[2, 3, 1], [0.5, 1, 1]],
        "token_mask": [[2, 0, 1], [0.5, 1, 1]],
        "sequence_truncate": [[3], [0.5]],
        "sequence_mask": [[0], [0.5]],
    }
    for mode, values in expected.items():
        torch.testing.assert_close(factors(mode), torch.tensor(values, dtype=torch.float32))
    assert factors("token_mask", None, 0.6).tolist() == [[2, 4, 1], [0, 1, 1]]
    kept = response_weights(factors("token_mask"), mask)
    torch.testing.assert_close(kept, torch.tensor([1.0, 2.5 / 3]))
    assert response_weights(factors("sequence_mask"), mask).tolist() == [0, 0.5]
    gone = mask * torch.tensor([[1], [0]])  # the second response has left the loss
    left = response_weights(factors("token_mask"), gone)
    assert left[0] == 1.0
    assert left[1].isnan()


def test_weights_by_length_by_hand():
    weights, lengths = np.array([1.0, 0.5, 0.0, 0.2]), np.array([1, 25, 100, 76])
    found = weight_by_length(weights, lengths, 100)
    assert found["correction/weight"] == pytest.approx(1.7 / 4)
    assert found["correction/weight_to_25"] == 0.75
    assert found["correction/weight_to_100"] == 0.1
    assert math.isnan(found["correction/weight_to_50"])
    weights[2] = np.nan
    found = weight_by_length(weights, lengths, 100)
    assert (found["correction/weight"], found["correction/weight_to_100"]) == (
        pytest.approx(1.7 / 3), 0.2
    )  # fmt: skip


def test_sequence_level_masking_removes_long_responses():
    """At .04 nats a token, as measured between vLLM and a trainer in 16 bits. The mean of a ratio
    whose logarithm is N(-s²/2, s²) below a bound c is Φ(ln c / s - s / 2).
    """
    trainer = SimpleNamespace(
        args=SimpleNamespace(sampler_noise=0.04), draw_key=(1, 0, 0),
        accelerator=SimpleNamespace(process_index=0),
    )  # fmt: skip
    rows = torch.tensor(np.stack(noise(trainer, [8192] * 1600)))

    def left(mode, most, tokens=8192):
        sampler = rows[:, :tokens]
        mask = torch.ones_like(sampler)
        factors = importance_weights(torch.zeros_like(sampler), sampler, mask, mode, most)
        return float(response_weights(factors, mask).mean())

    assert left("token_truncate", 2.0) == pytest.approx(1.0, abs=0.01)
    for tokens in (256, 1024, 4096, 8192):
        spread = 0.04 * math.sqrt(tokens)
        expected = NormalDist().cdf(math.log(3) / spread - spread / 2)
        assert left("sequence_mask", 3.0, tokens) == pytest.approx(expected, abs=0.06)
    assert left("sequence_mask", 3.0) < 0.15 < 0.8 < left("sequence_mask", 3.0, 256)


# Through the trainer, whose sampler has the policy's own log-probabilities and noise -------------

OPTIONS = {"steps_per_generation": 2, "max_steps": 2, "max_completion_length": 12}


def trained(make_trainer, **changes):
    records = []
    trainer = make_trainer(trainer={"on_generation": records.append}, **{**OPTIONS, **changes})
    trainer.train()
    return trainer, records[0]


def test_noise_has_an_effect_through_the_correction_alone(make_trainer):
    plain, _ = trained(make_trainer)
    off, seen = trained(make_trainer, sampler_noise=0.5, vllm_importance_sampling_correction=False)
    assert seen.weights is None
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, off.model.state_dict()[name])
    mean = off.state.log_history[0]["sampling/sampling_logp_difference/mean"]
    assert mean == pytest.approx(0.5 * math.sqrt(2 / math.pi), rel=0.3)
    on, seen = trained(make_trainer, sampler_noise=0.5)
    assert 0 <= seen.weights.min() < seen.weights.max()
    assert any(
        not torch.equal(value, on.model.state_dict()[name])
        for name, value in plain.model.state_dict().items()
    )


def test_a_response_that_the_correction_drops_has_no_gradient(make_trainer):
    mode = {"vllm_importance_sampling_mode": "sequence_mask"}
    trainer, batch = trained(
        make_trainer, sampler_noise=9.0, vllm_importance_sampling_clip_max=1e-9, **mode
    )
    assert not batch.weights.any()
    assert trainer.state.log_history[0]["grad_norm"] == 0
    assert trainer.state.log_history[0]["correction/weight"] == 0


def test_the_factors_are_those_that_trl_multiplies_its_loss_by(make_trainer):
    """TRL's own branch for vLLM, on the same batch, against ours."""
    trainer = make_trainer(sampler_noise=0.5, beta=0.1, **OPTIONS)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    output = trainer._generate_and_score_completions([make_dataset()[i // 4] for i in range(8)])
    assert output["importance_sampling_ratio"].shape == (8, 1)  # TRL's default mode
    ours = trainer._compute_loss(trainer.model, output)
    trainer.use_vllm = True
    theirs = GRPOTrainer._compute_loss(trainer, trainer.model, output)
    torch.testing.assert_close(ours, theirs)


def test_vespo_s_weights_hold_the_factors_and_its_advantages_do_not(make_trainer, monkeypatch):
    seen, theirs = [], GRPOTrainer._compute_loss

    def spy(trainer, model, inputs):
        seen.append((inputs["advantages"].dim(), "importance_sampling_ratio" in inputs))
        return theirs(trainer, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", spy)
    options = {"sampler_noise": 0.3, "steps_per_generation": 2, "max_steps": 2}
    make_trainer(loss_type="vespo", **options).train()
    assert seen == [(1, True)] * 2


def test_noise_needs_the_policys_log_probabilities(make_trainer):
    with pytest.raises(UserError, match="several updates follow a generation"):
        make_trainer(sampler_noise=0.5, max_steps=1).train()
