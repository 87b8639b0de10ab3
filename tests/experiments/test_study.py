"""A comparison: frames, claims of whichever arms are there, committed records for runs."""

from dataclasses import replace

import numpy as np
import pytest
from fake_runs import make_curves, make_record

from mcbench.claims import CLAIMS, Result
from mcbench.claims.evidence import Part
from mcbench.claims.protocol import ELSEWHERE, PROTOCOL
from mcbench.claims.statistics import Estimate
from mcbench.errors import UserError
from mcbench.experiments.experiments import ARMS, EXPERIMENTS, planned_runs
from mcbench.experiments.plan import make_plan
from mcbench.experiments.study import (
    Study,
    _its_own,
    planned_study,
    results_of,
    run_study,
    studies,
)
from mcbench.runs.place import RECORDS, committed_records
from mcbench.runs.store import RunStore


def made_record(name, arm, seed, profile="nano"):
    """A finished run of an arm of an experiment, as it is planned."""
    cells = EXPERIMENTS[name].cells
    (one,) = planned_runs(name, profile, [seed], arms=[arm], cells=cells)
    return make_record(make_curves(one.config, np.random.default_rng(seed)), one.config)


@pytest.fixture
def recorded(tmp_path):
    """Studies without training: the folder of runs is empty, and every run is a record."""

    def make(arms, **options):
        lines = []
        study = run_study(arms, runs_dir=tmp_path, progress=lines.append, **options)
        assert not list(tmp_path.glob("*/run.json"))
        return study, lines

    return make


def test_committed_records_stand_in_for_runs_and_it_is_said(recorded):
    study, lines = recorded(None, experiment="truncation_mask", seeds=[0, 1, 2, 3, 4])
    assert lines == ["truncation_mask: 35 runs, 35 from records, 0 to train"]
    assert {arm: len(runs) for arm, runs in study.arms.items()} == dict.fromkeys(
        ARMS["truncation_mask"], 5
    )
    assert [one for one in study.results if one.startswith("M")] == [f"M{n}" for n in range(1, 7)]


@pytest.mark.slow
def test_the_same_arms_under_other_names_decide_the_same_claims(recorded):
    whole, _ = recorded(None, experiment="kl_and_clip", seeds=[0, 1, 2])
    renamed = {f"my {arm}": settings for arm, settings in ARMS["kl_and_clip"].items()}
    mine, _ = recorded(renamed, seeds=[0, 1, 2])
    assert mine.name == "comparison"
    for claim in ("K1", "K2"):
        assert mine.results[claim] == whole.results[claim]


def test_an_arm_that_computes_something_else_is_not_the_paper_s(recorded):
    other = {"recipe": "grpo_plus", "beta": 0.001, "kl_estimator": "k3"}  # kl_high_clip
    arms = {**ARMS["kl_and_clip"], "kl_low_clip": other}
    study, _ = recorded(arms, experiment="kl_and_clip", seeds=[0, 1, 2])
    assert study.results["K1"].state == "inconclusive"
    assert "no finished run of arm kl_low_clip" in study.results["K1"].note


def test_frames_have_one_row_for_each_thing_they_say(recorded):
    study, _ = recorded({"grpo_plus": {}, "microcoder": {}}, seeds=[0, 1])
    curves = study.curves
    assert len(curves) == 4 * 160
    assert set(curves) >= {"arm", "seed", "step", "length", "diversity", "truncated", "masked"}
    assert (curves["length"].dropna() == curves["completions/mean_length"].dropna()).all()
    evaluations = study.evaluations
    assert len(evaluations) == 4 * 6 * 2  # runs, evaluated steps, lengths
    assert set(evaluations["max_completion_length"]) == {96, 192}
    assert "per_problem" not in evaluations
    assert set(study.responses["arm"]) == {"grpo_plus", "microcoder"}
    assert {"prompt", "completion", "reward", "advantage"} <= set(study.responses)


def test_the_seed_of_an_evaluation_is_its_run_s(recorded):
    """And not that of its own sampling, which is another at every step."""
    study, _ = recorded(["token_none"], experiment="pretrained", profile="smollm2-135m", seeds=[80])
    assert {line["seed"] for line in study.arms["token_none"][0].eval_lines} > {80}
    assert set(study.evaluations["seed"]) == {80}


def test_what_is_missing_is_known_before_anything_is_trained(tmp_path):
    arms = {"microcoder": {}, "mine": {"mask_ratio": 0.5}}
    planned = planned_study(arms, seeds=[0, 1])
    missing = make_plan(planned, RunStore(tmp_path), committed_records()).missing
    assert [one.label for one in missing] == ["mine seed 0", "mine seed 1"]
    assert len(make_plan(planned, RunStore(tmp_path)).missing) == 4


@pytest.mark.slow
def test_every_size_of_an_experiment_is_a_study_of_its_own(committed):
    found = studies("results", committed)
    assert [one.profile for one in found] == ["nano-steady", "nano-steady-m", "nano", "nano-m"]
    arms = ["grpo_plus", "microcoder", "grpo_per_response"]
    assert [list(one.arms) for one in found] == [["grpo", *arms], arms, arms, arms]


def test_arms_have_to_be_a_mapping_or_names_of_the_experiment():
    with pytest.raises(UserError, match="did you mean none"):
        planned_study(["nonne"], "truncation_mask")
    with pytest.raises(UserError, match="arms must be a list of names or a mapping"):
        planned_study("none", "truncation_mask")
    with pytest.raises(UserError, match="unknown experiment 'results_'; did you mean results"):
        planned_study(None, "results_")


def test_the_profile_that_decides_goes_before_others_whatever_their_runs():
    arms = ("small", "medium", "large")
    first = [made_record("batch_size", arm, seed) for seed in range(3) for arm in arms]
    for profile, order in (
        ("nano-steady", ["nano-steady", "nano"]),
        ("nano-m", ["nano", "nano-m"]),
    ):
        other = [made_record("batch_size", arm, 10, profile) for arm in arms]
        sizes = studies("batch_size", [*first, *other])
        assert [study.profile for study in sizes] == order


def test_arms_of_a_task_count_at_their_own_profile_and_seeds():
    for name in ("retrieval", "recipes"):
        one = EXPERIMENTS[name]
        records = [
            made_record(name, arm, seed, profile)
            for seed in (one.seeds[0], 10)
            for profile in (*one.profiles, "nano")
            for arm in list(one.arms)[:2]
            if name == "recipes" or profile != "nano"
        ]
        found = studies(name, records)
        assert tuple(study.profile for study in found) == one.profiles
        assert {record.seed for study in found for record in study.records} == {one.seeds[0]}


def test_a_claim_is_decided_by_the_study_that_the_protocol_names():
    def study(profile, basis, *parts):
        result = Result(CLAIMS["K1"], 12, parts=parts, basis=basis)
        return Study("kl_and_clip", profile, {}, {"K1": result})

    part = Part("pass@1", Estimate(1.0, 12), "points")
    first, steady = study("nano", "first round", part), study("nano-steady", ELSEWHERE, part)
    clip, without = study("nano-clip", "protocol", part), study("nano-clip", "")
    told = [[steady, first, clip], [steady, first, without], [without, steady], [without]]
    found = [results_of(one)["K1"].basis for one in told]
    assert found == ["protocol", "first round", ELSEWHERE, ""]


def test_measurements_of_other_runs_do_not_count(recorded):
    study, _ = recorded(None, experiment="temperature", seeds=[0, 1, 2])
    rows = study.measurements
    assert study.results["T2"].parts
    others = [{**row, "run_id": "of another profile"} for row in rows]
    (found,) = studies("temperature", study.records, others)
    assert not found.results["T2"].parts


def test_where_no_records_are_it_is_said_before_all_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv(RECORDS, str(tmp_path / "none"))
    lines = []
    with pytest.raises(UserError):  # before anything is trained
        run_study(None, "context_length", runs_dir=tmp_path, workers=0, progress=lines.append)
    assert lines[0].startswith("no records are here: start in a checkout")


def test_settings_of_all_arms_leave_those_of_other_experiments_their_own(recorded):
    """Q3 of temperature reads arms of kl_and_clip, and some of these set this themselves."""
    asked = {"seeds": [0], "settings": {"epsilon_high": 0.3}, "train": False}
    study, _ = recorded(None, experiment="temperature", **asked)
    assert study.results["T2"].state == "inconclusive"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"experiment": "context"}, "unknown experiment of claim Z1 'context'"),
        ({"arms": ("shrt",)}, "unknown arm of claim Z1 'shrt'"),
        ({"arms": ("short", "results/grp")}, "unknown arm of results in claim Z1 'grp'"),
        ({"arms": ("short", "result/grpo")}, "unknown experiment in claim Z1 'result'"),
    ],
)
def test_a_claim_on_what_is_no_arm_is_refused_before_anything_is_trained(
    tmp_path, monkeypatch, changes, why
):
    own = replace(CLAIMS["C2"], id="Z1", contrasts=(), **changes)
    monkeypatch.setitem(CLAIMS, "Z1", own)
    with pytest.raises(UserError, match=why):
        run_study(None, experiment="context_length", runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_arms_with_other_data_are_none_of_the_protocol(recorded):
    """By name they are the experiment's; what they say is not its verdict."""
    options = {"experiment": "data_quality", "profile": "nano-steady", "seeds": [10]}
    study, _ = recorded(None, train=False, **options)
    assert study.results["D2"].basis.startswith(PROTOCOL)
    own = EXPERIMENTS["data_quality"].arms["harder"]
    for changed, same in (({}, True), ({"train_limit": 7}, False)):
        arms = {"harder": {**own, **changed}}
        (one,) = planned_runs("data_quality", "nano-steady", [10], arms=arms)
        record = make_record(make_curves(one.config, np.random.default_rng(0)), one.config)
        assert _its_own("data_quality", {"harder": {10: record}}, "nano-steady") == same
