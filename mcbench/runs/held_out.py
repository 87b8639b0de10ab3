"""What a model that trains makes of held-out problems; the base model's are measured once for all
runs that start from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list

from mcbench.data.schema import Problem
from mcbench.files import digest, plain, read_json, write_json
from mcbench.runs.config import Config
from mcbench.runs.evaluate import Asked, Verdicts, evaluate, sample, select_problems
from mcbench.runs.problems import problems_digest
from mcbench.runs.provenance import evaluation_code, sharding_here
from mcbench.runs.sampling import trained_policy
from mcbench.runs.scores import EvalResult
from mcbench.worlds.multi_turn import Environment

# What an evaluation of the base model depends on, beside code and problems.
_DECIDING = (
    "model_digest", "enable_thinking", "eval_lengths", "eval_attempts", "eval_temperature",
    "eval_other_temperatures", "eval_batch_size", "prompt_style", "precision", "feedback",
    "stop_at_fence", "backend", "seed",
)  # fmt: skip


@dataclass
class HeldOut:
    """The held-out problems of a run, and the part of them that small evaluations measure.

    ``cache`` is the folder of base models' evaluations; ``environment`` makes what episodes are
    played in, None where a response is one turn. Every process measures, the main one has results.
    """

    config: Config
    problems: tuple[Problem, ...]
    tokenizer: Any
    cache: Path
    is_main: bool
    environment: Callable[[Any], Environment] | None
    evaluator: Any = None
    _verdicts: Verdicts = field(default_factory=dict)  # problems are met again in every evaluation

    def __post_init__(self) -> None:
        few = self.config.small_eval_limit if self.config.small_eval_every else 0
        self.part = select_problems(self.problems, few)
        self._digests = {len(one): problems_digest(one) for one in (self.part, self.problems)}

    def results(self, trainer: Any, step: int, small: bool) -> list[EvalResult]:
        """One result per temperature and length, and of an evaluation of all problems one more per
        length of the part that small ones measure, so that these are a curve of their own.
        """
        if step:
            return self._measured(trainer, step, small)
        path = self.cache / f"{self._base_key()}.json"
        found = _read(path) if self.is_main else None
        if broadcast_object_list([found is not None])[0]:  # for all, as one saw it
            return found or []
        measured = self._measured(trainer, step, small)
        if self.is_main:
            path.parent.mkdir(exist_ok=True)
            write_json(path, [result.to_dict() for result in measured])
        return measured

    def about(self, result: EvalResult, step: int) -> dict[str, Any]:
        """What a record says of a result beside its numbers."""
        return {
            "step": step,
            "dataset": self.config.test_set,
            "dataset_hash": self._digests[len(result.per_problem)],
            "seed": self._seed(step),
        }

    def _seed(self, step: int) -> int:
        """Of the responses of an evaluation: its own, so that those of a window average it out."""
        return self.config.seed + step

    def _measured(self, trainer: Any, step: int, small: bool) -> list[EvalResult]:
        others = () if small else self.config.eval_other_temperatures
        temperatures = (self.config.eval_temperature, *others)
        return [one for t in temperatures for one in self._measure(trainer, t, step, small)]

    def _measure(
        self, trainer: Any, temperature: float, step: int, small: bool
    ) -> list[EvalResult]:
        """The results, in the main process; the others help it where they must. What samples the
        training responses samples these too.
        """
        config = self.config
        if not (self.is_main or config.backend != "transformers" or sharding_here() == "fsdp2"):
            return []
        problems = self.part if small else self.problems
        settings: dict[str, Any] = {
            "lengths": config.eval_lengths,
            "attempts": config.eval_attempts,
            "temperature": temperature,
            "seed": self._seed(step),
            "prompt_style": config.prompt_style,
        }
        with trained_policy(trainer, config, self.tokenizer) as policy:
            if not self.is_main:
                sample(policy, problems, Asked(**settings))  # a share of the prompts or weights
                return []
            divided = not small and temperature == config.eval_temperature
            fewer = 0 < len(self.part) < len(problems)
            some = {one.id for one in self.part} if divided and fewer else None
            return evaluate(
                policy, problems, evaluator=self.evaluator, known=self._verdicts, some=some,
                environment=self.environment, **settings,
            )  # fmt: skip

    def _base_key(self) -> str:
        deciding = [getattr(self.config, name) for name in _DECIDING]
        problems = self._digests[len(self.problems)], len(self.part)
        return digest([evaluation_code(), json.dumps(plain([deciding, problems]))])


def _read(path: Path) -> list[EvalResult] | None:
    """What an evaluation left; None where there is none, or it is damaged."""
    try:
        rows = read_json(path)
        found = [EvalResult(**{**row, "per_problem": tuple(row["per_problem"])}) for row in rows]
    except (TypeError, KeyError):
        return None
    return found or None
