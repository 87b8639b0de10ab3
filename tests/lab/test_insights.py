"""Every insight on synthetic records: present, absent, reversed; honest under noise."""

import dataclasses
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import synthetic_runs as synthetic

from mcbench.claims import (
    INSIGHTS,
    assess_all,
    count_states,
    grid_measurements,
    read_measurements,
    summary_rows,
    write_measurements,
)
from mcbench.claims.verdict import decide
from mcbench.errors import UserError
from mcbench.experiments.arms import ARMS, belongs, settings
from mcbench.experiments.labelled import LabelledCase, SuiteRecord
from mcbench.runs.config import resolve
from mcbench.runs.evaluate import EvalResult
from mcbench.runs.profiles import PROFILES

STATES = {1: "supported", 0: "inconclusive", -1: "contradicted"}


def test_there_are_34_insights_and_their_arms_exist() -> None:
    counts = {"E": 4, "T": 10, "D": 4, "C": 6, "M": 6, "B": 2, "K": 2}
    assert len(INSIGHTS) == 34
    for letter, count in counts.items():
        assert [f"{letter}{i + 1}" for i in range(count)] == [i for i in INSIGHTS if i[0] == letter]
    for insight in INSIGHTS.values():
        assert set(insight.arms) <= set(ARMS[insight.experiment])
        assert insight.statistic.__doc__
        assert insight.seeds == (0 if insight.id == "E1" else 5 if insight.id[0] == "M" else 3)


@pytest.mark.parametrize("effect", STATES)
@pytest.mark.parametrize("name", INSIGHTS)
def test_effect_present_absent_and_reversed(name: str, effect: int) -> None:
    # That a difference stays under five points takes more seeds than that there is one.
    records = synthetic.make_records(name, effect, seeds=8 if name == "T6" else 5)
    verdict = INSIGHTS[name].assess(records, synthetic.make_measurements(effect))
    assert verdict.state == STATES[effect], verdict.note
    low, high = verdict.interval
    if effect:
        assert min(effect * low, effect * high) > 0
        assert verdict.p <= 0.05


def runs_without_effect(name: str, seeds: int, draw: int) -> dict:
    return {
        arm: {seed: synthetic.make_run(name, arm, 0, seed, draw) for seed in range(seeds)}
        for arm in INSIGHTS[name].arms
    }


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("name", ["E2", "T5", "T9", "T10", "C1", "M4", "M6", "K2"])
def test_without_an_effect_at_most_5_percent_are_supported(name: str, seeds: int) -> None:
    """Before Holm's correction, which can only lower it."""
    insight = dataclasses.replace(INSIGHTS[name], seeds=3)
    findings = [insight.measure(runs_without_effect(name, seeds, draw)) for draw in range(100)]
    supported = [
        all(part.estimate.low > 0 for part in found.parts) and found.p_for <= 0.05
        for found in findings
    ]
    assert np.mean(supported) <= 0.05


@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_from_runs_cover_the_true_effect(seeds: int) -> None:
    """Last-window accuracy in two arms 12 points apart: noise of runs, evaluations and answers."""
    covered = []
    for draw in range(400):
        runs = {
            arm: {seed: synthetic.make_run("E3", arm, 1, seed, draw) for seed in range(seeds)}
            for arm in INSIGHTS["E3"].arms
        }
        found = INSIGHTS["E3"].measure(runs).parts[1].estimate
        covered.append(found.low <= 12 <= found.high)
    assert 0.93 <= np.mean(covered) <= 0.97


def test_a_changed_record_changes_the_verdict() -> None:
    records = synthetic.make_records("D2", 1)
    assert INSIGHTS["D2"].assess(records).state == "supported"
    for record in records:
        for line in record.step_lines:
            line["reward"] = 1 - line["reward"]
    assert INSIGHTS["D2"].assess(records).state == "contradicted"


@pytest.mark.parametrize("name", INSIGHTS)
def test_without_records_every_insight_is_inconclusive_and_says_why(name: str) -> None:
    verdict = INSIGHTS[name].assess([])
    assert verdict.state == "inconclusive"
    assert np.isnan(verdict.effect)
    assert verdict.reason == verdict.note
    assert ("no finished run of" if INSIGHTS[name].arms else "measurements") in verdict.note


def test_too_few_seeds_show_the_effect_and_decide_nothing() -> None:
    verdict = INSIGHTS["M2"].assess(synthetic.make_records("M2", 1, seeds=4))
    assert verdict.state == "inconclusive"
    assert verdict.note.startswith("4 of the 5 seeds it needs; ")
    assert verdict.reason == "4 of the 5 seeds it needs"
    assert verdict.n_seeds == 4
    assert verdict.interval[0] > 0
    single = INSIGHTS["D2"].assess(synthetic.make_records("D2", 1, seeds=1))
    assert single.effect > 0
    assert np.isnan(single.interval).all()


@pytest.mark.parametrize("name", INSIGHTS)
def test_a_trial_of_a_few_steps_is_inconclusive(name: str) -> None:
    records = [
        dataclasses.replace(
            record, step_lines=record.step_lines[:4], eval_lines=record.eval_lines[:4]
        )
        for record in synthetic.make_records(name, 1, seeds=3)
    ]
    verdict = INSIGHTS[name].assess(records)
    assert verdict.state == "inconclusive"
    assert ("4 points in common; 5 are needed" in verdict.note) == bool(records)


def test_a_missing_arm_is_named() -> None:
    records = [r for r in synthetic.make_records("C1", 1) if not r.run_id.startswith("middle")]
    assert INSIGHTS["C1"].assess(records).note == "no finished run of arm middle"


def test_unfinished_runs_and_other_settings_do_not_count() -> None:
    records = synthetic.make_records("D2", 1)
    for record in synthetic.make_records("D2", -1, seeds=4):  # a shorter trial
        record.config["profile"] = {**record.config["profile"], "steps": 80}
        records.append(record)
    assert INSIGHTS["D2"].assess(records).state == "supported"
    for record in records[:3]:
        record.meta["state"] = "failed"
    assert INSIGHTS["D2"].assess(records).state == "contradicted"


def test_arms_can_be_given_by_name() -> None:
    records = synthetic.make_records("D2", 1)
    arms = {"harder": records[5:], "easier": records[:5]}  # the wrong way round
    assert INSIGHTS["D2"].assess(arms).state == "contradicted"


def test_holm_counts_all_claims_of_the_experiment() -> None:
    records = synthetic.make_records("D2", 1)
    alone = INSIGHTS["D2"].measure(
        {a: {s: synthetic.make_run("D2", a, 1, s) for s in range(5)} for a in INSIGHTS["D2"].arms}
    )
    assert INSIGHTS["D2"].assess(records).p == pytest.approx(4 * alone.p_for)
    weak = dataclasses.replace(alone, p_for=0.02)
    assert INSIGHTS["D2"].assess(records).state == "supported"
    found = decide(weak, 0.08, 1.0, claims=4)
    assert found.state == "inconclusive"
    assert "Holm" in found.note


def test_the_summary_has_a_row_an_insight_and_counts_the_states() -> None:
    records = [*synthetic.make_records("D2", 1), *synthetic.make_records("C1", -1)]
    rows = summary_rows(INSIGHTS.values(), records, synthetic.make_measurements(1))
    assert [row["id"] for row in rows] == list(INSIGHTS)
    states = {row["id"]: row["state"] for row in rows}
    assert (states["D2"], states["C1"], states["E1"]) == ("supported", "contradicted", "supported")
    counts = count_states(rows)
    assert sum(counts.values()) == 34
    assert counts["contradicted"] == 1
    assert {**rows[0], **rows[-1]}.keys() == {
        "id", "section", "claim", "effect", "low", "high", "unit", "seeds", "state", "experiment",
        "note", "reason",
    }  # fmt: skip


def test_assessing_together_equals_assessing_alone() -> None:
    records, rows = synthetic.make_records("C4", 1), synthetic.make_measurements(-1)
    together = assess_all(INSIGHTS.values(), records, rows)
    for name in ("C4", "T2", "E1"):
        assert together[name] == INSIGHTS[name].assess(records, rows)


def test_each_arm_is_told_from_every_other_of_its_experiment() -> None:
    for experiment, arms in ARMS.items():
        for arm in arms:
            config = settings(experiment, arm, synthetic.NANO)
            assert [other for other in arms if belongs(config, experiment, other)] == [arm]


def test_arms_are_what_the_command_line_resolves() -> None:
    for experiment, arms in ARMS.items():
        for arm in arms if experiment != "data_quality" else ():
            made = settings(experiment, arm, asdict(PROFILES["nano"]))
            config = resolve("nano", made["recipe"], made["changes"]).to_dict()
            assert belongs(json.loads(json.dumps(config)), experiment, arm)


def test_the_usual_run_is_an_arm_of_several_experiments() -> None:
    config = settings("truncation_mask", "none", synthetic.NANO)
    found = {e: [a for a in arms if belongs(config, e, a)] for e, arms in ARMS.items()}
    assert found == {
        "results": ["grpo_plus"],
        "cross_model": ["grpo_plus"],
        "evaluator_timing": [
            "microcoder"
        ],  # it differs in steps alone, which are no matter of arms
        "truncation_mask": ["none"],
        "temperature": ["t_10"],  # the nano profile's temperature
        "kl_and_clip": ["no_kl_high_clip"],
        "data_quality": [],
        "code_evaluator": [],
        "batch_size": ["medium"],
        "context_length": ["long"],
    }


def test_stages_start_at_generation_boundaries() -> None:
    def stages(experiment: str, arm: str, key: str) -> list:
        return settings(experiment, arm, synthetic.NANO)["algorithm"][key]

    assert stages("temperature", "step_06_18", "temperature_stages") == [[0, 0.6], [64, 1.8]]
    ramp = stages("temperature", "ramp_06_18", "temperature_stages")
    assert [start for start, _ in ramp] == [0, *range(32, 97, 8)]
    assert ramp[-1][1] == pytest.approx(1.8)
    assert np.allclose(np.diff([value for _, value in ramp]), 1.2 / 9)
    assert stages("context_length", "short_late", "length_stages") == [[0, 48], [96, 96]]
    with pytest.raises(UserError, match="unknown arm of temperature 't_99'"):
        settings("temperature", "t_99", synthetic.NANO)


def test_measurements_come_back_from_their_file(tmp_path: Path) -> None:
    rows = synthetic.make_measurements(1, seeds=1)
    path = write_measurements(rows, tmp_path / "measurements.jsonl")
    again = write_measurements(reversed(rows), tmp_path / "again.jsonl")
    assert path.read_bytes() == again.read_bytes()
    found = read_measurements(tmp_path)
    assert len(found) == len(rows)
    assert all(row in found for row in rows)
    assert read_measurements(tmp_path / "absent.jsonl") == []
    with pytest.raises(UserError, match="temperature_grid measurement needs accuracy, got None"):
        write_measurements([{**rows[0], "accuracy": None}], path)
    with pytest.raises(UserError, match="unknown kind of measurement"):
        write_measurements([{"kind": "guess"}], path)


def test_the_labelled_suite_beside_the_records_counts(tmp_path: Path) -> None:
    cases = [
        LabelledCase("comparisons", "any", str(i), i % 2 == 0, {"microcoder": i % 2 == 0,
                     "livecodebench": i % 8 == 0, "other": True})
        for i in range(120)
    ]  # fmt: skip
    suite = SuiteRecord(("microcoder", "livecodebench", "other"), tuple(cases), "")
    suite.write(tmp_path / "labelled_suite.json")
    verdict = INSIGHTS["E1"].assess([], read_measurements(tmp_path))
    assert verdict.state == "supported"
    assert verdict.effect == pytest.approx(75)
    assert "right solutions accepted (100.0 % against 25.0 %): +75.0 points" in verdict.note


def test_evaluations_at_several_temperatures_become_measurements() -> None:
    rows = []
    for seed in range(3):
        for step in (0, 160):
            results = [
                EvalResult(96, t, 4, 0.4, 50.0, 0.1, 0.3 * t + 0.01 * seed * t, ())
                for t in (0.5, 1.0, 1.5)
            ]
            rows += grid_measurements("base", seed, step, results)
    verdict = INSIGHTS["T2"].assess([], rows)
    assert verdict.effect == pytest.approx(0.31)
    assert verdict.state == "supported"


def test_incomplete_measurements_are_inconclusive() -> None:
    rows = synthetic.make_measurements(1)
    without = [row for row in rows if row.get("rules") != "livecodebench"]
    assert "not judged under the rules livecodebench" in INSIGHTS["E1"].assess([], without).note
    short = [row for row in rows if row.get("seed") != 2 or row["step"] < 160]
    assert "every seed needs the same" in INSIGHTS["T1"].assess([], short).note
    two = [row for row in rows if row.get("seed", 0) < 2]
    assert INSIGHTS["T2"].assess([], two).note.startswith("2 of the 3 seeds")
