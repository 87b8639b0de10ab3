"""What ``mcbench/grpo/trl_compat.py`` relies on inside TRL, transformers and accelerate.

Each failure says what has to be looked at. After an upgrade, read the changes of the library first.
"""

import dataclasses
import inspect
from importlib.metadata import version
from types import MethodType

import pytest
import torch
from accelerate.utils import convert_outputs_to_fp32
from transformers import ContinuousBatchingConfig
from transformers.cache_utils import DynamicLayer
from transformers.generation.continuous_batching import requests
from transformers.generation.utils import GenerationMixin
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

from mcbench.grpo import MicroCoderGRPOTrainer
from mcbench.grpo.sampling import log_prob_temperature_cell
from mcbench.grpo.trl_compat import RepairedGRPOTrainer

from .conftest import EOS, PAD, letter_reward, make_dataset, make_model
from .test_continuous_batching import SMALL_CACHE

SIGNATURES = {
    "_generate_and_score_completions": "self inputs",
    "_prepare_inputs": "self generation_batch",
    "_generate": "self prompts",
    "_generate_single_turn": "self prompt_ids images multimodal_fields num_generations",
    "_get_per_token_logps_and_entropies": "self model input_ids attention_mask logits_to_keep",
    "_calculate_rewards": "self inputs prompts completions completion_ids_list",
    "_tokenize_prompts": "self prompts",
    "_get_train_sampler": "self dataset",
    "_save_checkpoint": "self model trial",
    "_load_optimizer_and_scheduler": "self checkpoint",
    "_load_from_checkpoint": "self resume_from_checkpoint model",
    "_prepare_for_training": "self max_steps train_dataloader resume_from_checkpoint",
    "_get_output_dir": "self trial",
    "_compute_loss": "self model inputs",
    "log": "self logs start_time",
    "create_accelerator_and_postprocess": "self",
    "get_train_dataloader": "self",
    "create_model_card": "self model_name dataset_name tags",
    "evaluation_loop": "self dataloader description prediction_loss_only ignore_keys "
    "metric_key_prefix",
}
ATTRIBUTES = {
    "temperature": "set_temperature assigns it, and a batch is recorded with it",
    "max_completion_length": "set_max_completion_length assigns it; truncation is judged by it",
    "generation_config": "the temperature and length of a stage are written into it",
    "generation_kwargs": "the temperature and length of a stage are written into it",
    "num_generations": "G, the size of a group in training",
    "num_generations_eval": "G, the size of a group in evaluation",
    "eos_token_ids": "a response that ends with one of them is complete",
    "_tokenizer": "its padding token may follow an end that no token marks",
    "mask_truncated_completions": "truncation_mask='all' is this option",
    "reward_funcs": "start_scoring is looked up on each",
    "reward_weights": "correctness is the weighted sum of the rewards",
    "reward_func_names": "correctness_reward is looked up in them",
    "_metrics": "metrics of a batch are appended to _metrics[mode][name]",
    "_logs": "prompts, completions, extra columns and advantages of a batch are read from it",
    "_is_vlm": "a model that reads images is not sampled by our own loop",
    "aux_loss_enabled": "shared_prefix has no such loss",
    "_pending_extra_logs": "tells which extra columns the reward functions logged",
    "_step": "a resume inside a generated batch sets the passes made with it",
    "_buffered_inputs": "the slices of that batch, stored with a checkpoint and put back",
    "log_completions": "decides whether what is shown of a batch is stored with it",
    "_pending_metrics": "emptied, with those, where scored responses are no batch",
    "train_dataset": "dynamic sampling draws further prompts from it",
    "ref_model": "its log-probabilities follow the temperature too",
    "rollout_func": "what was sampled before is put in its place",
    "state": "num_input_tokens_seen counts the tokens of a step that is left early too",
    "use_vllm": "decides where temperature and length are written",
    "use_transformers_continuous_batching": "decides whether its failures are watched for",
    "continuous_batching_config": "asked for the log-probabilities of the sampled tokens",
    "model_wrapped": "both ways of sampling replace generate on what it wraps",
    "num_iterations": "decides whether TRL asks for old log-probabilities",
    "shuffle_dataset": "without it no epoch has an order to skip on resume",
    "is_fsdp_enabled": "decides whether the processes generate in step",
    "tools": "with tools a response ends at max_completion_length altogether; none for a replay",
}


def test_trl_is_the_version_this_was_written_against():
    assert version("trl").startswith("1.16."), "check every override in mcbench/grpo/trl_compat.py"


def test_private_methods_take_what_they_took():
    for name, wanted in SIGNATURES.items():
        method = getattr(GRPOTrainer, name, None)
        assert method is not None, f"GRPOTrainer.{name} is gone; trl_compat overrides or calls it"
        found = list(inspect.signature(method).parameters)
        optional = found[len(wanted.split()) :]
        assert found[: len(wanted.split())] == wanted.split(), f"GRPOTrainer.{name} takes {found}"
        assert all(
            inspect.signature(method).parameters[more].default is not inspect.Parameter.empty
            for more in optional
        ), f"GRPOTrainer.{name} needs more arguments: {optional}"


def test_attributes_are_there(make_trainer):
    trainer = make_trainer(GRPOTrainer)
    for name, use in ATTRIBUTES.items():
        assert hasattr(trainer, name), f"GRPOTrainer has no {name} any more: {use}"
    for name in ("temperature", "max_new_tokens"):
        assert hasattr(trainer.generation_config, name), f"generation_config has no {name}"
        assert name in trainer.generation_kwargs, f"generation_kwargs has no {name}"
    missing = {"prompt", "completion", "advantages", "extra"} - set(trainer._logs)
    assert not missing, f"GRPOTrainer._logs lacks {missing}, which a batch's record is read from"


def test_no_name_of_ours_hides_one_of_trl_by_accident(make_trainer):
    meant = {*SIGNATURES, "__init__", "__module__", "__doc__", "__annotations__"}
    meant |= {"_name", "_paper", "_tag_names"}  # of the model card
    meant |= {"__parameters__", "__orig_bases__", "__firstlineno__", "__static_attributes__"}
    plain = make_trainer(GRPOTrainer)
    for cls in (RepairedGRPOTrainer, MicroCoderGRPOTrainer):
        taken = {name for name in vars(cls) if hasattr(plain, name)} - meant
        assert not taken, f"GRPOTrainer now has {taken} itself; rename those of {cls.__name__}"
    ours = {"checkpoint_state", "sampled_ids", "sampled_completions", "rewards", "seconds"}
    ours |= {"training", "batch_rows", "logged", "resume", "replay", "deciding_reward", "stages"}
    ours |= {"_temperature_cells", "_kept_by", "sampled_prompts", "empty", "turns", "_evaluated"}
    ours |= {"asked_ids", "sampled_mask", "_draws", "_log_ratios", "_trained_ids"}
    ours |= {"on_generation", "extract_program", "scores_what_it_samples", "ends_otherwise"}
    ours |= {"environment_owns_data"}
    taken = {name for name in ours if hasattr(plain, name)}
    assert not taken, f"GRPOTrainer now has the attributes {taken} itself; rename ours"
    assert ours == set(vars(run_once(make_trainer))) - set(vars(plain)), "list them above"


def run_once(make_trainer):
    trainer = make_trainer()
    trainer.get_train_dataloader()
    trainer.model.train()
    trainer._generate_and_score_completions([make_dataset()[i // 4] for i in range(8)])
    return trainer


def test_order_of_what_generate_returns(make_trainer):
    trainer = make_trainer(GRPOTrainer)
    result = trainer._generate(["a b", "a b"])
    assert len(result) == 8, f"_generate returned {len(result)} values; we take the 2nd and 4th"
    _, ids, tool_mask, completions, *_ = result
    assert all(isinstance(token, int) for row in ids for token in row), "2nd: token ids"
    assert tool_mask is None
    assert all(isinstance(text, str) for text in completions), "4th: texts"


def test_a_batch_is_generated_then_scored(make_trainer):
    """Rewards come after the generation, whole, with their columns still waiting."""
    seen = []

    def logging_reward(completions, log_extra, **columns):
        log_extra("note", list(completions))
        return letter_reward(completions)

    class Watched(GRPOTrainer):
        def _generate(self, prompts):
            seen.append("generate")
            return super()._generate(prompts)

        def _calculate_rewards(self, *args):
            rewards = super()._calculate_rewards(*args)
            seen.append((tuple(rewards.shape), list(self._pending_extra_logs)))
            return rewards

    trainer = make_trainer(Watched, {"reward_funcs": logging_reward}, steps_per_generation=2)
    output = trainer._generate_and_score_completions([make_dataset()[i // 4] for i in range(8)])
    assert seen == ["generate", ((8, 1), ["note"])], "start_scoring and the record need this order"
    assert output["advantages"].shape == (8,), "Eq. 2 masks one advantage a response"
    assert output["completion_ids"].shape == output["completion_mask"].shape
    assert output["old_per_token_logps"].shape == output["completion_ids"].shape, (
        "the record takes log-probabilities from here"
    )
    assert list(trainer._logs["advantages"])[-8:] == output["advantages"].tolist(), (
        "replace_advantages replaces the last B logged advantages"
    )
    assert len(trainer._logs["extra"]["note"]) == 8
    starts = output["completion_mask"][:, 0]
    assert starts.all(), "responses are padded on the right"


def test_a_removed_response_has_an_empty_completion_mask(make_trainer):
    trainer = make_trainer(GRPOTrainer, mask_truncated_completions=True)
    kept = []
    generate = trainer._generate

    def noting(prompts):
        result = generate(prompts)
        kept.extend(row[-1] in (EOS, PAD) for row in result[1])
        return result

    trainer._generate = noting
    inputs = [make_dataset()[i // 4] for i in range(32)]
    output = trainer._generate_and_score_completions(inputs)
    assert output["completion_mask"].any(dim=1).tolist() == kept, "removed_from_loss reads it so"
    assert {True, False} == set(kept)


def test_metrics_are_averaged_without_nan(make_trainer):
    trainer = make_trainer(GRPOTrainer)
    trainer.model.train()
    trainer._metrics["train"]["length/correct_mean"] += [1.0, float("nan"), 3.0]
    trainer.log({})
    assert trainer.state.log_history[-1]["length/correct_mean"] == 2.0


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


def test_vllm_reads_temperature_and_length_at_every_generation():
    for name in ("temperature", "max_completion_length"):
        assert name in inspect.signature(VLLMGeneration.__init__).parameters, name
        assert name in VLLMGeneration.generate.__code__.co_names, (
            f"VLLMGeneration.generate does not read self.{name}: a stage would not reach vLLM"
        )


def test_the_sampler_draws_one_order_an_epoch_from_its_own_generator(make_trainer):
    trainer = make_trainer(GRPOTrainer)
    sampler = trainer._get_train_sampler()
    assert (sampler.num_samples, sampler.generator.initial_seed()) == (16, trainer.args.seed)
    generator = torch.Generator().manual_seed(trainer.args.seed)
    for _ in range(2):
        order = torch.randperm(16, generator=generator).repeat_interleave(4).tolist()
        assert list(sampler) == order, "_skip_epoch_orders draws the order of each finished epoch"
    assert len(sampler) == 16 * 4


def test_a_checkpoint_is_where_its_state_file_goes(make_trainer, tmp_path):
    trainer = make_trainer(GRPOTrainer, max_steps=1, save_strategy="steps", save_steps=1)
    trainer.train()
    folder = f"{PREFIX_CHECKPOINT_DIR}-1"
    assert trainer._get_output_dir(trial=None) == str(tmp_path)
    assert (tmp_path / folder / "trainer_state.json").is_file()


def test_generate_keeps_step_for_a_model_marked_as_fsdp(monkeypatch):
    from transformers.generation import utils

    model = make_model()
    assert not utils.is_fsdp_managed_module(model)
    model._is_fsdp_managed_module = True
    monkeypatch.setattr(utils, "_get_torch_distributed_world_size", lambda: 2)
    mode = model._extract_generation_mode_kwargs(None, {}, None, None, None)
    assert mode["synced_gpus"] is True, "under FSDP2 one process would end generate before others"


def test_generate_takes_a_loop_with_arguments_of_its_own():
    seen = {}

    def loop(model, input_ids, logits_processor, stopping_criteria, generation_config, extra, **kw):
        seen.update(kw, extra=extra)
        return input_ids

    ids = torch.tensor([[PAD, 2], [3, 4]])
    make_model().generate(
        ids, attention_mask=(ids != PAD).long(), max_new_tokens=3, custom_generate=loop, extra="e"
    )
    assert seen["extra"] == "e"
    assert seen["attention_mask"].tolist() == [[0, 1], [1, 1]], "sample_unfinished reads it"
    layers = seen["past_key_values"].layers
    assert {type(one) for one in layers} == {DynamicLayer}, "replaced by GrowingLayer"


def test_what_continuous_batching_returns(make_trainer):
    fields = {field.name for field in dataclasses.fields(requests.GenerationOutput)}
    assert fields >= {"error", "logprobs", "generated_tokens"}, "failures and log-probs are read"
    assert hasattr(ContinuousBatchingConfig(), "return_logprobs")
    assert next(iter(inspect.signature(GenerationMixin.generate_batch).parameters)) == "self"
    trainer = make_trainer(
        GRPOTrainer,
        use_transformers_continuous_batching=True,
        transformers_continuous_batching_config={**SMALL_CACHE, "return_logprobs": True},
    )
    outputs = {}
    generate = trainer.model.generate_batch

    def noting(inputs, *args, **kwargs):
        outputs.update(generate(inputs, *args, **kwargs))
        return outputs

    trainer.model.generate_batch = noting
    ids, log_probs = trainer._generate_single_turn([[2, 3], [4, 5, 6]], None, {}, 1)
    made = list(outputs.values())
    assert log_probs is None, "TRL now returns log-probabilities itself; drop our own"
    assert [list(output.prompt_ids) for output in made] == [[2, 3], [4, 5, 6]], "order of prompts"
    assert [len(output.logprobs) for output in made] == [len(row) for row in ids]
    assert all(output.error is None for output in made)
