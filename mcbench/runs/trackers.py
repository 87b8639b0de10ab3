"""Sends what a run records to experiment trackers as well, while it trains (``report_to``).

They get every number of ``steps.jsonl`` under its own name, those of an evaluation below ``eval/``,
and of each generation the responses to its first prompts with their verdicts, as a table. The
verdicts of claims, which need several runs, are a run of their own. Nothing is read back from
trackers. Trackio and TensorBoard keep files on this machine; Weights & Biases does with
``WANDB_MODE=offline``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.errors import UserError
from mcbench.runs.compact import SAMPLE_GROUPS
from mcbench.runs.config import Config

if TYPE_CHECKING:
    import pandas as pd

    from mcbench.runs.store import Run

PROJECT = "mcbench"
COLUMNS = (
    *("group", "problem_id", "prompt", "completion", "length", "truncated", "masked"),
    *("reward", "advantage", "verdicts", "second"),
)
_LONG = ("prompt", "completion", "claim")  # texts of a table, of several lines or a sentence


class _TensorBoard:
    def __init__(self, folder: Path, settings: Mapping[str, Any], done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What was sent after the checkpoint that a run resumes from comes again.
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=max(0, done + 1))
        self._writer.add_text("configuration", _code(str(settings)))

    def log(self, values: Mapping[str, float], step: int | None) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def table(self, name: str, frame: pd.DataFrame, step: int | None) -> None:
        for place, row in enumerate(frame.to_dict("records")):
            told = ", ".join(f"{k} {value}" for k, value in row.items() if k not in _LONG)
            texts = [_code(row[k]) for k in _LONG if k in row]
            self._writer.add_text(f"{name}/{place}", "\n\n".join([told, *texts]), step)

    def close(self) -> None:
        self._writer.close()


class _LikeWandb:
    """Weights & Biases, and Trackio, which has its interface."""

    def __init__(self, module: Any, settings: Mapping[str, Any], **options: Any) -> None:
        self._module = module
        self._run = module.init(project=PROJECT, config=settings, resume="allow", **options)

    def log(self, values: Mapping[str, float], step: int | None) -> None:
        self._run.log(dict(values), step=step)

    def table(self, name: str, frame: pd.DataFrame, step: int | None) -> None:
        self._run.log({name: self._module.Table(dataframe=frame)}, step=step)

    def close(self) -> None:
        self._run.finish()


Tracker = _TensorBoard | _LikeWandb
"""One tracker's run."""


def _opened(
    name: str, folder: Path, settings: Mapping[str, Any], label: str, id_: str, done: int = 0
) -> Tracker:
    if name == "tensorboard":
        return _TensorBoard(folder, settings, done)
    own: dict[str, dict[str, Any]] = {
        "trackio": {"embed": False},
        "wandb": {"id": id_, "dir": str(folder)},
    }
    return _LikeWandb(import_module(name), settings, name=f"{label} ({id_})", **own[name])


class Trackers:
    """All trackers of a run, as the run's record calls them."""

    def __init__(self, opened: Sequence[Tracker], config: Config) -> None:
        self._opened = opened
        self._config = config

    def step(self, line: Mapping[str, Any]) -> None:
        """A line of steps.jsonl."""
        self._log({k: v for k, v in line.items() if k not in ("step", "time")}, line["step"])

    def evaluation(self, line: Mapping[str, Any]) -> None:
        """A line of evals.jsonl; its numbers by length, and temperature and part where those are
        not the usual ones.
        """
        place = f"eval/{line['max_completion_length']}"
        if line["temperature"] != self._config.eval_temperature:
            place += f"/T={line['temperature']:g}"
        if self._config.small_eval_every and len(line["per_problem"]) <= (
            self._config.small_eval_limit
        ):
            place += "/part"
        found = {f"{place}/{name}": v for name, v in line.items() if name not in _GIVEN}
        self._log(found, line["step"])

    def responses(self, columns: Mapping[str, Sequence[Any]], step: int) -> None:
        """The responses of a generation; those of the first prompts are sent."""
        import pandas as pd

        frame = pd.DataFrame({name: columns[name] for name in COLUMNS if name in columns})
        for one in self._opened:
            one.table("responses", frame[frame["group"] < SAMPLE_GROUPS], step)

    def _log(self, values: Mapping[str, Any], step: int) -> None:
        for one in self._opened:
            one.log(_numbers(values), step)


_GIVEN = ("step", "max_completion_length", "temperature", "attempts")


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }


def check_trackers(names: Iterable[str]) -> None:
    """Refuses trackers that are not installed."""
    for name in names:
        if find_spec(name) is None:
            raise UserError(
                f"report_to {name!r} needs a package that is not installed; run pip install {name}"
            )


@contextmanager
def reporting(run: Run, config: Config, label: str, done: int, main: bool) -> Iterator[None]:
    """Send what is added to ``run`` to the trackers as well; in the ``main`` process. ``done``:
    the step that the run resumes after.
    """
    opened: list[Tracker] = []
    try:
        for name in config.report_to if main else ():
            opened.append(_opened(name, run.path, config.to_dict(), label, config.run_id, done))
        run.trackers = Trackers(opened, config) if opened else None
        yield
    finally:
        run.trackers = None
        for one in opened:
            one.close()


def send_verdicts(
    names: Iterable[str], folder: Path, about: Mapping[str, Any], verdicts: pd.DataFrame
) -> None:
    """Send what became of a comparison's claims, a row each, as a run of its own: as a table, and
    every claim's effect and interval as numbers. ``about``: its name and settings, and its ``id``.
    """
    numbers = {
        f"verdicts/{row['id']}/{part}": row[part]
        for row in verdicts.to_dict("records")
        for part in ("effect", "low", "high")
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        one = _opened(name, folder, about, f"{about['name']}, verdicts", about["id"])
        try:
            one.log(_numbers(numbers), None)
            one.table("verdicts", verdicts, None)
        finally:
            one.close()


def _code(text: str) -> str:
    """Text as a block of markdown that shows it as it is."""
    return "\n".join(f"    {line}" for line in text.splitlines())
