"""Two processes give what one gives for the same global batch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import table

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += [
        "--num_processes",
        "2",
        "--num_machines",
        "1",
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
    ]
    command += ["--main_process_port", "0", "-m", "tests.grpo.table", str(tmp_path), "10"]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
    }
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    two = json.loads((tmp_path / "result.json").read_text())
    one = json.loads(json.dumps(table.run(str(tmp_path), 20)))

    assert two["batches"] == one["batches"]
    assert any(any(batch["masked"]) for batch in one["batches"])
    for got, expected in zip(two["metrics"], one["metrics"], strict=True):
        assert got == pytest.approx(expected, rel=1e-6, nan_ok=True)
    assert two["losses"] == pytest.approx(one["losses"], abs=1e-6)
