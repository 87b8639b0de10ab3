"""How long the pages of a folder of reports are as they open, and when their first chart is there.

    python benchmarks/pages.py [reports] [--pictures DIR]

A table page by page: height in px on a desktop (1440 px wide) and a phone (390), words to read that
are open (no code, no charts with their numbers, no lists to choose from, no verdicts of single
tests, and nothing that a fold hides),
and milliseconds from opening the file to its first drawn chart (median of three, on an idle
machine). Over the limits below the command fails.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from report.browser import OFFLINE, Tab, chromium

HEIGHT = 6000  # px at 1440
WORDS = 1500
FIRST_CHART = 1000  # ms

# Text that has a box: a closed fold has none, and neither has what a script hides.
OPEN_WORDS = r"""(() => {
  const count = (one) => (one.innerText ?? "").split(/\s+/).filter(Boolean).length;
  const aside = "pre, select, .plot, .entries, .ends ol, .views svg, .tests, .programs";
  const seen = [...document.querySelectorAll(aside)];
  return seen.reduce((sum, one) => sum - count(one), count(document.body));
})()"""
TALL = "document.documentElement.scrollHeight"
DRAWN = "Number(document.body.dataset.firstDrawn || 0)"


def measure(
    tab: Tab, page: Path, pictures: Path | None = None, times_opened: int = 1
) -> tuple[int, int, int, float]:
    """Height at 1440 and at 390 px, open words, and the first chart's time in ms (0: no chart)."""
    times = []
    for _ in range(times_opened):
        tab.open(page, width=1440)
        times.append(float(tab.evaluate(DRAWN)))
    tall, words = int(tab.evaluate(TALL)), int(tab.evaluate(OPEN_WORDS))
    if pictures:
        tab.picture(pictures / f"{page.stem}-1440.png")
    tab.open(page, width=390)
    if pictures:
        tab.picture(pictures / f"{page.stem}-390.png")
    return tall, int(tab.evaluate(TALL)), words, statistics.median(times)


def main() -> int:
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    ask.add_argument("folder", nargs="?", default="reports", type=Path)
    ask.add_argument("--pictures", type=Path, help="also write pictures of the pages here")
    given = ask.parse_args()
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    over = 0
    print("| page | px at 1440 | px at 390 | words | first chart, ms |\n|---|---|---|---|---|")
    with chromium(OFFLINE) as tab:
        for page in sorted(given.folder.glob("*.html")):
            tall, phone, words, first = measure(tab, page, given.pictures, times_opened=3)
            print(f"| {page.stem} | {tall} | {phone} | {words} | {first:.0f} |", flush=True)
            over += tall > HEIGHT or words > WORDS or first > FIRST_CHART
    print(f"\n{over} pages over {HEIGHT} px, {WORDS} words or {FIRST_CHART} ms")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
