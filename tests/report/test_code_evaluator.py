"""The page of the code evaluator on records made by formula."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcbench.errors import UserError
from mcbench.lab.labelled import METHOD, LabelledCase, SuiteRecord
from mcbench.lab.store import RunRecord
from mcbench.report import code_evaluator, suite, training_rules
from mcbench.report.page import build_page

from .synthetic import make_record

STEPS = 60


def trained(rules: str, seed: int, gain: float = 0.0, fade: float = 0.0) -> RunRecord:
    """A run whose rewards and pass rates are ``gain`` (0 to 1) above the other arm's.

    With ``fade`` the gain shrinks over training to (1 - fade) of itself. Both arms share the noise.
    """
    record = make_record("grpo_plus", seed, steps=STEPS)
    record.meta["config"]["profile"]["reward_rules"] = rules
    jitter = 0.01 * np.sin(seed + 1)
    for line in record.step_lines:
        if "reward" in line:
            line["reward"] += (gain + jitter * (gain > 0)) * (1 - fade * line["step"] / STEPS)
    for line in record.eval_lines:
        lift = (gain + jitter * (gain > 0)) * (1 - fade * line["step"] / STEPS) * (line["step"] > 0)
        for index, problem in enumerate(line["per_problem"]):
            problem["passes"] = 1 + lift * 4
            problem["id"] = f"p{index}"
        line["pass_at_1"] = 0.25 + lift
    return record


def both_arms(gain: float, fade: float = 0.0, seeds: int = 5) -> dict[str, list[RunRecord]]:
    runs = [trained("microcoder", s, gain, fade) for s in range(seeds)]
    return training_rules.rule_arms([*runs, *(trained("livecodebench", s) for s in range(seeds))])


def timed(evaluator: str, seed: int, reward_s: float) -> RunRecord:
    record = make_record("grpo_plus", seed, steps=6)
    record.meta["config"]["profile"]["reward_evaluator"] = evaluator
    for line in record.step_lines:
        slow = 10.0 if line["step"] <= 2 else 0.0  # the first generation does not count
        line["time/update_s"] = 0.5 + slow
        line["time/step_s"] = 0.5 + slow
        if line["step"] % 2:
            line["time/generate_s"] = 2.0 + 0.1 * seed
            line["time/reward_s"] = reward_s
            line["time/step_s"] += 2.0 + 0.1 * seed + reward_s + 0.25
    return record


def judged(marks: dict[str, str]) -> SuiteRecord:
    """Four cases: two right, two wrong; ``marks`` has a digit a case and judge, 1 for accepted."""
    labels = (("comparisons", True), ("comparisons", False), ("programs", True), ("attacks", False))
    cases = [
        LabelledCase(
            part, "g<b>", f"c{i}", right, {j: m[i] == "1" for j, m in marks.items() if m[i] != "-"}
        )
        for i, (part, right) in enumerate(labels)
    ]
    return SuiteRecord(tuple(marks), tuple(cases), "0")


SUITE = judged({"microcoder": "1010", "livecodebench": "0110", METHOD: "--0-"})


def number(found: list[training_rules.Number], name: str) -> training_rules.Number:
    return next(n for n in found if name in n.name)


def test_errors_are_counted_in_both_directions() -> None:
    table = suite.misjudged(SUITE).set_index("judge")
    columns = ["right", "rejected", "wrong", "accepted"]
    assert table.loc["microcoder", columns].tolist() == [2, 0, 2, 0]
    assert table.loc["livecodebench", columns].tolist() == [2, 1, 2, 1]
    assert table.loc[METHOD, columns].tolist() == [1, 1, 0, 0]
    assert suite.accepted_difference(SUITE, right=True).value == 50
    assert suite.accepted_difference(SUITE, right=False).value == -50
    with pytest.raises(UserError, match="no wrong case under both microcoder and"):
        suite.accepted_difference(SUITE, right=False, theirs=METHOD)


def test_a_suite_record_survives_its_file(tmp_path: Path) -> None:
    SUITE.write(tmp_path / "x" / "suite.json")
    assert SuiteRecord.read(tmp_path / "x" / "suite.json") == SUITE
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(UserError, match="no record of the labelled suite"):
        SuiteRecord.read(tmp_path / "bad.json")


def test_the_numbers_find_an_effect_that_is_there() -> None:
    found = training_rules.numbers(both_arms(gain=0.2, fade=0.5), 128)
    reward, area = number(found, "mean over the run"), number(found, "area under")
    assert reward.difference.value == pytest.approx(15, abs=1.5)  # from 20 down to 10
    assert reward.reading == area.reading == "above 0"
    # Evaluated at 10, 20 and 50, 60: the gain is there 1/1.2, ... of 20 points.
    fade = number(found, "Held-out gap")
    expected = 20 * np.mean([1 - 10 / 120, 1 - 20 / 120]) - 20 * np.mean([1 - 50 / 120, 0.5])
    assert fade.difference.value == pytest.approx(expected, abs=1)
    assert fade.reading == "above 0"


def test_the_numbers_claim_nothing_without_an_effect_or_with_one_seed() -> None:
    equal = training_rules.numbers(both_arms(gain=0.0), 128)
    assert {n.difference.value for n in equal} == {0.0}
    assert "above 0" not in {n.reading for n in equal}
    single = training_rules.numbers(both_arms(gain=0.2, seeds=1), 128)
    assert {n.reading for n in single} == {"no interval"}
    assert "1 seed, so no interval" in code_evaluator.number_sentence(single[0])


def test_the_arms_must_pair() -> None:
    arms = both_arms(0.1, seeds=2)
    with pytest.raises(UserError, match="LiveCodeBench rules; the comparison needs both arms"):
        training_rules.numbers({"microcoder_rules": arms["microcoder_rules"]}, 128)
    apart = {arm: [runs[i]] for i, (arm, runs) in enumerate(arms.items())}
    with pytest.raises(UserError, match="share no seed"):
        training_rules.numbers(apart, 128)


def test_the_step_splits_into_its_parts() -> None:
    split = training_rules.split_of(timed("microcoder", 0, reward_s=0.1))
    assert split == pytest.approx({"inference": 2.0, "reward": 0.1, "update": 1.0, "other": 0.25})
    assert training_rules.split_of(make_record("grpo", 0)) == {}  # from before times were recorded
    runs = [timed("microcoder", s, 0.1) for s in range(3)]
    runs += [timed("single_threaded", s, 3.45) for s in range(3)]
    arms = training_rules.timing_arms([*runs, make_record("grpo", 0)])
    assert list(arms) == ["single_threaded", "microcoder_evaluator"]
    saved = training_rules.savings(arms)["microcoder_evaluator"]
    assert saved.value == pytest.approx(np.mean([100 * 3.35 / (6.7 + s / 10) for s in range(3)]))
    assert saved.low < 50 < saved.high + 1


def page(timing: list[RunRecord], **arms: Any) -> str:
    records = [run for runs in both_arms(0.1, seeds=2).values() for run in runs]
    built = code_evaluator.code_evaluator_page(SUITE, records, timing, "mcbench run <x>")
    return build_page(built, "plotly.js")


def test_the_page_is_built_with_and_without_times() -> None:
    without = page([])
    assert "No times are recorded yet" in without
    assert "g<b>" not in without
    assert "mcbench run &lt;x&gt;" in without
    timing = [timed(e, 0, s) for e, s in (("microcoder", 0.1), ("single_threaded", 3.0))]
    assert "step-split" in page(timing)
    assert page(timing) == page(timing)


def test_a_changed_record_changes_the_numbers() -> None:
    texts = [
        pd.DataFrame(
            training_rules.numbers_table(training_rules.numbers(both_arms(g), 128))
        ).to_csv()
        for g in (0.1, 0.12)
    ]
    assert texts[0] != texts[1]
