"""Runs with an engine in the process (``tests/fake_vllm.py``): sharded, several on a machine."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mcbench.errors import UserError
from mcbench.experiments.experiments import PlannedRun
from mcbench.grpo.trl_compat import RepairedGRPOTrainer
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.scale import process
from mcbench.scale.launch import LAUNCH_CONFIGS, launch, train_here, train_launched
from mcbench.scale.machine import GIB, gpu_here, visible_gpus
from mcbench.scale.process import REFUSED
from mcbench.scale.ray_pool import RayPool, _train_on_ray
from mcbench.scale.sweep import task_of, train_all

HERE = Path(__file__).parent
ENGINE = {"backend": "vllm_colocate", "vllm_sleep": True}


@pytest.fixture
def found_processes(monkeypatch):
    """The started processes find the scripts of this folder."""
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """Has the driver list GPUs: names and MiB."""

    def listed(*devices):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        lines = "\n".join(f"{name}, {mib}" for name, mib in devices)
        indices = "\n".join(map(str, range(len(devices))))
        tool = tmp_path / "bin" / "nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(
            f'#!/bin/sh\ncase "$1" in *index*) echo "{indices}";; *) echo "{lines}";; esac\n'
        )
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)

    return listed


@pytest.mark.slow
def test_a_sharded_run_in_bf16_samples_and_evaluates_with_its_engine(
    tiny, tmp_path, found_processes
):
    changes = {**tiny, **ENGINE, "precision": "bf16", "per_device_batch_size": 2, "test_limit": 2}
    config = resolve("tiny", "grpo", {**changes, "eval_every": 3, "temperature": 1.0})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_dict()))
    command = [sys.executable, "-m", "engined", "train", "--config", str(path), "--runs-dir"]
    command += [str(tmp_path / "runs"), "--launch", "fsdp2", "--processes", "2"]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    said = done.stdout
    assert done.returncode == 0, said[-3000:] + done.stderr[-3000:]
    assert said.count("this process holds 50% of the model") == 2
    # In each process: evaluations before training, at step 3, which is inside a generation, and at
    # the end, and two generations.
    assert said.count("samples up to 12 tokens") == 2 * (3 + 2)
    record = read_run(RunStore(tmp_path / "runs").run(config).path)
    assert record.evals["step"].tolist() == [0, 0, 3, 3, 4, 4]
    # The reference is the same model on every process, whichever scores a response.
    apart = re.findall(r"step 0: reference apart by ([\d.]+)", said)
    assert list(map(float, apart)) == [0.0, 0.0]
    kinds = re.findall(r"log-probabilities (\S+), ([\d.]+) of them as in bf16", said)
    assert {kind for kind, _ in kinds} == {"torch.float32"}
    assert max(float(share) for _, share in kinds) < 0.95
    # Float32 weights in the engine, bf16 arithmetic here: the difference is rounding.
    mismatch = record.steps["sampling/sampling_logp_difference/max"].dropna()
    assert len(mismatch) == 2
    assert mismatch.max() < 0.3


def test_only_a_reference_that_every_process_has_is_taken(monkeypatch, tmp_path):
    shipped = yaml.safe_load(LAUNCH_CONFIGS["fsdp2"].read_text())["fsdp_config"]
    assert shipped["fsdp_cpu_ram_efficient_loading"] is False
    from mcbench.grpo import MicroCoderGRPOConfig

    args = MicroCoderGRPOConfig(output_dir=str(tmp_path), beta=0.1, use_cpu=True, bf16=False)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_CPU_RAM_EFFICIENT_LOADING", "true")
    with pytest.raises(UserError, match="set it to false in the accelerate configuration"):
        RepairedGRPOTrainer("there is no such model", args)


@pytest.mark.slow
def test_runs_side_by_side_have_a_gpu_and_an_engine_each(
    tiny, tmp_path, gpus, found_processes, monkeypatch
):
    gpus(("NVIDIA H100 80GB HBM3", 81559), ("NVIDIA H100 80GB HBM3", 81559))
    changes = {**tiny, **ENGINE, "eval_every": 4, "test_limit": 2}
    planned = [
        PlannedRun("a", f"seed {seed}", resolve("tiny", settings=changes, seed=seed))
        for seed in range(3)
    ]
    command = process.command
    monkeypatch.setattr(
        process,
        "command",
        lambda task: ["engined" if part == "mcbench" else part for part in command(task)],
    )
    lines, store = [], RunStore(tmp_path / "runs")
    train_all(planned, store, lines.append, workers=8)
    assert lines[0] == "training 3 runs, 2 side by side (not 8: 2 GPUs)"
    seen = [
        re.search(r"devices (.*)", (store.run(one.config).path / "output.log").read_text())[1]
        for one in planned
    ]
    assert sorted(seen[:2]) == ["0", "1"]
    assert seen[2] in ("0", "1")
    assert [store.run(one.config).state for one in planned] == ["finished"] * 3


def test_the_driver_says_which_gpus_there_are(gpus, monkeypatch):
    gpus(("NVIDIA H200", 143771), ("NVIDIA H200", 143771))
    here = gpu_here()
    assert (here.name, here.devices) == ("H200-141GB", 2)
    assert here.memory == 143771 * 2**20
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1a")
    assert visible_gpus() == ["GPU-1a"]
    gpus(("Unknown 9000", 24000))
    assert (gpu_here().name, gpu_here().memory) == ("Unknown 9000", 24000 * 2**20)
    monkeypatch.setenv("PATH", "/nowhere")
    assert (visible_gpus(), gpu_here()) == ([], None)


def test_a_run_that_does_not_fit_is_refused_before_it_is_placed(gpus, tmp_path):
    one = PlannedRun("one", "one", resolve("qwen3-4b"))
    gpus(("NVIDIA H100 80GB HBM3", 81559))
    with pytest.raises(UserError, match=r"one: qwen3-4b needs .* use --profile qwen3-4b-lora"):
        train_all([one], RunStore(tmp_path), print)
    with pytest.raises(UserError, match=r"one needs 8 GPUs and 1 are visible here"):
        train_all([one], RunStore(tmp_path), print, launch="fsdp2")


def test_ray_places_a_run_only_where_it_fits(gpus, tmp_path, monkeypatch):
    store = RunStore(tmp_path)
    task = task_of(PlannedRun("one", "one", resolve("qwen3-4b")), store, None)
    pool = RayPool("auto", [task], store)

    def check(*nodes):
        monkeypatch.setattr(pool, "_nodes", lambda: [{"CPU": 8.0, **node} for node in nodes])
        pool._check_room()

    small, large = ({"GPU": 8.0, f"accelerator_type:{kind}": 1.0} for kind in ("H100", "H200"))
    with pytest.raises(UserError, match="needs 8 CPUs and 1 GPUs, which no machine"):
        check({})
    with pytest.raises(UserError, match=r"one: qwen3-4b needs .* use --launch fsdp2 --processes 8"):
        check({}, small)
    check(small, large)
    check(small, {"GPU": 1.0, "accelerator_type:L4": 1.0})  # of a kind that is not known here
    # Where Ray has placed it, the GPUs there are asked.
    gpus(("NVIDIA H100 80GB HBM3", 81559))
    (tmp_path / "marker").touch()
    monkeypatch.chdir(tmp_path)  # an actor of Ray's changes its folder
    (ended,) = _train_on_ray(task, str(tmp_path / "marker"), str(tmp_path))
    assert ended.status == REFUSED
    assert ended.last.startswith("one: qwen3-4b needs")


def test_several_gpus_without_a_launch_are_refused_with_the_command(gpus, tmp_path):
    gpus(*[("NVIDIA H100 80GB HBM3", 81559)] * 8)
    with pytest.raises(UserError, match=r"--launch ddp --processes 8, or one with CUDA_VISIBLE"):
        train_here(resolve("tiny"), str(tmp_path))
    with pytest.raises(UserError, match="--launch fsdp2 --processes 8"):
        train_here(resolve("qwen3-4b"), str(tmp_path))
    gpus(*[("NVIDIA H100 80GB HBM3", 81559)] * 4)
    with pytest.raises(UserError, match=r"8 processes need a GPU each, and 4 .* --processes 4"):
        train_launched(resolve("qwen3-4b"), str(tmp_path), launch("fsdp2"))
    assert not list(tmp_path.glob("*/run.json"))
    assert gpu_here().memory > 79 * GIB
