"""Histograms and percentiles of one generation, counted by hand."""

import numpy as np

from mcbench.grpo import GenerationBatch
from mcbench.runs.compact import read_compact, write_compact
from mcbench.runs.config import preset
from mcbench.runs.distributions import (
    ADVANTAGE,
    ADVANTAGE_EDGES,
    RIGHT,
    WRONG,
    distributions,
)
from mcbench.runs.recorder import Recorder
from mcbench.runs.store import Run, RunRecord

LENGTHS, REWARDS, ADVANTAGES = [2, 4, 16, 8, 16], [1, 1, 0, 0, np.nan], [1.5, 1.5, -99, 0, 0]


def test_right_wrong_and_unscored_responses_are_counted_apart():
    found = distributions(LENGTHS, REWARDS, ADVANTAGES, limit=16)
    assert np.flatnonzero(found[RIGHT]).tolist() == [2, 4]
    assert np.flatnonzero(found[WRONG]).tolist() == [8, 15]
    assert sum(found[ADVANTAGE]) == 5
    assert found[ADVANTAGE][0] == 1  # beyond the edges counts at the edge
    zero = np.searchsorted(ADVANTAGE_EDGES, 0) - 1
    assert found[ADVANTAGE][zero] == 2
    assert (found["length/correct_p50"], found["length/incorrect_p50"]) == (3.0, 12.0)


def test_without_a_right_response_its_percentiles_are_absent():
    found = distributions([3], [0], [0], limit=16)
    assert "length/correct_p50" not in found
    assert found["length/incorrect_p90"] == 3.0


def record(path, lines):
    config = preset("tiny").with_settings({"max_completion_length": 16})
    meta = {"run_id": "r", "config": config.to_dict()}
    return RunRecord(meta, lines, [], path)


def test_logged_ones_are_read_and_kept_by_a_compact_record(tmp_path):
    found = distributions(LENGTHS, REWARDS, ADVANTAGES, limit=16)
    logged = record(tmp_path, [{"step": 1, **found}, {"step": 2}])
    assert list(logged.distributions) == [1]
    assert logged.distributions[1][ADVANTAGE] == found[ADVANTAGE]
    logged.meta["state"] = "finished"
    compact = read_compact(write_compact(logged, tmp_path / "r.parquet"))
    assert compact.distributions == {1: {"step": 1, **found}}


def test_of_a_run_that_logged_none_there_are_none(tmp_path):
    assert record(tmp_path / "r.parquet", [{"step": 1}]).distributions == {}


def test_a_generation_is_stored_with_the_log_probability_of_each_token(tmp_path):
    run = Run(tmp_path)
    (tmp_path / "completions").mkdir()
    quiet = {"config": preset("tiny"), "label": "", "is_main": True}
    text = {1: "print", 2: "(", 3: "x"}.get
    recorder = Recorder(run=run, **quiet, say=print, evaluate=print, token_text=text)
    rows = np.zeros(2)
    recorder.on_generation(
        GenerationBatch(
            step=0,
            prompts=["p", "p"],
            completions=["print(", "x"],
            completion_ids=[np.array([1, 2]), np.array([3])],
            lengths=np.array([2, 1]),
            truncated=rows > 0,
            repeating=rows > 0,
            eligible={},
            masked=rows > 0,
            rewards=rows,
            advantages=rows,
            group=rows.astype(int),
            temperature=1.0,
            max_completion_length=4,
            log_probs=[np.array([-0.5, -2.0], np.float32), np.array([-1.0], np.float32)],
        )
    )
    stored = record(tmp_path, []).completions(1)
    assert [list(row) for row in stored["pieces"]] == [["print", "("], ["x"]]
    assert [list(row) for row in stored["logprobs"]] == [[-0.5, -2.0], [-1.0]]
