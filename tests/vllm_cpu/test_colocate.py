"""Colocated vLLM: whole runs, stage changes, weights in sync, LoRA."""

import gc
from importlib.util import find_spec

import pandas as pd
import pytest
from checks import assert_sampled_at, generations, mismatch, recorded, train_nano
from trl.generation.vllm_generation import VLLMGeneration
from vllm.distributed import cleanup_dist_env_and_memory

from mcbench.files import read_lines
from mcbench.grpo.correction import weight_by_length
from mcbench.runs.resolve import resolve
from mcbench.runs.train import train

# A step far larger than any that trains: weights from before it explain the samples after it badly.
LARGE_STEP = 3e-3


@pytest.fixture(autouse=True)
def no_engine_left():
    yield
    gc.collect()
    cleanup_dist_env_and_memory()


def test_a_run_leaves_a_whole_record(nano_changes, tmp_path):
    changes = {**nano_changes, "backend": "vllm_colocate"}
    run = train_nano({**changes, "length_stages": "0:48,2:64"}, tmp_path)
    evals = read_lines(run.path / "evals.jsonl")
    assert run.state == "finished"
    assert run.meta["versions"]["trl"].startswith("1.16.")
    assert [(line["step"], line["max_completion_length"]) for line in evals] == [
        (0, 96), (0, 192), (4, 96), (4, 192),
    ]  # fmt: skip
    assert evals[0]["pass_at_1"] > 0  # a trained model, sampled by vLLM, solves something
    longest = [responses["length"].max() for responses in generations(run)]
    assert longest[0] <= 48
    assert longest[1] <= 64
    assert recorded(run, "length/max_allowed") == [48, 64]
    assert len(mismatch(run)) == 2


def test_a_stage_changes_temperature_and_length_of_vllm(
    nano_changes, constant_model, logits, float32_engine, tmp_path
):
    stages = {"temperature_stages": "0:0.5,2:1.5", "length_stages": "0:64,2:96"}
    changes = {**nano_changes, **stages, "backend": "vllm_colocate", "learning_rate": 1e-12}
    run = train_nano({**changes, "model": str(constant_model), "num_generations": 16}, tmp_path)
    cold, warm = generations(run)
    assert (set(cold["length"]), set(warm["length"])) == ({64}, {96})
    assert_sampled_at(cold, logits, 0.5)
    assert_sampled_at(warm, logits, 1.5)
    assert recorded(run, "temperature") == [0.5, 1.5]
    # The log-probabilities of vLLM and of the policy are both of softmax(logits / T).
    assert max(mismatch(run)) < 1e-4


@pytest.mark.parametrize("lora_rank", [None, 8])
def test_vllm_has_the_weights_of_every_update(nano_changes, float32_engine, tmp_path, lora_rank):
    changes = {**nano_changes, "backend": "vllm_colocate", "lora_rank": lora_rank}
    run = train_nano({**changes, "learning_rate": LARGE_STEP}, tmp_path, steps=8)
    assert len(mismatch(run)) == 4
    assert max(mismatch(run)) < 1e-3


def test_without_the_sync_the_record_shows_it(nano_changes, float32_engine, tmp_path, monkeypatch):
    monkeypatch.setattr(VLLMGeneration, "sync_weights", lambda self: None)
    changes = {**nano_changes, "backend": "vllm_colocate", "learning_rate": LARGE_STEP}
    first, *later = mismatch(train_nano(changes, tmp_path, steps=8))
    assert first < 1e-3
    assert min(later) > 0.05


MODES = {
    "none": {"vllm_importance_sampling_correction": False},
    "token_truncate": {},
    "sequence_mask": {
        "vllm_importance_sampling_mode": "sequence_mask",
        "vllm_importance_sampling_clip_max": 3.0,
    },
}


def test_the_weight_that_each_correction_leaves_by_length(nano_changes, one_engine, tmp_path):
    """Of vLLM's own 16-bit log-probabilities, and with the noise of 8,192 tokens on 96; printed."""
    nano_changes |= {"test_limit": 1, "eval_attempts": 1, "eval_lengths": [96]}
    found = {}
    for name, noise in (*((name, 0.37) for name in MODES), ("sequence_mask", 0.0)):
        changes = {**nano_changes, **MODES[name], "num_generations": 16, "sampler_noise": noise}
        run = train_nano({**changes, "backend": "vllm_colocate"}, tmp_path)
        batches, logged = generations(run), recorded(run, "correction/weight")
        if name == "none":
            assert not logged
            assert not any("weight" in batch for batch in batches)
            continue
        assert logged == pytest.approx([batch["weight"].mean() for batch in batches])
        every = pd.concat(batches)
        found[name, noise] = weight_by_length(
            every["weight"].to_numpy(), every["length"].to_numpy(), 96
        )
        print(name, noise, len(every), f"{max(mismatch(run)):.3f}", found[name, noise])
    for key in (("token_truncate", 0.37), ("sequence_mask", 0.0)):
        assert found[key]["correction/weight"] == pytest.approx(1, abs=0.05)
    masked = found["sequence_mask", 0.37]
    assert masked["correction/weight_to_100"] < 0.25 < masked["correction/weight_to_25"]


@pytest.mark.skipif(find_spec("gguf") is None, reason="gguf is missing: pip install -e '.[smol]'")
def test_a_pretrained_model_keeps_its_weight_at_every_length(float32_engine, tmp_path):
    """SmolLM2 with its chat template and its padding that is the end token."""
    changes = {
        "backend": "vllm_colocate", "train_batch_size": 4, "ppo_mini_batch_size": 2,
        "num_generations": 4, "per_device_batch_size": 4, "max_completion_length": 48,
        "eval_lengths": [48], "eval_attempts": 1, "test_limit": 1, "small_eval_every": None,
    }  # fmt: skip
    config = resolve("smollm2-135m", "microcoder", changes, steps=4)
    run = train(config, tmp_path, progress=lambda line: None)
    lengths = pd.concat(generations(run))["length"]
    assert lengths.min() < 48  # some end, some are cut
    assert lengths.max() == 48
    assert max(mismatch(run)) < 1e-3
    logged = {name for line in read_lines(run.path / "steps.jsonl") for name in line}
    weights = [one for one in logged if one.startswith("correction/weight_to_")]
    assert weights
    for name in weights:
        assert recorded(run, name) == pytest.approx([1] * len(recorded(run, name)), abs=0.01)
