"""What is measured without a device against real tensors and hand-computed numbers; runs are
compared in benchmarks/estimates.py.
"""

import gc

import pytest
import torch
from transformers import AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from mcbench.errors import UserError
from mcbench.grpo.shared_prefix import SharedPrefix
from mcbench.runs.presets import PROFILES
from mcbench.runs.resolve import resolve
from mcbench.scale.estimate import estimate
from mcbench.scale.machine import GIB, Machine, known_gpu, processor_here
from mcbench.scale.measure import (
    PUBLISHED,
    Allocated,
    Pass,
    architecture,
    sampling_bytes,
    size_of,
    update_bytes,
)

PROCESSOR = Machine("bench", gpu=False, devices=1, memory=1e9)
N = 660_544  # parameters of nano-s
ON_GPUS = [name for name in PROFILES if name.startswith("qwen")]


def test_parameters_are_those_of_the_models():
    assert (size_of("nano-s").parameters, size_of("nano-m").parameters) == (N, 1_894_336)
    sizes = {name: round(size_of(name).parameters / 1e9, 2) for name in PUBLISHED}
    assert list(sizes.values()) == [1.72, 4.02, 7.62, 0.13, 0.13]
    adapted = size_of("Qwen/Qwen3-1.7B", rank=2)
    h, q, k, i = 2048, 2048, 1024, 6144
    sides = 2 * (h + q) + 2 * (h + k) + 3 * (h + i)
    assert (adapted.parameters, adapted.trained) == (1_720_574_976, 28 * 2 * sides)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_an_update_holds_what_real_tensors_do(checkpointing):
    """All layers of a committed model and all passes, where the measurement takes two of each."""
    rows, prompt, length, groups = 12, 20, 60, 4
    model = AutoModelForCausalLM.from_config(architecture("nano-s"), dtype=torch.float32)
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    ids = torch.randint(2, 100, (rows, prompt + length))
    labels = ids.masked_fill(torch.arange(prompt + length) < prompt, -100)
    gc.collect()
    with Allocated() as held:
        scored = [
            model(input_ids=own, labels=wanted, fused_lm_head=True).log_probs
            for own, wanted in zip(ids.chunk(groups), labels.chunk(groups), strict=True)
        ]
        torch.cat(scored).mean().backward()
    work = Pass("nano-s", None, rows, prompt, length, groups, checkpointing, bf16=False)
    assert update_bytes(work) == pytest.approx(held.peak, rel=0.1)


def test_an_update_of_one_sequence_holds_what_real_tensors_do():
    """Of prompts that all differ."""
    rows, prompt, length = 12, 20, 60
    model = AutoModelForCausalLM.from_config(architecture("nano-s"), dtype=torch.float32).train()
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    ids = torch.randint(2, 100, (rows, prompt + length))
    gc.collect()
    with Allocated() as held:
        shared = SharedPrefix(model, length, 1.0, ())
        found = shared(ids, torch.ones_like(ids), labels=ids, fused_lm_head=True)
        found.log_probs.mean().backward()
    work = Pass("nano-s", None, rows, prompt, length, 4, False, bf16=False, shared=True)
    assert update_bytes(work) == pytest.approx(held.peak, rel=0.1)


def test_sampling_holds_a_cache_of_all_tokens():
    config = architecture("nano-s")
    token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
    found = sampling_bytes("nano-s", 8, 200, False)
    assert 8 * 200 * token < found < 8 * 200 * token * (1 + 2 / config.num_hidden_layers) + 2**20


def estimated(machine=PROCESSOR, processes=1, sharding="none", profile="nano", **changes):
    return estimate(resolve(profile, "microcoder", changes), machine, processes, sharding)


def test_what_stays_and_what_is_shared():
    found = estimated()
    assert found.kept == {"base": 0.625 * GIB, "weights": 4 * N, "optimizer": 8 * N}
    assert set(found.passing) == {"gradients and update", "sampling", "evaluation"}
    assert found.peak == sum(found.kept.values()) + max(found.passing.values())
    adapted, trained = estimated(lora_rank=4).kept, size_of("nano-s", 4).trained
    assert (adapted["weights"], adapted["optimizer"]) == (4 * (N + trained), 8 * trained)
    small = {"processes": 8, "per_device_batch_size": 2}
    whole, divided = (estimated(sharding=name, **small) for name in ("none", "fsdp2"))
    assert (whole.kept["weights"], whole.kept["optimizer"]) == (4 * N, 8 * N)
    assert (divided.kept["weights"], divided.kept["optimizer"]) == (N / 2, N)
    # DDP reduces copies of the gradients, FSDP2 divides them and gathers two layers of weights.
    reduced = whole.passing["gradients and update"] - divided.passing["gradients and update"]
    assert reduced == pytest.approx((8 - 0.5) * N - 2 * 4 * size_of("nano-s").layer)
    assert estimated(beta=0.01).kept["reference"] == 4 * N
    gathered = estimated(sharding="fsdp2", beta=0.01, **small).passing
    assert gathered["reference gathered and scoring"] > 4 * N
    with pytest.raises(UserError, match=r"unknown sharding 'zero1'.*; allowed: fsdp2"):
        estimated(sharding="zero1")
    with pytest.raises(UserError, match="'vllm_colocate' is not estimated on a CPU"):
        estimated(backend="vllm_colocate")


def test_an_update_takes_more_the_longer_and_wider_and_less_where_computed_again():
    def update(**changes):
        return estimated(profile="nano-m", **changes).passing["gradients and update"]

    assert update(max_completion_length=192) > 1.5 * update()
    assert update() > 1.5 * update(per_device_batch_size=8)
    assert update(gradient_checkpointing=True) < update()


def test_the_engine_gets_what_is_left_beside_what_stays():
    gpu = known_gpu("H200-141GB")
    asleep, awake = (
        estimated(gpu, profile="qwen3-1.7b", vllm_sleep=sleeps) for sleeps in (True, False)
    )
    assert asleep.fits
    assert awake.fits
    assert 0.3 < awake.engine_share < asleep.engine_share <= 0.8
    assert ("engine" in awake.kept, "engine" in asleep.passing) == (True, True)
    assert estimated(gpu, profile="qwen3-1.7b", vllm_memory=0.25).engine_share == 0.25


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_GPUS)
def test_every_gpu_profile_fits_somewhere(name):
    config, small = resolve(name, "microcoder"), known_gpu("H100-80GB", 8)
    assert estimate(config, small, 8, "fsdp2").fits
    assert estimate(config, known_gpu("H200-141GB")).fits or not config.lora_rank
    assert estimate(config, small).fits or config.lora_rank is None


def test_a_size_that_is_not_known_is_said(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(UserError, match="is no decoder with layers but a t5"):
        size_of(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "nobodys"}')
    with pytest.raises(UserError, match="nobodys"):
        size_of(str(tmp_path))
    with pytest.raises(UserError, match="'nobody/none' is not known without its files"):
        size_of("nobody/none")
    assert processor_here().memory > GIB
