"""How long an update takes, by what runs recorded: finished ones, or one that is made to see."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from mcbench.errors import UserError
from mcbench.files import read_lines
from mcbench.runs.config import Config
from mcbench.runs.records import finished_records
from mcbench.runs.store import RunRecord
from mcbench.scale.process import Ended, Task, follow, start


def most_seconds(config: Config) -> float:
    """How long updates are timed for at most; on GPUs the model and an engine are loaded first."""
    return 30.0 if config.precision == "fp32" else 900.0


@dataclass(frozen=True)
class Pace:
    """Seconds of an update, and where they come from."""

    seconds: float
    source: str


def recorded_pace(config: Config, folder: str | Path) -> Pace | None:
    """By the finished runs and compact records in a folder, see :func:`pace_of`."""
    found = pace_of(config, finished_records(folder))
    return found and replace(found, source=f"{found.source} in {folder}")


def pace_of(config: Config, records: Iterable[RunRecord]) -> Pace | None:
    """The median of the finished runs that are of the same profile and model, evaluations included;
    None where there is none.

    Another batch or limit than a run's own scales its pace by responses x mean length: passes are
    as long as their responses. With a longer limit those that were cut are taken to fill it.
    """
    found = [
        seconds
        * (responses_of_update(config) / responses_of_update(record.config))
        * _longer(record, _last_limit(config))
        for record in records
        if (record.config.profile, record.config.model) == (config.profile, config.model)
        and (seconds := seconds_of_update(record)) is not None
    ]
    if not found:
        return None
    runs = f"{len(found)} finished run{'s' if len(found) > 1 else ''}"
    return Pace(median(found), f"by {runs} of {config.profile}")


def seconds_of_update(record: RunRecord) -> float | None:
    """The mean over a record, evaluations included; None where it was not recorded."""
    lines = record.step_lines
    return lines[-1]["elapsed_s"] / len(lines) if lines and "elapsed_s" in lines[-1] else None


def responses_of_update(config: Config) -> int:
    """Responses that an update is computed from."""
    return config.ppo_mini_batch_size * config.num_generations


def length_ratio(mean_length: float, cut: float, limit: int, other: int) -> float:
    """What another limit makes of the mean length, as a factor: no response grows but the share
    that was cut, which is taken to fill a longer one.
    """
    return (min(mean_length, other) + cut * max(other - limit, 0)) / mean_length


def _last_limit(config: Config) -> int:
    """Of a response in tokens, once the context is extended."""
    return int(
        config.length_stages[-1][1] if config.length_stages else config.max_completion_length
    )


def _longer(record: RunRecord, limit: int) -> float:
    before = _last_limit(record.config)
    if limit == before:
        return 1.0
    lengths, cut = (
        [line[f"completions/{name}"] for line in record.step_lines if f"completions/{name}" in line]
        for name in ("mean_length", "clipped_ratio")
    )
    return length_ratio(mean(lengths), mean(cut), before, limit) if lengths and cut else 1.0


def measured_pace(config: Config, seconds: float | None = None) -> Pace:
    """Train the run in a temporary folder until two generations are used or the time is up: the
    mean of its updates in whole generations, the first one left out where there are more. Nothing
    of it is kept.

    Raises:
        UserError: it made no update in that time; the message has what it said last.
    """
    seconds = most_seconds(config) if seconds is None else seconds
    shortest = {
        "test_limit": 1,
        "eval_attempts": 1,
        "eval_lengths": [8],
        "eval_every": config.steps,
        "report_to": [],
    }
    config = config.with_settings(shortest)
    period = config.generation_period
    with TemporaryDirectory(prefix="mcbench-measure-") as folder:
        task = Task("measure", config.run_id, config.to_text(), folder)
        steps = Path(folder, config.run_id, "steps.jsonl")
        process = start(task)
        timer = threading.Timer(seconds, process.terminate)
        timer.start()
        last = ""
        for event in follow(task, process):
            if isinstance(event, Ended):
                last = event.last
            elif len(read_lines(steps)) >= 2 * period:
                process.terminate()
        timer.cancel()
        took = [line["time/step_s"] for line in read_lines(steps)]
    whole = took[: len(took) // period * period]
    kept = whole[period:] or whole or took
    if not kept:
        raise UserError(f"no update was made here within {seconds:.0f} s; last line: {last}")
    return Pace(mean(kept), f"by {len(kept)} updates just made here, without evaluations")
