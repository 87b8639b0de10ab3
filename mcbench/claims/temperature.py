"""Temperature (paper §2.4, Fig. 3): T1-T10."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from mcbench.claims.claim import register
from mcbench.claims.evidence import Evidence, Part, alone, difference, gap, mean_of, part, trend_of
from mcbench.claims.margins import DISTINCT, DISTINCT_SLOPE, TEMPERATURE
from mcbench.claims.measurements import GRID
from mcbench.claims.statistics import (
    Curve,
    estimate,
    fall_from_peak,
    first_window,
    growth,
    last_window,
    slope,
)
from mcbench.errors import UserError

CONSTANT, TEMPERATURES = ("t_06", "t_10", "t_12", "t_18"), (0.6, 1.0, 1.2, 1.8)
COLD, USUAL, HOT = "t_06", "t_12", "t_18"  # 1.2 is the paper's default
HOLDS = 0.9  # accuracy holds at a temperature: this share of the checkpoint's best on the grid
LITTLE = 5.0  # points of pass@1 that are "little effect"
claim = partial(register, section="temperature", experiment="temperature", source="§2.4, Fig. 3")


def _grids(evidence: Evidence, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Checkpoint steps (N,), temperatures (T,), and the measured values (S, N, T).

    Raises:
        UserError: some seed lacks a checkpoint or temperature that another has.
    """
    table = evidence.table(GRID)
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


@claim("T1", "The highest temperature at which accuracy holds grows during training.", ())
def stable_bound(evidence: Evidence) -> list[Part]:
    """The highest temperature at which a checkpoint keeps 90 % of its best accuracy over the grid:
    growth over the checkpoints by the slope, one value a seed.
    """
    steps, temperatures, accuracy = _grids(evidence, "accuracy")
    bounds = np.array([[_bound(temperatures, row) for row in seed] for seed in accuracy])
    return [Part("growth of the stable bound", estimate(growth(steps, bounds)), TEMPERATURE)]


@claim("T2", "Higher temperature gives higher output diversity.", ())
def diversity_slope(evidence: Evidence) -> list[Part]:
    """Slope of Distinct-4 over temperature, above 0 on every checkpoint."""
    steps, temperatures, diversity = _grids(evidence, "distinct_4")
    slopes = slope(temperatures, diversity)
    return [
        Part(f"slope at step {step:.0f}", estimate(slopes[:, index]), DISTINCT_SLOPE)
        for index, step in enumerate(steps)
    ]


@claim("T3", "At a fixed temperature diversity falls as training goes on.", CONSTANT)
def diversity_falls(evidence: Evidence) -> list[Part]:
    """Fall of diversity over the run by the slope, in every constant arm."""
    return [
        one
        for arm in CONSTANT
        for one in evidence.diversity_parts(f"fall at {arm}", alone(arm, growth, -1.0))
    ]


@claim(
    "T4",
    "When initial diversity is below the value it converges to elsewhere, it keeps falling and "
    "training fails.",
    CONSTANT,
)
def low_start_fails(evidence: Evidence) -> list[Part]:
    """Arms whose first-window Distinct-4 is below D*, the mean last-window value of the other
    constant arms (both means over seeds): on average over these arms diversity falls further, and
    pass@1 falls from its peak, whose place is found on the other seeds.
    """
    diversity = {arm: evidence.diversity(arm) for arm in CONSTANT}
    start = {arm: first_window(one.x, one.y).mean() for arm, one in diversity.items()}
    end = {arm: last_window(one.x, one.y).mean() for arm, one in diversity.items()}
    target = {arm: np.mean([end[other] for other in CONSTANT if other != arm]) for arm in CONSTANT}
    low = [arm for arm in CONSTANT if start[arm] < target[arm]]
    if not low:
        pairs = ", ".join(f"{arm} {start[arm]:.2f} / {target[arm]:.2f}" for arm in CONSTANT)
        raise UserError(f"no arm starts below the diversity that the others end with ({pairs})")
    return [
        *evidence.diversity_parts(
            f"diversity lost by {', '.join(low)}",
            lambda of, _: [
                *mean_of([of(arm) for arm in low], first_window),
                *mean_of([of(arm) for arm in low], last_window, -1),
            ],
        ),
        *evidence.accuracy_parts(
            f"pass@1 fall of {', '.join(low)}",
            lambda of, _: mean_of([of(arm) for arm in low], fall_from_peak),
            shape=True,
        ),
    ]


@claim("T5", "The conventional T = 0.6 fails.", (COLD,))
def cold_fails(evidence: Evidence) -> list[Part]:
    """Fall of pass@1 at T = 0.6 from its peak, whose place is found on the other seeds."""
    return evidence.accuracy_parts(
        "pass@1 fall at T = 0.6", alone(COLD, fall_from_peak), shape=True
    )


@claim("T6", "T = 1.8 trains stably with little effect on the final value.", (USUAL, HOT))
def hot_is_stable(evidence: Evidence) -> list[Part]:
    """At T = 1.8 pass@1 falls less than 5 points from its peak (place found on the other seeds),
    and its last window is within 5 points of that at T = 1.2, both ways.
    """
    return [
        *evidence.accuracy_parts(
            "fall from the peak stays under 5 by",
            alone(HOT, fall_from_peak, -1.0),
            shape=True,
            constant=LITTLE,
            threshold=True,
        ),
        *evidence.accuracy_parts(
            "T = 1.8 above T = 1.2 less 5, at the end",
            gap(HOT, USUAL),
            constant=LITTLE,
            threshold=True,
        ),
        *evidence.accuracy_parts(
            "T = 1.8 under T = 1.2 plus 5, at the end",
            gap(USUAL, HOT),
            constant=LITTLE,
            threshold=True,
        ),
    ]


@claim("T7", "Diversity converges to similar values at different temperatures.", CONSTANT)
def diversity_converges(evidence: Evidence) -> list[Part]:
    """Spread of Distinct-4 over the constant arms as the rise from T = 0.6 to 1.8 by the straight
    line: the first window's is larger than the last window's, and than the last window's reversed.
    """
    series = [evidence.diversity(arm) for arm in CONSTANT]
    first = trend_of(series, TEMPERATURES, first_window)
    return [
        part(f"first spread {sign} last", DISTINCT, *first, *last, threshold=sign == "plus")
        for sign, last in (
            ("minus", trend_of(series, TEMPERATURES, last_window, -1)),
            ("plus", trend_of(series, TEMPERATURES, last_window)),
        )
    ]


def _fluctuation(x: np.ndarray, y: Curve) -> np.ndarray:
    """Mean absolute change between consecutive points."""
    return np.abs(np.diff(y, axis=-1)).mean(axis=-1)


@claim("T8", "Choosing T from measured diversity avoids both failures.", (COLD, HOT, "t_of_d"))
def chosen_avoids_failures(evidence: Evidence) -> list[Part]:
    """The arm with T(D) against the two ends of the grid: last-window pass@1 above that at T = 0.6
    (the failure of too low a temperature), Distinct-4 fluctuating less from one generation to the
    next than at T = 1.8 (that of too high a one).
    """
    steady, restless = evidence.diversity("t_of_d"), evidence.diversity(HOT)
    what = "fluctuation of diversity, T = 1.8 minus T(D)"
    return [
        *evidence.accuracy_parts(
            "pass@1 at the end, T(D) minus T = 0.6",
            gap("t_of_d", COLD),
        ),
        difference(what, DISTINCT, restless, steady, _fluctuation),
    ]


@claim(
    "T9",
    "Low-then-high staging beats high from the start.",
    (USUAL, HOT, "step_06_12", "step_06_18"),
)
def staging_wins(evidence: Evidence) -> list[Part]:
    """Last-window pass@1: mean of the arms that jump from 0.6 to 1.2 and to 1.8 minus mean of the
    arms at 1.2 and at 1.8 from the start.
    """
    return evidence.accuracy_parts(
        "pass@1 at the end, staged minus constant",
        lambda of, end: [
            *mean_of([of(arm) for arm in ("step_06_12", "step_06_18")], end),
            *mean_of([of(arm) for arm in (USUAL, HOT)], end, -1),
        ],
    )


@claim(
    "T10",
    "Continuous, uniform temperature change destabilises diversity; staged steps do not.",
    (HOT, "step_06_18", "ramp_06_18"),
)
def ramps_destabilise(evidence: Evidence) -> list[Part]:
    """Lasting change of diversity: how far last-window Distinct-4 is from that of T = 1.8 all
    along, after the linear ramp to 1.8 minus after the jump to 1.8; one distance a seed.
    """
    series = [evidence.diversity(arm) for arm in ("ramp_06_18", "step_06_18", HOT)]
    ramp, step, hot = (last_window(one.x, one.y) for one in series)
    ramp, step = np.abs(ramp - hot), np.abs(step - hot)
    return [Part("shift of diversity, ramp minus jump", estimate(ramp - step), DISTINCT)]
