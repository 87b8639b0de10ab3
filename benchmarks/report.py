"""How long a report of 50 runs of 480 steps takes to build, to open and to answer, in Chromium.

    python benchmarks/report.py [--rounds 5] [--arms 5] [--seeds 10] [--steps 480]

Prints medians and writes them to ``benchmarks/report.json``. ``interactive`` is the time from the
start of navigation until the figures on the screen are drawn and the controls answer; ``figures``
is when plotly's script has started, without which no other figure is drawn; the rest is drawn when
nothing else is to do. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcbench.files import write_atomic
from mcbench.report.any_runs import notebook_of
from mcbench.report.export import page_of
from mcbench.report.page import write_page
from mcbench.report.rendering import plotly_script
from mcbench.report.site import PLOTLY, comparison_of
from mcbench.report.sources import Sources
from tests.report.browser import OFFLINE, chromium
from tests.report.synthetic import GAIN, make_record

ANSWER = """new Promise((done) => {{ const start = performance.now(); {action}
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))); }})"""
ARM = "document.querySelector('.arms button').click();"
SMOOTH = (
    "const one = document.getElementById('smoothing'); one.value = 15;"
    " one.dispatchEvent(new Event('input'));"
)
# A rectangle over half of the scatter of groups, drawn as by a pointer; the browser refuses to
# capture a pointer that is none.
BRUSH = """
  const plot = document.querySelector('svg.scatter'), box = plot.getBoundingClientRect();
  plot.setPointerCapture = () => {};
  for (const [kind, x, y] of [['down', .4, .05], ['move', .9, .9], ['up', .9, .9]])
    plot.dispatchEvent(new PointerEvent(`pointer${kind}`, {
      clientX: box.left + x * box.width, clientY: box.top + y * box.height, pointerId: 1 }));
"""


def samples(steps: int) -> list[dict[str, object]]:
    """As many responses as a compact record keeps: four groups of eight at three steps."""
    return [
        {
            "step": step, "group": group, "prompt": f"prompt {group}", "length": 20 + 7 * group + i,
            "completion": "\n".join(f"x = {n * (i + step) % (9 + group)}" for n in range(30)),
            "truncated": i == 7, "masked": i == 6, "reward": float(i % 3 == 0), "advantage": i / 4,
            "verdicts": "AC,AC" if i % 3 == 0 else "AC,WA", "problem_id": f"p{group}",
        }
        for step in (1, steps // 2, steps - 1)
        for group in range(4)
        for i in range(8)
    ]  # fmt: skip


def records(arms: int, seeds: int, steps: int) -> list[object]:
    """Runs made by formula; arms beyond the three recipes differ from them by one setting."""
    found = []
    for number in range(arms):
        recipe = list(GAIN)[number % len(GAIN)]
        for seed in range(seeds):
            own = {"learning_rate": number * 1e-5} if number >= len(GAIN) else {}
            made = make_record(recipe, seed, steps=steps, every=1, settings=own)
            found.append(replace(made, sample_lines=samples(steps)))
    return found


def open_once(path: Path) -> dict[str, float]:
    """Milliseconds in a fresh browser."""
    with chromium(OFFLINE) as tab:
        tab.open(path)
        assert not tab.errors, tab.errors
        interactive = float(tab.evaluate("document.body.dataset.ready"))
        drawn = tab.evaluate("performance.now()")
        started = tab.evaluate("performance.getEntriesByName('figures')[0].startTime")
        answers = {
            name: tab.evaluate(ANSWER.format(action=action))
            for name, action in (("switch an arm", ARM), ("smooth", SMOOTH), ("brush", BRUSH))
        }
        assert tab.evaluate("document.querySelectorAll('svg.scatter circle.out').length") > 0
    return {"interactive": interactive, "figures": started, "all drawn": drawn, **answers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("rounds", 5), ("arms", 5), ("seeds", 10), ("steps", 480)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    runs = records(options.arms, options.seeds, options.steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        started = time.perf_counter()
        found = comparison_of(runs)
        page = page_of(notebook_of(Sources(found, found[0]), "benchmarks/report.py"))
        write_page(page, path, PLOTLY)
        build_s = time.perf_counter() - started
        write_atomic(path.parent / PLOTLY, plotly_script())
        rounds = [open_once(path) for _ in range(options.rounds)]
        single = write_page(page, Path(folder) / "single.html").stat().st_size
        result = {
            "runs": len(runs),
            "steps": options.steps,
            "figures": len(page.figures),
            "build (s)": round(build_s, 2),
            "page (MB)": round(path.stat().st_size / 1e6, 2),
            "single file (MB)": round(single / 1e6, 2),
            **{
                f"{name} (ms)": round(statistics.median(one[name] for one in rounds))
                for name in rounds[0]
            },
        }
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
