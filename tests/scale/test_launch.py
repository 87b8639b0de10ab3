"""Several processes: the command that starts them, their common record, and what ends them."""

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.scale.launch import LAUNCH_CONFIGS, _failed_at, launch, train_here

HERE = Path(__file__).parent
AGAIN = "{error}; the same command resumes"
TWO = ["--set", "per_device_batch_size=2", "--launch", "cpu"]


def test_the_dry_run_prints_the_command(capsys, tmp_path):
    assert main(["train", "--profile", "tiny", "--seed", "7", "--dry-run", *TWO]) == 0
    variable, *command = shlex.split(capsys.readouterr().out.strip().rpartition("command: ")[2])
    assert variable == "ACCELERATE_USE_CPU=true"
    assert command[:3] == [sys.executable, "-m", "accelerate.commands.launch"]
    assert command[3:7] == ["--config_file", str(LAUNCH_CONFIGS["cpu"]), "--num_processes", "2"]
    start = command.index("mcbench") - 1
    assert command[start : start + 5] == ["-m", "mcbench", "train", "--profile", "tiny"]


def test_accelerate_reads_the_shipped_configurations():
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    assert set(LAUNCH_CONFIGS) == {"cpu", "ddp", "fsdp2"}
    for name in LAUNCH_CONFIGS:
        chosen = launch(name)
        arguments = chosen.command([])[3:]
        args, _, _ = _validate_launch_command(launch_command_parser().parse_args(arguments))
        assert args.num_processes == chosen.processes == (2 if name == "cpu" else 8)
        assert args.use_fsdp == (name == "fsdp2")
        assert chosen.sharding == {"cpu": "none", "ddp": "none"}.get(name, name)
        if args.use_fsdp:
            assert (args.fsdp_version, args.fsdp_state_dict_type) == (2, "FULL_STATE_DICT")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--launch", "dpp"], "unknown launch configuration 'dpp'; allowed: cpu, ddp, fsdp2"),
        (["--processes", "2"], "needs --launch"),
        (["--measure"], "--measure goes with --dry-run"),
        (["--launch", "cpu", "--processes", "0"], "processes must be at least 1"),
        (["--launch", "cpu", "--processes", "3"], "no per_device_batch_size fits 3 processes"),
        (["--launch", str(HERE / "conftest.py")], "launch configuration .* cannot be read"),
    ],
)
def test_wrong_launches_are_refused_with_what_is_allowed(options, message, capsys, tmp_path):
    assert main(["train", "--profile", "tiny", "--runs-dir", str(tmp_path), *options]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_a_configuration_of_several_machines_names_accelerates_command(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("distributed_type: MULTI_GPU\nnum_machines: 2\n")
    with pytest.raises(UserError, match=r"is for 2 machines; .* --num_machines 2 --machine_rank"):
        launch(str(path))


def test_deepspeed_is_refused_wherever_it_comes_from(monkeypatch, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("distributed_type: DEEPSPEED\n")
    with pytest.raises(UserError, match=r"'DEEPSPEED' is not supported; allowed: MULTI_GPU, FSDP"):
        launch(str(path))
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(UserError, match=r"DeepSpeed is not supported; .* --launch fsdp2"):
        train_here(resolve("tiny"), str(tmp_path))


# Processes that do not train ----------------------------------------------------------------------


def ranks(label, root):
    """A command of two processes, and the run that it would train."""
    arguments = ["train", "--profile", "tiny", "--set", "per_device_batch_size=2"]
    arguments += ["--launch", "cpu", "--label", label, "--runs-dir", str(root)]
    run = RunStore(root).run(resolve("tiny", settings={"per_device_batch_size": 2}))
    return [sys.executable, "-m", "ranks", *arguments], run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "status", "error", "last"),
    [
        ("raises", 1, "process 1: RuntimeError: no memory", AGAIN),
        ("is killed", 1, "process 1: killed by signal 9 (SIGKILL)", AGAIN),
        ("refuses", 2, None, "the model is not there"),
    ],
)  # fmt: skip
def test_the_first_failure_ends_all_and_is_recorded(label, status, error, last, tmp_path):
    command, run = ranks(label, tmp_path)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == status
    assert done.stdout.splitlines()[-1] == "mcbench: " + last.format(error=error)
    if error is not None:
        assert (run.state, run.meta["error"]) == ("failed", error)


@pytest.mark.slow
def test_a_process_that_fails_after_the_run_fails_no_run(tmp_path):
    command, run = ranks("aborts at its end", tmp_path)
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, run.state) == (0, "finished")
    assert done.stdout.splitlines()[-1] == (
        "the run is finished; a process failed after that (process 1: killed by signal 6 (SIGABRT))"
    )


def test_the_process_that_failed_first_is_the_cause(tmp_path):
    """Within one second, and whatever the ranks."""
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    def failure(rank, exitcode, seen=0, written=None):
        path = tmp_path / f"{rank}.json"
        if written is not None:
            path.write_text(
                json.dumps({"message": {"message": "", "extraInfo": {"timestamp": "0"}}})
            )
            os.utime(path, (written, written))
        one = ProcessFailure(rank, 1, exitcode, str(path))
        one.timestamp = seen
        return rank, one

    lost, raised = failure(0, 1, written=1005.9), failure(1, 1, written=1005.2)
    ended, aborted = failure(2, -signal.SIGTERM, 1005), failure(3, -signal.SIGABRT, 1005)
    killed, put_down = failure(4, -signal.SIGKILL, 1007), failure(5, -signal.SIGKILL, 1036)
    assert min([lost, raised, ended, aborted, put_down], key=_failed_at) is raised
    assert min([lost, raised, ended, aborted, killed], key=_failed_at) is killed


@pytest.mark.slow
def test_the_processes_end_with_the_command_that_started_them(tmp_path):
    command, run = ranks("waits", tmp_path)
    with start(command) as process:
        pids = []
        while len(pids) < 2:
            line = process.stdout.readline()
            assert line, "the processes ended early"
            pids += [int(line.split()[3])] if line.startswith("rank ") else []
        handles = [os.pidfd_open(pid) for pid in pids]
        process.kill()
        for handle in handles:
            assert select.select([handle], [], [], 30)[0]
            os.close(handle)
    assert (run.state, run.is_alive()) == ("interrupted", False)


# Real runs ---------------------------------------------------------------------------------------

STEPS = 12


@pytest.fixture(scope="module")
def config(tiny):
    # One update a generation: TRL draws anew in each process which responses an update takes.
    batch = {"ppo_mini_batch_size": 4, "per_device_batch_size": 4}
    changes = {**tiny, **batch, "mask_ratio": 0.5, "temperature": 1.0, "learning_rate": 0.003}
    return resolve("tiny", "microcoder", changes, steps=STEPS)


@pytest.fixture(scope="module")
def command(config, tmp_path_factory):
    """``mcbench train`` with scripted responses; the folder of runs and a launch are to follow."""
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(json.dumps(config.to_dict()))
    return [sys.executable, "-m", "scripted", "train", "--config", str(path), "--runs-dir"]


@pytest.fixture(scope="module", autouse=True)
def scripted_processes():
    """The launched processes find the script, and have one thread each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def two(command, config, tmp_path_factory):
    """The uninterrupted run of two processes."""
    root = tmp_path_factory.mktemp("two")
    done = subprocess.run([*command, root, "--launch", "cpu"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return RunStore(root).run(config)


@pytest.fixture(scope="module")
def one(command, config, tmp_path_factory):
    """The same run in one process, which accumulates two passes."""
    root = tmp_path_factory.mktemp("one")
    subprocess.run([*command, root], check=True, stdout=subprocess.DEVNULL)
    return RunStore(root).run(config)


@pytest.mark.slow
def test_two_processes_leave_the_record_of_one(two, one):
    assert two.meta["processes"] == {"count": 2, "sharding": "none"}
    assert_equal_but_for_rounding(read_run(one.path), read_run(two.path))


@pytest.fixture(scope="module")
def sharded(command, tmp_path_factory):
    """sharded(processes) trains the run on so many that share the model, once: the command, the
    folder and what was said.
    """

    @cache
    def of(processes):
        folder = tmp_path_factory.mktemp("sharded")
        launched = [*command, folder, "--launch", "fsdp2", "--processes", str(processes)]
        return launched, folder, subprocess.run(launched, capture_output=True, text=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCELERATE_USE_CPU", "true")
        yield of


@pytest.mark.slow
def test_sharded_processes_leave_the_record_of_one(sharded, config):
    """A model that is divided samples with transformers' own loop, also in a single process."""
    records = []
    for processes in (1, 2):
        _, folder, done = sharded(processes)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        held = f"this process holds {100 // processes}% of the model"
        assert done.stdout.count(held) == processes
        run = RunStore(folder).run(config)
        assert run.meta["processes"] == {"count": processes, "sharding": "fsdp2"}
        records.append(read_run(run.path))
    assert_equal_but_for_rounding(*records)


@pytest.mark.slow
def test_a_sharded_run_resumes_to_the_same_record(sharded, command, config, tmp_path):
    launched, whole, _ = sharded(2)
    parts = [*command, tmp_path, *launched[len(command) + 1 :]]
    run = RunStore(tmp_path).run(config)
    with start(parts) as process:
        wait_for_two_updates(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    # The weights twice, as the estimate has it: as a model, and to resume from.
    written = {path.name for path in run.last_checkpoint()[1].iterdir()}
    assert written >= {"model.safetensors", "pytorch_model_fsdp.bin", "optimizer.bin"}
    done = subprocess.run(parts, capture_output=True, text=True, check=True)
    assert "resuming after step" in done.stdout
    assert_same_record(RunStore(whole).run(config).path, run.path)


def stable(records):
    """The lines without what measures time."""
    volatile = ("time", "elapsed_s", "step_time")
    return [
        {k: v for k, v in row.items() if k not in volatile and not k.startswith("time/")}
        for row in records
    ]


def assert_same_record(path, other):
    one, two = read_run(path), read_run(other)
    assert stable(one.step_lines) == stable(two.step_lines)
    assert one.eval_lines == two.eval_lines
    for step in one.completion_steps():
        assert one.completions(step).to_json() == two.completions(step).to_json()
    weights = "checkpoints/final/model.safetensors"
    assert (path / weights).read_bytes() == (other / weights).read_bytes()


def assert_equal_but_for_rounding(one, other):
    assert one.eval_lines == other.eval_lines
    assert len(stable(one.step_lines)) == len(stable(other.step_lines)) == STEPS
    for row, twin in zip(stable(one.step_lines), stable(other.step_lines), strict=True):
        assert row.keys() == twin.keys()
        for name in row.keys() - {"entropy"}:  # TRL's mean over passes of means over responses
            number = isinstance(row[name], (int, float))
            expected = pytest.approx(row[name], rel=1e-4, abs=1e-6) if number else row[name]
            assert twin[name] == expected, name
    assert one.completion_steps() == other.completion_steps() == list(range(1, STEPS + 1))
    for step in one.completion_steps():
        pd.testing.assert_frame_equal(one.completions(step), other.completions(step))
    assert one.steps["mask/share"].max() > 0
    weights = [load_file(run.path / "checkpoints/final/model.safetensors") for run in (one, other)]
    for name, values in weights[0].items():
        assert (values - weights[1][name]).abs().max() < 1e-5


@pytest.mark.slow
def test_a_run_that_lost_a_process_ends_and_resumes_to_the_same_record(
    two, command, config, tmp_path
):
    launched = [*command, tmp_path, "--launch", "cpu"]
    run = RunStore(tmp_path).run(config)
    with start(launched) as process:
        wait_for_two_updates(process)
        ranks = ranks_below(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert (run.state, run.meta["error"], alive(ranks)) == ("interrupted", "interrupted", [])

    with start(launched) as process:
        wait_for_two_updates(process)
        ranks = ranks_below(process.pid)
        os.kill(ranks[1], signal.SIGKILL)
        said = process.communicate(timeout=60)[0]
    reason = "process 1: killed by signal 9 (SIGKILL)"
    assert (process.returncode, alive(ranks)) == (1, [])
    assert (run.state, run.meta["error"]) == ("failed", reason)
    assert f"mcbench: {reason}; the same command resumes" in said

    done = subprocess.run(launched, capture_output=True, text=True, check=True)
    assert "resuming after step" in done.stdout
    assert run.meta["resumes"] == 2
    assert_same_record(two.path, run.path)


def start(command):
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )


def wait_for_two_updates(process):
    """The checkpoint after the first one is whole by then."""
    said = []
    for line in process.stdout:
        said.append(line)
        if sum("] step " in line for line in said) == 2:
            return
    raise AssertionError("".join(said[-60:]))


def ranks_below(pid):
    """Process ids of the run's processes, by rank: children of the command."""
    ranks = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (path / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if parent == pid:
            ranks |= {int(v[5:]): int(path.name) for v in variables if v.startswith(b"RANK=")}
    return [ranks[0], ranks[1]]


def alive(pids):
    """Those of the processes that still run (a zombie does not)."""
    return [pid for pid in pids if _state(pid) not in (None, "Z", "X")]


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
