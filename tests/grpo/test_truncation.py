"""Log-probabilities over the tokens that top_k, top_p and min_p keep, against numbers by hand."""

import math

import pytest
import torch

from mcbench.errors import UserError
from mcbench.grpo import observed
from mcbench.grpo.checks import other_distributions
from mcbench.grpo.truncation import filters, kept_log_probs

from .conftest import logged

PROBS = [0.5, 0.25, 0.15, 0.1]
LOG = math.log


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"top_k": 2}, [0, 1]),
        ({"top_p": 0.8}, [0, 1, 2]),  # 0.5 + 0.25 do not reach it
        ({"min_p": 0.4}, [0, 1]),  # at least 0.2
        ({"top_k": 3, "min_p": 0.6}, [0]),
        ({"generation_kwargs": {"top_p": 0.7}}, [0, 1]),
        ({"top_p": 0.5, "generation_kwargs": {"top_p": 1.0}}, [0, 1, 2, 3]),
    ],
)
def test_renormalised_over_what_is_kept(config, options, kept):
    scores = torch.tensor([PROBS] * 4).log() + 3  # shifted, as logits may be
    found, entropies = kept_log_probs(scores, torch.arange(4), filters(config(**options)))
    for token, log_prob in enumerate(found.tolist()):
        among = {*kept, token}  # of a policy that has moved away from it, too
        assert log_prob == pytest.approx(LOG(PROBS[token] / sum(PROBS[n] for n in among)))
    probs = [PROBS[n] / sum(PROBS[n] for n in kept) for n in kept]
    assert entropies[0] == pytest.approx(-sum(p * LOG(p) for p in probs))


def test_no_gradient_goes_to_what_is_dropped(config):
    scores = torch.tensor([PROBS]).log().requires_grad_(True)
    found, _ = kept_log_probs(scores, torch.tensor([1]), filters(config(top_k=2)))
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert gradient[0].tolist() == pytest.approx([-2 / 3, 2 / 3, 0, 0])


@pytest.mark.parametrize("options", [{"top_p": 0.6}, {"top_k": 3}, {"min_p": 0.3}])
def test_the_policy_that_is_trained_is_the_one_that_samples(make_trainer, monkeypatch, options):
    """At every temperature."""
    trainer = make_trainer(
        sample_unfinished=True, temperature_stages="0:1.3,2:0.7", steps_per_generation=2,
        max_steps=4, **options,
    )  # fmt: skip
    seen = []
    keep = observed.keep_old_log_probs

    def compare(trainer):
        keep(trainer)
        prompts = [torch.tensor(ids) for ids in trainer.asked]
        for prompt, ids, known in zip(
            prompts, trainer.sampled_ids, trainer.trace.log_probs, strict=True
        ):
            row = torch.cat([prompt, torch.tensor(ids)])[None]
            logits = trainer.model(row).logits[0, len(prompt) - 1 : -1] / trainer.temperature
            wanted, _ = kept_log_probs(logits, torch.tensor(ids), filters(trainer.args))
            torch.testing.assert_close(known, wanted.detach(), atol=1e-4, rtol=1e-4)
        seen.append(trainer.temperature)

    generate = trainer._generate_single_turn

    def noting(prompt_ids, *args, **kwargs):
        trainer.asked = prompt_ids
        return generate(prompt_ids, *args, **kwargs)

    trainer._generate_single_turn = noting
    monkeypatch.setattr(observed, "keep_old_log_probs", compare)
    trainer.train()
    assert seen == [1.3, 0.7]
    assert logged(trainer, "clip_ratio/region_mean")[::2] == [0, 0]  # the ratios are 1


def test_scored_by_the_trainer_as_by_the_sampler(make_trainer, monkeypatch):
    """Without the sampler's own numbers: TRL's pass over the responses, with adapters too."""
    trainer = make_trainer(top_p=0.6, steps_per_generation=2, sample_unfinished=True)
    monkeypatch.setattr(observed, "keep_old_log_probs", lambda _: None)
    outputs = []
    loss = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: outputs.append(inputs) or loss(model, inputs)
    trainer.args.max_steps = 2
    trainer.train()
    old = torch.cat([one["old_per_token_logps"] for one in outputs])
    mask = torch.cat([one["completion_mask"] for one in outputs]).bool()
    found = sorted(old[mask].tolist())
    known = sorted(torch.cat(trainer.trace.log_probs).tolist())
    assert found == pytest.approx(known, abs=1e-4)


def test_beside_a_kl_term_log_probabilities_stay_trl_s_and_that_is_said(config):
    kept = config(top_p=0.9, beta=0.1)
    assert filters(kept) == []
    assert ["no finite KL" in told for told in other_distributions(kept, {})] == [True]
    whole = config(top_p=0.9, beta=0.1, generation_kwargs={"top_p": 1.0, "top_k": -1})
    assert list(other_distributions(whole, {})) == []


@pytest.mark.parametrize(
    "options",
    [
        {"top_p": 0.6, "beta": 0.1},
        {"repetition_penalty": 1.5},
        {"generation_kwargs": {"min_new_tokens": 4}},
    ],
)
def test_numbers_of_another_distribution_are_not_the_old_ones(make_trainer, caplog, options):
    trainer = make_trainer(sample_unfinished=True, steps_per_generation=2, max_steps=1, **options)
    trainer.train()
    assert logged(trainer, "clip_ratio/region_mean") == [0]
    assert trainer.log_ratios() is None  # the second half of the batch waits
    assert max(abs(row).max() for row in trainer._log_ratios.values()) < 1e-4
    assert "another policy than the one that sampled" in caplog.text
    with pytest.raises(UserError, match="else those of the policy"):
        make_trainer(sample_unfinished=True, steps_per_generation=2, staleness=1, **options)


@pytest.mark.parametrize(("use_vllm", "kept"), [(False, 0.9), (True, 0.75)])
def test_vllm_looks_at_min_p_first(config, use_vllm, kept):
    """Without the last token 0.5 and 0.25 are more than 0.8 of what is left."""
    by = filters(config(use_vllm=use_vllm, top_p=0.8, min_p=0.25))
    found, _ = kept_log_probs(torch.tensor([PROBS]).log(), torch.tensor([0]), by)
    assert found.item() == pytest.approx(LOG(0.5 / kept))


def test_what_the_model_brings_is_said(make_trainer, caplog):
    model = make_trainer().model
    model.generation_config.update(no_repeat_ngram_size=3, top_k=5, repetition_penalty=1.05)
    make_trainer(trainer={"model": model})
    assert "with no_repeat_ngram_size=3 (of the model's generation_config) and" in caplog.text
