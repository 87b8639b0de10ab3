"""What a dry run says, and where its time comes from."""

import json

import pytest
import stand_in

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.runs.compact import write_compact
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore
from mcbench.scale import process
from mcbench.scale.dry_run import dry_run
from mcbench.scale.pace import measured_pace, pace_of, timed


def finished(root, seconds=2.0, **settings):
    """A run that took so many seconds an update."""
    config = resolve("tiny", settings=settings)
    run = RunStore(root).run(config)
    meta = {"run_id": run.run_id, "config": config.to_dict(), "seed": config.seed, "started": 0.0}
    run.begin(meta)
    for step in range(1, config.steps + 1):
        lengths = {"completions/mean_length": 12.0, "completions/clipped_ratio": 0.25}
        run.append_step({"step": step, "elapsed_s": seconds * step, **lengths})
    run.finish(1.0)
    return run


def test_a_gpu_profile_prints_the_estimate_and_the_commands(capsys, tmp_path):
    arguments = ["--profile", "qwen3-4b", "--dry-run", "--runs-dir", str(tmp_path)]
    assert main(["train", *arguments]) == 0
    text = capsys.readouterr().out
    assert "estimate for 1 x H100-80GB:" in text
    assert "DOES NOT FIT" in text.partition("estimate for 1 x H200")[0]
    assert "estimate for 8 x H100-80GB, fsdp2" in text
    assert "+ max(gradients and update" in text
    assert "time: not known" in text
    assert "accelerate.commands.launch" in text
    assert "64 prompts x 8 responses" in text


def test_a_dry_run_measures_nothing_unless_asked(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "command", lambda task: pytest.fail("measured"))
    arguments = ["train", "--profile", "tiny", "--dry-run", "--runs-dir", str(tmp_path)]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert json.loads(text.partition("run id")[0])["profile"] == "tiny"
    assert "memory of a process" in text
    assert f"time: not known, as {tmp_path} has no finished run of tiny" in text

    monkeypatch.setattr(process, "command", stand_in.command)
    assert main([*arguments, "--measure"]) == 0
    begun, took = capsys.readouterr().out.splitlines()[-2:]
    assert begun == "timing updates here, for at most 30 s"
    # Updates of 1, 2, 3 and 4 s, two a generation; the first generation is left out.
    assert took.startswith("time 0:14 = 4 updates x 3.50 s, by 2 updates just made here")
    assert main([*arguments, "--measure", "--launch", "cpu", "--processes", "1"]) == 2
    assert not list(tmp_path.iterdir())


def test_the_pace_of_finished_runs_is_scaled_to_the_mean_length_and_the_batch(tmp_path):
    finished(tmp_path, 2.0, max_completion_length=24)
    finished(tmp_path, 3.0, max_completion_length=24, mask_ratio=0.5)
    finished(tmp_path, 50.0, model="nano-m")
    asked = {"steps": 10, "max_completion_length": 48}
    pace = pace_of(resolve("tiny", settings=asked), timed(tmp_path))
    assert pace.seconds == pytest.approx(2.5 * (12 + 0.25 * 24) / 12)  # the cut ones fill it
    shorter = resolve("tiny", settings={"max_completion_length": 9})
    assert pace_of(shorter, timed(tmp_path)).seconds == pytest.approx(2.5 * 9 / 12)
    assert pace.source == "by 2 finished runs of tiny"
    wide = {"num_generations": 4, "per_device_batch_size": 8, "max_completion_length": 24}
    wider = resolve("tiny", settings=wide)
    assert pace_of(wider, timed(tmp_path)).seconds == pytest.approx(2 * 2.5)
    assert pace_of(resolve("nano"), timed(tmp_path)) is None


def test_the_pace_of_a_longer_context_is_by_its_last_limit(tmp_path):
    staged = {"max_completion_length": 6, "length_stages": "0:6,2:24"}
    finished(tmp_path, 2.0, **staged)  # responses of 12 tokens in the mean, a quarter cut
    for same in (staged, {"max_completion_length": 24}):
        found = pace_of(resolve("tiny", settings=same), timed(tmp_path))
        assert found.seconds == pytest.approx(2.0)
    other = resolve("tiny", settings={**staged, "length_stages": "0:6,2:48"})
    assert pace_of(other, timed(tmp_path)).seconds == pytest.approx(2.0 * (12 + 0.25 * 24) / 12)
    short = resolve("tiny", settings={"max_completion_length": 48, "length_stages": "0:8,2:8"})
    assert pace_of(short, timed(tmp_path)).seconds == pytest.approx(2.0 * 8 / 12)


def test_what_took_a_gpu_seconds_is_no_pace_of_processors(tmp_path):
    run = finished(tmp_path, 2.0)
    run.note(hardware={"gpus": [{"name": "NVIDIA H200"}]})
    alone = pace_of(resolve("tiny"), timed(tmp_path))
    assert alone.source == "by 1 finished run of tiny on NVIDIA H200"
    finished(tmp_path, 90.0, mask_ratio=0.5)
    pace = pace_of(resolve("tiny"), timed(tmp_path))
    assert (pace.seconds, pace.source) == (pytest.approx(90.0), "by 1 finished run of tiny")


def test_compact_records_have_a_pace_too(tmp_path):
    run = finished(tmp_path / "runs")
    write_compact(run, tmp_path / f"{run.run_id}.parquet")
    assert pace_of(resolve("tiny"), timed(tmp_path)).seconds == pytest.approx(2.0)


@pytest.mark.slow
def test_measuring_ends_when_the_time_is_up(monkeypatch):
    def stays(task):
        return [*stand_in.command(task)[:2], "stays", task.runs_dir]

    monkeypatch.setattr(process, "command", stays)
    assert measured_pace(resolve("tiny"), seconds=10).seconds == 1.0  # its one update


def test_what_cannot_be_measured_says_why(monkeypatch):
    def refused(task):
        return [*stand_in.command(task)[:2], "refused", task.runs_dir]

    monkeypatch.setattr(process, "command", refused)
    with pytest.raises(UserError, match=r"no update was made here .*: mcbench: it was asked"):
        measured_pace(resolve("tiny"))


@pytest.mark.slow
def test_real_updates_are_timed(tiny):
    pace = measured_pace(resolve("tiny", settings=tiny), seconds=240)
    assert pace.source == "by 2 updates just made here, without evaluations"
    assert 0 < pace.seconds < 60


def test_stretches_of_a_trend_are_told(tmp_path):
    asked = {"temperature_target_diversity": "auto", "temperature_reading": "trend"}
    told = list(dry_run(resolve("nano-steady", "grpo_plus", asked), str(tmp_path)))
    (line,) = [one for one in told if one.startswith("T(D) by trend")]
    assert "7 stretches come first, of 336 updates together (T = 0.3, 0.4, 0.5," in line
