"""Planned runs: trained where missing, reused, found in records, and said."""

import json
import os
import select
import signal
import subprocess
import sys

import pytest

from mcbench.errors import UserError
from mcbench.experiments.experiments import plan_runs, planned_runs
from mcbench.experiments.training import train_missing
from mcbench.runs.store import RunStore

ARMS = {"plain": {"recipe": "grpo_plus"}, "masked": {"recipe": "microcoder", "mask_ratio": 0.5}}


@pytest.fixture
def plan(tiny_settings):
    def make(arms=ARMS, seeds=(0,)):
        return plan_runs(arms, ["tiny"], seeds, 2, tiny_settings)

    return make


def test_what_cannot_be_trained_again_is_refused_before_anything_is_deleted(plan, tmp_path):
    asked = plan()
    for one in asked:
        run = RunStore(tmp_path).run(one.config)
        run.begin({"run_id": run.run_id, "config": one.config.to_dict(), "started": 1.0})
        run.finish(2.0)
    gone = {"token_credit": "blame", "reward": "ratio", "earlier": True}
    earlier = plan({"rltf": {"recipe": "grpo_plus", **gone}})
    refused = [
        (asked, {"launch": "tpyo"}, "unknown launch configuration"),
        (asked, {"train": False}, "fresh deletes the runs and train=False"),
        ([*asked, *earlier], {}, "arm rltf, seed 0: a run of earlier functions"),
    ]
    for these, options, message in refused:
        with pytest.raises(UserError, match=message):
            train_missing("x", these, tmp_path, lambda line: None, fresh=True, **options)
    assert {RunStore(tmp_path).run(one.config).state for one in asked} == {"finished"}
    with pytest.raises(UserError, match="read and not trained"):  # nor is the other one begun
        train_missing("x", [*plan(seeds=(1,)), *earlier], tmp_path, lambda line: None)
    assert len(list(tmp_path.glob("*/run.json"))) == 2


def test_a_seed_given_twice_is_one_and_seeds_are_a_list(plan):
    assert [one.config.seed for one in plan(seeds=(3, 3, 1))] == [3, 3, 1, 1]
    with pytest.raises(UserError, match=r"seeds are a list such as \[0, 1\], got 3"):
        plan(seeds=3)


@pytest.mark.slow
def test_arms_that_compute_the_same_are_one_run(plan, tmp_path):
    mask = {"truncation_mask": "conditional", "mask_ratio": 0.2, "mask_when": "incorrect"}
    spelled_out = {"recipe": "grpo_plus", **mask, "repeat_rule": "window"}
    lines = []
    asked = plan({"named": {"recipe": "microcoder"}, "spelled out": spelled_out})
    found = train_missing("twins", asked, tmp_path, lines.append)
    assert lines[0] == "twins: 1 runs, 0 finished before and reused, 1 to train"
    assert found[0].path == found[1].path


@pytest.mark.slow
def test_missing_runs_are_trained_finished_ones_reused(plan, tmp_path):
    def go(asked, **options):
        lines = []
        return train_missing("small", asked, tmp_path, lines.append, **options), lines

    (plain,), lines = go(plan({"plain": ARMS["plain"]}))
    assert lines[0] == "small: 1 runs, 0 finished before and reused, 1 to train"
    assert any(line.startswith("[plain seed 0] step 2/2  reward") for line in lines)
    both, lines = go(plan())
    assert lines[0] == "small: 2 runs, 1 finished before and reused, 1 to train"
    assert [run.state for run in both] == ["finished", "finished"]
    assert both[0].meta["started"] == plain.meta["started"]


@pytest.mark.slow
def test_finished_runs_are_trained_anew_if_asked(plan, tmp_path):
    asked = plan({"plain": ARMS["plain"]})
    (first,) = train_missing("small", asked, tmp_path)
    (again,) = train_missing("small", asked, tmp_path, fresh=True)
    assert again.meta["started"] > first.meta["started"]


@pytest.mark.slow
def test_a_record_stands_in_for_a_run_that_is_not_in_the_folder(plan, tmp_path):
    kept, lines = tmp_path / "kept", []
    train_missing("one", plan()[:1], tmp_path / "runs", lines.append, keep=kept)
    elsewhere = tmp_path / "elsewhere"
    both = tmp_path / "both"
    found = train_missing("both", plan(), elsewhere, lines.append, records=[kept], keep=both)
    assert "both: 2 runs, 1 from records, 1 to train" in lines
    assert [one.config.run_id for one in plan()] == [one.run_id for one in found]
    (record,) = kept.glob("*.parquet")  # only `keep` adds records
    assert (both / record.name).read_bytes() == record.read_bytes()
    assert len(list(both.glob("*.parquet"))) == 2
    assert len(list(elsewhere.glob("*/run.json"))) == 1


@pytest.mark.slow
def test_side_by_side_runs_report_and_a_failure_names_the_run(plan, tmp_path):
    arms = {"good": {"recipe": "grpo"}, "bad": {"recipe": "grpo", "backend": "vllm_server"}}
    lines = []
    with pytest.raises(UserError, match=r"1 of 2 runs failed: bad seed 0 .* needs vLLM"):
        train_missing("mixed", plan(arms), tmp_path, lines.append, workers=2)
    assert any(line.startswith("[good seed 0] step 2/2  reward") for line in lines)
    assert any(line.startswith("[bad seed 0] mcbench: backend 'vllm_server'") for line in lines)
    assert [run.state for run in RunStore(tmp_path)] == ["finished"]


@pytest.mark.slow
def test_side_by_side_runs_end_when_the_experiment_is_killed(tiny_settings, tmp_path):
    command = [sys.executable, "-m", "mcbench", "sweep", "results", "--profile", "tiny"]
    command += ["--seeds", "0", "--steps", "2000", "--workers", "2", "--runs-dir", str(tmp_path)]
    for name, value in {**tiny_settings, "eval_every": 2000}.items():
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
    assert [(run.state, run.is_alive()) for run in runs] == [("interrupted", False)] * 2


def test_empty_choices_are_refused(plan, tmp_path):
    with pytest.raises(UserError, match="nothing to run"):
        planned_runs("results", seeds=[])
    with pytest.raises(UserError, match="workers must be at least 1"):
        train_missing("small", plan(), tmp_path, workers=0)
