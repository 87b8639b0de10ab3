"""The algorithms that are compared, as plain arguments for ``MicroCoderGRPOConfig``.

A recipe says what is optimised and nothing about scale: model, lengths, batch, learning rate,
steps, temperature and the tokens of the repetition test (``repeat_window``; the paper's 128 go with
responses of 4K and more, and are the default) belong to a profile.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcbench.errors import UserError, meant, unknown

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
        """For each argument, where its value comes from."""
        return {argument: source for argument, (_, source) in self.choices.items()}

    def changed(self, **settings: tuple[Any, str]) -> "Recipe":
        """The recipe with arguments added or replaced: argument=(value, source)."""
        return dataclasses.replace(self, choices={**self.choices, **settings})


def _recipe(
    name: str, summary: str, base: Recipe | None = None, **settings: tuple[Any, str]
) -> Recipe:
    return Recipe(name, summary, {**(base.choices if base else {}), **settings})


GRPO = _recipe(
    "grpo",
    "GRPO: KL penalty, symmetric clipping, loss averaged per response",
    loss_type=(
        "grpo",
        "Shao et al. 2024, Eq. 3: mean over a response's tokens, then over responses",
    ),
    epsilon=(
        0.2,
        "open in Shao et al. 2024; 0.2 is PPO's value and the default of verl and TRL",
    ),
    epsilon_high=(0.2, "symmetric, as in Shao et al. 2024, Eq. 3"),
    beta=(
        0.001,
        "the default KL coefficient of verl, whose terms the MicroCoder paper uses (section 7.1), "
        "and of DeepSeek-R1; Shao et al. 2024 use 0.04: recipe('grpo', beta=0.04)",
    ),
    use_bias_correction_kl=(
        False,
        "Shao et al. 2024, Eq. 4: plain k3 estimator, no importance weight",
    ),
    scale_rewards=("group", "Shao et al. 2024, section 4.1.2, and MicroCoder Eq. 2"),
    importance_sampling_level=("token", "Shao et al. 2024, Eq. 3"),
    truncation_mask=("none", "not part of GRPO"),
)

GRPO_PLUS = _recipe(
    "grpo_plus",
    "GRPO+ (DAPO-like): no KL, high clip, loss averaged over all tokens",
    GRPO,
    loss_type=("dapo", "DAPO (Yu et al. 2025), Eq. 12: token-level loss"),
    epsilon_high=(
        0.28,
        "DAPO (Yu et al. 2025), section 4.1; MicroCoder section 2.2: 'following DAPO'",
    ),
    beta=(0.0, "DAPO section 2.3; MicroCoder sections 2.2 and 2.5: KL removed"),
)

MICROCODER = _recipe(
    "microcoder",
    "MicroCoder-GRPO: GRPO+ with the conditional truncation mask; T(D) with "
    "recipe('microcoder', temperature_target_diversity=0.65)",
    GRPO_PLUS,
    truncation_mask=("conditional", "MicroCoder Eq. 2"),
    mask_ratio=(0.2, "MicroCoder tries 0.1, 0.2, 0.3 (Fig. 2); the 4B curves of Fig. 7 match 0.2"),
    mask_when=(
        "incorrect",
        "MicroCoder section 2.2 and Eq. 2; section 2.3 says 'correct', but a 0/1 reward leaves "
        "almost "
        "no correct truncated response, so only this reading can lengthen outputs as Fig. 2 shows",
    ),
    repeat_rule=("window", "MicroCoder section 2.2: last m tokens against the m before"),
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
    GRPO,
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
    GRPO,
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
        *(GRPO, GRPO_PLUS, MICROCODER, DEEPCODER, DR_GRPO),
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
            hint = meant(key, sorted(known))
            raise UserError(f"unknown argument {key!r} of recipe {name!r}{hint}")
    return RECIPES[name].changed(**{k: (v, "changed by the user") for k, v in changes.items()})
