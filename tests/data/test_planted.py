"""A pool whose defects are known: what every stage finds of them, and what it leaves alone."""

from dataclasses import replace

import pytest

from benchmarks.planted import TRUTH, plant, score
from mcbench.data.build import build
from mcbench.data.config import BuildConfig
from mcbench.data.filter import FilterConfig
from mcbench.data.storage import iter_dataset
from mcbench.data.verify import VerifyConfig
from mcbench.errors import UserError
from mcbench.worlds.problems import load_split

from .defects import FIRST_DATE, MAX_TEST_KB, OWN
from .generated import generate

FILTER = FilterConfig(first_date=FIRST_DATE, max_test_kb=MAX_TEST_KB)


def config(folder, **options):
    out, cache = str(folder / "out"), str(folder / "cache")
    return BuildConfig(name="planted", out=out, cache=cache, workers=1, **options)


@pytest.mark.slow
def test_text_stages_find_what_was_planted(tmp_path):
    defects = [name for name, (stage, _) in TRUTH.items() if stage != "verify"]
    pool = plant(generate(1000), share=0.02, defects=defects)
    built = build(
        config(tmp_path, filter=FILTER, skip=("verify", "difficulty")),
        pool.records,
        pool.evaluation,
    )
    scores = {s.stage: s for s in score(pool, built.out)}
    for name in ("process", "filter", "dedup", "decontaminate"):
        assert scores[name].planted >= 20
        assert scores[name].recall >= 0.95, scores[name]
        assert scores[name].precision >= 0.95, scores[name]


@pytest.mark.slow
def test_verification_finds_what_was_planted(tmp_path):
    defects = [name for name, (stage, _) in TRUTH.items() if stage == "verify"]
    pool = plant(generate(36, tests=6), share=3 / 36, defects=defects)
    verify = VerifyConfig(time_limit_s=0.5, mutants=8)
    skip = ("process", "filter", "dedup", "decontaminate", "difficulty")
    built = build(config(tmp_path, verify=verify, skip=skip), pool.records)
    found = {s.stage: s for s in score(pool, built.out)}["verify"]
    assert (found.planted, found.found, found.wrong) == (21, 21, 0)
    assert all(r.test_strength >= 0.4 for r in iter_dataset(built.out))


@pytest.mark.slow
def test_nano_problems_can_be_planted_too(tmp_path):
    nano = [replace(problem, difficulty="") for problem in load_split("train")[:60]]
    pool = plant(nano, share=4 / 60, defects=["cut_off", "broken_test", "constant", "few_tests"])
    built = build(
        config(
            tmp_path,
            filter=FilterConfig(min_words=8, min_tests=3, language=""),
            verify=VerifyConfig(min_tests=2, mutants=0),
            skip=("dedup", "decontaminate", "difficulty"),
        ),
        pool.records,
    )
    kept = {record.id: len(record.tests) for record in iter_dataset(built.out)}
    found = {s.stage: s for s in score(pool, built.out)}
    assert found["process"].found == 4
    assert found["verify"].recall >= 0.95
    lost = [r.id for r in nano if r.id not in pool.defects and r.id not in kept]
    assert len(lost) <= 2  # nano's own: a constant or an echo passes the tests of a few


@pytest.mark.slow
def test_a_clean_pool_loses_nothing(tmp_path):
    clean = list(generate(300, seed=3))
    evaluation = list(generate(200, seed=8, name="evaluation"))
    built = build(config(tmp_path, filter=FILTER, skip=("verify",)), clean, evaluation)
    assert [r.id for r in iter_dataset(built.out)] == [r.id for r in clean]
    assert [r.statement for r in iter_dataset(built.out)] == [r.statement for r in clean]


def test_the_pool_is_what_it_says():
    first, again = plant(generate(200), seed=1), plant(generate(200), seed=1)
    assert first == again
    assert first != plant(generate(200), seed=2)
    assert set(first.defects.values()) == set(TRUTH) > set(OWN)
    assert len({r.id for r in first.records}) == len(first.records) == 200 + 2 * 4
    with pytest.raises(UserError, match="unknown defect"):
        plant(generate(20), defects=["typo"])
    with pytest.raises(UserError, match="more than there are"):
        plant(generate(20), share=0.1)
