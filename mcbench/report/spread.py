"""Figures of what is distributed: advantages, lengths against reward, diversity over temperature.

Histograms are read as :mod:`mcbench.runs.distributions` logged them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mcbench.report.base import (
    Figure,
    add_curve,
    add_reference,
    compare,
    new_figure,
)
from mcbench.report.paper import CURVES
from mcbench.report.series import (
    Arms,
    Curve,
    Record,
    by_step,
    make_curve,
    seed_of,
)
from mcbench.report.style import arm_styles
from mcbench.runs.distributions import (
    ADVANTAGE,
    ADVANTAGE_EDGES,
    LENGTH_BINS,
    RIGHT,
    WRONG,
    length_edges,
)

FEWEST = 8  # responses that a length bin needs before a pass rate is drawn
PARTS = ("first", "last")
FRAMES = 100  # steps that a scrubbed figure keeps at most


def _counts(records: Sequence[Record], name: str) -> pd.DataFrame:
    """Counts of one histogram, summed over seeds: one row a step, one column a bin."""
    rows = [
        {"step": step, **dict(enumerate(found[name]))}
        for record in records
        for step, found in record.distributions.items()
    ]
    return pd.DataFrame(rows).groupby("step").sum() if rows else pd.DataFrame()


def middles(edges: np.ndarray) -> np.ndarray:
    """Bin centres (N,) of N + 1 edges."""
    return (edges[1:] + edges[:-1]) / 2


def advantages(arm: str, records: Sequence[Record]) -> Figure:
    """One arm's advantages after the mask, over training: share of responses by bin."""
    figure = new_figure(arm_styles([arm])[arm].label, "Advantage")
    table = _counts(records, ADVANTAGE)
    if table.empty:
        return figure
    shares = 100 * table.to_numpy().T / table.to_numpy().sum(axis=1)
    filled = np.flatnonzero(shares.any(axis=1))
    shown = slice(filled[0], filled[-1] + 1)
    figure.add(
        "heatmap",
        x=table.index.to_numpy(),
        y=middles(ADVANTAGE_EDGES)[shown],
        z=np.where(shares > 0, shares, np.nan)[shown],
        colorscale="Cividis",
        zmin=0,
        colorbar={"title": {"text": "%", "side": "top"}, "thickness": 10, "outlinewidth": 0},
        hovertemplate="advantage %{y:.2f}: %{z:.1f} % of responses<extra></extra>",
    )
    return figure.update(hovermode="closest")


def advantage_frames(arms: Arms) -> Figure:
    """Advantages of all arms at one step, the last one; ``layout.meta`` has the other steps."""
    title = "Advantage after the mask"
    return _frames(arms, ADVANTAGE, title, lambda *_: middles(ADVANTAGE_EDGES))


def length_frames(arms: Arms) -> Figure:
    """Lengths of right responses of all arms at one step, as :func:`advantage_frames`."""
    return _frames(arms, RIGHT, "Length of right responses (tokens)", _length_middles)


def _length_middles(records: Sequence[Record], step: int) -> np.ndarray:
    """The bins reach to the longest response that was allowed at the step."""
    found = [one.distributions[step] for one in records if step in one.distributions]
    return middles(length_edges(max(float(one["length/max_allowed"]) for one in found)))


def _frames(
    arms: Arms, name: str, x_title: str, bins: Callable[[Sequence[Record], int], np.ndarray]
) -> Figure:
    figure = new_figure("", "Responses (%)", x_title=x_title)
    styles = arm_styles(arms)
    frames: list[dict[str, Any]] = []
    for arm, records in arms.items():
        table = _counts(records, name)
        if table.empty:
            continue
        shares = 100 * table.to_numpy() / np.maximum(1, table.to_numpy().sum(axis=1))[:, None]
        kept = np.unique(np.linspace(0, len(table) - 1, min(FRAMES, len(table))).astype(int))
        look = {"legendgroup": arm, "hovertemplate": "%{y:.1f} %"}
        steps = table.index.to_numpy()[kept].tolist()
        places = [bins(records, step) for step in steps]
        figure.line(places[-1], shares[kept[-1]], styles[arm].label, styles[arm], 2.2, **look)
        figure.data[-1]["line"]["shape"] = "hvh"
        frame = {"steps": steps, "y": shares[kept].round(2).tolist()}
        if any(not np.array_equal(one, places[0]) for one in places):
            frame["x"] = [one.round(2).tolist() for one in places]
        frames.append(frame)
    return figure.update(yaxis={"rangemode": "tozero"}, meta={"frames": frames})


def length_against_reward(arms: Arms, part: str = "last") -> Figure:
    """Pass rate by response length, over the ``first`` or ``last`` third of training.

    Bins with fewer than ``FEWEST`` responses of a seed are left out.
    """
    curves = [
        curve for arm, records in arms.items() if (curve := _pass_by_length(arm, records, part))
    ]
    return compare(
        curves,
        arms,
        f"{part} third of training",
        "Responses passing (%)",
        x_title="Response length (tokens)",
        hover="%{y:.0f} %",
        markers=True,
        from_zero=True,
    )


def _pass_by_length(arm: str, records: Sequence[Record], part: str) -> Curve | None:
    runs: dict[int, pd.Series] = {}
    for record in records:
        found = record.distributions
        steps = sorted(found)
        count = max(1, round(len(steps) / 3))
        chosen = steps[:count] if part == "first" else steps[-count:]
        # Bins depend on the limit, which may change over training: only those of one limit add up.
        limits = [found[step]["length/max_allowed"] for step in chosen]
        right, total = np.zeros(LENGTH_BINS), np.zeros(LENGTH_BINS)
        for step in chosen:
            if found[step]["length/max_allowed"] == limits[-1]:
                right += found[step][RIGHT]
                total += np.add(found[step][RIGHT], found[step][WRONG])
        if chosen:
            rate = np.where(total >= FEWEST, 100 * right / np.maximum(1, total), np.nan)
            runs[seed_of(record)] = pd.Series(rate, index=middles(length_edges(limits[-1])))
    return make_curve(arm, runs) if runs else None


# Temperature -------------------------------------------------------------------------------------

Measured = Mapping[str, Mapping[int, Mapping[float, float]]]
"""Name of a curve -> seed -> temperature -> value."""


def chosen_temperatures(arms: Arms) -> Measured:
    """D(T) as the runs that chose their temperature measured it before the first update."""
    found: dict[str, dict[int, dict[float, float]]] = {}
    for arm, records in arms.items():
        for record in records:
            if choice := record.meta.get("temperature_choice"):
                values = {float(t): float(d) for t, d in choice["measured"].items()}
                found.setdefault(arm, {})[seed_of(record)] = values
    return found


def grid_values(rows: Sequence[Mapping[str, Any]], column: str, scale: float = 1) -> Measured:
    """A measured column of the rows of checkpoints over temperature, a curve a checkpoint."""
    found: dict[str, dict[int, dict[float, float]]] = {}
    for row in sorted(rows, key=lambda row: (row["step"], row["seed"], row["temperature"])):
        seeds = found.setdefault(f"after {row['step']} steps", {})
        seeds.setdefault(row["seed"], {})[row["temperature"]] = scale * row[column]
    return found


def over_temperature(
    measured: Measured,
    y_title: str = "Distinct-4",
    *,
    title: str = "D(T)",
    paper: bool = True,
) -> Figure:
    """A measure over sampling temperature, a curve per name; for D(T) with the paper's.

    ``measured`` is as :func:`chosen_temperatures` gives it; names that are arms look like them.
    """
    figure = new_figure(title, y_title, x_title="Sampling temperature T")
    styles = arm_styles(measured)
    for name, seeds in measured.items():
        runs = {seed: pd.Series(dict(sorted(values.items()))) for seed, values in seeds.items()}
        if curve := make_curve(name, runs):
            add_curve(figure, curve, styles[name], markers=True, hover="%{y:.3f}")
    if paper:
        add_reference(figure, CURVES["d_of_t"][0])
    return figure


# Stages ------------------------------------------------------------------------------------------

Stage = tuple[int, float]
STAGED = {"temperature": "T = {}", "length/max_allowed": "{} tokens"}
MOST_NAMED = 4  # stages; of more the first and the last are named


def stages_of(record: Record, column: str) -> tuple[Stage, ...]:
    """(first step, value) of every span of steps over which a setting stayed the same."""
    if column not in record.steps.columns:
        return ()
    values = by_step(record.steps, column)
    changed = values[values != values.shift()]
    return tuple(zip(changed.index.tolist(), changed.tolist(), strict=True))


STRIP = 14  # pixels from one strip to the next


def stage_shapes(arms: Arms) -> list[dict[str, Any]]:
    """Strips above a figure over training where an arm changes temperature or length limit: one for
    each staging, under the names of its arms; a page hides a strip with its arms.
    """
    found: dict[tuple[str, tuple[Stage, ...]], list[str]] = {}
    last = 0
    for arm, records in arms.items():
        for record in records[:1]:
            steps = record.steps
            last = max(last, int(steps["step"].max()) if len(steps) else 0)
            for column in STAGED:
                stages = stages_of(record, column)
                if len(stages) > 1:
                    found.setdefault((column, stages), []).append(arm)
    styles = arm_styles(arms)
    shapes: list[dict[str, Any]] = []
    for row, ((column, stages), named) in enumerate(reversed(found.items())):
        ends = [*(start for start, _ in stages[1:]), last]
        shown = stages if len(stages) <= MOST_NAMED else (stages[0], stages[-1])
        values = " → ".join(f"{value:g}" for _, value in shown)
        who = f"{', '.join(styles[arm].label for arm in named)}: {STAGED[column].format(values)}"
        for index, ((start, _), end) in enumerate(zip(stages, ends, strict=True)):
            shapes.append(
                {
                    "type": "rect",
                    "x0": start,
                    "x1": end,
                    "yref": "paper",
                    "ysizemode": "pixel",
                    "yanchor": 1,
                    "y0": 3 + STRIP * row,
                    "y1": 1 + STRIP * (row + 1),
                    "line": {"width": 0},
                    "fillcolor": styles[named[0]].fill((0.14, 0.36)[index % 2]),
                    "label": {
                        "text": "" if index else who,
                        "textposition": "middle left",
                        "font": {"size": 9.5},
                    },
                    "name": f"stage:{'|'.join(named)}",
                }
            )
    return shapes
