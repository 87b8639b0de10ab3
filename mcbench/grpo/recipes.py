"""The algorithms that are compared, as plain arguments for ``MicroCoderGRPOConfig``.

A recipe says what is optimised and nothing about scale: model, lengths, batch, learning rate, steps
and temperature belong to a profile.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.grpo.config import MicroCoderGRPOConfig


@dataclass(frozen=True)
class Recipe:
    """A named set of arguments and, for each of them, where the value comes from."""

    name: str
    summary: str
    settings: Mapping[str, Any]
    sources: Mapping[str, str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    def args(self) -> dict[str, Any]:
        """Keyword arguments for ``MicroCoderGRPOConfig``."""
        return dict(self.settings)


def _recipe(
    name: str, summary: str, base: Recipe | None = None, **choices: tuple[Any, str]
) -> Recipe:
    settings = {
        **(base.settings if base else {}),
        **{key: value for key, (value, _) in choices.items()},
    }
    sources = {
        **(base.sources if base else {}),
        **{key: text for key, (_, text) in choices.items()},
    }
    return Recipe(name, summary, settings, sources)


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
    repeat_window=(128, "MicroCoder section 2.2"),
    repeat_rule=("window", "MicroCoder section 2.2: last 128 tokens against the 128 before"),
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

RECIPES: dict[str, Recipe] = {r.name: r for r in (GRPO, GRPO_PLUS, MICROCODER, DEEPCODER, DR_GRPO)}


def recipe(name: str, **changes: Any) -> Recipe:
    """The named recipe with some arguments replaced; an unknown name or argument is a
    ``UserError``.
    """
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    known = {f.name for f in dataclasses.fields(MicroCoderGRPOConfig)}
    for key in changes:
        if key not in known:
            near = difflib.get_close_matches(key, known)
            hint = f"; similar: {', '.join(near)}" if near else ""
            raise UserError(f"unknown argument {key!r} of recipe {name!r}{hint}")
    base = RECIPES[name]
    settings = {**base.settings, **changes}
    sources = {**base.sources, **dict.fromkeys(changes, "changed by the user")}
    return Recipe(name, base.summary, settings, sources)
