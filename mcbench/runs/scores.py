"""Scores of an evaluation: pass@k with intervals, and pass@1 by source and level, in the shape of
the paper's Table 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcbench.errors import UserError

_RESAMPLES = 2000


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass@k from ``n`` attempts of which ``c`` passed (Chen et al. 2021).

    1 - C(n-c, k) / C(n, k).

    Raises:
        UserError: k above n, or numbers that cannot be.
    """
    if not 1 <= k <= n:
        raise UserError(f"pass@{k} needs 1 <= k <= attempts, and there are {n} attempts")
    if not 0 <= c <= n:
        raise UserError(f"{c} of {n} attempts cannot have passed")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at(per_problem: Sequence[Mapping[str, Any]], k: int) -> float:
    """Mean over problems of the unbiased pass@k; problems without a judged attempt are left out."""
    judged = [row for row in per_problem if row["attempts"]]
    if not judged:
        return float("nan")
    return float(np.mean([pass_at_k(row["attempts"], row["passes"], k) for row in judged]))


@dataclass(frozen=True)
class EvalResult:
    """One evaluation at one length.

    ``per_problem`` has one dict a problem: id, form, difficulty, kind, passes, attempts (the number
    that was judged: attempts lost to an infrastructure failure do not count).
    """

    max_completion_length: int
    temperature: float
    attempts: int
    pass_at_1: float
    mean_length: float
    truncated_share: float
    distinct_4: float
    per_problem: tuple[dict[str, Any], ...]
    distinct_4_first: float = math.nan
    unique_programs: float = math.nan
    parts: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The line of evals.jsonl, less step and data set."""
        row = {**vars(self), "per_problem": list(self.per_problem)}
        return row if self.parts else {name: row[name] for name in row if name != "parts"}


def accuracy_by_step(lines: Iterable[Mapping[str, Any]], temperature: float) -> dict[int, float]:
    """pass@1 by update, of a run's evaluations as its record has them: at the shortest length that
    was evaluated, the training length, at the run's own temperature and on the problems that were
    asked first, which are all.
    """
    known = [line for line in lines if line.get("pass_at_1") is not None]
    shortest = min((line["max_completion_length"] for line in known), default=0)
    known = [
        line
        for line in known
        if line["max_completion_length"] == shortest
        and line.get("temperature") in (None, temperature)
    ]
    first = known[0].get("dataset_hash") if known else None
    return {one["step"]: one["pass_at_1"] for one in known if one.get("dataset_hash") == first}


@dataclass(frozen=True)
class Score:
    """pass@k in [0, 1], mean over problems, with its 95 % interval."""

    k: int
    value: float
    low: float
    high: float
    problems: int


def score(per_problem: Sequence[Mapping[str, Any]], k: int = 1) -> Score:
    """Unbiased pass@k with an interval from resampling problems with their attempts.

    The interval is about other problems of the kind and other attempts at them. Problems with fewer
    than k judged attempts are left out.

    Raises:
        UserError: no problem has k judged attempts.
    """
    enough = [row for row in per_problem if row["attempts"] >= k]
    if not enough:
        raise UserError(f"no problem has {k} judged attempts, which pass@{k} needs")
    values = np.array([pass_at_k(row["attempts"], row["passes"], k) for row in enough])
    count = len(values)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _RESAMPLES)
    low, high = np.quantile(drawn @ values / count, [0.025, 0.975])
    return Score(k, float(values.mean()), float(low), float(high), count)


def summary(result: EvalResult) -> list[str]:
    """One evaluation at one length for people: scores with intervals, lengths, what was lost."""
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= result.attempts]
    rows = result.per_problem
    scores = [score(rows, k) for k in ks if any(row["attempts"] >= k for row in rows)]
    texts = [f"pass@{s.k} {s.value:.1%} ({s.low:.1%} to {s.high:.1%})" for s in scores]
    lines = [
        f"up to {result.max_completion_length} tokens: {', '.join(texts) or 'nothing was judged'}; "
        "95 % intervals over problems",
        f"  mean length {result.mean_length:.0f}, truncated {result.truncated_share:.1%}, "
        f"Distinct-4 {result.distinct_4:.3f}",
    ]
    if lost := sum(result.attempts - row["attempts"] for row in rows):
        lines.append(f"  {lost} attempts are not counted: the evaluator itself failed on them")
    return lines


# The shape of the paper's Table 1 ----------------------------------------------------------------

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
