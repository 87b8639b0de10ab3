from collections import namedtuple

import pytest

from mcbench.runs.presets import PROFILES
from mcbench.scale import doctor
from mcbench.scale.doctor import Check
from mcbench.scale.machine import GIB, known_gpu


def texts(found, state):
    return [check.text for check in found if check.state == state]


@pytest.mark.parametrize(
    ("version", "state"), [("0.21.0", "bad"), ("0.29.0", "ok"), ("0.31.0", "ok"), ("0.32.0", "bad")]
)
def test_vllm_is_held_against_the_range_of_trl(monkeypatch, version, state):
    installed = {"vllm": version, "trl": "1.16.0", "ray": None}
    monkeypatch.setattr(doctor, "version_of", installed.get)
    (line,) = [text for text in texts(doctor._engines(), state) if text.startswith("vllm")]
    assert version in line
    assert ("pip install" in line) == (state == "bad")


def profiles_on(monkeypatch, machine, free_gib=10_000):
    usage = namedtuple("Usage", "total used free")(0, 0, free_gib * GIB)
    monkeypatch.setattr(doctor, "machine", lambda: machine)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(doctor, "_files_missing", lambda config: [])
    monkeypatch.setattr(doctor, "version_of", lambda name: "0.31.0")
    found = list(doctor.profile_checks())
    return {check.text.partition(":")[0]: check for check in found}


@pytest.mark.slow
def test_without_a_gpu_a_gpu_profile_says_which_would_do(monkeypatch):
    found = profiles_on(monkeypatch, doctor.processor_here())
    assert found["nano"].state == "ok"
    assert found["nano"].text.startswith("nano: mcbench train --profile nano (needs ")
    assert "one H200-141GB" in found["qwen3-4b"].text
    assert "eight A100-80GB with --launch fsdp2" in found["qwen2.5-7b"].text


@pytest.mark.slow
def test_what_does_not_fit_on_one_gpu_is_sharded_or_adapted(monkeypatch):
    one = profiles_on(monkeypatch, known_gpu("H100-80GB"))
    assert one["qwen3-1.7b"].state == one["qwen3-4b-lora"].state == "ok"
    assert "use --profile qwen3-4b-lora" in one["qwen3-4b"].text
    node = profiles_on(monkeypatch, known_gpu("H100-80GB", 8))
    assert "use --launch fsdp2 --processes 8" in node["qwen2.5-7b"].text
    six = profiles_on(monkeypatch, known_gpu("H100-80GB", 6))  # which do not divide a batch
    assert "use --profile qwen3-4b-lora" in six["qwen3-4b"].text


@pytest.mark.slow
def test_a_full_disk_is_named(monkeypatch):
    found = profiles_on(monkeypatch, known_gpu("H200-141GB"), free_gib=60)
    assert "and 60.0 GiB are free here" in found["qwen3-4b"].text
    assert found["qwen3-1.7b-lora"].state == "ok"


@pytest.mark.slow
def test_what_fits_comes_first_then_problems_then_versions(monkeypatch):
    profiles_on(monkeypatch, known_gpu("H100-80GB"))
    found = [Check("ok", "torch 2"), Check("note", "no ray"), Check("bad", "no trl")]
    monkeypatch.setattr(doctor, "machine_checks", lambda: found)
    lines = []
    assert doctor.report(lines.append) == 1
    assert lines[0].startswith("what fits here (the memory of ")
    count = sum(not name.startswith("nano") for name in PROFILES) + 1  # those of nano in one line
    assert "of the small ones: nano, nano-m" in lines[count]
    states = [line.split()[0] for line in lines[1:count]]
    assert states == sorted(states, key=("ok", "note").index)
    assert set(states) == {"ok", "note"}
    assert lines[1 + count :] == [
        "problems:", "  bad   no trl", "works, with less:", "  note  no ray", "in order:",
        "  ok    torch 2",
    ]  # fmt: skip


def test_the_checks_of_this_machine_name_versions_cores_and_sandbox():
    text = "\n".join(check.text for check in doctor.machine_checks())
    for part in ("torch 2.", "processor cores", "sandbox layers:", "base model nano-s"):
        assert part in text
