"""Context length and extension (paper §7.2, Fig. 9): C1-C6."""

from __future__ import annotations

from functools import partial

import numpy as np

from mcbench.claims.claim import register
from mcbench.claims.evidence import Evidence, Part, Series, Term, mean_of, part, trend_of
from mcbench.claims.statistics import Curve, Statistic, growth, last_window, mean_between

CONSTANT = ("short", "middle", "long")
SHARES = (0.5, 0.75, 1.0)
FROM_SHORT = ("short_early", "short_late")
FROM_MIDDLE = ("middle_early", "middle_late")
EARLY, LATE = 0.2, 0.6  # when these arms are extended, as shares of the steps
claim = partial(register, section="context", experiment="context_length", source="§7.2, Fig. 9")


def _trend(series: list[Series], statistic: Statistic) -> list[Term]:
    return trend_of(series, SHARES, statistic)


@claim("C1", "A longer maximum output gives higher final accuracy.", CONSTANT)
def accuracy(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at the longest arm's limit: rise from the shortest to the longest arm, by
    the straight line over the three.
    """
    series = [evidence.accuracy(arm) for arm in CONSTANT]
    return [part("pass@1 at the end, short to long", "points", *_trend(series, last_window))]


@claim(
    "C2",
    "A longer maximum output gives faster growth and greater final length of responses.",
    CONSTANT,
)
def length(evidence: Evidence) -> list[Part]:
    """Growth by the slope, and last-window length: rise from the shortest to the longest arm."""
    series = [evidence.length(arm) for arm in CONSTANT]
    return [
        part("length growth, short to long", "tokens", *_trend(series, growth)),
        part("length at the end, short to long", "tokens", *_trend(series, last_window)),
    ]


@claim("C3", "A longer maximum output goes with higher diversity.", CONSTANT)
def diversity(evidence: Evidence) -> list[Part]:
    """Last-window Distinct-4: rise from the shortest to the longest arm."""
    series = [evidence.diversity(arm) for arm in CONSTANT]
    return [part("diversity at the end, short to long", "Distinct-4", *_trend(series, last_window))]


def _both(evidence: Evidence) -> tuple[tuple[str, str, dict[str, Series]], ...]:
    """Length and diversity with their units, for every arm of the evidence."""
    return (
        ("length", "tokens", {arm: evidence.length(arm) for arm in evidence.arms}),
        ("diversity", "Distinct-4", {arm: evidence.diversity(arm) for arm in evidence.arms}),
    )


@claim(
    "C4",
    "A small initial maximum lowers length and diversity, and the deficit outlasts the extension.",
    ("long", *FROM_SHORT),
)
def lasting_deficit(evidence: Evidence) -> list[Part]:
    """Last-window length and diversity: the arm that was always long minus the mean of the two that
    began short and were extended.
    """
    return [
        part(
            f"{name} lacking at the end",
            unit,
            (1, series["long"], last_window),
            *mean_of([series[arm] for arm in FROM_SHORT], last_window, -1),
        )
        for name, unit, series in _both(evidence)
    ]


@claim(
    "C5",
    "The smaller the initial maximum, the larger the deficit after the extension.",
    (*FROM_SHORT, *FROM_MIDDLE),
)
def deficit_by_start(evidence: Evidence) -> list[Part]:
    """Last-window length and diversity: mean of the two arms extended from middle minus mean of
    the two extended from short, so the larger deficit of the latter.
    """
    return [
        part(
            f"{name} lacking, from short minus from middle",
            unit,
            *mean_of([series[arm] for arm in FROM_MIDDLE], last_window),
            *mean_of([series[arm] for arm in FROM_SHORT], last_window, -1),
        )
        for name, unit, series in _both(evidence)
    ]


def _after(extension: float) -> Statistic:
    """Mean over the second half of the time from an extension on that the late one has, too."""
    lag = 1 - LATE

    def mean(x: np.ndarray, y: Curve) -> np.ndarray:
        return mean_between(x / x[-1], y, extension + lag / 2, extension + lag)

    return mean


@claim(
    "C6",
    "The longer a model was trained short, the less it recovers after the extension.",
    ("long", *FROM_SHORT, *FROM_MIDDLE),
)
def recovery(evidence: Evidence) -> list[Part]:
    """Length and diversity lacking against the arm that was always long, equally long after the
    extension: late minus early extension, averaged over the two initial limits.
    """
    early, late = _after(EARLY), _after(LATE)
    return [
        part(
            f"{name} lacking, late minus early extension",
            unit,
            (1, series["long"], late),
            *mean_of([series["short_late"], series["middle_late"]], late, -1),
            (-1, series["long"], early),
            *mean_of([series["short_early"], series["middle_early"]], early),
        )
        for name, unit, series in _both(evidence)
    ]
