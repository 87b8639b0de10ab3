"""The documents' lines that start processes, as far as they go on a processor.

Each is run as it stands, but with a small model and few tokens, and here where it asks for a
cluster; one of those that ask for GPUs is trained on two processes. A line that is new in the
documents is run, too.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcbench.cli import app, main
from mcbench.experiments.experiments import ARMS
from mcbench.runs.config import Config
from mcbench.runs.presets import PROFILES
from mcbench.runs.store import RunStore, read_run
from mcbench.scale import launch, process
from mcbench.scale.measure import architecture, random_model
from mcbench.worlds.tokenizer import load_tokenizer
from tests.quick import every

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMMAND = r"mcbench (?:train|sweep) "


def documented(pattern, lines):
    """The commands that match in such lines of the documents, without their comments."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "configs").rglob("*.yaml")]
    taken = [line for page in pages for line in re.findall(lines, page.read_text(), re.MULTILINE)]
    found = [text for line in taken for text in re.findall(pattern, line)]
    return sorted({shlex.join(shlex.split(text, comments=True)) for text in found})


def starts_processes(line):
    words = line.split()
    return "--dry-run" not in words and (words[1] == "sweep" or "--launch" in words)


# In blocks, and at the head of configurations; then in tables.
BLOCKS = documented(".+", rf"^(?:#   )?({COMMAND}.*)$")
LINES = sorted({*BLOCKS, *documented(rf"`({COMMAND}[^`]+)`", r"^\|.*$")})
STARTING = [line for line in LINES if starts_processes(line)]

SMALL = {
    "backend": "transformers",
    "prompt_style": "plain",
    "enable_thinking": None,
    "train_batch_size": 4,
    "ppo_mini_batch_size": 2,
    "num_generations": 2,
    "per_device_batch_size": 2,
    "small_eval_every": None,
    "repeat_window": 4,
    "reward_workers": 1,
}


@pytest.fixture(scope="module")
def small(tiny, tmp_path_factory):
    """A function that makes a line small: its words, with the folder of runs."""
    path = tmp_path_factory.mktemp("model")
    random_model(architecture("nano-s")).save_pretrained(path)
    load_tokenizer().save_pretrained(path)
    settings = {**tiny, **SMALL, "model": str(path)}

    def words(line, runs_dir):
        line = re.sub(r" --launch \S+", " --launch cpu", line)
        line = re.sub(r" --(address|processes) \S+", "", line)
        words = [*shlex.split(line)[1:], "--runs-dir", str(runs_dir)]
        words += ["--seeds", "0", "--workers", "2"] if words[0] == "sweep" else []
        return [
            *words,
            *(w for n, v in settings.items() for w in ("--set", f"{n}={json.dumps(v)}")),
        ]

    return words


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Where the documents' paths lead from; started processes find the scripts of this folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("line", LINES)
def test_a_documented_line_is_one_that_the_program_takes(line):
    name, *words = shlex.split(line)[1:]
    assert app.get_command(None, name).make_context(name, words)


def test_the_documents_have_lines_that_start_processes():
    assert {line.split()[1] for line in STARTING} == {"train", "sweep"}


@pytest.mark.parametrize("line", every(9, STARTING))
def test_its_processes_are_given_what_it_says(line, small, tmp_path, monkeypatch):
    def launched(chosen, arguments, folder):  # one process, and no launcher
        subprocess.run([sys.executable, "-m", "told", "train", *arguments], check=True)

    command, to_text, sent = process.command, Config.to_text, []
    monkeypatch.setattr(
        process, "command", lambda task: ["told" if w == "mcbench" else w for w in command(task)]
    )
    monkeypatch.setattr(launch, "_launch", launched)
    monkeypatch.setattr(Config, "to_text", lambda self: sent.append(self) or to_text(self))
    assert main(small(line, tmp_path)) == 0
    assert sent
    for config in sent:
        assert config.learning_rate == PROFILES[config.profile]["learning_rate"]
        assert RunStore(tmp_path).run(config).meta["told"] == repr(config)


def trained(words, runs_dir):
    """The record of the one run that a command trains, in processes of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "mcbench", *words, "--steps", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    (run,) = RunStore(runs_dir)
    assert run.state == "finished"
    record = read_run(run.path)
    assert record.steps["step"].tolist() == [1, 2]
    assert record.config.learning_rate == 1e-06
    return record


@pytest.mark.slow
def test_a_run_of_a_documented_sweep_is_trained(small, tmp_path):
    line = next(line for line in STARTING if re.match("mcbench sweep .*--profile qwen", line))
    arm = next(iter(ARMS[line.split()[2]]))
    trained([*small(line, tmp_path), "--arms", arm], tmp_path)


@pytest.mark.slow
def test_a_documented_launch_is_trained_by_its_processes(small, tmp_path):
    line = next(line for line in BLOCKS if "--config" in line and "--launch " in line)
    record = trained(small(line, tmp_path), tmp_path)
    assert record.meta["processes"] == {"count": 2, "sharding": "none"}
