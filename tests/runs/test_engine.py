"""A run whose engine is in its process (``tests/fake_vllm.py``): evaluation, random state, resume,
the importance correction.
"""

import fake_vllm
import numpy as np
import pytest
from test_train_resume import assert_same_record

from mcbench.errors import UserError
from mcbench.files import read_lines
from mcbench.grpo import RECIPES
from mcbench.runs import canonical
from mcbench.runs.arguments import trainer_arguments
from mcbench.runs.config import CORRECTION
from mcbench.runs.presets import PROFILES
from mcbench.runs.resolve import described, resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.runs.train import train

STEPS = 6


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    """vLLM's place is taken; every run begins without an engine, as its process would."""
    from trl.generation import vllm_generation

    for name in ("LLM", "SamplingParams", "is_vllm_available", "empty_cache"):
        monkeypatch.setattr(vllm_generation, name, None, raising=False)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")  # TRL sets some of them for good
        monkeypatch.delenv(name)
    fake_vllm.install()
    fake_vllm.ENGINES.clear()


@pytest.fixture
def config(tiny_settings):
    changes = {"backend": "vllm_colocate", "vllm_sleep": True, "learning_rate": 1e-3}
    return resolve("tiny", "grpo", {**tiny_settings, **changes}, steps=STEPS)


@pytest.mark.slow
def test_a_resumed_run_is_the_uninterrupted_one(config, tmp_path):
    whole = train(config, tmp_path / "whole", lambda line: None)
    fake_vllm.ENGINES.clear()

    def stop(line):
        if "step 4/" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "parts", stop)
    fake_vllm.ENGINES.clear()
    lines = []
    parts = train(config, tmp_path / "parts", lines.append)
    assert any("resuming after step 2" in line for line in lines)
    assert_same_record(whole.path, parts.path)


@pytest.mark.slow
def test_evaluation_samples_with_the_engine_and_leaves_the_random_state(config, tmp_path):
    often = config.with_settings({"eval_every": 1})
    train(often, tmp_path, lambda line: None)
    asked = fake_vllm.ENGINES[0].asked
    assert [one.max_tokens for one in asked if one.temperature == config.eval_temperature]
    assert {(one.detokenize, one.flat_logprobs) for one in asked} == {(False, True)}
    fake_vllm.ENGINES.clear()
    seldom = train(config.with_settings({"eval_every": STEPS}), tmp_path, lambda line: None)
    one = RunStore(tmp_path).run(often)
    for step in read_run(one.path).completion_steps():
        same = (read_run(run.path).completions(step).to_json() for run in (one, seldom))
        assert len(set(same)) == 1


def test_some_problems_are_evaluated_between_the_ends_of_a_run(config, tmp_path):
    fewer = config.with_settings({"small_eval_limit": 2, "small_eval_every": 2, "eval_every": 6})
    run = train(fewer, tmp_path, lambda line: None)
    lines = read_lines(run.path / "evals.jsonl")
    counts = [(line["step"], len(line["per_problem"])) for line in lines[::2]]
    whole = len(lines[0]["per_problem"])
    assert counts == [(0, whole), (0, 2), (2, 2), (4, 2), (6, whole), (6, 2)]
    hashes = {len(line["per_problem"]): line["dataset_hash"] for line in lines}
    assert len(set(hashes.values())) == 2
    few = {row["id"]: row["passes"] for row in lines[2]["per_problem"]}
    assert few.items() <= {r["id"]: r["passes"] for r in lines[0]["per_problem"]}.items()


@pytest.mark.parametrize("changes", [{}, {"sampler_noise": 0.5}])
def test_weights_are_logged_by_length_and_kept_with_the_responses(config, tmp_path, changes):
    mode = {"vllm_importance_sampling_mode": "sequence_mask"}
    run = train(config.with_settings({**changes, **mode}), tmp_path, lambda line: None)
    weights = np.concatenate([r["weight"] for r in map(read_run(run.path).completions, (1, 3, 5))])
    if changes:
        assert (weights == 0).any()
    else:  # the engine is in float32, as the policy: nothing to correct
        np.testing.assert_allclose(weights, 1.0, atol=1e-3)
    first = read_lines(run.path / "steps.jsonl")[0]
    assert first["correction/weight"] == pytest.approx(weights[: len(weights) // 3].mean())


# The settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [name for name in PROFILES if name.startswith("qwen")])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_gpu_profile_truncates_each_token_at_two(profile, recipe, tmp_path):
    arguments = trainer_arguments(resolve(profile, recipe), tmp_path)
    assert arguments.vllm_importance_sampling_correction
    assert arguments.vllm_importance_sampling_mode == "token_truncate"
    assert arguments.vllm_importance_sampling_clip_max == 2.0
    assert arguments.vllm_importance_sampling_clip_min is None
    thinks = {"enable_thinking": False} if "qwen3-1.7b" in profile else None
    assert arguments.chat_template_kwargs == thinks


def test_the_correction_is_part_of_the_id_where_it_acts():
    masked = {"vllm_importance_sampling_mode": "sequence_mask"}
    with_vllm = [described("qwen3-4b", settings=changes).run_id for changes in ({}, masked)]
    assert len(set(with_vllm)) == 2
    usual = described("qwen3-4b")
    corrected = {name: getattr(usual, name) for name in CORRECTION}
    assert corrected.items() <= canonical.content(usual)["profile"].items()
    assert not set(CORRECTION) & canonical.content(described("nano"))["profile"].keys()
    noisy = described("nano", settings={**masked, "sampler_noise": 0.1})
    assert noisy.run_id != described("nano", settings={"sampler_noise": 0.1}).run_id
    with pytest.raises(UserError, match="no effect with backend 'transformers'"):
        described("nano", settings=masked)
    with pytest.raises(UserError, match=r"top_p 0\.9 cannot be corrected for"):
        described("qwen3-4b", settings={"top_p": 0.9, "beta": 0.1})
    assert described("qwen3-4b", settings={"top_p": 0.9}).top_p == 0.9  # both are of what it keeps
