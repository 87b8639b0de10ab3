"""The data pipeline on a page, from the committed record and runs made by formula."""

from dataclasses import replace
from pathlib import Path

import pytest

from mcbench.experiments.data_record import DATA_FILE, REQUIRED, DataRecord
from mcbench.report import data_panels
from mcbench.report.experiment import frame
from mcbench.report.sources import Sources

from .made import head_for, html_for, study

COMMITTED = Path(__file__).parents[2] / "reports" / "records" / DATA_FILE


@pytest.fixture(scope="module")
def record() -> DataRecord:
    return DataRecord.read(COMMITTED)


def test_the_committed_record_meets_the_requirement(record: DataRecord) -> None:
    scores = [one for found in record.scores.values() for one in found]
    stages = ["process", "filter", "dedup", "decontaminate", "verify"]
    assert list(dict.fromkeys(one.stage for one in scores)) == stages
    assert min(min(one.precision, one.recall) for one in scores) >= REQUIRED


@pytest.mark.parametrize("effect", [1, -1])
def test_the_page_shows_results_beside_the_papers_numbers(effect: int, record: DataRecord) -> None:
    made = study("data_quality", effect, 5)
    state = {1: "supported", -1: "contradicted"}[effect]
    assert made.results["D2"].state == state
    for arm, runs in made.arms.items():
        end = 2 + effect * (1 if arm == "harder" else 0)
        for line in (line for run in runs for line in run.eval_lines):
            for problem in line["per_problem"]:  # after the first window
                problem["passes"] = end if line["step"] > 16 else 1
    table = frame(Sources([made], made), "beside").set_index("Claim")
    told = {1: "+50.0 | +25.0 points (2.0 times)", -1: "+0.0 | +25.0 points"}
    assert table.loc["D1"].iloc[1] == told[effect]
    html = html_for(made, data=record)
    for text in ("three times the easier", "required: 0.95", "Harder set"):
        assert text in html
    head = head_for(made, data=record)
    assert head.tiles[0].name == "Base pass@1, harder set"
    assert "a harder and an easier set of 176 problems" in head.lead


def test_what_is_not_recorded_is_said() -> None:
    made = study("data_quality", 1, 2)
    one = replace(made, arms={"harder": made.arms["harder"]})
    assert "run on both sets" in data_panels.beside(Sources([one], one)).missing
    assert "Without a finished run: Easier set." in head_for(one).lead
