"""The run store: what a run leaves behind, written so that a crash loses and doubles nothing.

A run directory holds::

    run.json       configuration, seed, versions, commit, data hash, hardware, start, end, state
    steps.jsonl    one line per optimizer update
    evals.jsonl    one line per evaluation and length; step 0 is the base model
    completions/   step_000001.parquet: the responses of the generation that this update began
    checkpoints/   the last complete checkpoint; after the end only the final model
    output.log     what the run printed, attempt after attempt, where it was part of a sweep
    lock           the process that trains the run

A checkpoint counts once its ``COMPLETE`` file exists; on resume every line after the checkpoint's
step is dropped and trained again, so that each step appears exactly once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.errors import UserError
from mcbench.files import ProcessLock, append_line, keep_lines, read_lines, write_json
from mcbench.runs.config import Config
from mcbench.runs.distributions import ADVANTAGE

if TYPE_CHECKING:
    import pandas as pd

    from mcbench.runs.trackers import Trackers

INTERRUPTED = "interrupted"  # a state, and the reason of it
_COMPLETE = "COMPLETE"
_FACTS = ("versions", "commit", "diff_hash", "hardware", "processes")  # may be others on a resume


class Run:
    """One run directory. Nothing is written before :meth:`begin`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = ProcessLock(path / "lock")
        self.trackers: Trackers | None = None  # get what is written, too

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def meta(self) -> dict[str, Any]:
        """The content of run.json; empty before the run began.

        Raises:
            UserError: it is damaged, or another program's.
        """
        path = self.path / "run.json"
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{path} is damaged, or no record of a run: {error}") from error
        if not isinstance(found, dict):
            raise UserError(f"{path} is no record of a run: it maps no names to values")
        return found

    @property
    def state(self) -> str:
        """``absent``, ``running``, ``finished``, ``failed`` or ``interrupted``, which is also what
        a run is whose process is gone.
        """
        state = self.meta.get("state", "absent")
        if state != "running" or self.is_alive():
            return state
        ended = self.meta["state"]  # it may have ended while one looked
        return INTERRUPTED if ended == "running" else ended

    def is_alive(self) -> bool:
        """Whether a live process is training the run now."""
        return self.lock.owner() is not None

    # Writing -----------------------------------------------------------------------------------

    def begin(self, meta: dict[str, Any]) -> str | None:
        """Take the lock and mark the run as running. From a checkpoint on the first start's facts
        stay, and ``resumed`` has what was another one when it was resumed.

        Returns:
            What there is to say of a lock that was another machine's.

        Raises:
            UserError: another process trains this run, or the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"runs cannot be kept in {self.path.parent} ({error.strerror}); name a folder that "
                "can be written: --runs-dir DIR, of a notebook and of compare runs_dir"
            ) from error
        taken_over = self.lock.acquire()
        for path in self.path.glob(".*.tmp"):  # what a killed process was about to put in place
            path.unlink()
        (self.path / "completions").mkdir(exist_ok=True)
        old = self.meta
        facts = meta
        if old and (self.last_checkpoint() is not None or self.final_model.exists()):
            others = {name: meta.get(name) for name in _FACTS if meta.get(name) != old.get(name)}
            facts = {**meta, **old}
            facts |= {"resumed": [*old.get("resumed", ()), others]} if others else {}
        write_json(
            self.path / "run.json",
            {
                **facts,
                "started": old.get("started", meta["started"]),
                "resumes": old.get("resumes", -1) + 1,
                "ended": None,
                "state": "running",
                "error": None,
            },
        )
        return taken_over

    def finish(self, ended: float) -> None:
        """Mark the run as finished at ``ended`` (seconds since 1970) and release the lock; nothing
        resumes from its checkpoints any more.
        """
        for _, path in self._checkpoint_dirs():
            shutil.rmtree(path)
        self.note(ended=ended, state="finished", error=None)
        self.lock.release()

    def fail(self, ended: float, error: str) -> None:
        """Record why the run stopped, :data:`INTERRUPTED` where that is all, unless another process
        has taken it over; the same command resumes it.
        """
        if self.lock.others():
            return
        state = INTERRUPTED if error == INTERRUPTED else "failed"
        self.note(ended=ended, state=state, error=error)
        self.lock.release()

    def note(self, **facts: Any) -> None:
        """Add facts to run.json, such as which temperature was chosen and why."""
        write_json(self.path / "run.json", {**self.meta, **facts})

    def append_step(self, record: dict[str, Any]) -> None:
        """Add one line to steps.jsonl, on disk before the call returns.

        Raises:
            UserError: another process has taken over the run.
        """
        self.lock.check()
        append_line(self.path / "steps.jsonl", record)
        if self.trackers:
            self.trackers.step(record)

    def append_eval(self, record: dict[str, Any]) -> None:
        """Add one line to evals.jsonl, on disk before the call returns."""
        append_line(self.path / "evals.jsonl", record)
        if self.trackers:
            self.trackers.evaluation(record)

    def write_completions(self, step: int, columns: dict[str, list[Any]]) -> None:
        """Store one generation's responses under the update that uses them first."""
        self._write_responses(step, columns)
        if self.trackers:
            self.trackers.responses(columns, step)

    def add_to_completions(self, step: int, name: str, values: list[Any]) -> None:
        """One more column of a stored generation, where its responses are still there."""
        import pyarrow.parquet as pq

        path = self.completions_path(step)
        if path.exists():
            columns = pq.read_table(path)
            self._write_responses(
                step, {n: columns[n] for n in columns.column_names} | {name: values}
            )

    def _write_responses(self, step: int, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.completions_path(step)
        temporary = path.with_suffix(".tmp")
        pq.write_table(pa.table(columns), temporary, compression="zstd")
        temporary.replace(path)

    def completions_path(self, step: int) -> Path:
        """Where the responses are stored that the update ``step`` used first."""
        return self.path / "completions" / f"step_{step:06d}.parquet"

    # Checkpoints ---------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        """The folder the trainer writes checkpoints to."""
        return self.path / "checkpoints"

    def complete_checkpoint(self, step: int) -> None:
        """Declare ``checkpoints/checkpoint-<step>`` whole, then delete the older ones.

        Raises:
            UserError: another process has taken over the run.
        """
        self.lock.check()
        write_json(self.checkpoints / f"checkpoint-{step}" / _COMPLETE, {"step": step})
        for other, path in self._checkpoint_dirs():
            if other < step:
                shutil.rmtree(path)

    def last_checkpoint(self) -> tuple[int, Path] | None:
        """Step and directory of the newest checkpoint that was written to its end."""
        whole = [(n, path) for n, path in self._checkpoint_dirs() if (path / _COMPLETE).exists()]
        return max(whole, default=None)

    def _checkpoint_dirs(self) -> list[tuple[int, Path]]:
        return _numbered(self.checkpoints, "checkpoint-*")

    @property
    def final_model(self) -> Path:
        """The trained model; exists once it is whole."""
        return self.checkpoints / "final"

    @property
    def new_model(self) -> Path:
        """Where the trainer writes it before that."""
        return self.checkpoints / "new"

    def check_idle(self) -> None:
        """Refuse a run at work.

        Raises:
            UserError: a live process is training it.
        """
        if self.is_alive():
            raise UserError(f"{self.path} is being trained now; stop that process first")

    def delete(self) -> None:
        """Remove the run and everything it recorded.

        Raises:
            UserError: a live process is training it.
        """
        self.check_idle()
        if self.path.exists():
            shutil.rmtree(self.path)

    def rewind(self, step: int) -> None:
        """Drop everything recorded after ``step``, and half-written lines and checkpoints.

        -1 drops everything.
        """
        for name in ("steps.jsonl", "evals.jsonl"):
            keep_lines(self.path / name, lambda record: record["step"] <= step)
        for other, path in _numbered(self.path / "completions", "step_*"):
            if path.suffix == ".tmp" or other > step:
                path.unlink()
        for other, path in self._checkpoint_dirs():
            if other > step or not (path / _COMPLETE).exists():
                shutil.rmtree(path)

    def keep_final_model(self, half: bool = False) -> None:
        """Declare the model that the trainer wrote the final one: weights and tokenizer only.

        Args:
            half: store float32 weights in bf16, as what was trained in bf16 is used.
        """
        new = self.new_model
        for name in ("training_args.bin", "README.md"):  # an adapter's card is a blank form
            (new / name).unlink(missing_ok=True)
        if half:
            for path in new.glob("*.safetensors"):
                _in_bf16(path)
            about = json.loads((new / "config.json").read_text())
            write_json(new / "config.json", {**about, "dtype": "bfloat16"})
        new.replace(self.final_model)


def _numbered(folder: Path, pattern: str) -> list[tuple[int, Path]]:
    """What lies in a folder under names that end with a number, in order; what a person puts beside
    it, such as a copy, is not ours.
    """
    named = ((path.stem[len(pattern.partition("*")[0]) :], path) for path in folder.glob(pattern))
    return sorted((int(number), path) for number, path in named if number.isdecimal())


def _in_bf16(path: Path) -> None:
    """Rewrite a file of weights."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    for name, value in weights.items():
        if value.dtype == torch.float32:
            weights[name] = value.to(torch.bfloat16)
    temporary = path.with_suffix(".tmp")
    save_file(weights, temporary, {"format": "pt"})  # as transformers writes it
    temporary.replace(path)


class RunStore:
    """All runs below one folder, each under its content-addressed id."""

    def __init__(self, root: str | Path = "runs") -> None:
        self.root = Path(root)

    def run(self, config: Config) -> Run:
        """The run of that configuration, begun or not."""
        return self.run_with_id(config.run_id)

    def run_with_id(self, run_id: str) -> Run:
        """The run of that id, begun or not."""
        return Run(self.root / run_id)

    def __iter__(self) -> Iterator[Run]:
        for path in sorted(self.root.glob("*/run.json")):
            yield Run(path.parent)

    @property
    def base_evals(self) -> Path:
        """Evaluations of base models, shared by all runs that start from the same one."""
        return self.root / "base_evals"


# Reading -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunRecord:
    """A run as its readers see it, from a run directory or from a compact file.

    ``step_lines`` and ``eval_lines`` are the JSON lines, ``steps`` and ``evals`` their tables;
    problems of a compact file's evaluations are made as they are asked for (``compact.Problems``).
    ``sample_lines`` are the few responses that a compact file keeps, with their ``step``.
    """

    meta: dict[str, Any]
    step_lines: list[dict[str, Any]]
    eval_lines: list[dict[str, Any]]
    path: Path
    sample_lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return self.meta["run_id"]

    @cached_property
    def config(self) -> Config:
        """The resolved configuration.

        Raises:
            UserError: the record holds none.
        """
        return Config.from_dict(self.meta.get("config", {}))

    @property
    def seed(self) -> int:
        return self.meta["seed"]

    @property
    def state(self) -> str:
        return self.meta["state"]

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per update, columns named as in the log."""
        import pandas as pd

        return pd.DataFrame(self.step_lines)

    @cached_property
    def evals(self) -> pd.DataFrame:
        """One row per evaluation and length; ``per_problem`` is a list of dicts, and what a task
        tells has columns ``parts/NAME``.
        """
        import pandas as pd

        rows = [
            {**line, **{f"parts/{name}": one for name, one in line.get("parts", {}).items()}}
            for line in self.eval_lines
        ]
        return pd.DataFrame(rows)

    @cached_property
    def distributions(self) -> dict[int, dict[str, Any]]:
        """Lengths and advantages of each generation by the step that it began, as
        :mod:`mcbench.runs.distributions` counts them; none of a run that did not log them.
        """
        return {line["step"]: line for line in self.step_lines if ADVANTAGE in line}

    def completion_steps(self) -> list[int]:
        """The updates that began a generation of which responses are stored."""
        if self.sample_lines:
            return sorted({line["step"] for line in self.sample_lines})
        return [step for step, _ in _numbered(self.path / "completions", "step_*.parquet")]

    def completions(self, step: int) -> pd.DataFrame:
        """The stored responses of the generation that ``step`` began.

        Raises:
            UserError: none are stored for that step; the message names the steps there are. Or
                their file is damaged.
        """
        import pandas as pd

        if step not in self.completion_steps():
            known = ", ".join(map(str, self.completion_steps())) or "none (compact record)"
            raise UserError(
                f"no responses stored for step {step} of {self.run_id}; stored: {known}"
            )
        if self.sample_lines:
            return pd.DataFrame([line for line in self.sample_lines if line["step"] == step])
        path = Run(self.path).completions_path(step)
        try:
            return pd.read_parquet(path)
        except ValueError as error:  # of pyarrow
            reason = " ".join(str(error).split())
            raise UserError(f"{path} is damaged, delete it to go on without: {reason}") from error


def read_run(path: str | Path) -> RunRecord:
    """Read a run directory, also while it is being written.

    Raises:
        UserError: the path holds no run.
    """
    run = Run(Path(path))
    if not run.meta:
        missing = "is empty" if (run.path / "run.json").exists() else "is missing"
        raise UserError(f"{path} holds no run: run.json {missing}")
    return RunRecord(
        meta={**run.meta, "state": run.state},
        step_lines=read_lines(run.path / "steps.jsonl"),
        eval_lines=read_lines(run.path / "evals.jsonl"),
        path=run.path,
    )
