"""The notebooks and the dashboard as people see them: JupyterLab in a real browser."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from report.browser import CHROMIUM, drag

from mcbench.experiments.study import planned_study

from .lab import INSTALLED, Lab, jupyterlab
from .runs import HOSTILE, finished, responses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not INSTALLED, reason="jupyterlab is not installed"),
]
FRAME = "document.querySelector('iframe.mcb-live')"
PAGE = f"{FRAME}.contentDocument"  # the dashboard's
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TINY = {
    "profile": "tiny",
    "settings": {"num_generations": 4, "per_device_batch_size": 8, "max_completion_length": 16},
    "steps": 8,
}
DASHBOARD = """\
from mcbench.report.dashboard import Dashboard

dashboard = Dashboard("runs")
dashboard"""
TRAIN = """\
import sys

from mcbench.runs.resolve import resolve
from mcbench.runs.train import train

train(resolve("tiny", "grpo", steps=300), sys.argv[1])"""
ARMS = {"mine": {"mask_ratio": 0.5, "temperature": 1.2}, "microcoder": {}}
COMPARE = f"""\
from mcbench import compare

study = compare(
    {ARMS}, profile="tiny", seeds=[0], steps=64, runs_dir="compared"
)
study.show("accuracy", "length", "diversity")
print(sorted(run.run_id for run in study.records))
study.report("mine.html")"""
THREADS = """\
import threading

print([t.name for t in threading.enumerate()].count("dashboard"), "thread(s)")"""


# One arm of the paper's, long enough to be stopped, and what the form needs to know its cost.
BENCH = {
    "arms": {"medium": {"recipe": "grpo_plus"}},
    "profile": "tiny",
    "seeds": [0],
    "steps": 400,
    "settings": {"eval_every": 400, "test_limit": 4, "eval_attempts": 1},
    "runs_dir": "bench",
}
ROOT = Path(__file__).parents[2]
STUDIES = f"""\
from pathlib import Path

from mcbench.claims.measurements import FILE, read_measurements
from mcbench.experiments.study import studies
from mcbench.runs.records import read_records

folder = Path({str(ROOT / "reports" / "records")!r})
records, rows = read_records(folder), read_measurements(folder / FILE)"""


def cell(notebook: str, id_: str) -> str:
    """The source of a notebook's cell."""
    cells = nbformat.read(NOTEBOOKS / f"{notebook}.ipynb", as_version=4).cells
    return str(next(one.source for one in cells if one.id == id_))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All notebooks, the quickstart with tiny parameters, and one with nothing but a dashboard."""
    root = tmp_path_factory.mktemp("lab")
    for path in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(path, root)
    for name, values in (("00_quickstart", TINY), ("08_batch_size", BENCH)):
        path = root / f"{name}.ipynb"
        book = nbformat.read(path, as_version=4)
        given = next(c for c in book.cells if "parameters" in c.metadata.get("tags", []))
        given.source += "".join(f"\n{key} = {value!r}" for key, value in values.items())
        nbformat.write(book, path)
    asked = [STUDIES]
    for name, experiment, ids in (
        ("02_truncation_mask", "truncation_mask", ("whatifcell", "ifcell")),
        ("03_temperature", "temperature", ("whatifimports whatifcell",)),
        ("09_context_length", "context_length", ("whatifimports whatifcell",)),
    ):
        study = f"study = studies({experiment!r}, records, rows)[0]"
        asked += ["\n".join([study, *(cell(name, id_) for id_ in one.split())]) for one in ids]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for name, sources in (
        ("watch", [DASHBOARD, THREADS]),
        ("cleared", [DASHBOARD, THREADS]),
        ("ablation", [COMPARE]),
        ("what_if", asked),
    ):
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(book, root / f"{name}.ipynb")
    return root


@pytest.fixture(scope="module")
def lab(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    os.environ["OMP_NUM_THREADS"] = "1"
    with jupyterlab(folder, tmp_path_factory.mktemp("home")) as opened:
        yield opened


def test_every_notebook_opens_and_the_quickstart_runs(lab: Lab, folder: Path) -> None:
    lab.open("00_quickstart.ipynb")
    lab.run_all()
    # The dashboard followed while the cell after it trained.
    lab.until(
        f"{PAGE}.querySelector('.mcb-runs tr[data-state=finished] .mcb-count')?.textContent"
        " === '8/8'"
    )
    lab.until(figure("Training reward") + ".data[2].x.at(-1) === 7")
    what_if = "panel.content.widgets.find(c => c.model.id === 'whatifcell').node"
    check_slider(lab, what_if, 4)
    for path in sorted(folder.glob("*.ipynb")):
        lab.look(path.name)
        cells = len(nbformat.read(path, as_version=4).cells)
        lab.until(f"panel.content.widgets.length === {cells}")
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def test_an_ablation_is_trained_live_and_ends_in_a_page(lab: Lab, folder: Path) -> None:
    lab.open("ablation.ipynb")
    lab.command("notebook:run-all-cells")
    # Above the cell, while it trains: both arms by name, the first ones' curves growing.
    watched = "document.querySelector('iframe[src*=\"mcbench/watch\"]')?.contentDocument"
    names = f"[...{watched}.querySelectorAll('.mcb-runs tr')].map(r => r.textContent).join()"
    lab.until(f"{names}.includes('mine') && {names}.includes('MicroCoder-GRPO')")
    running = f"{watched}.querySelector('.mcb-runs tr[data-state=running]')"
    lab.until(running)
    lab.save()
    # The page is opened anew: the view is there without the cell, and so it is without its kernel.
    lab.open("ablation.ipynb", ready=False)
    lab.until(running)
    (began,) = folder.glob("compared/trainings/*/lock")
    trainer = json.loads(began.read_text())["pid"]
    lab.until("panel.sessionContext.session?.kernel")
    lab.tab.evaluate("panel.sessionContext.session.kernel.restart()")
    lab.until("panel.sessionContext.session?.kernel?.status === 'idle'")
    lab.until(running)
    assert json.loads(began.read_text())["pid"] == trainer
    reward = "document.querySelector('iframe').contentDocument.querySelector('#reward')"
    lab.until(f"{reward}?.data.some(t => t.meta.role === 'mean' && t.x.length > 1)")
    lab.command("notebook:run-all-cells")  # attached to what trains
    printed = "panel.content.widgets[0].node.textContent"
    lab.until(f"{printed}.includes('attached to process {trainer}')")
    assert not (folder / "mine.html").exists()
    lab.until_done()
    figures = "document.querySelectorAll('.jp-OutputArea .js-plotly-plot').length"
    assert lab.tab.evaluate(figures) >= 4
    # The link opens the page where JupyterLab serves it, whatever host and base address that has.
    link = "document.querySelector('.jp-OutputArea a[href*=files]')"
    assert lab.tab.evaluate(f"{link}.href") == f"{lab.url}/files/mine.html"
    lab.tab.evaluate(f"{link}.target = '_self'")  # this tab
    lab.tab.evaluate(f"{link}.click()")
    lab.until("document.body?.dataset.drawn > 0")
    page = (folder / "mine.html").read_text(encoding="utf-8")
    assert "mine" in page
    planned = {one.config.run_id for one in planned_study(ARMS, None, "tiny", [0], 64)}
    assert {path.parent.name for path in folder.glob("compared/*/run.json")} == planned
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def test_a_section_starts_with_its_dashboard_and_a_form_that_adds_an_arm(
    lab: Lab, folder: Path
) -> None:
    finished(folder / "bench", "other", "microcoder", 3, 40)
    lab.open("08_batch_size.ipynb")
    lab.run_until_cell("watchcell")
    lab.until(f"{PAGE}.querySelector('.mcb-runs tbody tr').textContent.includes('intermediate')")
    cost, problem = (
        f"document.querySelector('.mcb-form .mcb-{one}').textContent" for one in ("cost", "problem")
    )
    fill(lab, "[name=name]", "mine")
    fill(lab, "[data-setting=mask_ratio]", "1.5")
    lab.until(f"{problem}.includes('mask_ratio must be from 0 to 1')")
    about = "document.querySelector('[data-setting=mask_ratio]').closest('label').textContent"
    assert "rho that an eligible response is masked, in [0, 1]" in lab.tab.evaluate(about)
    fill(lab, "[data-setting=mask_ratio]", "0.5")
    lab.until(f"{cost}.includes('1 run, 400 updates') && {cost}.includes('finished run of tiny')")
    button = "[...document.querySelectorAll('.mcb-form button')].find(b => b.textContent === '{}')"
    lab.tab.evaluate(button.format("Train this arm") + ".click()")
    reward = figure("Training reward")
    length = (
        f"{reward}?.data.find(t => t.legendgroup === 'mine' && t.meta.role === 'mean')?.x.length"
    )
    rows = f"{PAGE}.querySelectorAll('.mcb-runs tbody tr')"
    row = f"[...{rows}].find(r => r.textContent.includes('mine'))"
    lab.until(f"{length} > 1 && {row}.dataset.state === 'running'")
    lab.tab.evaluate(button.format("Stop") + ".click()")
    lab.until(f"{row}.dataset.state === 'interrupted'")
    lab.until(button.format("Resume"))
    lab.tab.evaluate(button.format("Resume") + ".click()")
    lab.until(f"{row}.dataset.state === 'running' && {row}.textContent.includes('resumed')")
    # The tab is closed and opened again while it trains: nothing is run, the view is there.
    lab.save()
    lab.open("08_batch_size.ipynb")
    lab.until(f"{length} > 1")
    seen = lab.tab.evaluate(length)
    lab.until(f"{length} > {seen}")
    lab.tab.evaluate(button.format("Stop") + ".click()")
    lab.until(f"{row}.dataset.state === 'interrupted'")
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def test_what_if_sliders_change_the_numbers(lab: Lab) -> None:
    lab.open("what_if.ipynb")
    lab.run_all()
    for number, times in enumerate([6, 4, 8, -5], 1):
        check_slider(lab, f"panel.content.widgets[{number}].node", times)
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def check_slider(lab: Lab, cell: str, times: int) -> None:
    """The numbers that a cell shows change with its first slider."""
    lab.until(f"{cell}.querySelectorAll('.widget-html-content td').length")
    shown = f"[...{cell}.querySelectorAll('.widget-html-content')].at(-1).textContent"
    before = lab.tab.evaluate(shown)
    press(lab, f"{cell}.querySelector('.noUi-handle')", times)
    lab.until(f"{shown} !== {json.dumps(before)}")


def fill(lab: Lab, field: str, text: str) -> None:
    """Type into a field of the form."""
    lab.tab.evaluate(
        f"(() => {{ const one = document.querySelector('.mcb-form ' + {json.dumps(field)});"
        f" one.value = {json.dumps(text)}; one.dispatchEvent(new Event('input')); }})()"
    )


def press(lab: Lab, handle: str, times: int) -> None:
    """Move a slider by so many arrow keys, to the right or left."""
    lab.tab.evaluate(f"{handle}.focus()")
    name, code = ("ArrowRight", 39) if times > 0 else ("ArrowLeft", 37)
    for kind in ("keyDown", "keyUp") * abs(times):
        lab.tab.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                     windowsVirtualKeyCode=code)  # fmt: skip


def figure(title: str) -> str:
    """The plot under that caption in the dashboard's page."""
    return (
        f"[...{PAGE}.querySelectorAll('figure')].find(f => f.querySelector('figcaption')"
        f".textContent.includes({json.dumps(title)}))?.querySelector('.plot')"
    )


def click(lab: Lab, selector: str) -> None:
    lab.tab.evaluate(f"{PAGE}.querySelector({json.dumps(selector)}).click()")


def place(element: str) -> str:
    """An element of the page in the frame, as to where it is on the screen."""
    return (
        "({ getBoundingClientRect: () => {"
        f" const one = {element}.getBoundingClientRect(), all = {FRAME}.getBoundingClientRect();"
        " return new DOMRect(one.x + all.x, one.y + all.y, one.width, one.height); } })"
    )


def pick(lab: Lab, name: str, option: str) -> None:
    """Choose the option that begins so in the browser's drop-down of that name."""
    lab.tab.evaluate(
        f"(() => {{ const all = [...{PAGE}.querySelectorAll('.browser .filters label')];"
        f" const one = all.find(w => w.firstChild.textContent === {json.dumps(name)});"
        " const select = one.querySelector('select');"
        " select.value = [...select.options]"
        f".find(o => o.text.startsWith({json.dumps(option)})).value;"
        " select.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def shown(part: str) -> str:
    """How many elements of that kind the dashboard's page has."""
    return f"{PAGE}.querySelectorAll({json.dumps(part)}).length"


def test_the_dashboard_follows_another_process_and_its_controls_work(
    lab: Lab, folder: Path
) -> None:
    other = finished(folder / "runs", "other", "microcoder", 3, 40)
    for step in (1, 9):
        texts = ["first", f"second {HOSTILE}\x00", "y " * 50_000, "last"]
        other.write_completions(step, responses(texts))
    command = [sys.executable, "-c", TRAIN, str(folder / "runs")]
    training = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        lab.open("watch.ipynb")
        lab.run_all()
        reward = figure("Training reward")
        row = f"{PAGE}.querySelector('.mcb-runs tr[data-state=running]')"
        lab.until(f"{row} && {reward}?.data.some(t => t.legendgroup === 'grpo')")
        length = (
            f"{reward}.data.find(t => t.legendgroup === 'grpo' && t.meta.role === 'mean').x.length"
        )
        seen = lab.tab.evaluate(length)
        for _ in range(2):
            lab.until(f"{length} > {seen}")
            seen = lab.tab.evaluate(length)
        assert training.poll() is None
        assert "s" in lab.tab.evaluate(f"{row}.querySelector('.mcb-speed').textContent")
        check_curve_controls(lab, reward, length)
        check_a_click_opens_the_responses(lab)
        check_responses(lab)
    finally:
        training.kill()
        training.wait()
    lab.until(f"{PAGE}.querySelector('.mcb-runs tr[data-state=interrupted]')")
    # Once more, and after a restart: one dashboard, one thread, all curves.
    check_again(lab, "notebook:run-all-cells")
    assert lab.errors == [], sorted(set(lab.errors))[:8]
    check_again(lab, "notebook:restart-run-all")
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def test_a_dashboard_may_be_cleared_while_its_figures_load(lab: Lab, folder: Path) -> None:
    finished(folder / "runs", "other", "microcoder", 3, 40)
    lab.open("cleared.ipynb")
    lab.command("notebook:run-all-cells")
    clear = "panel.content.widgets[0].model.outputs.clear()"
    drawn = lab.tab.evaluate(
        "new Promise(done => { const look = () => {"
        f" if (!{FRAME}) return setTimeout(look, 1);"
        f" done({shown('.plot .main-svg')});"
        f" {clear}; }}; look(); }})"
    )
    assert drawn == 0
    lab.until_done()
    check_again(lab, "notebook:run-all-cells")
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def check_curve_controls(lab: Lab, reward: str, length: str) -> None:
    click(lab, ".sections input[value=Diversity]")
    lab.until(figure("Self-BLEU"))
    click(lab, ".sections input[value=Diversity]")
    lab.until("!" + figure("Self-BLEU"))
    drawn = f"new Set({reward}.data.filter(t => t.visible !== false).map(t => t.legendgroup))"
    click(lab, ".toggles button[value=microcoder]")
    lab.until(f"!{drawn}.has('grpo') && {drawn}.has('microcoder')")
    click(lab, ".toggles button[value=microcoder]")
    lab.until(f"{drawn}.has('grpo')")
    click(lab, ".mcb-runs tr[data-run=other] input")
    lab.until(f"!{drawn}.has('microcoder')")
    click(lab, ".mcb-runs tr[data-run=other] input")
    lab.until(f"{drawn}.has('microcoder')")
    mean = f"{reward}.data.find(t => t.legendgroup === 'microcoder' && t.meta.role === 'mean')"
    before = lab.tab.evaluate(f"[...{mean}.y]")
    slider = f"{PAGE}.querySelector('#smoothing')"
    lab.tab.evaluate(f"{slider}.value = 15; {slider}.dispatchEvent(new Event('input')); 0")
    lab.until(f"JSON.stringify([...{mean}.y]) !== {json.dumps(json.dumps(before))}")
    click(lab, "#pause")
    lab.until(f"{PAGE}.querySelector('.status').textContent.startsWith('Paused')")
    click(lab, "#pause")
    seen = lab.tab.evaluate(length)
    lab.until(f"{length} > {seen}")


def check_responses(lab: Lab) -> None:
    response, head = (
        ".browser .columns details",
        f"{PAGE}.querySelector('.browser h5').textContent",
    )
    lab.until(shown(response) + " > 0")
    pick(lab, "Run", "MicroCoder-GRPO")
    lab.until(f"{head}.startsWith('MicroCoder')")
    pick(lab, "Problem", "1.")
    lab.until(shown(response) + " === 2")
    second = f"{PAGE}.querySelectorAll('{response} pre')[1].textContent"
    lab.until(f"{second} !== '…'")
    assert lab.tab.evaluate(second) == f"second {HOSTILE}␀"
    assert shown_count(lab, ".browser script, .browser img") == 0
    for window in ("window", f"{FRAME}.contentWindow"):
        assert lab.tab.evaluate(f"typeof {window}.pwned") == "undefined"
    assert shown_count(lab, ".browser .tests li") == 4
    why = lab.tab.evaluate(f"{PAGE}.querySelectorAll('.browser .why')[1].textContent")
    assert why == "Test 2: wrong answer; later tests were not run."
    check_overlays(lab)
    check_links(lab)
    pick(lab, "Verdict", "WA")
    lab.until(shown(response) + " === 2")  # of both problems
    pick(lab, "Verdict", "any")
    pick(lab, "Mask", "masked")
    summary = f"{PAGE}.querySelector('.browser .summary').textContent"
    lab.until(f"{summary}.startsWith('1 response of')")
    pick(lab, "Mask", "any")
    search(lab, "SECOND")
    lab.until(shown(response) + " === 1 && " + shown(".browser mark") + " === 1")
    search(lab, "")
    pick(lab, "Beside", "GRPO")
    lab.until(shown(".browser .columns > div") + " === 2")


def check_overlays(lab: Lab) -> None:
    """Tokens by how probable they were; the mask and the advantage of a response whole."""
    title = f"{PAGE}.querySelectorAll('.browser .token')[{{}}].title"
    pick(lab, "Colour tokens by", "log-probability")
    lab.until(shown(".browser .token") + " === 4 && " + f"/log-prob/.test({title.format(0)})")
    pick(lab, "Colour tokens by", "ratio and clip")
    lab.until(f"{title.format(0)}.endsWith('about 1.00')")
    lab.until(f"/about 1.65: clipped/.test({title.format(1)})")
    pick(lab, "Colour tokens by", "advantage")
    lab.until(f"{title.format(0)} === 'advantage +1.00' && {title.format(2)} === 'advantage −1.00'")
    pick(lab, "Problem", "2.")
    pick(lab, "Colour tokens by", "mask")
    lab.until(f"{title.format(2)}.startsWith('masked: no gradient')")
    pick(lab, "Colour tokens by", "nothing")
    pick(lab, "Problem", "1.")


def check_links(lab: Lab) -> None:
    """A brush over the groups filters the responses; a problem is followed over the steps; the
    programs of a group are told apart.
    """
    summary = f"{PAGE}.querySelector('.browser .summary').textContent"
    plot = f"{PAGE}.querySelector('.browser svg.scatter')"
    lab.tab.evaluate(f"{plot}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    left = f"{PAGE}.querySelector('.browser circle:not(.out)')"
    lab.until(f"{left} && {PAGE}.querySelector('.browser .weights').ariaLabel")
    drag(lab.tab, place(left), (-0.2, -0.2), (1.2, 1.2))  # the dot is at the edge
    lab.until(f"{summary}.startsWith('2 responses of 4 match')")
    click(lab, ".browser .views button")
    lab.until(f"{summary} === '2 responses to this problem'")
    programs = f"{PAGE}.querySelector('.browser .programs').textContent"
    assert "no program × 2: 1 right" in lab.tab.evaluate(programs)
    over = ".browser .filters input[type=checkbox]"
    click(lab, over)
    heads = f"[...{PAGE}.querySelectorAll('.browser h4')].map(h => h.textContent).join()"
    lab.until(f"{heads} === 'Step 1, problem p0,Step 9, problem p0'")
    click(lab, over)
    lab.until(f"{summary} === '2 responses to this problem'")


def check_a_click_opens_the_responses(lab: Lab) -> None:
    """A click on a curve's point: the responses stored nearest to its step."""
    plot = figure("Training reward")
    area = f"{plot}.querySelector('.nsewdrag')"
    lab.tab.evaluate(f"{plot}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y = lab.tab.evaluate(
        "(({left, top, width, height}) => [left + width / 8, top + height / 2])"
        f"({place(area)}.getBoundingClientRect())"
    )
    for shift in (0, 5):
        lab.tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y)
    lab.until(f"{plot}.querySelector('.hoverlayer').childNodes.length")
    for kind in ("mousePressed", "mouseReleased"):
        at = {"x": x + 5, "y": y, "button": "left", "clickCount": 1}
        lab.tab.call("Input.dispatchMouseEvent", type=kind, **at)
    step = f"{PAGE}.querySelector('.browser .filters select')"
    lab.until(f"{step} && {step}.value && {step}.value !== 'latest'")
    pick(lab, "Generation", "latest")


def search(lab: Lab, words: str) -> None:
    lab.tab.evaluate(
        f"(() => {{ const one = {PAGE}.querySelector('.browser input[type=search]');"
        f" one.value = {json.dumps(words)}; one.dispatchEvent(new Event('input')); }})()"
    )


def shown_count(lab: Lab, part: str) -> Any:
    return lab.tab.evaluate(shown(part))


def check_again(lab: Lab, command: str) -> None:
    lab.tab.evaluate("panel.content.widgets[0].model.outputs.clear()")
    lab.command(command)
    if "restart" in command:
        lab.until("document.querySelector('.jp-Dialog .jp-mod-accept')")
        lab.tab.evaluate("document.querySelector('.jp-Dialog .jp-mod-accept').click()")
    lab.until(shown(".plot .main-svg") + " > 3")
    lab.until_done()
    printed = "panel.content.widgets[1].model.outputs.toJSON()[0].text"
    assert lab.tab.evaluate(printed) == "1 thread(s)\n"
