import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import Qwen3ForCausalLM, TrainerCallback

from mcbench.errors import UserError
from mcbench.grpo.temperature import parse_stages, select_temperature

from .conftest import WORDS, make_dataset, make_model

STAGES = [(0, 0.7), (2, 1.3), (4, 0.5)]


def plain_log_probs(model, input_ids, keep, temperature):
    with torch.no_grad():
        logits = model(input_ids=input_ids).logits[:, -keep - 1 : -1] / temperature
    return torch.log_softmax(logits, -1).gather(-1, input_ids[:, -keep:, None]).squeeze(-1)


class CompareLogProbs(TrainerCallback):
    """After every update: the trainer's log-probabilities against a plain forward, both models."""

    def __init__(self):
        self.trainer, self.temperatures = None, []

    def on_step_end(self, args, state, control, **kwargs):
        trainer = self.trainer
        ids = torch.randint(2, len(WORDS), (3, 9), generator=torch.Generator().manual_seed(1))
        temperature = dict(STAGES).get(state.global_step - 1, trainer.temperature)
        models = [trainer.model] + ([trainer.ref_model] if trainer.ref_model is not None else [])
        for model in models:
            got, entropy, _ = trainer._get_per_token_logps_and_entropies(
                model, ids, torch.ones_like(ids), 6, compute_entropy=model is trainer.model
            )
            expected = plain_log_probs(model, ids, 6, temperature)
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
        assert entropy is None or entropy.min() >= 0
        self.temperatures.append(trainer.temperature)


@pytest.mark.parametrize("variant", ["full", "reference", "lora"])
def test_log_probs_follow_every_stage_change(make_trainer, variant):
    peft = LoraConfig(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    compare, records = CompareLogProbs(), []
    parts = {"callbacks": [compare], "on_generation": records.append}
    compare.trainer = trainer = make_trainer(
        trainer={**parts, **({"peft_config": peft} if variant == "lora" else {})},
        temperature_stages=STAGES,
        steps_per_generation=2,
        max_steps=6,
        beta=0.1 if variant == "reference" else 0.0,
    )
    trainer.train()
    assert compare.temperatures == [0.7, 0.7, 1.3, 1.3, 0.5, 0.5]
    assert [batch.temperature for batch in records] == [0.7, 1.3, 0.5]
    logged = [line["temperature"] for line in trainer.state.log_history if "temperature" in line]
    assert logged == [0.7, 1.3, 0.5]


def model_with_logits(logits: torch.Tensor) -> Qwen3ForCausalLM:
    """A Qwen3 whose next-token logits are the same after every context."""
    model = make_model()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weight.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.lm_head.weight.copy_(logits[:, None] / 32 + torch.zeros(len(WORDS), 32))
    return model


def test_sampling_follows_every_stage_change(make_trainer):
    logits = torch.linspace(-1, 2, len(WORDS))
    logits[:2] = -60.0  # neither EOS nor padding
    records = []
    trainer = make_trainer(
        trainer={"model": model_with_logits(logits), "on_generation": records.append},
        temperature_stages=[(0, 0.5), (1, 1.5)],
        per_device_train_batch_size=64,
        max_completion_length=48,
        learning_rate=0.0,
        max_steps=2,
    )
    trainer.train()
    for batch, temperature in zip(records, [0.5, 1.5], strict=True):
        tokens = np.concatenate(batch.completion_ids)
        share = np.bincount(tokens, minlength=len(WORDS)) / len(tokens)
        expected = torch.softmax(logits / temperature, -1).numpy()
        assert np.all(np.abs(share - expected) <= 5 * np.sqrt(expected / len(tokens)) + 1e-9)


def test_length_stages_extend_the_context(make_trainer):
    records = []
    trainer = make_trainer(
        trainer={
            "model": model_with_logits(torch.eye(len(WORDS))[5] * 60),
            "on_generation": records.append,
        },
        length_stages="0:8,2:12",
        steps_per_generation=2,
        max_steps=4,
        loss_type="dr_grpo",
    )
    trainer.train()
    assert [set(batch.lengths.tolist()) for batch in records] == [{8}, {12}]
    assert [batch.truncated.all() for batch in records] == [True, True]
    assert trainer.max_completion_length == 12


def test_a_stage_inside_a_generated_batch_is_refused(config):
    with pytest.raises(UserError, match="nearest allowed start steps are 4 and 6"):
        config(steps_per_generation=2, temperature_stages=[(0, 0.6), (5, 1.2)])
    allowed = config(steps_per_generation=4, gradient_accumulation_steps=2, num_iterations=3)
    assert allowed.generation_period == 6


@pytest.mark.parametrize(
    ("accumulation", "per_generation", "iterations", "period"),
    [
        (1, 1, 1, 1),
        (1, 4, 1, 4),
        (2, 4, 1, 2),
        (4, 4, 1, 1),
        (4, 2, 1, 1),
        (6, 4, 1, 2),
        (2, 2, 3, 3),
    ],
)
def test_generation_period(config, accumulation, per_generation, iterations, period):
    args = config(
        gradient_accumulation_steps=accumulation,
        steps_per_generation=per_generation,
        num_iterations=iterations,
    )
    assert args.generation_period == period


def test_stages_from_a_command_line():
    assert parse_stages("0:0.6,140:1.2", "x") == parse_stages("[[0, 0.6], [140, 1.2]]", "x")
    with pytest.raises(UserError, match="not a list of"):
        parse_stages("0.6", "temperature_stages")


def test_lowest_temperature_that_reaches_the_target():
    measured = {1.4: 0.8, 0.6: 0.4, 1.0: 0.7, 1.2: 0.69}
    choice = select_temperature(measured, 0.65)
    assert (choice.temperature, choice.reached) == (1.0, True)
    assert "D(0.6) = 0.400" in choice.explanation
    short = select_temperature(measured, 0.9)
    assert (short.temperature, short.reached) == (1.4, False)
    assert "no temperature reaches 0.9" in short.explanation
    for wrong, message in (({0.0: 1.0}, "greater than 0"), ({1.0: float("nan")}, "undefined")):
        with pytest.raises(UserError, match=message):
            select_temperature(wrong, 0.5)


def test_measured_diversity_rises_with_temperature(make_trainer):
    trainer = make_trainer(temperature_probe_prompts=8, max_completion_length=16)
    before = torch.get_rng_state()
    measured = trainer.stages.measure_diversity([0.2, 1.0, 2.0])
    assert list(measured) == [0.2, 1.0, 2.0]
    assert measured[0.2] < measured[1.0] < measured[2.0]
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(UserError, match="greater than 0"):
        trainer.stages.measure_diversity([0.0])


def test_as_many_responses_are_sampled_at_once_as_in_training(make_trainer):
    """A process whose batch is less than a group, as one of several is."""
    trainer = make_trainer(per_device_train_batch_size=4, temperature_probe_prompts=2)
    trainer.args.per_device_train_batch_size, rows = 3, []
    generate = trainer.model.generate
    trainer.model.generate = lambda input_ids, **given: (
        rows.append(len(input_ids)) or generate(input_ids, **given)
    )
    trainer.stages.measure_diversity([1.0])
    assert rows == [3, 3, 2]


def test_an_evaluation_before_the_choice_is_said(make_trainer, caplog):
    parts = {"eval_dataset": make_dataset(1)}
    options = {"temperature_target_diversity": 0.5, "temperature_probe_prompts": 2}
    make_trainer(trainer=parts, **options).evaluate()
    assert "sampled at temperature 1: another one is chosen where training begins" in caplog.text


def test_chosen_temperature_is_used_and_kept_with_the_checkpoint(make_trainer, tmp_path):
    options = {
        "temperature_target_diversity": 0.8,
        "temperature_grid": [0.1, 1.1, 2.5],
        "temperature_probe_prompts": 8,
        "max_completion_length": 16,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    trainer = make_trainer(max_steps=1, **options)
    trainer.train()
    choice = trainer.stages.choice
    below = [t for t, d in choice.measured.items() if float(t) < choice.temperature]
    assert all(choice.measured[t] < 0.8 for t in below)
    assert choice.reached
    assert trainer.state.log_history[0]["temperature"] == choice.temperature > 0.1
    resumed = make_trainer(max_steps=2, **options)
    resumed.stages.measure_diversity = None  # must not be measured again
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert resumed.stages.choice == choice
    assert resumed.temperature == choice.temperature
    (tmp_path / "checkpoint-1" / "microcoder_state.json").unlink()
    with pytest.raises(UserError, match=r"microcoder_state\.json"):
        make_trainer(max_steps=2, **options).train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-1")
        )
