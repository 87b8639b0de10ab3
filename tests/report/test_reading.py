"""The committed pages as a reader meets them: short, and saying first what was found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcbench.runs.place import in_project
from report.browser import CHROMIUM, OFFLINE, Tab, chromium

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import pages

REPORTS = in_project("reports")
PAPER = 718  # px of A4 at 96 a dpi between margins of a centimetre
CUT_TABLES = f"""[...document.querySelectorAll("table")].filter(
  (one) => !one.closest("details:not([open])")  // whose content is not printed
    && one.getBoundingClientRect().right > {PAPER} + 1).length"""
NAMES = sorted(path.name for path in REPORTS.glob("*.html"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium(OFFLINE) as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_short_and_its_first_screen_says_what_was_found(tab: Tab, name: str) -> None:
    tab.open(REPORTS / name, width=1440, height=900)
    assert tab.evaluate(pages.TALL) <= pages.HEIGHT
    assert tab.evaluate(pages.OPEN_WORDS) <= pages.WORDS
    first = "document.querySelector('.finding').getBoundingClientRect().top < 500"
    assert tab.evaluate(first)
    said = "[...document.querySelectorAll('header p')].find(p => /no evidence/.test(p.innerText))"
    assert tab.evaluate(f"{said}.getBoundingClientRect().bottom") <= 900
    wide = "document.documentElement.scrollWidth"
    tab.resize(390, 844)
    assert tab.evaluate(wide) <= 390
    tab.media(media="print")
    tab.resize(PAPER, 1000)
    assert tab.evaluate(wide) <= PAPER
    assert tab.evaluate(CUT_TABLES) == 0
    tab.media(media="")
    assert tab.errors == []
    assert tab.outside() == []
