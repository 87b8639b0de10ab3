"""Records that survive crashes: tolerant readers, rewinding, checkpoints, the lock."""

import json
import multiprocessing
import os

import pytest

from mcbench.errors import UserError
from mcbench.files import ProcessLock, read_lines
from mcbench.runs.compact import SAMPLE_GROUPS, read_compact, write_compact
from mcbench.runs.config import preset
from mcbench.runs.records import read_record
from mcbench.runs.store import Run, RunStore, read_run

CONFIG = preset("tiny", "grpo").to_dict()
META = {"run_id": "r", "config": CONFIG, "seed": 0, "started": 1.0}


EVALUATED = {"max_completion_length": 96, "mean_length": 40.0, "per_problem": []}


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "r")
    run.begin(META)
    for step in range(1, 5):
        run.append_step({"step": step, "loss": step / 10})
        columns = {"prompt": ["p"] * 5, "completion": ["c"] * 5, "length": [step] * 5}
        columns |= {"reward": [1.0] * 5, "advantage": [0.0] * 5, "group": list(range(5))}
        run.write_completions(step, columns)
    run.append_eval({**EVALUATED, "step": 0, "pass_at_1": 0.25})
    run.append_eval({**EVALUATED, "step": 4, "pass_at_1": 0.5})
    return run


def checkpoint(run, step, whole):
    folder = run.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("weights")
    (folder / "optimizer.pt").write_text("state")
    if whole:
        run.complete_checkpoint(step)


def test_a_half_written_line_breaks_no_reader(run):
    with (run.path / "steps.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')
    assert read_run(run.path).steps["step"].tolist() == [1, 2, 3, 4]


def test_a_damaged_line_in_the_middle_is_named(run):
    with (run.path / "steps.jsonl").open("a") as file:
        file.write('{"step": 5, "lo\n{"step": 6}\n')
    with pytest.raises(UserError, match=r"line 5 of .*steps\.jsonl"):
        read_run(run.path)


def test_rewind_drops_what_comes_after_the_checkpoint(run):
    checkpoint(run, 2, whole=True)
    checkpoint(run, 4, whole=False)
    with (run.path / "steps.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')
    assert run.last_checkpoint() == (2, run.checkpoints / "checkpoint-2")
    run.rewind(2)
    run.append_step({"step": 3, "loss": 0.3})
    record = read_run(run.path)
    assert [line["step"] for line in record.step_lines] == [1, 2, 3]
    assert [line["step"] for line in record.eval_lines] == [0]
    assert record.completion_steps() == [1, 2]
    assert not (run.checkpoints / "checkpoint-4").exists()


def test_a_newer_whole_checkpoint_replaces_the_older_and_the_end_keeps_the_final_model(run):
    checkpoint(run, 2, whole=True)
    checkpoint(run, 4, whole=True)
    assert [path.name for path in run.checkpoints.iterdir()] == ["checkpoint-4"]
    run.new_model.mkdir()
    (run.new_model / "model.safetensors").touch()
    run.keep_final_model()
    run.finish(5.0)
    assert [path.name for path in run.checkpoints.iterdir()] == ["final"]
    assert [path.name for path in run.final_model.iterdir()] == ["model.safetensors"]


def test_state_and_first_start_survive_a_failure_and_a_resume(run):
    run.fail(2.0, "ValueError: x")
    assert (run.state, run.meta["error"]) == ("failed", "ValueError: x")
    again = Run(run.path)
    again.begin({**META, "started": 3.0})
    assert (again.state, again.meta["started"], again.meta["resumes"]) == ("running", 1.0, 1)
    again.finish(4.0)
    assert (again.state, again.meta["ended"]) == ("finished", 4.0)
    assert [r.run_id for r in RunStore(run.path.parent)] == ["r"]


def test_what_a_resume_from_a_checkpoint_has_otherwise_is_kept_beside(run, tmp_path):
    begun = {**META, "commit": "a", "versions": {"trl": "1.16.0"}}
    other = Run(tmp_path / "other")
    other.begin({**begun, "commit": "z"})
    other.fail(2.0, "x")
    other.note(temperature_choice={"temperature": 0.5})
    other.begin(begun)  # nothing was trained at z
    assert "temperature_choice" not in other.meta
    (other.checkpoints / "checkpoint-2").mkdir(parents=True)
    other.complete_checkpoint(2)
    other.fail(2.0, "x")
    other.begin({**begun, "commit": "b"})
    assert (other.meta["commit"], other.meta["resumed"]) == ("a", [{"commit": "b"}])


def test_a_run_whose_process_is_gone_or_stopped_is_interrupted_and_resumes(run):
    run.fail(2.0, "interrupted")
    assert (run.state, run.meta["ended"]) == ("interrupted", 2.0)
    again = Run(run.path)
    again.begin({**META, "started": 3.0})
    assert (again.state, read_run(run.path).state) == ("running", "running")
    again.lock.path.write_text("")  # as after kill -9
    assert (again.state, read_run(run.path).state) == ("interrupted", "interrupted")
    assert again.meta["state"] == "running"
    Run(run.path).begin({**META, "started": 4.0})
    assert again.state == "running"


def test_a_run_in_training_is_refused_to_a_second_trainer(run):
    with pytest.raises(UserError, match=f"process {os.getpid()} .* is already training this run"):
        Run(run.path).begin(META)
    with pytest.raises(UserError, match="being trained now"):
        Run(run.path).delete()


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path):
    path = tmp_path / "lock"

    def hold(ready):
        ProcessLock(path).acquire()
        ready.send("held")
        ready.recv()

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=hold, args=(there,))
    process.start()
    assert here.recv() == "held"
    with pytest.raises(UserError, match=f"process {process.pid}"):
        ProcessLock(path).acquire()
    process.kill()
    process.join()
    ProcessLock(path).acquire()
    assert json.loads(path.read_text())["pid"] == os.getpid()


def test_not_a_number_is_recorded_as_null(run):
    run.append_step({"step": 5, "loss": float("nan")})
    assert read_lines(run.path / "steps.jsonl")[-1] == {"step": 5, "loss": None}


def test_missing_records_are_named(run, tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        read_run(tmp_path)
    with pytest.raises(UserError, match="stored: 1, 2, 3, 4"):
        read_run(run.path).completions(9)
    with pytest.raises(UserError, match="does not exist"):
        read_compact(tmp_path / "x.parquet")


def test_a_compact_record_reads_back_the_same_and_is_reproducible(run, tmp_path):
    with pytest.raises(UserError, match="only finished runs"):
        write_compact(run, tmp_path)
    run.finish(2.0)
    first = write_compact(run, tmp_path)
    full, compact = read_run(run.path), read_record(first)
    assert (compact.meta, compact.step_lines, compact.eval_lines) == (
        full.meta,
        full.step_lines,
        full.eval_lines,
    )
    assert compact.evals["pass_at_1"].tolist() == [0.25, 0.5]
    assert set(compact.completion_steps()) <= set(full.completion_steps())
    assert len(compact.completions(compact.completion_steps()[0])) == SAMPLE_GROUPS
    assert write_compact(compact, tmp_path / "again.parquet").read_bytes() == first.read_bytes()
