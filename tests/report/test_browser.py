"""The page in a real browser, opened from disk."""

from pathlib import Path

import pytest

from mcbench.report.page import write_page
from mcbench.report.results import results_page

from .browser import CHROMIUM, chromium
from .synthetic import make_records

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def test_page_draws_without_network_or_errors(tmp_path: Path) -> None:
    page = results_page(make_records(seeds=2), "make demo")
    count = sum(len(panel.plots) for section in page.sections for panel in section.panels)
    path = write_page(page, tmp_path / "page.html")
    with chromium() as tab:
        tab.open(path, 390, 800)
        assert tab.errors == []
        assert [
            url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))
        ] == []
        assert tab.evaluate("document.querySelectorAll('.plot .main-svg').length") >= count
        assert tab.evaluate("document.body.dataset.drawn") == str(count)
        # On a phone nothing but the tables scrolls sideways.
        assert tab.evaluate("document.documentElement.scrollWidth") == 390

        shown = (
            "document.getElementById('nano-s-reward').data"
            ".filter(t => t.legendgroup === 'grpo' && t.visible !== false).length"
        )
        before = tab.evaluate(shown)
        assert before > 0
        tab.evaluate("document.querySelector('.arms button[value=grpo]').click()")
        assert tab.evaluate(shown) == 0
        tab.evaluate("document.querySelector('.arms button[value=grpo]').click()")
        assert tab.evaluate(shown) == before

        color = "document.getElementById('nano-s-reward').layout.font.color"
        light = tab.evaluate(color)
        tab.dark()
        tab.wait(f"{color} !== '{light}'")
        assert tab.errors == []
