"""What any page keeps to: one file, the same bytes, text that stays text."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from mcbench.report import paper
from mcbench.report.any_runs import notebook_of
from mcbench.report.base import Figure
from mcbench.report.display import cell_outputs, head_output, outputs_of
from mcbench.report.export import page_of
from mcbench.report.page import (
    Entry,
    Facts,
    Head,
    Link,
    Page,
    Panel,
    Place,
    Plot,
    Section,
    Table,
    build_index,
    build_page,
    write_page,
)
from mcbench.report.rendering import script_json
from mcbench.report.site import comparison_of
from mcbench.report.sources import Sources
from mcbench.report.style import arm_styles

from .made import html_for
from .synthetic import make_record

EVIL = "</script><script>alert(1)</script><b title='\"'>"


def small(script: str | None = "assets/plotly.min.js", **meta: Any) -> str:
    records = [make_record(arm, 0, steps=20, **meta) for arm in ("grpo", "microcoder")]
    return html_for(*comparison_of(records), script=script, call="make demo")


def shown(*blocks: Any, head: Head | None = None) -> Page:
    """A page on which one cell showed some blocks."""
    (made,) = comparison_of([make_record("grpo", 0, steps=20)])
    notebook = notebook_of(Sources([made], made), "")
    cell = notebook.cells[1]
    first = [head_output(head)] if head else []
    cell.outputs = cell_outputs([*first, *outputs_of(*blocks)])
    notebook.cells = [cell]
    return page_of(notebook)


def test_same_records_give_the_same_bytes() -> None:
    assert small(None) == small(None)


def test_page_carries_everything_itself() -> None:
    html = small(None)
    assert html.count("<script src") == html.count("<link") == html.count("@import") == 0
    assert "plotly.js v" in html
    for needed in ("no evidence about Qwen3", "make demo", "0123456789", "Δ", "2.13.0"):
        assert needed in html


def test_every_page_names_and_links_the_paper() -> None:
    for html in (small(), build_page(Page("t", "k")), build_index([])):  # in the footer
        assert f'<a href="https://arxiv.org/abs/2603.07777">{paper.PAPER["title"]}</a>' in html
        assert "Zongqian Li and others" in html


def test_text_from_outside_never_becomes_markup() -> None:
    html = small(commit=EVIL, run_id=EVIL, versions={EVIL: EVIL})
    assert "alert(1)</script>" not in html
    assert "</script>" not in script_json({EVIL: [EVIL, "\u2028"]})


def test_every_block_escapes_what_it_shows() -> None:
    blocks = [
        Panel(EVIL, EVIL, [Plot("p", EVIL, Figure())], pd.DataFrame({EVIL: [EVIL]}), EVIL),
        Table(pd.DataFrame({EVIL: [EVIL, Link(EVIL, f"#{EVIL}")]}), EVIL),
        Section("s", EVIL, EVIL, [Facts([(EVIL, EVIL)], fold=EVIL)]),
    ]
    page = shown(*blocks, head=Head(EVIL, lead=EVIL, notes=[EVIL], exploded=[EVIL], equal=[EVIL]))
    html = build_page(page, "plotly.js")
    assert "<script>alert" not in html
    assert "<b title" not in html
    assert html.count("&lt;script&gt;alert(1)") >= 16


def test_unknown_arms_get_styles_of_their_own() -> None:
    styles = arm_styles(["grpo", "rho 0.1", "rho 0.2"])
    assert len({(style.color, style.dash) for style in styles.values()}) == 3


def test_figures_of_one_name_are_told_apart() -> None:
    page = shown(Panel("p", "", [Plot("same", "", Figure()), Plot("same", "", Figure())]))
    assert list(page.figures) == ["same", "same-2"]


def test_write_page_makes_the_folder_and_names_the_file(tmp_path: Path) -> None:
    page = Page("t", "k")
    path = write_page(page, tmp_path / "a" / "b.html", "assets/plotly.min.js")
    assert path.is_absolute()
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_page_without_figures_needs_no_script_of_plotly() -> None:
    assert len(build_page(Page("t", "k"))) < 100_000


def test_index_links_its_pages() -> None:
    sections = [Section("claims", "The paper's 34 claims in numbers")]
    html = build_index([Entry("results.html", "A <b>", "three arms")], sections)
    assert 'href="results.html"' in html
    assert "A &lt;b&gt;" in html
    header, main = html.split("</header>")
    assert "no evidence about Qwen3" in header
    assert f'<a href="{paper.PAPER["url"]}">' in header
    assert main.index("Pages</h2>") < main.index("34 claims in numbers")


def test_a_page_in_a_folder_leads_to_its_index_neighbours_and_notebook() -> None:
    page = Page("t", "k")
    entries = [Entry("a.html", "A"), Entry("b.html", "B")]
    page = replace(page, notebook="../notebooks/02_x.ipynb")
    html = build_page(page, place=Place("index.html", *entries))
    for link in ("index.html", "a.html", "b.html", "../notebooks/02_x.ipynb", "https://arxiv"):
        assert f'href="{link}' in html
    assert "index.html" not in build_page(page)


def test_figures_are_named_and_come_with_their_numbers() -> None:
    figure = Figure()
    figure.add("scatter", x=[1, 2], y=[3.0, 4.5], name="curve")
    plot = Plot("p", "a caption", replace(figure, layout={"xaxis": {"title": {"text": "Step"}}}))
    html = build_page(shown(Panel("P", "", [plot])), "x")
    label = re.search('role="img" aria-label="([^"]*)"', html)
    assert label
    assert label[1] == "P: a caption. Step from 1 to 2; at the end curve 4.5."
    assert '<summary aria-label="Numbers of this figure">' in html
