"""What the live dashboard costs: memory, redraws, and the processor while runs train.

``python benchmarks/dashboard.py`` writes run directories of the size asked for, opens a dashboard
on them in this process and measures, as medians over the rounds and in seconds of processor time
(thread time, so that other work on the machine does not count):

- ``open``: reading everything and drawing for the first time,
- ``redraw``: drawing everything for another choice of runs,
- ``step``: a look after every run appended one step,
- ``idle``: a look that finds nothing new,
- ``memory``: the resident memory of the process, and how much of it the dashboard added.

``--share`` says what part of one processor the thread takes while each of the runs makes a step
every ``--step-s`` seconds, which is what training in the same process loses.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mcbench.files import ProcessLock, append_line, write_json

MEASURED = {"dataset": "nano:test", "dataset_hash": "0" * 16, "attempts": 4, "temperature": 1.0}


def resident_mb(pid: int | str = "self") -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def line(step: int, rng: np.random.Generator) -> dict[str, Any]:
    """A step with as many numbers as training logs."""
    record: dict[str, Any] = {"step": step, "time": 1e9 + step, "elapsed_s": float(step)}
    names = ("loss", "grad_norm", "entropy", "clip_ratio/low_mean", "clip_ratio/high_mean")
    record |= {name: float(rng.random()) for name in (*names, "step_time", "learning_rate")}
    if step % 8 == 1:
        shares = ("reward", "completions/clipped_ratio", "completions/mean_length", "mask/share")
        parts = ("p10", "p50", "p90", "correct_mean", "incorrect_mean")
        kinds = ("truncated", "repeating", "eligible_incorrect", "eligible_correct")
        record |= {name: float(rng.random()) for name in shares}
        record |= {f"length/{part}": float(rng.random()) for part in parts}
        record |= {f"mask/{kind}": float(rng.random()) for kind in kinds}
        record |= {f"diversity/distinct_{n}": float(rng.random()) for n in (1, 2, 3, 4)}
        record |= {f"group/{kind}": 1 / 3 for kind in ("all_fail", "mixed", "all_pass")}
        record |= {"length/max_allowed": 96.0, "temperature": 1.0}
        record |= {f"time/{part}_s": 1.0 for part in ("generate", "reward")}
        record["histogram/advantage"] = rng.integers(0, 9, 32).tolist()
        record["histogram/length_right"] = rng.integers(0, 9, 16).tolist()
        record["histogram/length_wrong"] = rng.integers(0, 9, 16).tolist()
    return record


def written(root: Path, runs: int, steps: int) -> list[Path]:
    """As :func:`write_runs`, in another process: configurations load the training libraries."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=write_runs, args=(root, runs, steps))
    process.start()
    process.join()
    paths = sorted(root.iterdir())
    for path in paths:
        ProcessLock(path / "lock").acquire()  # as runs that train do
    return paths


def write_runs(root: Path, runs: int, steps: int) -> None:
    """Runs of three recipes, all under way."""
    from mcbench.runs.resolve import resolve

    for index in range(runs):
        rng = np.random.default_rng(index)
        recipe = ("grpo", "grpo_plus", "microcoder")[index % 3]
        config = resolve("nano", recipe, {}, index // 3, steps + 1000)
        path = root / config.run_id
        path.mkdir(parents=True)
        meta = {"run_id": path.name, "config": config.to_dict(), "seed": config.seed}
        write_json(path / "run.json", {**meta, "state": "running", "started": 1.0 + index})
        text = "".join(json.dumps(line(step, rng)) + "\n" for step in range(1, steps + 1))
        (path / "steps.jsonl").write_text(text)
        evals = [
            {"step": step, "max_completion_length": n, "pass_at_1": float(rng.random()), **MEASURED}
            for step in range(0, steps + 1, 32)
            for n in (96, 192)
        ]
        (path / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in evals))


def timed(call: Any) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


def measure(root: Path, runs: int, steps: int, rounds: int, every: bool) -> dict[str, Any]:
    """The costs of one look, by kind."""
    paths = written(root, runs, steps)
    from mcbench.report.dashboard import Dashboard, watch
    from mcbench.report.panels import SECTIONS

    Dashboard._follow = lambda self: self._stop.wait()  # type: ignore[method-assign]
    watch.LONGEST_UNDRAWN_S = 0.0  # a look draws what is new
    before = resident_mb()
    held: list[Any] = []
    opened = timed(lambda: held.append(Dashboard(root, live=True)))
    dashboard = held[0]
    everything: dict[str, Any] = {"picked": {path.name: True for path in paths}}
    everything |= {"sections": list(SECTIONS)} if every else {}
    dashboard.page.asked = dashboard.page.asked | everything
    dashboard.refresh()
    rng = np.random.default_rng(0)
    redraw, step_costs, idle = [], [], []
    for number in range(rounds):
        watched = dashboard.watch
        watched._drawings.clear()
        redraw.append(timed(partial(watched.parts, dashboard.page.asked)))
        for path in paths:
            append_line(path / "steps.jsonl", line(steps + 1 + number, rng))
        step_costs.append(timed(dashboard.refresh))
        idle.append(timed(dashboard.refresh))
    found = {
        "runs": runs,
        "steps": steps,
        "figures": len(dashboard.page.figures),
        "open_s": round(opened, 3),
        "redraw_s": round(statistics.median(redraw), 4),
        "step_s": round(statistics.median(step_costs), 4),
        "idle_s": round(statistics.median(idle), 5),
        "memory_mb": round(resident_mb()),
        "memory_added_mb": round(resident_mb() - before),
    }
    dashboard.close()
    return found


def share_of_a_processor(root: Path, runs: int, step_s: float, seconds: float) -> dict[str, Any]:
    """Processor time of the dashboard's own thread while the runs make their steps."""
    paths = written(root, runs, 24)
    from mcbench.report.dashboard import Dashboard

    spent = [0.0]
    follow = Dashboard._follow

    def counted(self: Any) -> None:
        began = time.thread_time()
        follow(self)
        spent[0] = time.thread_time() - began

    Dashboard._follow = counted  # type: ignore[method-assign]
    dashboard = Dashboard(root, live=True)
    shown: list[float] = []
    rng = np.random.default_rng(0)
    wait = threading.Event()
    began = time.monotonic()
    number = 24
    while time.monotonic() - began < seconds:
        number += 1
        for path in paths:
            append_line(path / "steps.jsonl", line(number, rng))
        appended = time.monotonic()
        while not all(row["step"] >= number for row in dashboard.page.rows["rows"]):
            wait.wait(0.02)
        shown.append(time.monotonic() - appended)
        wait.wait(max(0.0, step_s - (time.monotonic() - appended)))
    took = time.monotonic() - began
    thread = dashboard._thread
    dashboard.close()
    assert thread is not None
    thread.join()
    return {
        "runs": runs,
        "step_every_s": step_s,
        "share_of_a_processor": round(spent[0] / took, 4),
        "shown_after_s": round(statistics.median(shown), 2),
        "shown_after_max_s": round(max(shown), 2),
    }


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--every-section", action="store_true", help="draw all figures there are")
    parser.add_argument("--share", action="store_true", help="measure the thread instead")
    parser.add_argument("--step-s", type=float, default=2.0, help="seconds between two steps")
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        if options.share:
            print(json.dumps(share_of_a_processor(root, options.runs, options.step_s,
                                                  options.seconds)))  # fmt: skip
        else:
            print(json.dumps(measure(root, options.runs, options.steps, options.rounds,
                                     options.every_section)))  # fmt: skip


if __name__ == "__main__":
    main()
