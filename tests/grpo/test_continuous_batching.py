"""Continuous batching as the sampler: stages, log-probabilities, weights, failures."""

import numpy as np
import pytest
import torch

from mcbench.grpo.metrics import log_prob_mismatch
from mcbench.grpo.sampling import continuous_batching

from .conftest import WORDS, make_dataset, make_model
from .test_temperature import model_with_logits

SMALL_CACHE = {"num_blocks": 64, "block_size": 16, "max_batch_tokens": 128}


@pytest.fixture
def make_continuous(make_trainer):
    return lambda **options: make_trainer(
        use_transformers_continuous_batching=True,
        transformers_continuous_batching_config=dict(SMALL_CACHE),
        steps_per_generation=2,
        **options,
    )


@pytest.mark.slow
def test_temperature_and_length_follow_every_stage(make_continuous):
    logits = torch.linspace(-1, 2, len(WORDS))
    logits[:2] = -60.0  # neither EOS nor padding
    records = []
    trainer = make_continuous(
        trainer={"model": model_with_logits(logits), "on_generation": records.append},
        temperature_stages=[(0, 0.5), (2, 1.5)],
        length_stages=[(0, 32), (2, 48)],
        per_device_train_batch_size=32,
        learning_rate=0.0,
        max_steps=4,
    )
    trainer.train()
    assert [set(batch.lengths.tolist()) for batch in records] == [{32}, {48}]
    for batch, temperature in zip(records, [0.5, 1.5], strict=True):
        tokens = np.concatenate(batch.completion_ids)
        share = np.bincount(tokens, minlength=len(WORDS)) / len(tokens)
        expected = torch.softmax(logits / temperature, -1).numpy()
        assert np.all(np.abs(share - expected) <= 5 * np.sqrt(expected / len(tokens)) + 1e-9)
    recorded = [
        line["sampling/sampling_logp_difference/max"]
        for line in trainer.state.log_history
        if "sampling/sampling_logp_difference/max" in line
    ]
    assert len(recorded) == 2
    assert max(recorded) < 1e-4


def test_the_sampler_has_the_weights_of_every_update(make_continuous):
    """At this learning rate the weights before an update explain its samples badly."""
    trainer = make_continuous(learning_rate=3e-2, max_steps=6)
    trainer.train()
    recorded = [
        line["sampling/sampling_logp_difference/max"]
        for line in trainer.state.log_history
        if "sampling/sampling_logp_difference/max" in line
    ]
    assert len(recorded) == 3
    assert max(recorded) < 1e-3


def test_bf16_sampling_keeps_the_master_weights(make_continuous):
    trainer = make_continuous(bf16=True, max_steps=2, learning_rate=1e-6)
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    moved = [
        (weight - before[name]).abs().max().item()
        for name, weight in trainer.model.named_parameters()
    ]
    assert all(weight.dtype == torch.float32 for weight in trainer.model.parameters())
    assert trainer.model.model.rotary_emb.inv_freq.dtype == torch.float32
    assert 0 < max(moved) < 1e-5  # two steps of 1e-6: rounding to bf16 would move far more


def test_an_evaluation_stays_one(make_continuous):
    """Its second batch would count as training, were the model left in training mode."""
    records = []
    trainer = make_continuous(
        trainer={"eval_dataset": make_dataset(4), "on_generation": records.append},
        per_device_eval_batch_size=8,
    )
    assert trainer.evaluate()["eval_mask/share"] == 0.0
    assert not trainer.model.training
    assert not trainer._metrics["train"]
    assert records == []


def test_a_missing_or_failed_response_is_an_error():
    model = make_model()
    for outputs, message in (({}, "0 of 1 responses"), ({"0": Failed()}, "out of blocks")):
        model.generate_batch = lambda inputs, outputs=outputs: outputs
        with continuous_batching(model), pytest.raises(RuntimeError, match=message):
            model.generate_batch([[2, 3]])


class Failed:
    error, logprobs = "out of blocks", ()


def test_log_prob_mismatch_counts_sampled_tokens_only():
    policy = torch.tensor([[-1.0, -2.0, -3.0]])
    sampled = torch.tensor([[-1.5, -2.25, 9.0]])
    mean, largest = log_prob_mismatch(policy, sampled, torch.tensor([[1, 1, 0]]))
    assert (mean.item(), largest.item()) == (0.375, 0.5)
    assert log_prob_mismatch(policy, sampled, torch.zeros(1, 3))[1].item() == 0
