"""``mcbench doctor --gpu``: a profile trained for four updates on this GPU, killed once.

Its record then says whether it fits, whether the engine has the policy's weights, and whether it
evaluates and resumes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mcbench.errors import UserError
from mcbench.runs.config import Config
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunRecord, RunStore, read_run
from mcbench.scale.estimate import Estimate, estimate, gib, where_it_fits
from mcbench.scale.machine import gpu_here, of_driver, visible_gpus
from mcbench.scale.measure import architecture, on_this_machine, random_model
from mcbench.scale.process import Ended, RunJob, follow, start
from mcbench.worlds.tokenizer import load_tokenizer

STEPS = 4  # two generations: one before it is killed, one after
# Between vLLM in 16 bits and the trainer; with stale weights the mean is above it.
MOST_MISMATCH = 0.1
LEAST_WEIGHT = 0.5
PEAK_WITHIN = 0.15


def cut(config: Config, length: int) -> Config:
    """A configuration whose passes are as large as the profile's, and as few as can be."""
    rows, group = config.per_device_batch_size, config.num_generations
    prompts = max(1, rows // group)
    return config.with_settings(
        {
            "max_completion_length": length,
            "eval_lengths": [length],
            "train_batch_size": 2 * prompts,
            "ppo_mini_batch_size": prompts,
            "per_device_batch_size": min(rows, prompts * group),
            "steps": STEPS,
            "eval_every": STEPS,
            "eval_attempts": 1,
            "test_limit": 4,
            "checkpoint_generations": 1,
            "warmup_steps": 0,
        }
    )


def at_hand(config: Config, folder: Path, say: Callable[[str], None]) -> Config:
    """The configuration, with random weights of the model's shape where its files are not here."""
    if on_this_machine(config.model):
        return config
    say(f"  {config.model} is not on this machine: random weights of its shape take its place")
    random_model(architecture(config.model)).save_pretrained(folder)
    load_tokenizer().save_pretrained(folder)
    return config.with_settings(
        {"model": str(folder), "prompt_style": "plain", "enable_thinking": None}
    )


def gpu_report(profile: str, length: int, say: Callable[[str], None]) -> int:
    """Say what fits and what does not; returns the number of problems.

    Raises:
        UserError: no GPU is visible, or the profile or length is none.
    """
    here = gpu_here()
    if here is None:
        raise UserError("no GPU is visible here (nvidia-smi lists none); --gpu needs one")
    config = cut(resolve(profile), length)
    expected = estimate(config, here)
    peak = gib(expected.peak)
    say(
        f"{profile} up to {length} tokens on one {here.name}: {peak} of {gib(here.memory)} expected"
    )
    if not expected.fits:
        say(f"  bad   it does not fit; it needs {where_it_fits(config)}")
        return 1
    device = visible_gpus()[0]
    with TemporaryDirectory(prefix="mcbench-doctor-") as folder:
        config = at_hand(config, Path(folder, "model"), say)
        with most_memory_used(device) as used:
            train_twice(config, folder, say, (device,))
        record = read_run(RunStore(folder).run(config).path)
        # Here, while its responses are still on disk.
        found = [peak_memory(expected, used[0]), *checks(record)]
    for good, text in found:
        say(f"  {'ok   ' if good else 'bad  '} {text}")
    return sum(not good for good, _ in found)


def train_twice(
    config: Config, folder: str, say: Callable[[str], None], devices: tuple[str, ...] = ()
) -> None:
    """Train, kill the process once its first checkpoint is whole, and train on.

    Raises:
        UserError: the run ended in another way; the message has its last line.
    """
    task = RunJob("doctor", config.run_id, config.to_text(), folder, devices=devices)
    run = RunStore(folder).run(config)
    for attempt in (1, 2):
        process = start(task)
        for event in follow(task, process):
            if isinstance(event, str):
                say(f"  {event}")
            if attempt == 1 and run.last_checkpoint() is not None:
                process.send_signal(signal.SIGKILL)
            if isinstance(event, Ended) and event.status not in (0, -signal.SIGKILL):
                raise UserError(f"the run ended with: {event.last}")
        if run.state == "finished":
            break


@contextmanager
def most_memory_used(gpu: str) -> Iterator[list[float]]:
    """A list with the most that the driver says is in use on a GPU (bytes), asked five times a
    second until the context is left; 0 where it does not say.
    """
    most, left = [0.0], threading.Event()

    def watch() -> None:
        while not left.wait(0.2):
            said = of_driver("memory.used", f"--id={gpu}")
            most[0] = max(most[0], *(float(line) * 2**20 for line in said if line.isdigit()), 0.0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        left.set()
        watcher.join()


def peak_memory(expected: Estimate, used: float) -> tuple[bool, str]:
    """The estimate against the driver's number, which misses what lasts less than .2 s."""
    ratio = used / expected.peak
    good = ratio <= 1 + PEAK_WITHIN
    return good, f"memory in use {gib(used)}, {ratio:.2f} of the estimate"


def checks(record: RunRecord) -> Iterator[tuple[bool, str]]:
    """What a record says, each with whether it is as it should be; last how fast it was."""
    steps = record.steps
    done = steps["step"].tolist() == list(range(1, STEPS + 1))
    resumed = record.meta.get("resumes", 0)
    yield done and resumed > 0, f"killed and resumed {resumed} time(s), {len(steps)} updates"
    evaluated = sorted(set(record.evals["step"]))
    yield evaluated == [0, STEPS], f"evaluated with {record.config.backend} at steps {evaluated}"
    name = "sampling/sampling_logp_difference"
    if f"{name}/mean" in steps:
        mean, most = steps[f"{name}/mean"].max(), steps[f"{name}/max"].max()
        text = f"|log p here - in the sampler|: mean {mean:.4f}, largest {most:.3f}"
        yield bool(mean < MOST_MISMATCH), text
    weights = [c for c in map(str, steps) if c.startswith("correction/weight_to_")]
    if weights:
        left = {c.rpartition("_")[2]: float(np.nanmean(steps[c])) for c in weights}
        known = {share: value for share, value in left.items() if not np.isnan(value)}
        text = ", ".join(f"to {share} % {value:.2f}" for share, value in known.items())
        good = min(known.values(), default=1.0) > LEAST_WEIGHT
        yield good, f"weight left by length (share of the limit): {text}"
    tokens = steps["completions/mean_length"].dropna().mean() * len(record.completions(1))
    took = steps["time/generate_s"].dropna().mean()
    update = steps["time/update_s"].median()
    text = (
        f"{tokens / took:,.0f} sampled tokens/s, {took:.1f} s a generation, {update:.1f} an update"
    )
    yield True, text
