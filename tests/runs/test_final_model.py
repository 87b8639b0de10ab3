"""The final model of a run in bf16, prompts that are too long, settings that every arm has."""

import json

import pytest
import torch
from safetensors.torch import load_file

from mcbench.errors import UserError
from mcbench.experiments.experiments import planned_runs
from mcbench.runs.resolve import resolve
from mcbench.runs.store import read_run
from mcbench.runs.train import train
from mcbench.worlds.tokenizer import load_tokenizer


def test_what_was_trained_in_bf16_is_stored_so(tiny_settings, tmp_path):
    changes = {**tiny_settings, "precision": "bf16"}
    run = train(resolve("tiny", settings=changes, steps=2), tmp_path, lambda line: None)
    weights = load_file(run.final_model / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.bfloat16}
    assert json.loads((run.final_model / "config.json").read_text())["dtype"] == "bfloat16"
    assert not list(run.final_model.glob("optimizer*"))


def test_problems_with_long_prompts_are_left_out_and_counted(tiny_settings, problem_file, tmp_path):
    rows = [json.loads(line) for line in problem_file.read_text().splitlines()]
    limit = max(len(load_tokenizer()(row["statement"])["input_ids"]) for row in rows)
    rows[1]["statement"] *= 2
    path = tmp_path / "longer.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sets = {"train_set": str(path), "test_set": str(path), "max_prompt_length": limit}
    lines = []
    run = train(resolve("tiny", settings={**tiny_settings, **sets}), tmp_path, lines.append)
    left_out = (
        f"1 of 6 problems of {path} are left out: their prompts have more than {limit} tokens"
    )
    assert sum(left_out in line for line in lines) == 2  # of training and of testing
    record = read_run(run.path)
    trained = {
        one for step in record.completion_steps() for one in record.completions(step)["problem_id"]
    }
    tested = {row["id"] for row in record.evals["per_problem"][0]}
    assert "p1" not in trained | tested
    assert len(tested) == 4


def test_prompts_that_are_all_too_long_are_refused(tiny_settings, tmp_path):
    none = resolve("tiny", settings={**tiny_settings, "max_prompt_length": 1})
    with pytest.raises(UserError, match=r"every prompt of .* has more than max_prompt_length=1"):
        train(none, tmp_path, lambda line: None)


def test_one_training_set_for_arms_that_each_have_their_own_is_refused():
    with pytest.raises(UserError, match=r"train_set: every arm sets its own \(harder, easier\)"):
        planned_runs("data_quality", settings={"train_set": "nano:train"})
    runs = planned_runs("data_quality", seeds=[0])
    assert len({one.config.train_set for one in runs}) == 2
