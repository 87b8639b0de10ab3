"""The rules that decide, by hand: every state of a part and of a claim, p-values, seeds."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from mcbench.claims import CLAIMS, protocol, rules
from mcbench.claims.assess import Result, decide
from mcbench.claims.evidence import Part
from mcbench.claims.margins import MARGINS
from mcbench.claims.rules import (
    claim_p,
    claim_state,
    p_values,
    part_state,
    seeds_to_decide,
    simes,
)
from mcbench.claims.statistics import Estimate

# Four seeds with a standard error of 1: Student's t with 3 degrees of freedom has its 95 % quantile
# at 2.353 and its 97.5 % quantile at 3.182.
SEEDS = 4


def mean(value: float) -> Estimate:
    return Estimate(value, SEEDS, 1.0)


def made(name: str, value: float, unit: str = "points", threshold: bool = False) -> Part:
    found = Part(name, mean(value), unit, threshold)
    return Part(name, mean(value), unit, threshold, state=part_state(mean(value), found.margin))


@pytest.mark.parametrize(
    ("value", "margin", "state"),
    [
        (3.19, 2.0, "supported"),  # 3.19 - 3.182 > 0
        (3.17, 2.0, "inconclusive"),
        (-3.19, 2.0, "contradicted"),
        (-3.17, 2.0, "inconclusive"),
        (0.0, 2.36, "no effect"),  # 2.353 inside
        (0.0, 2.35, "inconclusive"),
        (0.5, 2.9, "no effect"),  # 0.5 + 2.353
        (0.6, 2.9, "inconclusive"),
        (3.5, 6.0, "no effect"),  # above 0, and wholly inside the margin
        (3.5, None, "supported"),
        (0.0, None, "inconclusive"),
    ],
)
def test_the_state_of_a_part(value: float, margin: float | None, state: str) -> None:
    assert part_state(mean(value), margin) == state


def test_without_a_known_error_nothing_is_decided() -> None:
    assert part_state(Estimate(3.0, 1), 2.0) == "inconclusive"
    assert seeds_to_decide(Estimate(3.0, 1), 2.0) is None


def test_the_state_of_a_claim_from_every_pair_of_parts() -> None:
    yes, no, none, open_ = "supported", "contradicted", "no effect", "inconclusive"
    expected = {
        (yes, yes): yes, (no, no): no, (none, none): none, (open_, open_): open_,
        (yes, no): "mixed", (yes, none): "mixed", (no, none): no,
        (yes, open_): open_, (none, open_): open_, (no, open_): no,
    }  # fmt: skip
    for pair in product((yes, no, none, open_), repeat=2):
        wanted = expected.get(pair) or expected[pair[1], pair[0]]
        assert claim_state(pair) == wanted
    assert claim_state([yes, open_, no]) == "mixed"


def test_simes_by_hand() -> None:
    assert simes([0.03]) == 0.03
    assert simes([0.04, 0.04, 0.04]) == pytest.approx(0.04)
    assert simes([0.01, 0.5, 0.9]) == pytest.approx(0.03)
    assert simes([0.9, 0.02, 0.01]) == pytest.approx(0.03)  # 3 x .02 / 2


def test_a_contradiction_is_as_strict_as_support() -> None:
    """The reverse of a supported claim is contradicted, at a p-value that is no larger."""
    for values in ((3.3,), (3.3, 4.0), (3.2, 5.0, 9.0)):
        parts = [made(str(value), value, threshold=True) for value in values]
        reverse = [made(str(value), -value, threshold=True) for value in values]
        assert claim_state([one.state for one in parts]) == "supported"
        assert claim_state([one.state for one in reverse]) == "contradicted"
        assert claim_p("contradicted", reverse) <= claim_p("supported", parts)
    single = [made("one", -4.0)]
    assert claim_p("contradicted", single) == pytest.approx(stats.t.sf(4, 3))
    two = [made("one", -4.0), made("other", 1.0)]
    assert claim_p("contradicted", two) == pytest.approx(2 * stats.t.sf(4, 3))


def test_p_values_of_the_other_states() -> None:
    weak, strong = made("weak", 3.3, threshold=True), made("strong", 9.0, threshold=True)
    against = made("against", -5.0, threshold=True)
    assert claim_p("supported", [weak, strong]) == pytest.approx(stats.t.sf(3.3, 3))
    assert claim_p("mixed", [strong, against]) == pytest.approx(2 * stats.t.sf(5, 3))
    absent = [Part("a", Estimate(0.5, 4, 0.1), "points"), Part("b", Estimate(0, 4, 0.1), "points")]
    assert claim_p("no effect", absent) == pytest.approx(stats.t.sf(1.5 / np.sqrt(0.1), 3))
    assert claim_p("inconclusive", [weak]) == 1
    assert p_values(weak)["no effect"] == 1  # a threshold has no margin


def test_the_decisive_part() -> None:
    up, far, down, zero = made("up", 3.3), made("far", 9), made("down", -4), made("zero", 0)
    flat = Part("flat", Estimate(0, 4, 0.1), "points", state="no effect")
    assert rules.decisive("supported", [far, up]) is up
    assert rules.decisive("contradicted", [zero, down]) is down
    assert rules.decisive("mixed", [far, down, zero]) is down
    assert rules.decisive("mixed", [far, flat]) is flat
    assert rules.decisive("inconclusive", [far, zero]) is zero


def test_seeds_that_would_decide() -> None:
    """A scatter of 2 around a mean of 1: sample sizes of a one-sample t test at 80 % power."""
    found = Estimate(1.0, 4, 4.0 / 4)
    seeds = seeds_to_decide(found, None)
    assert seeds is not None
    noncentral = [stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, np.sqrt(n) / 2) for n in (33, 34)]
    assert noncentral[0] < 0.8 <= noncentral[1]
    assert abs(seeds - 34) <= 1
    more = seeds_to_decide(found, None, tests=10)
    assert more is not None
    assert more > seeds
    # A part of five of a question: each end has a tenth of 5 %.
    sure = [stats.nct.sf(stats.t.ppf(0.995, n - 1), n - 1, np.sqrt(n) * 0.75) for n in (24, 25)]
    assert sure[0] < 0.8 <= sure[1]
    of_five = seeds_to_decide(Estimate(3.0, 12, 16.0 / 12), None, tests=5, sides=2)
    assert of_five is not None
    assert abs(of_five - 25) <= 1
    # No effect within 4: 90 % interval inside with 80 %, at an effect of 0: n with
    # 2 P(T < 4 / (2 / sqrt n) - t_.95) - 1 >= .8, for n = 4 2 P(T_3 < 1.647) - 1 = .801.
    assert seeds_to_decide(Estimate(0.0, 2, 4.0 / 2), 4.0) == 4
    assert seeds_to_decide(Estimate(0.0, 4, 1.0, problem_variance=9.0), 2.0) is None


def test_only_deciding_parts_decide() -> None:
    claim = CLAIMS["D2"]
    up, down = made("up", 9), made("down", -9)
    beside = Part("down", down.estimate, "points", beside=True, state="contradicted")
    found = Result(claim, 5, parts=(beside, up))
    assert found.deciding == (up,)
    assert claim_state([part.state for part in Result(claim, 5, parts=(up, down)).deciding]) == (
        "mixed"
    )
    assert decide(found, 0.01, 1).decisive.name == "up"


def test_every_measure_has_a_margin_and_a_reason() -> None:
    for margin in MARGINS.values():
        assert margin.value > 0
        assert len(margin.reason) > 20


def test_only_the_protocols_seeds_count_where_there_are_any() -> None:
    assert protocol.counted({0: "old", 3: "old"}) == {0: "old", 3: "old"}
    assert protocol.counted({0: "old", 10: "new", 100: "pilot"}) == {10: "new"}
    rows = [{"kind": "k", "experiment": e, "seed": s} for e, s in (("a", 0), ("a", 10), ("b", 0))]
    free = {"kind": "k", "experiment": "a"}
    assert protocol.counted_rows([*rows, free]) == [rows[1], rows[2], free]


def test_a_verdict_of_the_protocol_needs_all_of_its_seeds() -> None:
    assert tuple(range(10, 22)) == protocol.SEEDS
    assert not set(protocol.SEEDS) & set(protocol.FIRST_ROUND)
    assert protocol.needed(range(10, 13), 3) == 12
    assert protocol.needed(range(3), 3) == 3
    assert protocol.needed(range(10, 13), 0) == 0
    assert protocol.basis(protocol.SEEDS, deciding=False) == protocol.ELSEWHERE
    clipped = {name for name, one in CLAIMS.items() if one.profile == "nano-clip"}
    assert clipped == {"K1", "K2", "Q4", "Q13"}
    assert {one.profile for one in CLAIMS.values()} == {"nano-steady", "nano-clip", "smollm2-135m"}
    told = [protocol.basis(seeds) for seeds in (range(10, 22), (10, 11), (0, 1), (7, 8), ())]
    assert told == ["protocol", "protocol, 2 of 12 seeds", "first round", "", ""]
