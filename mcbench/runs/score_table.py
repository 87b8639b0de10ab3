"""The shape of the paper's Table 1: pass@1 by source and level, of runs and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcbench.runs.scores import mean_pass_at

LEVELS = ("easy", "medium", "hard", "all")
Cells = dict[tuple[str, str], float]
"""pass@1 in percent by (source, level); cells without problems are left out."""


def cells_of(per_problem: Iterable[dict[str, Any]], column: str, together: str) -> Cells:
    """Each source and then all of them (``together``), by difficulty and over all.

    ``column`` holds a problem's source: its platform, or the form that stands for one: programs
    that read standard input (as on AtCoder) and methods (as on LeetCode). Problems without a judged
    attempt, because the evaluator itself failed, are left out.
    """
    judged = [row for row in per_problem if row["attempts"]]
    sources = sorted({row[column] for row in judged}, key=_source_order)
    groups: list[tuple[str, set[str]]] = [(source, {source}) for source in sources]
    if len(sources) > 1:
        groups.append((together, set(sources)))
    cells: Cells = {}
    for name, members in groups:
        for level in LEVELS:
            rows = [
                row
                for row in judged
                if row[column] in members and level in ("all", row["difficulty"])
            ]
            if rows:
                cells[name, level] = 100.0 * mean_pass_at(rows, 1)
    return cells


def _source_order(source: str) -> tuple[bool, str]:
    """AtCoder's column stands first, and so does what stands for it."""
    return source not in ("atcoder", "stdin"), source


def table_text(rows: Mapping[str, Cells]) -> str:
    """Rows in the shape of the paper's Table 1, as text: percent, one row a label."""
    import pandas as pd

    present = {column for cells in rows.values() for column in cells}
    sources = dict.fromkeys(source for cells in rows.values() for source, _ in cells)
    columns = [(s, level) for s in sources for level in LEVELS if (s, level) in present]
    values = [[cells.get(column) for column in columns] for cells in rows.values()]
    table = pd.DataFrame(values, index=list(rows), columns=pd.MultiIndex.from_tuples(columns))
    return table.to_string(float_format="{:.1f}".format, na_rep="-", sparsify=True)
