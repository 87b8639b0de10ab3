"""Intervals that hold on other features: whole features of problems resampled."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_runs import make_config, make_curves

from mcbench.claims import assess
from mcbench.claims import curves as of_runs
from mcbench.claims import statistics as st
from mcbench.claims.curves import RunCurves, features_in, features_of
from mcbench.claims.evidence import Evidence, difference
from mcbench.claims.margins import POINTS
from mcbench.experiments.study import planned_study
from mcbench.experiments.training import find_record
from mcbench.report.claims import (
    claim_sections,
    our_sections,
    result_table,
    state_table,
    summary_lines,
    verdicts,
)
from mcbench.runs.store import RunStore

from .effects import make_runs

RECORDS = Path(__file__).parents[2] / "reports" / "records"


def test_two_features_of_different_size_by_hand() -> None:
    """Three problems at 4 and one at 0: the two clusters drawn give 4, 3 or 0, at 1 : 2 : 1."""
    counts = st.resample_clusters(("a", "b", "a", "a"))
    assert {tuple(row) for row in counts} == {(2, 0, 2, 2), (1, 1, 1, 1), (0, 2, 0, 0)}
    means = counts @ [4.0, 0.0, 4.0, 4.0] / counts.sum(axis=1)
    assert set(means) == {4.0, 3.0, 0.0}
    assert st._problem_variance(np.stack([means, means], axis=1)) == pytest.approx(2.25, rel=0.15)


def test_problems_that_all_differ_are_drawn_as_before() -> None:
    gaps = np.random.default_rng(0).normal(size=(4, 30))
    alone = tuple(f"p{i:02d}" for i in range(30))
    assert np.array_equal(st.resample_clusters(alone), st.resample_problems(30))
    assert st.paired_difference(gaps, 0 * gaps, alone) == st.paired_difference(gaps, 0 * gaps)


def test_what_problems_of_a_feature_share_widens_the_interval_by_the_design_effect() -> None:
    """Ten problems a feature that are the same: as good as one, so ten times the variance."""
    rng = np.random.default_rng(1)
    gaps = np.repeat(rng.normal(size=40), 10) + rng.normal(size=(6, 1))
    clusters = tuple(f"f{i // 10}" for i in range(400))
    single, whole = (st.paired_difference(gaps, 0 * gaps, one) for one in ((), clusters))
    assert whole.problem_variance / single.problem_variance == pytest.approx(10, rel=0.2)
    assert (whole.value, whole.seed_variance) == (single.value, single.seed_variance)


def test_features_of_an_embedded_set() -> None:
    features = features_of("nano-balanced:test")
    assert len(features) == 156
    assert len(set(features.values())) == 16
    assert "2 * x" in features.values()
    assert features_of("some/file.jsonl") == {}


def runs_with(clusters: tuple[str, ...]) -> dict[str, dict[int, RunCurves]]:
    """Two arms with three seeds, 6 points apart, whose problems hang together as told."""

    def run(accuracy: float, seed: int) -> RunCurves:
        made = make_curves(make_config(), np.random.default_rng([seed, int(accuracy)]), None,
                           accuracy)  # fmt: skip
        return replace(made, rates={how: replace(one, clusters=clusters)
                                    for how, one in made.rates.items()})  # fmt: skip

    return {arm: {s: run(at, s) for s in range(3)} for arm, at in (("a", 45.0), ("b", 51.0))}


def test_evidence_draws_whole_features_only_where_asked() -> None:
    shared = runs_with(tuple(f"f{i % 4}" for i in range(120)))

    def apart(runs: dict[str, dict[int, RunCurves]], by_feature: bool) -> st.Estimate:
        evidence = Evidence(runs, by_feature=by_feature)
        ends = [evidence.accuracy(arm) for arm in ("b", "a")]
        return difference("", POINTS, *ends, st.last_window).estimate

    assert apart(shared, False) == apart(runs_with(()), False) == apart(runs_with(()), True)
    assert apart(shared, True).value == apart(shared, False).value
    assert apart(shared, True) != apart(shared, False)
    assert features_in(shared["a"].values()) == 4
    assert features_in(runs_with(())["a"].values()) == 0


def test_results_stand_beside_those_on_other_features(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = make_runs("D1", 1)
    before = assess("data_quality", runs)
    assert {(one.features, one.by_feature) for one in before.values()} == {(0, None)}
    monkeypatch.setattr(
        of_runs, "features_of", lambda _: {f"p{i:03d}": f"f{i // 30}" for i in range(120)}
    )
    found = assess("data_quality", runs)
    for name, one in found.items():
        assert replace(one, features=0, by_feature=None) == before[name]
        assert one.features == 4
        assert one.by_feature is not None
        values = [[part.estimate.value for part in each.parts] for each in (one, one.by_feature)]
        assert values[0] == values[1]
    assert found["D1"].by_feature.interval != found["D1"].interval
    assert found["D2"].by_feature.parts == found["D2"].parts  # reward alone


STATES = {"D1": "inconclusive", "D2": "supported", "D3": "mixed", "D4": "mixed", "Q5": "higher"}
"""Of the committed runs at the protocol's seeds, problem by problem; no later code changes them."""
GAIN = [13.819444444444438, 10.322704256642181, 17.316184632246692]


def test_states_by_problem_are_those_of_the_protocol() -> None:
    planned = planned_study(None, "data_quality", "nano-steady", range(10, 22))
    runs: dict[str, dict] = {}
    for one in planned:
        runs.setdefault(one.arm, {})[one.config.seed] = find_record(
            one, RunStore(RECORDS / "none"), [RECORDS]
        )
    found = assess("data_quality", runs, profile="nano-steady")
    assert {name: found[name].state for name in STATES} == STATES
    gain, there = found["D1"].parts[0], found["D1"].by_feature.parts[0]
    ends = [gain.estimate.value, gain.estimate.low, gain.estimate.high]
    assert ends == pytest.approx(GAIN, abs=1e-9)
    assert found["D1"].features == 16
    assert there.estimate.low < gain.estimate.low - 3


@pytest.fixture
def moved() -> dict:
    """A claim and a question, each with a part that is decided on these features alone."""
    found = {
        **assess("data_quality", make_runs("D2", 1)),
        **assess("kl_and_clip", make_runs("Q4", 1)),
    }
    made = {}
    for name in ("D2", "Q4"):
        one = found[name]
        at = one.parts.index(one.decisive)
        wide = replace(one.decisive.estimate, problem_variance=1e4)
        there = [*one.parts]
        there[at] = replace(one.decisive, estimate=wide, state="inconclusive")
        other = replace(one, state="inconclusive", parts=tuple(there), decisive=there[at])
        made[name] = replace(one, features=16, by_feature=other)
    return made


def test_pages_say_what_holds_on_these_features_alone(moved: dict) -> None:
    told = "on these 16 features; on others inconclusive"
    assert state_table({"D2": moved["D2"]})["Rests on"].tolist() == [told]
    (first,) = verdicts(moved)
    assert first.text.endswith("] on these 16 features")
    cells = result_table(moved).set_index("Claim")["95 % interval"]
    assert cells.str.contains(r"\(on other features: −.* to \+.*, inconclusive\)").sum() == 2
    for sections in (claim_sections(moved), our_sections(moved)):
        assert (
            "“On these 16 features”: many held-out problems ask for one of 16" in sections[0].prose
        )
    lines = summary_lines(moved)
    assert sum(f" (rests on: {told})" in line for line in lines) == 2
    assert "“On these 16 features”" in lines[-1]


def test_pages_are_as_before_where_no_state_changes(moved: dict) -> None:
    same = {name: replace(one, by_feature=replace(one, features=0, by_feature=None))
            for name, one in moved.items()}  # fmt: skip
    none = {name: replace(one, features=0, by_feature=None) for name, one in moved.items()}
    assert summary_lines(same) == summary_lines(none)
    assert not any("features" in line for line in summary_lines(same))
    for make in (verdicts, claim_sections, our_sections):
        assert repr(make(same)) == repr(make(none))
    assert state_table({"D2": same["D2"]})["Rests on"].tolist() == ["–"]
