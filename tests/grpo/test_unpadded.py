"""Sampling without the ended responses, scoring without their padding: the same numbers."""

import copy

import pytest
import torch
from peft import LoraConfig
from transformers import TopPLogitsWarper
from trl.trainer.utils import split_tensor_dict

from mcbench.errors import UserError
from mcbench.grpo import observed
from mcbench.grpo.decode import Trace, attend, draw, sample_unfinished

from .conftest import EOS, PAD, letter_reward, make_dataset, make_model

PROMPTS = [[2, 3, 4], [5], [6, 7], [5]]


@pytest.fixture(scope="module")
def model():
    return make_model().eval()


def sampled(model, prompts, temperature=1.0, limit=24, **options):
    """Responses up to and including EOS, and what the loop knows of them."""
    width = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (width - len(p)) + p for p in prompts])
    trace = Trace()
    torch.manual_seed(3)
    output = model.generate(
        ids, attention_mask=(ids != PAD).long(), max_new_tokens=limit, do_sample=True, top_k=0,
        temperature=temperature, custom_generate=sample_unfinished, trace=trace, **options,
    )  # fmt: skip
    made = output[:, width:]
    lengths = map(len, trace.log_probs)
    rows = [row[:n].tolist() for row, n in zip(made, lengths, strict=True)]
    return rows, trace, made


@pytest.mark.parametrize("options", [{}, {"top_p": 0.9}])
def test_log_probabilities_are_those_of_a_plain_pass_over_each_response(model, options):
    """Of what is drawn from: all tokens, or what a nucleus left of them."""
    rows, trace, output = sampled(model, PROMPTS * 16, temperature=0.7, **options)
    lengths = {len(row) for row in rows}
    assert min(lengths) < 6 < max(lengths) == 24, "some leave the batch early, some never"
    for prompt, row, padded, found, entropy in zip(
        PROMPTS * 16, rows, output, trace.log_probs, trace.entropies, strict=True
    ):
        assert (row[-1] == EOS) == (len(row) < 24) or row[-1] == EOS
        assert EOS not in row[:-1]
        assert set(padded[len(row) :].tolist()) <= {PAD}
        with torch.no_grad():
            logits = model(torch.tensor([prompt + row])).logits[0, len(prompt) - 1 : -1] / 0.7
        if options:
            logits = TopPLogitsWarper(**options)(None, logits)
        expected = logits.log_softmax(-1)
        assert found.tolist() == pytest.approx(
            expected.gather(1, torch.tensor(row)[:, None]).squeeze(1).tolist(), abs=1e-5
        )
        plain = torch.distributions.Categorical(logits=logits).entropy()
        assert entropy.tolist() == pytest.approx(plain.tolist(), abs=1e-5)


@pytest.mark.parametrize("mask", [None, torch.rand(3, 1, 1, 20) < 0.7])
def test_attention_in_two_parts_is_that_of_torch(mask):
    """Four queries on two heads of keys, fourteen settled tokens and six recent ones."""
    query, key, value = (torch.randn(3, n, length, 8) for n, length in [(4, 1), (2, 20), (2, 20)])
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, enable_gqa=True
    )
    parts = (one.split([14, 6], dim=2) for one in (key, value))
    found, _ = attend(None, query, *parts, mask)
    torch.testing.assert_close(found, expected.transpose(1, 2))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_model_keeps_its_attention_and_what_it_would_say(model, attention):
    """Every best token of 40, which is more than two copies of the keys."""
    other = copy.deepcopy(model)
    other.set_attn_implementation(attention)
    ids = torch.tensor([[PAD, PAD, 5], [2, 3, 4]])
    options = {"attention_mask": (ids != PAD).long(), "max_new_tokens": 40, "do_sample": False}
    plain = other.generate(ids, **options)
    assert other.generate(ids, **options, custom_generate=sample_unfinished).equal(plain)
    assert other.config._attn_implementation == attention


def test_tokens_are_drawn_with_their_probabilities(model):
    """Chi-square of the first and of the second token over a vocabulary of 16."""
    count = 4000
    rows, _, _ = sampled(model, [[5]] * count, limit=2)
    with torch.no_grad():
        first = model(torch.tensor([[5]])).logits[0, -1].softmax(-1)
    assert chi_square([row[0] for row in rows], first) < 43.8  # 15 degrees, one in 10,000
    likely = max((t for t in range(16) if t != EOS), key=lambda token: first[token])
    with torch.no_grad():
        second = model(torch.tensor([[5, likely]])).logits[0, -1].softmax(-1)
    assert chi_square([row[1] for row in rows if row[0] == likely], second) < 43.8


def chi_square(tokens, probabilities):
    expected = probabilities.double() * len(tokens)
    found = torch.bincount(torch.tensor(tokens), minlength=len(expected))
    return ((found - expected) ** 2 / expected).sum().item()


def test_responses_that_end_at_once_leave_before_a_second_token_is_read():
    model = make_model().eval()
    with torch.no_grad():
        hidden = model.model(torch.tensor([[5]])).last_hidden_state[0, -1]
        model.lm_head.weight[EOS] = hidden * 2 / hidden.dot(hidden)  # about one in five
    rows, _, _ = sampled(model, [[5]] * 40, limit=3)
    assert 4 < sum(row == [EOS] for row in rows) < 36
    assert max(map(len, rows)) == 3


def test_a_token_without_probability_is_never_drawn():
    probs = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).repeat(2000, 1)
    assert set(draw(probs).tolist()) == {1, 3}


def test_what_was_asked_of_generate_stays_its_own(model):
    rows, _, _ = sampled(model, [[5]] * 200, limit=1, top_p=1e-6)
    with torch.no_grad():
        best = model(torch.tensor([[5]])).logits[0, -1].argmax().item()
    assert rows == [[best]] * 200


@pytest.mark.parametrize(
    "options",
    [
        {"loss_type": "dapo"},
        {"loss_type": "grpo", "beta": 0.1},
        {"loss_type": "dr_grpo", "mask_truncated_completions": True},
        {"loss_type": "cispo", "epsilon_high": 5.0},
        {"loss_type": "dapo", "importance_sampling_level": "sequence", "top_entropy_quantile": 0.5},
    ],
)
def test_passes_by_length_give_the_loss_and_gradients_of_a_padded_pass(make_trainer, options):
    batch, results = None, []
    for groups in (1, 3, 16):
        trainer = make_trainer(
            per_device_train_batch_size=16, steps_per_generation=2, length_groups=groups, **options
        )
        # Few prompts twice: equal contexts would tie at the quantile of the entropies.
        inputs = list(make_dataset(32))
        if batch is None:
            torch.manual_seed(0)
            batch = trainer._generate_and_score_completions(inputs)
            assert len({int(n) for n in batch["completion_mask"].sum(dim=1)}) > 4
            batch["old_per_token_logps"] += 0.1 * torch.randn_like(batch["old_per_token_logps"])
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1
        loss = trainer.compute_loss(trainer.model, copy.deepcopy(batch))
        loss.backward()
        entropy = trainer._metrics["train"]["entropy"][-1]
        results.append((loss.item(), entropy, [p.grad for p in trainer.model.parameters()]))
    loss, entropy, gradients = results[0]
    assert max(gradient.abs().max() for gradient in gradients) > 1e-4
    for other in results[1:]:
        assert other[:2] == pytest.approx((loss, entropy), abs=1e-6)
        for one, two in zip(gradients, other[2], strict=True):
            torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("groups", "masked"), [(1, True), (8, False)])
def test_one_response_a_pass_needs_no_mask(make_trainer, monkeypatch, groups, masked):
    """Without one torch takes the kernels for causal attention."""
    attention, seen = torch.nn.functional.scaled_dot_product_attention, set()

    def noted(*tensors, attn_mask=None, is_causal=False, **options):
        seen.add((attn_mask is not None, is_causal))
        return attention(*tensors, attn_mask=attn_mask, is_causal=is_causal, **options)

    trainer = make_trainer(
        per_device_train_batch_size=8, steps_per_generation=2, length_groups=groups
    )
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noted)
    generated = trainer._generate
    monkeypatch.setattr(trainer, "_generate", lambda prompts: (generated(prompts), seen.clear())[0])
    batch = trainer._generate_and_score_completions([make_dataset()[i // 4] for i in range(16)])
    assert seen == {(masked, not masked)}  # scoring, of more responses than an update has in a pass
    seen.clear()
    batch = split_tensor_dict(batch, 2)[0]
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    trainer.compute_loss(trainer.model, batch).backward()
    assert seen == {(masked, not masked)}


def test_the_sampler_s_log_probabilities_stand_for_the_old_ones(make_trainer, monkeypatch):
    """A run with them makes the updates of one that computes them anew."""
    records, weights = [], []
    for forget in (False, True):
        batches = []
        trainer = make_trainer(
            trainer={"on_generation": batches.append},
            sample_unfinished=True, steps_per_generation=2, max_steps=4, learning_rate=1e-3,
        )  # fmt: skip
        if forget:
            monkeypatch.setattr(observed, "keep_old_log_probs", lambda _: None)
        trainer.train()
        records.append(batches)
        weights.append([p.detach() for p in trainer.model.parameters()])
        entropies = [line["entropy/all_responses"] for line in trainer.state.log_history[:-1:2]]
        assert all(0 < value < torch.tensor(16.0).log() for value in entropies)
    for one, two in zip(*records, strict=True):
        assert one.completions == two.completions
        for known, computed in zip(one.log_probs, two.log_probs, strict=True):
            assert known.tolist() == pytest.approx(computed.tolist(), abs=1e-5)
    for one, two in zip(*weights, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)


def test_a_reference_model_is_scored_itself(make_trainer):
    trainer = make_trainer(sample_unfinished=True, steps_per_generation=2, beta=0.1)
    with torch.no_grad():
        next(trainer.ref_model.parameters()).mul_(1.5)
    output = trainer._generate_and_score_completions([make_dataset()[i // 4] for i in range(8)])
    difference = (output["old_per_token_logps"] - output["ref_per_token_logps"]).abs()
    assert difference[output["completion_mask"].bool()].mean() > 0.01


def test_adapters_sample_too_and_the_model_below_them_is_scored_itself(make_trainer):
    lora = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    batches = []
    trainer = make_trainer(
        trainer={"peft_config": lora, "on_generation": batches.append}, sample_unfinished=True,
        steps_per_generation=2, beta=0.1, learning_rate=0.1, max_steps=4, length_groups=2,
    )  # fmt: skip
    trainer.train()
    assert len(batches) == 2
    output = trainer._generate_and_score_completions([make_dataset()[i // 4] for i in range(8)])
    inside = output["completion_mask"].bool()
    difference = (output["old_per_token_logps"] - output["ref_per_token_logps"]).abs()
    assert difference[inside].mean() > 0.01
    with torch.no_grad():
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], 1)
        kept = output["completion_ids"].shape[1]
        logits = trainer.model(input_ids=ids, attention_mask=mask).logits[:, -kept - 1 : -1]
    plain = logits.log_softmax(-1).gather(2, output["completion_ids"][:, :, None]).squeeze(2)
    torch.testing.assert_close(
        output["old_per_token_logps"][inside], plain[inside], atol=1e-5, rtol=1e-4
    )


def test_entropy_of_all_responses_counts_what_the_loss_leaves_out(make_trainer):
    trainer = make_trainer(
        trainer={"reward_funcs": letter_reward}, sample_unfinished=True, steps_per_generation=2,
        per_device_train_batch_size=16, truncation_mask="all", max_completion_length=6, max_steps=1,
    )  # fmt: skip
    trainer.train()
    (line,) = (line for line in trainer.state.log_history if "loss" in line)
    assert 0 < line["mask/share"] < 1
    tokens = torch.cat(trainer.trace.entropies)
    assert line["entropy/all_responses"] == pytest.approx(tokens.mean().item(), abs=1e-6)


def test_other_samplers_are_refused(config):
    for other in ({"use_vllm": True}, {"use_transformers_continuous_batching": True}):
        with pytest.raises(UserError, match="sample_unfinished is for generate of transformers"):
            config(sample_unfinished=True, **other)
