"""Every claim on made runs: effect present, absent, reversed; honest under noise."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from mcbench.claims import CLAIMS, Result, arms_elsewhere, assess, claims_of
from mcbench.claims.assess import Curves, answer, decide, measure
from mcbench.claims.curves import duplicates, run_curves
from mcbench.claims.rules import p_values
from mcbench.experiments.experiments import REGISTERED
from mcbench.report.claims import summary_tables
from mcbench.report.style import spoken
from mcbench.runs.store import RunRecord
from tests.quick import every

from .effects import EFFECTS, OWN_SEEDS, arm_curves, make_measurements, make_runs

LANDSCAPE = [name for name, one in CLAIMS.items() if one.whose == "landscape"]
# Those of the landscape have their effects in test_landscape.py.
PLANTED = [name for name, one in CLAIMS.items() if one.arms and name not in LANDSCAPE]
PAPER = [name for name, one in CLAIMS.items() if one.directed and name not in LANDSCAPE]
OURS = [name for name, one in CLAIMS.items() if not one.directed]
EXPERIMENTS = {one.experiment for one in CLAIMS.values()}
STILL_HOLDS = ("T6", "T7", "D3", "D4", "M1", "M5", "B1", "K2")
"""Claims of which some part holds although the effect is reversed, such as "reward grows"."""
PRETRAINED = ("Q18", "Q19", "Q20")
UNDECIDED = ("inconclusive", "no effect", "mixed")
OUR_STATES = {1: ("higher",), 0: ("inconclusive", "no effect"), -1: ("lower",)}
PARTS = {
    "Q1": "growth of responses, newer minus older",
    "Q2": "growth, incorrect minus no mask",
    "Q3": "token entropy after 75% of training",
    "Q4": "Distinct-4, no KL minus KL",
    "Q5": "pass@1 on hard problems, harder minus easier set",
    "Q6": "prompts with a gradient",
    "Q7": "pass@1 at the longest length, loss averaged per response minus over tokens",
    "Q8": "tokens clipped, small to medium",
    "Q9": "pass@1, mask minus no mask at half the limit",
    "Q10": "pass@1, rho 1 minus rho 0.3",
    "Q11": "pass@1, the normaliser",
    "Q12": "length, KL 0.3 minus none",
    "Q13": "unique programs, no upper clip minus high",
    "Q14": "weight kept by the longest responses, ratios masked by sequence minus cut by token",
    "Q15": "unique programs, any loop minus the paper's rule",
    "Q16": "length, DAPO's length punishment minus none",
    "Q17": "pass@1 at the training length, MicroCoder-GRPO minus GRPO+, both over tokens",
    "Q18": "gain, no mask, over tokens",
    "Q19": "pass@1, rho 1 minus no mask, over tokens",
    "Q20": "cut answers, rho 1 minus no mask",
}
"""The part of a question of ours in which its effect is planted."""


@cache
def result(name: str, effect: int, seeds: int = 5) -> Result:
    experiment = CLAIMS[name].experiment
    return assess(experiment, make_runs(name, effect, seeds), make_measurements(effect))[name]


@cache
def judged(name: str, effect: int, seeds: int = 9) -> Result:
    """As :func:`result`, without the detour over records."""
    claim = CLAIMS[name]
    curves = {
        arm: {seed: arm_curves(name, arm, effect, seed) for seed in OWN_SEEDS[:seeds]}
        for arm in claim.arms
    }
    found = measure(claim, curves, make_measurements(effect, seeds))
    if not claim.directed:
        return answer(found)
    family = sum(one.directed for one in claims_of(claim.experiment))
    return decide(found, min(1.0, family * found.p), family)


def states(one: Result) -> dict[str, str]:
    return {part.name: part.state for part in one.parts}


def test_the_paper_has_34_claims_its_rivals_eleven_and_we_twenty_questions() -> None:
    counts = {"E": 4, "T": 10, "D": 4, "C": 6, "M": 6, "B": 2, "K": 2, "R": 11, "Q": 20}
    found = [name for name in CLAIMS if name not in LANDSCAPE]
    assert found == [f"{letter}{i + 1}" for letter, n in counts.items() for i in range(n)]
    assert list(PARTS) == OURS
    for one in CLAIMS.values():
        assert one.seeds == (
            0
            if one.id == "E1"
            else 5
            if one.id[0] == "M" or one.id in PRETRAINED or one.experiment in REGISTERED
            else 3
        )
        assert one in claims_of(one.experiment)


def test_arms_of_other_experiments_are_named_with_their_home() -> None:
    assert arms_elsewhere("results") == []
    assert len(arms_elsewhere("temperature")) == 7
    for experiment in EXPERIMENTS:
        homes = {arm.partition("/")[0] for arm in arms_elsewhere(experiment)}
        assert homes <= EXPERIMENTS - {experiment}


@pytest.mark.parametrize("effect", every(3, [1, 0, -1]))
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "M3" else name for name in PAPER]
)
def test_a_planted_effect_is_found_absent_or_reversed(name: str, effect: int) -> None:
    found = judged(name, effect)
    if effect:
        reverse = {"mixed", "contradicted"} if name in STILL_HOLDS else {"contradicted"}
        assert found.state in ({"supported"} if effect == 1 else reverse), found.note
        assert min(effect * end for end in found.interval) > 0
        assert found.p <= 0.05
        assert found.decisive in found.parts
        assert found.decisive.state == ("supported" if effect == 1 else "contradicted")
    else:
        assert found.state in UNDECIDED, found.note
        assert found.state != "mixed" or name in STILL_HOLDS


@pytest.mark.parametrize("effect", OUR_STATES)
@pytest.mark.parametrize("name", OURS)
def test_a_planted_difference_is_higher_lower_or_inconclusive(name: str, effect: int) -> None:
    seeds = 9 if effect else 12
    found = judged(name, effect, seeds)
    assert found.n_seeds == seeds
    assert states(found)[PARTS[name]] in OUR_STATES[effect]
    assert found.state == found.decisive.state


def test_parts_without_an_effect_stay_inconclusive() -> None:
    others = {state for part, state in states(judged("Q4", 1)).items() if "Distinct-4" not in part}
    assert others <= {"inconclusive", "no effect"}
    same = "pass@1 at the longest length, KL and low clip minus neither, over tokens"
    assert states(judged("Q7", 1))[same] in ("inconclusive", "no effect")


def test_a_part_has_its_own_state() -> None:
    """Pass@1 at T = 1.8 ends 16 points under T = 1.2: only the other side of the margin holds."""
    found = judged("T6", -1)
    below, above = (states(found)[f"T = 1.8 {end}, at the end"] for end in (
        "above T = 1.2 less 5", "under T = 1.2 plus 5"))  # fmt: skip
    assert (below, above) == ("contradicted", "supported")
    assert found.state == "mixed"


# The other arms of T4 only choose which ones are judged.
NO_WEIGHT = {"T4": {"t_10", "t_12", "t_18"}}


@pytest.mark.parametrize("name", PLANTED)
def test_every_arm_of_a_claim_counts(name: str) -> None:
    def estimates(curves: Curves) -> list[float]:
        return [part.estimate.value for part in measure(CLAIMS[name], curves).parts]

    arms = CLAIMS[name].arms
    curves = {arm: {s: arm_curves(name, arm, 1, s) for s in range(3)} for arm in arms}
    before = estimates(curves)
    without = set()
    for arm in arms:
        other = {seed: arm_curves(name, arm, -1, seed, draw=1) for seed in range(3)}
        if estimates({**curves, arm: other}) == pytest.approx(before, rel=1e-9):
            without.add(arm)
    assert without == NO_WEIGHT.get(name, set())


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("name", ["E2", "T5", "T9", "T10", "C1", "M4", "M6", "K2"])
def test_without_an_effect_at_most_5_percent_are_supported(name: str, seeds: int) -> None:
    """Before Holm's correction, which can only lower it."""
    claim = replace(CLAIMS[name], seeds=3)
    findings = [
        measure(
            claim,
            {
                arm: {s: arm_curves(name, arm, 0, s, draw) for s in range(seeds)}
                for arm in claim.arms
            },
        )
        for draw in range(100)
    ]
    assert np.mean([found.state == "supported" for found in findings]) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_from_runs_cover_the_true_effect(seeds: int) -> None:
    """Last-window accuracy in two arms 12 points apart: noise of runs, evaluations and answers."""
    covered = []
    for draw in range(400):
        curves = {
            arm: {seed: arm_curves("E3", arm, 1, seed, draw) for seed in range(seeds)}
            for arm in CLAIMS["E3"].arms
        }
        parts = {part.name: part.estimate for part in measure(CLAIMS["E3"], curves).parts}
        found = parts["pass@1 at the end"]
        covered.append(found.low <= 12 <= found.high)
    assert 0.93 <= np.mean(covered) <= 0.97


def test_changed_records_change_the_result() -> None:
    for name, column, before, after in (
        ("D2", "reward", "supported", "contradicted"),
        ("Q6", "group/mixed", "higher", "lower"),
    ):
        runs = make_runs(name, 1)
        experiment = CLAIMS[name].experiment
        assert assess(experiment, runs)[name].parts[0].state == before
        for of_arm in runs.values():
            for record in of_arm.values():
                for line in record.step_lines:
                    line[column] = 1 - line[column]
        assert assess(experiment, runs)[name].parts[0].state == after


@pytest.mark.parametrize("name", CLAIMS)
def test_without_runs_every_claim_is_inconclusive_and_says_why(name: str) -> None:
    found = assess(CLAIMS[name].experiment, {})[name]
    assert found.state == "inconclusive"
    assert np.isnan([found.effect, *found.interval]).all()
    assert found.parts == ()
    assert found.reason == found.note
    assert ("no finished run of" if CLAIMS[name].arms else "measurements") in found.note


def test_too_few_seeds_show_the_effect_and_decide_nothing() -> None:
    found = result("M2", 1, 4)
    assert found.state == "inconclusive"
    assert found.reason == "4 of the 5 seeds it needs"
    assert found.note.startswith(f"{found.reason}; ")
    assert found.n_seeds == 4
    assert found.interval[0] > 0
    single = result("D2", 1, 1)
    assert single.effect > 0
    assert np.isnan(single.interval).all()


@pytest.mark.parametrize("name", OURS)
def test_too_few_seeds_answer_no_question(name: str) -> None:
    found = result(name, 1, 2)
    assert found.reason == f"2 of the {CLAIMS[name].seeds} seeds it needs"
    assert set(states(found).values()) == {"inconclusive"}


@pytest.mark.parametrize("name", PLANTED)
def test_a_trial_of_a_few_steps_is_inconclusive(name: str) -> None:
    runs = {
        arm: {
            seed: replace(
                record, step_lines=record.step_lines[:4], eval_lines=record.eval_lines[:4]
            )
            for seed, record in of_arm.items()
        }
        for arm, of_arm in make_runs(name, 1, seeds=3).items()
    }
    found = assess(CLAIMS[name].experiment, runs)[name]
    assert found.state == "inconclusive"
    assert "4 points in common; 5 are needed" in found.note


def test_missing_arms_and_seeds_are_named() -> None:
    runs = make_runs("C1", 1)
    without = {arm: of_arm for arm, of_arm in runs.items() if arm != "middle"}
    assert assess("context_length", without)["C1"].note == "no finished run of arm middle"
    runs["middle"] = {seed + 50: record for seed, record in runs["middle"].items()}
    note = assess("context_length", runs)["C1"].note
    assert note == "no seed was run in all of arms short, middle, long"


def test_only_seeds_that_all_arms_have_are_compared() -> None:
    runs = make_runs("D2", 1)
    del runs["harder"][33]
    assert assess("data_quality", runs)["D2"].n_seeds == 4


def test_holm_counts_all_claims_of_the_paper_on_the_experiment() -> None:
    curves = {
        arm: {seed: arm_curves("D2", arm, 1, seed) for seed in OWN_SEEDS[:5]}
        for arm in CLAIMS["D2"].arms
    }
    alone = measure(CLAIMS["D2"], curves)
    assert result("D2", 1).p == pytest.approx(4 * alone.p)
    found = decide(alone, 0.08, claims=4)
    assert found.state == "inconclusive"
    assert found.reason.startswith(
        "supported by itself, not after correction for 4 claims (p = 0.080); about "
    )


def test_results_do_not_depend_on_other_claims_runs() -> None:
    rows = make_measurements(1)
    runs: Mapping[str, Mapping[int, RunRecord]] = make_runs("T5", 1)
    both = {**make_runs("T9", 1), **runs}
    alone, together = assess("temperature", runs, rows), assess("temperature", both, rows)
    assert alone["T5"].state == together["T5"].state == "supported"
    assert alone["T5"].parts == together["T5"].parts
    assert together["T9"].state == "supported"
    assert alone["T9"].state == "inconclusive"


def test_the_summary_has_a_row_a_claim_and_one_a_part_of_our_questions() -> None:
    results = {
        **assess("context_length", make_runs("C1", -1)),
        **assess("data_quality", make_runs("D2", 1)),
        **assess("code_evaluator", {}, make_measurements(1)),
        **assess("kl_and_clip", make_runs("Q4", -1)),
    }
    tables = summary_tables(results)
    ids = {whose: [one.text for one in rows["Id"]] for whose, rows in tables.items() if len(rows)}
    for whose, found in ids.items():
        expected = [n for n, one in CLAIMS.items() if n in results and one.whose == whose]
        assert list(dict.fromkeys(found)) == expected
    assert {name: ids["ours"].count(name) for name in ("Q4", "Q6")} == {"Q4": 9, "Q6": 1}
    papers = tables["paper"].set_index(pd.Index(ids["paper"]))
    assert len(papers) == sum(CLAIMS[name].directed for name in results)
    assert papers["State"][["D2", "C1", "E1", "K1"]].tolist() == [
        "supported", "contradicted", "supported", "contradicted",
    ]  # fmt: skip
    assert papers["Effect"]["D2"] == f"{results['D2'].effect:+.1f} points"
    questions = tables["ours"].set_index(pd.Index(ids["ours"]))
    parts = questions.loc["Q4"]
    expected_states = [(spoken(name), state) for name, state in states(results["Q4"]).items()]
    assert list(zip(parts["What"], parts["State"], strict=True)) == expected_states
    interval = parts.set_index("What")["95 % interval"][PARTS["Q4"]]
    assert interval.split(" to ")[1].startswith("−")
    assert questions["State"]["Q6"] == "inconclusive"
    assert "no finished run of" in questions["What"]["Q6"]
    assert papers["State"].value_counts().to_dict() == {
        "supported": 2,
        "contradicted": 2,  # less diversity without KL is the opposite of K1, too
        "no effect": 1,  # of the limit on diversity
        "inconclusive": len(papers) - 5,
    }


def test_every_claim_with_runs_has_a_planted_effect() -> None:
    assert set(EFFECTS) == set(PLANTED)


def test_arms_that_trained_alike_are_said_and_not_compared() -> None:
    runs = make_runs("D2", 1)
    runs["harder"] = runs["easier"]
    for name, state in (("D2", "inconclusive"), ("Q5", "inconclusive")):
        found = assess("data_quality", runs)[name]
        assert found.state == state
        assert "easier trained as harder did, update by update" in found.reason
    assert duplicates({}) == {}
    other = make_runs("D2", 1)
    curves = {
        arm: {seed: run_curves(record) for seed, record in seeds.items()}
        for arm, seeds in (("a", other["harder"]), ("b", other["easier"]), ("c", other["harder"]))
    }
    assert duplicates(curves) == {"c": "a"}


def test_parts_that_compare_the_same_runs_are_one_test() -> None:
    """Readings of the mask that masked nothing: Q2 has one comparison, told in three parts."""
    runs = make_runs("Q2", 1)
    runs["when_correct"] = runs["when_non_incorrect"] = runs["none"]
    found = assess("truncation_mask", runs)["Q2"]
    ends = p_values(found.decisive)
    assert found.p == pytest.approx(2 * min(ends["supported"], ends["contradicted"]))
    assert [part.state for part in found.parts].count(found.state) == 3
    assert [part.state for part in found.parts].count("inconclusive") == 2
