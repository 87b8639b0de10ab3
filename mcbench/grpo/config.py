"""TRL's ``GRPOConfig`` with the options of MicroCoder-GRPO, and what is refused of both."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trl import GRPOConfig

from mcbench.errors import UserError, unknown
from mcbench.grpo.batch_plan import posing_groups
from mcbench.grpo.correction import MODES
from mcbench.grpo.options import ABOUT, CLIPPED_LOSSES, DEFAULTS, About, Options
from mcbench.grpo.temperature import check_grid, check_stages, parse_stages, stage_value

_COUNTS = (
    "num_iterations", "num_generations_eval", "max_completion_length", "steps_per_generation",
    "ref_model_sync_steps",
)  # fmt: skip
_FROM_0 = (
    "epsilon", "epsilon_high", "beta", "off_policy_mask_threshold", "vespo_k_neg", "vespo_k_pos",
    "vespo_lambda_neg", "vespo_lambda_pos", "max_tool_calling_iterations",
)  # fmt: skip
_ABOVE_0 = ("delta", "repetition_penalty", "sapo_temperature_neg", "sapo_temperature_pos")
# Allowed names and ranges of TRL 1.16's own, which finds a wrong one only in the middle of the
# first update.
_CHECKED = {
    **ABOUT,
    "loss_type": About(
        among=("bnpo", "cispo", "dapo", "dr_grpo", "grpo", "luspo", "sapo", "vespo")
    ),
    "scale_rewards": About(among=("batch", "group", "none")),
    "multi_objective_aggregation": About(among=("normalize_then_sum", "sum_then_normalize")),
    "importance_sampling_level": About(among=("sequence", "token")),
    "vllm_importance_sampling_mode": About(among=MODES),
    "temperature": About(above=0, high=sys.float_info.max),  # not infinity
    "top_k": About(low=-1),
    **dict.fromkeys(("top_p", "min_p", "top_entropy_quantile"), About(low=0, high=1)),
    **dict.fromkeys(_FROM_0, About(low=0)),
    **dict.fromkeys(_ABOVE_0, About(above=0)),
    **dict.fromkeys(_COUNTS, About(low=1)),
    "entropy_coef": About(),
}
_NUMBERS = (
    *(name for name, about in _CHECKED.items() if about.is_number),
    *("correct_threshold", "incorrect_threshold", "entropy_coef"),
)
_WHOLE = {
    *("top_k", "max_tool_calling_iterations", *_COUNTS),
    *(name for name, value in DEFAULTS.items() if type(value) is int),
}
MEASURED_TEMPERATURES = (
    "temperature_target_diversity", "temperature_target_entropy", "temperature_restore",
)  # fmt: skip
CRITICISED = ("critic", "blame")
OWN_CREDIT = (*CRITICISED, "feedback")


def _points(stages: list[Any] | str | None) -> list[list[Any]]:
    assert not isinstance(stages, str)  # __post_init__ has parsed the text
    return stages or []


def _is_finite(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_rising_steps(steps: Any) -> bool:
    if not isinstance(steps, (list, tuple)) or not all(_is_whole(one, 1) for one in steps):
        return False
    return len(steps) > 0 and list(steps) == sorted(steps)


@dataclass
class MicroCoderGRPOConfig(Options, GRPOConfig):
    """``GRPOConfig`` with the MicroCoder options; with all of them off the trainer equals TRL's.

    Wrong values raise ``UserError``. Stages are given as ``[(start step, value), ...]`` or as text,
    ``"0:0.6,140:1.2"``, and are stored as lists of ``[start, value]``. A stage that starts at step
    0 replaces ``temperature`` (or ``max_completion_length``).
    """

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_mask()
        for name in ("temperature_stages", "length_stages"):
            if (given := getattr(self, name)) is not None:
                setattr(self, name, parse_stages(given, name))
        if self.truncation_mask == "all":
            self.mask_truncated_completions = True
        super().__post_init__()
        if self.sample_unfinished and (self.use_vllm or self.use_transformers_continuous_batching):
            raise UserError(
                "sample_unfinished is for generate of transformers; set it to False with vLLM and "
                "with continuous batching, which drop what has ended themselves"
            )
        self._check_names()
        self._check_clip_and_kl()
        self._check_temperature()
        self._check_stages()
        self._check_generation_kwargs()
        self._check_limit()
        self._check_rivals()
        self._check_credit()
        self._check_self_play()
        self._check_columns()

    @property
    def passes_per_generation(self) -> int:
        """Forward-backward passes that one generated batch serves."""
        assert self.steps_per_generation is not None  # set by GRPOConfig
        return self.steps_per_generation * self.num_iterations

    @property
    def generation_period(self) -> int:
        """Updates between two steps that begin with a new generation: 1 if every update does."""
        every = self.passes_per_generation
        return every // math.gcd(every, self.gradient_accumulation_steps)

    @property
    def temperature_points(self) -> list[list[Any]]:
        """``[[start step, temperature], ...]``; empty without stages."""
        return _points(self.temperature_stages)

    @property
    def length_points(self) -> list[list[Any]]:
        """``[[start step, tokens], ...]``; empty without stages."""
        return _points(self.length_stages)

    def length_at(self, step: int) -> int | None:
        """L_max of a batch that is generated at this step."""
        length = stage_value(self.length_points, step)
        return self.max_completion_length if length is None else int(length)

    def response_limit(self, tools: bool = False) -> int | None:
        """Tokens that a response may have: L_max, unless ``generation_kwargs`` says otherwise; with
        ``tools`` the lower of the two. None without a limit.
        """
        name = "max_tokens" if self.use_vllm else "max_new_tokens"
        settings: Any = self.generation_kwargs or {}
        given = settings.get(name, self.max_completion_length)
        limits = [given, self.max_completion_length] if tools else [given]
        return min((int(limit) for limit in limits if limit is not None), default=None)

    def _check_limit(self) -> None:
        """Refuses ``max_completion_length=None`` where something needs a limit."""
        unlimited, unset = self.response_limit() is None, self.max_completion_length is None
        needing = {
            "truncation_mask='conditional'": unlimited and self.truncation_mask == "conditional",
            "soft_overlong": unlimited and bool(self.soft_overlong),
            "loss_type='dr_grpo'": unset and self.loss_type == "dr_grpo",
            "length_stages": unset and self.length_stages is not None,
        }
        for option in (name for name, needs in needing.items() if needs):
            raise UserError(
                f"{option} needs the limit of a response; set max_completion_length, which is None"
            )

    def _check_numbers(self) -> None:
        for name in _NUMBERS:
            value, about = getattr(self, name), _CHECKED[name]
            kinds = (int,) if name in _WHOLE else (int, float)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                wanted = "a whole number" if name in _WHOLE else "a number"
                raise UserError(f"{name} must be {wanted}, got {value!r}")
            if value is not None and not about.holds(value):
                raise UserError(f"{name} must be {about.range}, got {value}")
        weights = [] if self.reward_weights is None else self.reward_weights
        if not isinstance(weights, (list, tuple)) or not all(map(_is_finite, weights)):
            raise UserError(f"reward_weights must be a list of numbers, got {weights!r}")
        if not isinstance(self.record_columns, (list, tuple)):
            raise UserError(f"record_columns must be a list of names, got {self.record_columns!r}")

    def _check_mask(self) -> None:
        if not self.incorrect_threshold < self.correct_threshold:  # nor is that so of NaN
            raise UserError(
                f"incorrect_threshold ({self.incorrect_threshold}) must be below correct_threshold "
                f"({self.correct_threshold})"
            )
        if self.truncation_mask == "conditional" and self.mask_truncated_completions:
            raise UserError(
                "truncation_mask='conditional' and mask_truncated_completions=True are two "
                "different methods; choose truncation_mask='conditional' or truncation_mask='all'"
            )

    def _check_names(self) -> None:
        for name, about in _CHECKED.items():
            if about.among and getattr(self, name) not in about.among:
                raise unknown(name, getattr(self, name), about.among)

    def _check_temperature(self) -> None:
        self.temperature = float(self.temperature)  # generate refuses a whole number
        check_grid(self.temperature_grid)
        diversity = self.temperature_target_diversity
        if diversity is not None and not 0 < diversity <= 1:
            raise UserError(
                f"temperature_target_diversity is a share of unique 4-grams in (0, 1], got "
                f"{diversity}"
            )
        ways = ("temperature_stages", *MEASURED_TEMPERATURES)
        several = [name for name in ways if getattr(self, name) is not None]
        if len(several) > 1:
            raise UserError(f"{' and '.join(several)} both set the temperature; give one")
        if several in ([], ["temperature_stages"]):
            return
        steps = self.temperature_restore
        if steps is not None and not _are_rising_steps(steps):
            raise UserError(
                f"temperature_restore is a list of rising steps above 0, such as [40, 80], got "
                f"{steps!r}"
            )
        if self.temperature_probe_prompts < 1 or self.temperature_probe_prompts % self.world_size:
            raise UserError(
                f"temperature_probe_prompts must be a positive multiple of the {self.world_size} "
                f"process(es), got {self.temperature_probe_prompts}"
            )

    def _check_clip_and_kl(self) -> None:
        if self.clip_ratio_c is None:
            return
        high = 1 + (self.epsilon if self.epsilon_high is None else self.epsilon_high)
        if self.loss_type not in CLIPPED_LOSSES:
            raise UserError(
                f"clip_ratio_c bounds the losses {', '.join(CLIPPED_LOSSES)}, and loss_type is "
                f"{self.loss_type!r}"
            )
        if self.clip_ratio_c <= high:
            raise UserError(
                f"clip_ratio_c must be above the upper clip, {high:g}, got {self.clip_ratio_c:g}; "
                "verl has 3"
            )
        if self.delta not in (None, self.clip_ratio_c):
            raise UserError(
                f"clip_ratio_c={self.clip_ratio_c:g} and delta={self.delta:g} are one setting "
                "under verl's name and TRL's; give one"
            )
        self.delta = self.clip_ratio_c

    def _check_rivals(self) -> None:
        if self.advantage_rule == "pass_at_k" and self.pass_k > (self.num_generations or 1):
            raise UserError(f"pass_k is at most num_generations, {self.num_generations}")
        if self.token_rule != "none":
            ratios = self.loss_type, self.importance_sampling_level
            if ratios[0] not in CLIPPED_LOSSES or ratios[1] != "token" or self.sampler_noise:
                raise UserError(
                    f"token_rule={self.token_rule!r} needs one of the losses "
                    f"{', '.join(CLIPPED_LOSSES)}, importance_sampling_level='token' and no "
                    "sampler_noise"
                )
        if self.token_rule == "kl_cov" and (self.epsilon < 1 or (self.epsilon_high or 0) < 10):
            raise UserError(
                "token_rule='kl_cov' has a KL penalty in the place of the clip: set epsilon=1 and "
                "epsilon_high=1000, which clip nothing"
            )
        if self.soft_overlong and self.length_stages is not None:
            raise UserError("soft_overlong is for one limit; leave out length_stages")
        without_it = {
            "advantage_rule='pass_at_k', which counts right answers": self.advantage_rule,
            "token_credit='feedback', which reads no reward": self.token_credit,
        }
        for option, value in without_it.items():
            if self.soft_overlong and repr(value) in option:
                raise UserError(f"soft_overlong is a reward without an effect beside {option}")
        if self.soft_overlong_weight != 1 and not self.soft_overlong:
            raise UserError("soft_overlong_weight weighs soft_overlong, which is off; set both")

    def _check_credit(self) -> None:
        for name in ("drop_above", "substitute_flat", "temperature_restore", "self_play"):
            if getattr(self, name) != DEFAULTS[name] and self.world_size > 1:
                raise UserError(f"{name} is for one process, which sees whole groups")
        if self.kl_target is not None and not self.beta:
            raise UserError("kl_target adapts beta, which must be above 0 at the start")
        if self.token_credit != "none" and (
            self.world_size > 1
            or self.token_rule != "none"
            or self.substitute_flat is not None
            or self.sampler_noise
            or self.loss_type not in CLIPPED_LOSSES
        ):
            raise UserError(
                "token_credit is for one process and one of the losses "
                f"{', '.join(CLIPPED_LOSSES)}, without token_rule, substitute_flat and "
                "sampler_noise"
            )
        self._check_own_advantages()
        if self.staleness_mixed and self.staleness < 1:
            raise UserError("staleness_mixed draws from 0 to staleness, which is not above 0")
        if self.staleness and self.dynamic_sampling:
            raise UserError("staleness does not go with dynamic_sampling, which samples anew")
        if self.substitute_flat == 1:
            raise UserError(
                "substitute_flat=1 skips every step, as never more than all groups are good; the "
                "share must be below 1"
            )
        if self.substitute_flat is not None and (self.beta or self.truncation_mask != "none"):
            raise UserError("substitute_flat goes without KL term (beta=0) and truncation_mask")

    def _check_own_advantages(self) -> None:
        have = {
            f"advantage_rule={self.advantage_rule!r}": self.advantage_rule != "group",
            f"token_credit={self.token_credit!r}": self.token_credit in OWN_CREDIT,
            "kl_target": self.kl_target is not None,
        }
        own = [option for option, has in have.items() if has]
        if len(own) > 1:
            raise UserError(f"{own[0]} has advantages of its own, which {own[1]} is no part of")
        # The others give tokens an advantage whatever that of their response is.
        if own and self.advantage_rule == "group" and self.truncation_mask == "conditional":
            raise UserError(
                f"{own[0]} would undo the conditional mask; set truncation_mask='none' (recipe "
                "grpo_plus)"
            )
        of_trl = {"scale_rewards": "group", "multi_objective_aggregation": "sum_then_normalize"}
        for name, only in of_trl.items():
            if own and getattr(self, name) != only:
                raise UserError(
                    f"{own[0]} has advantages of its own, which {name} does not change; leave "
                    f"{name} at {only!r}, got {getattr(self, name)!r}"
                )
        if self.imitate != "none" and (self.world_size > 1 or self.use_liger_kernel):
            raise UserError("imitate is for one process, without the Liger kernel")

    def _check_self_play(self) -> None:
        if self.self_play == "none":
            return
        others = ("dynamic_sampling", "drop_above", "substitute_flat", "staleness")
        for name in others:
            if getattr(self, name) not in (None, 0):
                raise UserError(f"self_play makes batches of its own: no {name}")
        if self.use_vllm and self.vllm_mode == "server":
            raise UserError(
                "self_play asks every prompt once, and a vLLM server answers each G times; use "
                "vllm_mode='colocate' or no vLLM"
            )
        size = self.num_generations or 1
        posing_groups((self.generation_batch_size or 0) // size, size)

    def _check_columns(self) -> None:
        needed = {
            "drop_above": self.drop_above is not None,
            "dynamic_sampling": bool(self.dynamic_sampling),
            "self_play": self.self_play != "none",
            "imitate='reference'": self.imitate == "reference",
            "record_columns": set(self.record_columns) != set(DEFAULTS["record_columns"]),
        }
        for name in (name for name, reads in needed.items() if reads):
            if self.remove_unused_columns:
                raise UserError(
                    f"{name} reads whole rows of the training set; set remove_unused_columns=False"
                )

    def _check_stages(self) -> None:
        passes, every = self.gradient_accumulation_steps, self.passes_per_generation
        # Where neither divides the other, the length of an epoch decides too: the trainer checks.
        period = self.generation_period if not (passes % every and every % passes) else 1
        for name, points in (
            ("temperature_stages", self.temperature_points),
            ("length_stages", self.length_points),
        ):
            if getattr(self, name) is not None:
                check_stages(points, name, period)
        if any(value != int(value) for _, value in self.length_points):
            raise UserError(f"length_stages counts whole tokens, got {self.length_points}")
        self.temperature = stage_value(self.temperature_points, 0) or self.temperature
        if self.length_stages is not None:
            self.length_stages = [[start, int(value)] for start, value in self.length_points]
            self.max_completion_length = self.length_at(0)

    def _check_generation_kwargs(self) -> None:
        for name in ("chat_template_kwargs", "generation_kwargs"):  # TRL has parsed JSON
            if not isinstance(getattr(self, name) or {}, Mapping):
                raise UserError(f"{name} must be a dictionary, got {getattr(self, name)!r}")
        generation_kwargs: Any = self.generation_kwargs or {}
        self._check_sampling(generation_kwargs)
        for key in ("num_return_sequences", "n"):
            if generation_kwargs.get(key) not in (None, 1):
                raise UserError(
                    f"generation_kwargs sets {key!r}; the responses to a prompt are num_generations"
                )
        if self.top_k == -1 and not self.use_vllm:
            raise UserError("top_k=-1 is vLLM's way to say all tokens; transformers' is 0")
        if self.sample_unfinished and generation_kwargs.get("num_beams") not in (None, 1):
            raise UserError("sample_unfinished has no beams: drop num_beams of generation_kwargs")
        controlled = {
            # The log-probabilities of sample_unfinished are of its temperature.
            "temperature": ("temperature_stages", *MEASURED_TEMPERATURES, "sample_unfinished"),
            "max_new_tokens": ("length_stages",),
            "max_tokens": ("length_stages",),
        }
        for key, options in controlled.items():
            for option in options:
                if key in generation_kwargs and getattr(self, option) not in (None, False):
                    raise UserError(
                        f"generation_kwargs sets {key!r}, which {option} must control; drop one"
                    )

    def _check_sampling(self, generation_kwargs: Mapping[str, Any]) -> None:
        """Refuses values that ``generate`` would end on in the middle of the first update."""
        temperature = generation_kwargs.get("temperature", self.temperature)
        if not _is_finite(temperature) or temperature <= 0:
            raise UserError(
                f"temperature of generation_kwargs must be greater than 0, got {temperature!r}"
            )
        if "temperature" in generation_kwargs:  # generate refuses a whole number
            self.generation_kwargs = {**generation_kwargs, "temperature": float(temperature)}
        for name in ("max_new_tokens", "max_tokens"):
            if name in generation_kwargs and not _is_whole(generation_kwargs[name], 1):
                raise UserError(
                    f"{name} of generation_kwargs must be a whole number of at least 1, got "
                    f"{generation_kwargs[name]!r}"
                )
        for name in ("eos_token_id", "stop_token_ids"):
            ids = generation_kwargs.get(name)
            listed = ids if isinstance(ids, (list, tuple)) else [ids]
            if ids is not None and not all(_is_whole(one, 0) for one in listed):
                raise UserError(
                    f"{name} of generation_kwargs must be the number of a token, or a list of "
                    f"them, got {ids!r}"
                )
