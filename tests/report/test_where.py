"""The page of the maps: what a cell shows, and what lies behind it."""

from pathlib import Path

import pytest
from fake_cells import where_of
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mcbench.report import display
from mcbench.report import where as shown_of
from mcbench.report.export import page_of
from mcbench.report.page import Page, build_page, write_page
from mcbench.report.where import map_figure

from .browser import CHROMIUM, OFFLINE, chromium


@pytest.fixture(scope="module")
def where():
    return where_of((2e-4, 5e-4), ("50%", "100%"), "nano-m")


def test_a_map_has_a_number_and_an_interval_in_every_cell(where):
    (trace,) = map_figure(where, "nano-s2", "all", 96).data
    assert (trace["x"], trace["y"]) == (["0.0002", "0.0005"], ["48 tokens", "96 tokens"])
    assert trace["z"].tolist() == [[18.75, 0], [18.75, 0]]
    assert trace["text"][0][0].startswith("+18.8<br>+")
    assert trace["customdata"][1][0]["href"] == "#cell-nano-s2-0-0002-96"
    (diagonal,) = map_figure(where, "nano-m", "all", 192).data
    assert diagonal["text"][0][1] == ""
    assert diagonal["customdata"][0][1] == {}


def page_for(where) -> Page:
    """The page of a notebook that shows the finding, maps, means and curves."""
    outputs: list[display.Output] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(display, "display", outputs.extend)
        for show in ("finding", "maps", "means", "curves", "provenance"):
            getattr(shown_of, f"show_{show}")(where)
    cell = new_code_cell("", outputs=display.cell_outputs(outputs))
    return page_of(new_notebook(cells=[new_markdown_cell("# Maps\n\n## All"), cell]))


def test_the_page_says_what_the_cells_say_and_has_the_curves_of_each(where):
    page = page_for(where)
    html = build_page(page, "plotly.js")
    assert html == build_page(page_for(where), "plotly.js")
    assert page.finding.startswith("No cell decided")
    assert "mask all (DeepCoder), nano-m: on average +9.4 points (" in html
    for cell in where.cells:
        assert f'id="{cell.id}"' in html
        assert f'id="{cell.id}-192"' in html
    assert "no evidence about Qwen3" in html
    assert len(html) < 2_000_000


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_click_on_a_cell_leads_to_its_curves(where, tmp_path: Path):
    page = write_page(page_for(where), tmp_path / "page.html")
    with chromium(OFFLINE) as tab:
        tab.open(page)
        tab.wait("document.getElementById('map-nano-s2-all-96').data")
        figure = "document.getElementById('map-nano-s2-all-96')"
        tab.evaluate(f"{figure}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        x, y = tab.evaluate(
            f"(() => {{ const box = {figure}.getBoundingClientRect();"
            f"const size = {figure}._fullLayout._size;"
            "return [box.left + size.l + size.w / 4, box.top + size.t + size.h / 4]; })()"
        )
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        tab.wait(f"{figure}.querySelector('.hoverlayer .hovertext')")
        assert "+18.8 points" in tab.evaluate(f"{figure}.querySelector('.hovertext').textContent")
        for kind in ("mousePressed", "mouseReleased"):
            tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        tab.wait("location.hash === '#cell-nano-s2-0-0002-96'")
        tab.wait("document.getElementById('cell-nano-s2-0-0002-96-192').data")
        assert tab.errors == []
