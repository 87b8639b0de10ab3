"""Code evaluator (paper §4, Fig. 6): E1-E4."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mcbench.claims.claim import register
from mcbench.claims.curves import REWARD
from mcbench.claims.evidence import Evidence, Part, Series, Term, gap
from mcbench.claims.margins import POINTS
from mcbench.claims.measurements import SUITE
from mcbench.claims.statistics import (
    Curve,
    Statistic,
    area_under_curve,
    estimate,
    mean_between,
)
from mcbench.errors import UserError

OURS, THEIRS = ARMS = ("microcoder", "livecodebench")
MIN_SOLUTIONS = 20
claim = partial(register, section="evaluator", experiment="code_evaluator", source="§4, Fig. 6")


@claim(
    "E1",
    "On solutions known to be right, the multi-strategy evaluator measures higher accuracy than "
    "the LiveCodeBench rules, without accepting wrong ones in return (here on the suite that it "
    "was debugged on).",
    (),
    seeds=0,
)
def labelled_set(evidence: Evidence) -> list[Part]:
    """Accepted share of right solutions, ours minus theirs; and, so that accepting everything is no
    gain, the same for accepted right minus accepted wrong solutions. Paired by solution: judging
    one is no matter of chance, which ones there are is, so solutions stand where seeds do.
    """
    table = evidence.table(SUITE)
    judged = table.pivot_table(index=["case", "right"], columns="rules", values="accepted")
    for rules in ARMS:
        if rules not in judged or judged[rules].isna().any():
            raise UserError(f"some labelled solutions were not judged under the rules {rules}")
    right = judged.index.get_level_values("right").to_numpy(dtype=bool)
    if min(right.sum(), (~right).sum()) < MIN_SOLUTIONS:
        raise UserError(
            f"at least {MIN_SOLUTIONS} right and as many wrong solutions are needed, got "
            f"{right.sum()} and {(~right).sum()}"
        )
    judged = 100 * judged[list(ARMS)].astype(float)
    gaps = (judged[OURS] - judged[THEIRS]).to_numpy()
    # The mean of these is the mean gap of right ones minus the mean gap of wrong ones.
    signed = gaps * np.where(right, 1 / right.mean(), -1 / (~right).mean())
    shares = [judged[rows].mean() for rows in (right, ~right)]
    text = [f"{share[OURS]:.1f} % against {share[THEIRS]:.1f} %" for share in shares]
    return [
        Part(f"right solutions accepted ({text[0]})", estimate(gaps[right]), POINTS),
        Part(f"right minus wrong accepted (wrong: {text[1]})", estimate(signed), POINTS),
    ]


@claim("E2", "Training reward is higher under the multi-strategy evaluator.", ARMS)
def training_reward(evidence: Evidence) -> list[Part]:
    """Mean reward over the run, ours minus theirs, paired by seed."""
    return [evidence.difference("reward", POINTS, REWARD, ARMS, area_under_curve)]


@claim(
    "E3",
    "Under the multi-strategy evaluator test accuracy rises faster and ends higher.",
    ARMS,
)
def test_accuracy(evidence: Evidence) -> list[Part]:
    """Area under the pass@1 curve ("faster") and last-window pass@1 ("higher"), ours minus theirs,
    paired by seed and problem.
    """
    return [
        *evidence.accuracy_parts("mean pass@1", gap(OURS, THEIRS, area_under_curve), shape=True),
        *evidence.accuracy_parts("pass@1 at the end", gap(OURS, THEIRS)),
    ]


def _third(number: int) -> Statistic:
    """Mean over a third of the steps after the first point, which is the untrained model."""

    def mean(x: np.ndarray, y: Curve) -> np.ndarray:
        done = (x - x[0]) / (x[-1] - x[0])
        return mean_between(done, y, number / 3, (number + 1) / 3)

    return mean


@claim("E4", "The accuracy gap between the two evaluators is largest early in training.", ARMS)
def early_gap(evidence: Evidence) -> list[Part]:
    """The gap in pass@1, ours minus theirs: in the first third of training, and how much larger it
    is there than in the last third.
    """

    first, last = gap(OURS, THEIRS, _third(0)), gap(THEIRS, OURS, _third(2))

    def both(of: Callable[[str], Series], end: Statistic) -> list[Term]:
        return [*first(of, end), *last(of, end)]

    return [
        *evidence.accuracy_parts("gap in the first third", first, shape=True),
        *evidence.accuracy_parts("gap in the first third minus the last", both, shape=True),
    ]
