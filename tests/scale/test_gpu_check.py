"""What ``mcbench doctor --gpu`` does, on the processor, and what it says of records."""

import pytest

from mcbench.cli import main
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.scale.gpu_check import STEPS, at_hand, checks, cut, train_twice
from mcbench.scale.shapes import HUB_SHAPES, ModelShape, shape_of


def test_without_a_gpu_it_says_so(capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["doctor", "--gpu"]) == 2
    assert "no GPU is visible here" in capsys.readouterr().err


def test_a_cut_run_has_passes_as_large_as_the_profiles():
    whole = resolve("qwen3-4b")
    small = cut(whole, 4096)
    assert small.per_device_batch_size == whole.per_device_batch_size
    assert (small.batch().updates_per_generation, small.steps) == (2, STEPS)
    assert (small.max_completion_length, small.longest_response) == (4096, 4096)


@pytest.mark.slow
def test_a_run_of_random_weights_is_killed_resumed_and_read(tiny, tmp_path, monkeypatch):
    shape = ModelShape(64, 2, 2, 2, 32, 176, 1000, tied=True)  # more words than the tokenizer has
    monkeypatch.setitem(HUB_SHAPES, "nobody/none", shape)
    config = cut(resolve("tiny", settings=tiny), 12).with_settings({"model": "nobody/none"})
    config = at_hand(config, tmp_path / "model", lambda line: None)
    assert shape_of(config.model) == shape
    train_twice(config, str(tmp_path), lambda line: None, [])
    found = list(checks(read_run(RunStore(tmp_path).run(config).path)))
    assert all(good for good, _ in found), found
    assert "killed and resumed 1 time(s), 4 updates" in found[0][1]
