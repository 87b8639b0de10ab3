"""Folders of reports rebuilt from records, single files, and what the command line prints."""

import re
import shlex
from html import unescape
from pathlib import Path

import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments.graded_sets import DATA_FILE
from mcbench.experiments.labelled import SUITE_FILE, LabelledCase, SuiteRecord
from mcbench.experiments.notebook import check_parameters, notebook_parameters
from mcbench.experiments.study import studies
from mcbench.files import json_or_text
from mcbench.report import site
from mcbench.report.base import Figure
from mcbench.report.claims import results_on, states_sentence, summary_lines, summary_section
from mcbench.report.page import Link, Page, Panel, Plot, Section, Table, build_index
from mcbench.runs.compact import write_compact
from mcbench.runs.records import read_records

from .made import planned_records
from .synthetic import make_record

RULES = ("microcoder", "livecodebench")
COMMITTED = Path(__file__).parents[2] / "reports" / "records"


def folder_of(tmp_path: Path, *experiments: str) -> Path:
    """A folder of reports with a run of every arm of some experiments."""
    records = tmp_path / "records"
    records.mkdir(parents=True, exist_ok=True)
    for name in experiments:
        for record in planned_records(name):
            write_compact(record, records)
    return tmp_path


def test_pages_are_rebuilt_from_records_byte_for_byte(tmp_path: Path) -> None:
    folder_of(tmp_path, "results", "kl_and_clip", "batch_size")
    (tmp_path / "other.html").write_text("<title>A &amp; B</title>")
    paths = site.build_site(tmp_path)
    pages = ["04_kl_and_clip.html", "07_results.html", "08_batch_size.html"]
    assert [path.name for path in paths] == ["index.html", *pages]
    index = paths[0].read_text(encoding="utf-8")
    assert '<a href="other.html">A &amp; B</a>' in index
    assert all(path.name in index for path in paths[1:])
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in site.build_site(tmp_path)] == first
    assert all(len(page) < 2_000_000 for page in first)
    assert (tmp_path / site.PLOTLY).is_file()
    text = paths[2].read_text(encoding="utf-8")
    assert "mcbench run notebooks/07_results.ipynb -p profiles" in text
    assert '<a href="index.html">All pages</a>' in text
    assert 'rel="prev" href="04_kl_and_clip.html"' in text
    assert 'rel="next" href="08_batch_size.html"' in text


def test_what_was_measured_beside_runs_is_on_their_pages(tmp_path: Path) -> None:
    folder_of(tmp_path, "code_evaluator", "data_quality")
    cases = (
        LabelledCase("programs", "s", str(r), r, dict.fromkeys(RULES, r)) for r in (True, False)
    )
    SuiteRecord(RULES, tuple(cases), "0").write(tmp_path / "records" / SUITE_FILE)
    (tmp_path / "records" / DATA_FILE).write_bytes((COMMITTED / DATA_FILE).read_bytes())
    pages = {path.name: path.read_text(encoding="utf-8") for path in site.build_site(tmp_path)}
    evaluator = pages["06_code_evaluator.html"]
    assert "-p seeds &#39;[0]&#39;" in evaluator
    assert "MicroCoder&#39;s rules refuse 0 of 1 right cases" in evaluator
    assert "-p pool_seeds &#39;[0, 1, 2, 3, 4]&#39;" in pages["05_data_quality.html"]
    finding = evaluator.split('class="finding">')[1].split(".")[0]
    assert finding in pages["index.html"]


def test_an_experiment_of_which_others_train_a_few_arms_shows_its_own_sizes() -> None:
    sizes = {}
    for profile, arms in (("nano", 7), ("nano-m", 2)):
        sizes[profile] = site.Study("truncation_mask", profile, {str(n): [] for n in range(arms)})
    assert site.shown_sizes("truncation_mask", [*sizes.values()]) == [sizes["nano"]]
    alone = site.Study("truncation_mask", "nano", {"none": []})
    assert site.shown_sizes("truncation_mask", [alone]) == []


def test_a_first_round_gives_way_to_later_runs_of_its_model() -> None:
    sizes = studies("results", read_records(COMMITTED))
    profiles = [study.profile for study in site.shown_sizes("results", sizes)]
    assert profiles == ["nano-steady", "nano-steady-m", "nano"]
    earlier = [study for study in sizes if study.profile in ("nano", "nano-m")]
    assert site.shown_sizes("results", earlier) == earlier


def test_a_page_is_one_file_unless_its_folder_shares_the_script(tmp_path: Path) -> None:
    figure = Figure()
    figure.add("scatter", x=[1, 2], y=[3, 4])
    panel = Panel("p", "", [Plot("a", "a figure", figure)])
    page = Page("t", "k", "l", [Section("s", "s", blocks=[panel])])
    assert "plotly.js v" in site.save(page, tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "assets").mkdir()
    (tmp_path / site.PLOTLY).touch()
    text = site.save(page, tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'src="{site.PLOTLY}"' in text
    assert "this page needs assets/plotly.min.js beside it" in text  # shown where missing
    alone = site.save(page, tmp_path / "page.html", single_file=True)
    assert "plotly.js v" in alone.read_text(encoding="utf-8")


def test_a_shared_script_is_put_into_a_single_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = site.build_site(folder_of(tmp_path, "cross_model"))[1]
    for name in (page, tmp_path / "records"):
        output = tmp_path / "sent" / "one.html"
        assert main(["report", str(name), "--single-file", "-o", str(output)]) == 0
        text = output.read_text(encoding="utf-8")
        assert text.count("<script src") == 0
        assert "plotly.js v" in text
        assert 'href="index.html"' not in text
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
        "None of the paper's 34 claims is decided by these runs. "
        "The rivals' 11 claims are open: each needs runs that are not there yet."
    )
    lines = summary_lines(results)
    (line,) = [line for line in lines if line.startswith("K1 ")]
    assert "1 of the 3 seeds it needs" in line
    assert "04_kl_and_clip.html#verdicts" in line
    assert [line for line in lines if line.startswith("F1 ")]
    assert any(line.startswith("25 claims of the landscape: 0 supported") for line in lines)
    section = summary_section(results)
    links = [
        cell.href
        for table in section.blocks
        if isinstance(table, Table)
        for cell in table.frame["Id"]
        if isinstance(cell, Link)
    ]
    assert len({link for link in links if link.startswith("02")}) == 2  # claims and ours
    assert links[0] == "06_code_evaluator.html#verdicts"
    html = build_index([], [section])
    assert html.count('href="02_truncation_mask.html#verdicts"') == 6
    assert "nothing about the paper&#39;s models" in html


def test_command_quotes_lists_and_leaves_out_what_is_default() -> None:
    line = site.command("07_results.ipynb", profiles=["nano"], seeds=[0, 1], steps=None)
    assert line == (
        "mcbench run notebooks/07_results.ipynb -p profiles '[\"nano\"]' -p seeds '[0, 1]'"
    )


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
    assert {page.name for page in pages if page.stat().st_size >= 2_000_000} == set()


def test_settings_that_older_records_lack_are_shown_with_what_they_meant(tmp_path: Path) -> None:
    records = [make_record(arm, 0, steps=20) for arm in ("grpo", "grpo_plus")]
    del records[0].meta["config"]["reward_rules"]
    page = site.experiment_page(site.comparison_of(records), "")
    (differing,) = [
        block
        for block in page.sections[-1].blocks
        if isinstance(block, Table) and block.title == "Settings in which the arms differ"
    ]
    assert "reward_rules" not in set(differing.frame["Setting"])
    assert "–" not in set(differing.frame.to_numpy().ravel())
