"""The harder and the easier set, what the pipeline's record says, and the page made from it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic_runs as synthetic
from mcbench.experiments.data_quality import DATA_FILE, run_data_quality

from mcbench.data.planted import TRUTH
from mcbench.errors import UserError
from mcbench.experiments.graded_sets import DataRecord, data_record
from mcbench.experiments.noisy_pool import DEFECTS, noisy_pool, sound
from mcbench.nano.graded import grades, load_graded, pool_problems
from mcbench.report import data_quality, site
from mcbench.report.page import build_page
from mcbench.runs.compact import write_compact
from mcbench.runs.problems import load_problems

COMMITTED = Path(__file__).parents[2] / "reports" / "records" / DATA_FILE


def record_of_committed() -> DataRecord:
    return DataRecord.read(COMMITTED)


def test_both_sets_are_of_one_size_and_kind_and_neither_holds_a_test_problem() -> None:
    harder, easier = (load_problems(f"nano-{level}:train") for level in ("harder", "easier"))
    assert len(harder) == len(easier) == 176
    assert sorted(p.kind for p in harder) == sorted(p.kind for p in easier)
    assert not {p.id for p in harder} & {p.id for p in easier}
    test = load_problems("nano:test")
    programs = {p.metadata["program"] for p in test}
    assert not {p.statement for p in (*harder, *easier)} & {p.statement for p in test}
    assert not {p.metadata["program"] for p in (*harder, *easier)} & programs
    rates = grades().rates()
    for kind in ("induced", "described"):
        hardest = max(rates[p.id] for p in harder if p.kind == kind)
        assert 0 < hardest < min(rates[p.id] for p in easier if p.kind == kind)
    assert grades().base["harder"]["pass@1"] + 0.2 < grades().base["easier"]["pass@1"]
    with pytest.raises(UserError, match="unknown level"):
        load_graded("medium")


def test_what_is_planted_in_the_pool_is_known() -> None:
    problems = pool_problems()[::6]
    pool = noisy_pool(problems)
    assert pool == noisy_pool(problems)
    assert pool != noisy_pool(problems, seed=1)
    assert set(pool.defects.values()) == {*DEFECTS, "few_tests", "contaminated"}
    assert set(pool.defects.values()) <= set(TRUTH)
    assert len({record.id for record in pool.records}) == len(pool.records)
    kept = sound(problems)
    assert all(len({str(t["expected"]) for t in p.tests}) > 1 for p in kept)


@pytest.mark.slow
def test_the_pipeline_says_what_it_did(tmp_path: Path) -> None:
    lines: list[str] = []
    record = data_record(tmp_path, 160, lines.append)
    record.write(tmp_path / DATA_FILE)
    assert DataRecord.read(tmp_path / DATA_FILE) == record
    sizes = {level: sum(record.passes[level]) for level in ("harder", "easier")}
    assert sizes["harder"] == sizes["easier"] >= 4
    assert all(s.recall >= 0.9 and s.precision >= 0.9 for s in record.scores["0"])
    assert {row["rule"] for row in record.dropped if row["planted"] == "contaminated"} == {
        "contaminated"
    }
    assert lines[-1] == "data: defects planted with seed 0 scored"
    before = (tmp_path / DATA_FILE).read_bytes()
    data_record(tmp_path, 160, lines.append).write(tmp_path / DATA_FILE)
    assert (tmp_path / DATA_FILE).read_bytes() == before
    with pytest.raises(UserError, match=r"more than there are|take a larger pool_size"):
        data_record(tmp_path, 30, lines.append)


def test_the_committed_record_is_of_the_committed_sets_and_meets_the_requirement() -> None:
    record = record_of_committed()
    assert record.base == grades().base
    assert record.trained == {"harder": 176, "easier": 176}
    assert sorted(record.scores) == ["0", "1", "2", "3", "4"]
    table = data_quality.score_table(record)
    assert list(table["Stage"]) == ["process", "filter", "dedup", "decontaminate", "verify"]
    assert set(table["at least 0.95"]) == {"yes"}


def test_a_stage_below_the_requirement_is_shown_as_such() -> None:
    record = record_of_committed()
    first, *others = record.scores["0"]
    missed = replace(first, found=first.planted // 2)
    table = data_quality.score_table(replace(record, scores={"0": (missed, *others)}))
    assert list(table["at least 0.95"]) == ["NO", "yes", "yes", "yes", "yes"]


@pytest.mark.parametrize("effect", [1, -1])
def test_the_page_shows_verdicts_beside_the_papers_numbers(effect: int) -> None:
    runs = synthetic.make_records("D1", effect)
    arms = data_quality.set_arms(runs)
    assert list(arms) == ["Harder set", "Easier set"]
    state = {1: "supported", -1: "contradicted"}[effect]
    assert data_quality.claims(arms)["D1"].state == state
    for record in runs:
        end = 0.3 + effect * (0.2 if record.run_id.startswith("harder") else 0.1)
        for line in record.eval_lines:
            line["pass_at_1"] = end if line["step"] > 16 else 0.3  # after the first window
    table = data_quality.beside_the_paper(arms).set_index("Claim")
    told = {1: "+20.0 | +10.0 points (2.0 times)", -1: "−20.0 | −10.0 points"}
    assert table.loc["D1"].iloc[1] == told[effect]
    page = data_quality.data_quality_page(record_of_committed(), runs, "mcbench run")
    html = build_page(page, "plotly.js")
    for text in ("three times the easier", "contaminated", "required: 0.95", "Harder set"):
        assert text in html


def test_the_page_is_rebuilt_from_committed_records(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    for record in synthetic.make_records("D1", 1, seeds=3):
        for line in record.eval_lines:
            line["pass_at_1"] = 0.5
        write_compact(record, folder / f"{record.run_id}.parquet")
    (folder / DATA_FILE).write_bytes(COMMITTED.read_bytes())
    pages = {path.name: path.read_bytes() for path in site.build_site(tmp_path)}
    assert b"mcbench run notebooks/05_data_quality.ipynb" in pages["05_data_quality.html"]
    assert pages == {path.name: path.read_bytes() for path in site.build_site(tmp_path)}


def test_what_cannot_be_shown_is_refused_in_one_line(tmp_path: Path) -> None:
    runs = synthetic.make_records("D1", 1)
    with pytest.raises(UserError, match="no run on the easier set"):
        data_quality.set_arms([r for r in runs if r.run_id.startswith("harder")])
    broken = tmp_path / DATA_FILE
    for content in ("", "[]", json.dumps({"pool": 3})):
        broken.write_text(content)
        with pytest.raises(UserError, match="is no record of a data set"):
            DataRecord.read(broken)
    with pytest.raises(UserError, match="profile"):
        run_data_quality("nanoo", runs_dir=tmp_path)
    assert list(tmp_path.iterdir()) == [broken]
