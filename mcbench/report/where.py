"""What ``where_it_holds`` shows: maps of effects to hover, and behind every cell its curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mcbench.experiments.plan import Runs
from mcbench.experiments.where import UNDECIDED, Cell, Where
from mcbench.report import display, figures
from mcbench.report.base import Figure, new_figure
from mcbench.report.ends import interval, signed
from mcbench.report.page import NANO_NOTE, Head, Panel, Plot, Section
from mcbench.report.provenance import provenance
from mcbench.report.style import arm_styles
from mcbench.runs.store import RunRecord

# Lower and higher: tints of Okabe and Ito's vermillion and blue, on which dark text is legible.
_SCALE = [[0.0, "#F0A060"], [0.5, "#F4F2EE"], [1.0, "#6CB4E6"]]
_TEXT = "#1A1C20"
_LEAST = 5.0  # points; a map of small effects has no strong colours
_HOVER = (
    "learning rate %{x}, %{y}<br>%{customdata.effect} points (%{customdata.interval})<br>"
    "%{customdata.state}, %{customdata.seeds} seeds<extra></extra>"
)


def map_figure(where: Where, model: str, rule: str, length: int) -> Figure:
    """The effect of a rule against none in every cell of a model's grid; a click leads to the
    cell's curves, a star marks what is decided.
    """
    all_rows = where.effects
    rows = all_rows[
        (all_rows["model"] == model) & (all_rows["rule"] == rule) & (all_rows["length"] == length)
    ]
    rates, limits = (sorted(set(rows[name])) for name in ("learning_rate", "limit"))
    shape = (len(limits), len(rates))
    effects, texts = np.full(shape, np.nan), np.full(shape, "", dtype=object)
    behind: list[list[dict[str, Any]]] = [[{} for _ in rates] for _ in limits]
    found: Any = rows.itertuples()
    for row in found:
        at = limits.index(row.limit), rates.index(row.learning_rate)
        effects[at] = row.effect
        star = "" if row.state == UNDECIDED else " *"
        texts[at] = f"{signed(row.effect)}{star}<br>{interval(row.low, row.high)}"
        behind[at[0]][at[1]] = {
            "href": f"#{Cell(model, row.learning_rate, row.limit).id}",
            "effect": signed(row.effect),
            "interval": interval(row.low, row.high),
            "state": row.state,
            "seeds": row.seeds,
        }
    most = max(_LEAST, np.nan_to_num(all_rows["effect"].abs().max()))  # of all maps alike
    figure = new_figure(
        f"{rule} minus none, pass@1 with up to {length} tokens", "Limit in training",
        x_title="Learning rate", hovermode="closest",
    )  # fmt: skip
    figure.add(
        "heatmap",
        x=[f"{rate:g}" for rate in rates],
        y=[f"{limit} tokens" for limit in limits],
        z=effects,
        text=texts.tolist(),
        texttemplate="%{text}",
        textfont={"size": 10, "color": _TEXT},
        customdata=behind,
        hovertemplate=_HOVER,
        hoverongaps=False,
        colorscale=_SCALE,
        zmin=-most,
        zmax=most,
        xgap=2,
        ygap=2,
        showscale=False,
    )
    return figure.update(xaxis={"type": "category"}, yaxis={"type": "category"})


def maps(where: Where, of: str) -> list[Plot]:
    """A map of every rule and evaluated length, of one model."""
    styles = arm_styles(where.rules)
    rows = where.effects[where.effects["model"] == of]
    keys = rows[["model", "rule", "length"]].drop_duplicates()
    return [
        Plot(
            f"map-{Path(model).name}-{rule}-{length}",
            f"{styles[rule].label} minus none, {Path(model).name}, up to {length} tokens",
            map_figure(where, model, rule, length),
        )
        for model, rule, length in keys.itertuples(index=False)
    ]


def show_curves(where: Where) -> None:
    """Show the curves of every cell, folded on a page; a click on a cell of a map opens them."""
    sections = []
    for cell, runs in where.cells.items():
        plots = [
            Plot(
                f"{cell.id}-{length}",
                f"pass@1 with up to {length} tokens",
                figures.accuracy(_records(runs), int(length)),
            )
            for length in sorted(where.effects["length"].unique())
        ]
        name = f"{Path(cell.model).name}: {cell.told}"
        sections.append(Section(cell.id, name, "", [Panel("", "", plots)]))
    display.show(*sections, fold="Pass rates over training in each cell")


def _records(runs: Runs) -> dict[str, list[RunRecord]]:
    return {arm: list(seeds.values()) for arm, seeds in runs.items()}


def show_finding(where: Where) -> None:
    """Show the first screen: what is decided, in a sentence."""
    lead = (
        "Masks and T(D) against none, over learning rate and limit in training, evaluated at the "
        "same lengths in every cell."
    )
    display.display([display.head_output(Head(where.finding, lead=lead, notes=[NANO_NOTE]))])


def show_maps(where: Where) -> None:
    """Show the maps, and the numbers behind them; those of a further model are folded."""
    model, *others = where.effects["model"].unique()
    display.show(Panel("Effects", "", maps(where, model), where.effects))
    for other in others:
        fold = f"The same with {Path(other).name}, on the grid's diagonal"
        display.show(Panel(Path(other).name, "", maps(where, other)), fold=fold)


def show_means(where: Where) -> None:
    """Show what the cells of each map say on average, in words and as a table."""
    arms = list(dict.fromkeys(arm for runs in where.cells.values() for arm in runs))
    labels = {arm: style.label for arm, style in arm_styles(arms).items()}
    said = " ".join(where.sentences(labels))
    display.show(Panel("The cells of each map", said, data=_means(where, labels)))


def show_provenance(where: Where) -> None:
    """Show the runs of every cell, their settings and what produced them."""
    several = {f"{cell.model}, {cell.told}": _records(runs) for cell, runs in where.cells.items()}
    display.show(provenance(several))


def _means(where: Where, labels: Mapping[str, str]) -> pd.DataFrame:
    """The means for people: names, and one column for the interval."""
    rows = where.means
    intervals = [interval(low, high) for low, high in zip(rows["low"], rows["high"], strict=True)]
    rows = rows.assign(
        model=[Path(model).name for model in rows["model"]],
        rule=[labels[rule] for rule in rows["rule"]],
        mean=[signed(value) for value in rows["mean"]],
        interval=intervals,
    )
    return rows.drop(columns=["low", "high"]).rename(columns={"mean": "mean (points)"})
