"""What a user of TRL's trainer finds: defaults, signature, model card, limits, and what is said of
settings that do nothing.
"""

import importlib.util
import inspect
import textwrap
from pathlib import Path

import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from mcbench.errors import UserError
from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer
from mcbench.grpo.diversity import last_code_block, program_key
from mcbench.grpo.generation import completion_text
from mcbench.grpo.sampling import limit_after

from . import table
from .conftest import letter_reward, logged, make_dataset, make_model, make_tokenizer
from .test_continuous_batching import SMALL_CACHE

ROOT = Path(__file__).parents[2]


def test_the_quick_start_of_trl_with_the_class_changed(tmp_path, monkeypatch):
    class OnCPU(MicroCoderGRPOConfig):
        def __init__(self, output_dir):
            super().__init__(output_dir, use_cpu=True, bf16=False, report_to=[])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mcbench.grpo.trl_compat.MicroCoderGRPOConfig", OnCPU)
    trainer = MicroCoderGRPOTrainer(
        make_model(), letter_reward, train_dataset=make_dataset(), processing_class=make_tokenizer()
    )
    assert isinstance(trainer.args, MicroCoderGRPOConfig)
    assert trainer.args.output_dir.endswith("-MicroCoder-GRPO")


def test_the_example_trains(config, tmp_path, monkeypatch):
    """The script on the tiny model and data, for one update; the page shows the same lines."""
    script = ROOT / "examples" / "quick_start.py"
    spec = importlib.util.spec_from_file_location("quick_start", script)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    call = script.read_text().partition("    trainer = ")[2].partition("    trainer.train()")[0]
    assert textwrap.dedent("    trainer = " + call) in (ROOT / "docs" / "trainer.md").read_text()
    trained = []

    def on_tiny_model(model, train_dataset, **parts):
        parts |= {"train_dataset": make_dataset(), "processing_class": make_tokenizer()}
        trained.append(MicroCoderGRPOTrainer(make_model(), **parts))
        return trained[0]

    example.load_dataset = lambda *_, **__: None
    example.accuracy_reward = letter_reward
    example.MicroCoderGRPOConfig = lambda **options: config(**options, max_steps=1)
    example.MicroCoderGRPOTrainer = on_tiny_model
    monkeypatch.chdir(tmp_path)
    example.main()
    assert trained[0].state.global_step == 1
    assert trained[0].args.truncation_mask == "conditional"


def test_another_configuration_is_refused_before_a_model_is_loaded(tmp_path):
    args = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    with pytest.raises(UserError, match=r"takes args=MicroCoderGRPOConfig\(\.\.\.\)"):
        MicroCoderGRPOTrainer("there is no such model", letter_reward, args)


def test_the_signature_is_trls_and_three_more():
    ours, trls = (
        list(inspect.signature(cls).parameters) for cls in (MicroCoderGRPOTrainer, GRPOTrainer)
    )
    assert ours == [*trls, "on_generation", "extract_program", "compute_metrics"]


def test_the_model_card_names_the_method(make_trainer, tmp_path):
    trainer = make_trainer()
    trainer.create_model_card(model_name="mine")
    card = (tmp_path / "README.md").read_text()
    assert "microcoder-grpo" in card
    assert "MicroCoder-GRPO" in card
    assert "2603.07777" in card
    assert "huggingface.co/None" not in card


def test_no_response_stops_the_training():
    assert program_key("x = 0x" + "f" * 5000) > 0
    assert program_key("x = '\\ud800'") > 0


# Limits -------------------------------------------------------------------------------------------


def long_responses(prompts, trainer):
    """Five tokens without an end."""
    ids = trainer.processing_class(text=prompts)["input_ids"]
    return {"prompt_ids": ids, "completion_ids": [[2, 3, 4, 5, 6]] * len(ids), "logprobs": None}


@pytest.mark.parametrize(
    ("allowed", "cut"),
    [(None, False), ({"max_new_tokens": 5}, True), ({"max_new_tokens": 8}, False)],
)
def test_the_mask_knows_the_limit_that_cut_a_response(make_trainer, allowed, cut):
    records = []
    make_trainer(
        trainer={
            "rollout_func": long_responses,
            "on_generation": records.append,
            "reward_funcs": lambda completions, **_: [0.0] * len(completions),
        },
        generation_kwargs=allowed,
        truncation_mask="conditional",
        mask_ratio=1.0,
        max_steps=1,
    ).train()
    assert records[0].masked.all() == records[0].truncated.all() == cut


def test_records_and_what_is_said_know_that_limit(make_trainer, caplog):
    records = []
    trainer = make_trainer(
        trainer={"on_generation": records.append}, generation_kwargs={"max_new_tokens": 4},
        truncation_mask="conditional", repeat_window=4, max_steps=1,
    )  # fmt: skip
    assert "never applies: it needs 8 tokens, responses have at most 4" in caplog.text
    trainer.train()
    assert records[0].max_completion_length == 4
    assert logged(trainer, "length/max_allowed") == [4]


def test_vllms_cache_limits_a_response_too(make_trainer):
    trainer = make_trainer(vllm_max_model_length=20, max_completion_length=12)
    trainer.use_vllm = True
    assert [limit_after(trainer, tokens) for tokens in (4, 8, 15)] == [12, 12, 5]
    trainer.args.generation_kwargs = {"max_tokens": 7}
    assert limit_after(trainer, 4) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_stages": "0:4,2:8", "generation_kwargs": {"max_tokens": 9}}, "max_tokens"),
        (
            {"temperature_target_diversity": 0.5, "generation_kwargs": {"temperature": 1.0}},
            "sets 'temperature', which temperature_target_diversity must control",
        ),
        ({"mask_ratio": "0.2"}, "mask_ratio must be a number, got '0.2'"),
        ({"repeat_window": 1.5}, "repeat_window must be a whole number, got 1.5"),
        ({"record_columns": "problem_id"}, "record_columns must be a list of names"),
        ({"vllm_importance_sampling_mode": "tokens"}, "allowed: sequence_mask, sequence_truncate"),
        ({"masked_lose": "all"}, "unknown masked_lose 'all'"),
        ({"sampler_noise": -1.0}, "sampler_noise must be at least 0"),
    ],
)
def test_wrong_options_are_one_sentence(config, options, message):
    with pytest.raises(UserError, match=message):
        config(**options)


# What is said -------------------------------------------------------------------------------------


def test_settings_without_an_effect_are_said(make_trainer, caplog):
    make_trainer(mask_ratio=0.5, mask_when="correct")
    assert "no effect of mask_ratio, mask_when: truncation_mask is 'none'" in caplog.text
    caplog.clear()
    two = {"reward_funcs": [letter_reward, table.right]}
    make_trainer(trainer=two, truncation_mask="conditional", repeat_window=2)
    assert "the weighted sum of letter_reward, right decides which" in caplog.text
    caplog.clear()
    make_trainer(repeat_window=2)
    assert not caplog.text
    make_trainer(
        vllm_importance_sampling_mode="token_truncate", delta=1.1,
        log_completions=True, eval_strategy="steps", eval_steps=1,
        trainer={"eval_dataset": make_dataset(2)},
    )  # fmt: skip
    assert "no effect of vllm_importance_sampling_mode: only vLLM's log-prob" in caplog.text
    assert "delta=1.1 is not above the upper clip, 1.2" in caplog.text
    assert "log_completions: TRL writes an evaluation to the file of its step" in caplog.text
    make_trainer(loss_type="cispo")
    assert "importance weights themselves at epsilon_high=0.2, which is below 1" in caplog.text
    with pytest.raises(UserError, match=r"probe_prompts=64 is .* the training set has 16 prompts"):
        make_trainer(temperature_target_diversity=0.5)


def test_rewards_that_the_thresholds_do_not_fit_are_said_once(make_trainer, caplog):
    trainer = make_trainer(
        trainer={"reward_funcs": lambda completions, **_: [float(len(c)) for c in completions]},
        truncation_mask="conditional",
        repeat_window=2,
        max_steps=2,
    )
    trainer.train()
    assert caplog.text.count("set the two thresholds to fit") == 1


# Training -----------------------------------------------------------------------------------------


def test_training_again_begins_at_the_first_stage(make_trainer):
    temperatures = []
    trainer = make_trainer(
        trainer={"on_generation": lambda batch: temperatures.append(batch.temperature)},
        temperature=0.9,
        temperature_stages=[(1, 1.5)],
        max_steps=2,
    )
    trainer.train()
    trainer.train()
    assert temperatures == [0.9, 1.5, 0.9, 1.5]


def test_a_masked_response_may_lose_its_part_in_the_kl_too(make_trainer):
    norms = {}
    for part in ("advantage", "loss"):
        trainer = make_trainer(
            trainer={
                "rollout_func": long_responses,
                "reward_funcs": lambda completions, **_: [0.0] * len(completions),
            },
            max_completion_length=5,
            truncation_mask="conditional",
            mask_ratio=1.0,
            repeat_window=9,
            masked_lose=part,
            beta=1.0,
            temperature=0.7,
            max_steps=1,
        )
        with torch.no_grad():  # far from its reference
            trainer.model.lm_head.weight.add_(torch.randn(16, 32))
        trainer.train()
        norms[part] = trainer.state.log_history[0]["grad_norm"]
    assert norms["advantage"] > 0
    assert norms["loss"] == 0


def test_diversity_is_measured_unless_it_is_switched_off(make_trainer):
    for wanted in (True, False):
        trainer = make_trainer(max_steps=1, diversity_metrics=wanted)
        trainer.train()
        assert ("diversity/distinct_4" in trainer.state.log_history[0]) == wanted


def test_means_of_nothing_are_left_out_of_the_log(make_trainer):
    wrong = {"reward_funcs": lambda completions, **_: [0.0] * len(completions)}
    trainer = make_trainer(trainer=wrong, max_steps=1)
    trainer.train()
    assert "length/correct_mean" not in trainer.state.log_history[0]
    assert trainer.state.log_history[0]["length/incorrect_mean"] > 0


def test_lengths_are_of_the_models_tokens(make_trainer):
    def answered(prompts, trainer):
        found = long_responses(prompts, trainer)
        return {**found, "env_mask": [[1, 1, 0, 0, 1]] * len(prompts)}

    records = []
    make_trainer(
        trainer={"rollout_func": answered, "on_generation": records.append}, max_steps=1
    ).train()
    assert set(records[0].lengths.tolist()) == {3}


def test_a_completion_shows_its_tool_calls():
    call = {"type": "function", "function": {"name": "count", "arguments": {}}}
    said = [{"role": "assistant", "content": "now", "tool_calls": [call]}]
    assert completion_text(said).startswith("now\n{")
    assert '"count"' in completion_text(said)


def test_blocks_of_text_are_text():
    blocks = [{"type": "text", "text": "```python\r\nx = 1\r\n```"}]
    text = completion_text([{"role": "assistant", "content": blocks}])
    assert last_code_block(text) == "x = 1\r\n"


def test_generation_outside_of_a_batch(make_trainer):
    assert len(make_trainer()._generate(["a b"])[1]) == 1


@pytest.mark.slow
def test_continuous_batching_with_the_off_policy_mask_equals_trl(make_trainer):
    def parameters(cls):
        trainer = make_trainer(
            cls,
            use_transformers_continuous_batching=True,
            transformers_continuous_batching_config=dict(SMALL_CACHE),
            off_policy_mask_threshold=1e-4,
            steps_per_generation=2,
            max_steps=4,
        )
        trainer.train()
        return trainer.model.state_dict()

    theirs, ours = parameters(GRPOTrainer), parameters(MicroCoderGRPOTrainer)
    assert all(torch.equal(value, ours[name]) for name, value in theirs.items())
