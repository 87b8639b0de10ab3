"""Training by a process that outlives who asked for it: found again, waited for, stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from test_sweep import planned

from mcbench.errors import UserError
from mcbench.runs.store import RunStore, read_run
from mcbench.scale import apart
from mcbench.scale.apart import Training, train_apart, training_of, under_way
from mcbench.scale.sweep import PlannedRun

HERE = Path(__file__).parent
TRAINER = (
    "import sys; from pathlib import Path; import stand_in;"
    "from mcbench.scale import apart, process;"
    "process.command = stand_in.command; sys.exit(apart.main(Path(sys.argv[1])))"
)
KERNEL = """
import signal, sys, test_apart
from mcbench.runs.store import RunStore
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
test_apart.apart.command = test_apart.command
say = lambda line: print(line, flush=True)
test_apart.train_apart(test_apart.runs(*sys.argv[2:]), RunStore(sys.argv[1]), say)
"""


def command(folder):
    return [sys.executable, "-c", TRAINER, str(folder)]


def runs(*labels):
    return [PlannedRun("arm", one.label, one.config) for one in planned(*labels)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(apart, "command", command)
    paths = [str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def kernel(root, *labels):
    """A process that asks for runs, as a notebook's cell does."""
    words = [sys.executable, "-c", KERNEL, str(root), *labels]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)  # fmt: skip


def until(process, text):
    """What it prints, down to the line that has the text."""
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came: {lines}, {process.stderr.read()}")


def states(store):
    return [(read_run(run.path).state, run.is_alive()) for run in store]


def test_runs_are_trained_and_what_is_printed_is_shown(tmp_path):
    store, lines = RunStore(tmp_path), []
    train_apart(runs("one", "two"), store, lines.append, workers=2)
    assert "[one] step 4/4" in lines
    assert lines[-1].startswith("2 of 2 runs finished")
    assert states(store) == [("finished", False)] * 2
    lines.clear()
    train_apart(runs("one", "two"), store, lines.append)
    assert lines == []  # nothing was started


def test_a_run_that_fails_is_said_with_its_reason(tmp_path):
    with pytest.raises(UserError, match=r"1 of 1 runs failed: refused \(exit status 2\)"):
        train_apart(runs("refused"), RunStore(tmp_path), lambda line: None)


@pytest.mark.slow
def test_it_outlives_a_kernel_and_the_next_one_is_attached_to_it(tmp_path):
    store = RunStore(tmp_path)
    with kernel(tmp_path, "stays", "other") as first:
        until(first, "[stays] step 1/")
        os.killpg(first.pid, signal.SIGKILL)  # as Jupyter restarts a kernel
    (run,) = store
    assert run.is_alive()
    ids = [one.config.run_id for one in runs("stays", "other")]
    (training,) = under_way(ids, store)
    assert under_way(ids[:1], store)
    assert not under_way(["none"], store)
    with kernel(tmp_path, "stays", "other") as second:
        lines = until(second, "[stays] step 1/")  # of before, shown again
        assert (
            lines[0]
            == f"attached to process {training.owner['pid']}, which trains these runs already"
        )
        second.send_signal(signal.SIGINT)
        assert "interrupted: training is stopped" in second.communicate()[0]
    assert not training.is_alive()
    assert states(store) == [("interrupted", False)]
    assert Training(training.folder).problem == "interrupted"


@pytest.mark.slow
def test_a_killed_trainer_is_said_and_leaves_no_run_behind(tmp_path):
    with kernel(tmp_path, "stays") as asking:
        until(asking, "[stays] step 1/")
        (training,) = under_way([runs("stays")[0].config.run_id], RunStore(tmp_path))
        os.kill(training.owner["pid"], signal.SIGKILL)
        assert (
            "the process that trains was killed; what it printed is in" in asking.communicate()[1]
        )
    assert states(RunStore(tmp_path)) == [("interrupted", False)]


def test_a_trainer_that_breaks_says_why(tmp_path, monkeypatch):
    training = training_of(["a"], RunStore(tmp_path))
    training.folder.mkdir(parents=True)
    (training.folder / "plan.json").write_text('{"planned": [], "options": {}}')
    broken = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(apart, "train_all", broken)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(OSError, match="No space left"):
        apart.main(training.folder)
    signal.signal(signal.SIGTERM, before)
    training.log.touch()
    with pytest.raises(UserError, match=r"OSError: .*No space left on device"):
        training.follow(print)
