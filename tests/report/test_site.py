from pathlib import Path

import plotly.graph_objects as go
import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments.code_evaluator import SUITE_FILE
from mcbench.experiments.experiments import experiment_named
from mcbench.experiments.labelled import LabelledCase, SuiteRecord
from mcbench.report import site
from mcbench.report.page import Page, Panel, Plot, Section
from mcbench.runs.compact import write_compact

from .synthetic import make_record

_RULES = ("microcoder", "livecodebench")


def test_pages_are_rebuilt_from_records_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    for arm in ("grpo", "microcoder"):
        write_compact(make_record(arm, 0, steps=20), tmp_path / "records")
    (tmp_path / "other.html").write_text("<title>A &amp; B</title>")
    index, page = site.build_site(tmp_path)
    assert '<a href="other.html">A &amp; B</a>' in index.read_text(encoding="utf-8")
    first = index.read_bytes(), page.read_bytes()
    site.build_site(tmp_path)
    assert (index.read_bytes(), page.read_bytes()) == first
    assert page.name in index.read_text(encoding="utf-8")
    assert page.stat().st_size < 2_000_000
    assert (tmp_path / site.PLOTLY).is_file()


def test_the_code_evaluator_has_a_page_where_its_records_are(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    for name, arm in experiment_named("code_evaluator").arms.items():
        record = make_record(arm.recipe, 0, steps=20)
        record.meta["run_id"] = name
        record.meta["config"]["changes"] = dict(arm.changes)
        record.config.reward_rules = name
        write_compact(record, records)
    other = make_record("grpo_plus", 1, steps=20)  # the same recipe on the plain problems
    write_compact(other, records)
    assert [path.name for path in site.build_site(tmp_path)] == ["index.html", "07_results.html"]
    SuiteRecord(
        _RULES,
        tuple(
            LabelledCase("programs", "style", str(right), right, dict.fromkeys(_RULES, right))
            for right in (True, False)
        ),
        "0",
    ).write(records / SUITE_FILE)
    page = site.build_site(tmp_path)[2]
    text = page.read_text(encoding="utf-8")
    assert page.name == "06_code_evaluator.html"
    assert "-p seeds &#x27;[0]&#x27;" in text
    assert text[: text.index("</header>")].split('class="lead">')[1].split(".")[0] in (
        tmp_path / "index.html"
    ).read_text(encoding="utf-8")


def test_a_page_is_one_file_unless_its_folder_shares_the_script(tmp_path: Path) -> None:
    plot = Plot("a", "a figure", go.Figure(go.Scatter(x=[1, 2], y=[3, 4])))
    page = Page("t", "k", "l", [Section("s", "s", panels=[Panel("p", "", [plot])])])
    assert "plotly.js v" in site.save(page, tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "assets").mkdir()
    (tmp_path / site.PLOTLY).touch()
    assert site.PLOTLY in site.save(page, tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_shared_script_is_put_into_a_single_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "records").mkdir()
    write_compact(make_record("grpo", 0, steps=20), tmp_path / "records")
    page = site.build_site(tmp_path)[1]
    for name in (page, tmp_path / "records"):
        output = tmp_path / "sent" / "one.html"
        assert main(["report", str(name), "--single-file", "-o", str(output)]) == 0
        text = output.read_text(encoding="utf-8")
        assert text.count("<script src") == 0
        assert "plotly.js v" in text
        assert output.stat().st_size < 8_000_000
    assert main(["report", str(tmp_path), "--single-file"]) == 2
    assert "name one of them" in capsys.readouterr().err


def test_a_folder_without_records_is_an_error_for_people(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run records"):
        site.build_site(tmp_path)


def test_command_quotes_lists_and_leaves_out_what_is_default() -> None:
    line = site.command("07_results.ipynb", profiles=["nano"], seeds=[0, 1], steps=None)
    assert line == (
        "mcbench run notebooks/07_results.ipynb -p profiles '[\"nano\"]' -p seeds '[0, 1]'"
    )


def test_relative_paths_are_the_projects_from_every_folder_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcbench").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").touch()
    for folder in (tmp_path, tmp_path / "notebooks"):
        monkeypatch.chdir(folder)
        assert site.in_project("runs") == tmp_path / "runs"
    assert site.in_project(tmp_path / "x") == tmp_path / "x"
