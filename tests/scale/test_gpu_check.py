"""What ``mcbench doctor --gpu`` does, on the processor, and what it says of records."""

import os
import re
import shlex
import time
from pathlib import Path
from typing import get_args

import pytest

from mcbench.cli import app, main
from mcbench.runs.config import Backend
from mcbench.runs.presets import PROFILES
from mcbench.runs.resolve import resolve
from mcbench.scale.estimate import estimate
from mcbench.scale.gpu_check import STEPS, cut, gpu_report, most_memory_used
from mcbench.scale.launch import LAUNCH_CONFIGS
from mcbench.scale.machine import GPUS, known_gpu
from mcbench.scale.measure import PUBLISHED

ON_A_GPU = {"transformers"}  # has run on one: docs/lab-log.md
PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


def test_without_a_gpu_it_says_so(capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["doctor", "--gpu"]) == 2
    assert "no GPU is visible here" in capsys.readouterr().err


def test_the_page_lists_what_only_a_gpu_can_show_with_commands_that_are_taken():
    table = PAGE.read_text().partition("| never run without a GPU | command |\n|---|---|\n")[2]
    rows = [line.strip("|").split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    named = {name for cell, _ in rows for name in re.findall("`(.+?)`", cell)}
    taken = []
    for text in (text for _, cell in rows for text in re.findall("`(.+?)`", cell)):
        program, name, *arguments = shlex.split(text)
        if program == "mcbench":
            taken.append(app.get_command(None, name).make_context(name, arguments).params)
        else:
            assert (PAGE.parents[1] / name).is_file()
    launches = LAUNCH_CONFIGS.keys() - {"cpu"}
    assert named >= launches | {"vllm_sleep", "vllm_memory", *get_args(Backend)} - ON_A_GPU
    assert {one.get("launch") for one in taken} >= launches
    small = {one["profile"] for one in taken if one.get("gpu")}
    for name in (name for name in PROFILES if name.startswith("qwen")):
        alone = any(estimate(resolve(name), known_gpu(kind)).fits for kind in GPUS)
        assert name in (small if alone else {one["profile"] for one in taken})


def test_a_cut_run_has_passes_as_large_as_the_profiles():
    whole = resolve("qwen3-4b")
    small = cut(whole, 4096)
    assert small.per_device_batch_size == whole.per_device_batch_size
    assert (small.batch().updates_per_generation, small.steps) == (2, STEPS)
    assert (small.max_completion_length, small.longest_response) == (4096, 4096)


def test_the_most_memory_that_was_in_use_is_found(tmp_path, monkeypatch):
    tool, now = tmp_path / "nvidia-smi", tmp_path / "now"
    tool.write_text(f"#!/bin/sh\necho '[N/A]'; cat {now}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    now.write_text("300\n")
    with most_memory_used("0") as used:
        while not used[0]:
            time.sleep(0.01)
        now.write_text("200\n")
    assert used == [300 * 2**20]


@pytest.mark.slow
def test_a_run_of_random_weights_is_killed_resumed_and_read(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"  # the driver of one GPU, where torch sees none
    tool.write_text(
        '#!/bin/sh\ncase "$*" in *name*) echo "NVIDIA H200, 143771";; '
        "*index*) echo 0;; *) echo 300;; esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    small = {
        "model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 176, "vocab_size": 1000,
        "tie_word_embeddings": True,
    }  # fmt: skip
    monkeypatch.setitem(PUBLISHED, "nobody/none", small)  # more words than the tokenizer has
    monkeypatch.setitem(PROFILES, "nobody", {**PROFILES["tiny"], "model": "nobody/none"})
    said: list[str] = []
    assert gpu_report("nobody", 12, said.append) == 0
    told = "\n".join(said)
    assert "random weights of its shape take its place" in told
    assert "killed and resumed 1 time(s), 4 updates" in told
    assert "sampled tokens/s" in told  # by responses that are read before their folder goes
