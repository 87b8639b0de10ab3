"""Suggest or stay silent: values worked out by hand, and the policies whose regret is known."""

import pytest

from mcbench.data.prompts import prompt_for
from mcbench.data.schema import Problem
from mcbench.runs.problems import training_row
from mcbench.worlds.tab import (
    MOST,
    THRESHOLDS,
    accepts,
    context,
    judge,
    load_tab,
    probability,
    regret,
    shares,
    summary,
    switch,
    value,
)


def about(*edits: int) -> Problem:
    return Problem(
        id=f"tab/{edits}",
        statement=context(edits),
        form="stdin",
        metadata={"accepted": shares(edits)},
    )


SURE = about(3, 3, 3, 3, 3, 3, 7, 7, 9, 1)  # .6 for 3, .2 for 7, .1 for 9 and 1
VAGUE = about(3, 3, 1, 2, 4, 5, 6, 7, 8, 9)  # .2 for 3


def test_values_and_probabilities() -> None:
    assert (value(True, 0.25), value(False, 0.25)) == (0.75, -0.25)
    assert (value(True, 0.45), value(False, 0.45)) == pytest.approx((0.55, -0.45))
    assert [probability(SURE, one) for one in (" 3", " 7", " 5", "")] == [0.6, 0.2, 0.0, None]
    assert probability(SURE, " 3", 0.5) == 0.3


def test_regret_is_what_the_best_policy_gets_more() -> None:
    # best: .6 - .25 = .35; 7 gets .2 - .25 = -.05; silence 0; an edit nobody makes -.25
    found = [regret(SURE, one, 0.25) for one in (" 3", " 7", "", " 5")]
    assert found == pytest.approx([0, 0.4, 0.35, 0.6])
    assert [regret(VAGUE, one, 0.25) for one in ("", " 3")] == pytest.approx([0, 0.05])
    # users who accept half as often: .3 - .25 = .05 is left of the best
    assert regret(SURE, "", 0.25, 0.5) == pytest.approx(0.05)


@pytest.mark.parametrize("text", ["3", " 3 7", " x", "  3", " 3\n", " 3" * 500, " 0003", "\x00"])
def test_a_malformed_response_was_shown_and_is_rejected(text: str) -> None:
    (found,) = judge([SURE], [text], "accept_25", None)
    assert (found.reward, found.passed, found.parts["shown"]) == (-0.25, False, 1.0)


def test_silence_is_worth_nothing_and_users_accept_as_often_as_is_known() -> None:
    (silent,) = judge([VAGUE], [""], "accept_25", None)
    assert (silent.reward, silent.passed, silent.parts) == (
        0.0, True, {"shown": 0.0, "regret": 0.0, "shown_below": 0.0},
    )  # fmt: skip
    judged = judge([SURE] * 4000, [" 3"] * 4000, "accept_25", None)
    assert {one.reward for one in judged} == {0.75, -0.25}
    assert sum(one.reward == 0.75 for one in judged) / 4000 == pytest.approx(0.6, abs=0.03)
    again = judge([SURE] * 4000, [" 3"] * 4000, "accept_25", None)
    assert [one.reward for one in again] == [one.reward for one in judged]
    assert accepts(SURE, 0, " 3", 1.0)
    assert not accepts(SURE, 0, " 3", 0.0)


def test_users_who_drift_accept_half_as_often_from_the_middle_on() -> None:
    def rate(progress: float) -> float:
        judged = judge([SURE] * 4000, [" 3"] * 4000, "accept_25_drift", None, progress)
        return sum(one.reward == 0.75 for one in judged) / 4000

    assert rate(0.49) == pytest.approx(0.6, abs=0.03)
    assert rate(0.5) == pytest.approx(0.3, abs=0.03)
    assert judge([SURE], [""], "accept_25", None, 1.0)[0].parts["regret"] == pytest.approx(0.35)


def test_the_switch_lies_between_the_shares_around_one_half() -> None:
    assert switch({0.1: 0.0, 0.2: 0.25, 0.3: 0.75, 0.4: 1.0}) == pytest.approx(0.25)
    assert switch({0.1: 1.0, 0.2: 1.0}) == 0.1
    assert switch({0.1: 0.0, 0.2: 0.4}) == 0.2


def test_the_best_policy_switches_at_the_threshold_without_regret() -> None:
    problems = load_tab("test")

    def best(threshold: float) -> list[list[str]]:
        known = [max(p.metadata["accepted"].items(), key=lambda one: one[1]) for p in problems]
        return [[f" {edit}"] if chance > threshold else [""] for edit, chance in known]

    found = summary(problems, best(0.25), None)
    assert (found["switch"], found["regret_25"]) == pytest.approx((0.25, 0.0))
    assert found["regret_45"] > 0
    assert found["regret_drifted"] > 0
    assert [found[f"shown_{n}0"] for n in range(1, MOST + 1)] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert summary(problems, best(0.45), None)["regret_45"] == 0
    always = [[text] if text else [" 0"] for (text,) in best(0.0)]
    assert summary(problems, always, None)["switch"] == 0.1


def test_what_users_accept_is_in_no_prompt() -> None:
    for problem in load_tab("train")[:200]:
        marked = Problem(**{**vars(problem), "metadata": {"accepted": {"MARK": 0.123456}}})
        assert "MARK" not in prompt_for(marked, "plain")
        assert "0.1" not in prompt_for(marked, "plain")
        assert training_row(marked, "plain")["prompt"] == problem.statement
    train, test = load_tab("train"), load_tab("test")
    assert not {one.statement for one in train} & {one.statement for one in test}
    assert len(THRESHOLDS) == 4
