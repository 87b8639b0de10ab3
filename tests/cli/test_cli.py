"""The command line: wrong input is one sentence and exit status 2, with nothing written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcbench.cli import main
from mcbench.experiments.experiments import planned_runs
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore

COMMANDS = (
    "train",
    "sweep",
    "run",
    "runs",
    "watch",
    "evaluate",
    "data",
    "report",
    "settings",
    "doctor",
)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def settings(tiny_settings):
    """The tiny profile's changes as --set options."""
    texts = [f"{name}={json.dumps(value)}" for name, value in tiny_settings.items()]
    return ["--profile", "tiny", *(part for text in texts for part in ("--set", text))]


def test_help_is_there_for_every_command_and_loads_no_torch():
    code = (
        "import sys; from mcbench.cli import main\n"
        f"for words in [[], *([c] for c in {COMMANDS!r}), ['nano', 'build']]:\n"
        "    assert main([*words, '--help']) == 0\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert all(command in done for command in COMMANDS)


def test_the_exit_status_reaches_the_shell():
    done = subprocess.run(
        [sys.executable, "-m", "mcbench", "evaluate", "./none"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("mcbench: model or checkpoint './none' does not exist")


def refused(arguments, capsys, folder):
    """The error message of a refused command."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert list(folder.iterdir()) == []
    return err.removeprefix("mcbench: ").rstrip()


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--recipe", "ppo"], "unknown recipe 'ppo'; allowed: cispo, clip_cov, deepcoder, dr_grpo"),
        (["--profile", "huge"], "unknown profile 'huge'; allowed: nano, nano-branches, nano-clip"),
        (["--set", "rho=0.1"], "unknown setting 'rho'; `mcbench settings` lists them, by family"),
        (
            ["--set", "mask_ration=0.1"],
            "did you mean mask_ratio?; the mask settings are",
        ),
        (["--set", "mask_ratio"], "--set takes NAME=VALUE such as mask_ratio=0.5, got"),
        (["--set", "ppo_mini_batch_size=3"], "must be a multiple of ppo_mini_batch_size"),
        (["--set", "per_device_batch_size=3"], "do not divide; per_device_batch_size can be 1"),
        (["--set", "mask_ratio=1.5"], "mask_ratio must be from 0 to 1, got 1.5"),
        (["--set", "temperature=0"], "temperature must be greater than 0"),
        (["--set", "temperature_stages=4:1.2,2:0.6"], "temperature_stages"),
        (["--set", "truncation_mask=some"], "unknown truncation_mask 'some'"),
        (["--set", "model=./none"], "model or checkpoint './none' does not exist"),
        (["--set", "model=runs/none"], "model or checkpoint 'runs/none' does not exist"),
        (["--set", "loss_type=ppo"], "unknown loss_type 'ppo'; allowed: bnpo, cispo, dapo"),
        (["--set", "epsilon=-1"], "epsilon must be at least 0, got -1.0"),
        (["--steps", "0"], "steps must be greater than 0"),
        (["--seed", "-1"], "seed must be a whole number from 0"),
        (["--config", "none.json"], "configuration none.json cannot be read"),
    ],
)
def test_train_refuses_wrong_input(settings, change, message, dry, capsys, in_an_empty_folder):
    if "--config" in change:
        settings = []
    arguments = ["train", *settings, *change, *(["--dry-run"] if dry else [])]
    assert message in refused(arguments, capsys, in_an_empty_folder)


def test_train_refuses_a_row_without_tests(settings, tmp_path, capsys, in_an_empty_folder):
    row = {"id": "p0", "statement": "s", "form": "stdin", "difficulty": "easy", "tests": []}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    error = refused(["train", *settings, "--set", f"train_set={path}"], capsys, in_an_empty_folder)
    assert error == f"line 1 of {path}: p0: it has no tests; at least one is needed to judge it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "result"], "unknown experiment 'result'; did you mean results?; allowed: "),
        (["sweep", "results", "--arms", "ppo"], "unknown arm of experiment 'results' 'ppo'"),
        (["sweep", "results", "--workers", "0", "--dry-run"], "0 is not in the range x>=1"),
        (["sweep", "results", "--retries", "-1", "--dry-run"], "-1 is not in the range x>=0"),
        (["train", "--profile", "tiny", "--runs-dir", "/proc/x"], "runs cannot be kept in /proc/x"),
        (["evaluate", "nano-x"], "model or checkpoint 'nano-x' does not exist"),
        (["evaluate", "{model}", "--temperature", "0"], "temperature must be greater than 0"),
        (["evaluate", "{model}", "--attempts", "0"], "attempts must be at least 1"),
        (["evaluate", "{model}", "--batch-size", "0"], "--batch-size must be at least 1"),
        (["evaluate", "{model}", "--workers", "0"], "--workers must be at least 1"),
        (["evaluate", "{model}", "--test-set", "x"], "unknown problem set 'x'"),
        (["run", "none.ipynb"], "notebook none.ipynb does not exist"),
        (["report", "none"], "no run or record at none"),
        (["report"], "no run or record at reports"),
        (
            ["nano", "build", "nano-x"],
            "unknown nano model 'nano-x'; did you mean nano-s or nano-m?",
        ),
    ],
)
def test_other_commands_refuse_wrong_input(
    arguments, message, tiny_model, problem_file, capsys, in_an_empty_folder
):
    arguments = [text.format(model=tiny_model) for text in arguments]
    if arguments[0] == "evaluate" and "--test-set" not in arguments:
        arguments += ["--test-set", str(problem_file)]
    assert message in refused(arguments, capsys, in_an_empty_folder)


def test_numbers_are_asked_for_by_example(capsys):
    assert main(["evaluate", "nano-s", "--lengths", "80,x"]) == 2
    assert "expected whole numbers such as 0,1,2, got '80,x'" in capsys.readouterr().err


def test_a_dry_run_says_what_would_happen_and_writes_nothing(settings, capsys, in_an_empty_folder):
    assert main(["train", *settings, "--set", "mask_ratio=0.1", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert '"mask_ratio": 0.1' in out
    assert "(absent in runs)" in out
    assert "steps: 4" in out
    assert "updates per generation: 2" in out
    assert list(in_an_empty_folder.iterdir()) == []


def test_train_then_evaluate_then_train_from_the_record(settings, problem_file, capsys):
    assert main(["train", *settings, "--recipe", "grpo", "--steps", "2"]) == 0
    path = capsys.readouterr().out.rstrip().rpartition(": ")[2]
    test = ["--test-set", str(problem_file), "--lengths", "6,12", "--attempts", "2"]
    assert main(["evaluate", path, *test, "-o", "result.json"]) == 0
    out = capsys.readouterr().out
    assert "up to 6 tokens: pass@1" in out
    assert re.search(r"easy +medium +hard +all", out)
    assert re.search(r"^up to 12 tokens +\d", out, re.MULTILINE)
    rows = json.loads(Path("result.json").read_text())
    assert [row["max_completion_length"] for row in rows] == [6, 12]
    assert main(["train", "--config", f"{path}/run.json"]) == 0
    assert "finished before: reusing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "option", "message"),
    [
        ("setings: {steps: 4}", [], "unknown entry of run.yaml 'setings'; did you mean settings?"),
        ("recipe: grpo", ["--recipe", "dapo"], "--recipe and run.yaml both name the recipe"),
        ("model: nano-s", ["--seed", "5"], "--config is a whole configuration; --profile"),
    ],
)
def test_a_configuration_that_an_option_cannot_change_says_so(
    text, option, message, capsys, in_an_empty_folder
):
    Path("run.yaml").write_text(text)
    assert main(["train", "--config", "run.yaml", *option, "--dry-run"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_is_planned_trained_kept_and_reported(settings, capsys):
    sweep = ["sweep", "results", *settings, "--seeds", "0", "--arms", "grpo", "--steps", "2"]
    assert main([*sweep, "--dry-run"]) == 0
    assert "1 distinct, 0 saved by sharing\nfinished: 0, to train: 1" in capsys.readouterr().out
    assert main([*sweep, "--keep", "reports/records"]) == 0
    assert "1 compact records in reports/records" in capsys.readouterr().out
    for records, page in (("runs", "runs.html"), ("reports/records", "kept.html")):
        assert main(["report", records, "-o", page]) == 0
        assert "<html" in Path(page).read_text()


def test_a_planned_sweep_is_the_one_that_is_trained(settings, tiny_settings, capsys):
    assert main(["sweep", "results", "--seeds", "0", "--list"]) == 2
    assert "--list goes with --dry-run" in capsys.readouterr().err
    sweep = ["sweep", "rivals", *settings, "--seeds", "0", "--steps", "2", "--dry-run"]
    assert main([*sweep, "--arms", "dr_grpo,clip_cov"]) == 0
    told = "left out: 1 run of functions that others have replaced: they are only read\nruns: 1 by"
    assert told in capsys.readouterr().out
    one = ["sweep", "results", *settings, "--seeds", "0", "--arms", "grpo", "--steps", "2"]
    planned = planned_runs("results", "tiny", [0], 2, ["grpo"], tiny_settings)
    for run in (RunStore().run(one.config) for one in planned):
        run.begin({"run_id": run.run_id, "config": {}, "started": 1.0})
        run.finish(2.0)
    for fresh, finished in (([], 1), (["--fresh"], 0)):
        assert main([*one, *fresh, "--dry-run"]) == 0
        assert f"finished: {finished}, to train: {1 - finished}" in capsys.readouterr().out


def test_a_planned_sweep_says_what_is_recorded(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["sweep", "results", "--dry-run", "--runs-dir", str(tmp_path)]) == 0
    told = "84 of 96 recorded in reports/records; --keep DIR counts them as finished"
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("runs: 96 by arm and seed")
    assert out[3:] == [told, "--list shows a line for each of the 96 runs"]


@pytest.mark.parametrize(
    ("complete", "words", "printed"),
    [
        ("bash_source", "", "_MCBENCH_COMPLETE=bash_complete"),
        ("zsh_source", "", "#compdef mcbench"),
        ("fish_source", "", "complete --no-files --command mcbench"),
        ("bash_complete", "mcbench tr", "plain,train\n"),
        ("bash_complete", "mcbench train --prof", "plain,--profile\n"),
    ],
)
def test_the_shell_completes(complete, words, printed):
    code = "import sys; sys.argv = ['mcbench']; from mcbench.cli import main; sys.exit(main())"
    asked = {"_MCBENCH_COMPLETE": complete, "COMP_WORDS": words}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, **asked, "COMP_CWORD": str(len(words.split()) - 1)},
    )  # fmt: skip
    assert printed in done.stdout


@pytest.mark.slow
def test_doctor_reports_versions_cores_and_sandbox(capsys):
    main(["doctor"])
    out = capsys.readouterr().out
    assert "torch 2." in out
    assert "processor cores" in out
    assert "sandbox layers:" in out


def test_a_reader_that_stops_early_is_no_error():
    """``mcbench ... | head -1``: the pipe is closed before the command has said all."""
    command = [sys.executable, "-m", "mcbench", "settings"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


@pytest.fixture
def few_records(tmp_path):
    """Four committed records with what they need, two of each of two arms."""
    records = Path(__file__).parents[2] / "reports" / "records"
    for path in records.glob("*-*.json"):
        (tmp_path / path.name).symlink_to(path)
    for name, settings in (("microcoder", {"mask_ratio": 0.3}), ("grpo_plus", {})):
        for seed in (10, 11):
            path = records / f"{resolve('nano-steady', name, settings, seed=seed).run_id}.parquet"
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


def test_runs_are_listed_filtered_and_shown(capsys, few_records):
    asked = ["runs", "--runs-dir", str(few_records)]
    assert main([*asked, "--where", "mask_ratio=0.3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("mask_ratio 0.3" in line and "finished" in line for line in lines)
    assert main([*asked, lines[0].split()[0][:6]]) == 0
    out = capsys.readouterr().out
    assert '"mask_ratio": 0.3' in out
    shown = {
        told.split(": ")[0]: float(told.split("pass@1 ")[1].split("%")[0])
        for told in out.splitlines()
        if "up to" in told
    }
    assert len(shown) == out.count("up to")  # each line says what it is of
    last = max(how for how in shown if how.endswith("up to 96 tokens, 240 problems, T = 1"))
    assert f"pass@1 {shown[last]:6.1f}%" in out.splitlines()[0]
    assert main([*asked, "--where", "maskratio=0.3"]) == 2
    assert "unknown setting 'maskratio'; did you mean mask_ratio?" in capsys.readouterr().err
    assert main([*asked, "zzz"]) == 2
    assert "has an id that begins with 'zzz'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_committed_records_are_listed(capsys, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["runs", "--records", "--where", "mask_ratio=0.3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 5  # the first round's, and more
    assert all("mask_ratio 0.3" in line and "finished" in line for line in lines)


def test_settings_are_listed_by_family(capsys):
    assert main(["settings", "mask"]) == 0
    out = capsys.readouterr().out
    assert "microcoder: 0.2" in out
    assert "(number from 0 to 1)" in out
    assert "learning_rate" not in out
    assert main(["settings", "mask_ratio"]) == 0
    assert "range: number from 0 to 1" in capsys.readouterr().out
    assert main(["settings", "masks"]) == 2
    assert "did you mean mask" in capsys.readouterr().err


def test_a_set_that_is_not_built_yet_is_said_with_the_command(capsys, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["train", "--set", "train_set=build/deepcoder", "--dry-run"]) == 2
    told = "problem set 'build/deepcoder' is not built yet: mcbench data build configs/deepcoder"
    assert f"mcbench: {told}.yaml\n" == capsys.readouterr().err


def test_a_large_model_without_a_gpu_is_refused_until_one_insists(capsys, monkeypatch):
    from mcbench.scale import launch

    monkeypatch.setattr(launch, "gpu_here", lambda: None)
    trained = []
    monkeypatch.setattr(launch, "train_here", lambda config, *_: trained.append(config.profile))
    assert main(["train", "--profile", "qwen3-1.7b"]) == 2
    error = capsys.readouterr().err
    assert "no GPU is visible here" in error
    assert "--set on_cpu=true" in error
    assert "transformers" not in error
    assert main(["train", "--profile", "qwen3-1.7b", "--set", "on_cpu=true"]) == 0
    assert main(["train", "--profile", "nano"]) == 0
    assert trained == ["qwen3-1.7b", "nano"]


def test_an_evaluation_is_said_before_it_is_made(capsys, in_an_empty_folder):
    assert main(["evaluate", "nano-s", "--limit", "8", "--attempts", "2", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "16 responses at each maximum length of 96, 192 tokens, with transformers" in out
    assert out.rstrip().endswith("which is new")
    assert not list(in_an_empty_folder.iterdir())


def test_an_allowed_name_is_said_once(capsys):
    assert main(["settings", "maskratio"]) == 2
    assert capsys.readouterr().err.count(" backend,") == 1
