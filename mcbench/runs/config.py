"""One run as one typed configuration: a profile's scale, a recipe's algorithm, and a seed.

:func:`mcbench.runs.resolve.resolve` turns names and settings into a :class:`Config`; its ``run_id``
is a hash of what the run computes (:mod:`mcbench.runs.canonical`), so that two descriptions of the
same computation are one run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictInt, model_validator

from mcbench.errors import UserError, meant, near, unknown
from mcbench.files import digest, plain
from mcbench.grpo.batch_plan import BatchPlan
from mcbench.runs import canonical
from mcbench.runs.algorithm import Algorithm
from mcbench.runs.canonical import BEFORE
from mcbench.runs.presets import PROFILES
from mcbench.runs.together import check_together
from mcbench.settings import Share

Backend = Literal["transformers", "transformers_continuous", "vllm_colocate", "vllm_server"]
RewardEvaluator = Literal["microcoder", "single_threaded", "process_per_sample"]
Tracker = Literal["trackio", "tensorboard", "wandb"]
Positive = Annotated[int, Field(gt=0)]
Real = Annotated[float, Field(gt=0)]


def _setting(family: str, default: Any, help: str, part: str = "scale", **limits: Any) -> Any:
    """A field of the configuration.

    ``part`` says what the field is to the run's id: of its ``scale``, of its ``algorithm`` (only
    where set: None leaves it to the trainer), ``later`` (only where not the default, so that runs
    from before the field existed keep their ids), or ``execution`` (where and how fast a run
    executes, not what it computes: two runs that differ only there are one).
    """
    if default is not ...:
        limits["default"] = default
    return Field(description=help, json_schema_extra={"family": family, "part": part}, **limits)


def _later(family: str, default: Any, help: str, **limits: Any) -> Any:
    return _setting(family, default, help, "later", **limits)


def _execution(family: str, default: Any, help: str, **limits: Any) -> Any:
    return _setting(family, default, help, "execution", **limits)


def _algorithm(family: str, help: str, **limits: Any) -> Any:
    return _setting(family, None, help, "algorithm", **limits)


class Config(Algorithm):
    """Everything that decides what a run computes, and how it is executed.

    Lengths are in tokens; ``steps``, ``eval_every`` and ``warmup_steps`` in optimizer updates;
    ``train_batch_size`` and ``ppo_mini_batch_size`` in prompts, as in the paper. Fields of the
    algorithm that are None are left to the trainer.
    """

    model_config = ConfigDict(protected_namespaces=())

    profile: str = _setting("run", ..., "the preset of the scale", "name")
    recipe: str = _setting("run", "microcoder", "the preset of the algorithm", "name")
    seed: int = _setting("run", 0, "of sampling, prompt order and evaluation", "seed", ge=0)
    on_cpu: bool = _execution(
        "run", False, "train here without a GPU what is meant for one, however long it takes"
    )
    report_to: Annotated[tuple[Tracker, ...], Field(strict=False)] = _execution(
        "run", (), "trackers that get metrics, samples and claims' verdicts as well"
    )

    earlier: bool = _execution(
        "run", False, "trained by earlier functions of ours, since replaced: read, never trained"
    )

    model: str = _setting("model and data", ..., "nano model, directory or hub id", "name")
    train_set: str = _setting("model and data", "nano:train", "problems trained on", "name")
    train_limit: Positive | None = _later(
        "model and data", None, "problems trained on, spread over the set; null: all"
    )
    kind_stages: list[Any] | None = _later(
        "model and data",
        None,
        'kind of problems by share of the updates, such as [[0, "induced"], [0.5, "all"]]',
    )
    test_set: str = _setting("model and data", "nano:test", "held-out problems", "name")
    readmit: Annotated[tuple[Positive, Positive], Field(strict=False)] | None = _later(
        "model and data",
        None,
        "problems that the base never solved join late: every so many updates, so many of them",
    )
    draw_from_set: bool = _later(
        "model and data",
        False,
        "dynamic_sampling and drop_above draw from all problems, not from what the updates need",
    )
    prompt_style: Literal["plain", "chat"] = _setting(
        "model and data", "plain", "the statement alone, or a conversation"
    )
    enable_thinking: bool | None = _later(
        "model and data", None, "of the chat template; null is the template's default"
    )
    max_prompt_length: Positive | None = _later(
        "model and data", None, "problems with longer prompts (tokens) are left out"
    )
    lora_rank: Positive | None = _setting(
        "model and data", None, "rank of adapters on all linear layers; null trains all weights"
    )

    max_completion_length: Positive = _setting("length", ..., "limit L_max of a response")

    stop_at_fence: bool = _later(
        "length", False, "a response ends at the closing fence of its first code block"
    )

    train_batch_size: Positive = _setting("batch", ..., "prompts sampled and scored together")
    ppo_mini_batch_size: Positive = _setting("batch", ..., "prompts in one update")
    num_generations: Positive = _setting("batch", ..., "responses G to a prompt")
    per_device_batch_size: Positive = _setting("batch", ..., "responses in one forward pass")
    num_iterations: int | None = _algorithm("batch", "passes over a sampled batch")
    length_groups: Positive = _execution(
        "batch", 1, "passes by length that a forward pass is divided into, for less padding"
    )
    shared_prefix: bool = _execution(
        "batch", False, "a forward pass reads each of its prompts once, for all their responses"
    )

    steps: Positive = _setting("optimisation", ..., "optimizer updates of the whole run")
    learning_rate: Real = _setting("optimisation", ..., "after the warm-up")
    warmup_steps: int = _setting("optimisation", 2, "updates of linear warm-up", ge=0)
    max_grad_norm: float | None = _algorithm("optimisation", "gradients are clipped to this norm")
    weight_decay: float | None = _algorithm("optimisation", "of the optimizer")
    lr_scheduler_type: str | None = _algorithm("optimisation", "schedule after the warm-up")
    precision: Literal["fp32", "bf16"] = _setting("optimisation", "fp32", "of the arithmetic")
    gradient_checkpointing: bool = _setting("optimisation", False, "less memory, more time")

    loss_type: str | None = _algorithm("loss", "normalisation of the loss over tokens")
    epsilon: float | None = _algorithm("clip and KL", "lower clip range (Eq. 1)")
    epsilon_high: float | None = _algorithm("clip and KL", "upper clip range (Eq. 1, §2.5)")
    beta: float | None = _algorithm("clip and KL", "coefficient of the KL term; 0: none (§2.5)")
    use_bias_correction_kl: bool | None = _algorithm("clip and KL", "importance weight in the KL")
    scale_rewards: str | None = _algorithm("loss", "group: advantages divided by the group's std")
    importance_sampling_level: str | None = _algorithm("loss", "ratio of a token or of a sequence")
    top_entropy_quantile: float | None = _algorithm("loss", "share of tokens trained, by entropy")

    repeat_window: Positive = _setting("mask", ..., "m: tokens compared by the repetition rule")
    mask_truncated_completions: bool | None = _algorithm("mask", "TRL's own form of mask all")

    temperature: Real = _setting("temperature", ..., "of the sampled responses")
    temperature_reading: Literal["initial", "trend"] = _later(
        "temperature",
        "initial",
        "reading of T(D): by diversity before training, or by where it is heading after a short "
        "stretch of training at each temperature of the grid",
    )
    temperature_stretch: Positive | None = _later(
        "temperature", None, "updates of such a stretch; null: a tenth of the run"
    )
    top_p: float | None = _algorithm("temperature", "nucleus of the sampled responses")

    eval_every: Positive = _setting("evaluation", ..., "updates between two evaluations")
    eval_lengths: Annotated[
        tuple[Annotated[StrictInt, Field(gt=0)], ...], Field(strict=False, min_length=1)
    ] = _setting("evaluation", ..., "limits of the held-out responses")
    eval_attempts: Positive = _setting("evaluation", 4, "responses to each held-out problem")
    eval_temperature: Real = _setting("evaluation", 1.0, "of held-out responses")
    eval_other_temperatures: Annotated[tuple[Real, ...], Field(strict=False)] = _later(
        "evaluation", (), "further ones, of the evaluations on all problems"
    )
    small_eval_every: Positive | None = _later(
        "evaluation", None, "updates between two evaluations on a part of the problems"
    )
    small_eval_limit: Positive = _later("evaluation", 60, "problems of such a part, evenly spread")
    eval_batch_size: Positive = _setting("evaluation", 256, "responses sampled at once")
    test_limit: Positive | None = _setting("evaluation", None, "problems used, evenly spread")

    reward: str = _later(
        "reward", "tests", "which of the rewards of the training set's task trains"
    )
    feedback: Literal["failing", "shuffled", "none", "results"] | None = _later(
        "reward",
        None,
        "what a turn is told: of a failed attempt, or what tools found; null: one turn",
    )
    reward_rules: str = _later("reward", "microcoder", "comparison rules of the training reward")
    reward_evaluator: RewardEvaluator = _later(
        "reward",
        "microcoder",
        "what judges training responses; the others are published methods, there to be timed",
    )
    alarm_share: Share = _later(
        "reward",
        0.0,
        "share of training responses that hidden tests and half the limits judge a second time",
    )
    reward_workers: Positive = _execution("reward", 2, "judging processes")
    reward_backend: Literal["local", "ray"] = _execution("reward", "local", "where they run")

    vllm_importance_sampling_correction: bool = _later(
        "correction", True, "of the loss for log-probabilities of vLLM's that are not ours"
    )
    vllm_importance_sampling_mode: Literal[
        "sequence_mask", "sequence_truncate", "token_mask", "token_truncate"
    ] = _later("correction", "token_truncate", "ratio of a token or response, clipped or zeroed")
    vllm_importance_sampling_clip_max: Real | None = _later(
        "correction", 2.0, "upper bound of the ratio"
    )
    vllm_importance_sampling_clip_min: Real | None = _later(
        "correction", None, "lower bound of the ratio"
    )
    sampler_noise: float = _later(
        "correction",
        0.0,
        "sd of noise added to the sampler's log-probabilities, to study the correction",
        ge=0,
    )

    backend: Backend = _setting("backend", "transformers", "what samples training responses")
    vllm_memory: float | None = _execution(
        "backend", None, "share of GPU memory; null takes it by the estimate", gt=0, le=1
    )
    vllm_max_model_length: Positive | None = _execution(
        "backend", None, "prompt and response that the cache is for"
    )
    vllm_sleep: bool = _execution("backend", False, "give memory back in updates")
    vllm_server_url: str | None = _execution("backend", None, "of a vLLM server")
    checkpoint_generations: Positive = _execution(
        "backend", 1, "generations between two checkpoints"
    )

    model_digest: str = _setting("run", "", "hash of the model's files", "digest")
    data_digest: str = _setting("run", "", "hash of both problem sets", "digest")

    @model_validator(mode="after")
    def _fit_together(self) -> Config:
        check_together(self)
        return self

    @classmethod
    def _unknown(cls, name: str) -> UserError:
        return _unknown_setting(name)

    @property
    def run_id(self) -> str:
        """Hash of what the run computes (:mod:`mcbench.runs.canonical`) and its seed, 12
        hexadecimal digits.
        """
        # The digests are there in place of the names that they describe.
        content = {"seed": self.seed, "model": self.model_digest, "data": self.data_digest}
        return digest([json.dumps(plain(canonical.content(self) | content), sort_keys=True)])[:12]

    @property
    def computation(self) -> str:
        """What all seeds of an arm have in common, as text: model and data by name."""
        names = {"names": [self.model, self.train_set, self.test_set]}
        return json.dumps(plain(canonical.content(self) | names), sort_keys=True)

    @property
    def measures_temperature(self) -> bool:
        """Whether a temperature is chosen by what it is measured to do."""
        return any(getattr(self, name) is not None for name in MEASURED)

    def of_parts(self, *parts: str) -> dict[str, Any]:
        """The fields of these parts of the run's id, see :func:`_setting`."""
        return {name: getattr(self, name) for name in SETTINGS if part_of(name) in parts}

    @staticmethod
    def defaults_of(part: str) -> dict[str, Any]:
        """What the fields of a part are where nothing sets them."""
        return {name: one.default for name, one in SETTINGS.items() if part_of(name) == part}

    def algorithm(self) -> dict[str, Any]:
        """The trainer's arguments that are part of the algorithm and not left to it."""
        own = self.of_parts("algorithm")
        return {name: value for name, value in own.items() if value is not None}

    def differences(self) -> dict[str, Any]:
        """The settings in which this differs from its profile and recipe as they come."""
        if self.profile not in PROFILES:
            return {}
        try:
            usual = preset(self.profile, self.recipe)
        except UserError:  # a recipe of another version
            return {}
        own = self.of_parts("scale", "algorithm", "later", "name")
        return {name: value for name, value in own.items() if value != getattr(usual, name)}

    @property
    def longest_response(self) -> int:
        """Tokens, of training and evaluation."""
        staged = [int(length) for _, length in self.length_stages or ()]
        return max(self.max_completion_length, *self.eval_lengths, *staged)

    @property
    def cache_length(self) -> int | None:
        """Tokens of a prompt and its response that the engine's cache is for; None where nothing
        says how long a prompt may be.
        """
        if self.vllm_max_model_length is None and self.max_prompt_length is not None:
            return self.max_prompt_length + self.longest_response
        return self.vllm_max_model_length

    def batch(self, processes: int = 1) -> BatchPlan:
        """The batch plan on so many processes.

        Raises:
            UserError: numbers that do not divide.
        """
        return BatchPlan(
            train_batch_size=self.train_batch_size,
            ppo_mini_batch_size=self.ppo_mini_batch_size,
            num_generations=self.num_generations,
            per_device_batch_size=self.per_device_batch_size,
            processes=processes,
        )

    @property
    def generation_period(self) -> int:
        """Updates from one generation boundary to the next."""
        return self.batch().updates_per_generation * (self.num_iterations or 1)

    def with_settings(self, settings: Mapping[str, Any]) -> Config:
        """The same with other values, checked; digests stay as they are.

        Raises:
            UserError: an unknown name, or a value that is not allowed.
        """
        check_known(settings)
        return Config(**{**self.model_dump(), **settings})

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, without what is left to the trainer; :meth:`from_dict` reads it."""
        own = self.model_dump().items()
        return plain(
            {name: v for name, v in own if v is not None or SETTINGS[name].default is not None}
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            UserError: the data are not a configuration.
        """
        try:
            return cls(**_with_later_settings(data))
        except (TypeError, ValueError, AttributeError, UserError) as error:
            raise UserError(f"not a run configuration: {error}") from error


MEASURED = (
    "temperature_target_diversity",
    "temperature_target_entropy",
    "temperature_restore",
)


def _with_later_settings(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration that was recorded before there was ``earlier``, or the settings ``BEFORE``,
    with what they stand at, and under its recipe's present name: ``grpo`` averaged per response
    then.
    """
    found = {"earlier": True, **data}
    if data.get("token_credit") == "feedback" and "draw_from_set" not in data:
        found["earlier"] = True  # its teacher read padding between an attempt and what was said
    if "kl_estimator" in data:
        return found
    if data.get("beta"):
        found["kl_estimator"] = BEFORE["kl_estimator"]
    if any(data.get(name) is not None for name in MEASURED):
        found.setdefault("temperature_probe_prompts", BEFORE["temperature_probe_prompts"])
    if (data.get("recipe"), data.get("loss_type")) == ("grpo", "grpo"):
        found["recipe"] = "grpo_per_response"
    return found


SETTINGS = Config.model_fields
# The correction as vLLM's runs are known by it; without vLLM only where noise is added.
CORRECTION = tuple(name for name in SETTINGS if name.startswith("vllm_importance_sampling_"))


def part_of(name: str) -> str:
    """What a field is to the run's id, see :func:`_setting`."""
    return SETTINGS[name].json_schema_extra["part"]  # type: ignore[index,return-value]


def family_of(name: str) -> str:
    """The family of a field, such as ``mask``."""
    if name not in SETTINGS:
        raise _unknown_setting(name)
    return SETTINGS[name].json_schema_extra["family"]  # type: ignore[index,return-value]


FAMILIES = (
    "run", "model and data", "length", "batch", "optimisation", "loss", "clip and KL", "mask",
    "temperature", "evaluation", "reward", "correction", "backend",
)  # fmt: skip
CHANGEABLE = sorted(
    (n for n in SETTINGS if part_of(n) != "digest" and n not in ("profile", "seed")),
    key=lambda name: FAMILIES.index(family_of(name)),
)


def settings_of(family: str) -> list[str]:
    """The names of a family's settings."""
    return [name for name in CHANGEABLE if family_of(name) == family]


# Options of TRL's that a person may know, and the settings that are in their place here.
_NAMED_BY_TRL = {
    "use_vllm": "backend=vllm_colocate, or vllm_server with vllm_server_url",
    "vllm_mode": "backend=vllm_colocate, or vllm_server with vllm_server_url",
    "vllm_server_base_url": "vllm_server_url",
    "vllm_gpu_memory_utilization": "vllm_memory",
    "vllm_enable_sleep_mode": "vllm_sleep",
    "use_transformers_continuous_batching": "backend=transformers_continuous",
    "max_steps": "steps",
}


def _unknown_setting(name: str) -> UserError:
    """The error for a setting that does not exist: what is in its place, or what it resembles and
    that one's family.
    """
    if name in _NAMED_BY_TRL:
        return UserError(f"{name!r} is TRL's option and no setting; set {_NAMED_BY_TRL[name]}")
    alike = near(name, CHANGEABLE)
    if not alike:
        return UserError(
            f"unknown setting {name!r}; `mcbench settings` lists them, by family: "
            f"{', '.join(FAMILIES)}"
        )
    family = family_of(alike[0])
    members = ", ".join(settings_of(family))
    return UserError(f"unknown setting {name!r}{meant(alike)}; the {family} settings are {members}")


def check_known(settings: Mapping[str, Any]) -> None:
    """Refuses names that are no settings, with what they resemble."""
    for name in settings:
        if name not in CHANGEABLE:
            raise _unknown_setting(name)


@lru_cache
def preset(profile: str, recipe: str = "microcoder", seed: int = 0) -> Config:
    """A profile and a recipe as they come; no digests yet.

    Raises:
        UserError: an unknown profile or recipe; the message lists the known ones.
    """
    from mcbench.grpo.recipes import recipe as recipe_named

    if profile not in PROFILES:
        raise unknown("profile", profile, PROFILES)
    algorithm = recipe_named(recipe).args()
    # A number of tokens, so it follows the profile's scale and not the recipe.
    algorithm.pop("repeat_window", None)
    scale = PROFILES[profile]
    return Config(**scale, **algorithm, profile=profile, recipe=recipe, seed=seed)
