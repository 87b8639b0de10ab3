"""Every panel there is, as one list: what a report and a live view show of any runs.

A panel is a few figures that belong together, with how to read them. What the runs did not record
is said in the panel's ``missing``, never left out silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mcbench.errors import unknown
from mcbench.files import rows_beside
from mcbench.report import figures, spread
from mcbench.report.base import ROLES, Figure, role_of
from mcbench.report.coverage import coverage
from mcbench.report.page import Panel, Plot
from mcbench.report.series import Arms, Record, eval_lengths, measure, unfinished_runs
from mcbench.report.style import ArmStyle, arm_styles

Draw = Callable[[Arms], list[Plot]]


@dataclass(frozen=True)
class PanelKind:
    """A panel before it is drawn.

    A figure of ``draw`` without a trace counts as not recorded. ``needs`` says what is missing
    then, where it is not the title; nothing is said where ``quiet``, of what is off unless asked
    for. ``staged``: drawn over training steps, so that stages of temperature and length are shown
    behind it.
    """

    section: str
    title: str
    prose: str
    draw: Draw
    needs: str = ""
    staged: bool = True
    quiet: bool = False


def _lines(*names: str) -> Draw:
    def draw(arms: Arms) -> list[Plot]:
        return [Plot(n, figures.LINES[n].title, figures.line(arms, n)) for n in names]

    return draw


def _accuracy(arms: Arms) -> list[Plot]:
    lengths, name = eval_lengths(arms), measure(arms)
    staged = any(record.config.length_stages for runs in arms.values() for record in runs)
    trained = None if staged else _limit(arms)
    return [
        Plot(
            f"accuracy-{n}",
            f"{name} with up to {n} tokens{' (the training length)' if n == trained else ''}",
            figures.accuracy(arms, n),
        )
        for n in lengths
    ]


def _limit(arms: Arms) -> int | None:
    """The maximum response length, where it is the same in all runs."""
    found = {record.config.max_completion_length for runs in arms.values() for record in runs}
    return found.pop() if len(found) == 1 else None


def _each_arm(
    name: str, draw: Callable[[str, Sequence[Record], int | None, ArmStyle], Figure]
) -> Draw:
    def figures_of(arms: Arms) -> list[Plot]:
        styles, limit = arm_styles(arms), _limit(arms)
        return [
            Plot(f"{name}-{i}", styles[arm].label, draw(arm, runs, limit, styles[arm]), arm=arm)
            for i, (arm, runs) in enumerate(arms.items())
        ]

    return figures_of


def _length_against_reward(arms: Arms) -> list[Plot]:
    parts = [
        Plot(
            f"length-reward-{part}",
            f"Pass rate by length, {part} third",
            spread.length_against_reward(arms, part),
        )
        for part in spread.PARTS
    ]
    return [*parts, Plot("length-at", "Lengths of right responses", spread.length_frames(arms))]


def _advantages(arms: Arms) -> list[Plot]:
    each = _each_arm("advantages", lambda arm, runs, limit, style: spread.advantages(arm, runs))
    at = Plot("advantages-at", "Advantages of all arms", spread.advantage_frames(arms))
    return [*each(arms), at]


def _temperature(arms: Arms) -> list[Plot]:
    measured = spread.chosen_temperatures(arms)
    figure = spread.over_temperature(measured) if measured else Figure()
    return [Plot("d-of-t", "Diversity by temperature before training", figure)]


def _task(arms: Arms) -> list[Plot]:
    """A figure for every part that a task logged, and for what its evaluations told."""
    every = [record for runs in arms.values() for record in runs]
    plots = []
    for name in _columns((record.steps for record in every), "task/"):
        figure = figures.logged(arms, name, _measure(name))
        plots.append(Plot(f"task-{name}", f"Training: {_measure(name)}", figure))
    for name in _columns((record.evals for record in every), "parts/"):
        figure = figures.told(arms, name, _measure(name))
        plots.append(Plot(f"task-held-out-{name}", f"Held out: {_measure(name)}", figure))
    return plots


def _columns(tables: Iterable[pd.DataFrame], prefix: str) -> list[str]:
    """The names behind a prefix, in order."""
    every = {column for table in tables for column in table.columns}
    return sorted(name.removeprefix(prefix) for name in every if name.startswith(prefix))


_MEASURES: Mapping[str, str] = rows_beside(__file__, "measures.toml")
"""What a name alone does not say, by ``measures.toml``; any other is written with spaces."""


def _measure(name: str) -> str:
    """What a task measures, in words."""
    kind, _, percent = name.partition("_")
    if kind == "shown" and percent.isdecimal():
        return f"shown where {percent} % accept (share)"
    return _MEASURES.get(name, name.replace("_", " "))


def _time(arms: Arms) -> list[Plot]:
    return [Plot("time", "Seconds per update by part", figures.time_split(arms))]


_DRAWN: Mapping[str, Draw] = {
    "accuracy": _accuracy,
    "task": _task,
    "length-reward": _length_against_reward,
    "advantages": _advantages,
    "d-of-t": _temperature,
    "time": _time,
}
"""What draws the panels that are more than lines."""


def _kind(
    name: str, lines: Sequence[str] = (), each_arm: Mapping[str, Any] | None = None, **row: Any
) -> PanelKind:
    if each_arm is not None:
        one = figures.ArmFigure(**each_arm)
        return PanelKind(draw=_each_arm(one.id, one.draw), **row)
    return PanelKind(draw=_lines(*lines) if lines else _DRAWN[name], **row)


PANELS: dict[str, PanelKind] = {
    name: _kind(name, **row) for name, row in rows_beside(__file__, "panels.toml").items()
}
"""By name in the order of a page, rows of ``panels.toml``."""
SECTIONS = tuple(dict.fromkeys(kind.section for kind in PANELS.values()))


# A line by its own name is a panel too, such as ``length`` or ``entropy``.
_LINE_PANELS = {
    name: PanelKind("", line.title, "", _lines(name)) for name, line in figures.LINES.items()
}
_KINDS: Mapping[str, PanelKind] = {**_LINE_PANELS, **PANELS}


COVERAGE = "coverage"


def panel(name: str, arms: Arms) -> Panel:
    """One panel of :data:`PANELS`, :data:`COVERAGE`, or one of the lines of
    :data:`mcbench.report.figures.LINES`.

    Args:
        arms: arm -> runs by seed.

    Raises:
        UserError: no such panel; the message names those there are.
    """
    wanted = name.lower().replace("_", "-").replace(" ", "-")
    if wanted == COVERAGE:
        return coverage(arms)
    if wanted not in _KINDS:
        raise unknown("panel", name, [*_KINDS, COVERAGE])
    kind = _KINDS[wanted]
    plots, flat, missing = drawn(kind, arms)
    if not (plots or flat or missing):  # nobody asked for it in these runs
        return Panel(kind.title, missing=_not_recorded(kind))
    said = [missing, left_out(plots), unfinished_runs(arms)]
    return Panel(kind.title, kind.prose, plots, missing=" ".join(filter(None, said)), flat=flat)


def drawn(kind: PanelKind, arms: Arms) -> tuple[list[Plot], list[Plot], str]:
    """A panel's figures that have something to show; those of what never changed, which no figure
    is needed for; and a sentence on these and on what was not recorded.
    """
    everything = kind.draw(arms)
    plots = [plot for plot in everything if plot.figure.data]
    if not plots:
        if kind.quiet:
            return [], [], ""
        return [], [], _not_recorded(kind)
    absent = ", ".join(plot.caption for plot in everything if not plot.figure.data)
    told = [f"Not recorded: {absent}."] if absent else []
    fixed = {plot.id: values for plot in plots if (values := constant(plot.figure))}
    told += [
        f"{plot.caption} never changed: {fixed[plot.id]}." for plot in plots if plot.id in fixed
    ]
    flat = [plot for plot in plots if plot.id in fixed]
    plots = [plot for plot in plots if plot.id not in fixed]
    shapes = spread.stage_shapes(arms) if kind.staged else []
    for plot in plots:
        for shape in shapes:
            plot.figure.add_shape(**shape)
        if shapes:
            rows = len({shape["name"] for shape in shapes})
            plot.figure.update(margin={"t": 44 + spread.STRIP * rows})
    return plots, flat, " ".join(told)


def _not_recorded(kind: PanelKind) -> str:
    return f"Not recorded: {kind.needs or kind.title[0].lower() + kind.title[1:]}."


def constant(figure: Figure) -> str:
    """The value of every arm in a figure in which all curves are flat; empty for any other."""
    values: dict[float, list[str]] = {}
    for trace in figure.data:
        if role_of(trace) != "seeds":
            continue
        known = np.asarray(trace["y"], dtype=float)
        steps = np.asarray(trace["x"], dtype=float)[~np.isnan(known)]
        known = known[~np.isnan(known)]
        if np.unique(steps).size < 2 or known.min() != known.max():  # of one step nothing is known
            return ""
        values.setdefault(float(known[0]), []).append(str(trace["name"]))
    if any(role_of(trace) not in ROLES for trace in figure.data):
        return ""
    told = [f"{value:.0f}" if value.is_integer() else f"{value:.6g}" for value in values]
    if len(values) == 1:
        return told[0]
    arms = map(", ".join, values.values())
    return "; ".join(f"{value} in {names}" for value, names in zip(told, arms, strict=True))


def left_out(plots: Sequence[Plot]) -> str:
    """Which evaluations the accuracy figures leave out, and why; empty where they show all."""
    titles = [plot.figure.layout.get("title", {}) for plot in plots]
    return " ".join(dict.fromkeys(t["subtitle"]["text"] for t in titles if "subtitle" in t))
