"""The numbers behind a figure as a table, for those who cannot or will not read the figure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from mcbench.report.base import BREAK, Figure, role_of, seeds_of

ROWS = 12  # a table shows so many places along x at most, the first and the last among them
COLUMNS = 10  # and so many columns of a heatmap


def figure_table(figure: Figure) -> pd.DataFrame:
    """One row per x, one column per named trace; a curve over seeds as its unsmoothed mean.

    Of a heatmap, one row per y. Empty for a figure without numbers of its own.
    """
    flat = False
    columns: dict[str, pd.Series] = {}
    for trace in figure.data:
        if trace["type"] == "heatmap":
            return _heat_table(figure, trace)
        if trace["type"] not in ("scatter", "bar") or trace.get("fill"):
            continue
        role = role_of(trace)
        if role in ("band", "mean"):
            continue
        if role == "seeds":
            x, runs = seeds_of(trace)
            series = pd.Series(runs.mean(axis=0), index=x)
        else:
            lying = trace.get("orientation") == "h"
            places = _values(trace, "y" if lying else "x")
            values = _values(trace, "x" if lying else "y")
            series = (
                pd.Series(values, index=places) if places and values else pd.Series(dtype=float)
            )
            flat |= lying
        if len(series):
            name = str(trace.get("name") or "Value").replace(BREAK, " ")
            columns[_unique(name, columns)] = series
    if not columns:
        return pd.DataFrame()
    names = list(dict.fromkeys(x for series in columns.values() for x in series.index))
    numeric = all(isinstance(x, (int, float, np.number)) for x in names)
    table = pd.DataFrame(
        {name: s.groupby(level=0, sort=False).last() for name, s in columns.items()}
    )
    table = _thin(table.sort_index()) if numeric else table.reindex(names)
    title = figure.axis_title("yaxis" if flat else "xaxis")
    table.insert(0, title or ("" if flat else "x"), table.index)
    return table.replace(BREAK, " ", regex=True)


def _values(trace: Mapping[str, Any], name: str) -> list[Any]:
    values = trace.get(name)
    return [] if values is None else list(values)


def _unique(name: str, taken: Collection[str]) -> str:
    count = sum(other == name or other.startswith(f"{name} (") for other in taken)
    return f"{name} ({count + 1})" if count else name


def _thin(table: pd.DataFrame) -> pd.DataFrame:
    if len(table) > ROWS:
        table = table.iloc[np.unique(np.linspace(0, len(table) - 1, ROWS).astype(int))]
    if all(float(x).is_integer() for x in table.index):
        table.index = table.index.astype(int)
    return table


def _heat_table(figure: Figure, trace: Mapping[str, Any]) -> pd.DataFrame:
    x, z = _values(trace, "x"), np.array(_values(trace, "z"), dtype=float)
    if z.ndim != 2 or not x:  # a heatmap without rows
        return pd.DataFrame()
    kept = np.unique(np.linspace(0, len(x) - 1, min(COLUMNS, len(x))).astype(int))
    table = pd.DataFrame(z[:, kept], columns=[str(x[i]) for i in kept])
    table.insert(0, figure.axis_title("yaxis") or "Row", _values(trace, "y"))
    return table
