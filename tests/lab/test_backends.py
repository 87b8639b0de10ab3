"""Arguments of the sampling backends, and a run with the one that needs nothing else installed."""

from dataclasses import replace

import pytest
from mcbench.runs.profiles import BACKENDS

from mcbench.files import read_lines
from mcbench.runs.config import resolve
from mcbench.runs.sampling import sampler_arguments
from mcbench.runs.train import train, trainer_arguments


def test_a_run_with_continuous_batching_leaves_a_whole_record(tiny_profile, tmp_path):
    changes = {"backend": "transformers_continuous", "length_stages": "0:16,2:24"}
    run = train(resolve(tiny_profile, "microcoder", changes), tmp_path, lambda line: None)
    steps = read_lines(run.path / "steps.jsonl")
    assert run.state == "finished"
    assert [line["length/max_allowed"] for line in steps if "length/max_allowed" in line] == [
        16,
        24,
    ]
    mismatch = [line.get("sampling/sampling_logp_difference/max") for line in steps]
    assert max(mismatch[0], mismatch[2]) < 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_trainer_takes_every_backend(tiny_profile, tmp_path, backend):
    arguments = trainer_arguments(resolve(tiny_profile, "grpo", {"backend": backend}), tmp_path)
    assert arguments.use_vllm == backend.startswith("vllm")
    continuous = arguments.use_transformers_continuous_batching
    assert continuous == (backend == "transformers_continuous")


def test_the_server_is_where_the_profile_says(tiny_profile):
    there = replace(tiny_profile, backend="vllm_server", vllm_server_url="http://gpu7:8000")
    assert sampler_arguments(there)["vllm_server_base_url"] == "http://gpu7:8000"
    ids = {resolve(profile, "grpo").run_id for profile in (there, replace(there, vllm_sleep=True))}
    assert len(ids) == 1
