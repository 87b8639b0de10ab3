"""Pages in a real browser, opened from disk with the network blocked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcbench.report import figures
from mcbench.report.experiment import experiment_page
from mcbench.report.page import write_page
from mcbench.report.series import group_runs
from mcbench.report.site import comparison_of

from .browser import CHROMIUM, OFFLINE, Tab, chromium
from .synthetic import make_records
from .test_samples import HOSTILE, with_responses

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
REPORTS = Path(__file__).parents[2] / "reports"
ONE = "05_data_quality"  # of the committed pages, which the quick tests open too
TAB_KEY, ENTER_KEY = ("Tab", 9), ("Enter", 13)


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium(OFFLINE) as one:
        yield one


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Three arms, of which two kept responses that try to break out of the page."""
    folder = tmp_path_factory.mktemp("runs")
    records: list[Any] = [r for r in make_records(seeds=3) if r.seed > 0 or "plus" in r.run_id]
    for arm, rewards in (("grpo", [1.0, 0, 0, 0]), ("microcoder", [1.0, 1, 0, 0])):
        records.append(with_responses(folder, arm, rewards, ["a", "b"]))
        records[-1].meta["config"]["steps"] = 60  # of which it has 20
    return records


@pytest.fixture(scope="module")
def page(records: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_page(experiment_page(comparison_of(records), "make demo"), folder / "page.html")


@pytest.fixture
def opened(tab: Tab, page: Path) -> Tab:
    tab.errors.clear()
    tab.requests.clear()
    tab.open(page)
    return tab


def shown(arm: str, figure: str = "nano-s-reward") -> str:
    return (
        f"document.getElementById('{figure}').data"
        f".filter(t => t.legendgroup === '{arm}' && t.visible !== false).length"
    )


def set_value(control: str, value: object, event: str = "input") -> str:
    return (
        f"(() => {{ const one = document.querySelector({control!r}); one.value = {str(value)!r};"
        f" one.dispatchEvent(new Event({event!r}, {{bubbles: true}})); }})()"
    )


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == ONE else [pytest.mark.slow])
        for path in sorted(REPORTS.glob("*.html"))
    ],
)
def test_committed_pages_open_from_disk_and_work(tab: Tab, path: Path) -> None:
    assert path.stat().st_size < 2_000_000
    tab.errors.clear()
    tab.requests.clear()
    tab.open(path)
    plots = tab.evaluate("document.querySelectorAll('.plot').length")
    assert tab.evaluate("document.querySelectorAll('.plot.js-plotly-plot').length") == plots
    arms = tab.evaluate("document.querySelectorAll('.arms button').length")
    tab.evaluate("document.querySelectorAll('.arms button').forEach((one) => one.click())")
    assert tab.evaluate("document.querySelectorAll('[aria-pressed=false]').length") == arms
    tab.evaluate("document.querySelectorAll('.arms button').forEach((one) => one.click())")
    for slider in ("#smoothing", "#step"):
        if tab.evaluate(f"document.querySelector('{slider}') !== null"):
            tab.evaluate(set_value(slider, 3))
    if tab.evaluate("document.querySelector('.browser') !== null"):
        tab.evaluate(set_value(".browser input[type=search]", "no such words"))
        assert tab.evaluate("document.querySelectorAll('.browser')[0].textContent").count("0 resp")
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert (tab.errors, tab.outside()) == ([], [])


def test_arms_are_switched_on_a_phone_and_in_the_dark(opened: Tab) -> None:
    opened.resize(390, 800)
    # On a phone nothing but the tables scrolls sideways.
    opened.wait("document.documentElement.scrollWidth === 390")
    before = opened.evaluate(shown("grpo"))
    assert before == 3
    opened.evaluate("document.querySelector('.arms button[value=grpo]').click()")
    opened.wait(f"{shown('grpo')} === 0")
    assert opened.evaluate("document.getElementById('nano-s-groups-0').closest('figure').hidden")
    opened.evaluate("document.querySelector('.arms button[value=grpo]').click()")
    opened.wait(f"{shown('grpo')} === {before}")
    color = "document.getElementById('nano-s-reward').layout.font.color"
    light = opened.evaluate(color)
    opened.dark()
    opened.wait(f"{color} !== '{light}'")
    assert opened.errors == []


@pytest.mark.parametrize("window", [9, 41])  # of 60 points: more than half of them, too
def test_smoothing_draws_what_the_python_figure_shows(
    opened: Tab, records: list[Any], window: int
) -> None:
    opened.evaluate(set_value("#smoothing", window))
    wanted = figures.entropy(group_runs(records)["nano-s"], smoothing=window)
    # The first arm has seeds of different lengths; the second is whole.
    assert [trace["legendgroup"] for trace in wanted.data[3:6]] == ["grpo_plus"] * 3
    opened.evaluate("document.getElementById('nano-s-entropy').scrollIntoView()")
    mean = "document.getElementById('nano-s-entropy').data[5].y"
    last = float(wanted.data[5]["y"][-1])
    opened.wait(f"Math.abs({mean}.at(-1) - {last}) < 1e-4")
    assert np.allclose(opened.evaluate(f"[...{mean}]"), wanted.data[5]["y"], atol=1e-4)
    band = opened.evaluate("[...document.getElementById('nano-s-entropy').data[4].y]")
    assert np.allclose(band, wanted.data[4]["y"], atol=1e-4)


def test_zoom_and_step_are_shared(opened: Tab) -> None:
    opened.evaluate(
        "Plotly.relayout('nano-s-reward', {'xaxis.range[0]': 10, 'xaxis.range[1]': 20}) && 0"
    )
    opened.wait(
        "document.getElementById('nano-s-kl')?.layout.xaxis.range?.[1] === 20 || "
        "document.getElementById('nano-s-entropy').layout.xaxis.range?.[1] === 20"
    )
    opened.evaluate("Plotly.relayout('nano-s-reward', {'xaxis.autorange': true}) && 0")
    opened.wait("document.getElementById('nano-s-entropy').layout.xaxis.autorange")
    opened.evaluate(set_value("#step", 30))
    assert opened.evaluate("document.querySelector('#step + output').value") == "30"
    assert not opened.evaluate("document.querySelector('#nano-s-reward .marker').hidden")
    assert opened.errors == []


def test_hovering_points_at_the_same_step_in_all_figures(opened: Tab) -> None:
    opened.resize(1280, 900)
    place = "{block: 'center', behavior: 'instant'}"
    opened.evaluate(f"document.getElementById('nano-s-reward').scrollIntoView({place})")
    x, y = opened.evaluate(
        "(({left, top, width, height}) => [left + width / 2, top + height / 2])"
        "(document.getElementById('nano-s-reward').getBoundingClientRect())"
    )
    for shift in (0, 6):
        opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y)
    opened.wait("!document.querySelector('#nano-s-length .cursor').hidden")
    opened.wait("document.querySelector('#nano-s-length .hoverlayer').textContent.includes('GRPO')")
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    opened.wait("document.querySelector('#nano-s-length .cursor').hidden")
    assert opened.errors == []


def test_hostile_responses_are_text(opened: Tab) -> None:
    text = opened.evaluate("document.querySelector('.browser details pre').textContent")
    assert text.startswith("</pre></script><script>alert(1)</script>␀␛[31m⟨U+202E⟩red")
    assert "more characters" in text
    assert len(HOSTILE) > 100_000
    assert (
        opened.evaluate("document.querySelectorAll('main script, main i:not([style])').length") == 0
    )
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.evaluate("document.querySelector('.browser .prompt').textContent") == "<i>a</i>"


def test_samples_are_filtered_and_searched(opened: Tab) -> None:
    count = "document.querySelectorAll('.browser .columns details').length"
    assert opened.evaluate(count) == 4  # one problem, two arms, two responses
    assert opened.evaluate("document.querySelectorAll('.browser .columns > div').length") == 2
    verdict = ".browser label:nth-of-type(4) select"
    opened.evaluate(set_value(verdict, "right", "change"))
    assert opened.evaluate(count) == 3
    opened.evaluate(set_value(".browser input[type=search]", "<I>B"))
    assert opened.evaluate(count) == 0  # none of the second problem's responses is right
    opened.evaluate(set_value(verdict, "", "change"))
    assert opened.evaluate(count) == 4
    opened.evaluate("document.querySelector('.arms button[value=grpo]').click()")
    assert opened.evaluate(count) == 2
    opened.evaluate("document.querySelector('.arms button[value=grpo]').click()")


def test_controls_are_reached_and_used_by_keyboard(opened: Tab) -> None:
    reached = set()
    for _ in range(40):
        opened.press(*TAB_KEY)
        reached.add(opened.evaluate("document.activeElement.value ?? ''"))
        if opened.evaluate("document.activeElement.id") == "step":
            break
    assert {"grpo", "grpo_plus", "microcoder", "5"} <= reached  # arms, then smoothing
    opened.evaluate("document.querySelector('.arms button[value=grpo]').focus()")
    opened.press(*ENTER_KEY)
    opened.wait(f"{shown('grpo')} === 0")
    unnamed = (
        "[...document.querySelectorAll('input, select, button')].filter((one) =>"
        " !(one.labels?.length || one.textContent.trim() || one.ariaLabel)).length"
    )
    assert opened.evaluate(unnamed) == 0
    assert opened.evaluate("[...document.querySelectorAll('.plot')].every((p) => p.ariaLabel)")


@pytest.mark.slow
def test_a_dark_page_is_printed_dark_on_white(opened: Tab) -> None:
    opened.dark()
    opened.evaluate(
        "addEventListener('beforeprint', () => { const { width, font } ="
        " document.getElementById('nano-s-reward').layout; window.printed = [width, font.color]; })"
    )
    opened.call("Page.printToPDF")
    assert opened.evaluate("window.printed") == [312, "#444"]
    opened.wait("document.getElementById('nano-s-reward').layout.font.color !== '#444'")
    assert opened.errors == []
