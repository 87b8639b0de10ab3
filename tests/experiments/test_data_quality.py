"""The harder and the easier set, and what the pipeline's record says."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.graded_sets import make_record
from benchmarks.noisy_pool import DEFECTS, noisy_pool, sound
from benchmarks.planted import TRUTH
from mcbench.errors import UserError
from mcbench.runs.problems import load_problems
from mcbench.worlds.graded import load_graded, measured, pool_problems

DATA_FILE = "data_quality.json"
COMMITTED = Path(__file__).parents[2] / "reports" / "records" / DATA_FILE


def test_both_sets_are_of_one_size_and_kind_and_neither_holds_a_test_problem() -> None:
    harder, easier = (load_problems(f"nano-{level}:train") for level in ("harder", "easier"))
    assert len(harder) == len(easier) == 176
    assert sorted(p.kind for p in harder) == sorted(p.kind for p in easier)
    assert not {p.id for p in harder} & {p.id for p in easier}
    test = load_problems("nano:test")
    programs = {p.metadata["program"] for p in test}
    assert not {p.statement for p in (*harder, *easier)} & {p.statement for p in test}
    assert not {p.metadata["program"] for p in (*harder, *easier)} & programs
    grades = measured("graded")
    for kind in ("induced", "described"):
        hardest = max(grades["passes"][p.id] for p in harder if p.kind == kind)
        assert 0 < hardest < min(grades["passes"][p.id] for p in easier if p.kind == kind)
    assert grades["base"]["harder"]["pass@1"] + 0.2 < grades["base"]["easier"]["pass@1"]
    with pytest.raises(UserError, match="unknown level"):
        load_graded("medium")


@pytest.mark.slow
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
    record = make_record(tmp_path, 160, lines.append)
    record.write(tmp_path / DATA_FILE)
    written = json.loads((tmp_path / DATA_FILE).read_text())
    assert written == json.loads(json.dumps(asdict(record)))
    assert written.keys() == json.loads(COMMITTED.read_text()).keys()  # as notebook 05 reads it
    sizes = {level: sum(record.passes[level]) for level in ("harder", "easier")}
    assert sizes["harder"] == sizes["easier"] >= 4
    assert all(s.recall >= 0.9 and s.precision >= 0.9 for s in record.scores["0"])
    assert {row["rule"] for row in record.dropped if row["planted"] == "contaminated"} == {
        "contaminated"
    }
    assert lines[-1] == "data: defects planted with seed 0 scored"
    before = (tmp_path / DATA_FILE).read_bytes()
    make_record(tmp_path, 160, lines.append).write(tmp_path / DATA_FILE)
    assert (tmp_path / DATA_FILE).read_bytes() == before
    with pytest.raises(UserError, match=r"more than there are|take a larger pool_size"):
        make_record(tmp_path, 30, lines.append)


def test_the_committed_record_is_of_the_committed_sets_and_meets_the_requirement() -> None:
    record = json.loads(COMMITTED.read_text())
    assert record["base"] == measured("graded")["base"]
    assert record["trained"] == {"harder": 176, "easier": 176}
    assert sorted(record["scores"]) == ["0", "1", "2", "3", "4"]
