"""The registered family: what it names exists, and what decides it, on numbers made by hand."""

import itertools

import numpy as np
import pytest

from benchmarks.claim_rates import second_p
from mcbench.claims import CLAIMS, round_2
from mcbench.claims.curves import PassRates, RunCurves
from mcbench.claims.evidence import Part
from mcbench.claims.rules import INCONCLUSIVE, REFUTED, SUPPORTED, second_state
from mcbench.claims.statistics import Estimate
from mcbench.experiments.experiments import EXPERIMENTS, REGISTERED, ROUND_2, planned_runs

STEPS = np.arange(0, 481, 32)


def run(level, late=0.0, shift=0.0):
    """Rates of 40 problems of four features at two lengths; ``late`` is gained after update 300."""
    names = tuple(f"p{i:02}" for i in range(40))
    ease = np.linspace(-20, 20, 40)
    curve = level + shift + late * (STEPS > 300)[:, None] + ease
    rates = PassRates(
        STEPS.astype(float), names, curve, ("easy",) * 40, ("induced",) * 40,
        tuple(f"f{i % 4}" for i in range(40)),
    )  # fmt: skip
    return RunCurves({}, {(96, 1.0): rates, (192, 1.0): rates})


def arms(seeds, **levels):
    """Runs of arms by seed, which scatter by 1 point; a level may have a late gain beside it."""
    rng = np.random.default_rng(0)
    return {
        arm: {seed: run(*np.atleast_1d(one), shift=rng.normal()) for seed in seeds}
        for arm, one in levels.items()
    }


def named(name):
    return next(one for one in round_2.HYPOTHESES if one.id == name)


def test_the_family_is_registered_whole():
    assert len(round_2.HYPOTHESES) == len({one.id for one in round_2.HYPOTHESES}) == 12
    for one in (*round_2.HYPOTHESES, *round_2.BESIDE):
        assert set(one.weights) <= set(ROUND_2[one.block].arms)
        assert set(one.seeds) <= set(ROUND_2[one.block].seeds)
        assert set(one.asks) <= {name for name, claim in CLAIMS.items() if claim.whose == "paper"}
    assert set(round_2.NOT_TESTABLE) <= set(CLAIMS)
    assert {name for one in round_2.HYPOTHESES for name in one.asks} == {*round_2.ASKED_OTHERWISE}
    runs = {one.config.run_id for name in ROUND_2 for one in planned_runs(name)}
    assert len(runs) == 480
    assert not ROUND_2.keys() & EXPERIMENTS.keys()


def test_no_run_of_round_2_is_one_of_round_1():
    seeds = {seed for one in ROUND_2.values() for seed in one.seeds}
    again = [EXPERIMENTS[name] for name in REGISTERED]
    others = [one for one in EXPERIMENTS.values() if one not in again]
    assert not seeds & {seed for one in others for seed in one.seeds}
    # These have seeds in common with round 2, and no run.
    ids = {one.config.run_id for name in ROUND_2 for one in planned_runs(name)}
    assert not ids & {run.config.run_id for one in again for run in planned_runs(one.name)}
    configs = [one.config for name in ROUND_2 for one in planned_runs(name, seeds=[40])]
    assert {one.kl_estimator for one in configs if one.beta} == {"k3_clamped", "k3"}
    ends = set(range(round_2.END[0], round_2.END[1] + 1, 32))
    assert all(ends <= set(range(0, one.steps + 1, one.eval_every)) for one in configs)


def test_a_contrast_is_the_weighted_sum_of_ends():
    one = named("H2")
    made = arms(one.seeds, token_rho_10=60, token_none=52, response_rho_10=61, response_none=60)
    found = round_2.outcome(one, made)
    assert found.estimate.value == pytest.approx(8 - 1, abs=1)
    assert (found.state, found.estimate.seeds) == (SUPPORTED, 24)


def test_a_fall_is_from_a_fixed_place_to_the_end():
    one = named("H11")
    made = arms(one.seeds, none=(50, -10), rho_02=(50, -4))
    assert round_2.outcome(one, made).estimate.value == pytest.approx(6, abs=1)
    with pytest.raises(Exception, match="no evaluation from update 600"):
        round_2.between(STEPS, np.zeros(len(STEPS)), (600, 700))


@pytest.mark.parametrize(
    ("value", "sd", "predicts", "state"),
    [
        (5.0, 1.0, round_2.HIGHER, SUPPORTED),
        (-5.0, 1.0, round_2.HIGHER, REFUTED),
        (0.1, 0.5, round_2.HIGHER, REFUTED),  # equivalent to nothing
        (1.5, 2.0, round_2.HIGHER, INCONCLUSIVE),
        (-5.0, 1.0, round_2.APART, SUPPORTED),
        (0.1, 0.5, round_2.APART, REFUTED),
    ],
)
def test_states(value, sd, predicts, state):
    found = Estimate(value, 24, sd**2)
    assert round_2.decided(found, predicts, 2.0)[0] == state


def test_fewer_seeds_or_no_runs_decide_nothing():
    one = named("H4")
    made = arms(one.seeds[:23], token_rho_02=70, token_none=50)
    found = round_2.outcome(one, made)
    assert (found.state, found.p, found.reason) == (INCONCLUSIVE, 1.0, "23 of its 24 seeds")
    assert round_2.outcome(one, {}).reason == "no finished run of token_rho_02, token_none"
    extra = arms(range(24), token_rho_02=70, token_none=50)
    assert "no seed of round 2" in round_2.outcome(one, extra).reason  # round 1 is never pooled


def test_holm_is_over_all_twelve_measured_or_not():
    hypotheses = round_2.HYPOTHESES
    found = [round_2.Outcome(one, SUPPORTED, p=p) for one, p in
             zip(hypotheses, [0.004, 0.005, *[1.0] * 10], strict=True)]  # fmt: skip
    first, second, *_ = round_2.corrected(found)
    assert (first.state, round(first.p, 3)) == (SUPPORTED, 0.048)
    assert (second.state, round(second.p, 3)) == (INCONCLUSIVE, 0.055)
    assert "supported by itself, not after correction" in second.reason


def test_claims_of_the_paper_have_the_states_of_what_asks_them_again():
    found = {one.id: round_2.Outcome(one) for one in round_2.HYPOTHESES}
    assert round_2.claim_states(found)["D1"][0] == "not testable here"
    found["H4"] = round_2.Outcome(named("H4"), SUPPORTED)
    assert round_2.claim_states(found)["M6"][0] == INCONCLUSIVE  # H11 is open
    found["H11"] = round_2.Outcome(named("H11"), REFUTED)
    assert round_2.claim_states(found)["M6"] == (REFUTED, "H4 supported, H11 refuted")


def test_a_conjunction_with_a_part_equivalent_to_nothing_is_refuted():
    for states, expected in (
        (("supported", "supported"), SUPPORTED),
        (("supported", "no effect"), REFUTED),
        (("inconclusive", "contradicted"), REFUTED),
        (("supported", "inconclusive"), INCONCLUSIVE),
    ):
        for order in itertools.permutations(states):
            assert second_state(order) == expected
    holds, nothing = (
        Part("", Estimate(9, 24, 1.0), "points"),
        Part("", Estimate(0, 24, 0.1), "points"),
    )
    assert second_p(REFUTED, [holds, nothing]) < 0.001 < second_p(REFUTED, [holds, holds])
    assert second_p(SUPPORTED, [holds, nothing]) == pytest.approx(1)
