"""The GPU benchmark runs on a CPU with a nano model's shape: same code, other numbers."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.mark.slow
def test_the_gpu_benchmark_measures_every_backend_and_an_update(tmp_path):
    spec = importlib.util.spec_from_file_location("gpu_benchmark", SCRIPT)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    output = tmp_path / "gpu.json"
    tiny = ["--shape", "nano", "--length", "48", "--decoded", "16", "--rows", "2"]
    benchmark.main([*tiny, "--device", "cpu", "--output", str(output)])
    rows = json.loads(output.read_text())["results"]
    assert [(row["what"], row.get("place")) for row in rows] == [
        ("generate", "half"), ("generate", "end"), ("continuous", "half"), ("continuous", "end"),
        ("update", None),
    ]  # fmt: skip
    assert all(row["peak_bytes"] > 0 for row in rows)
    assert rows[-1]["flops_per_s"] > 0
