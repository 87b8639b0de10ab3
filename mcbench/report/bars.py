"""Bars in the house style, upright or lying."""

from __future__ import annotations

from typing import Any

from mcbench.report.base import Figure

STACKED: dict[str, Any] = {
    "barmode": "stack",
    "hovermode": "y unified",
    "bargap": 0.45,
    "xaxis": {"showgrid": True},
    "yaxis": {"showgrid": False, "autorange": "reversed"},
}
"""The layout of stacked lying bars, the first on top."""


def add_bars(
    figure: Figure,
    name: str,
    labels: Any,
    values: Any,
    color: Any,
    hover: str,
    lying: bool = False,
    **look: Any,
) -> None:
    """A bar for each label; ``hover`` is the text at it, in which ``%{y}`` is the value, ``%{x}``
    where bars lie.
    """
    ends = {"x": values, "y": labels, "orientation": "h"} if lying else {"x": labels, "y": values}
    figure.add("bar", **ends, name=name, marker={"color": color}, hovertemplate=hover, **look)
