"""Every question of ours on synthetic records: effect present, absent, reversed; honest without."""

import numpy as np
import pytest
import synthetic_runs as synthetic

from mcbench.claims import QUESTIONS, question_rows
from mcbench.claims.selection import runs_of
from mcbench.experiments.arms import ARMS

STATES = {1: "higher", 0: "inconclusive", -1: "lower"}
PARTS = {
    "Q1": "growth of responses, newer minus older",
    "Q2": "growth, incorrect minus no mask",
    "Q3": "token entropy after 75% of training",
    "Q4": "Distinct-4, no KL minus KL",
    "Q5": "pass@1 on hard problems, harder minus easier set",
    "Q6": "prompts with a gradient",
    "Q7": "pass@1 at the longest length, loss averaged by response minus by token",
    "Q8": "tokens clipped, small to large",
    "Q9": "pass@1, mask minus no mask at half the limit",
}


def answered(name: str, effect: int, seeds: int = 5) -> dict[str, str]:
    answer = QUESTIONS[name].answer(synthetic.make_records(name, effect, seeds))
    assert answer.n_seeds == seeds
    return {part.name: state for part, state in answer.parts}


@pytest.mark.parametrize("effect", STATES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_effect_present_absent_and_reversed(name: str, effect: int) -> None:
    assert answered(name, effect)[PARTS[name]] == STATES[effect]


def test_what_has_no_effect_stays_inconclusive() -> None:
    found = answered("Q4", 1)
    others = {state for part, state in found.items() if "Distinct-4" not in part}
    assert others == {"inconclusive"}
    assert answered("Q7", 1)["pass@1 at the longest length, KL and low clip minus neither"] == (
        "inconclusive"
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_without_records_or_seeds_there_is_no_answer_and_a_reason(name: str) -> None:
    nothing = QUESTIONS[name].answer([])
    assert nothing.parts == ()
    assert "no finished run of" in nothing.note
    few = QUESTIONS[name].answer(synthetic.make_records(name, 1, seeds=2))
    assert few.note == "2 of the 3 seeds it needs"
    assert {state for _, state in few.parts} == {"inconclusive"}


def test_a_changed_record_changes_the_answer() -> None:
    records = synthetic.make_records("Q6", 1)
    for record in records:
        for line in record.step_lines:
            line["group/mixed"] = 1 - line["group/mixed"]
    parts = {part.name: state for part, state in QUESTIONS["Q6"].answer(records).parts}
    assert parts[PARTS["Q6"]] == "lower"


def test_rows_are_one_a_part_and_one_without_an_answer() -> None:
    rows = question_rows(QUESTIONS.values(), synthetic.make_records("Q9", -1))
    assert [row["id"] for row in rows] == [*(f"Q{i}" for i in range(1, 9)), *["Q9"] * 6]
    assert {frozenset(row) for row in rows} == {frozenset(rows[0])}
    assert np.isnan(rows[0]["effect"])
    assert rows[-6]["state"] == "lower"


def test_the_paper_is_quoted_and_arms_exist() -> None:
    for one in QUESTIONS.values():
        assert one.source
        assert one.statistic.__doc__
        for arm in one.arms:
            home, _, name = arm.partition("@")[0].rpartition("/")
            assert name in ARMS[home or one.experiment]


def test_generations_are_told_apart_and_models_kept_together() -> None:
    records = synthetic.make_records("Q1", 0, seeds=2)
    found = runs_of("cross_model", QUESTIONS["Q1"].arms, records)
    assert {arm: list(runs) for arm, runs in found.items()} == {
        "grpo_plus@older": [0, 1],
        "grpo_plus@newer": [0, 1],
    }
    models = {arm: runs[0].config.model for arm, runs in found.items()}
    assert models == {"grpo_plus@older": "nano-old", "grpo_plus@newer": "nano-s"}
