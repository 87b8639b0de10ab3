"""Runs as processes of their own: what is said and kept, and what is done about those that end."""

import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import stand_in

from mcbench.errors import UserError
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.scale import launch, process, sweep
from mcbench.scale.process import Ended, RunJob, Started
from mcbench.scale.ray_pool import _train_on_ray
from mcbench.scale.sweep import train_all


def planned(*labels, **settings):
    return [
        SimpleNamespace(label=label, config=resolve("tiny", settings=settings, seed=seed))
        for seed, label in enumerate(labels)
    ]


@pytest.fixture
def quick(monkeypatch):
    """Processes without a model."""
    monkeypatch.setattr(process, "command", stand_in.command)


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path)


def log(store, one):
    return (store.run(one.config).path / "output.log").read_text()


def test_runs_side_by_side_report_and_keep_what_they_print(quick, store):
    runs, lines = planned("one", "two", "three"), []
    train_all(runs, store, lines.append, workers=2)
    assert [store.run(one.config).state for one in runs] == ["finished"] * 3
    assert lines[0] == "training 3 runs, 2 side by side"
    for one in runs:
        assert f"[{one.label}] step 4/4" in lines
        assert "[" + one.label + "] step 4/4\n== exit status 0\n" in log(store, one)
    assert lines[-1].startswith("3 of 3 runs finished; 0:0")


def test_a_run_of_a_model_that_is_not_embedded_gets_its_share_of_the_cores(
    quick, store, monkeypatch
):
    """An embedded one has one thread everywhere, so that its sums come in one order."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(6))
    larger = resolve("smollm2-135m", settings={"steps": 4})
    runs, lines = [*planned("small"), SimpleNamespace(label="larger", config=larger)], []
    train_all(runs, store, lines.append, workers=2)
    assert {"[small] 1 threads", "[larger] 3 threads"} <= set(lines)


def test_a_large_model_without_a_gpu_is_refused_until_its_settings_insist(
    quick, store, monkeypatch
):
    monkeypatch.setattr(launch, "gpu_here", lambda: None)
    large = SimpleNamespace(label="large", config=resolve("qwen3-1.7b"))
    with pytest.raises(UserError, match=r"no GPU is visible here.*--set on_cpu=true"):
        train_all([*planned("small"), large], store, print)
    assert not list(store.root.iterdir())
    insisting = resolve("qwen3-1.7b", settings={"on_cpu": True})
    assert insisting.run_id == large.config.run_id
    train_all([SimpleNamespace(label="large", config=insisting)], store, print)
    assert store.run(large.config).state == "finished"


def test_a_refused_run_is_not_tried_again_and_does_not_stop_the_others(quick, store):
    runs, lines = planned("refused", "good"), []
    message = r"1 of 2 runs failed: refused \(exit status 2\): mcbench: it was asked for wrongly"
    with pytest.raises(UserError, match=message):
        train_all(runs, store, lines.append)
    assert lines[0] == "training 2 runs"
    assert [store.run(one.config).state for one in runs] == ["absent", "finished"]
    assert log(store, runs[0]).count("== attempt") == 1


def test_a_killed_run_is_tried_again_as_often_as_asked(quick, store):
    stumbles, crashes = planned("stumbles", "crashes")
    lines = []
    with pytest.raises(UserError, match=r"1 of 2 runs failed: crashes \(killed by signal 9"):
        train_all([stumbles, crashes], store, lines.append, workers=2, retries=2)
    assert store.run(stumbles.config).meta["resumes"] == 1
    assert (log(store, stumbles).count("attempt"), log(store, crashes).count("attempt")) == (2, 3)
    meta = store.run(crashes.config).meta
    assert (meta["state"], meta["error"]) == ("failed", "killed by signal 9 (SIGKILL)")
    assert any(", attempt 3 of 3" in line for line in lines)


def test_an_interruption_ends_the_processes_and_goes_on(quick, store):
    runs = planned("stays one", "stays two", "waits")

    def say(line):
        if "step 1" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all(runs, store, say, workers=2)
    begun = [run for run in store if run.meta]
    assert begun
    for run in begun:
        assert not run.is_alive()
        assert (run.state, run.meta["error"]) == ("interrupted", "interrupted")
    assert not store.run(runs[2].config).path.exists()
    # The processes are waited for: none is left, not even as a zombie.
    children = [child.cmdline() for child in psutil.Process().children(recursive=True)]
    assert not [words for words in children if not words or str(store.root) in words]


SWEEP = """
import sys, stand_in, test_sweep
from mcbench.runs.store import RunStore
from mcbench.scale import process
process.command = stand_in.command
say = lambda line: print(line, flush=True)
runs = test_sweep.planned("stays one", "stays two")
test_sweep.train_all(runs, RunStore(sys.argv[1]), say, workers=2)
"""


@pytest.mark.slow
def test_runs_end_when_what_started_them_is_killed(store):
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    begin = [sys.executable, "-c", SWEEP, str(store.root)]
    with subprocess.Popen(
        begin, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": here}
    ) as parent:
        waiting = 2
        while waiting:
            line = parent.stdout.readline()
            assert line, "the sweep ended early"
            waiting -= "] step 1/" in line
        runs = list(store)
        handles = [os.pidfd_open(run.lock.owner()["pid"]) for run in runs]
        parent.send_signal(signal.SIGKILL)
        for handle in handles:
            assert select.select([handle], [], [], 30)[0]
            os.close(handle)
    assert [(run.state, run.is_alive()) for run in runs] == [("interrupted", False)] * 2


def test_the_lock_of_a_lost_machine_is_broken_for_the_next_attempt(store, monkeypatch):
    (one,) = planned("lost once")
    run = store.run(one.config)
    name = "mcbench.files.socket.gethostname"
    with monkeypatch.context() as patch:
        patch.setattr(name, lambda: "node1")
        run.begin({"started": 0.0})
    assert run.is_alive()

    class Pool:
        """The first attempt is lost with node1, the second one finishes."""

        def submit(self, task):
            self.task = task

        def events(self):
            if self.task.attempt == 1:
                return [(self.task, Started("node1", 7)), (self.task, Ended(None, "node1 is gone"))]
            assert (run.is_alive(), run.meta["error"]) == (False, "lost")
            run.begin({"started": 0.0})
            run.finish(1.0)
            return [(self.task, Ended(0, ""))]

    task = RunJob("lost once", run.run_id, "{}", str(store.root))
    lines = []
    sweep._Sweep([task], store, Pool(), lines.append, 1, 1).train()
    assert lines[1] == f"[lost once] lost; what it printed is in {task.log}; trying again"
    assert run.state == "finished"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"launch": "dpp"}, "unknown launch configuration 'dpp'"),
        ({"address": "nowhere"}, "a Ray address is local, auto or HOST:PORT"),
        ({"address": "ray://here:1"}, "a Ray address is local, auto or HOST:PORT"),
    ],
)
def test_wrong_options_are_refused(options, message, store):
    with pytest.raises(UserError, match=message):
        train_all(planned("one"), store, print, **options)
    assert not list(store.root.iterdir())


def test_without_ray_the_message_says_what_to_install(monkeypatch, store):
    monkeypatch.setattr("mcbench.ray_session.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install -e '.\[sweep\]'"):
        train_all(planned("one"), store, print, address="local")


def test_a_run_of_several_processes_and_gpus_says_so():
    (one,) = planned("one", precision="bf16", reward_workers=8)
    needs = sweep.task_of(one, RunStore("runs"), "cpu")
    assert (needs.cpus, needs.gpus) == (16, 2)  # the sandboxes of each process
    assert process.command(needs)[-2:] == ["--launch", "cpu"]
    assert sweep.task_of(planned("two")[0], RunStore("runs"), "ddp").gpus == 8


@pytest.mark.slow
def test_a_real_run_is_killed_and_resumes(tiny, store):
    (one,) = planned("real", **tiny, eval_every=8, steps=8)
    run = store.run(one.config)
    run.path.mkdir()
    run.lock.path.write_text('{"pid": 7, "host": "node1", "start": "1"}')
    os.utime(run.lock.path, (0, 0))
    lines, pids = [], []

    def say(line):
        lines.append(line)
        if line.startswith("[real] process "):
            pids.append(int(line.split()[2]))
        if "step 6/8" in line and len(pids) == 1:  # the checkpoint after step 4 is whole
            os.kill(pids[0], signal.SIGKILL)

    train_all([one], store, say)
    assert any(line.startswith("[real] taken over from process 7 on node1") for line in lines)
    assert any(line.startswith("[real] killed by signal 9 (SIGKILL)") for line in lines)
    assert any("resuming after step" in line for line in lines)
    record = read_run(run.path)
    assert record.state == "finished"
    assert record.steps["step"].tolist() == list(range(1, 9))
    assert record.evals["step"].tolist() == [0, 0, 8, 8]


def test_a_machine_of_the_cluster_refuses_what_is_not_the_sweeps(quick, store, monkeypatch):
    monkeypatch.chdir(store.root)
    task = sweep.task_of(planned("far")[0], store, None)
    marker = store.root / ".sweep-1"
    (absent,) = _train_on_ray(task, str(marker), str(store.root))
    assert (absent.status, "is not the sweep's on this machine" in absent.last) == (2, True)
    marker.touch()
    (older,) = _train_on_ray(replace(task, version="0"), str(marker), str(store.root))
    assert (older.status, "the sweep 0" in older.last) == (2, True)
    started, *lines, ended = _train_on_ray(task, str(marker), str(store.root))
    assert started.pid != os.getpid()
    assert (lines[-1], ended) == ("[far] step 4/4", Ended(0, "[far] step 4/4"))
