"""The recipes that are named after the paper, beside the paper's own words."""

import pytest

from mcbench.grpo import RECIPES
from mcbench.grpo.recipes import OURS

OPEN = None  # the paper says nothing, or nothing exact: a choice of ours, marked as one
EQ_1 = "min(ratio A, clip(ratio, 1 - eps, 1 + eps_high) A) - beta_0 D_KL, its red part for MicroCoder"
COMPARED = "we evaluate MicroCoder-GRPO against GRPO and GRPO+ (DAPO) that removes KL loss and employ "
"high clipping (section 5)"
FOLLOWING = "following DAPO, we remove KL loss (beta_0 = 0) and employ high clipping (section 2.2)"
EQ_2 = "A_i = (r_i - mean) / std (1 - I[|o_i| = L_max and incorrect and not repeat and U < rho])"
MASKING = (
    "selectively zeros advantage scores for responses that simultaneously reach maximum length, "
    "produce incorrect answers, avoid repetition sequences (final 128 tokens differ from preceding "
    "128 tokens), and are randomly selected with probability rho (section 2.2)"
)

# By recipe and setting: the value, and the sentence that gives it.
PAPER = {
    "grpo": {
        "loss_type": ("dapo", OPEN),
        "epsilon": (0.2, OPEN),
        "epsilon_high": (0.2, EQ_1),
        "beta": (0.001, OPEN),
        "kl_estimator": ("k3_clamped", OPEN),
        "use_bias_correction_kl": (False, EQ_1),
        "scale_rewards": ("group", EQ_2),
        "importance_sampling_level": ("token", OPEN),
        "clip_ratio_c": (None, OPEN),
        "truncation_mask": ("none", EQ_2),
    },
}
PAPER["grpo_plus"] = {
    **PAPER["grpo"],
    "epsilon_high": (0.28, FOLLOWING),
    "beta": (0.0, COMPARED),
}
PAPER["microcoder"] = {
    **PAPER["grpo_plus"],
    "truncation_mask": ("conditional", EQ_2),
    "mask_ratio": (0.2, OPEN),
    "mask_when": ("incorrect", MASKING),
    "repeat_rule": ("window", MASKING),
}
KL_AND_CLIP = {"beta", "epsilon_high"}


@pytest.mark.parametrize("name", PAPER)
def test_every_value_is_the_paper_s_or_marked_as_ours(name):
    recipe = RECIPES[name]
    assert recipe.args() == {setting: value for setting, (value, _) in PAPER[name].items()}
    marked = {setting for setting, source in recipe.sources.items() if source.startswith(OURS)}
    assert marked == {setting for setting, (_, said) in PAPER[name].items() if said is OPEN}
    assert set(recipe.open_choices) == marked
    assert not any(text.startswith(OURS) for text in recipe.open_choices.values())


def differing(ours, other):
    args, others = RECIPES[ours].args(), RECIPES[other].args()
    return {name for name in args | others if args.get(name) != others.get(name)}


def test_the_three_recipes_share_one_averaging_and_differ_in_what_the_paper_names():
    assert {RECIPES[name].args()["loss_type"] for name in PAPER} == {"dapo"}
    assert differing("grpo", "grpo_plus") == KL_AND_CLIP
    mask = {"truncation_mask", "mask_ratio", "mask_when", "repeat_rule"}
    assert differing("grpo_plus", "microcoder") == mask
    assert differing("grpo", "grpo_per_response") == {"loss_type"}
    assert "Eq. 3" in RECIPES["grpo_per_response"].sources["loss_type"]
