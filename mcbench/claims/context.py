"""Context length and extension (paper §7.2, Fig. 9): C1-C6."""

from __future__ import annotations

from functools import partial

import numpy as np

from mcbench.claims.claim import register
from mcbench.claims.curves import LENGTH
from mcbench.claims.evidence import Evidence, Part, Terms, gap, mean_of, part
from mcbench.claims.margins import TOKENS
from mcbench.claims.statistics import Curve, Statistic, growth, last_window, mean_between

CONSTANT = ("short", "middle", "long")
STEPS = (("short", "middle"), ("middle", "long"))
FROM_SHORT = ("short_early", "short_late")
FROM_MIDDLE = ("middle_early", "middle_late")
EARLY, LATE = 0.2, 0.6  # when these arms are extended, as shares of the steps
claim = partial(register, section="context", experiment="context_length", source="§7.2, Fig. 9")


@claim("C1", "A longer maximum output gives higher final accuracy.", CONSTANT)
def accuracy(evidence: Evidence) -> list[Part]:
    """Last-window pass@1: rise from the shortest to the middle arm, and from there to the longest.
    The three points of a straight line would give the middle arm no weight.
    """
    return [
        one
        for shorter, longer in STEPS
        for one in evidence.accuracy_parts(
            f"pass@1 at the end, {shorter} to {longer}", gap(longer, shorter)
        )
    ]


@claim(
    "C2",
    "A longer maximum output gives faster growth and greater final length of responses.",
    CONSTANT,
)
def length(evidence: Evidence) -> list[Part]:
    """Growth by the slope, and last-window length: rise from each arm to the next longer one."""
    return [
        evidence.difference(
            f"{name}, {shorter} to {longer}", TOKENS, LENGTH, (longer, shorter), statistic
        )
        for name, statistic in (("length growth", growth), ("length at the end", last_window))
        for shorter, longer in STEPS
    ]


@claim("C3", "A longer maximum output goes with higher diversity.", CONSTANT)
def diversity(evidence: Evidence) -> list[Part]:
    """Last-window diversity: rise from each arm to the next longer one."""
    return [
        one
        for shorter, longer in STEPS
        for one in evidence.diversity_parts(
            f"diversity at the end, {shorter} to {longer}", gap(longer, shorter)
        )
    ]


def _both(evidence: Evidence, name: str, terms: Terms) -> list[Part]:
    """A statement on length and the same on diversity; ``name`` has a place for which."""
    return [
        part(name.format("length"), TOKENS, *terms(evidence.length, last_window)),
        *evidence.diversity_parts(name.format("diversity"), terms),
    ]


@claim(
    "C4",
    "A small initial maximum lowers length and diversity, and the deficit outlasts the extension.",
    ("long", *FROM_SHORT),
)
def lasting_deficit(evidence: Evidence) -> list[Part]:
    """Last-window length and diversity: the arm that was always long minus the mean of the two that
    began short and were extended.
    """
    return _both(
        evidence,
        "{} lacking at the end",
        lambda of, _: [
            (1, of("long"), last_window),
            *mean_of([of(arm) for arm in FROM_SHORT], last_window, -1),
        ],
    )


@claim(
    "C5",
    "The smaller the initial maximum, the larger the deficit after the extension.",
    (*FROM_SHORT, *FROM_MIDDLE),
)
def deficit_by_start(evidence: Evidence) -> list[Part]:
    """Last-window length and diversity: mean of the two arms extended from middle minus mean of
    the two extended from short, so the larger deficit of the latter.
    """
    return _both(
        evidence,
        "{} lacking, from short minus from middle",
        lambda of, _: [
            *mean_of([of(arm) for arm in FROM_MIDDLE], last_window),
            *mean_of([of(arm) for arm in FROM_SHORT], last_window, -1),
        ],
    )


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
    return _both(
        evidence,
        "{} lacking, late minus early extension",
        lambda of, _: [
            (1, of("long"), late),
            *mean_of([of("short_late"), of("middle_late")], late, -1),
            (-1, of("long"), early),
            *mean_of([of("short_early"), of("middle_early")], early),
        ],
    )
