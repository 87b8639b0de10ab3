"""With every option off, MicroCoderGRPOTrainer is GRPOTrainer bit for bit."""

import itertools

import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from mcbench.grpo import MicroCoderGRPOTrainer

from .conftest import common_args, letter_reward, make_dataset, make_model, make_tokenizer

COMPARED = ("loss", "grad_norm", "reward", "entropy", "completions/mean_length", "kl")
SCHEDULES = {
    "one update": {"per_device_train_batch_size": 8},
    "three updates": {"steps_per_generation": 3},
    "accumulation": {"gradient_accumulation_steps": 2, "steps_per_generation": 4},
    "iterations, KL": {"num_iterations": 2, "steps_per_generation": 2, "beta": 0.05},
}


LOSSES = ("dapo", "grpo", "dr_grpo")
# Each schedule and each loss once in every run of the tests; all pairs with the slow ones.
ALWAYS = {*zip(SCHEDULES, [*LOSSES, "dapo"], strict=True)}


@pytest.mark.parametrize(
    ("schedule", "loss_type"),
    [
        pytest.param(*pair, marks=() if pair in ALWAYS else pytest.mark.slow)
        for pair in itertools.product(SCHEDULES, LOSSES)
    ],
)
def test_options_off_equals_trl(schedule, loss_type, make_trainer, tmp_path):
    changes = {"loss_type": loss_type, **SCHEDULES[schedule]}
    plain = GRPOTrainer(
        model=make_model(),
        reward_funcs=letter_reward,
        args=GRPOConfig(**{**common_args(tmp_path / "trl"), **changes}),
        train_dataset=make_dataset(),
        processing_class=make_tokenizer(),
    )
    plain.train()
    ours = make_trainer(MicroCoderGRPOTrainer, {"on_generation": lambda batch: None}, **changes)
    ours.train()

    theirs = plain.model.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.model.state_dict().items())
    for got, expected in zip(ours.state.log_history, plain.state.log_history, strict=True):
        assert {k: got.get(k) for k in COMPARED} == {k: expected.get(k) for k in COMPARED}
        assert set(expected) <= set(got)
    initial = make_model().state_dict()
    assert any(not torch.equal(value, initial[name]) for name, value in theirs.items())
