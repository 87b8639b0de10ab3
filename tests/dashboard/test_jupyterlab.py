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
from report.browser import CHROMIUM

from mcbench.experiments.study import planned_study

from .lab import INSTALLED, Lab, jupyterlab
from .runs import HOSTILE, finished, responses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not INSTALLED, reason="jupyterlab is not installed"),
]
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TINY = {
    "profile": "tiny",
    "settings": {"num_generations": 4, "per_device_batch_size": 8, "max_completion_length": 16},
    "steps": 8,
}
DASHBOARD = """\
from mcbench.report import Dashboard

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
    {ARMS}, profile="tiny", seeds=[0, 1], steps=8, runs_dir="compared"
)
study.show("accuracy", "length", "diversity")
print(sorted(run.run_id for run in study.records))
study.report("mine.html")"""
THREADS = """\
import threading

print([t.name for t in threading.enumerate()].count("dashboard"), "thread(s)")"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All notebooks, the quickstart with tiny parameters, and one with nothing but a dashboard."""
    root = tmp_path_factory.mktemp("lab")
    for path in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(path, root)
    path = root / "00_quickstart.ipynb"
    quickstart = nbformat.read(path, as_version=4)
    cell = next(c for c in quickstart.cells if "parameters" in c.metadata.get("tags", []))
    cell.source += "".join(f"\n{name} = {value!r}" for name, value in TINY.items())
    nbformat.write(quickstart, path)
    cells = [nbformat.v4.new_code_cell(source) for source in (DASHBOARD, THREADS)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    watch = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(watch, root / "watch.ipynb")
    cells = [nbformat.v4.new_code_cell(COMPARE)]
    ablation = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(ablation, root / "ablation.ipynb")
    return root


@pytest.fixture(scope="module")
def lab(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    os.environ["OMP_NUM_THREADS"] = "1"
    with jupyterlab(folder, tmp_path_factory.mktemp("home")) as opened:
        yield opened


def test_every_notebook_opens_and_the_quickstart_runs(lab: Lab, folder: Path) -> None:
    for path in sorted(folder.glob("*.ipynb"), reverse=True):  # the quickstart last
        lab.open(path.name)
        cells = len(nbformat.read(path, as_version=4).cells)
        assert lab.tab.evaluate("panel.content.widgets.length") == cells
    lab.run_all()
    # The dashboard followed while the cell after it trained.
    lab.until(
        "document.querySelector('.mcb-runs tr[data-state=finished] .mcb-count')?.textContent"
        " === '8/8'"
    )
    lab.until(figure("Training reward") + ".data[2].x.at(-1) === 7")
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def test_an_ablation_is_trained_live_and_ends_in_a_page(lab: Lab, folder: Path) -> None:
    lab.open("ablation.ipynb")
    lab.command("notebook:run-all-cells")
    # Above the cell, while it trains: both arms by name, the first ones' curves growing.
    names = "[...document.querySelectorAll('.mcb-runs tr')].map(r => r.textContent).join()"
    lab.until(f"{names}.includes('mine') && {names}.includes('MicroCoder-GRPO')")
    lab.until("document.querySelector('.mcb-runs tr[data-state=running]')")
    reward = figure("Training reward")
    lab.until(f"{reward}?.data.some(t => t.meta.role === 'mean' && t.x.length > 1)")
    assert not (folder / "mine.html").exists()
    lab.until_done()
    assert lab.tab.evaluate(shown(".jp-OutputArea .js-plotly-plot")) >= 4
    page = (folder / "mine.html").read_text(encoding="utf-8")
    assert "mine" in page
    planned = {one.config.run_id for one in planned_study(ARMS, None, "tiny", [0, 1], 8)}
    assert {path.parent.name for path in folder.glob("compared/*/run.json")} == planned
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def figure(title: str) -> str:
    """The plot of that title in the page."""
    return (
        "[...document.querySelectorAll('.mcb-figures .js-plotly-plot')]"
        f".find(p => p.layout.title.text === {json.dumps(title)})"
    )


def click(lab: Lab, text: str) -> None:
    lab.tab.evaluate(
        f"[...document.querySelectorAll('.mcb-dashboard button')]"
        f".find(b => b.textContent.trim().startsWith({json.dumps(text)})).click()"
    )


def pick(lab: Lab, name: str, option: str) -> None:
    """Choose the option that begins so in the browser's drop-down of that name."""
    lab.tab.evaluate(
        "(() => { const all = [...document.querySelectorAll('.browser .filters label')];"
        f" const one = all.find(w => w.firstChild.textContent === {json.dumps(name)});"
        " const select = one.querySelector('select');"
        " select.value = [...select.options]"
        f".find(o => o.text.startsWith({json.dumps(option)})).value;"
        " select.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def shown(part: str) -> str:
    """How many elements of that kind there are."""
    return f"document.querySelectorAll({json.dumps(part)}).length"


def test_the_dashboard_follows_another_process_and_its_controls_work(
    lab: Lab, folder: Path
) -> None:
    other = finished(folder / "runs", "other", "microcoder", 3, 40)
    other.write_completions(1, responses(["first", f"second {HOSTILE}\x00", "y " * 50_000, "last"]))
    command = [sys.executable, "-c", TRAIN, str(folder / "runs")]
    training = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        lab.open("watch.ipynb")
        lab.run_all()
        reward = figure("Training reward")
        row = "document.querySelector('.mcb-runs tr[data-state=running]')"
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
        check_responses(lab)
    finally:
        training.kill()
        training.wait()
    click(lab, "Curves")
    lab.until("document.querySelector('.mcb-runs tr[data-state=stopped]')")
    # Once more, and after a restart: one dashboard, one thread, all curves.
    check_again(lab, "notebook:run-all-cells")
    assert lab.errors == [], sorted(set(lab.errors))[:8]
    check_again(lab, "notebook:restart-run-all")
    assert lab.errors == [], sorted(set(lab.errors))[:8]


def check_curve_controls(lab: Lab, reward: str, length: str) -> None:
    click(lab, "Diversity")
    lab.until(figure("Self-BLEU"))
    click(lab, "Diversity")
    lab.until("!" + figure("Self-BLEU"))
    drawn = f"new Set({reward}.data.map(t => t.legendgroup))"
    lab.tab.evaluate("document.querySelector('.mcb-arms button[value=GRPO]').click()")
    lab.until(f"!{drawn}.has('grpo') && {drawn}.has('microcoder')")
    lab.tab.evaluate("document.querySelector('.mcb-arms button[value=GRPO]').click()")
    lab.until(f"{drawn}.has('grpo')")
    lab.tab.evaluate("document.querySelector('.mcb-runs tr[data-run=other] input').click()")
    lab.until(f"!{drawn}.has('microcoder')")
    lab.tab.evaluate("document.querySelector('.mcb-runs tr[data-run=other] input').click()")
    lab.until(f"{drawn}.has('microcoder')")
    mean = f"{reward}.data.find(t => t.legendgroup === 'microcoder' && t.meta.role === 'mean')"
    before = lab.tab.evaluate(f"[...{mean}.y]")
    lab.tab.evaluate("document.querySelector('.mcb-controls .noUi-handle').focus()")
    for kind in ("keyDown", "keyUp") * 3:
        lab.tab.call("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight",
                     windowsVirtualKeyCode=39)  # fmt: skip
    lab.until(f"JSON.stringify([...{mean}.y]) !== {json.dumps(json.dumps(before))}")
    click(lab, "Pause")
    lab.until("document.querySelector('.mcb-status').textContent.startsWith('Paused')")
    click(lab, "Resume")
    seen = lab.tab.evaluate(length)
    lab.until(f"{length} > {seen}")


def check_responses(lab: Lab) -> None:
    click(lab, "Responses")
    response, head = (
        ".browser .columns details",
        "document.querySelector('.browser h5').textContent",
    )
    lab.until(shown(response) + " > 0")
    pick(lab, "Run", "MicroCoder-GRPO")
    lab.until(f"{head}.startsWith('MicroCoder')")
    pick(lab, "Problem", "1.")
    lab.until(shown(response) + " === 2")
    second = f"document.querySelectorAll('{response} pre')[1].textContent"
    lab.until(f"{second} !== '…'")
    assert lab.tab.evaluate(second) == f"second {HOSTILE}␀"
    assert shown_count(lab, ".browser script, .browser img") == 0
    assert lab.tab.evaluate("typeof window.pwned") == "undefined"
    assert shown_count(lab, ".browser .tests li") == 4
    why = lab.tab.evaluate("document.querySelectorAll('.browser .why')[1].textContent")
    assert why == "Test 2: wrong answer; later tests were not run."
    colour = "document.querySelector('.browser input[type=checkbox]').click()"
    lab.tab.evaluate(colour)
    lab.until(shown(".browser .token") + " === 4")
    lab.tab.evaluate(colour)
    pick(lab, "Verdict", "WA")
    lab.until(shown(response) + " === 2")  # of both problems
    pick(lab, "Verdict", "any")
    pick(lab, "Mask", "masked")
    lab.until("document.querySelector('.browser .summary').textContent.startsWith('1 response of')")
    pick(lab, "Mask", "any")
    search(lab, "SECOND")
    lab.until(shown(response) + " === 1 && " + shown(".browser mark") + " === 1")
    search(lab, "")
    pick(lab, "Beside", "GRPO")
    lab.until(shown(".browser .columns > div") + " === 2")


def search(lab: Lab, words: str) -> None:
    lab.tab.evaluate(
        "(() => { const one = document.querySelector('.browser input[type=search]');"
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
    lab.until(shown(".mcb-figures .main-svg") + " > 3")
    lab.until_done()
    printed = "panel.content.widgets[1].model.outputs.toJSON()[0].text"
    assert lab.tab.evaluate(printed) == "1 thread(s)\n"
