"""Episodes of several turns through the real trainer: record, masks, evaluation, kill -9."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mcbench.errors import UserError
from mcbench.report.samples import text_of
from mcbench.runs.compact import read_compact, write_compact
from mcbench.runs.config import Config
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore, read_run
from mcbench.runs.train import train
from mcbench.worlds.tokenizer import load_tokenizer
from tests.runs.test_train_resume import assert_same_record

SETTINGS: dict[str, Any] = {
    "model": "nano-turns", "train_set": "turns:train", "test_set": "turns:test",
    "reward": "rlef", "feedback": "failing", "max_completion_length": 40, "eval_lengths": [40],
    "eval_every": 4, "num_generations": 4, "per_device_batch_size": 8,
}  # fmt: skip
END = load_tokenizer().eos_token_id


def tiny(recipe: str = "grpo_plus", steps: int = 4, **more: Any) -> Config:
    return resolve("tiny", recipe, {**SETTINGS, **more}, steps=steps)


def quiet(line: str) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(tiny("deepcoder"), tmp_path_factory.mktemp("whole"), quiet)


def test_the_record_knows_turns_own_tokens_and_spent_budgets(whole: Any, tmp_path: Path) -> None:
    record = read_run(whole.path)
    rows = [
        row for step in record.completion_steps() for _, row in record.completions(step).iterrows()
    ]
    episodes = [json.loads(row["turns"]) for row in rows]
    assert any(len(turns) > 1 for turns in episodes)
    tokenizer = load_tokenizer()
    for row, turns in zip(rows, episodes, strict=True):
        said = [len(tokenizer(turn["observation"])["input_ids"]) for turn in turns]
        assert row["length"] == len(row["tokens"]) - sum(said) <= 40
        assert row["truncated"] == (row["tokens"][-1] != END)
        assert row["masked"] == row["truncated"]  # TRL's own mask of cut answers
        assert row["verdicts"] == turns[-1]["verdict"]
        assert len(row["logprobs"]) == len(row["tokens"])
    told = [row for row, turns in zip(rows, episodes, strict=True) if turns[-1]["observation"]]
    assert all(row["truncated"] for row in told)
    line = record.step_lines[0]
    assert line["completions/clipped_ratio"] == line["mask/truncated"]
    assert line["completions/mean_length"] == pytest.approx(
        record.completions(1)["length"].mean(), rel=1e-6
    )
    shown = text_of(read_compact(write_compact(record, tmp_path / "kept.parquet")).sample_lines[0])
    assert [turn["action"] for turn in shown["turns"]]
    assert "verdict" in shown["turns"][0]


def test_evaluations_play_the_same_episodes(whole: Any) -> None:
    for line in read_run(whole.path).eval_lines:
        parts = line["parts"]
        assert 1 <= parts["turns"] <= 3
        assert line["mean_length"] <= 40
        assert parts["passed_1"] <= parts["passed_2"] <= parts["passed_3"]
        assert parts["passed_3"] == pytest.approx(line["pass_at_1"])


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["f05", "tests"])
def test_searches_log_what_every_turn_found(tmp_path: Path, reward: str) -> None:
    sets = {"model": "nano-search", "train_set": "search:train", "test_set": "search:test"}
    run = train(tiny(**sets, reward=reward, feedback="results"), tmp_path, quiet)
    record = read_run(run.path)
    names = {"f05", "f05_1", "f05_2", "f05_3", "files", "lines", "malformed", "turns"}
    assert all(names <= line["parts"].keys() for line in record.eval_lines)
    assert {f"task/{name}" for name in names} <= record.step_lines[0].keys()
    ends = pd.concat([record.completions(step) for step in record.completion_steps()])
    solved = ends["reward"][ends["verdicts"] == "AC"]
    assert 0 < len(solved) < len(ends)
    if reward == "tests":
        assert ((ends["reward"] == 1.0) == (ends["verdicts"] == "AC")).all()
        assert set(ends["reward"]) == {0.0, 1.0}
    else:
        assert 0 < min(solved) <= max(ends["reward"]) <= 1
    with pytest.raises(UserError, match=r"search:train knows results"):
        train(tiny(**sets, reward=reward, feedback="failing"), tmp_path, quiet)


KILLED = """
import json, os, signal, sys
from mcbench.runs.config import Config
from mcbench.runs.train import train
from mcbench.worlds import turns
step, calls = turns.Attempts.step, []
def killed(self, actions, last):
    calls.append(None)
    if self._turn == 1 and len(calls) > 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, actions, last)
turns.Attempts.step = killed
train(Config.from_dict(json.loads(sys.argv[1])), sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [None, 2])
def test_kill_9_in_a_turn_resumes_to_the_same_record(tmp_path: Path, staleness: int | None) -> None:
    config = tiny(steps=8, **({} if staleness is None else {"staleness": staleness}))
    run = train(config, tmp_path / "whole", quiet)
    arguments = [json.dumps(config.to_dict()), str(tmp_path / "runs")]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    half = RunStore(tmp_path / "runs").run(config)
    assert half.state == "interrupted"
    assert half.last_checkpoint() is not None
    train(config, tmp_path / "runs", quiet)
    assert_same_record(run.path, half.path)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"train_set": "nano:train", "reward": "tests"}, "not of several turns"),
        ({"test_set": "search:test"}, "search:test is no test set of the task of turns:train"),
        ({"test_set": "nano:test"}, "one of turns:train, turns:test is"),
        ({"alarm_share": 0.5}, "leave out alarm_share or feedback"),
        ({"reward": "tests"}, "are rewarded with rlef, got tests"),
    ],
)
def test_episodes_need_turns_throughout_and_their_reward(
    tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        train(tiny(**settings), tmp_path, quiet)
