"""Two processes give what one gives for the same global batch, and resume to it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import table

ROOT = Path(__file__).parents[2]


def launch(module: str, *arguments: str) -> None:
    """Runs a module in two processes."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no"]
    command += ["--dynamo_backend", "no", "--main_process_port", "0", "-m", module, *arguments]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
    }
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    launch("tests.grpo.table", str(tmp_path), "10")
    two = json.loads((tmp_path / "result.json").read_text())
    one = json.loads(json.dumps(table.run(str(tmp_path), 20)))

    assert two["batches"] == one["batches"]
    assert any(any(batch["masked"]) for batch in one["batches"])
    for got, expected in zip(two["metrics"], one["metrics"], strict=True):
        assert got == pytest.approx(expected, rel=1e-6, nan_ok=True)
    assert two["losses"] == pytest.approx(one["losses"], abs=1e-6)


@pytest.mark.slow
def test_two_processes_resume_inside_a_batch(tmp_path):
    launch("tests.grpo.interrupted", str(tmp_path))
    one, two = (json.loads((tmp_path / f"result_{n}.json").read_text()) for n in range(2))
    for found in (one, two):
        assert found["files"] == ["microcoder_batch_0.pt", "microcoder_batch_1.pt"]
        assert all(found[str(step)] for step in (1, 2, 3)), "weights of another run"
    assert one["generated after a loss"] == [3], "both generate, or they wait for each other"
