"""How long an update takes, by what runs recorded: finished ones, or one that is made to see."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from mcbench.errors import UserError
from mcbench.files import read_lines
from mcbench.runs.config import Config
from mcbench.runs.records import finished_records
from mcbench.runs.store import RunRecord
from mcbench.scale.machine import gpu_here, threads_for
from mcbench.scale.process import Ended, RunJob, follow, start


def most_seconds(config: Config) -> float:
    """How long updates are timed for at most; on GPUs the model and an engine are loaded first."""
    return 30.0 if config.precision == "fp32" else 900.0


@dataclass(frozen=True)
class Pace:
    """Seconds of an update, and where they come from."""

    seconds: float
    source: str


@dataclass(frozen=True)
class Timed:
    """What a finished run took: seconds a response of an update, evaluations included; of how many
    tokens its responses were, and the share of them that was cut, None where that was not recorded;
    the GPU that it was on, empty for processors.
    """

    profile: str
    model: str
    seconds: float
    limit: int
    mean_length: float | None
    cut: float
    gpu: str = ""


def timed(*folders: str | Path) -> list[Timed]:
    """Of each finished run and compact record in folders, which may be missing, once."""
    found = {one.run_id: _timed(one) for one in finished_records(*folders)}
    return [one for one in found.values() if one is not None]


def _timed(record: RunRecord) -> Timed | None:
    lines, config = record.step_lines, record.config
    if not lines or "elapsed_s" not in lines[-1]:
        return None
    lengths, cut = (
        [line[f"completions/{name}"] for line in lines if f"completions/{name}" in line]
        for name in ("mean_length", "clipped_ratio")
    )
    seconds = lines[-1]["elapsed_s"] / len(lines) / responses_of_update(config)
    length, share = (mean(lengths), mean(cut)) if lengths and cut else (None, 0.0)
    gpus = record.meta.get("hardware", {}).get("gpus") or [{"name": ""}]
    limit, gpu = _last_limit(config), gpus[0]["name"]
    return Timed(config.profile, config.model, seconds, limit, length, share, gpu)


def pace_of(config: Config, known: Iterable[Timed]) -> Pace | None:
    """The median of the finished runs that are of the same profile and model, evaluations included;
    None where there is none. Runs on a GPU count where one is here, those on processors elsewhere;
    if there are none of that kind it is told on what the others were.

    Another batch or limit than a run's own scales its pace by responses x mean length: passes are
    as long as their responses. With a longer limit those that were cut are taken to fill it.
    """
    limit = _last_limit(config)
    alike = [one for one in known if (one.profile, one.model) == (config.profile, config.model)]
    on_gpu = gpu_here() is not None
    found = [one for one in alike if bool(one.gpu) == on_gpu]
    elsewhere = "" if found else f" on {alike[0].gpu or 'processors'}" if alike else ""
    paces = [
        one.seconds * length_ratio(one.mean_length, one.cut, one.limit, limit)
        for one in found or alike
    ]
    if not paces:
        return None
    runs = f"{len(paces)} finished run{'s' if len(paces) > 1 else ''}"
    seconds = responses_of_update(config) * median(paces)
    return Pace(seconds, f"by {runs} of {config.profile}{elsewhere}")


def responses_of_update(config: Config) -> int:
    """Responses that an update is computed from."""
    return config.ppo_mini_batch_size * config.num_generations


def length_ratio(mean_length: float | None, cut: float, limit: int, other: int) -> float:
    """What another limit makes of the mean length, as a factor: no response grows but the share
    that was cut, which is taken to fill a longer one.
    """
    if limit == other or mean_length is None:
        return 1.0
    return (min(mean_length, other) + cut * max(other - limit, 0)) / mean_length


def _last_limit(config: Config) -> int:
    """Of a response in tokens, once the context is extended."""
    return int(
        config.length_stages[-1][1] if config.length_stages else config.max_completion_length
    )


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
        threads = threads_for(config.model)
        task = RunJob("measure", config.run_id, config.to_text(), folder, threads=threads)
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
