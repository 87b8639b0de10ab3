"""Training one run: from a resolved configuration to a complete record.

The same call starts a run, resumes an interrupted one from its last checkpoint, and returns a
finished one at once. Two properties make a resumed run equal an uninterrupted one: the prompts of
the whole run are laid out beforehand (one pass over one dataset, so that skipping is exact), and
evaluation leaves model mode and random state as they were.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

from mcbench import grpo
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import AuditedCodeReward, CodeReward, Evaluator
from mcbench.files import read_lines
from mcbench.grpo.temperature import Choice
from mcbench.runs.arguments import lora, trainer_arguments
from mcbench.runs.canonical import check_trainable
from mcbench.runs.config import Config
from mcbench.runs.evaluate import select_problems
from mcbench.runs.held_out import HeldOut
from mcbench.runs.judge import check_judge, reward_evaluator
from mcbench.runs.problems import load_problems, prompt_for, training_row
from mcbench.runs.provenance import (
    commit,
    hardware,
    processes_here,
    sharding_here,
    versions,
)
from mcbench.runs.recorder import Recorder
from mcbench.runs.rollout import training_rollout
from mcbench.runs.sampling import load_model, prompt_ids
from mcbench.runs.say import Say, clock, say
from mcbench.runs.schedule import training_prompts
from mcbench.runs.store import INTERRUPTED, Run, RunStore
from mcbench.runs.trackers import check_trackers, reporting
from mcbench.runs.trend import as_chosen, choice_of, stretches
from mcbench.worlds import TASKS, TESTS, TaskReward, task_of
from mcbench.worlds.multi_turn import Environment, episode_reward


def train(
    config: Config,
    store: RunStore | str | Path = "runs",
    progress: Say = say,
    label: str | None = None,
) -> Run:
    """Train the run of ``config`` to its end, or return it when it is finished.

    Args:
        store: the run store, or its folder.
        progress: receives one line of text at a time.
        label: how progress lines name the run; recipe and seed where None.

    Raises:
        UserError: the configuration, model or data are wrong (nothing is written), or another
            process trains this run.
    """
    progress = progress if _is_main() else _silent
    label = label or f"{config.recipe} seed {config.seed}"
    store = store if isinstance(store, RunStore) else RunStore(store)
    run = store.run(config)
    if run.state == "finished":
        progress(f"[{label}] finished before: reusing {run.path}")
        return run
    check_judge(config)
    _check_resume(run)
    trained, choice = config, None
    if config.temperature_reading == "trend":
        for t, stretch in stretches(config).items():
            train(stretch, store, progress, f"{label}, a stretch at T = {t:g}")
        choice = choice_of(config, store)
        trained = as_chosen(config, choice)
    arguments = trainer_arguments(trained, run.checkpoints)
    if arguments.use_vllm and find_spec("vllm") is None:
        raise UserError(
            f"backend {config.backend!r} needs vLLM, which is not installed; run "
            "pip install -e '.[gpu]', or use --set backend=transformers"
        )
    check_trackers(config.report_to)
    model, tokenizer = load_model(config.model)
    session = _Session(config, store, run, arguments, model, tokenizer, progress, label, choice)
    session.train()
    return run


def _check_resume(run: Run) -> None:
    """Refuse a checkpoint whose optimizer state is divided in another way than ours would be."""
    before = run.meta.get("processes", {}).get("sharding", "none")
    if run.last_checkpoint() is not None and before != sharding_here():
        asked = {"none": "without --launch, or with --launch ddp", "fsdp2": "with --launch fsdp2"}
        raise UserError(
            f"{run.path} was begun {asked.get(before, f'with --launch {before}')}, and its "
            "checkpoint can only be resumed in that way"
        )


@cache
def _know_numbered_processors() -> None:
    """Let torch restore an optimizer's state to "cpu:0".

    That is what accelerate calls the processor where several processes share it; torch only knows
    "cpu".
    """

    def restore(storage: Any, location: str) -> Any:
        return storage if location.startswith("cpu:") else None

    torch.serialization.register_package(0, lambda storage: None, restore)


def _is_main() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _silent(line: str) -> None:
    """The progress of a process that is not the main one."""


@dataclass
class _Session:
    """What the parts of one training share."""

    config: Config
    store: RunStore
    run: Run
    arguments: Any
    model: Any
    tokenizer: Any
    progress: Say
    label: str
    choice: Choice | None = None  # T(D) by trend

    def __post_init__(self) -> None:
        config = self.config
        self.is_main = _is_main()
        self.train_problems = select_problems(
            self._short_enough(config.train_set), config.train_limit
        )
        self.test_problems = select_problems(self._short_enough(config.test_set), config.test_limit)
        self.task = task_of(self.train_problems)
        self.task.check_reward(config.reward)
        check_trainable(config)
        if config.feedback is not None:
            self._check_episodes()
        self.held_out = HeldOut(
            config,
            self.test_problems,
            self.tokenizer,
            self.store.base_evals,
            self.is_main,
            self._environment(False),
        )
        self.reward_evaluator: Any = None
        self.recorder: Any = None

    def _short_enough(self, name: str) -> tuple[Problem, ...]:
        """The problems of a set whose prompts are not too long; how many are is said."""
        problems, limit = load_problems(name), self.config.max_prompt_length
        if limit is None:
            return problems
        prompts = [prompt_for(problem, self.config.prompt_style) for problem in problems]
        lengths = map(len, prompt_ids(self.tokenizer, prompts, self.config.enable_thinking))
        kept = tuple(one for one, length in zip(problems, lengths, strict=True) if length <= limit)
        if not kept:
            raise UserError(
                f"every prompt of {name} has more than max_prompt_length={limit} tokens"
            )
        if len(kept) < len(problems):
            self.progress(
                f"[{self.label}] {len(problems) - len(kept)} of {len(problems)} problems of {name} "
                f"are left out: their prompts have more than {limit} tokens"
            )
        return kept

    def train(self) -> None:
        """Train from the last checkpoint, or from the start, and record the end."""
        if self.is_main and (taken_over := self.run.begin(self._meta())):
            self.progress(f"[{self.label}] {taken_over}")
        try:
            self._train()
        except BaseException as error:
            if self.is_main:
                stopped = isinstance(error, KeyboardInterrupt)
                reason = INTERRUPTED if stopped else f"{type(error).__name__}: {error}"
                self.run.fail(time.time(), reason)
            raise
        if self.is_main:
            self.run.finish(time.time())
        PartialState().wait_for_everyone()  # of a stretch of T(D) the others read the end
        if self.is_main:
            took = f" in {clock(self.recorder.elapsed_s)}" if self.recorder else ""
            self.progress(f"[{self.label}] finished{took}: {self.run.path}")

    def _meta(self) -> dict[str, Any]:
        return {
            "run_id": self.run.run_id,
            "config": self.config.to_dict(),
            "seed": self.config.seed,
            "versions": versions(),
            **commit(),
            "data_hash": self.config.data_digest,
            "hardware": hardware(),
            "processes": {"count": processes_here(), "sharding": sharding_here()},
            "started": time.time(),
        }

    def _train(self) -> None:
        steps = self.config.steps
        checkpoint = self.run.last_checkpoint()
        done = checkpoint[0] if checkpoint else -1
        if self.run.final_model.exists():  # killed after the last step, before the state was set
            done = steps
        if self.is_main:
            self.run.rewind(done)
        PartialState().wait_for_everyone()
        if done < steps:
            if checkpoint:
                self.progress(f"[{self.label}] resuming after step {done}")
            workers, backend = self.config.reward_workers, self.config.reward_backend
            if self.choice is not None:
                self._note_choice(self.choice)
            with (
                Evaluator(workers=workers, backend=backend) as evaluator,
                reward_evaluator(self.config, evaluator) as self.reward_evaluator,
                reporting(self.run, self.config, self.label, done, self.is_main),
            ):
                self.held_out.evaluator = evaluator
                if self.is_main:
                    self.run.note(sandbox=evaluator.isolation)
                self._update(done, checkpoint[1] if checkpoint else None)

    def _update(self, done: int, checkpoint: Path | None) -> None:
        set_seed(self.config.seed)
        _know_numbered_processors()
        trainer = self._trainer()
        trainer.remove_callback(PrinterCallback)
        self.recorder = self._recorder(trainer, done)
        trainer.add_callback(self.recorder)
        trainer.on_generation = partial(self._on_generation, trainer)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        trainer.save_model(str(self.run.new_model))
        PartialState().wait_for_everyone()
        if self.is_main:
            # Adapters stay as they are: they are small, and are added to float32 weights.
            half = self.config.precision == "bf16" and self.config.lora_rank is None
            self.run.keep_final_model(half)

    def _on_generation(self, trainer: Any, batch: Any) -> None:
        if trainer.stages.choice is not None:
            self._note_choice(trainer.stages.choice)
        self.recorder.on_generation(batch)

    def _note_choice(self, choice: Choice) -> None:
        """Records T(D) and why, once."""
        if self.is_main and "temperature_choice" not in self.run.meta:
            self.run.note(temperature_choice=asdict(choice))
            self.progress(f"[{self.label}] {choice.explanation}")

    def _note_diversity(self, trainer: Any) -> None:
        """Records what became of the diversity that a temperature was chosen by."""
        if trainer.stages.choice is None or self.config.temperature_target_diversity is None:
            return
        chosen = trainer.stages.choice.temperature
        measured = trainer.stages.measure_diversity([chosen])
        if self.is_main:
            self.run.note(diversity_at_end=measured[chosen])

    def _trainer(self) -> Any:
        config = self.config
        count = -(-config.steps // config.generation_period) * config.train_batch_size
        schedule = training_prompts(self.train_problems, config, count)
        alarm = config.alarm_share > 0
        rows = [training_row(problem, config.prompt_style, alarm) for problem in schedule]
        # The same for every seed, so that what is chosen by them is not a matter of which they are.
        probes = select_problems(self.train_problems, config.temperature_probe_prompts)
        if config.measures_temperature:
            self.arguments.temperature_probe_prompts = min(len(probes), len(rows))
        trainer = grpo.MicroCoderGRPOTrainer(
            model=self.model,
            args=self.arguments,
            processing_class=self.tokenizer,
            train_dataset=Dataset.from_list(rows),
            peft_config=lora(config.lora_rank),
            **self._rewarded(),
        )
        trainer.stages.probe_rows = [training_row(one, config.prompt_style) for one in probes]
        return trainer

    def _check_episodes(self) -> None:
        config = self.config
        if config.feedback not in self.task.feedback:
            told = ", ".join(self.task.feedback) or "no feedback, for it is not of several turns"
            raise UserError(f"feedback={config.feedback}: {config.train_set} knows {told}")
        if (config.backend, config.prompt_style) != ("transformers", "plain"):
            raise UserError(
                "feedback needs the backend transformers and prompt_style plain, got "
                f"{config.backend} and {config.prompt_style}"
            )
        if task_of(self.test_problems) is not self.task:
            raise UserError(
                f"feedback={config.feedback}: {config.test_set} is no test set of the task of "
                f"{config.train_set}; one of {', '.join(self.task.sets)} is"
            )
        for name in ("alarm_share", "stop_at_fence", "soft_overlong"):
            if getattr(config, name):
                raise UserError(f"{name} is of single responses; leave out {name} or feedback")
        if sharding_here() == "fsdp2":
            raise UserError("episodes need processes that each hold the whole model, not fsdp2")

    def _environment(self, training: bool) -> Callable[[Any], Environment] | None:
        """Makes what episodes are played in, given the evaluator; None where a response is one
        turn.
        """
        make, feedback = self.task.environment, self.config.feedback
        if make is None or feedback is None:
            return None
        return lambda evaluator: make(evaluator, feedback, training, self.config.reward)

    def _rewarded(self) -> dict[str, Any]:
        """What rewards the responses, and where they are episodes also what plays them."""
        environment = self._environment(True)
        if environment is None:
            return {"reward_funcs": [self._reward()]}
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # of rollouts, on every start
        known = {problem.id: problem for problem in self.train_problems}
        return {
            "reward_funcs": [episode_reward],
            "rollout_func": training_rollout(environment(self.reward_evaluator), known),
        }

    def _reward(self) -> Any:
        config = self.config
        if (self.task, config.reward) != (TASKS["code"], TESTS):
            if config.alarm_share:
                raise UserError("alarm_share needs reward=tests on problems that ask for a program")
            return TaskReward(self.task, config.reward, self.train_problems, self.reward_evaluator)
        # The published methods, which are there to be timed, do not work ahead.
        ahead = config.reward_evaluator == "microcoder"
        if not config.alarm_share:
            return CodeReward(self.reward_evaluator, overlap=ahead)
        return AuditedCodeReward(
            self.reward_evaluator,
            second=self.held_out.evaluator,
            share=config.alarm_share,
            seed=config.seed,
            overlap=ahead,
        )

    def _recorder(self, trainer: Any, done: int) -> Recorder:
        before = read_lines(self.run.path / "steps.jsonl")
        return Recorder(
            run=self.run,
            config=self.config,
            label=self.label,
            is_main=self.is_main,
            say=self.progress,
            evaluate=partial(self._evaluate, trainer),
            elapsed_before=before[-1]["elapsed_s"] if before else 0.0,
            first_step=max(0, done),
            evaluate_first=done < 0,
            correct_threshold=self.arguments.correct_threshold,
            token_text=lambda token: str(self.tokenizer.decode([token])),
            log_ratios=trainer.log_ratios,
        )

    def _evaluate(self, trainer: Any, step: int, small: bool) -> None:
        """Append what the model makes of held-out problems; every process calls it."""
        results = self.held_out.results(trainer, step, small)
        if step == self.config.steps:
            self._note_diversity(trainer)
        if self.is_main:
            for result in results:
                self.run.append_eval({**self.held_out.about(result, step), **result.to_dict()})
            part = f" ({len(results[0].per_problem)} problems)" if small else ""
            measured = f"  pass@1 {results[0].pass_at_1:.1%}{part}"
            if step == 0:
                self.progress(f"[{self.label}] base model{measured}")
            else:
                self.recorder.measured = measured
        PartialState().wait_for_everyone()
