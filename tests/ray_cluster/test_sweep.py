"""Sweeps on a cluster of three nodes of which one is lost, runs that crash, stop and resume."""

import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcbench.errors import UserError
from mcbench.runs.problems import model_location
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.scale.sweep import train_all

from .conftest import node_of

CHANGES = {"eval_every": 6, "test_limit": 2, "eval_attempts": 1, "eval_lengths": [24]}


def plan(count, steps=12, **settings):
    settings = {**CHANGES, **settings}
    configs = [resolve("tiny", settings=settings, seed=seed, steps=steps) for seed in range(count)]
    return [SimpleNamespace(label=f"run {config.seed}", config=config) for config in configs]


def train(planned, root, say, address, **options):
    """The runs in the order of the plan."""
    store = RunStore(root)
    train_all(planned, store, say, address=address, **options)
    return [store.run(one.config) for one in planned]


class Watcher:
    """Hears the progress of a sweep, and knows the process of each run."""

    def __init__(self):
        self.lines = []
        self.pids = {}

    def __call__(self, line):
        self.lines.append(line)
        label, _, text = line.partition("] ")
        if text.startswith("process "):
            self.pids[label[1:]] = int(text.split()[1])
        if text.startswith("step "):
            self.on_step(label[1:])

    def on_step(self, label):
        """A run has reported an update."""

    def about(self, text):
        return [line for line in self.lines if text in line]


class Saboteur(Watcher):
    """Kills the first run that trains, and then the node of another one."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster = cluster
        self.crashed = None
        self.lost = None

    def on_step(self, label):
        if self.crashed is None:
            os.kill(self.pids[label], signal.SIGKILL)
            self.crashed = label
        elif self.lost is None and label != self.crashed:
            node = node_of(self.cluster, self.pids[label])
            if node is not self.cluster.head_node:
                self.cluster.remove_node(node, allow_graceful=False)
                self.lost = label


@pytest.mark.slow
def test_runs_survive_a_crash_and_the_loss_of_a_node_and_a_refused_one_is_not_tried_again(
    cluster, tmp_path
):
    model = tmp_path / "model"
    shutil.copytree(model_location("nano-s"), model)
    good, refused = plan(4, steps=6), plan(5, steps=6, model=str(model))[4]
    shutil.rmtree(model)
    saboteur, store = Saboteur(cluster), RunStore(tmp_path)
    with pytest.raises(UserError, match=r"1 of 5 runs failed: run 4 \(exit status 2\): .*model"):
        train([refused, *good], tmp_path, saboteur, cluster.address, retries=2)
    assert len(saboteur.about("[run 4] process")) == 1

    path = {one.label: store.run(one.config) for one in good}
    for run in path.values():
        record = read_run(run.path)
        assert record.state == "finished"
        assert record.steps["step"].tolist() == list(range(1, 7))
        assert record.evals["step"].tolist() == [0, 6]
        assert (run.path / "output.log").read_text().count("== exit status 0") == 1
    finished = Counter(line.partition("]")[0] for line in saboteur.about("finished in"))
    assert set(finished.values()) == {1}

    log = path[saboteur.crashed].path / "output.log"
    crash = f"[{saboteur.crashed}] killed by signal 9 (SIGKILL); what it printed is in {log}"
    assert saboteur.about(crash)
    assert "== exit status -9" in log.read_text()
    assert log.read_text().count("== attempt") == 2
    assert saboteur.about(f"[{saboteur.lost}] lost; what it printed is in")
    assert path[saboteur.lost].meta["resumes"] >= 1
    assert "training on Ray: 3 machines, 3 CPUs" in saboteur.lines
    assert not list(Path(tmp_path).glob(".sweep-*"))


class Stopper(Watcher):
    """Ctrl-C as soon as a run trains."""

    def on_step(self, label):
        raise KeyboardInterrupt


@pytest.mark.slow
def test_a_stopped_sweep_leaves_no_process_and_resumes(cluster, tmp_path):
    stopper, watcher = Stopper(), Watcher()
    with pytest.raises(KeyboardInterrupt):
        train(plan(2), tmp_path, stopper, cluster.address)
    stopped = list(RunStore(tmp_path))
    assert [run for run in stopped if run.meta["error"] == "interrupted"]
    assert not [run for run in stopped if run.is_alive()]
    runs = train(plan(2), tmp_path, watcher, cluster.address)
    assert [run.state for run in runs] == ["finished"] * 2
    assert max(run.meta["resumes"] for run in runs) == 1


@pytest.mark.slow
def test_what_no_node_can_hold_is_refused(cluster, tmp_path):
    needy = plan(1, precision="bf16")
    with pytest.raises(UserError, match="needs 1 CPUs and 1 GPUs, which no machine"):
        train(needy, tmp_path, print, cluster.address)
    assert not list(tmp_path.iterdir())
