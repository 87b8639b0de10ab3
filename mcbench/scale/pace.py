"""How long an update takes, by what runs recorded: finished ones, or one that is made to see."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from mcbench.errors import UserError
from mcbench.files import read_lines
from mcbench.runs.compact import read_compact
from mcbench.runs.config import Config
from mcbench.runs.store import RunRecord, RunStore, read_run
from mcbench.scale.process import Ended, Task, follow, start

MEASURED_SECONDS = 30.0


@dataclass(frozen=True)
class Pace:
    """Seconds of an update, and where they come from."""

    seconds: float
    source: str


def recorded_pace(config: Config, folder: str | Path) -> Pace | None:
    """The median of the finished runs and compact records in a folder that are of the same profile
    and model, evaluations included; None where there is none.

    Another batch or length than a run's own scales its pace by responses x longest response.
    """
    found = [
        record.step_lines[-1]["elapsed_s"]
        / len(record.step_lines)
        * (tokens_of_update(config) / tokens_of_update(record.config))
        for record in _finished(folder)
        if (record.config.profile, record.config.model) == (config.profile, config.model)
    ]
    if not found:
        return None
    runs = f"{len(found)} finished run{'s' if len(found) > 1 else ''}"
    return Pace(median(found), f"by {runs} of {config.profile} in {folder}")


def _finished(folder: str | Path) -> Iterator[RunRecord]:
    records = [read_run(run.path) for run in RunStore(folder) if run.state == "finished"]
    records += map(read_compact, sorted(Path(folder).glob("*.parquet")))
    return (one for one in records if one.step_lines and "elapsed_s" in one.step_lines[-1])


def tokens_of_update(config: Config) -> int:
    """Of an update, were all responses of the longest length."""
    responses = config.ppo_mini_batch_size * config.num_generations
    return responses * config.max_completion_length


def measured_pace(config: Config, seconds: float = MEASURED_SECONDS) -> Pace:
    """Train the run in a temporary folder until the time is up: the mean of its updates in whole
    generations, the first one left out where there are more. Nothing of it is kept.

    Raises:
        UserError: it made no update in that time; the message has what it said last.
    """
    shortest = {
        "test_limit": 1,
        "eval_attempts": 1,
        "eval_lengths": [8],
        "eval_every": config.steps,
    }
    config = config.with_settings(shortest)
    with TemporaryDirectory(prefix="mcbench-measure-") as folder:
        task = Task("measure", config.run_id, json.dumps(config.to_dict()), folder)
        process = start(task)
        timer = threading.Timer(seconds, process.terminate)
        timer.start()
        last = ""
        for event in follow(task, process):
            last = event.last if isinstance(event, Ended) else last
        timer.cancel()
        lines = read_lines(Path(folder, config.run_id, "steps.jsonl"))
    took = [line["time/step_s"] for line in lines]
    period = config.generation_period
    whole = took[: len(took) // period * period]
    kept = whole[period:] or whole or took
    if not kept:
        raise UserError(f"no update was made here within {seconds:.0f} s; last line: {last}")
    return Pace(mean(kept), f"by {len(kept)} updates just made here, without evaluations")
