"""The options of the algorithm, each declared once: type, default, bounds, meaning, family.

The trainer's configuration (:mod:`mcbench.grpo.config`) has them as fields. A run's has those with
a family as settings (:mod:`mcbench.runs.config`), where None leaves one to the trainer; documents,
forms and checks read the same declaration. Nothing heavy is imported here.
"""
# ruff: noqa: RUF009  (`option` makes fields)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

# Losses of TRL's that are clipped below and above.
CLIPPED_LOSSES = ("bnpo", "dapo", "dr_grpo", "grpo")


@dataclass(frozen=True)
class About:
    """What is known of an option beside its type and default.

    Attributes:
        family: of settings that it belongs to; empty: it is the trainer's alone.
        among: the names that are allowed.
        low, high: the least and the largest value; ``above``: a bound that it may not reach.
        run: what a run has where nothing is said, in place of None, which leaves it to the trainer.
    """

    help: str = ""
    family: str = ""
    among: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    above: float | None = None
    run: Any = None

    @property
    def is_number(self) -> bool:
        """Whether it has bounds."""
        return self.low is not None or self.above is not None

    def holds(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        least = self.low is None or value >= self.low
        return (
            least
            and (self.above is None or value > self.above)
            and (self.high is None or value <= self.high)
        )

    @property
    def range(self) -> str:
        """The bounds in words."""
        if self.above is not None:
            return f"greater than {self.above:g}"
        return (
            f"at least {self.low:g}" if self.high is None else f"in [{self.low:g}, {self.high:g}]"
        )


# Numbers with bounds.
Share = Annotated[float, About(low=0, high=1)]
Positive = Annotated[float, About(above=0)]
Count = Annotated[int, About(low=1)]
Natural = Annotated[int, About(low=0)]

_DECLARED: list[About] = []


def option(default: Any, help: str, **about: Any) -> Any:
    """A field of :class:`Options`; ``about`` as for :class:`About`."""
    _DECLARED.append(About(help, **about))
    said = {"help": help}  # nothing else: parsers of command lines take all of a field's metadata
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=said)
    return field(default=default, metadata=said)


@dataclass
class Options:
    """What MicroCoder-GRPO adds to TRL's ``GRPOConfig``; at these defaults the trainer is TRL's."""

    truncation_mask: Literal["none", "conditional", "all"] = option(
        "none",
        "Which responses cut at the maximum length lose their advantage: 'none', 'conditional' "
        "(Eq. 2) or 'all' (removed from the loss: mask_truncated_completions).",
        family="mask",
    )
    mask_ratio: Share = option(
        0.2, "Probability rho that an eligible response is masked, in [0, 1].", family="mask"
    )
    mask_when: Literal["incorrect", "correct", "non_incorrect", "any"] = option(
        "incorrect",
        "Reading of the paper: mask 'incorrect' (Eq. 2), 'correct' (section 2.3) or "
        "'non_incorrect' responses (everything that is not a scored failure), or 'any' (ours).",
        family="mask",
    )
    repeat_window: Count = option(
        128, "m: a response that repeats its last m tokens is never masked."
    )
    repeat_rule: Literal["window", "periodic", "none"] = option(
        "window",
        "'window': the last m tokens equal the m before. 'periodic': any period up to m explains "
        "the last 2m tokens. 'none': no response counts as repeating.",
        family="mask",
    )
    masked_lose: Literal["advantage", "loss"] = option(
        "advantage",
        "What a masked response loses: its 'advantage' (Eq. 2; it still counts in the denominators "
        "of the loss and in the KL, entropy bonus and entropy quantile) or its whole part in the "
        "'loss'.",
        family="mask",
    )
    correct_threshold: float = option(1.0, "A reward of at least this is correct.")
    incorrect_threshold: float = option(0.0, "A reward of at most this is incorrect.")
    correctness_reward: str | None = option(
        None,
        "Name of the reward function that decides correctness; unset: the weighted sum of all.",
    )
    temperature_stages: list[Any] | str | None = option(
        None,
        "Temperature by step, such as '0:0.6,140:1.2'; starts must be generation boundaries.",
        family="temperature",
    )
    length_stages: list[Any] | str | None = option(
        None,
        "max_completion_length by step (context extension), such as '0:4096,260:8192'.",
        family="length",
    )
    temperature_target_diversity: float | None = option(
        None,
        "T(D): before the first update, take the lowest temperature of temperature_grid whose "
        "Distinct-4 reaches this value.",
        family="temperature",
    )
    temperature_target_entropy: Positive | None = option(
        None,
        "AceReason-Nemotron 1.1: before the first update, take the temperature of temperature_grid "
        "at which the sampler's entropy (nats a token) is nearest to this.",
        family="temperature",
    )
    temperature_grid: list[float] = option(
        [0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8],
        "Temperatures tried for temperature_target_diversity or _entropy.",
        family="temperature",
    )
    temperature_probe_prompts: Count = option(
        64,
        "Training prompts that D(T), or the entropy, is measured on.",
        family="temperature",
        run=512,
    )
    advantage_rule: Literal["group", "uncut", "pass_at_k"] = option(
        "group",
        "'group': TRL's. 'uncut' (Skywork-OR1, Adv-Mask-Before): truncated responses leave the "
        "group's mean and deviation and have no advantage. 'pass_at_k': those of pass@k training, "
        "for pass_k.",
        family="loss",
    )
    pass_k: Count = option(4, "k of advantage_rule='pass_at_k'.", family="loss")
    token_rule: Literal["none", "clip_cov", "kl_cov"] = option(
        "none",
        "'clip_cov': some tokens of high covariance between log-probability and advantage have no "
        "gradient; 'kl_cov': those of the highest get a KL penalty.",
        family="loss",
    )
    token_share: Share = option(
        2e-4, "Share of the tokens that token_rule acts on, at most.", family="loss"
    )
    dynamic_sampling: Natural = option(
        0,
        "DAPO: so many further batches of prompts at most are sampled, until as many groups have a "
        "signal as a batch has; after that groups without one fill it.",
        family="batch",
    )
    self_play: Literal["none", "trained", "unrewarded", "idle"] = option(
        "none",
        "Self-play SWE-RL: one prompt in 1 + num_generations poses problems for the others, see "
        "self_play.py: 'trained', 'unrewarded' (it has no reward), or 'idle' (what it poses is not "
        "used either).",
        family="batch",
    )
    token_credit: Literal["none", "critic", "blame", "executed", "feedback"] = option(
        "none",
        "'critic' (CodeRL), 'blame' (RLTF), 'executed' (StepCoder) or 'feedback' (SDPO), see "
        "tokens.py.",
        family="loss",
    )
    imitate: Literal["none", "reference", "own"] = option(
        "none",
        "Likelihood beside the loss: of the task's own answers ('reference'; CodeRL, RLTF), or of "
        "right ones of earlier batches ('own'; Kimi-Dev), see imitation.py.",
        family="loss",
    )
    imitate_from: Natural = option(0, "Updates before imitate='own' begins.", family="loss")
    kl_estimator: Literal["k3_clamped", "k3"] = option(
        "k3",
        "KL term of a token: 'k3' as TRL has it, unbounded, or 'k3_clamped', verl's low_var_kl, at "
        "most 10 nats (the recipes'). TRL 1.16 has no k1 and no k2.",
        family="clip and KL",
        run="k3_clamped",
    )
    clip_ratio_c: float | None = option(
        None,
        "verl's dual clip: where the advantage is negative, a ratio counts as this at most (3 in "
        "verl); the same as TRL's delta.",
        family="clip and KL",
        low=1,
    )
    kl_target: Positive | None = option(
        None,
        "PPOCoder: beta times the KL is a part of the reward and not of the loss, and adapts so "
        "that KL (nats a response) nears this.",
        family="clip and KL",
    )
    drop_above: Share | None = option(
        None,
        "SRPO, Polaris: prompts solved more often than this do not come again; with "
        "temperature_restore by the mean over a stage, from the next stage on.",
        family="batch",
    )
    substitute_flat: Share | None = option(
        None,
        "Polaris: share of good groups (rounded down) above which they replace the flat.",
        family="batch",
    )
    temperature_restore: list[int] | None = option(
        None,
        "Polaris: steps at which T restores the first stage's diversity.",
        family="temperature",
    )
    soft_overlong: Share = option(
        0.0,
        "DAPO: a reward that falls from 0 to -1 over this last share of the limit (a fifth in "
        "DAPO); correctness stays that of the other reward function.",
        family="reward",
    )
    soft_overlong_weight: Positive = option(
        1.0,
        "What that reward counts: 1 as in DAPO beside rewards of 1 and -1, 0.5 the same beside 1 "
        "and 0.",
        family="reward",
    )
    sampler_noise: float = option(
        0.0,
        "To study the importance correction: normal noise of this standard deviation (nats) is "
        "added to the sampler's log-probability of every token; with another sampler than vLLM the "
        "correction acts as it would there.",
        low=0,
    )
    diversity_metrics: bool = option(True, "Log diversity/: distinct n-grams, self-BLEU, programs.")
    stop_at_fence: bool = option(
        False,
        "A response ends with its first code block: the end token follows the closing fence, and "
        "is not in the loss.",
    )
    sample_unfinished: bool = option(
        False,
        "Responses that have ended leave the batch while the others are sampled (with "
        "transformers). The same distribution from other random numbers; in float32 the sampler's "
        "log-probabilities are the old ones, which spares a pass.",
    )
    length_groups: Count = option(
        1,
        "Log-probabilities are computed in so many passes of rows of like length, which need less "
        "padding; the same loss and gradients up to rounding.",
    )
    shared_prefix: bool = option(
        False,
        "Log-probabilities are computed in one sequence a pass that has each prompt once, in the "
        "place of length_groups (verl: use_prefix_grouper); the same loss and gradients up to "
        "rounding. For text and sdpa attention in all layers.",
    )
    staleness: int = option(
        0,
        "Responses are sampled by the weights of so many generations before; -1: by those that "
        "training began with.",
        family="batch",
        low=-1,
    )
    staleness_mixed: bool = option(
        False,
        "staleness is a bound (SkyRL): each generation draws how old its weights are, up to that.",
        family="batch",
    )
    record_columns: list[str] = option(
        ["problem_id"], "Dataset columns passed on to the on_generation hook."
    )


def _with_kind(about: About, hint: Any) -> About:
    """With the names or bounds that its type has, or the type of what may be None."""
    for kind in (hint, *get_args(hint)):
        if get_origin(kind) is Literal:
            return replace(about, among=get_args(kind))
        for known in getattr(kind, "__metadata__", ()):
            return replace(about, low=known.low, high=known.high, above=known.above)
    return about


_TYPES = get_type_hints(Options, include_extras=True)
ABOUT: Mapping[str, About] = {
    one.name: _with_kind(about, _TYPES[one.name])
    for one, about in zip(fields(Options), _DECLARED, strict=True)
}
DEFAULTS: Mapping[str, Any] = {name: getattr(Options(), name) for name in ABOUT}
MASK_WHEN = ABOUT["mask_when"].among
