"""Truncation mask (paper §2.3, Fig. 2): M1-M6."""

from __future__ import annotations

from functools import partial

from mcbench.claims.claim import register
from mcbench.claims.evidence import Evidence, Part, mean_of, part, trend_of
from mcbench.claims.statistics import (
    drop_from_peak,
    fall_from_peak,
    first_peak_step,
    growth,
    last_window,
    late_fall,
    peak,
    peak_step,
    rise_to_peak,
)

CONDITIONAL = ("rho_01", "rho_02", "rho_03")
BY_RHO, RHO = ("none", *CONDITIONAL), (0.0, 0.1, 0.2, 0.3)
MASKED, ORDER = (*CONDITIONAL, "all"), (1, 2, 3, 4)  # from little to complete masking
EVERY = (*BY_RHO, "all")
claim = partial(
    register, section="mask", experiment="truncation_mask", source="§2.3, Fig. 2", seeds=5
)


@claim("M1", "With masking, accuracy rises fast, falls back, then settles.", MASKED)
def rise_fall_settle(evidence: Evidence) -> list[Part]:
    """Mean over the four masked arms, with the peak's place found on the other seeds: pass@1 rises
    to it, has fallen by the last window, and within that window loses less than half as much again.
    """
    series = [evidence.accuracy(arm) for arm in MASKED]
    return [
        part("rise to the peak", "points", *mean_of(series, rise_to_peak)),
        part("fall from the peak", "points", *mean_of(series, fall_from_peak)),
        part(
            "half the fall minus what the last window still loses",
            "points",
            *mean_of(series, fall_from_peak, 0.5),
            *mean_of(series, late_fall, -1),
        ),
    ]


@claim(
    "M2",
    "Higher rho grows length faster and closer to the limit; 30 % grows about as fast as masking "
    "all.",
    EVERY,
)
def length_by_rho(evidence: Evidence) -> list[Part]:
    """Length growth by the slope, and last-window length: rise from rho 0 to 0.3. And "about as
    fast as masking all": the growth at rho 0.3 lies within half of the way from none to all of
    that of all.
    """
    series = [evidence.length(arm) for arm in BY_RHO]
    none, most, everything = series[0], series[-1], evidence.length("all")
    above = [(1.0, most, growth), (-0.5, none, growth), (-0.5, everything, growth)]
    below = [(1.5, everything, growth), (-0.5, none, growth), (-1.0, most, growth)]
    return [
        part("length growth, rho 0 to 0.3", "tokens", *trend_of(series, RHO, growth)),
        part("length at the end, rho 0 to 0.3", "tokens", *trend_of(series, RHO, last_window)),
        part("growth at rho 0.3 above the middle of none and all", "tokens", *above),
        part("growth at rho 0.3 below all by as much above", "tokens", *below),
    ]


def _spacing(evidence: Evidence) -> float:
    steps = evidence.accuracy("all").x
    return float(steps[-1] - steps[0]) / max(1, len(steps) - 1)


@claim("M3", "More masking reaches the first peak sooner.", MASKED)
def first_peak(evidence: Evidence) -> list[Part]:
    """Step of the first maximum of pass@1 that stands out by half of the curve's range: how much
    earlier from rho 0.1 to masking all, by the straight line over the four masked arms in order.
    """
    series = [evidence.accuracy(arm) for arm in MASKED]
    sooner = trend_of(series, ORDER, first_peak_step, -1)
    return [part("first peak sooner", "updates", *sooner, resolution=_spacing(evidence))]


@claim("M4", "Less masking reaches a higher peak later.", MASKED)
def higher_and_later(evidence: Evidence) -> list[Part]:
    """Height and step of the highest smoothed pass@1, from masking all down to rho 0.1, by the
    straight line over the four masked arms in order.
    """
    series = [evidence.accuracy(arm) for arm in MASKED]
    later = trend_of(series, ORDER, peak_step, -1)
    return [
        part("higher peak", "points", *trend_of(series, ORDER, peak, -1)),
        part("later peak", "updates", *later, resolution=_spacing(evidence)),
    ]


@claim(
    "M5",
    "More masking lowers diversity faster and to a lower level; masking all first lifts it, then "
    "collapses.",
    EVERY,
)
def diversity_by_mask(evidence: Evidence) -> list[Part]:
    """Distinct-4: fall by the slope and low last window from rho 0 to 0.3; under masking all a rise
    above the start and then a fall, with the peak's place found on the other seeds.
    """
    series = [evidence.diversity(arm) for arm in BY_RHO]
    everything = evidence.diversity("all")
    return [
        part("faster fall, rho 0 to 0.3", "Distinct-4", *trend_of(series, RHO, growth, -1)),
        part("lower end, rho 0 to 0.3", "Distinct-4", *trend_of(series, RHO, last_window, -1)),
        part("masking all: rise to the peak", "Distinct-4", (1, everything, rise_to_peak)),
        part("masking all: fall from the peak", "Distinct-4", (1, everything, fall_from_peak)),
    ]


@claim(
    "M6",
    "Conditional masking is more stable than none and than all: higher last-window accuracy, "
    "smaller drop from the peak.",
    EVERY,
)
def stability(evidence: Evidence) -> list[Part]:
    """Mean of the three conditional arms against none and against all: last-window pass@1 higher,
    and the drop from each run's own smoothed peak smaller.
    """
    conditional = [evidence.accuracy(arm) for arm in CONDITIONAL]
    parts = []
    for arm in ("none", "all"):
        other = evidence.accuracy(arm)
        higher = [*mean_of(conditional, last_window), (-1.0, other, last_window)]
        smaller = [(1.0, other, drop_from_peak), *mean_of(conditional, drop_from_peak, -1)]
        parts += [
            part(f"pass@1 at the end, conditional minus {arm}", "points", *higher),
            part(f"drop from the peak, {arm} minus conditional", "points", *smaller),
        ]
    return parts
