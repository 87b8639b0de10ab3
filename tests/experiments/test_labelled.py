"""The labelled suite under several judges, and what judges the training responses."""

import pytest

from mcbench.errors import UserError
from mcbench.evaluator import Evaluator, StdioTest, Submission
from mcbench.experiments.labelled import METHOD, SuiteRecord, judge_suite
from mcbench.runs.config import preset
from mcbench.runs.train import reward_evaluator


def test_the_suite_is_thinned_evenly_judged_and_reused(tmp_path):
    path, lines = tmp_path / "suite.json", []
    judges = ["microcoder", "livecodebench", METHOD]
    record = judge_suite(judges, path, limit=2, progress=lines.append)
    assert SuiteRecord.read(path) == record
    labels = [(case.part, case.right) for case in record.cases]
    assert {labels.count(label) for label in labels} == {2}
    given = {part: set() for part in ("comparisons", "programs", "attacks")}
    for case in record.cases:
        given[case.part] |= case.accepted.keys()
    assert given["programs"] == set(judges)
    assert METHOD not in given["comparisons"] | given["attacks"]
    assert all(c.accepted["microcoder"] is c.right for c in record.cases)
    assert judge_suite(judges, path, limit=2, progress=lines.append) == record
    assert lines[-1] == f"labelled suite: judged before, reusing {path.name}"
    assert judge_suite(["microcoder"], path, 1, progress=lines.append).judges == ("microcoder",)


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
    config = preset("tiny").with_settings(setting)
    submission = Submission("print(5)", [StdioTest("\n", "4.999999999999\n", atol=1e-6)])
    with Evaluator(workers=1) as ours, reward_evaluator(config, ours) as chosen:
        assert (chosen is ours) == (not setting)
        assert chosen.evaluate([submission], early_exit=True)[0].passed is accepted
        assert ours.evaluate([submission])[0].passed
