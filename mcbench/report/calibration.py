"""What the untrained nano models can do, in figures and tables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from mcbench.experiments.calibration import ATTEMPTS, CalibrationRecord, CalibrationReport
from mcbench.experiments.regimes import (
    EVALUATIONS,
    LEAST_FALL,
    LEAST_RISE,
    mean_curves,
    regime_table,
    stress_rate,
)
from mcbench.report import display
from mcbench.report.base import Figure, new_figure
from mcbench.report.mechanisms import mechanism_section
from mcbench.report.page import NANO_NOTE, Head, Panel, Plot, Section, Table, facts, slug
from mcbench.report.spread import middles
from mcbench.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, ArmStyle
from mcbench.runs.store import RunRecord

LOOKS = ((BLUE, "solid"), (ORANGE, "dash"), (GREEN, "dot"), (PURPLE, "dashdot"))
LEVELS = ("easy", "medium", "hard")


def model_styles(reports: Sequence[CalibrationReport]) -> dict[str, ArmStyle]:
    """A colour and dash for each model, in the order given."""
    looks = zip(reports, itertools.cycle(LOOKS))
    return {report.model: ArmStyle(report.model, *look) for report, look in looks}


def pass_rates(report: CalibrationReport, by: str) -> Figure:
    """pass@1 and pass@8 by a column of the samples (difficulty, kind or form)."""
    figure = new_figure(f"{report.model}: pass rate by {by}", "Problems solved (%)", x_title="")
    for k, color in ((1, BLUE), (ATTEMPTS, SKY)):
        table = report.pass_at(k, by)
        order = [level for level in LEVELS if level in set(table[by])]
        table = table.set_index(by).loc[order or sorted(table[by])]
        rates = 100 * table[f"pass@{k}"].to_numpy()
        figure.bars(f"pass@{k}", list(table.index), rates, color, "%{y:.1f} %")
    return figure.update(barmode="group", bargap=0.35, yaxis={"rangemode": "tozero"})


GRID = {
    "entropy": ("Entropy", "Entropy (nats per token)"),
    "distinct_4": ("Diversity", "Distinct-4"),
    "pass@1": ("pass@1", "pass@1"),
}


def over_temperature(reports: Sequence[CalibrationReport], column: str) -> Figure:
    """One column of the temperature grids, a line per model."""
    title, y_title = GRID[column]
    figure = new_figure(f"{title} by temperature", y_title, x_title="Sampling temperature")
    for model, style in model_styles(reports).items():
        grid = next(report.grid for report in reports if report.model == model)
        look = {"mode": "lines+markers", "marker": {"size": 6}, "hovertemplate": "%{y:.3f}"}
        x, y = grid["temperature"], grid[column]
        figure.line(x, y, model, style, 2.4, legendgroup=model, **look)
    return figure.update(yaxis={"rangemode": "tozero"})


def lengths(report: CalibrationReport) -> Figure:
    """Response lengths at T = 1, right and wrong ones stacked; the last bin holds those cut."""
    figure = new_figure(f"{report.model}: response length", "Responses", x_title="Length (tokens)")
    edges = np.linspace(0, report.limit, 33)
    for passed, name, color in ((True, "right", GREEN), (False, "wrong or cut", VERMILLION)):
        rows = report.samples[report.samples["passed"] == passed]
        counts, _ = np.histogram(rows["length"], bins=edges)
        figure.bars(name, middles(edges), counts, color, "%{y}", opacity=0.85)
    figure.rule("x", report.limit)
    return figure.update(barmode="stack", bargap=0.05)


def terciles(report: CalibrationReport) -> Figure:
    """Pass rate on hard problems of the short, middle and long third of finished responses."""
    table = report.terciles()
    figure = new_figure(
        f"{report.model}: hard problems", "Pass rate (%)", x_title="Third by response length"
    )
    labels = [
        f"{name}<br>{'no response' if np.isnan(length) else f'{length:.0f} tokens'}"
        for name, length in zip(table["tercile"], table["mean length"], strict=True)
    ]
    rates = 100 * table["pass rate"].to_numpy()
    figure.bars("", labels, rates, BLUE, "%{y:.1f} %")
    return figure.update(bargap=0.45, yaxis={"rangemode": "tozero"})


def regimes(records: Sequence[RunRecord]) -> Figure:
    """Held-out pass@1 of the unmasked pilots over training, a line a learning rate: the mean of
    their seeds.
    """
    figure = new_figure("Pilots by learning rate", "pass@1 (%)", x_title="Update")
    curves = mean_curves(records)
    for (rate, curve), look in zip(curves.items(), itertools.cycle(LOOKS)):
        style = ArmStyle(f"{rate:g}", *look)
        figure.line(curve.index.to_numpy(), 100 * curve.to_numpy(), style.label, style, 2.4)
    return figure


def regime_section(records: Sequence[RunRecord]) -> Section:
    """Which learning rates were chosen for the two regimes, and by what."""
    chosen = stress_rate(regime_table(records))
    return Section(
        "regimes",
        "Two regimes",
        f"Plain GRPO+ on pilot seeds that decide no claim. Stress is the largest rate at which "
        f"the mean curve rises by {100 * LEAST_RISE:g} points and then loses {100 * LEAST_FALL:g}, "
        f"read from means of {EVALUATIONS} evaluations: "
        f"{'no rate of the grid' if chosen is None else f'{chosen:g}'}.",
        [
            Panel(
                "Learning rate",
                "Where training rises and falls there is something for a mask, a clip or a KL term "
                "to prevent.",
                [Plot("regimes", "pass@1 over training", regimes(records))],
                regime_table(records),
            )
        ],
    )


def target_table(reports: Sequence[CalibrationReport]) -> pd.DataFrame:
    """One row a target, one column a model: the measured value, and whether it is met."""
    columns: dict[str, list[str]] = {}
    for report in reports:
        rows = report.verdicts().to_dict("records")
        columns["target"] = [f"{r['target']}: {_range(r['from'], r['to'])}" for r in rows]
        columns[report.model] = [
            f"{'–' if np.isnan(r['measured']) else format(r['measured'], '.3f')} "
            f"({'met' if r['met'] else 'missed'})"
            for r in rows
        ]
    return pd.DataFrame(columns)


def _finding(reports: Sequence[CalibrationReport]) -> str:
    told = []
    for report in reports:
        met = [row["met"] for row in report.verdicts().to_dict("records")]
        told.append(f"{report.model} meets {sum(met)} of {len(met)} targets")
    return f"Before any training, {'; '.join(told)}."


def _range(low: float, high: float) -> str:
    return f"at least {low:g}" if high in (1.0, float("inf")) else f"{low:g} to {high:g}"


def _model_section(report: CalibrationReport) -> Section:
    name = slug(report.model)
    return Section(
        name,
        report.model,
        f"{report.samples['problem'].nunique()} held-out problems, {ATTEMPTS} responses each, at "
        f"most {report.limit} tokens.",
        [
            Panel(
                "Pass rates at T = 1",
                "The distance between pass@1 and pass@8 is what reinforcement learning can turn "
                "into reliable answers without learning anything new.",
                [
                    Plot(f"{name}-{by}", f"By {by}", pass_rates(report, by))
                    for by in ("difficulty", "kind")
                ],
                report.pass_at(1, "kind", "difficulty"),
            ),
            Panel(
                "Length",
                "Responses cut at the limit are unfinished searches. On hard problems a longer "
                "finished response should be right more often, or length growth would mean "
                "nothing.",
                [
                    Plot(f"{name}-length", "Response lengths", lengths(report)),
                    Plot(f"{name}-terciles", "Hard problems, by length", terciles(report)),
                ],
                report.terciles(),
            ),
        ],
    )


def grid_panel(reports: Sequence[CalibrationReport]) -> Panel:
    """Entropy, diversity and accuracy over the sampling temperature."""
    return Panel(
        "Temperature",
        "Higher temperature must raise entropy and diversity, or the temperature experiments "
        "measure nothing.",
        [
            Plot(f"grid-{column.replace('@', '-')}", title, over_temperature(reports, column))
            for column, (title, _) in GRID.items()
        ],
        pd.concat([report.grid.assign(model=report.model) for report in reports]),
    )


def show_targets(record: CalibrationRecord) -> None:
    """Show the first screen: what meets the targets, in a sentence, and the targets themselves."""
    display.display([display.head_output(Head(_finding(record.reports), notes=[NANO_NOTE]))])
    display.show(Table(target_table(record.reports)))


def show_temperature(record: CalibrationRecord) -> None:
    """Show entropy, diversity and accuracy over the sampling temperature."""
    display.show(grid_panel(record.reports))


def show_regimes(record: CalibrationRecord, pilots: Sequence[RunRecord]) -> None:
    """Show which learning rates were chosen by the pilots (:mod:`mcbench.experiments.regimes`),
    and whether what the experiments are about acts at all; nothing without pilots.
    """
    if pilots:
        display.show(regime_section(pilots), mechanism_section(pilots, record.reports))


def show_models(record: CalibrationRecord) -> None:
    """Show pass rates and lengths of each model, folded on a page."""
    display.show(*map(_model_section, record.reports), fold="Pass rates and lengths by model")


def show_origin(record: CalibrationRecord) -> None:
    """Show what the measurement was made with."""
    display.show(facts(record.origin.items()))
