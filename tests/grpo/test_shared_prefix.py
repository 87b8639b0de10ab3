"""Each prompt of a pass read once: the loss and the gradients of a padded pass."""

import copy

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PromptTuningConfig
from transformers import MistralConfig, MistralForCausalLM
from trl.trainer.utils import shuffle_sequence_dict

from mcbench.errors import UserError

from .conftest import make_model

PROMPTS = ["a", "b c d e", "f g", "b c d f", "h i j k l m n"]
MEANS_OF_A_PASS = {"loss_type": "bnpo", "entropy_coef": 0.1}


def rows(count):
    return [{"prompt": PROMPTS[i // 4 % 5], "problem_id": f"p{i // 4}"} for i in range(count)]


@pytest.mark.parametrize(
    "options",
    [
        {"loss_type": "dapo", "temperature": 0.7},
        {"loss_type": "grpo", "beta": 0.1, "mask_truncated_completions": True},
        {"loss_type": "dr_grpo", "top_p": 0.8, "importance_sampling_level": "sequence"},
        {"top_entropy_quantile": 0.5, **MEANS_OF_A_PASS},
    ],
)
def test_loss_and_gradients_are_those_of_a_padded_pass(make_trainer, options):
    """Of rows in any order, one with a hole, for an update and for a batch scored in parts."""
    batch, results, widths = None, [], []
    for shared in (False, True):
        trainer = make_trainer(
            per_device_train_batch_size=20, steps_per_generation=2, shared_prefix=shared, **options
        )
        if batch is None:
            torch.manual_seed(0)
            batch = shuffle_sequence_dict(trainer._generate_and_score_completions(rows(20)))
            batch["old_per_token_logps"] += 0.1 * torch.randn_like(batch["old_per_token_logps"])
            longest = batch["completion_mask"].sum(dim=1).argmax()
            batch["completion_mask"][longest, 1] = 0
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.model.register_forward_pre_hook(
            lambda *call: widths.append(call[2]["input_ids"].shape), with_kwargs=True
        )
        loss = trainer.compute_loss(trainer.model, copy.deepcopy(batch))
        loss.backward()
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        kept = batch["completion_ids"].shape[1]
        with torch.no_grad():
            found = trainer._get_per_token_logps_and_entropies(
                trainer.model, ids, mask, kept, batch_size=8, compute_entropy=True
            )
        inside = batch["completion_mask"].bool()
        gradients = [weight.grad for weight in trainer.model.parameters()]
        results.append((loss, *gradients, found[0][inside], found[1][inside]))
    assert widths[4][0] == 1
    assert widths[4].numel() < widths[0].numel() / 1.5, "of both losses, four passes apart"
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, atol=2e-6, rtol=1e-5)
    assert max(one.abs().max() for one in results[0][1:-2]) > 1e-4


@pytest.mark.parametrize("lora", [False, True])
def test_a_training_is_the_same(make_trainer, lora):
    """Two updates a generation of two passes each, in which rows lie in the order of prompts; the
    passes of an update hold the same rows together, and fewer prompts each.
    """
    weights, batches, prompts = [], [], []
    for shared in (False, True):
        peft = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        records = []
        torch.manual_seed(0)
        trainer = make_trainer(
            trainer={
                "train_dataset": Dataset.from_list(rows(20)[::4] * 4),
                "on_generation": records.append, "peft_config": peft if lora else None,
            },
            per_device_train_batch_size=10, gradient_accumulation_steps=2, steps_per_generation=4,
            num_generations=8, beta=0.1, learning_rate=1e-3, max_steps=3, shared_prefix=shared,
        )  # fmt: skip
        trainer.train()
        weights.append([one.detach() for one in trainer.model.parameters() if one.requires_grad])
        batches.append([record.completions for record in records])
        passes = trainer._buffered_inputs
        prompts.append([len(one["prompt_ids"].unique(dim=0)) for one in passes])
    assert batches[0] == batches[1]
    for one, two in zip(*weights, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)
    assert sum(prompts[1]) < sum(prompts[0])


def test_rows_stay_in_their_passes_where_the_loss_takes_a_mean_over_one(make_trainer):
    found = []
    for shared in (False, True):
        torch.manual_seed(0)
        trainer = make_trainer(
            steps_per_generation=4, shared_prefix=shared, max_steps=1, **MEANS_OF_A_PASS
        )
        trainer.train()
        found.append([one["place"].tolist() for one in trainer._buffered_inputs])
    assert found[0] == found[1]


def test_a_model_that_reads_one_response_at_a_time_is_refused(make_trainer):
    eager = make_model()
    eager.set_attn_implementation("eager")
    windowed = MistralForCausalLM(
        MistralConfig(
            vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=1, num_key_value_heads=1, sliding_window=8,
        )
    )  # fmt: skip
    prompt = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    for parts, reason in (
        ({"model": eager}, "its attention is 'eager'"),
        ({"model": windowed}, "not all of its layers see the whole sequence"),
        ({"peft_config": prompt}, "its adapter puts tokens before the prompt"),
    ):
        with pytest.raises(UserError, match=f"shared_prefix .* {reason}"):
            make_trainer(trainer=parts, shared_prefix=True)
