"""The algorithms that are compared, as plain arguments for ``MicroCoderGRPOConfig``.

A recipe says what is optimised and nothing about scale: model, lengths, batch, learning rate,
steps, temperature and the tokens of the repetition test (``repeat_window``; the paper's 128 go with
responses of 4K and more, and are the default) belong to a profile.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcbench.errors import UserError, meant, near, unknown

# As TRL's model card cites a method.
PAPER = {
    "title": "Breaking Training Bottlenecks: Effective Reinforcement Learning for Modern Coding "
    "Models",
    "id": "2603.07777",
    "citation": """\
@article{li2026breaking,
    title  = {{Breaking Training Bottlenecks: Effective Reinforcement Learning for Modern Coding
              Models}},
    author = {Zongqian Li and others},
    year   = 2026,
    eprint = {arXiv:2603.07777},
}""",
}


@dataclass(frozen=True)
class Recipe:
    """A named set of arguments; ``choices`` has the value of each and where it comes from."""

    name: str
    summary: str
    choices: Mapping[str, tuple[Any, str]]

    def args(self) -> dict[str, Any]:
        """Keyword arguments for ``MicroCoderGRPOConfig``."""
        return {argument: value for argument, (value, _) in self.choices.items()}

    @property
    def sources(self) -> dict[str, str]:
        """For each argument, the sentence or code that its value comes from."""
        return {argument: source for argument, (_, source) in self.choices.items()}

    @property
    def open_choices(self) -> dict[str, str]:
        """Where the paper gives no value: what was chosen for it, and why."""
        return {
            name: source.removeprefix(OURS)
            for name, source in self.sources.items()
            if source.startswith(OURS)
        }


def _recipe(
    name: str, summary: str, base: Recipe | None = None, **settings: tuple[Any, str]
) -> Recipe:
    """With arguments added to those of ``base``, or replaced: argument=(value, source)."""
    return Recipe(name, summary, {**(base.choices if base else {}), **settings})


OURS = "our choice: "
"""What the source of a value begins with where the paper leaves it open."""

GRPO = _recipe(
    "grpo",
    "GRPO as the paper compares it: KL penalty and symmetric clip, loss averaged over all tokens",
    loss_type=(
        "dapo",
        f"{OURS}mean over all tokens. MicroCoder Eq. 1 has no 1/|o_i|, and the averaging is none "
        "of the three modifications of section 2.2; verl, whose terms section 7.1 uses, has "
        "loss_agg_mode 'token-mean'. Shao et al. 2024, Eq. 3, average per response: "
        "recipe('grpo_per_response')",
    ),
    epsilon=(0.2, f"{OURS}the paper gives no number; 0.2 is PPO's value and verl's clip_ratio"),
    epsilon_high=(
        0.2,
        "MicroCoder Eq. 1 without its red part (1 + epsilon); Shao et al. 2024, Eq. 3",
    ),
    beta=(
        0.001,
        f"{OURS}the paper gives no number; 0.001 is verl's kl_loss_coef and DeepSeek-R1's; Shao et "
        "al. 2024 have 0.04: recipe('grpo', beta=0.04)",
    ),
    kl_estimator=(
        "k3_clamped",
        f"{OURS}the paper names none; verl's kl_loss_type 'low_var_kl', which is k3 (Shao et al. "
        "2024, Eq. 4) with its terms clamped",
    ),
    use_bias_correction_kl=(
        False,
        "Shao et al. 2024, Eq. 4: the estimator without an importance weight; verl has none",
    ),
    scale_rewards=("group", "MicroCoder Eq. 2: divided by the group's standard deviation"),
    importance_sampling_level=(
        "token",
        f"{OURS}MicroCoder Eq. 1 writes the ratio of a whole response; Shao et al. 2024, Eq. 3, "
        "and verl have that of each token",
    ),
    clip_ratio_c=(
        None,
        f"{OURS}off, as MicroCoder Eq. 1 has no third bound; verl's dual clip has 3: "
        "recipe('grpo', clip_ratio_c=3.0)",
    ),
    truncation_mask=("none", "MicroCoder Eq. 2 without its red part"),
)

GRPO_PER_RESPONSE = _recipe(
    "grpo_per_response",
    "GRPO as first published: the same with the loss averaged over each response, then over them",
    GRPO,
    loss_type=(
        "grpo",
        "Shao et al. 2024, Eq. 3: mean over a response's tokens, then over responses",
    ),
)

GRPO_PLUS = _recipe(
    "grpo_plus",
    "GRPO+ (DAPO in the paper's words): GRPO without KL and with a high clip",
    GRPO,
    epsilon_high=(
        0.28,
        "MicroCoder section 2.2: 'following DAPO, we [...] employ high clipping'; the number is "
        "DAPO's (Yu et al. 2025), section 4.1",
    ),
    beta=(
        0.0,
        "MicroCoder section 5: 'GRPO+ (DAPO) that removes KL loss'; section 2.2: beta_0 = 0",
    ),
)

MICROCODER = _recipe(
    "microcoder",
    "MicroCoder-GRPO: GRPO+ with the conditional truncation mask; T(D) with "
    "recipe('microcoder', temperature_target_diversity=0.65)",
    GRPO_PLUS,
    truncation_mask=("conditional", "MicroCoder Eq. 2"),
    mask_ratio=(
        0.2,
        f"{OURS}of the 0.1, 0.2 and 0.3 that MicroCoder tries (Fig. 2); the 4B curves of Fig. 7 "
        "match 0.2",
    ),
    mask_when=(
        "incorrect",
        "MicroCoder section 2.2 ('produce incorrect answers') and Eq. 2; section 2.3 says "
        "'correct', but a 0/1 reward leaves almost no correct truncated response, so only this "
        "reading can lengthen outputs as Fig. 2 shows",
    ),
    repeat_rule=(
        "window",
        "MicroCoder section 2.2: 'final 128 tokens differ from preceding 128 tokens'",
    ),
)

DEEPCODER = _recipe(
    "deepcoder",
    "DeepCoder: GRPO+ with every truncated response removed from the loss",
    GRPO_PLUS,
    truncation_mask=("all", "DeepCoder (Luo et al. 2025): overlong filtering"),
)

DR_GRPO = _recipe(
    "dr_grpo",
    "Dr. GRPO: no length and no standard-deviation normalisation",
    GRPO_PER_RESPONSE,
    loss_type=("dr_grpo", "Dr. GRPO (Liu et al. 2025b), section 3.2: constant normaliser"),
    scale_rewards=(
        "none",
        "Dr. GRPO (Liu et al. 2025b), section 3.2: no division by the group's std",
    ),
    beta=(0.0, "Dr. GRPO (Liu et al. 2025b), section 3: rule-based rewards need no KL term"),
)

GSPO = _recipe(
    "gspo",
    "GSPO: GRPO without KL whose ratio is that of whole answers, with a narrow clip",
    GRPO_PER_RESPONSE,
    importance_sampling_level=("sequence", "GSPO (Zheng et al. 2025), Eq. 5 and 7"),
    epsilon=(3e-4, "GSPO, section 5.1"),
    epsilon_high=(4e-4, "GSPO, section 5.1"),
    beta=(0.0, "GSPO leaves the KL term out"),
)

CISPO = _recipe(
    "cispo",
    "CISPO: importance weights are cut, and no gradient",
    GRPO_PLUS,
    loss_type=("cispo", "MiniMax-M1 (Chen et al. 2025), Eq. 4 and 5"),
    epsilon_high=(5.0, "ScaleRL (Khatri et al. 2025); the weight is cut at this itself"),
)

CLIP_COV = _recipe(
    "clip_cov",
    "Clip-Cov: a few tokens of high covariance have no gradient",
    GRPO_PLUS,
    token_rule=("clip_cov", "Cui et al. 2025, Eq. 10 to 12"),
    token_share=(2e-4, "Cui et al. 2025, section 4.3"),
    epsilon=(1.0, "the authors' code: the clip is hardly there"),
    epsilon_high=(1.0, "the authors' code: the clip is hardly there"),
)

KL_COV = _recipe(
    "kl_cov",
    "KL-Cov: a KL penalty on the few tokens of highest covariance",
    GRPO_PLUS,
    token_rule=("kl_cov", "Cui et al. 2025, Eq. 13 and 14"),
    token_share=(2e-3, "Cui et al. 2025, section 4.3"),
    epsilon=(1.0, "nothing is clipped: the penalty stands in its place"),
    epsilon_high=(1000.0, "nothing is clipped: the penalty stands in its place"),
)

RECIPES: dict[str, Recipe] = {
    r.name: r
    for r in (
        *(GRPO, GRPO_PLUS, MICROCODER, GRPO_PER_RESPONSE, DEEPCODER, DR_GRPO),
        *(GSPO, CISPO, CLIP_COV, KL_COV),
    )
}


def recipe(name: str, **changes: Any) -> Recipe:
    """The named recipe with some arguments replaced; an unknown name or argument is a
    ``UserError``.
    """
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    if not changes:
        return RECIPES[name]
    from mcbench.grpo.config import MicroCoderGRPOConfig

    known = {f.name for f in dataclasses.fields(MicroCoderGRPOConfig)}
    for key in changes:
        if key not in known:
            hint = meant(near(key, sorted(known)))
            raise UserError(f"unknown argument {key!r} of recipe {name!r}{hint}")
    changed = {k: (v, "changed by the user") for k, v in changes.items()}
    return _recipe(name, RECIPES[name].summary, RECIPES[name], **changed)
