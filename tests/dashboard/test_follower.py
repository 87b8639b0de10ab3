"""Reading a run that grows, breaks off, is resumed, or disappears."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from mcbench.files import keep_lines
from mcbench.report.dashboard.follower import RunFollower, StoreFollower
from mcbench.report.dashboard.progress import progress_of, span

from .runs import begin, lines


def test_only_what_was_appended_is_read_and_half_a_line_waits(tmp_path: Path) -> None:
    run = begin(tmp_path)
    follower = RunFollower(run.path)
    for line in lines()[:30]:
        run.append_step(line)
    assert follower.poll()
    read = follower.bytes_read
    assert not follower.poll()
    with (run.path / "steps.jsonl").open("a") as file:
        file.write('{"step": 31, "entr')
        file.flush()
        follower.poll()
        assert follower.steps["step"].max() == 30
        file.write('opy": 0.5}\n')
    assert follower.poll()
    assert follower.steps["entropy"].iloc[-1] == 0.5
    assert np.isnan(follower.steps["reward"].iloc[-1])
    # The half line is read twice, nothing else is.
    assert follower.bytes_read - read <= 2 * len('{"step": 31, "entropy": 0.5}\n')


def test_a_resumed_run_forgets_the_steps_that_it_trains_again(tmp_path: Path) -> None:
    run = begin(tmp_path)
    follower = RunFollower(run.path)
    for line in lines()[:20]:
        run.append_step(line)
    follower.poll()
    keep_lines(run.path / "steps.jsonl", lambda record: record["step"] <= 12)
    for line in lines(seed=1)[12:25]:
        run.append_step(line)
    assert follower.poll()
    assert follower.steps["step"].tolist() == list(range(1, 26))
    assert follower.steps["entropy"].iloc[13] == lines(seed=1)[13]["entropy"]


def test_what_a_task_s_evaluations_tell_has_columns_of_its_own(tmp_path: Path) -> None:
    run = begin(tmp_path)
    follower = RunFollower(run.path)
    for step in (0, 4):
        line = {"step": step, "max_completion_length": 64, "pass_at_1": 0.5, "per_problem": []}
        run.append_eval({**line, "mean_length": 9.0, "parts": {"f05": 0.1 * step}})
        follower.poll()
    assert follower.evals["parts/f05"].tolist() == [0.0, 0.4]


def test_a_rewritten_file_of_the_same_inode_is_noticed(tmp_path: Path) -> None:
    run = begin(tmp_path)
    path = run.path / "steps.jsonl"
    path.write_text('{"step": 1, "entropy": 1}\n')
    follower = RunFollower(run.path)
    follower.poll()
    path.write_text('{"step": 1, "entropy": 2}\n{"step": 2, "entropy": 3}\n')
    follower.poll()
    assert follower.steps["entropy"].tolist() == [2, 3]


def test_every_state_is_said(tmp_path: Path) -> None:
    store = StoreFollower(tmp_path)

    def look() -> tuple[str, str]:
        store.poll()
        progress = progress_of(store.runs["a"], now=1e9 + 1)
        return progress.state, progress.note

    run = begin(tmp_path)
    assert look()[0] == "starting"
    for line in lines()[:10]:
        run.append_step(line)
    assert look() == ("running", "")
    progress = progress_of(store.runs["a"], now=1e9)
    assert (progress.step, progress.steps, progress.rate, progress.left_s) == (10, 40, 2.0, 15.0)
    late = progress_of(store.runs["a"], now=1e9 + 600)
    assert late.note == "no step for 10 min: evaluating, or stuck"
    with (run.path / "steps.jsonl").open("a") as file:
        file.write("damaged\n")
    assert look() == ("running", "line 11 of steps.jsonl is damaged")
    run.fail(1e9, "ValueError: <b>no</b>")
    assert look()[0] == "failed"
    assert "ValueError: <b>no</b>" in look()[1]
    shutil.rmtree(run.path)
    assert look() == ("deleted", "its folder is gone")


def test_an_exploding_loss_is_noted(tmp_path: Path) -> None:
    run = begin(tmp_path, recipe="grpo")
    follower = RunFollower(run.path)
    for line in lines("grpo")[:20]:
        run.append_step({**line, "kl": 6.0 if line["step"] == 12 else None})
    follower.poll()
    assert "(first at 12, largest 6)" in progress_of(follower, now=1e9).note
    keep_lines(run.path / "steps.jsonl", lambda record: record["step"] <= 11)
    follower.poll()
    assert progress_of(follower, now=1e9).note == ""
    run.append_step({**lines("grpo")[11], "grad_norm": float("inf")})
    follower.poll()
    assert "no finite number in 1 update (first at 12)" in progress_of(follower, now=1e9).note


def test_a_run_whose_process_was_killed_is_interrupted(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; sys.path[:0] = sys.argv[2:]\n"
        "from dashboard.runs import begin, lines\n"
        "run = begin(Path(sys.argv[1])); run.append_step(lines()[0]); os.kill(os.getpid(), 9)"
    )
    tests = str(Path(__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), tests], env=os.environ, check=False
    )
    store = StoreFollower(tmp_path)
    store.poll()
    assert progress_of(store.runs["a"]).state == "interrupted"


def test_one_run_directory_or_a_folder_of_them(tmp_path: Path) -> None:
    begin(tmp_path, "a")
    begin(tmp_path, "b")
    (tmp_path / "base_evals").mkdir()
    both, one = StoreFollower(tmp_path), StoreFollower(tmp_path / "b")
    both.poll()
    one.poll()
    assert list(both.runs) == ["a", "b"]
    assert list(one.runs) == ["b"]
    begin(tmp_path, "c")
    both.poll()
    one.poll()
    assert list(both.runs) == ["a", "b", "c"]
    assert list(one.runs) == ["b"]


def test_no_run_json_yet_or_half_of_one_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text(json.dumps({"config": {}})[:-3])
    store = StoreFollower(tmp_path)
    store.poll()
    assert not store.runs["a"].meta


def test_spans() -> None:
    assert [span(s) for s in (0.2, 59, 90, 7500, 200_000)] == [
        "1 s", "59 s", "2 min", "2 h 05 min", "2 d 7 h",
    ]  # fmt: skip
