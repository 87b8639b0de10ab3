"""The paper's own numbers, for showing beside ours, and where other papers are: ``paper.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcbench.files import rows_beside


@dataclass(frozen=True)
class Reference:
    """A curve of the paper, read by eye from its figure; ``measure`` is a column of ours."""

    source: str
    label: str
    measure: str
    x: Sequence[float]
    y: Sequence[float]


_READ: dict[str, Any] = rows_beside(__file__, "paper.toml")
PAPER: Mapping[str, str] = _READ["paper"]
OTHERS: Mapping[str, str] = _READ["others"]
"""Where other papers are, by how a claim's source begins."""
MODELS: Mapping[str, str] = _READ["models"]
SOURCES = ("AtCoder", "LeetCode", "LiveCodeBench")
TABLE_1: Mapping[tuple[str, str], Mapping[str, list[float]]] = {
    (size, length): rows
    for size, lengths in _READ["table_1"].items()
    for length, rows in lengths.items()
}
"""By size and tested length: a row ``not_trained``, one an arm, and ``delta``."""
CURVES = {name: [Reference(**one) for one in found] for name, found in _READ["curves"].items()}
"""References over training by experiment, and ``d_of_t`` over temperature."""
NUMBERS: Mapping[str, list[list[str]]] = _READ["numbers"]
"""What the paper reports by experiment: arm, measure, value; numbers are read by eye."""
