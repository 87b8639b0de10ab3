"""The page of the code evaluator on records made by formula."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcbench.errors import UserError
from mcbench.experiments.labelled import METHOD, LabelledCase, SuiteRecord
from mcbench.report import code_evaluator, suite, training_rules
from mcbench.report.page import build_page
from mcbench.report.verdicts import verdict_lines, verdict_table
from mcbench.runs.store import RunRecord

from .synthetic import make_record

STEPS = 60


def trained(rules: str, seed: int, gain: float = 0.0, fade: float = 0.0) -> RunRecord:
    """A run whose rewards and pass rates are ``gain`` (0 to 1) above the other arm's.

    With ``fade`` the gain shrinks over training to (1 - fade) of itself. Both arms share the noise.
    """
    record = make_record("grpo_plus", seed, steps=STEPS)
    record.config.reward_rules = rules
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
    record.config.reward_evaluator = evaluator
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
    """Cases in fours: right, wrong, right, wrong; ``marks`` has a character a case and judge: 1 for
    accepted, 0 for refused, - for not given.
    """
    labels = (("comparisons", True), ("comparisons", False), ("programs", True), ("attacks", False))
    count = len(next(iter(marks.values())))
    cases = []
    for index in range(count):
        part, right = labels[index % 4]
        accepted = {j: m[index] == "1" for j, m in marks.items() if m[index] != "-"}
        cases.append(LabelledCase(part, "g<b>", f"c{index}", right, accepted))
    return SuiteRecord(tuple(marks), tuple(cases), "0")


SUITE = judged({"microcoder": "1010", "livecodebench": "0110", METHOD: "--0-"})


def test_errors_are_counted_in_both_directions() -> None:
    table = suite.misjudged(SUITE).set_index("judge")
    columns = ["right", "rejected", "wrong", "accepted"]
    assert table.loc["microcoder", columns].tolist() == [2, 0, 2, 0]
    assert table.loc["livecodebench", columns].tolist() == [2, 1, 2, 1]
    assert table.loc[METHOD, columns].tolist() == [1, 1, 0, 0]


def test_a_suite_record_survives_its_file(tmp_path: Path) -> None:
    SUITE.write(tmp_path / "x" / "suite.json")
    assert SuiteRecord.read(tmp_path / "x" / "suite.json") == SUITE
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(UserError, match="no record of the labelled suite"):
        SuiteRecord.read(tmp_path / "bad.json")


def test_the_numbers_pair_both_arms() -> None:
    found = {n.name: n.difference for n in training_rules.numbers(both_arms(0.2, fade=0.5))}
    first = found["Training reward, first generation"]
    assert first.value == pytest.approx(20, abs=1.5)
    assert found["Training reward, whole run"].value == pytest.approx(15, abs=1.5)
    assert first.low < first.value < first.high
    end = found["Held-out pass@1 with up to 128 tokens, at the end"]
    assert end.value == pytest.approx(20 * (1 - 55 / 120), abs=1)  # evaluated at 50 and 60
    single = training_rules.numbers(both_arms(0.2, seeds=1))
    assert all(np.isnan(n.difference.low) for n in single)


def test_the_claims_are_decided_on_suite_and_runs() -> None:
    marks = {"microcoder": "1010" * 20, "livecodebench": "0110" * 20}
    verdicts = training_rules.claims(judged(marks), both_arms(0.2, fade=0.5))
    assert {name: v.state for name, v in verdicts.items()} == dict.fromkeys(
        ("E1", "E2", "E3", "E4"), "supported"
    )
    none = training_rules.claims(judged(marks), both_arms(0.0))
    assert [none[name].state for name in ("E2", "E3", "E4")] == ["inconclusive"] * 3
    few = training_rules.claims(SUITE, both_arms(0.2, seeds=1))
    lines = verdict_lines(few)
    assert lines[0].startswith("E1 inconclusive: at least")
    assert lines[1].startswith(
        "E2 inconclusive (exploratory): 1 of the 3 seeds it needs; reward: +"
    )
    table = verdict_table(verdicts)
    assert table["Claim"].tolist() == ["E1", "E1", "E2", "E3", "E3", "E4", "E4"]
    assert table["95 % interval"].str.match(r"\+[\d.]+ to \+[\d.]+").all()


def test_the_arms_must_pair() -> None:
    arms = both_arms(0.1, seeds=2)
    with pytest.raises(UserError, match="LiveCodeBench rules; the comparison needs both arms"):
        training_rules.numbers({"microcoder_rules": arms["microcoder_rules"]})
    apart = {arm: [runs[i]] for i, (arm, runs) in enumerate(arms.items())}
    with pytest.raises(UserError, match="share no seed"):
        training_rules.claims(SUITE, apart)


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
    arms = [both_arms(gain) for gain in (0.1, 0.12)]
    assert (
        len({training_rules.numbers_table(training_rules.numbers(a)).to_csv() for a in arms}) == 2
    )
    assert len({verdict_table(training_rules.claims(SUITE, a)).to_csv() for a in arms}) == 2
