"""What an arm's sampling reaches: pass@k and the problems it gains and loses by training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mcbench.report.page import Panel
from mcbench.report.series import Arms, Record, comparable, eval_lengths, evaluations
from mcbench.report.style import arm_styles
from mcbench.runs.scores import mean_pass_at

MOST = 8  # k of pass@k, where there are as many attempts


@dataclass(frozen=True)
class Reach:
    """Percent of the problems: ``covered`` by some attempt at the end, and ``gained`` and ``lost``
    against the model before training at as many attempts; ``pass_at`` the unbiased pass@k.
    """

    k: int
    pass_at: float
    covered: float
    gained: float
    lost: float


def reach(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Reach | None:
    """From two evaluations (``per_problem``) with equal attempts on the same problems; None where
    they have none in common.

    A problem counts as solved when any of its attempts passes.
    """
    start = {row["id"]: row for row in before if row["attempts"]}
    end = {row["id"]: row for row in after if row["attempts"]}
    shared = sorted(start.keys() & end.keys())
    if not shared:
        return None
    k = min(MOST, *(row[one]["attempts"] for row in (start, end) for one in shared))
    solved = np.array([[rows[one]["passes"] > 0 for one in shared] for rows in (start, end)])
    return Reach(
        k=k,
        pass_at=100 * mean_pass_at([end[one] for one in shared], k),
        covered=100 * float(solved[1].mean()),
        gained=100 * float((solved[1] & ~solved[0]).mean()),
        lost=100 * float((solved[0] & ~solved[1]).mean()),
    )


def _of_run(record: Record, length: int, kept: tuple[object, ...] | None) -> Reach | None:
    """The first evaluation of a run against its last, of those with the most problems."""
    rows = evaluations(record, length, kept)
    if rows.empty:
        return None
    problems = rows["per_problem"].map(len)
    whole = rows[problems == problems.max()].sort_values("step")
    steps = whole["step"].tolist()
    if steps[0] != 0 or len(steps) < 2:
        return None
    return reach(whole["per_problem"].iloc[0], whole["per_problem"].iloc[-1])


def coverage(arms: Arms) -> Panel:
    """By arm and length, mean over seeds: pass@k, and which problems an arm gains and loses."""
    rows = []
    for length in eval_lengths(arms):
        kept, _ = comparable(arms, length)
        for arm, style in arm_styles(arms).items():
            runs = [one for r in arms[arm] if (one := _of_run(r, length, kept))]
            if runs:
                k = min(one.k for one in runs)
                rows.append(
                    {
                        "Arm": style.label,
                        "Tokens": length,
                        "Seeds": len(runs),
                        f"pass@{k} at the end (%)": _mean([one.pass_at for one in runs]),
                        "solved by any attempt (%)": _mean([one.covered for one in runs]),
                        "gained (%)": _mean([one.gained for one in runs]),
                        "lost (%)": _mean([one.lost for one in runs]),
                    }
                )
    return Panel(
        "Coverage: problems gained and lost",
        "Of the held-out problems, those that some attempt solves after the last update, and those "
        "that it solves only then (gained) or that only the model before training solved (lost), "
        "at as many attempts. With few attempts a problem near the edge comes and goes by chance, "
        "also without training; compare the arms.",
        data=pd.DataFrame(rows),
        missing="" if rows else "Not recorded: an evaluation before and one after training.",
    )


def _mean(values: list[float]) -> float:
    return round(float(np.mean(values)), 1)
