"""The page of the maps: what a cell shows, and what lies behind it."""

from pathlib import Path
from typing import Any

import pytest
from fake_cells import maps_of
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mcbench.report import display
from mcbench.report.export import page_of
from mcbench.report.page import Page, build_page, write_page

from .browser import CHROMIUM, OFFLINE, chromium


@pytest.fixture(scope="module")
def made() -> tuple[dict[str, Any], list[display.Output]]:
    return maps_of((2e-4, 5e-4), ("50%", "100%"), "nano-m")


def test_a_map_has_a_number_and_an_interval_in_every_cell(made) -> None:
    drawn = [one.data[display.PLOTLY] for one in made[1] if display.PLOTLY in one.data]
    (trace,) = drawn[0]["data"]
    assert (trace["x"], trace["y"]) == (["0.0002", "0.0005"], ["48 tokens", "96 tokens"])
    assert trace["z"] == [[18.75, 0], [18.75, 0]]
    assert trace["text"][0][0].startswith("+18.8<br>+")
    assert trace["customdata"][1][0]["href"] == "#cell-nano-s2-0-0002-96"
    (diagonal,) = drawn[2]["data"]
    assert diagonal["text"][0][1] == ""
    assert diagonal["customdata"][0][1] == {}


def page_for(made) -> Page:
    """The page of a notebook that shows the finding, maps, means and curves."""
    cell = new_code_cell("", outputs=display.cell_outputs(made[1]))
    return page_of(new_notebook(cells=[new_markdown_cell("# Maps\n\n## All"), cell]))


def test_the_page_says_what_the_cells_say_and_has_the_curves_of_each(made) -> None:
    page = page_for(made)
    html = build_page(page, "plotly.js")
    assert page.finding.startswith("No cell decided")
    assert "uncorrected: mask all (DeepCoder) by +9.4 points (+" in page.finding
    assert "mask all (DeepCoder), nano-m: on average +9.4 points (" in html
    for cell in made[0]["cells"]:
        name = made[0]["anchor"](*cell)
        assert f'id="{name}"' in html
        assert f'id="{name}-192"' in html
    assert "no evidence about Qwen3" in html
    assert len(html) < 2_000_000


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_click_on_a_cell_leads_to_its_curves(made, tmp_path: Path):
    page = write_page(page_for(made), tmp_path / "page.html")
    with chromium(OFFLINE) as tab:
        tab.open(page)
        tab.wait("document.querySelector('.plot[aria-label*=\"nano-s2, up to 96\"]').data")
        figure = "document.querySelector('.plot[aria-label*=\"nano-s2, up to 96\"]')"
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
