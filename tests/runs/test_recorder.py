"""What a progress line says is left, by a clock that the test moves."""

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
