"""The KL estimators and the dual clip: hand-computed numbers, verl's formulas, real updates."""

import math

import pytest
import torch

from mcbench.errors import UserError
from mcbench.grpo.kl import HIGHEST, LOWEST, clamped_reference

from .conftest import logged

REFERENCE = torch.tensor([[-1.0, -2.0, -0.1, -0.1, -30.0, -0.5]], dtype=torch.float64)
POLICY = torch.tensor([[-1.0, -1.0, -2.1, -9.1, -0.1, -25.0]], dtype=torch.float64)


def k3(log_ratio):
    return log_ratio.exp() - log_ratio - 1


def verls(policy, reference):
    """verl's ``low_var_kl``, as its documentation writes it."""
    x = (reference - policy).clamp(-20, 20)
    return (x.exp() - x - 1).clamp(-10, 10)


def term_and_gradient(estimate):
    policy = POLICY.clone().requires_grad_()
    value = estimate(policy)
    (gradient,) = torch.autograd.grad(value.sum(), policy)
    return value.detach(), gradient


def test_k3_by_hand():
    by_hand = [0, math.exp(-1) + 1 - 1, math.exp(2) - 2 - 1, math.exp(9) - 9 - 1]
    assert k3(REFERENCE - POLICY)[0, :4].tolist() == pytest.approx(by_hand)


def test_the_clamped_estimator_is_verls():
    ours = term_and_gradient(lambda policy: k3(clamped_reference(policy, REFERENCE)[0] - policy))
    theirs = term_and_gradient(lambda policy: verls(policy, REFERENCE))
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected)
    assert ours[0][0, 3:].tolist() == pytest.approx([10, 10, 10])
    assert not ours[1][0, 3:].any()


def test_within_the_bounds_the_reference_is_the_same_bit_for_bit():
    reference, beyond = clamped_reference(POLICY, REFERENCE)
    assert beyond.tolist() == [[False, False, False, True, True, True]]
    assert torch.equal(reference[~beyond], REFERENCE[~beyond])
    assert pytest.approx(-10.99998, abs=1e-4) == LOWEST
    assert pytest.approx(2.61087, abs=1e-4) == HIGHEST
    bounds = torch.tensor([LOWEST, HIGHEST], dtype=torch.float64)
    torch.testing.assert_close(k3(bounds), torch.tensor([10.0, 10.0], dtype=torch.float64))


class FarReference:
    """A trainer whose reference is 9 nats away on the first token of every response."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        output["ref_per_token_logps"] = output["ref_per_token_logps"].clone()
        output["ref_per_token_logps"][:, 0] += 9
        return output


@pytest.fixture
def far(make_trainer):
    from mcbench.grpo import MicroCoderGRPOTrainer

    cls = type("Far", (FarReference, MicroCoderGRPOTrainer), {})
    return lambda **changes: make_trainer(
        cls, beta=0.1, use_bias_correction_kl=False, max_steps=2, **changes
    )


@pytest.mark.parametrize("more", [{}, {"sampler_noise": 0.1}, {"length_groups": 2}])
def test_an_update_has_the_clamped_term(far, more):
    two = {"num_iterations": 2, "loss_type": "grpo", **more}
    kl = {}
    for estimator in ("k3", "k3_clamped"):
        trainer = far(kl_estimator=estimator, **two)
        trainer.train()
        kl[estimator] = logged(trainer, "kl")
        clamped = logged(trainer, "kl/clamped")
    assert min(kl["k3"]) > 50 > 10 > max(kl["k3_clamped"])
    assert all(0 < share < 1 for share in clamped)  # the reference stayed far in the second update


def test_a_ratio_above_the_dual_clip_has_no_gradient_where_the_advantage_is_negative(config):
    args = config(clip_ratio_c=3.0)
    assert args.delta == 3.0
    for advantage, log_ratio in [(-2.0, 1.5), (-2.0, 0.5), (2.0, 1.5), (-2.0, -1.0)]:
        ratio = torch.tensor(math.exp(log_ratio), requires_grad=True)
        clipped = ratio.clamp(0.8, 1.2)
        trls = -torch.min(ratio.clamp(max=args.delta) * advantage, clipped * advantage)
        worst = torch.max(-advantage * ratio, -advantage * clipped)
        verls = torch.min(worst, torch.tensor(-advantage * 3.0)) if advantage < 0 else worst
        assert trls.item() == pytest.approx(verls.item())
        gradients = [torch.autograd.grad(one, ratio, retain_graph=True)[0] for one in (trls, verls)]
        assert gradients[0] == gradients[1]


class FarBehind:
    """A trainer whose sampling policy had every token e² times less often, and nothing is right."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        output["old_per_token_logps"] = output["old_per_token_logps"] - 2
        output["advantages"] = -torch.ones_like(output["advantages"])
        return output


@pytest.mark.parametrize(("bound", "moves"), [(None, True), (8.0, True), (3.0, False)])
def test_an_update_has_the_dual_clip(make_trainer, bound, moves):
    from mcbench.grpo import MicroCoderGRPOTrainer

    trainer = make_trainer(
        type("Behind", (FarBehind, MicroCoderGRPOTrainer), {}),
        clip_ratio_c=bound, num_iterations=2, max_steps=1,
    )  # fmt: skip
    trainer.train()
    assert (logged(trainer, "grad_norm")[0] > 0) == moves  # e² is 7.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kl_estimator": "k2"}, "unknown kl_estimator 'k2'; allowed: k3, k3_clamped"),
        ({"clip_ratio_c": 1.1}, "clip_ratio_c must be above the upper clip, 1.2, got 1.1"),
        ({"clip_ratio_c": 3.0, "delta": 4.0}, "are one setting under verl's name and TRL's"),
        ({"clip_ratio_c": 3.0, "loss_type": "cispo", "epsilon_high": 5.0}, "clip_ratio_c bounds"),
    ],
)
def test_wrong_options_are_one_sentence(config, options, message):
    with pytest.raises(UserError, match=message):
        config(**options)
