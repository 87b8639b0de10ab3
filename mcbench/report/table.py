"""Table 1: pass@1 by problem source and difficulty, before and after training with each recipe.

Columns are the paper's: AtCoder, LeetCode, both together (LiveCodeBench), each Easy, Medium, Hard,
All. Our columns follow the form of the problem, which is what separates the two sources: programs
that read standard input (AtCoder) and methods of ``class Solution`` (LeetCode).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from mcbench.errors import UserError
from mcbench.report import paper
from mcbench.report.series import Arms, Record, eval_lengths
from mcbench.report.style import arm_styles

OUR_SOURCES = ("AtCoder-like (stdin)", "LeetCode-like (call)", "Both")
LEVELS = paper.LEVELS
OURS = "microcoder"  # the row that Δ compares with the best of the other trained rows
WINDOW = 3  # evaluations; a single checkpoint, let alone the best one, flatters noisy curves

FORMS: tuple[str | None, ...] = ("stdin", "call", None)
DIFFICULTIES: tuple[str | None, ...] = ("easy", "medium", "hard", None)


@dataclass(frozen=True)
class Row:
    """Twelve values in percent (None: no such problems) and their spread over seeds."""

    label: str
    values: tuple[float | None, ...]
    spread: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Block:
    """Rows under one heading; ``delta`` is MicroCoder-GRPO minus the best other trained row."""

    heading: str
    rows: tuple[Row, ...]
    delta: Row | None = None


@dataclass(frozen=True)
class Table:
    """The whole table: three column groups of four levels each."""

    sources: Sequence[str]
    blocks: tuple[Block, ...]


def cell_means(per_problem: Iterable[Mapping[str, Any]]) -> tuple[float | None, ...]:
    """pass@1 in percent for the twelve columns: the mean over problems of passes / attempts.

    A problem without a judged attempt (the evaluator itself failed) is left out.
    """
    problems = [problem for problem in per_problem if problem["attempts"]]
    values: list[float | None] = []
    for form in FORMS:
        for difficulty in DIFFICULTIES:
            rates = [
                problem["passes"] / problem["attempts"]
                for problem in problems
                if form in (None, problem["form"]) and difficulty in (None, problem["difficulty"])
            ]
            values.append(100.0 * float(np.mean(rates)) if rates else None)
    return tuple(values)


def _evals(record: Record, length: int) -> pd.DataFrame:
    if record.evals.empty:
        return record.evals
    rows = record.evals[record.evals["max_completion_length"] == length]
    return rows.sort_values("step", kind="stable")


def trained_cells(record: Record, length: int, window: int) -> tuple[float | None, ...] | None:
    """One run's values: each cell's mean over the last ``window`` evaluations after step 0."""
    rows = _evals(record, length)
    if rows.empty:
        return None
    rows = rows[rows["step"] > 0].tail(window)
    return _mean_rows([cell_means(value) for value in rows["per_problem"]])


def base_cells(record: Record, length: int) -> tuple[float | None, ...] | None:
    """The values of the model before training, from the evaluation at step 0."""
    rows = _evals(record, length)
    if rows.empty or not (rows["step"] == 0).any():
        return None
    return cell_means(rows[rows["step"] == 0]["per_problem"].iloc[0])


def _columnwise(
    rows: Sequence[tuple[float | None, ...]], reduce: Callable[[np.ndarray], float]
) -> tuple[float | None, ...]:
    columns = [[v for v in column if v is not None] for column in zip(*rows, strict=True)]
    return tuple(reduce(np.array(column)) if column else None for column in columns)


def _mean_rows(rows: Sequence[tuple[float | None, ...]]) -> tuple[float | None, ...] | None:
    return _columnwise(rows, lambda column: float(column.mean())) if rows else None


def _row_over_seeds(label: str, rows: Sequence[tuple[float | None, ...]]) -> Row | None:
    mean = _mean_rows(rows)
    if mean is None:
        return None
    spread: tuple[float | None, ...] = ()
    if len(rows) > 1:
        spread = _columnwise(rows, lambda column: float(column.std(ddof=1)))
    return Row(label, mean, spread)


def delta_row(trained: Mapping[str, Row]) -> Row | None:
    """MicroCoder-GRPO minus the best baseline, cell by cell, from the printed (rounded) values."""
    baselines = [row for arm, row in trained.items() if arm != OURS]
    if OURS not in trained or not baselines:
        return None
    values: list[float | None] = []
    for index, ours in enumerate(trained[OURS].values):
        others = [row.values[index] for row in baselines]
        known = [round(value, 1) for value in others if value is not None]
        values.append(None if ours is None or not known else round(ours, 1) - max(known))
    return Row("Δ", tuple(values))


def results_table(sizes: Mapping[str, Arms], window: int = WINDOW) -> Table:
    """Our Table 1, at every maximum response length that was evaluated, the training length first.

    Args:
        sizes: model name -> arms.
        window: how many of the last evaluations are averaged.

    Raises:
        UserError: the runs hold no evaluation.
    """
    untrained: list[Row] = []
    blocks: list[Block] = []
    for size, arms in sizes.items():
        lengths = eval_lengths(arms)
        for length in lengths:
            first = [base_cells(record, length) for records in arms.values() for record in records]
            base = [cells for cells in first if cells is not None]
            if base:
                untrained.append(Row(f"{size} ({length})", base[0]))
            trained = _trained_rows(arms, length, window)
            heading = f"{size}, train on {lengths[0]}, test on {length} tokens"
            blocks.append(Block(heading, tuple(trained.values()), delta_row(trained)))
    if not blocks:
        raise UserError("the runs hold no evaluation, so there is no table to build")
    return Table(OUR_SOURCES, (Block("Not trained", tuple(untrained)), *blocks))


def _trained_rows(arms: Arms, length: int, window: int) -> dict[str, Row]:
    styles = arm_styles(arms)
    rows = {}
    for arm, records in arms.items():
        cells = [trained_cells(record, length, window) for record in records]
        row = _row_over_seeds(styles[arm].label, [values for values in cells if values is not None])
        if row:
            rows[arm] = row
    return rows


def paper_table() -> Table:
    """The paper's Table 1 in the same shape."""
    styles = arm_styles(("grpo", "grpo_plus", "microcoder"))
    untrained = tuple(
        Row(f"{paper.MODELS[size]} ({length})", values)
        for (size, length), values in paper.NOT_TRAINED.items()
    )
    blocks = [
        Block(
            f"{size}, train on 4K, test on {length}",
            tuple(Row(styles[arm].label, values) for arm, values in rows.items()),
            Row("Δ", paper.DELTA[size, length]),
        )
        for (size, length), rows in paper.TRAINED.items()
    ]
    return Table(paper.SOURCES, (Block("Not trained", untrained), *blocks))


def to_frame(table: Table) -> pd.DataFrame:
    """The table for a notebook: rows (block, label), columns (source, level), percent."""
    columns = pd.MultiIndex.from_product([table.sources, LEVELS])
    rows, index = [], []
    for block in table.blocks:
        for row in (*block.rows, *([block.delta] if block.delta else [])):
            rows.append(row.values)
            index.append((block.heading, row.label))
    frame = pd.DataFrame(rows, columns=columns, dtype=float)
    frame.index = pd.MultiIndex.from_tuples(index, names=["", "% pass@1"])
    return frame.round(1)


def _cell(value: float | None, spread: float | None, *, signed: bool, best: bool) -> str:
    if value is None:
        return '<td class="none">–</td>'
    text = f"{value:+.1f}".replace("-", "−") if signed else f"{value:.1f}"
    if signed and abs(value) < 0.05:
        text = "0.0"
    kind = "up" if signed and value >= 0.05 else "down" if signed and value <= -0.05 else ""
    inner = f"<b>{text}</b>" if best else text
    if spread is not None:
        inner += f"<small>±{spread:.1f}</small>"
    return f'<td class="{kind}">{inner}</td>' if kind else f"<td>{inner}</td>"


def _row_html(row: Row, best: Sequence[float | None], *, signed: bool = False) -> str:
    spread = row.spread or (None,) * len(row.values)
    cells = "".join(
        _cell(
            value,
            half,
            signed=signed,
            best=not signed and value is not None and top is not None and round(value, 1) == top,
        )
        for value, half, top in zip(row.values, spread, best, strict=True)
    )
    kind = ' class="delta"' if signed else ""
    return f'<tr{kind}><th scope="row">{escape(row.label)}</th>{cells}</tr>'


def to_html(table: Table, caption: str) -> str:
    """The table as HTML; in each trained block the best value of a column is bold."""
    span = len(LEVELS)
    heads = "".join(
        f'<th colspan="{span}" scope="colgroup">{escape(s)}</th>' for s in table.sources
    )
    levels = "".join(f'<th scope="col">{level}</th>' for level in LEVELS) * len(table.sources)
    width = span * len(table.sources)
    body = []
    for block in table.blocks:
        heading = f'<th colspan="{width + 1}" scope="rowgroup">{escape(block.heading)}</th>'
        rows = [row.values for row in block.rows] if block.delta else []
        best = _columnwise(rows, lambda c: round(float(c.max()), 1)) or (None,) * width
        lines = [_row_html(row, best) for row in block.rows]
        if block.delta:
            lines.append(_row_html(block.delta, best, signed=True))
        body.append(f'<tbody><tr class="block">{heading}</tr>{"".join(lines)}</tbody>')
    return (
        f'<div class="scroll"><table class="results"><caption>{escape(caption)}</caption>'
        f"<thead><tr><td></td>{heads}</tr><tr><td></td>{levels}</tr></thead>"
        f"{''.join(body)}</table></div>"
    )
