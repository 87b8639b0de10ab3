"""The second judgement behind the hacking alarm: does what was rewarded hold under more and harder
tests?
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcbench.evaluator.evaluator import Evaluator
from mcbench.evaluator.reward import CodeReward, LogExtra, json_value

STRICTER = 0.5
"""Part of the time and memory limits that the second judgement allows."""


class AuditedCodeReward(CodeReward):
    """`CodeReward` that judges a share of the responses a second time; rewards stay as they are.

    Which responses is drawn anew for each batch, from ``seed``, step and nothing else. A drawn
    response that was rewarded is run by ``second`` on the tests of column ``tests`` and those of
    column ``hidden_tests`` (a JSON list of the same form, which the reward never sees) within
    `STRICTER` of the limits; one that was not would fail again. Logged are, over what was drawn,
    ``alarm/judged`` (how many), ``alarm/reward`` (mean), ``alarm/second`` (mean of the second
    judgement) and ``alarm/gap``, the difference; the column ``second`` holds the verdicts.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        second: Evaluator,
        share: float,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(evaluator, **options)
        self.second = second
        self.share = share
        self.seed = seed

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        log_extra: LogExtra | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        trainer_state: Any = None,
        **columns: Any,
    ) -> Any:
        """Score the completions; see `CodeReward`."""
        rewards = super().__call__(prompts, completions, log_extra=log_extra, **columns)
        step = getattr(trainer_state, "global_step", 0)
        draw = random.Random(f"alarm-{self.seed}-{step}")
        drawn = [place for place in range(len(rewards)) if draw.random() < self.share]
        rewarded = [place for place in drawn if rewards[place] == 1]
        verdicts = self._judged_again(rewarded, completions, columns)
        if log_extra is not None:
            log_extra("second", [verdicts.get(place, "") for place in range(len(rewards))])
        scored = [p for p in drawn if rewards[p] is not None and "IE" not in verdicts.get(p, "")]
        if log_metric is not None and scored:
            first = sum(rewards[place] for place in scored) / len(scored)
            passed = sum(set(verdicts.get(p, "none").split(",")) == {"AC"} for p in scored)
            values = len(scored), first, passed / len(scored), first - passed / len(scored)
            for name, value in zip(("judged", "reward", "second", "gap"), values, strict=True):
                log_metric(f"alarm/{name}", value)
        return rewards

    def _judged_again(
        self, places: Sequence[int], completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> dict[int, str]:
        """Verdicts by place."""
        hidden = columns.get("hidden_tests") or ["[]"] * len(completions)
        tests = list(columns["tests"])
        for place in places:
            tests[place] = [*_listed(tests[place]), *_listed(hidden[place])]
        found = self._programs(completions, {**columns, "tests": tests})
        harder = [
            replace(
                found[place],
                time_limit_s=STRICTER * found[place].time_limit_s,
                memory_limit_mb=STRICTER * found[place].memory_limit_mb,
            )
            for place in places
        ]
        results = self.second.evaluate(harder, early_exit=self.early_exit)
        return {place: ",".join(r.verdicts) for place, r in zip(places, results, strict=True)}


def _listed(tests: Any) -> list[Any]:
    """The tests of a row, which may be JSON."""
    return list(json_value(tests) if isinstance(tests, str) else tests)
