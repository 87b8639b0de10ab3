"""The formulas against hand-computed numbers; what they say is compared with runs in
benchmarks/estimates.py.
"""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from mcbench.errors import UserError
from mcbench.runs.presets import PROFILES
from mcbench.runs.resolve import resolve
from mcbench.scale.estimate import estimate
from mcbench.scale.formulas import (
    Workload,
    decode_work,
    length_scale,
    mean_when_cut,
    update_work,
)
from mcbench.scale.machine import GIB, Machine, nominal_gpu, processor_here
from mcbench.scale.shapes import HUB_SHAPES, ModelShape, shape_of

SHAPE = ModelShape(8, 2, 2, 1, 4, 16, 10, tied=True)
PROCESSOR = Machine("bench", gpu=False, devices=1, cores=2, memory=1e9, base_memory=1000)
SLOW = Machine("slow", True, 1, 2, 1e9, 1000, flop_s=0.0, byte_s=0.0)  # launches alone take time


def test_parameters_are_those_of_the_models():
    assert shape_of("nano-s").parameters == 660_544
    assert shape_of("nano-m").parameters == 1_894_336
    sizes = {name: round(shape.parameters / 1e9, 2) for name, shape in HUB_SHAPES.items()}
    assert list(sizes.values()) == [1.72, 4.02, 7.62, 0.13, 0.13]
    assert shape_of("smollm2-135m").parameters == 134_515_008
    # 2 layers of q 8x8, k and v 8x4, o 8x8, three of 8x16, norms 2x8 and 2x4; embeddings, last norm
    assert SHAPE.parameters == 2 * (64 + 2 * 32 + 64 + 3 * 128 + 16 + 8) + 80 + 8
    assert SHAPE.lora_parameters(2) == 2 * 2 * (16 + 2 * 12 + 16 + 3 * 24)


def test_work_of_a_step_and_of_a_pass():
    matrices = 2 * 576 + 80
    layers, flops, moved = decode_work(SHAPE, rows=3, context=5, width=4, growing=True)
    assert layers == 4
    assert flops == 3 * (2 * matrices + 2 * 4 * 8 * 5)
    assert moved == matrices * 4 + 3 * 3 * 5 * 16 * 4 + 3 * 10 * 16
    _, plain, _ = update_work(SHAPE, 2, 6, 4, 4, checkpointing=False)
    _, again, _ = update_work(SHAPE, 2, 6, 4, 4, checkpointing=True)
    forward = 2 * 6 * (2 * 2 * 576 + 2 * 4 * 8 * 3)
    assert plain == 3 * forward + 8 * 80 * 2 * 4
    assert again - plain == forward


def test_lengths_cut_at_the_limit_have_the_mean_they_were_given():
    scale = length_scale(52, 96)
    assert mean_when_cut(scale, 96) == pytest.approx(52)
    assert mean_when_cut(scale, 192) == pytest.approx(65.04, abs=0.01)


def estimated(machine=PROCESSOR, processes=1, sharding="none", profile="nano", **changes):
    config = resolve(profile, "microcoder", changes)
    load = Workload(prompt=20, mean_length=50, tests=4, eval_problems=120)
    return estimate(config, machine, processes, sharding, workload=load)


def test_a_cycle_is_generation_scoring_and_updates():
    time = estimated(SLOW).time
    layers = 3 + 2
    assert time.generation == pytest.approx(97 * layers * 3e-4)  # the prompt and each step
    one_pass = 4 * layers * 9e-4  # in four groups by length
    assert time.scoring == pytest.approx(8 * one_pass / 3)  # 128 responses, 16 a pass
    assert (time.update, time.updates_per_cycle) == (pytest.approx(one_pass), 8)
    assert time.reward == pytest.approx(128 * (0.02 + 2.5 * 0.05) / 2)  # half of them fail at once
    assert time.cycle == pytest.approx(time.generation + time.reward + 8 * one_pass)
    assert (time.cycles, time.evaluations) == (20, 6)
    engine = estimated(SLOW, backend="vllm_colocate").time
    assert engine.generation == pytest.approx(96 * layers * 1e-5)  # recorded graphs


def test_arithmetic_and_memory_traffic_add_to_the_launches():
    gpu = nominal_gpu("H100-80GB")
    whole = estimated(gpu, profile="qwen3-4b").time
    for name in ("flop_s", "byte_s"):
        half = estimated(replace(gpu, **{name: getattr(gpu, name) / 2}), profile="qwen3-4b").time
        assert whole.update / 2 < half.update < whole.update
        assert whole.generation / 2 < half.generation < whole.generation


def test_a_pass_of_each_response_costs_their_mean_length():
    gpu = nominal_gpu("H100-80GB")
    padded, grouped, single = (
        estimated(gpu, profile="qwen3-4b", length_groups=groups).time.update for groups in (1, 2, 8)
    )
    assert single < 0.1 * padded  # 50 of 8,192 tokens
    assert single < grouped < padded


def test_a_processor_has_no_time_of_its_own():
    assert estimated().time is None
    here = processor_here()
    assert (here.gpu, here.with_devices(2).devices) == (False, 2)
    assert here.memory > GIB > here.base_memory


def test_memory_of_training_all_weights_adapters_and_shares():
    n = shape_of("nano-s").parameters
    memory = estimated().memory
    assert (memory.weights, memory.gradients, memory.optimizer) == (4 * n, 4 * n, 8 * n)
    kept = 1000 + 4 * n + 8 * n
    assert memory.peak == kept + max(4 * n + memory.update, memory.sampling, memory.evaluation)
    adapted = estimated(lora_rank=4).memory
    trained = shape_of("nano-s").lora_parameters(4)
    assert (adapted.weights, adapted.optimizer) == (4 * (n + trained), 8 * trained)
    eighth = estimated(processes=8, sharding="zero2", per_device_batch_size=2).memory
    assert (eighth.weights, eighth.gradients, eighth.optimizer) == (4 * n, n / 2, n)
    assert estimated(processes=8, sharding="fsdp2", per_device_batch_size=2).memory.weights == n / 2
    assert estimated(beta=0.01).memory.reference == 4 * n
    # TRL shards a reference as one unit; DDP reduces copies of the gradients.
    divided = {"processes": 8, "sharding": "fsdp2", "per_device_batch_size": 2, "beta": 0.01}
    assert (memory.gathered, estimated(**divided).memory.gathered) == (0, 4 * n)
    assert estimated(processes=8, per_device_batch_size=2).memory.gradients == 8 * n
    again = [
        estimated(gradient_checkpointing=True, length_groups=groups).memory.update
        for groups in (16, 4, 1)
    ]
    assert sorted([*again, memory.update]) == [*again, memory.update]
    with pytest.raises(UserError, match=r"unknown sharding 'zero1'.*; allowed: fsdp2"):
        estimated(sharding="zero1")
    with pytest.raises(UserError, match="'vllm_colocate' is not estimated on a CPU"):
        estimated(backend="vllm_colocate")


def test_a_checkpoint_is_weights_and_moments_and_under_fsdp2_the_weights_again():
    gpu, n = nominal_gpu("H100-80GB"), HUB_SHAPES["Qwen/Qwen3-4B-Instruct-2507"].parameters
    for processes, sharding, number in ((1, "none", 12), (8, "zero3", 12), (8, "fsdp2", 16)):
        time = estimated(gpu, processes, sharding, profile="qwen3-4b").time
        assert time.checkpoint == pytest.approx(number * n / 1e9)
        assert time.checkpoints == 15


def test_an_engine_that_does_not_sleep_stays_beside_the_update():
    gpu, given = nominal_gpu("H200-141GB"), {"vllm_memory": 0.3}
    asleep = estimated(gpu, profile="qwen3-4b", **given).memory
    awake = estimated(gpu, profile="qwen3-4b", vllm_sleep=False, **given).memory
    assert (asleep.engine, awake.engine) == (0, pytest.approx(0.3 * 141e9))
    assert awake.peak - asleep.peak == pytest.approx(0.3 * 141e9)


def test_the_engine_gets_what_is_left_beside_what_stays():
    gpu = nominal_gpu("H200-141GB")
    asleep, awake = (
        estimated(gpu, profile="qwen3-1.7b", vllm_sleep=sleeps) for sleeps in (True, False)
    )
    assert asleep.fits
    assert awake.fits
    assert 0.3 < awake.engine_share < asleep.engine_share <= 0.8
    assert estimated(gpu, profile="qwen3-1.7b", vllm_memory=0.25).engine_share == 0.25


@pytest.mark.parametrize("name", [name for name in PROFILES if name.startswith("qwen")])
def test_evaluation_costs_at_most_a_fifth_of_the_training(name):
    """At the size of LiveCodeBench v6 (1,055 problems), on a node of eight."""
    config, node = resolve(name), nominal_gpu("H100-80GB", 8, cores=64)
    load = Workload(500, 0.55 * config.max_completion_length, tests=20, eval_problems=1055)
    time = estimate(config, node, 8, "fsdp2", workload=load).time
    assert time.evaluations * time.evaluation <= time.cycles * time.cycle / 5


def test_a_small_cache_makes_responses_wait():
    gpu = nominal_gpu("H100-80GB")
    roomy = estimated(gpu, profile="qwen3-4b", vllm_memory=0.9).time.generation
    tight = estimated(gpu, profile="qwen3-4b", vllm_memory=0.12).time.generation
    assert tight > roomy


@pytest.mark.parametrize("name", [name for name in PROFILES if name.startswith("qwen")])
def test_every_gpu_profile_fits_somewhere(name):
    small, large = nominal_gpu("H100-80GB"), nominal_gpu("H200-141GB")
    config = resolve(name, "microcoder")
    node = estimate(config, small.with_devices(8), 8, "fsdp2")
    assert node.fits
    assert estimate(config, large).fits or not config.lora_rank
    alone = estimate(config, small)
    assert node.time.total < alone.time.total / 5
    assert alone.fits or config.lora_rank is None


def test_the_full_set_at_the_smaller_gpu_profile_is_what_the_benchmark_says():
    folder = Path(__file__).parents[2] / "benchmarks"
    benchmark = runpy.run_path(str(folder / "full_set.py"))
    node = nominal_gpu("H100-80GB", 8, cores=64)
    found = benchmark["full_set"]("qwen3-1.7b", node, benchmark["MEAN_SHARE"])
    assert found == json.loads((folder / "full_set.json").read_text())["qwen3-1.7b"]
