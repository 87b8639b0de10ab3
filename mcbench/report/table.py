"""Table 1: pass@1 by problem source and difficulty, before and after training with each arm.

Columns are the paper's: AtCoder, LeetCode, both together (LiveCodeBench), each Easy, Medium, Hard,
All. Ours follow the form of the problem, which is what separates the two sources: programs that
read standard input (AtCoder) and methods of ``class Solution`` (LeetCode).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from mcbench.claims.statistics import last_window
from mcbench.report import paper
from mcbench.report.series import (
    Arms,
    Record,
    comparable,
    eval_lengths,
    evaluations,
    seed_of,
    unfinished,
)
from mcbench.report.style import arm_styles
from mcbench.runs.scores import LEVELS, Cells, cells_of

OURS = "microcoder"  # the row that Δ compares with the best of the other trained rows
SOURCES = {"stdin": "AtCoder-like (stdin)", "call": "LeetCode-like (call)", "all": "Both"}


@dataclass(frozen=True)
class Row:
    """pass@1 in percent by (source, level), and its standard deviation over seeds."""

    label: str
    values: Cells
    spread: Cells = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Rows under one heading; ``delta`` is MicroCoder-GRPO minus the best other trained row."""

    heading: str
    rows: Sequence[Row]
    delta: Row | None = None

    @property
    def best(self) -> Cells:
        """The highest value of each column, rounded as it is printed, where rows are compared."""
        return _each([row.values for row in self.rows if self.delta], lambda v: round(max(v), 1))


@dataclass(frozen=True)
class ScoreTable:
    """The whole table, a block of a page: groups of four columns each."""

    caption: str
    sources: Sequence[str]
    blocks: Sequence[Rows]
    title: str = ""
    fold: str = ""
    levels: Sequence[str] = LEVELS

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Source and level of each column."""
        return [(source, level) for source in self.sources for level in self.levels]

    def frame(self) -> pd.DataFrame:
        """Rows (block, label), columns (source, level), percent."""
        lines = {
            (block.heading, row.label): [row.values.get(column) for column in self.columns]
            for block in self.blocks
            for row in (*block.rows, *([block.delta] if block.delta else []))
        }
        columns = pd.MultiIndex.from_tuples(self.columns)
        frame = pd.DataFrame(list(lines.values()), columns=columns, dtype=float).round(1)
        frame.index = pd.MultiIndex.from_tuples(lines, names=["", "% pass@1"])
        return frame


def _each(rows: Sequence[Cells], reduce: Callable[[list[float]], float]) -> Cells:
    columns = dict.fromkeys(column for row in rows for column in row)
    found = {column: [row[column] for row in rows if column in row] for column in columns}
    return {column: reduce(values) for column, values in found.items()}


def over_seeds(label: str, rows: Sequence[Cells]) -> Row:
    """Mean and standard deviation of rows, one a seed."""
    spread = _each(rows, lambda values: float(np.std(values, ddof=1))) if len(rows) > 1 else {}
    return Row(label, _each(rows, lambda values: float(np.mean(values))), spread)


def delta_row(trained: Mapping[str, Row]) -> Row | None:
    """MicroCoder-GRPO minus the best other arm, cell by cell, from the printed (rounded) values."""
    others = [row.values for arm, row in trained.items() if arm != OURS and row.values]
    if OURS not in trained or not others:
        return None
    best = _each(others, lambda values: max(round(value, 1) for value in values))
    ours = trained[OURS].values
    return Row("Δ", {c: round(ours[c], 1) - best[c] for c in best if c in ours})


def run_cells(
    record: Record, length: int, kept: tuple[object, ...] | None
) -> tuple[Cells | None, Cells | None]:
    """One run's rows before training and at its end (the last window), None where not evaluated.

    Args:
        kept: how the evaluations that count were measured
            (:func:`mcbench.report.series.comparable`).
    """
    rows = evaluations(record, length, kept)
    if rows.empty:
        return None, None
    rows = rows.drop_duplicates("step", keep="last").sort_values("step")
    cells = [
        {(SOURCES.get(source, source), level): value for (source, level), value in one.items()}
        for one in (cells_of(problems, "form", "all") for problems in rows["per_problem"])
    ]
    steps = rows["step"].to_numpy()
    columns = dict.fromkeys(column for one in cells for column in one)
    curves = {c: np.array([one.get(c, np.nan) for one in cells]) for c in columns}
    end = {column: float(last_window(steps, curve)) for column, curve in curves.items()}
    return cells[0] if steps[0] == 0 else None, end if steps[-1] > 0 else None


def _trained_on(arms: Arms) -> str:
    """The length that all were trained at; empty where there are several."""
    configs = [record.config for runs in arms.values() for record in runs]
    limits = {one.max_completion_length for one in configs}
    if len(limits) > 1 or any(one.length_stages for one in configs):
        return ""
    return f"train on {limits.pop()}, "


def results_table(sizes: Mapping[str, Arms]) -> ScoreTable | None:
    """Our Table 1, at every maximum response length that was evaluated, the training length first.

    Rows are means over the finished runs of an arm. "Not trained" is the mean over the same seeds
    of each run's own evaluation at step 0. None where nothing was evaluated.

    Args:
        sizes: model name -> arms.
    """
    untrained: list[Row] = []
    blocks: list[Rows] = []
    for size, arms in sizes.items():
        lengths = eval_lengths(arms)
        for length in lengths:
            kept, _ = comparable(arms, length)
            base: dict[str, dict[int, list[Cells]]] = {}
            trained = {}
            for arm, style in arm_styles(arms).items():
                rows = []
                for record in arms[arm]:
                    start, end = run_cells(record, length, kept)
                    if record.meta.get("state") == "finished" and end:
                        rows.append(end)
                        if start:
                            seeds = base.setdefault(record.config.model, {})
                            seeds.setdefault(seed_of(record), []).append(start)
                note = unfinished(arms[arm])
                trained[arm] = over_seeds(f"{style.label} ({note})" if note else style.label, rows)
            for model, seeds in base.items():
                means = [over_seeds("", rows).values for rows in seeds.values()]
                name = size if len(base) == 1 else model
                untrained.append(over_seeds(f"{name} ({length})", means))
            heading = f"{size}, {_trained_on(arms)}test on {length} tokens"
            blocks.append(Rows(heading, list(trained.values()), delta_row(trained)))
    if not blocks:
        return None
    caption = (
        "These runs: pass@1 in percent, mean over the last quarter of the steps; ± is the standard "
        "deviation over seeds. Not trained: the same seeds before their first step."
    )
    return ScoreTable(
        caption,
        list(SOURCES.values()),
        [Rows("Not trained", untrained), *blocks],
    )


# The paper's -------------------------------------------------------------------------------------


ARMS = ("grpo", "grpo_plus", "microcoder")


def paper_table() -> ScoreTable:
    """The paper's Table 1 in the same shape."""
    styles = arm_styles(ARMS)
    untrained = [
        Row(f"{paper.MODELS[size]} ({length})", _cells(rows["not_trained"]))
        for (size, length), rows in paper.TABLE_1.items()
    ]
    blocks = [
        Rows(
            f"{size}, train on 4K, test on {length}",
            [Row(styles[arm].label, _cells(rows[arm])) for arm in ARMS],
            Row("Δ", _cells(rows["delta"])),
        )
        for (size, length), rows in paper.TABLE_1.items()
    ]
    return ScoreTable(
        "The paper: Table 1, percent, as printed; bold by us.",
        paper.SOURCES,
        [Rows("Not trained", untrained), *blocks],
    )


def _cells(values: Sequence[float], sources: Sequence[str] = paper.SOURCES) -> Cells:
    columns = [(source, level) for source in sources for level in LEVELS]
    return dict(zip(columns, values, strict=True))


def paper_rows() -> dict[str, Cells]:
    """The paper's Table 1 before training and after MicroCoder-GRPO, as rows of one evaluation's
    text table (:func:`mcbench.runs.scores.table_text`).
    """
    names = ("atcoder", "leetcode", "LiveCodeBench")  # as the benchmark calls its platforms
    return {
        f"paper: {name}, {length}": _cells(row, names)
        for (size, length), rows in paper.TABLE_1.items()
        for name, row in (
            (paper.MODELS[size], rows["not_trained"]),
            (f"{size} MicroCoder-GRPO", rows["microcoder"]),
        )
    }
