"""No setting of the algorithm is dropped in silence, alone or beside another one."""

import itertools

import pytest
import torch

from mcbench.errors import UserError
from mcbench.grpo.checks import idle_settings, other_distributions
from mcbench.runs.config import SETTINGS, part_of
from mcbench.runs.resolve import described
from tests.quick import every

# One value of each that is not what happens without it.
VALUES = {
    "length_stages": [[0, 8], [4, 12]],
    "num_iterations": 2,
    "dynamic_sampling": 2,
    "self_play": "idle",
    "drop_above": 0.9,
    "substitute_flat": 0.3,
    "staleness": 1,
    "max_grad_norm": 0.1,
    "weight_decay": 0.1,
    "lr_scheduler_type": "cosine",
    "loss_type": "sapo",
    "epsilon": 0.1,
    "epsilon_high": 0.3,
    "beta": 0.1,
    "kl_estimator": "k3_clamped",
    "clip_ratio_c": 3.0,
    "use_bias_correction_kl": False,
    "scale_rewards": "none",
    "importance_sampling_level": "sequence",
    "top_entropy_quantile": 0.5,
    "advantage_rule": "uncut",
    "pass_k": 2,
    "token_rule": "clip_cov",
    "token_credit": "blame",
    "kl_target": 0.5,
    "token_share": 0.1,
    "truncation_mask": "conditional",
    "mask_ratio": 0.9,
    "mask_when": "any",
    "masked_lose": "loss",
    "repeat_rule": "none",
    "mask_truncated_completions": True,
    "temperature_stages": [[0, 0.8], [4, 1.4]],
    "temperature_target_diversity": 0.5,
    "temperature_target_entropy": 1.0,
    "temperature_restore": [4],
    "temperature_grid": [0.5, 1.5],
    "temperature_probe_prompts": 8,
    "top_p": 0.9,
    "soft_overlong": 0.2,
    "soft_overlong_weight": 0.5,
    "staleness_mixed": True,
    "imitate": "reference",
    "imitate_from": 2,
}
MORE = {
    "loss_type": ["bnpo", "cispo", "dr_grpo", "grpo", "luspo", "vespo"],
    "scale_rewards": ["batch"],
    "advantage_rule": ["pass_at_k"],
    "token_rule": ["kl_cov"],
    "token_credit": ["critic", "executed", "feedback"],
    "truncation_mask": ["all"],
    "mask_when": ["correct", "non_incorrect"],
    "repeat_rule": ["periodic"],
    "imitate": ["own"],
    "staleness": [-1],
}
OPTIONS = [*VALUES.items(), *((name, value) for name, all_ in MORE.items() for value in all_)]
MASK = {"truncation_mask": "conditional", "mask_ratio": 1.0, "repeat_rule": "none"}
# These say what they are of, and every recipe has them, with a KL term or without.
SAYS_SO = {"kl_estimator", "use_bias_correction_kl"}
SAME = {"truncation_mask", "mask_truncated_completions"}  # two names of one thing, which is refused


def test_every_setting_of_the_algorithm_is_walked():
    assert set(VALUES) == {name for name in SETTINGS if part_of(name) == "algorithm"}


@pytest.fixture
def planned(config):
    """The trainer's arguments and what is said of them; the sentence where they are refused."""

    def plan(**settings):
        try:
            args = config(**settings, steps_per_generation=4, repeat_window=4)
        except UserError as error:
            return None, str(error)
        told = [*idle_settings(args, args.max_completion_length, ["one"])]
        return args, " ".join([*told, *other_distributions(args, {})])

    return plan


def test_each_pair_is_accepted_refused_or_said(planned):
    alone = {str(one): planned(**dict([one])) for one in OPTIONS}
    counts = {"refused": 0, "said": 0, "accepted": 0}
    for one, other in itertools.combinations(OPTIONS, 2):
        if one[0] == other[0]:
            continue
        args, told = planned(**dict([one, other]))
        if args is None:
            assert one[0] in told or other[0] in told, (one, other, told)
            counts["refused"] += 1
            continue
        for option in (one, other):
            if (own := alone[str(option)][0]) is not None:  # it does not depend on the other
                assert getattr(args, option[0]) == getattr(own, option[0]), (one, other)
        counts["said" if one[0] in told or other[0] in told else "accepted"] += 1
        for option, rest in ((one, other), (other, one)):
            name = option[0]
            assert acts_beside(option, rest) or name in told or name in SAYS_SO, (one, other, told)
    assert all(counts.values()), counts


def acts_beside(option, other):
    """Whether a run with both is another one than with ``other`` alone, by its id."""

    def run_id(**settings):
        return described("nano", "grpo_plus", settings).run_id

    try:
        both = run_id(**dict([other, option]))
        return both != run_id(**dict([other])) or {option[0], other[0]} == SAME
    except UserError:
        return True


@pytest.mark.parametrize(
    ("name", "value", "beside", "acts"),
    every(5, [
        ("epsilon", 0.001, {"loss_type": "dapo"}, True),
        ("epsilon", 0.001, {"loss_type": "luspo"}, True),
        ("epsilon", 0.001, {"loss_type": "cispo", "epsilon_high": 1.0}, False),
        ("epsilon", 0.001, {"loss_type": "sapo", "epsilon_high": 0.2}, False),
        ("epsilon_high", 1.001, {"loss_type": "cispo"}, True),
        ("epsilon_high", 0.001, {"loss_type": "vespo"}, False),
        ("importance_sampling_level", "sequence", {"loss_type": "sapo"}, True),
        ("importance_sampling_level", "sequence", {"loss_type": "vespo"}, False),
        ("importance_sampling_level", "sequence", {"steps_per_generation": 1}, False),
        ("scale_rewards", "none", {"multi_objective_aggregation": "normalize_then_sum"}, False),
        ("use_bias_correction_kl", False, {"beta": 0.5}, True),
        ("clip_ratio_c", 1.201, {}, True),
        ("imitate_from", 3, {}, False),
        ("masked_lose", "loss", MASK | {"loss_type": "grpo"}, False),
        ("masked_lose", "loss", MASK | {"loss_type": "dapo"}, True),
        ("truncation_mask", "conditional", {"mask_ratio": 0.0}, False),
        ("truncation_mask", "conditional", {"mask_ratio": 1.0, "repeat_rule": "none",
         "advantage_rule": "uncut"}, False),
        ("drop_above", 1.0, {"remove_unused_columns": False}, False),
        ("substitute_flat", 0.1, {"dynamic_sampling": 60, "remove_unused_columns": False}, False),
        ("token_rule", "kl_cov", {"steps_per_generation": 1, "epsilon": 1.0,
         "epsilon_high": 1000.0}, False),
        ("off_policy_mask_threshold", 1e-9, {"steps_per_generation": 1}, False),
        ("off_policy_mask_threshold", 1e-9, {}, True),
        ("delta", 1.001, {"steps_per_generation": 1}, False),
        ("sapo_temperature_neg", 3.0, {}, False),
        ("vespo_k_pos", 5.0, {"loss_type": "sapo"}, False),
        ("entropy_target", 0.1, {}, False),
        ("ref_model_sync_steps", 1, {"beta": 0.1}, False),
    ]),
)  # fmt: skip
def test_what_is_said_to_act_on_nothing_does_not(make_trainer, caplog, name, value, beside, acts):
    def weights(**options):
        options = {"steps_per_generation": 2, "max_steps": 2, "learning_rate": 5e-3} | options
        trainer = make_trainer(per_device_train_batch_size=8, **options)
        trainer.train()
        return torch.cat([one.detach().flatten() for one in trainer.model.parameters()])

    plain = weights(**beside)
    caplog.clear()
    changed = weights(**beside, **{name: value})
    assert torch.equal(plain, changed) == (not acts)
    assert (f"no effect of {name}" in caplog.text) == (not acts)
