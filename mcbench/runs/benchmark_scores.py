"""Scores of an evaluation on a benchmark: pass@k with intervals, and the paper's Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcbench.claims.statistics import resample_problems
from mcbench.data.benchmarks import Benchmark
from mcbench.errors import UserError
from mcbench.runs.benchmark_run import BenchmarkRun
from mcbench.runs.evaluate import EvalResult, pass_at_k
from mcbench.runs.score_table import Cells, cells_of

_RESAMPLES = 2000


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
    values = np.array(
        [
            pass_at_k(row["attempts"], row["passes"], k)
            for row in per_problem
            if row["attempts"] >= k
        ]
    )
    if not len(values):
        raise UserError(f"no problem has {k} judged attempts, which pass@{k} needs")
    means = resample_problems(len(values), _RESAMPLES) @ values
    low, high = np.quantile(means, [0.025, 0.975])
    return Score(k, float(values.mean()), float(low), float(high), len(values))


def summary(run: BenchmarkRun, result: EvalResult) -> list[str]:
    """One evaluation at one length for people: scores with intervals, lengths, what was lost."""
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= run.settings.attempts]
    scores = [score(result.per_problem, k) for k in ks]
    texts = [f"pass@{s.k} {s.value:.1%} ({s.low:.1%} to {s.high:.1%})" for s in scores]
    length = result.max_completion_length
    lines = [
        f"{run.settings.model} on {run.settings.benchmark}, {len(result.per_problem)} problems x "
        f"{result.attempts} attempts, up to {length} tokens, temperature {result.temperature:g}:",
        "  " + ", ".join(texts) + "; 95 % intervals over problems",
        f"  mean length {result.mean_length:.0f}, truncated {result.truncated_share:.1%}",
    ]
    if lost := sum(result.attempts - row["attempts"] for row in result.per_problem):
        lines.append(f"  {lost} attempts are not counted: the evaluator itself failed on them")
    if run.problems.refused:
        count = len(run.problems.refused)
        lines.append(f"  {count} published problems or tests were left out, the first:")
        lines.append(f"  {run.problems.refused[0]}")
    return lines


def table_cells(benchmark: Benchmark, result: EvalResult) -> Cells:
    """The row of one evaluation; sources are platforms, and in the nano world forms."""
    column = "form" if benchmark.adapter == "nano" else "kind"
    return cells_of(result.per_problem, column, benchmark.title)
