"""The panels of the code evaluator on records made by formula."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcbench.claims import assess, read_measurements
from mcbench.claims.measurements import METHOD, SUITE_FILE, LabelledCase, SuiteRecord
from mcbench.errors import UserError
from mcbench.experiments.study import Study
from mcbench.report import evaluator_panels as panels
from mcbench.report.sources import Sources
from mcbench.runs.store import RunRecord

from .made import head_for, html_for
from .synthetic import make_record

STEPS = 60


def trained(rules: str, seed: int, gain: float = 0.0, fade: float = 0.0) -> RunRecord:
    """A run whose rewards and pass rates are ``gain`` (0 to 1) above the other arm's.

    With ``fade`` the gain shrinks over training to (1 - fade) of itself. Both arms share the noise.
    """
    record = make_record("grpo_plus", seed, steps=STEPS, settings={"reward_rules": rules})
    jitter = 0.01 * np.sin(seed + 1)
    for line in record.step_lines:
        if "reward" in line:
            line["reward"] += (gain + jitter * (gain > 0)) * (1 - fade * line["step"] / STEPS)
    for line in record.eval_lines:
        lift = (gain + jitter * (gain > 0)) * (1 - fade * line["step"] / STEPS) * (line["step"] > 0)
        for index, problem in enumerate(line["per_problem"]):
            problem["attempts"] = 10_000  # so that the rate is fine enough
            problem["passes"] = round(2500 + lift * 10_000)
            problem["id"] = f"p{index}"
        line["pass_at_1"] = 0.25 + lift
    return record


def both_arms(gain: float, fade: float = 0.0, seeds: int = 5) -> dict[str, list[RunRecord]]:
    return {
        "microcoder": [trained("microcoder", s, gain, fade) for s in range(seeds)],
        "livecodebench": [trained("livecodebench", s) for s in range(seeds)],
    }


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


def study(arms: dict[str, list[RunRecord]], suite: SuiteRecord = SUITE) -> Study:
    runs = {arm: {record.seed: record for record in records} for arm, records in arms.items()}
    with tempfile.TemporaryDirectory() as folder:
        suite.write(Path(folder) / SUITE_FILE)
        measurements = read_measurements(folder)
    results = assess("code_evaluator", runs, measurements)
    return Study("code_evaluator", "nano", arms, results)


def sources(arms: dict[str, list[RunRecord]], **beside: Any) -> Sources:
    made = study(arms)
    return Sources([made], made, **beside)


def numbers(arms: dict[str, list[RunRecord]]) -> Any:
    return panels.paired_numbers(sources(arms).evidence).set_index("In percent")


def test_errors_are_counted_in_both_directions() -> None:
    table = panels.misjudged(SUITE).set_index("judge")
    columns = ["right", "rejected", "wrong", "accepted"]
    assert list(table.loc["microcoder", columns]) == [2, 0, 2, 0]
    assert list(table.loc["livecodebench", columns]) == [2, 1, 2, 1]
    assert list(table.loc[METHOD, columns]) == [1, 1, 0, 0]


def test_a_suite_record_survives_its_file(tmp_path: Path) -> None:
    SUITE.write(tmp_path / "x" / "suite.json")
    assert SuiteRecord.read(tmp_path / "x" / "suite.json") == SUITE
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(UserError, match="no record of the labelled suite"):
        SuiteRecord.read(tmp_path / "bad.json")


def test_the_numbers_pair_both_arms() -> None:
    found = numbers(both_arms(0.2, fade=0.5))
    gap = found["Difference"].str.removeprefix("+").astype(float)
    assert gap["Training reward, first generation"] == pytest.approx(20, abs=1.5)
    assert gap["Training reward, whole run"] == pytest.approx(15, abs=1.5)
    end = gap["Held-out pass@1, shortest test length, at the end"]
    assert end == pytest.approx(20 * (1 - 55 / 120), abs=1)  # evaluated at 50 and 60
    low, high = found.loc["Training reward, first generation", "95 % interval"].split(" to ")
    assert float(low) < gap.iloc[0] < float(high)
    assert set(numbers(both_arms(0.2, seeds=1))["95 % interval"]) == {"–"}


def test_a_changed_record_changes_the_numbers() -> None:
    assert numbers(both_arms(0.1)).to_csv() != numbers(both_arms(0.12)).to_csv()


def test_the_claims_are_decided_by_the_suite_and_the_runs() -> None:
    marks = {"microcoder": "1010" * 20, "livecodebench": "0110" * 20}
    found = study(both_arms(0.2, fade=0.5), judged(marks))
    states = {name: found.results[name].state for name in ("E1", "E2", "E3", "E4")}
    assert states == dict.fromkeys(states, "supported")


def test_arms_that_cannot_be_paired_are_said_not_to_be() -> None:
    arms = both_arms(0.1, seeds=2)
    panel = panels.pairs(sources({"microcoder": arms["microcoder"]}))
    assert panel.missing.endswith("LiveCodeBench rules; both arms are needed.")
    apart = {arm: [runs[i]] for i, (arm, runs) in enumerate(arms.items())}
    assert "share no seed" in panels.pairs(sources(apart)).missing
    assert panels.gap(sources(apart)).missing


def test_the_first_screen_has_the_suite() -> None:
    made = study(both_arms(0.1, seeds=2))
    html = html_for(made, suite=SUITE)
    assert "g<b>" not in html
    assert head_for(made, suite=SUITE).tiles[0].name == "Right refused, MicroCoder"
    assert html == html_for(made, suite=SUITE)
