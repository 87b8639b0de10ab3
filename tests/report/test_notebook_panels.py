"""What notebooks make of their frames: cells run on made runs, with numbers known by hand."""

import json
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cells import run_cells
from claims.effects import make_runs

from mcbench.claims import assess, read_measurements
from mcbench.claims.measurements import REPETITION, SUITE_FILE, read_suite
from mcbench.comparison import Comparison
from mcbench.errors import UserError
from mcbench.experiments.study import Study
from mcbench.files import pack_json
from mcbench.report.ends import interval
from mcbench.report.page import Panel
from mcbench.runs.store import RunRecord

from .made import head_for, html_for, planned_records, study, study_of
from .synthetic import make_record

COMMITTED = Path(__file__).parents[2] / "reports" / "records" / "data_quality.json"


def comparison(made: Study) -> Comparison:
    """A study as a notebook has it."""
    return Comparison(**{one.name: getattr(made, one.name) for one in fields(Study)})


def first_of(made: Comparison) -> dict[str, Any]:
    """How its first screen begins, for a page."""
    return {"first": made.first}


# 02, 03 and 08 -----------------------------------------------------------------------------------


def test_readings_are_percent_of_responses_by_arm() -> None:
    made, _ = run_cells("02_truncation_mask", "cell-12")
    runs = make_runs("M2", 1, 2)
    for seeds in runs.values():
        for seed, record in seeds.items():
            for line in record.step_lines:
                line |= {"mask/truncated": 0.1 + 0.1 * (seed % 2), "mask/share": 0.05}
    table = made["readings"](comparison(study_of("truncation_mask", runs))).set_index("Arm")
    assert set(table["cut at the limit (%)"]) == {15.0}
    assert set(table["masked (%)"]) == {5.0}
    assert table["reading: correct (%)"].isna().all()
    assert "mask all (DeepCoder)" in table.index


def test_repetition_by_both_rules_is_counted_by_arm() -> None:
    names, _ = run_cells("02_truncation_mask", "cell-12", "cell-12-2")
    runs = make_runs("M2", 1, 1)
    counts = {"responses": 100, "truncated": 20, "window": 3, "periodic": 5}
    row = {"kind": REPETITION, "run_id": runs["all"][30].run_id, "seed": 30, **counts}
    # The arms of the fake runs share their run ids.
    only = {"all": runs["all"]}
    rows = [{**row, "step": 80}, {**row, "step": 160}]
    table = names["repetition"](comparison(study_of("truncation_mask", only, rows)))
    assert table.to_numpy().tolist() == [["mask all (DeepCoder)", 1, 200, 40, 6, 10, 4]]
    assert names["repetition"](comparison(study_of("truncation_mask", only))).missing


def test_checkpoints_over_temperature_are_drawn_where_measured() -> None:
    names, _ = run_cells("03_temperature", "cell-12")
    made = comparison(study("temperature"))
    panel = names["checkpoints"](made)
    assert [plot.id for plot in panel.plots] == ["grid-diversity", "grid-accuracy"]
    rows = [row for row in made.measurements if "distinct_4" in row]
    curves = names["grid_values"](rows, "distinct_4")
    assert list(curves) == ["after 0 steps", "after 80 steps", "after 160 steps"]
    assert names["checkpoints"](replace(made, measurements=())).missing.startswith("Not recorded")


def test_tokens_are_clipped_by_the_number_of_the_update() -> None:
    names, _ = run_cells("08_batch_size", "cell-12")
    record = max(planned_records("batch_size"), key=lambda one: one.config.train_batch_size)
    assert names["clipped"](comparison(study_of("batch_size", {"mine": {0: record}}))) is not None
    for number, line in enumerate(record.step_lines):
        line["clip_ratio/region_mean"] = 0.01 * (number % 2)
        if number % 2:
            line["reward"] = None
    table = names["clipped"](comparison(study_of("batch_size", {"large": {0: record}})))
    assert table["Tokens clipped (%)"].tolist() == [0.0, 1.0]
    assert table["Update of its generation"].tolist() == [1, 2]
    assert set(table["Arm"]) == {"twice the batch"}


# 05 ----------------------------------------------------------------------------------------------


def first_of_sets(made: Comparison) -> dict[str, Any]:
    """What notebook 05 says first of the committed record."""
    data = SimpleNamespace(**json.loads(COMMITTED.read_text()))
    return run_cells("05_data_quality", "cell-04-2", "cell-04-3", study=made, data=data)[0]


def test_the_committed_record_meets_the_requirement() -> None:
    names = first_of_sets(comparison(study("data_quality", 1, 2)))
    stages = ["process", "filter", "dedup", "decontaminate", "verify"]
    assert list(dict.fromkeys(names["scores"]["stage"])) == stages
    assert names["lowest"] >= names["REQUIRED"]


def beside(made: Comparison) -> Panel:
    """The paper's numbers beside those of a comparison."""
    shown: list[Panel] = []
    ids = ("cell-16", "cell-16-2", "cell-16-3")
    run_cells("05_data_quality", *ids, study=made, pd=pd, Panel=Panel, show=shown.append)
    return shown[0]


@pytest.mark.parametrize("effect", [1, -1])
def test_results_stand_beside_the_papers_numbers(effect: int) -> None:
    made = comparison(study("data_quality", effect, 5))
    state = {1: "supported", -1: "contradicted"}[effect]
    assert made.results["D2"].state == state
    for arm, runs in made.arms.items():
        end = 2 + effect * (1 if arm == "harder" else 0)
        for line in (line for run in runs for line in run.eval_lines):
            for problem in line["per_problem"]:  # after the first window
                problem["passes"] = end if line["step"] > 16 else 1
    table = beside(made).data
    assert table is not None
    told = {1: "+50.0 | +25.0 points (2.0 times)", -1: "+0.0 | +25.0 points"}
    assert table.set_index("Claim").loc["D1"].iloc[1] == told[effect]
    assert "three times the easier" in table.loc[0, "The paper"]
    names = first_of_sets(made)
    html = html_for(made, **first_of(names["study"]))
    for text in ("required: 0.95", "Harder set"):
        assert text in html
    head = head_for(made, **first_of(names["study"]))
    assert head.tiles[0].name == "Base pass@1, harder set"
    assert "a harder and an easier set of 176 problems" in head.lead


def test_what_is_not_recorded_is_said() -> None:
    made = study("data_quality", 1, 2)
    one = replace(made, arms={"harder": made.arms["harder"]})
    assert "run on both sets" in beside(comparison(one)).missing
    assert "Without a finished run: Easier set." in head_for(one).lead


# 06 ----------------------------------------------------------------------------------------------

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


METHOD = "livecodebench_method"


def judged(marks: dict[str, str]) -> dict[str, Any]:
    """A record of cases in fours: right, wrong, right, wrong; ``marks`` has a character a case and
    judge: 1 for accepted, 0 for refused, - for not given.
    """
    labels = (("comparisons", True), ("comparisons", False), ("programs", True), ("attacks", False))
    seen = {"1": True, "0": False, "-": None}
    cases = [
        [*labels[i % 4][:1], "g<b>", f"c{i}", labels[i % 4][1], [seen[one] for one in found]]
        for i, found in enumerate(zip(*marks.values(), strict=True))
    ]
    return {"digest": "0", "judges": [*marks], "cases": cases}


SUITE = judged({"microcoder": "1010", "livecodebench": "0110", METHOD: "--0-"})


def evaluated(arms: dict[str, list[RunRecord]], suite: dict[str, Any] = SUITE) -> Comparison:
    runs = {arm: {record.seed: record for record in records} for arm, records in arms.items()}
    with tempfile.TemporaryDirectory() as folder:
        pack_json(Path(folder) / SUITE_FILE, suite)
        measurements = read_measurements(folder)
    results = assess("code_evaluator", runs, measurements)
    return Comparison("code_evaluator", "nano", arms, results)


def frame_of(suite: dict[str, Any]) -> pd.DataFrame:
    """As the notebook reads it."""
    with tempfile.TemporaryDirectory() as folder:
        pack_json(Path(folder) / SUITE_FILE, suite)
        return pd.DataFrame(read_suite(Path(folder) / SUITE_FILE))


def panels(made: Comparison, suite: dict[str, Any] | None = SUITE) -> dict[str, Any]:
    """What the cells of notebook 06 define, the first screen of the comparison among it."""
    ids = ("cell-04-2", "cell-04-3", "cell-12", "cell-12-2", "cell-16", "cell-16-2")
    given = {"study": made, "suite": suite and frame_of(suite), "Panel": Panel, "pd": pd}
    given |= {"BLUE": "#0072B2"}
    given |= {"show": lambda *shown, **fold: None, "interval": interval}
    return run_cells("06_code_evaluator", *ids, **given)[0]


def numbers(arms: dict[str, list[RunRecord]]) -> Any:
    made = evaluated(arms)
    return panels(made)["pairs"](made).data.set_index("In percent")


def test_errors_are_counted_in_both_directions() -> None:
    table = panels(evaluated(both_arms(0.1, seeds=1)))["misjudged"]().set_index("judge")
    columns = ["right", "rejected", "wrong", "accepted"]
    assert list(table.loc["microcoder", columns]) == [2, 0, 2, 0]
    assert list(table.loc["livecodebench", columns]) == [2, 1, 2, 1]
    assert list(table.loc[METHOD, columns]) == [1, 1, 0, 0]


def test_what_is_no_record_of_the_suite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(UserError, match="no record of the labelled suite"):
        read_suite(tmp_path / "bad.json")


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
    found = evaluated(both_arms(0.2, fade=0.5), judged(marks))
    states = {name: found.results[name].state for name in ("E1", "E2", "E3", "E4")}
    assert states == dict.fromkeys(states, "supported")


def test_arms_that_cannot_be_paired_are_said_not_to_be() -> None:
    arms = both_arms(0.1, seeds=2)
    alone = evaluated({"microcoder": arms["microcoder"]})
    assert panels(alone)["pairs"](alone).missing.endswith("rules; both arms are needed.")
    apart = evaluated({arm: [runs[i]] for i, (arm, runs) in enumerate(arms.items())})
    found = panels(apart)
    assert "share no seed" in found["pairs"](apart).missing
    assert found["gap"](apart).missing
    both = evaluated(arms)
    assert len(panels(both)["gap"](both).plots) == 2


def test_the_first_screen_has_the_suite() -> None:
    made = evaluated(both_arms(0.1, seeds=2))
    first = first_of(panels(made)["study"])
    html = html_for(made, **first)
    assert "g<b>" not in html
    assert head_for(made, **first).tiles[0].name == "Right refused, MicroCoder"
    assert "rules refuse 1 of 2 right cases" in head_for(made, **first).finding
    assert first_of(panels(made, None)["study"])["first"].tiles == []
