"""The numbers behind a figure as a table, for those who cannot or will not read the figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

ROWS = 12  # a table shows so many places along x at most, the first and the last among them
COLUMNS = 10  # and so many columns of a heatmap


def figure_table(figure: go.Figure) -> pd.DataFrame:
    """One row per x, one column per named trace; a curve over seeds as its unsmoothed mean.

    Of a heatmap, one row per y. Empty for a figure without numbers of its own.
    """
    heat = [trace for trace in figure.data if trace.type == "heatmap"]
    if heat:
        return _heat_table(figure, heat[0])
    columns: dict[str, pd.Series] = {}
    for trace in figure.data:
        role = (trace.meta or {}).get("role")
        area = trace.type == "scatter" and trace.fill
        if trace.type not in ("scatter", "bar") or role in ("band", "mean") or area:
            continue
        series = _seed_mean(trace) if role == "seeds" else _plain(trace)
        if len(series):
            columns[_unique(str(trace.name or "Value"), columns)] = series
    if not columns:
        return pd.DataFrame()
    names = list(dict.fromkeys(x for series in columns.values() for x in series.index))
    numeric = all(isinstance(x, (int, float, np.number)) for x in names)
    table = pd.DataFrame(
        {name: s.groupby(level=0, sort=False).last() for name, s in columns.items()}
    )
    table = _thin(table.sort_index()) if numeric else table.reindex(names)
    table.insert(0, _axis_title(figure), table.index)
    return table


def _unique(name: str, taken: Any) -> str:
    count = sum(other == name or other.startswith(f"{name} (") for other in taken)
    return f"{name} ({count + 1})" if count else name


def _plain(trace: Any) -> pd.Series:
    flat = trace.orientation == "h"
    x, y = (trace.y, trace.x) if flat else (trace.x, trace.y)
    if x is None or y is None:
        return pd.Series(dtype=float)
    return pd.Series(list(y), index=list(x))


def _seed_mean(trace: Any) -> pd.Series:
    count = trace.meta["seeds"]
    length = (len(trace.x) + 1) // count
    y = np.append(np.asarray(trace.y, dtype=float), np.nan).reshape(count, length)
    return pd.Series(y.mean(axis=0)[:-1], index=np.asarray(trace.x, dtype=float)[: length - 1])


def _thin(table: pd.DataFrame) -> pd.DataFrame:
    if len(table) > ROWS:
        table = table.iloc[np.unique(np.linspace(0, len(table) - 1, ROWS).astype(int))]
    if all(float(x).is_integer() for x in table.index):
        table.index = table.index.astype(int)
    return table


def _heat_table(figure: go.Figure, trace: Any) -> pd.DataFrame:
    z = np.asarray([] if trace.z is None else trace.z, dtype=float)
    if z.ndim != 2 or trace.x is None:  # a heatmap without rows
        return pd.DataFrame()
    x = list(trace.x)
    kept = np.unique(np.linspace(0, len(x) - 1, min(COLUMNS, len(x))).astype(int))
    table = pd.DataFrame(z[:, kept], columns=[str(x[i]) for i in kept])
    table.insert(0, _text(figure.layout.yaxis.title.text) or "Row", list(trace.y))
    return table


def _axis_title(figure: go.Figure) -> str:
    flat = any(trace.type == "bar" and trace.orientation == "h" for trace in figure.data)
    axis = figure.layout.yaxis if flat else figure.layout.xaxis
    return _text(axis.title.text) or ("" if flat else "x")


def _text(title: str | None) -> str:
    return (title or "").replace("<br>", " ")
