"""Writes a run's record while it trains: steps, responses, evaluations, checkpoints, progress."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from accelerate import PartialState
from transformers import TrainerCallback

from mcbench.files import read_lines
from mcbench.runs.alarm import exploded, warning
from mcbench.runs.config import Config
from mcbench.runs.distributions import distributions
from mcbench.runs.say import Say, clock
from mcbench.runs.store import Run


@dataclass
class Recorder(TrainerCallback):
    """Callback of the trainer; only the main process writes.

    ``evaluate`` measures the current model at a step, on all problems or (True) on a part, and
    appends the evaluation lines; every process calls it.
    """

    run: Run
    config: Config
    label: str
    is_main: bool
    say: Say
    evaluate: Callable[[int, bool], None]
    elapsed_before: float = 0.0
    first_step: int = 0
    evaluate_first: bool = False
    correct_threshold: float = 1.0
    token_text: Callable[[int], str] | None = None
    log_ratios: Callable[[], list[Any] | None] | None = None  # every process calls it
    measured: str = ""  # pass@1 for the next progress line
    latest: dict[str, Any] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)
    _evaluating: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    _step_began: float = 0.0
    _batch_ready: float = 0.0
    _times: dict[str, float] = field(default_factory=dict)
    _gaps: list[float | None] = field(default_factory=list)
    _exploded: bool = False  # which was said
    _generated: dict[str, Any] = field(default_factory=dict)  # for the line of the step it began
    _began: int = 0  # the step that uses the stored responses first

    @property
    def elapsed_s(self) -> float:
        """Seconds spent; a resumed run counts on from the last line that it kept."""
        return self.elapsed_before + time.monotonic() - self._started

    def _due(self, step: int) -> bool | None:
        """Whether the evaluation after a step is of a part; None where there is none. All problems
        have their turn every ``eval_every`` updates and at the end, a part in between.
        """
        small = self.config.small_eval_every
        if step % self.config.eval_every == 0 or step == self.config.steps:
            return False
        return True if small is not None and step % small == 0 else None

    def _evaluate(self, step: int, part: bool) -> None:
        began = time.monotonic()
        self.evaluate(step, part)
        self._evaluating[part].append(time.monotonic() - began)

    def _seconds_left(self, step: int) -> float:
        """What the updates and evaluations to come take, if each takes as long as those so far. The
        longest evaluation counts: the base model's is often known already and takes no time.
        """
        spent = time.monotonic() - self._started - sum(map(sum, self._evaluating.values()))
        left = spent / max(1, step - self.first_step) * (self.config.steps - step)
        due = [self._due(later) for later in range(step + 1, self.config.steps + 1)]
        longest = {part: max(took, default=0.0) for part, took in self._evaluating.items()}
        return left + sum(due.count(part) * seconds for part, seconds in longest.items())

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The model before training; earlier than here it is on no device and not divided yet."""
        if self.evaluate_first:
            self._evaluate(0, False)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step_began = self._batch_ready = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.config.steps:
            control.should_save = False  # nothing resumes from the end: the model alone is kept
        if state.global_step % self.config.generation_period == 0:
            self._add_ratios()
        now = time.perf_counter()
        self._times = {
            "time/step_s": now - self._step_began,
            "time/update_s": now - self._batch_ready,
        }

    def _add_ratios(self) -> None:
        """How far the policy had moved on each token of the generation that ends here."""
        found = self.log_ratios() if self.log_ratios else None
        if found is not None and self.is_main:
            values = [row.astype("float16") for row in found]
            self.run.add_to_completions(self._began, "log_ratios", values)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if not logs or "loss" not in logs:
            return  # TRL's summary at the end of training
        step = state.global_step
        self.latest.update(logs)  # what a generation logs is absent from its later updates
        if self.is_main:
            values = {key: value for key, value in logs.items() if key != "epoch"}
            now = {"step": step, "time": time.time(), "elapsed_s": self.elapsed_s}
            self.run.append_step({**now, **values, **self._generated, **self._times})
            self._generated = {}
        if (part := self._due(step)) is not None:
            self._evaluate(step, part)
        every = self.config.generation_period
        if self.is_main and (step % every == 0 or step == self.config.steps):
            self.report(step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # After the step's record and evaluation: what a checkpoint covers is on disk before it. And
        # after every process has written its part.
        PartialState().wait_for_everyone()
        if self.is_main:
            self.run.complete_checkpoint(state.global_step)

    def on_generation(self, batch: Any) -> None:
        """Store the responses of a generation under the update that uses them first, and how they
        are distributed in that update's line.
        """
        self._generated = distributions(
            batch.lengths,
            batch.rewards,
            batch.advantages,
            batch.max_completion_length,
            self.correct_threshold,
        )
        count = len(batch.completions)
        columns, self._began = batch.columns, batch.step + 1
        self.run.write_completions(
            self._began,
            {
                "prompt": [_text(prompt) for prompt in batch.prompts],
                "completion": list(batch.completions),
                "tokens": [list(map(int, ids)) for ids in batch.completion_ids],
                "length": batch.lengths.tolist(),
                "truncated": batch.truncated.tolist(),
                "masked": batch.masked.tolist(),
                "reward": batch.rewards.tolist(),
                "advantage": batch.advantages.tolist(),
                "verdicts": columns.get("verdicts", [None] * count),
                "problem_id": columns.get("problem_id", [None] * count),
                "group": batch.group.tolist(),
                **{name: columns[name] for name in ("second", "turns") if name in columns},
                **({} if batch.weights is None else {"weight": batch.weights.tolist()}),
                **self._token_columns(batch),
            },
        )
        self._batch_ready = time.perf_counter()

    def _token_columns(self, batch: Any) -> dict[str, list[Any]]:
        """Each token's log-probability, entropy and text, where the log-probabilities are known."""
        if batch.log_probs is None or self.token_text is None:
            return {}
        known = {int(token) for ids in batch.completion_ids for token in ids}
        text = {token: self.token_text(token) for token in known}
        sampled = {"logprobs": batch.log_probs, "entropies": batch.entropies}
        return {
            **{
                name: [values.astype("float16") for values in rows]
                for name, rows in sampled.items()
                if rows is not None
            },
            "pieces": [[text[int(token)] for token in ids] for ids in batch.completion_ids],
        }

    def report(self, step: int) -> None:
        """One progress line, after the alarms."""
        logs = self.latest
        accuracy, self.measured = self.measured, ""
        self._gaps.append(logs.get("alarm/gap"))
        if (alarm := warning(self._gaps)) and not warning(self._gaps[:-1]):
            self.say(f"[{self.label}] {alarm}")
        self._say_exploded(at_end=step == self.config.steps)
        self.say(
            f"[{self.label}] step {step}/{self.config.steps}  reward {_number(logs.get('reward'))}"
            f"{accuracy}  length {logs.get('completions/mean_length', float('nan')):.0f}"
            f"  {clock(self.elapsed_s)} so far, {clock(self._seconds_left(step))} left"
        )

    def _say_exploded(self, at_end: bool) -> None:
        """When a term of the loss has exploded for the first time, and in how many updates it had
        at the end. What a resumed run recorded before counts too, and is said again.
        """
        if self._exploded and not at_end:
            return
        if told := exploded(pd.DataFrame(read_lines(self.run.path / "steps.jsonl"))):
            self._exploded = True
            self.say(f"[{self.label}] {told}")


def _number(value: Any) -> str:
    return "none" if value is None else f"{value:.3f}"


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else json.dumps(prompt)
