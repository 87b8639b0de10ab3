"""What ``mcbench watch`` costs: processor time of the server while runs grow and a browser looks.

``python benchmarks/watch.py`` writes run directories under way, serves them with the command,
opens the page in a headless Chromium (both sections of figures that it begins with), and appends a
step to each run every ``--step-s`` seconds. Printed is the processor time of the server's process,
kernel time included, as a share of the time that passed, without its start and the page's first
answer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from dashboard import line, resident_mb, written  # the one beside this file

from mcbench.files import append_line

BROWSER = Path(__file__).parents[1] / "tests" / "report" / "browser.py"


def browser() -> Any:
    """The module that drives one in the tests."""
    spec = spec_from_file_location("browser", BROWSER)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spent_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(root: Path, runs: int, steps: int, step_s: float, seconds: float) -> dict[str, float]:
    """The share, and how much the server read and holds."""
    chromium = browser().chromium
    paths = written(root, runs, steps)
    command = [sys.executable, "-m", "mcbench", "watch", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, chromium() as tab:
        assert server.stdout
        url = server.stdout.readline().split(": ", 1)[1].split()[0]
        tab.call("Page.enable")
        tab.call("Page.navigate", url=url)
        tab.wait("document.querySelectorAll('.plot .main-svg').length > 6")
        rng = np.random.default_rng(0)
        began, before, number = time.monotonic(), spent_s(server.pid), steps
        while (passed := time.monotonic() - began) < seconds:
            number += 1
            for path in paths:
                append_line(path / "steps.jsonl", line(number, rng))
            time.sleep(max(0.0, step_s - (time.monotonic() - began - passed)))
        passed = time.monotonic() - began
        share = (spent_s(server.pid) - before) / passed
        looks = tab.evaluate("Number(document.body.dataset.looks)")
        shown = tab.evaluate("document.querySelector('.mcb-count').textContent")
        memory = resident_mb(server.pid)
        server.terminate()
    return {
        "runs": runs, "steps_before": steps, "step_every_s": step_s, "seconds": round(passed),
        "share_of_a_processor": round(share, 4), "looks": looks, "last_shown": shown,
        "last_written": number, "memory_mb": round(memory),
    }  # fmt: skip


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200, help="of each run before it begins")
    parser.add_argument("--step-s", type=float, default=2.0, help="seconds between two steps")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        found = measure(root, options.runs, options.steps, options.step_s, options.seconds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
