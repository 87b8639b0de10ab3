"""Arguments of the sampling backends, and a run with the one that needs nothing else installed."""

from typing import get_args

import pytest

from mcbench.files import read_lines
from mcbench.runs.arguments import sampler_arguments, trainer_arguments
from mcbench.runs.config import Backend
from mcbench.runs.resolve import resolve
from mcbench.runs.train import train


@pytest.mark.slow
def test_a_run_with_continuous_batching_leaves_a_whole_record(tiny_settings, tmp_path):
    settings = {"backend": "transformers_continuous", "length_stages": "0:16,2:24"}
    config = resolve("tiny", "microcoder", {**tiny_settings, **settings})
    run = train(config, tmp_path, lambda line: None)
    steps = read_lines(run.path / "steps.jsonl")
    assert run.state == "finished"
    assert [line["length/max_allowed"] for line in steps if "length/max_allowed" in line] == [
        16,
        24,
    ]
    mismatch = [line.get("sampling/sampling_logp_difference/max") for line in steps]
    assert max(mismatch[0], mismatch[2]) < 1e-3


@pytest.mark.parametrize("backend", get_args(Backend))
def test_the_trainer_takes_every_backend(tiny_settings, tmp_path, backend):
    config = resolve("tiny", "grpo", {**tiny_settings, "backend": backend})
    arguments = trainer_arguments(config, tmp_path)
    assert arguments.use_vllm == backend.startswith("vllm")
    continuous = arguments.use_transformers_continuous_batching
    assert continuous == (backend == "transformers_continuous")


def test_the_server_is_where_the_configuration_says(tiny_settings):
    there = {"backend": "vllm_server", "vllm_server_url": "http://gpu7:8000"}
    one = resolve("tiny", "grpo", {**tiny_settings, **there})
    other = resolve("tiny", "grpo", {**tiny_settings, **there, "vllm_sleep": True})
    assert sampler_arguments(one)["vllm_server_base_url"] == "http://gpu7:8000"
    assert one.run_id == other.run_id  # where a run executes is not what it computes
