"""What the trainer relies on inside TRL: if it fails after an upgrade, read TRL's changes first."""

import inspect
from importlib.metadata import version
from types import MethodType

import pytest
import torch
from accelerate.utils import convert_outputs_to_fp32
from trl import GRPOTrainer

from mcbench.grpo.trl_compat import log_prob_temperature_cell

from .conftest import make_model

SIGNATURES = {
    "_generate_and_score_completions": ["self", "inputs"],
    "_generate": ["self", "prompts"],
    "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
    "_tokenize_prompts": ["self", "prompts"],
    "_save_checkpoint": ["self", "model", "trial"],
    "_load_optimizer_and_scheduler": ["self", "checkpoint"],
}
ATTRIBUTES = (
    "temperature generation_config generation_kwargs max_completion_length num_generations "
    "num_generations_eval mask_truncated_completions eos_token_ids _tokenizer reward_weights "
    "reward_func_names _metrics _logs _pending_extra_logs ref_model rollout_func use_vllm"
)


def test_trl_is_the_version_this_was_written_against():
    assert version("trl").startswith("1.16."), "check every override in mcbench/grpo/trainer.py"


def test_private_methods_and_attributes(make_trainer):
    for name, parameters in SIGNATURES.items():
        assert list(inspect.signature(getattr(GRPOTrainer, name)).parameters) == parameters, name
    start = ["self", "prompt_ids", "images", "multimodal_fields", "num_generations"]
    turn = inspect.signature(GRPOTrainer._generate_single_turn).parameters
    assert list(turn)[:5] == start
    trainer = make_trainer(GRPOTrainer)
    for name in ATTRIBUTES.split():
        assert hasattr(trainer, name), name
    sampler = trainer._get_train_sampler()
    assert (sampler.num_samples, sampler.generator.initial_seed()) == (16, trainer.args.seed)
    assert set(trainer._logs) >= {"prompt", "completion", "advantages", "extra"}


def test_order_of_what_generate_returns(make_trainer):
    trainer = make_trainer(GRPOTrainer)
    result = trainer._generate(["a b", "a b"])
    assert len(result) == 8
    _, ids, tool_mask, completions, *_ = result
    assert all(isinstance(token, int) for row in ids for token in row)
    assert tool_mask is None
    assert all(isinstance(text, str) for text in completions)


def test_temperature_is_found_under_mixed_precision(make_trainer):
    trainer = make_trainer(GRPOTrainer, temperature=0.9)
    cell = log_prob_temperature_cell(trainer.model)
    assert cell.cell_contents == 0.9
    # What accelerate does to a model under bf16: new wrappers around its forward.
    forward = torch.autocast("cpu", torch.bfloat16)(trainer.model.forward.__func__)
    trainer.model.forward = MethodType(convert_outputs_to_fp32(forward), trainer.model)
    assert log_prob_temperature_cell(trainer.model) is cell


def test_a_missing_temperature_is_an_error():
    with pytest.raises(RuntimeError, match=r"trl>=1\.16"):
        log_prob_temperature_cell(make_model())
