"""The statistics of eight claims that no formula over arms says: T1, T2, T4, T10, E1, K2, Q3, Q8.

Axis letters: S seeds, N points of a curve, T temperatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import stats

from mcbench.claims.contrast import Contrast
from mcbench.claims.curves import ALL_ENTROPY, CLIPPED, DIVERSITY, REWARD
from mcbench.claims.evidence import Evidence, Part, Series, difference
from mcbench.claims.margins import CLIPPED as CLIPPED_TOKENS
from mcbench.claims.margins import DISTINCT, DISTINCT_SLOPE, NATS, POINTS, RANK, TEMPERATURE
from mcbench.claims.measurements import GRID, SUITE, table_of
from mcbench.claims.statistics import (
    Statistic,
    area_under_curve,
    drop_from_peak,
    estimate,
    first_window,
    growth,
    held_out_peak,
    last_window,
    mean_between,
    slope,
    smooth,
)
from mcbench.errors import UserError

# T1 and T2: checkpoints measured over temperature ------------------------------------------------

HOLDS = 0.9  # accuracy holds at a temperature: this share of the checkpoint's best on the grid


def _grids(evidence: Evidence, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Checkpoint steps (N,), temperatures (T,), and the measured values (S, N, T).

    Raises:
        UserError: some seed lacks a checkpoint or temperature that another has.
    """
    table = table_of(evidence.measurements, GRID, evidence.experiment)
    wide = table.pivot_table(index=["seed", "step"], columns="temperature", values=column)
    seeds, steps = (sorted(set(wide.index.get_level_values(name))) for name in ("seed", "step"))
    full = wide.reindex(pd.MultiIndex.from_product([seeds, steps]))
    if full.isna().to_numpy().any() or len(steps) < 2 or full.shape[1] < 3:
        raise UserError(
            "every seed needs the same two or more checkpoints at the same three or more "
            "temperatures"
        )
    values = full.to_numpy(dtype=float).reshape(len(seeds), len(steps), -1)
    return np.array(steps, float), full.columns.to_numpy(dtype=float), values


def _bound(temperatures: np.ndarray, accuracy: np.ndarray) -> float:
    """The highest temperature up to which accuracy (T,) holds, between grid points by a line."""
    best = int(accuracy.argmax())
    floor = HOLDS * accuracy[best]
    under = np.flatnonzero(accuracy[best:] < floor)
    if not len(under):
        return float(temperatures[-1])
    at = best + int(under[0])
    share = (accuracy[at - 1] - floor) / (accuracy[at - 1] - accuracy[at])
    return float(temperatures[at - 1] + share * (temperatures[at] - temperatures[at - 1]))


def stable_bound(evidence: Evidence) -> list[Part]:
    """T1: growth of the bound over the checkpoints, one value a seed."""
    steps, temperatures, accuracy = _grids(evidence, "accuracy")
    bounds = np.array([[_bound(temperatures, row) for row in seed] for seed in accuracy])
    return [Part("growth of the stable bound", estimate(growth(steps, bounds)), TEMPERATURE)]


def diversity_slope(evidence: Evidence) -> list[Part]:
    """T2: slope of Distinct-4 over temperature, on every checkpoint."""
    steps, temperatures, diversity = _grids(evidence, "distinct_4")
    slopes = slope(temperatures, diversity)
    return [
        Part(f"slope at step {step:.0f}", estimate(slopes[:, index]), DISTINCT_SLOPE)
        for index, step in enumerate(steps)
    ]


# T4 and T10: arms that the runs choose, and a distance -------------------------------------------


def low_start_fails(evidence: Evidence) -> list[Part]:
    """T4: the arms that start below what the others end with are chosen by the runs."""
    arms = list(evidence.arms)
    diversity = {arm: evidence.logged(arm, DIVERSITY) for arm in arms}
    start = {arm: one.take(first_window).mean() for arm, one in diversity.items()}
    end = {arm: one.take(last_window).mean() for arm, one in diversity.items()}
    target = {arm: np.mean([end[other] for other in arms if other != arm]) for arm in arms}
    low = ", ".join(arm for arm in arms if start[arm] < target[arm])
    if not low:
        pairs = ", ".join(f"{arm} {start[arm]:.2f} / {target[arm]:.2f}" for arm in arms)
        raise UserError(f"no arm starts below the diversity that the others end with ({pairs})")
    lost = Contrast("diversity", f"diversity lost by {low}", f"start({low}) - end({low})")
    fallen = Contrast("pass@1", f"pass@1 fall of {low}", f"fall({low})")
    return [*lost.parts(evidence), *fallen.parts(evidence)]


def ramps_destabilise(evidence: Evidence) -> list[Part]:
    """T10: one distance a seed from the end of T = 1.8 all along."""
    arms = ("ramp_06_18", "step_06_18", "t_18")
    ramp, step, hot = (evidence.logged(arm, DIVERSITY).take(last_window) for arm in arms)
    shift = estimate(np.abs(ramp - hot) - np.abs(step - hot))
    return [Part("shift of diversity, ramp minus jump", shift, DISTINCT)]


# E1: labelled solutions in place of runs ---------------------------------------------------------

OURS, THEIRS = RULES = ("microcoder", "livecodebench")
MIN_SOLUTIONS = 20


def labelled_set(evidence: Evidence) -> list[Part]:
    """E1: solutions stand where seeds do."""
    table = table_of(evidence.measurements, SUITE, evidence.experiment)
    judged = table.pivot_table(index=["case", "right"], columns="rules", values="accepted")
    for rules in RULES:
        if rules not in judged or judged[rules].isna().any():
            raise UserError(f"some labelled solutions were not judged under the rules {rules}")
    right = judged.index.get_level_values("right").to_numpy(dtype=bool)
    if min(right.sum(), (~right).sum()) < MIN_SOLUTIONS:
        raise UserError(
            f"at least {MIN_SOLUTIONS} right and as many wrong solutions are needed, got "
            f"{right.sum()} and {(~right).sum()}"
        )
    judged = 100 * judged[list(RULES)].astype(float)
    gaps = (judged[OURS] - judged[THEIRS]).to_numpy()
    # The mean of these is the mean gap of right ones minus the mean gap of wrong ones.
    signed = gaps * np.where(right, 1 / right.mean(), -1 / (~right).mean())
    shares = [judged[rows].mean() for rows in (right, ~right)]
    text = [f"{share[OURS]:.1f} % against {share[THEIRS]:.1f} %" for share in shares]
    return [
        Part(f"right solutions accepted ({text[0]})", estimate(gaps[right]), POINTS),
        Part(f"right minus wrong accepted (wrong: {text[1]})", estimate(signed), POINTS),
    ]


# K2: one curve at the place of another's peak ----------------------------------------------------


def loss_before_fall(evidence: Evidence) -> list[Part]:
    """K2: diversity lost before and after the place at which the other seeds' pass@1 peaks."""
    (arm,) = evidence.arms
    accuracy, diversity = evidence.accuracy(arm, shape=True), evidence.logged(arm, DIVERSITY)
    steps = accuracy.x[accuracy.take(held_out_peak)]
    smoothed = diversity.take(smooth)
    at_peak = np.array(
        [np.interp(step, diversity.x, y) for step, y in zip(steps, smoothed, strict=True)]
    )
    before = estimate(diversity.take(first_window) - at_peak, held_out=True)
    after = estimate(at_peak - diversity.take(last_window), held_out=True)
    return [
        Part("diversity lost before the peak of pass@1", before, DISTINCT),
        Part("diversity lost after it", after, DISTINCT),
    ]


# Q3: a rank correlation over arms ----------------------------------------------------------------

SO_FAR = (0.25, 0.5, 0.75)  # shares of the training after which one looks
NAMES = {
    **{f"diversity/distinct_{n}": f"Distinct-{n}" for n in (1, 2, 3, 4)},
    "diversity/self_bleu": "self-BLEU",
    "diversity/unique_programs": "unique programs",
    ALL_ENTROPY: "token entropy",
}


def _loss_until(share: float, column: str) -> Statistic:
    """Relative loss of diversity from the first window to the tenth of training before a share."""
    sign = -1 if column == "diversity/self_bleu" else 1  # it rises where diversity falls

    def loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        done = (x - x[0]) / (x[-1] - x[0])
        start = first_window(x, y)
        return sign * (start - mean_between(done, y, share - 0.1, share)) / np.abs(start)

    return loss


def early_warning(evidence: Evidence) -> list[Part]:
    """Q3: of the loss of a measure so far with the drop of pass@1, one value a seed."""
    arms = list(evidence.arms)
    drops = np.stack([evidence.accuracy(arm, shape=True).take(drop_from_peak) for arm in arms])
    found = []
    for share in SO_FAR:
        for column, said in NAMES.items():
            loss = _loss_until(share, column)
            losses = np.stack([evidence.logged(arm, column).take(loss) for arm in arms])
            values = np.array([_spearman(a, b) for a, b in zip(losses.T, drops.T, strict=True)])
            name = f"{said} after {share:.0%} of training"
            found.append(Part(name, estimate(values), RANK))
    return found


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(stats.spearmanr(a, b).statistic)


# Q8: the last update of each generation ----------------------------------------------------------


def _clipped(evidence: Evidence, arm: str) -> tuple[Series, Series]:
    """Share of clipped tokens in percent: over all updates, and over each generation's last one."""
    every = evidence.logged(arm, CLIPPED).percent()
    begins = evidence.logged(arm, REWARD).x
    last = np.isin(every.x, np.append(begins[1:] - 1, every.x[-1]))
    return every, Series(every.x[last], every.y[:, last])


def off_policy(evidence: Evidence) -> list[Part]:
    """Q8: from each batch size to the next."""
    curves = {
        arm: (*_clipped(evidence, arm), evidence.logged(arm, ALL_ENTROPY)) for arm in evidence.arms
    }
    last_clipped = "tokens clipped in the last update of a generation"
    return [
        difference(
            f"{name}, {arm} to {larger}", unit, curves[larger][place], curves[arm][place], statistic
        )
        for place, (name, unit, statistic) in enumerate(
            [
                ("tokens clipped", CLIPPED_TOKENS, area_under_curve),
                (last_clipped, CLIPPED_TOKENS, area_under_curve),
                ("entropy at the end", NATS, last_window),
            ]
        )
        for arm, larger in pairwise(evidence.arms)
    ]


PARTS: Mapping[str, Callable[[Evidence], list[Part]]] = {
    one.__name__: one
    for one in (
        *(stable_bound, diversity_slope, low_start_fails, ramps_destabilise),
        *(labelled_set, loss_before_fall, early_warning, off_policy),
    )
}
"""By name, as rows name them."""
