"""Folders of reports rebuilt from records, single files, and what the command line prints."""

import re
import shlex
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments.notebook import check_parameters, notebook_parameters
from mcbench.experiments.study import Study, studies
from mcbench.files import json_or_text
from mcbench.report import site
from mcbench.report.base import Figure
from mcbench.report.claims import claim_sections, results_on, summary_lines, summary_section
from mcbench.report.encode import figure_spec
from mcbench.report.page import Link, Page, Table, build_index
from mcbench.report.provenance import provenance
from mcbench.report.sources import Sources
from mcbench.report.story import main_claim, states_sentence, story
from mcbench.runs.compact import write_compact

from .made import head_for, planned_records
from .synthetic import make_record

COMMITTED = Path(__file__).parents[2] / "reports" / "records"


def folder_of(tmp_path: Path, *experiments: str) -> Path:
    """A folder of reports with a run of every arm of some experiments."""
    records = tmp_path / "records"
    records.mkdir(parents=True, exist_ok=True)
    for name in experiments:
        for record in planned_records(name):
            write_compact(record, records)
    return tmp_path


@pytest.mark.slow
def test_pages_are_rebuilt_from_records_byte_for_byte(tmp_path: Path) -> None:
    """The notebooks are executed in real kernels, on nothing but these records."""
    folder_of(tmp_path, "kl_and_clip", "batch_size")
    (tmp_path / "other.html").write_text("<title>A &amp; B</title>")
    paths = site.build_site(tmp_path)
    pages = ["04_kl_and_clip.html", "08_batch_size.html", "14_round_2.html"]
    assert [path.name for path in paths] == ["index.html", *pages]
    index = paths[0].read_text(encoding="utf-8")
    assert '<a href="other.html">A &amp; B</a>' in index
    assert all(path.name in index for path in paths[1:])
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in site.build_site(tmp_path)] == first
    assert all(len(page) < 2_000_000 for page in first)
    assert (tmp_path / site.PLOTLY).is_file()
    text = paths[2].read_text(encoding="utf-8")
    assert "mcbench run notebooks/08_batch_size.ipynb" in text
    assert '<a href="index.html">All pages</a>' in text
    assert 'rel="prev" href="04_kl_and_clip.html"' in text
    assert 'rel="next" href="14_round_2.html"' in text
    output = tmp_path / "sent" / "one.html"
    assert main(["report", str(paths[1]), "--single-file", "-o", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert text.count("<script src") == 0
    assert "plotly.js v" in text
    assert 'href="index.html"' not in text


def test_a_page_is_one_file_unless_its_folder_shares_the_script(tmp_path: Path) -> None:
    page = Page("t", "k", figures={"a": figure_spec(Figure([{"type": "scatter", "y": [3, 4]}]))})
    assert "plotly.js v" in site.save(page, tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "assets").mkdir()
    (tmp_path / site.PLOTLY).touch()
    text = site.save(page, tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'src="{site.PLOTLY}"' in text
    assert "this page needs assets/plotly.min.js beside it" in text  # shown where missing
    alone = site.save(page, tmp_path / "page.html", single_file=True)
    assert "plotly.js v" in alone.read_text(encoding="utf-8")


def test_records_become_one_page_and_a_folder_of_pages_no_single_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of(tmp_path, "cross_model")
    output = tmp_path / "sent" / "one.html"
    assert main(["report", str(tmp_path / "records"), "--single-file", "-o", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert text.count("<script src") == 0
    assert "plotly.js v" in text
    assert output.stat().st_size < 8_000_000
    assert main(["report", str(tmp_path), "--single-file"]) == 2
    assert "name one of them" in capsys.readouterr().err


def test_a_folder_without_records_is_an_error_for_people(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run records"):
        site.build_site(tmp_path)
    with pytest.raises(UserError, match="no run or record at"):
        site.read_records(tmp_path / "absent")
    with pytest.raises(UserError, match="no run and no compact record"):
        site.read_records(tmp_path)


def test_the_table_of_claims_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of(tmp_path, "kl_and_clip")
    assert main(["report", str(tmp_path), "--insights"]) == 0
    printed = capsys.readouterr().out
    assert main(["report", str(tmp_path / "records"), "--insights"]) == 0
    assert capsys.readouterr().out == printed
    assert printed.startswith(
        "34 claims: 0 supported, 0 contradicted, 0 no effect, 0 mixed, 34 inconclusive\n"
        "The 34 claims stand in 7 experiments, "
    )


def test_the_summary_links_every_claim_and_question_to_its_page() -> None:
    results = results_on(planned_records("kl_and_clip"))
    assert states_sentence(results) == (
        "None of the paper's 34 claims is decided. "
        "The rivals' 11 claims are open: each needs runs that are not there yet. "
        "The landscape's 45 claims are open: each needs runs that are not there yet."
    )
    lines = summary_lines(results)
    (line,) = [line for line in lines if line.startswith("K1 ")]
    assert "1 of the 3 seeds it needs" in line
    assert "04_kl_and_clip.html#claim-K1" in line
    assert [line for line in lines if line.startswith("F1 ")]
    assert any(line.startswith("45 claims of the landscape: 0 supported") for line in lines)
    section = summary_section(results)
    links = [
        cell.href
        for table in section.blocks
        if isinstance(table, Table)
        for cell in table.frame["Id"]
        if isinstance(cell, Link)
    ]
    assert len({link for link in links if link.startswith("02")}) == 7  # six claims and ours
    assert links[0] == "06_code_evaluator.html#claim-E1"
    html = build_index([], [section])
    assert html.count('href="02_truncation_mask.html#claim-M') == 6
    assert "nothing about the paper&#39;s models" in html


@pytest.mark.parametrize("page", sorted(COMMITTED.parent.glob("[0-9]*.html")), ids=lambda p: p.stem)
def test_the_commands_on_a_committed_page_are_what_its_notebook_takes(page: Path) -> None:
    lines = re.findall(r"mcbench run (notebooks/[^<\n]*)", page.read_text(encoding="utf-8"))
    assert lines
    for line in lines:
        notebook, *words = shlex.split(unescape(line))
        given = {name: json_or_text(text) for _, name, text in zip(*[iter(words)] * 3, strict=True)}
        check_parameters(notebook_parameters(COMMITTED.parents[1] / notebook), given)


def test_committed_pages_are_small() -> None:
    pages = COMMITTED.parent.glob("*.html")
    assert {page.name for page in pages if page.stat().st_size >= 2_100_000} == set()


def test_settings_that_older_records_lack_are_shown_with_what_they_meant(tmp_path: Path) -> None:
    records = [make_record(arm, 0, steps=20) for arm in ("grpo", "grpo_plus")]
    del records[0].meta["config"]["reward_rules"]
    (made,) = site.comparison_of(records)
    (differing,) = [
        block
        for block in provenance({"nano-s": made.arms}).blocks
        if isinstance(block, Table) and block.title == "Settings in which the arms differ"
    ]
    assert "reward_rules" not in set(differing.frame["Setting"])
    assert "–" not in set(differing.frame.to_numpy().ravel())


def recorded(name: str, seeds: range) -> Study:
    """The study of an experiment's planned runs."""
    return studies(name, planned_records(name, seeds))[0]


def test_a_page_says_first_what_became_of_the_paper_s_main_claim_where_it_is_about_it() -> None:
    results = recorded("results", range(10, 13))
    head = head_for(results)
    first, *others = head.finding.split("\n")
    assert first == main_claim(results.results)
    assert next(link.text for link in head.papers) == "MicroCoder-GRPO"
    assert not any(line.startswith("Asked by us") for line in others[:-1])  # ours come last
    assert "main claim" not in head_for(recorded("kl_and_clip", range(10, 13))).finding


def test_the_first_screen_counts_the_claims_of_what_stands_beside() -> None:
    turns, search = (recorded(name, range(30, 32)) for name in ("multi_turn", "retrieval"))
    alone, both = (claims_counted(turns), claims_counted(turns, beside={"search": search}))
    assert (alone, both) == (2, 4)
    undecided = {name: replace(one, parts=()) for name, one in search.results.items()}
    scales = {"search": search, "elsewhere": replace(search, results=undecided)}
    assert Sources([turns], turns, scales).results["F3"] is search.results["F3"]


def claims_counted(study: Study, **beside: Study) -> int:
    (count,) = re.findall(r"landscape's (\d+) claims", head_for(study, **beside).finding)
    return int(count)


def test_the_index_opens_with_what_was_found_the_paper_s_main_claim_first() -> None:
    told = story(results_on(planned_records("results", range(10, 13))))
    assert told[0].startswith("The paper's main claim, that MicroCoder-GRPO ends highest, is ")
    assert "3 seeds, asked after the runs" in told[0]
    assert told[1].startswith("The paper's 34 claims are open: ")
    html = build_index([], story=told)
    assert html.index("main claim") < html.index("no evidence about Qwen3")
    assert story(results_on(planned_records("kl_and_clip")))[0].startswith(
        "The paper's main claim is open: "
    )


def test_claims_of_two_kinds_stand_in_one_table_that_says_which_the_protocol_has() -> None:
    results = results_on([])
    (section,) = claim_sections({name: results[name] for name in ("R1", "W11", "W1")})
    assert section.title == "Other papers' and the landscape's claims R1 to W1"
    assert "no part of the protocol" in section.prose
    assert "those of R1, W11 are in the protocol" in section.prose
    (section,) = claim_sections({name: results[name] for name in ("W11", "W12")})
    assert "no part of the protocol" not in section.prose


def test_the_index_takes_what_comes_first_of_a_long_summary() -> None:
    long = "what is told at length " * 9
    assert site.first_of("Short: all of it.") == "Short: all of it."
    assert site.first_of(f"One thing. {long}") == "One thing."
    assert site.first_of(f"It ends highest, which {long[:80]}: {long}") == (
        f"It ends highest, which {long[:80]}."
    )
    assert site.first_of(f"Every arm learns: {long}".rstrip()).startswith("Every arm learns: what")
