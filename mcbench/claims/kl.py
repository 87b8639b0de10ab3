"""KL and clip (paper §2.5, Fig. 4): K1 and K2."""

from __future__ import annotations

from functools import partial

import numpy as np

from mcbench.claims.claim import register
from mcbench.claims.curves import LENGTH
from mcbench.claims.evidence import Evidence, Part, alone, gap
from mcbench.claims.margins import DISTINCT, TOKENS
from mcbench.claims.statistics import (
    estimate,
    fall_from_peak,
    first_window,
    growth,
    held_out_peak,
    last_window,
    rise_to_peak,
    smooth,
)

KL, NO_KL = "kl_low_clip", "no_kl_high_clip"
claim = partial(register, section="kl", experiment="kl_and_clip", source="§2.5, Fig. 4")


@claim(
    "K1",
    "No KL with high clip keeps diversity and length up and accuracy rising; KL without high clip "
    "lowers diversity and gains little before declining.",
    (KL, NO_KL),
)
def diversity_length_accuracy(evidence: Evidence) -> list[Part]:
    """No KL with high clip: last-window diversity and length above the other arm's, pass@1 grows.
    KL with low clip: diversity falls from first to last window, and pass@1 falls from its peak,
    whose place is found on the other seeds.
    """
    return [
        *evidence.diversity_parts("diversity at the end, no KL minus KL", gap(NO_KL, KL)),
        evidence.difference("length at the end, no KL minus KL", TOKENS, LENGTH, (NO_KL, KL)),
        *evidence.accuracy_parts("pass@1 growth, no KL", alone(NO_KL, growth), shape=True),
        *evidence.diversity_parts(
            "diversity lost, KL",
            lambda of, end: [(1, of(KL), first_window), (-1, of(KL), end)],
        ),
        *evidence.accuracy_parts("pass@1 fall, KL", alone(KL, fall_from_peak), shape=True),
    ]


@claim(
    "K2",
    "Continued loss of diversity precedes the fall of accuracy, which first rises, then falls.",
    (KL,),
)
def loss_before_fall(evidence: Evidence) -> list[Part]:
    """KL with low clip: pass@1 rises to its peak and falls from it, the peak's place found on the
    other seeds; Distinct-4 has fallen by that place ("precedes") and falls on ("continued").
    """
    accuracy, diversity = evidence.accuracy(KL, shape=True), evidence.diversity(KL)
    steps = accuracy.x[held_out_peak(accuracy.x, accuracy.y)]
    smoothed = smooth(diversity.x, diversity.y)
    at_peak = np.array(
        [np.interp(step, diversity.x, y) for step, y in zip(steps, smoothed, strict=True)]
    )
    before = estimate(first_window(diversity.x, diversity.y) - at_peak, held_out=True)
    after = estimate(at_peak - last_window(diversity.x, diversity.y), held_out=True)
    return [
        *evidence.accuracy_parts("pass@1 rise", alone(KL, rise_to_peak), shape=True),
        *evidence.accuracy_parts("pass@1 fall", alone(KL, fall_from_peak), shape=True),
        Part("diversity lost before the peak of pass@1", before, DISTINCT),
        Part("diversity lost after it", after, DISTINCT),
    ]
