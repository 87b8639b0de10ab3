"""What a configuration comes to: the same for any two that describe one computation.

A run's id is a hash of this. What it leaves out is what acts on nothing beside the other settings
(``mask_ratio`` without the conditional mask) and what says no more than silence does (``top_p=1``,
``dynamic_sampling=0``). The form is the one that the recorded runs have, so that they keep their
ids: what every recipe says is always there, and what goes with another option is there with it.

Not seen are equalities that only the data decide, such as a ``train_limit`` above the number of
problems, or the batch plan (a clip where every generation serves one update).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcbench.errors import UserError
from mcbench.grpo.options import ABOUT, CLIPPED_LOSSES
from mcbench.grpo.options import DEFAULTS as OPTIONS
from mcbench.runs.presets import EARLIER_MODELS

if TYPE_CHECKING:
    from mcbench.runs.config import Config

BEFORE: Mapping[str, Any] = {"kl_estimator": "k3", "temperature_probe_prompts": 16}
"""What runs did that were recorded before there was a setting for it."""
NOT_ORIGINAL: Mapping[str, Any] = {
    "token_credit": ("critic", "blame", "feedback"),
    "token_rule": ("clip_cov",),
    "dynamic_sampling": True,
    "substitute_flat": True,
    "temperature_restore": True,
    "kl_target": True,
    "reward": ("rlef",),
}
"""Settings, or values of them, that were other functions than their papers' before 26 November
2026 (``feedback``: the 28th): runs of that time are ``earlier``, those since have another id."""
DEFAULTS: Mapping[str, Any] = {
    **{
        name: value
        for name, value in OPTIONS.items()
        if value is not None and ABOUT[name].family and ABOUT[name].run is None
    },
    "loss_type": "dapo",
    "epsilon": 0.2,
    "epsilon_high": None,  # that of epsilon
    "beta": 0.0,
    "use_bias_correction_kl": True,
    "scale_rewards": "group",
    "importance_sampling_level": "token",
    "top_entropy_quantile": 1.0,
    "mask_truncated_completions": False,
    "num_iterations": 1,
    "top_p": 1.0,
    "max_grad_norm": 1.0,
    "weight_decay": 0.0,
    "lr_scheduler_type": "constant_with_warmup",
}
"""What the trainer does where it is told nothing (:mod:`mcbench.runs.arguments`)."""
STRETCH_SHARE = 0.1
"""Of the run's updates, the stretches of T(D) by trend where ``temperature_stretch`` is silent."""
_STATED = (
    "loss_type", "epsilon", "epsilon_high", "beta", "use_bias_correction_kl", "scale_rewards",
    "importance_sampling_level", "truncation_mask",
)  # fmt: skip
# In the id whenever they act, at whatever value: so the recorded runs have them.
_STATED_WITH = ("mask_ratio", "mask_when", "repeat_rule", "pass_k", "token_share")


def is_of_originals(config: Config) -> bool:
    """Whether something acts that was another function before; see :data:`NOT_ORIGINAL`."""
    values = ((getattr(config, name), of) for name, of in NOT_ORIGINAL.items())
    return any(value in of if isinstance(of, tuple) else bool(value) for value, of in values)


def is_only_read(config: Config) -> bool:
    """Whether it names functions, or a model, that others have replaced."""
    return config.earlier and (is_of_originals(config) or config.model in EARLIER_MODELS)


def check_trainable(config: Config) -> None:
    """Refuse what can only be read.

    Raises:
        UserError: see :func:`is_only_read`.
    """
    if is_only_read(config):
        raise UserError(
            "a run of earlier functions or models (earlier=true) is read and not trained "
            "again: they are gone; without it the run has the original's"
        )


def content(config: Config) -> dict[str, Any]:
    """What the run computes but for seed, model and data, as JSON has it."""
    algorithm, staged = _algorithm(config)
    if not config.earlier and is_of_originals(config):
        algorithm["functions"] = "originals"
    scale = config.of_parts("scale") | staged
    return {"profile": scale | _later(config), "algorithm": algorithm}


def _algorithm(config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the algorithm; and what stands in the place of ``temperature`` and
    ``max_completion_length`` where stages or a measurement have the say.
    """
    said = {**DEFAULTS, **config.algorithm()}
    if said["epsilon_high"] is None:
        said["epsilon_high"] = said["epsilon"]
    if said.pop("mask_truncated_completions"):  # TRL's own name of the same
        said["truncation_mask"] = "all"
    if said["truncation_mask"] == "conditional" and said["mask_ratio"] == 0:
        said["truncation_mask"] = DEFAULTS["truncation_mask"]
    in_reward = said.get("kl_target") is not None
    if not said["beta"] or in_reward:
        said["use_bias_correction_kl"] = False  # of a term that is not there
    if in_reward and not config.earlier:
        said["kl_estimator"] = ABOUT["kl_estimator"].run
    _without_idle_clip(said)
    staged = _temperature(config, said) | _length(said)
    idle = _idle(config, said)
    found = {
        name: value
        for name, value in said.items()
        if name in _STATED
        or (name not in idle and (name in _STATED_WITH or _says_something(name, value)))
    }
    if said["truncation_mask"] != "conditional" and said["repeat_rule"] == DEFAULTS["repeat_rule"]:
        del found["repeat_rule"]  # another one shows in what is logged of repetitions
    return found, staged


def _without_idle_clip(said: dict[str, Any]) -> None:
    """Puts what is always stated and acts on nothing beside the loss at its default."""
    loss = said["loss_type"]
    if loss not in (*CLIPPED_LOSSES, "luspo"):
        said["epsilon"] = DEFAULTS["epsilon"]
        if loss != "cispo":
            said["epsilon_high"] = DEFAULTS["epsilon"]
    if loss == "vespo":
        said["importance_sampling_level"] = DEFAULTS["importance_sampling_level"]


def _says_something(name: str, value: Any) -> bool:
    """Whether a value differs from what happens without it."""
    known = {**DEFAULTS, **BEFORE}
    return name not in known or value != known[name]


def _idle(config: Config, said: Mapping[str, Any]) -> set[str]:
    """The options that act on nothing here."""
    acts = {
        ("mask_ratio", "mask_when", "masked_lose"): said["truncation_mask"] == "conditional",
        ("token_share",): said["token_rule"] != "none",
        ("pass_k",): said["advantage_rule"] == "pass_at_k",
        ("kl_estimator",): bool(said["beta"]),
        ("soft_overlong_weight",): bool(said["soft_overlong"]),
        ("imitate_from",): said["imitate"] == "own",
        ("temperature_grid", "temperature_probe_prompts"): config.measures_temperature,
    }
    return {name for names, does in acts.items() if not does for name in names}


def _temperature(config: Config, said: dict[str, Any]) -> dict[str, Any]:
    """See :func:`_algorithm`; stages that never change are a temperature."""
    if config.temperature_target_diversity or config.temperature_target_entropy:
        return {"temperature": 1.0}
    stages = _from_the_start(said, "temperature_stages")
    if not stages:
        return {}
    return {"temperature": float(stages[0][1]) if len(stages) == 1 else 1.0}


def _length(said: dict[str, Any]) -> dict[str, Any]:
    """The same of lengths: in the place of the limit stands the last one."""
    stages = _from_the_start(said, "length_stages")
    return {"max_completion_length": int(stages[-1][1])} if stages else {}


def _from_the_start(said: dict[str, Any], name: str) -> list[list[Any]]:
    """The stages of that name where the first one is the run's start; else none. A single one is
    no stage, and is taken from what is ``said``.
    """
    if name not in said:
        return []
    stages = said[name] = _steps_of(said[name])
    if not stages or stages[0][0] != 0:
        return []
    if len(stages) == 1:
        del said[name]
    return stages


def _steps_of(stages: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Stages without those that go on as the one before."""
    kept: list[list[Any]] = []
    for start, value in stages:
        if not kept or kept[-1][1] != value:
            kept.append([start, value])
    return kept


def _later(config: Config) -> dict[str, Any]:
    """The settings that there were not always, where they are not at their default; the correction
    of vLLM's log-probabilities always where vLLM samples.
    """
    usual = config.defaults_of("later")
    found = config.of_parts("later")
    correction = [name for name in found if name.startswith("vllm_importance_sampling_")]
    if not config.vllm_importance_sampling_correction:
        found |= {name: usual[name] for name in correction if not name.endswith("_correction")}
    if config.small_eval_every is None:
        found["small_eval_limit"] = usual["small_eval_limit"]
    if not config.dynamic_sampling and config.drop_above is None:  # which nothing draws from
        found["draw_from_set"] = False
    if config.prompt_style == "plain":  # no template
        found["enable_thinking"] = None
    if config.temperature_stretch == round(STRETCH_SHARE * config.steps):
        found["temperature_stretch"] = None
    if config.kind_stages is not None:
        kinds = [[float(start), kind] for start, kind in config.kind_stages]
        found["kind_stages"] = None if kinds == [[0.0, "all"]] else kinds
    always = correction if config.backend.startswith("vllm") else ()
    return {name: value for name, value in found.items() if value != usual[name] or name in always}
