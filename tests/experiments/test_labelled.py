"""The labelled suite under several judges, and what judges the training responses."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.evaluator_timing import METHODS
from benchmarks.labelled import METHOD, judge_suite
from mcbench.claims.measurements import read_suite
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator, StdioTest, Submission
from mcbench.runs import judge, train
from mcbench.runs.config import preset
from mcbench.runs.judge import reward_evaluator

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_suite_is_thinned_evenly_and_judged(tmp_path):
    judges = ["microcoder", "livecodebench", METHOD]
    script = [sys.executable, str(ROOT / "benchmarks/labelled.py"), "--judges", *judges]
    subprocess.run([*script, "--limit", "2", "--records", str(tmp_path)], check=True, cwd=ROOT)
    rows = pd.DataFrame(read_suite(tmp_path / "labelled_suite.json.gz"))
    labels = rows.drop_duplicates("case")[["part", "right"]]
    assert set(labels.value_counts()) == {2}
    given = rows.groupby("part")["rules"].agg(set)
    assert given["programs"] == set(judges)
    assert METHOD not in given["comparisons"] | given["attacks"]
    ours = rows[rows["rules"] == "microcoder"]
    assert (ours["accepted"] == ours["right"]).all()


def test_an_unknown_judge_names_the_known_ones():
    with pytest.raises(UserError, match=f"unknown judge 'me'.*; allowed: .*{METHOD}"):
        judge_suite(["me"])


@pytest.mark.parametrize(
    ("setting", "accepted"),
    [
        ({}, True),
        ({"reward_rules": "livecodebench"}, False),
        ({"reward_evaluator": "process_per_sample"}, False),
        ({"reward_evaluator": "single_threaded"}, True),
    ],
)
def test_the_reward_follows_its_rules_and_held_out_problems_do_not(setting, accepted):
    assert METHODS.keys() <= judge.PUBLISHED.keys()
    config = preset("tiny").with_settings(setting)
    submission = Submission("print(5)", [StdioTest("\n", "4.999999999999\n", atol=1e-6)])
    with Evaluator(workers=1) as ours, reward_evaluator(config, ours) as chosen:
        assert (chosen is ours) == (not setting)
        assert chosen.evaluate([submission], early_exit=True)[0].passed is accepted
        assert ours.evaluate([submission])[0].passed


def test_a_published_method_judges_only_where_it_is_timed(monkeypatch, tmp_path):
    monkeypatch.setattr(judge, "PUBLISHED", {})
    config = preset("tiny").with_settings({"reward_evaluator": "single_threaded"})
    with pytest.raises(UserError, match="is a published method, there to be timed"):
        reward_evaluator(config, None)
    with pytest.raises(UserError, match="is a published method"):
        train.train(config, tmp_path)
    assert list(tmp_path.iterdir()) == []
