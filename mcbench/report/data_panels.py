"""The paper's Fig. 5 beside ours: what it reports of a harder and an easier set, and our numbers.

What the pipeline did to a noisy pool stands in notebook 05.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd

from mcbench.claims.evidence import Evidence, Series
from mcbench.claims.statistics import (
    Statistic,
    area_under_curve,
    first_window,
    growth,
    last_window,
)
from mcbench.errors import UserError
from mcbench.experiments.data_record import NAMES
from mcbench.report.ends import signed
from mcbench.report.page import Panel
from mcbench.report.sources import Sources
from mcbench.report.style import spoken

SAID = {
    "D1": "gain of test accuracy on the harder set about three times the easier one's "
    "(LiveCodeBench v6, 300 steps)",
    "D2": "lower training reward on the harder set",
    "D3": "reward grows alike, test accuracy on the harder set only",
    "D4": "responses start similar or shorter, grow faster and end longer on the harder set",
}
"""What the paper reports."""


def beside(sources: Sources) -> Panel:
    """One row a claim: what the paper reports, and the same numbers here, means over seeds."""
    title, found = "D1 to D4 in numbers", sources.evidence
    if not set(NAMES.values()) <= set(found.arms) or not found.seeds:
        return Panel(title, missing="Not recorded: a seed that was run on both sets.")
    try:
        return Panel(title, data=_beside(found))
    except UserError as error:
        return Panel(title, missing=spoken(f"Not compared: {error}."))


def _beside(found: Evidence) -> pd.DataFrame:
    def both(read: Callable[[str], Series], statistic: Statistic) -> list[float]:
        series = (read(name) for name in NAMES.values())
        return [float(statistic(one.x, one.y).mean()) for one in series]

    gains = both(found.accuracy, lambda x, y: last_window(x, y) - first_window(x, y))
    rewards = both(found.reward, growth)
    rates = both(partial(found.accuracy, shape=True), growth)  # as D3 has them
    start, end = (_pair(both(found.length, one), False) for one in (first_window, last_window))
    ratio = f" ({gains[0] / gains[1]:.1f} times)" if min(gains) > 0 else ""
    told = {
        "D1": f"{_pair(gains)} points{ratio}",
        "D2": f"{_pair(both(found.reward, area_under_curve), False)} %",
        "D3": f"reward {_pair(rewards)} points; pass@1 {_pair(rates)} points",
        "D4": f"at the start {start}; growth {_pair(both(found.length, growth))}; at the end {end} "
        "tokens",
    }
    rows = [
        {"Claim": name, "The paper": said, "Here, harder | easier set": told[name]}
        for name, said in SAID.items()
    ]
    return pd.DataFrame(rows)


def _pair(values: Sequence[float], sign: bool = True) -> str:
    return " | ".join(signed(value) if sign else f"{value:.1f}" for value in values)
