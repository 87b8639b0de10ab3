"""Experiments: what is planned, trained, reused, and said."""

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys

import pytest

from mcbench.errors import UserError
from mcbench.experiments import experiments
from mcbench.experiments.experiments import Arm, Experiment, planned_runs, run_experiment
from mcbench.runs.store import RunStore


def test_arms_that_compute_the_same_are_one_run(tiny_changes, tmp_path, monkeypatch):
    mask = {"truncation_mask": "conditional", "mask_ratio": 0.2, "mask_when": "incorrect"}
    arms = {
        "named": Arm("microcoder"),
        "spelled out": Arm("grpo_plus", {**mask, "repeat_rule": "window"}),
    }
    twins = Experiment("twins", "", arms, ("tiny",), (0,))
    monkeypatch.setitem(experiments.EXPERIMENTS, "twins", twins)
    lines = []
    runs = run_experiment(
        "twins", steps=2, runs_dir=tmp_path, changes=tiny_changes, progress=lines.append
    )
    assert lines[0] == "twins: 1 runs, 0 finished before and reused, 1 to train"
    assert runs[0].path == runs[1].path


@pytest.fixture(autouse=True)
def small(monkeypatch, tiny_profile):
    """An experiment with two arms on the tiny profile."""
    arms = {"plain": Arm("grpo_plus"), "masked": Arm("microcoder", {"mask_ratio": 0.5})}
    small = Experiment("small", "", arms, ("tiny",), (0, 1))
    monkeypatch.setitem(experiments.EXPERIMENTS, "small", small)


def test_the_results_experiment_is_three_recipes_two_sizes_five_seeds():
    results = experiments.EXPERIMENTS["results"]
    assert list(results.arms) == ["grpo", "grpo_plus", "microcoder"]
    assert (results.profiles, len(results.seeds)) == (("nano", "nano-m"), 5)


def test_the_evaluator_experiments_differ_in_the_reward_only():
    trained = [planned.config for planned in planned_runs("code_evaluator", seeds=[0])]
    assert [config.reward_rules for config in trained] == ["microcoder", "livecodebench"]
    timed = [planned.config for planned in planned_runs("evaluator_timing", seeds=[0])]
    assert len({config.run_id for config in (*trained, *timed)}) == 5
    for configs, field in ((trained, "reward_rules"), (timed, "reward_evaluator")):
        same = [dataclasses.replace(c.profile, **{field: "microcoder"}) for c in configs]
        assert len(set(same)) == 1
        assert {config.data_digest for config in configs} == {configs[0].data_digest}
    assert trained[0].profile.test_set == "nano:test"


def test_the_first_seed_of_every_arm_comes_first(tiny_changes):
    plan = planned_runs("small", steps=2, changes=tiny_changes)
    assert [p.label for p in plan] == [
        "plain seed 0",
        "masked seed 0",
        "plain seed 1",
        "masked seed 1",
    ]
    assert plan[1].config.algorithm["mask_ratio"] == 0.5
    assert plan[1].config.steps == 2


def test_missing_runs_are_trained_finished_ones_reused(tiny_changes, tmp_path):
    def go(arms, **options):
        lines = []
        runs = run_experiment(
            "small", seeds=[0], steps=2, arms=arms, runs_dir=tmp_path, changes=tiny_changes,
            progress=lines.append, **options,
        )  # fmt: skip
        return runs, lines

    (plain,), lines = go(["plain"])
    assert lines[0] == "small: 1 runs, 0 finished before and reused, 1 to train"
    assert any(line.startswith("[plain seed 0] step 2/2  reward") for line in lines)
    started = plain.meta["started"]
    both, lines = go(None)
    assert lines[0] == "small: 2 runs, 1 finished before and reused, 1 to train"
    assert [run.state for run in both] == ["finished", "finished"]
    assert plain.meta["started"] == started
    go(["plain"], fresh=True)
    assert plain.meta["started"] > started


def test_side_by_side_runs_report_and_a_failure_names_the_run(tiny_changes, tmp_path, monkeypatch):
    arms = {"good": Arm("grpo"), "bad": Arm("grpo", {"backend": "vllm_server"})}
    monkeypatch.setitem(
        experiments.EXPERIMENTS, "mixed", Experiment("mixed", "", arms, ("tiny",), (0,))
    )
    lines = []
    with pytest.raises(UserError, match=r"1 of 2 runs failed: bad seed 0 .* needs vLLM"):
        run_experiment(
            "mixed", steps=2, runs_dir=tmp_path, changes=tiny_changes,
            progress=lines.append, workers=2,
        )  # fmt: skip
    assert any(line.startswith("[good seed 0] step 2/2  reward") for line in lines)
    assert any(line.startswith("[bad seed 0] mcbench: backend 'vllm_server'") for line in lines)
    assert [run.state for run in RunStore(tmp_path)] == ["finished"]


def test_side_by_side_runs_end_when_the_experiment_is_killed(tiny_changes, tmp_path):
    command = [sys.executable, "-m", "mcbench", "sweep", "results", "--profile", "tiny"]
    command += ["--seeds", "0", "--steps", "2000", "--workers", "2", "--runs-dir", str(tmp_path)]
    for name, value in {**tiny_changes, "eval_every": 2000}.items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        training = set()
        while len(training) < 2:
            line = process.stdout.readline()
            assert line, "the experiment ended early"
            training |= {line.partition("]")[0]} if "] step " in line else set()
        runs = [run for run in RunStore(tmp_path) if run.is_alive()]
        handles = [os.pidfd_open(run.lock.owner()["pid"]) for run in runs]
        process.send_signal(signal.SIGKILL)
        for handle in handles:
            assert select.select([handle], [], [], 30)[0]
            os.close(handle)
    # Killed, not failed: they did not have to print a line to find that nobody reads it.
    assert [(run.state, run.is_alive()) for run in runs] == [("running", False)] * 2


def test_empty_choices_are_refused(tiny_changes, tmp_path):
    with pytest.raises(UserError, match="nothing to run"):
        planned_runs("small", seeds=[], changes=tiny_changes)
    with pytest.raises(UserError, match="workers must be at least 1"):
        run_experiment("small", seeds=[0], runs_dir=tmp_path, workers=0, changes=tiny_changes)
