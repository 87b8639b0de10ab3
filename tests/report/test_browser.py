"""Pages in a real browser, opened from disk with the network blocked."""

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import plotly.graph_objects as go
import pytest

from mcbench.report import base, figures
from mcbench.report.page import write_page
from mcbench.report.series import arm_of, group_runs
from mcbench.report.site import comparison_of

from .browser import CHROMIUM, OFFLINE, Tab, chromium, drag
from .made import page_for
from .synthetic import make_records
from .test_page import shown as page_showing
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
    return write_page(page_for(*comparison_of(records)), folder / "page.html")


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
    tab.errors.clear()
    tab.requests.clear()
    tab.open(path)
    plots, drawn, folded = (
        f"document.querySelectorAll('{one}').length"
        for one in (".plot", ".plot.js-plotly-plot", "details.fold .plot")
    )
    assert tab.evaluate(drawn) == tab.evaluate(f"{plots} - {folded}")
    tab.evaluate("document.querySelectorAll('details.fold').forEach(one => { one.open = true; })")
    tab.wait(f"{drawn} === {plots}")
    for pressed in (1, 0) if tab.evaluate("document.querySelector('.toggles') !== null") else ():
        tab.evaluate("document.querySelector('.toggles button').click()")
        count = "document.querySelectorAll('.toggles [aria-pressed=true]').length"
        assert tab.evaluate(count) == pressed
    for slider in ("#smoothing", "#step"):
        if tab.evaluate(f"document.querySelector('{slider}') !== null"):
            tab.evaluate(set_value(slider, 3))
    if tab.evaluate("document.querySelector('.browser') !== null"):
        tab.evaluate(set_value(".browser input[type=search]", "no such words"))
        assert tab.evaluate("document.querySelectorAll('.browser')[0].textContent").count("0 resp")
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert (tab.errors, tab.outside()) == ([], [])


@pytest.mark.slow
def test_arms_are_switched_on_a_phone_and_in_the_dark(opened: Tab) -> None:
    opened.resize(390, 800)
    # On a phone nothing but the tables scrolls sideways.
    opened.wait("document.documentElement.scrollWidth === 390")
    before = opened.evaluate(shown("grpo"))
    assert before == 3
    opened.evaluate("document.querySelector('.arms button[value=microcoder]').click()")
    opened.wait(f"{shown('grpo')} === 0 && {shown('microcoder')} === 3")
    assert opened.evaluate("document.getElementById('nano-s-groups-0').closest('figure').hidden")
    opened.evaluate("document.querySelector('.arms button[value=grpo]').click()")  # beside it
    opened.wait(f"{shown('grpo')} === 3 && {shown('grpo_plus')} === 0")
    opened.evaluate("document.getElementById('all-arms').click()")
    opened.wait(f"{shown('grpo_plus')} === {before}")
    color = "document.getElementById('nano-s-reward').layout.font.color"
    light = opened.evaluate(color)
    opened.dark()
    opened.wait(f"{color} !== '{light}'")
    assert opened.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("window", [9, 41])  # of 60 points: more than half of them, too
def test_smoothing_draws_what_the_python_figure_shows(
    opened: Tab, records: list[Any], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.evaluate(set_value("#smoothing", window))
    monkeypatch.setattr(base, "SMOOTHING", window)
    wanted = figures.line(group_runs((arm_of(r), r) for r in records)["nano-s"], "entropy")
    # The first arm has seeds of different lengths; the second is whole.
    assert [trace["legendgroup"] for trace in wanted.data[3:6]] == ["grpo_plus"] * 3
    opened.evaluate("document.getElementById('nano-s-entropy').scrollIntoView()")
    mean = "document.getElementById('nano-s-entropy').data[5].y"
    last = float(wanted.data[5]["y"][-1])
    opened.wait(f"Math.abs({mean}.at(-1) - {last}) < 1e-4")
    assert np.allclose(opened.evaluate(f"[...{mean}]"), wanted.data[5]["y"], atol=1e-4)
    band = opened.evaluate("[...document.getElementById('nano-s-entropy').data[4].y]")
    assert np.allclose(band, wanted.data[4]["y"], atol=1e-4)


@pytest.mark.slow
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


def test_a_double_click_anywhere_ends_the_zoom_everywhere(opened: Tab) -> None:
    """By a real drag, which plotly remembers as the reader's own."""
    opened.resize(1280, 900)
    place = "{block: 'center', behavior: 'instant'}"
    opened.evaluate(f"document.getElementById('nano-s-reward').scrollIntoView({place})")
    whole = [f"document.getElementById('nano-s-{one}').layout.xaxis.autorange"
             for one in ("reward", "length")]  # fmt: skip
    opened.wait(" && ".join(whole))
    area = "document.querySelector('#nano-s-{} .nsewdrag')"
    drag(opened, area.format("reward"), (0.3, 0.5), (0.6, 0.5))
    opened.wait(" && ".join(f"!{one}" for one in whole))
    for _ in range(2):
        drag(opened, area.format("length"), (0.5, 0.5), (0.5, 0.5))
    opened.wait(" && ".join(whole))
    assert opened.errors == []


def test_a_heatmap_of_ones_own_is_drawn_however_narrow(tab: Tab, tmp_path: Path) -> None:
    z = [[1.0, 2.0], [3.0, 4.0]]
    maps = [go.Heatmap(z=z, texttemplate="%{z}"), go.Heatmap(z=z, text=z, texttemplate="%{text}")]
    made = page_showing(*(go.Figure([one]) for one in maps))
    tab.errors.clear()
    tab.resize(390, 800)
    tab.open(write_page(made, tmp_path / "map.html"))
    tab.wait("document.querySelectorAll('.plot.js-plotly-plot').length === 2")
    assert tab.errors == []


def test_what_was_not_recorded_of_a_token_is_no_number(tab: Tab, tmp_path: Path) -> None:
    known, unknown = (
        with_responses(tmp_path, arm, [1, 0], ["a"]) for arm in ("grpo", "microcoder")
    )
    lines: list[Any] = known.completions(5).assign(step=5, completion="ab").to_dict("records")
    tokens = {"logprobs": [-0.01, -2.0], "pieces": ["a", "b"]}
    known = replace(known, sample_lines=[{**line, **tokens} for line in lines])
    path = write_page(page_for(*comparison_of([known, unknown])), tmp_path / "page.html")
    tab.errors.clear()
    tab.open(path)
    overlay = "[...document.querySelectorAll('.filters label')].find((one) =>"
    overlay += " one.firstChild.textContent === 'Colour tokens by').querySelector('select')"
    tab.evaluate(f"{overlay}.value = 'levels'; {overlay}.dispatchEvent(new Event('change'))")
    titles = "[...new Set([...document.querySelectorAll('.token')].map((one) => one.title))].sort()"
    assert tab.evaluate(titles) == [
        "log-probability about −0.0: 100 %", "log-probability about −2.0: 14 %", "not recorded"
    ]  # fmt: skip
    assert tab.errors == []


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
    strip = "document.getElementById('nano-s-length').closest('figure').querySelector('.strip')"
    opened.wait(f"/at step [1-9]/.test({strip}.textContent)")
    told = opened.evaluate(f"{strip}.textContent")
    assert re.search(r"GRPO.*\d+ tokens \d+ to \d+", told)
    assert (
        opened.evaluate("document.querySelectorAll('.hoverlayer :is(.hovertext, .legend)').length")
        == 0
    )
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    opened.wait("document.querySelector('#nano-s-length .cursor').hidden")
    opened.wait(f"{strip}.textContent.startsWith('at the end')")
    assert opened.errors == []


@pytest.mark.slow
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
    assert opened.evaluate(count) == 4


@pytest.mark.slow
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
    opened.wait(f"{shown('grpo_plus')} === 0")
    unnamed = (
        "[...document.querySelectorAll('input, select, button')].filter((one) =>"
        " !(one.labels?.length || one.textContent.trim() || one.ariaLabel)).length"
    )
    assert opened.evaluate(unnamed) == 0
    assert opened.evaluate("[...document.querySelectorAll('.plot')].every((p) => p.ariaLabel)")


def test_lines_are_named_at_their_ends_and_a_name_shows_its_arm_alone(opened: Tab) -> None:
    opened.resize(1280, 900)
    labels = "[...document.querySelectorAll('#nano-s-reward .labels button')]"
    opened.wait(f"{labels}.length === 3")
    boxes = opened.evaluate(
        f"{labels}.map((one) => one.getBoundingClientRect()).map((box) => [box.top, box.bottom])"
    )
    boxes.sort()
    assert all(low >= high for (_, high), (low, _) in pairwise(boxes))  # none covers another
    opened.evaluate(f"{labels}.find((one) => one.textContent === 'GRPO').click()")
    opened.wait(f"{shown('grpo_plus')} === 0 && {labels}.length === 1")
    opened.evaluate(f"{labels}[0].click()")
    opened.wait(f"{shown('grpo_plus')} > 0 && {labels}.length === 3")


@pytest.mark.slow
def test_a_figure_is_saved_as_picture_and_as_numbers(opened: Tab) -> None:
    opened.evaluate(
        "window.saved = []; HTMLAnchorElement.prototype.click = function () {"
        " window.saved.push([this.download, this.href]); }"
    )
    for button in range(3):
        opened.evaluate(
            "document.getElementById('nano-s-reward').closest('figure')"
            f".querySelectorAll('.save button')[{button}].click()"
        )
    opened.wait("window.saved.length === 3")
    saved = dict(opened.evaluate("window.saved"))
    png, svg, csv = (saved[f"nano-s-reward.{kind}"] for kind in ("png", "svg", "csv"))
    assert base64.b64decode(png.split(",")[1]).startswith(b"\x89PNG")
    assert all(name in unquote(svg) for name in ("Training reward", "GRPO+ (DAPO)"))
    head, *rows = unquote(csv).split(",", 1)[1].strip().split("\n")
    assert head == '"series","part","x","y","low","high"'
    assert any(row.startswith('"MicroCoder-GRPO","mean",') for row in rows)
    assert opened.errors == []


def test_a_page_without_its_script_says_so_and_how_to_send_it(tab: Tab, tmp_path: Path) -> None:
    record = make_records(seeds=1)[0]
    page = write_page(page_for(*comparison_of([record])), tmp_path / "p.html", "a/b.js")
    tab.errors.clear()
    tab.open(page)
    note = "document.getElementById('no-plotly')"
    assert not tab.evaluate(f"{note}.hidden")
    assert "--single-file" in tab.evaluate(f"{note}.textContent")
    assert tab.evaluate(f"{note}.getBoundingClientRect().bottom < innerHeight")
    assert all("ERR_FILE_NOT_FOUND" in error for error in tab.errors)
    assert tab.evaluate(
        "document.querySelector('.ends svg') !== null"
    )  # the first chart needs none


def test_the_index_is_sorted_and_filtered(tab: Tab) -> None:
    tab.errors.clear()
    tab.open(REPORTS / "index.html", 1440)
    rows = "[...document.querySelectorAll('.verdicts > li')].filter((one) => !one.hidden)"
    everything = tab.evaluate(f"{rows}.length")
    # What was found and its figure are the first screen; the verdicts begin below.
    assert tab.evaluate(
        "document.querySelector('.ends').getBoundingClientRect().bottom <= innerHeight"
    )
    tab.evaluate(set_value("select[name=state]", "supported"))
    states = tab.evaluate(f"{rows}.map((one) => one.dataset.state)")
    assert 0 < len(states) < everything
    assert set(states) == {"supported"}
    tab.evaluate(set_value("select[name=state]", ""))
    tab.evaluate(set_value("select[name=order]", "size"))
    sizes = tab.evaluate(f"{rows}.map((one) => Number(one.dataset.size))")
    assert sizes == sorted(sizes, reverse=True)
    tab.evaluate(set_value("select[name=side]", "against"))
    assert {*tab.evaluate(f"{rows}.map((one) => Number(one.dataset.size) < 0)")} == {True}
    assert (tab.errors, tab.outside()) == ([], [])


def test_a_brush_over_groups_filters_the_responses(tab: Tab) -> None:
    tab.errors.clear()
    tab.requests.clear()
    tab.open(REPORTS / "02_truncation_mask.html")
    plot = "document.querySelector('svg.scatter')"
    tab.evaluate(f"{plot}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    dots = f"[...{plot}.querySelectorAll('circle')]"
    inside = f"{dots}.filter((one) => !one.classList.contains('out')).length"
    tab.wait(f"{dots}.length > 0")
    everything = tab.evaluate(f"{dots}.length")
    summary = "document.querySelector('.browser .summary').textContent"
    before = tab.evaluate("document.querySelector('.weights').ariaLabel")
    drag(tab, plot, (0.5, 0.02), (0.99, 0.85))
    tab.wait(f"{inside} < {everything}")
    chosen = tab.evaluate(f"{dots}.filter((one) => Number(one.getAttribute('cx')) >= 230).length")
    assert tab.evaluate(inside) == chosen > 0
    responses = tab.evaluate("JSON.parse(document.getElementById('sample-data').textContent)")
    held = responses[tab.evaluate("document.querySelector('.browser').dataset.samples")]
    count = len(held["columns"]["text"])
    each = count // everything
    assert tab.evaluate(summary).startswith(f"{chosen * each} responses of {count} match")
    assert tab.evaluate("document.querySelector('.weights').ariaLabel") != before
    tab.evaluate("document.querySelector('.views button').click()")
    assert tab.evaluate(inside) == everything
    assert (tab.errors, tab.outside()) == ([], [])


def test_a_click_on_a_curve_opens_the_responses_of_its_step(opened: Tab) -> None:
    opened.resize(1280, 900)
    place = "{block: 'center', behavior: 'instant'}"
    opened.evaluate(f"document.getElementById('nano-s-reward').scrollIntoView({place})")
    plot = "document.querySelector('#nano-s-reward .nsewdrag')"
    x, y, wide = opened.evaluate(
        "(({left, top, width, height}) => [left + width / 2, top + height / 2, width])"
        f"({plot}.getBoundingClientRect())"
    )
    assert wide > 100
    told = "/of step 5, the nearest to/.test(document.querySelector('.summary').textContent)"
    soon = (  # within sixty frames
        "new Promise(done => { let left = 60; const look = () => "
        f"{told} || !left-- ? done({told}) : requestAnimationFrame(look); look(); }})"
    )
    for _ in range(5):  # once in some fifty runs a first press had no effect; why is not known
        for shift in (0, 6):
            opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y)
        opened.wait("!document.querySelector('#nano-s-reward .cursor').hidden")
        for kind in ("mousePressed", "mouseReleased"):
            at = {"x": x + 6, "y": y, "button": "left", "clickCount": 1}
            opened.call("Input.dispatchMouseEvent", type=kind, **at)
        if opened.evaluate(soon):
            break
    assert opened.evaluate(told)
    opened.wait("document.querySelector('.browser').getBoundingClientRect().top < innerHeight")
    assert opened.errors == []


@pytest.mark.slow
def test_a_problem_is_followed_and_programs_are_told_apart(opened: Tab) -> None:
    over = "[...document.querySelectorAll('.filters label')].find((one) =>"
    over += " one.textContent === 'This problem at all steps').querySelector('input')"
    opened.evaluate(f"{over}.click()")
    told = opened.evaluate("document.querySelector('.browser .summary').textContent")
    assert told.startswith("4 responses of 8 match")
    overlay = "[...document.querySelectorAll('.filters label')].find((one) =>"
    overlay += " one.firstChild.textContent === 'Colour tokens by').querySelector('select')"
    opened.evaluate(f"{overlay}.value = 'advantage'; {overlay}.dispatchEvent(new Event('change'))")
    title = opened.evaluate("document.querySelector('.browser .token').title")
    assert title.startswith("advantage ")
    program = opened.evaluate("document.querySelector('.programs button').textContent")
    assert program == "no program × 2: 1 right"
    assert opened.errors == []


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


@pytest.mark.slow
def test_a_point_opens_the_responses_of_its_own_runs(tab: Tab) -> None:
    """A page with two sizes has two browsers; a point of a figure belongs to one of them."""
    tab.open(REPORTS / "05_data_quality.html")
    sizes = tab.evaluate(
        "[...document.querySelectorAll('.browser')].map((b) => b.dataset.samples)"
        ".map((name) => name.replace(/samples$/, ''))"
    )
    assert len(sizes) == 2
    summaries = "[...document.querySelectorAll('.browser .summary')].map((one) => one.textContent)"
    for at, size in enumerate(sizes):
        before = tab.evaluate(summaries)
        figure = tab.evaluate(
            f"[...document.querySelectorAll('.plot')].findLast((p) => p.id.startsWith('{size}')).id"
        )
        detail = f"{{ step: 100, arm: 'harder', figure: '{figure}' }}"
        tab.evaluate(f"document.dispatchEvent(new CustomEvent('open', {{ detail: {detail} }}))")
        changed = [one != two for one, two in zip(before, tab.evaluate(summaries), strict=True)]
        assert changed == [number == at for number in range(2)]
