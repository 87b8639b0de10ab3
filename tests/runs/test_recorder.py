"""What the progress lines of a run say, of the time left and of a loss that explodes."""

from types import SimpleNamespace

from mcbench.runs import recorder
from mcbench.runs.config import preset
from mcbench.runs.store import Run


def test_what_is_left_counts_updates_and_evaluations_apart(tmp_path, monkeypatch):
    now, said = [0.0], []

    def clock():
        return now[0]

    monkeypatch.setattr(recorder, "time", SimpleNamespace(monotonic=clock, time=clock))

    def evaluate(step, part):
        now[0] += 1 if part else 10

    settings = {"eval_every": 8, "small_eval_every": 4, "small_eval_limit": 2, "steps": 16}
    config = preset("tiny").with_settings({**settings, "num_iterations": 4})
    found = recorder.Recorder(
        Run(tmp_path), config, "run", True, said.append, evaluate, evaluate_first=True, _started=0.0
    )
    found.on_train_begin(None, None, None)
    for step in range(1, 17):
        now[0] += 2
        found.on_log(None, SimpleNamespace(global_step=step), None, {"loss": 0.0})
    left = {line.split("step ")[1].split("/")[0]: line.split(", ")[-1] for line in said}
    # at 8: 8 updates of 2 s, the evaluation of all problems at 16 and that of a part at 12
    assert left["8"] == "0:27 left"
    assert left["16"] == "0:00 left"


def test_an_exploding_loss_is_said_when_it_happens_and_counted_at_the_end(tmp_path):
    config = preset("tiny").with_settings({"steps": 16, "eval_every": 16, "num_iterations": 1})
    config = config.with_settings({"ppo_mini_batch_size": config.train_batch_size})

    def train(run, first, last):
        run.path.mkdir(exist_ok=True)
        said = []
        found = recorder.Recorder(
            run, config, "run", True, said.append, lambda step, part: None, first_step=first
        )
        found.on_train_begin(None, None, None)
        for step in range(first + 1, last + 1):
            kl = {10: 100.0, 14: float("inf"), 15: 1000.0}.get(step, 0.1)
            logs = {"loss": 0.0, "grad_norm": kl if step == 14 else 0.2, "kl": kl}
            found.on_log(None, SimpleNamespace(global_step=step), None, logs)
        return [(at, line) for at, line in enumerate(said) if "exploding loss" in line]

    once, end = train(Run(tmp_path / "whole"), 0, 16)
    assert once[1].startswith("[run] exploding loss: the mean KL passed 5 nats a token in 1 update")
    assert "(first at 10, largest 100)" in once[1]
    assert "in 2 updates (first at 10, largest 1,000) and the loss or its gradient was" in end[1]
    assert (once[0], end[0]) == (9, 16)  # before the line of its update
    killed = Run(tmp_path / "killed")
    assert train(killed, 0, 9) == []
    train(killed, 9, 12)
    killed.rewind(11)
    again, resumed = train(killed, 11, 16)
    assert again[0] == 0
    assert resumed[1] == end[1]
