"""Truncation mask (paper §2.3, Fig. 2): M1-M6."""

from __future__ import annotations

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
from mcbench.claims.verdict import Insight

CONDITIONAL = ("rho_01", "rho_02", "rho_03")
BY_RHO, RHO = ("none", *CONDITIONAL), (0.0, 0.1, 0.2, 0.3)
MASKED, ORDER = (*CONDITIONAL, "all"), (1, 2, 3, 4)  # from little to complete masking
SEEDS = 5


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


def length_by_rho(evidence: Evidence) -> list[Part]:
    """Length growth by the slope, and last-window length: rise from rho 0 to 0.3. And "about as
    fast as masking all": the growth at rho 0.3 lies within half of the way from none to all of
    that of all.
    """
    series = [evidence.length(arm) for arm in BY_RHO]
    none, most, everything = series[0], series[-1], evidence.length("all")
    return [
        part("length growth, rho 0 to 0.3", "tokens", *trend_of(series, RHO, growth)),
        part("length at the end, rho 0 to 0.3", "tokens", *trend_of(series, RHO, last_window)),
        part(
            "growth at rho 0.3 above the middle of none and all",
            "tokens",
            (1, most, growth),
            (-0.5, none, growth),
            (-0.5, everything, growth),
        ),
        part(
            "growth at rho 0.3 below all by as much above",
            "tokens",
            (1.5, everything, growth),
            (-0.5, none, growth),
            (-1, most, growth),
        ),
    ]


def _spacing(evidence: Evidence) -> float:
    steps = evidence.accuracy("all").x
    return float(steps[-1] - steps[0]) / max(1, len(steps) - 1)


def first_peak(evidence: Evidence) -> list[Part]:
    """Step of the first maximum of pass@1 that stands out by half of the curve's range: how much
    earlier from rho 0.1 to masking all, by the straight line over the four masked arms in order.
    """
    series = [evidence.accuracy(arm) for arm in MASKED]
    sooner = trend_of(series, ORDER, first_peak_step, -1)
    return [part("first peak sooner", "updates", *sooner, resolution=_spacing(evidence))]


def higher_and_later(evidence: Evidence) -> list[Part]:
    """Height and step of the highest smoothed pass@1, from masking all down to rho 0.1, by the
    straight line over the four masked arms in order.
    """
    series = [evidence.accuracy(arm) for arm in MASKED]
    return [
        part("higher peak", "points", *trend_of(series, ORDER, peak, -1)),
        part(
            "later peak",
            "updates",
            *trend_of(series, ORDER, peak_step, -1),
            resolution=_spacing(evidence),
        ),
    ]


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


def stability(evidence: Evidence) -> list[Part]:
    """Mean of the three conditional arms against none and against all: last-window pass@1 higher,
    and the drop from each run's own smoothed peak smaller.
    """
    conditional = [evidence.accuracy(arm) for arm in CONDITIONAL]
    parts = []
    for arm in ("none", "all"):
        other = evidence.accuracy(arm)
        parts += [
            part(
                f"pass@1 at the end, conditional minus {arm}",
                "points",
                *mean_of(conditional, last_window),
                (-1, other, last_window),
            ),
            part(
                f"drop from the peak, {arm} minus conditional",
                "points",
                (1, other, drop_from_peak),
                *mean_of(conditional, drop_from_peak, -1),
            ),
        ]
    return parts


_SOURCE = "§2.3, Fig. 2"
INSIGHTS = tuple(
    Insight(name, "mask", claim, _SOURCE, "truncation_mask", arms, statistic, seeds=SEEDS)
    for name, claim, arms, statistic in (
        (
            "M1",
            "With masking, accuracy rises fast, falls back, then settles.",
            MASKED,
            rise_fall_settle,
        ),
        (
            "M2",
            "Higher rho grows length faster and closer to the limit; 30 % grows about as fast as "
            "masking all.",
            (*BY_RHO, "all"),
            length_by_rho,
        ),
        ("M3", "More masking reaches the first peak sooner.", MASKED, first_peak),
        ("M4", "Less masking reaches a higher peak later.", MASKED, higher_and_later),
        (
            "M5",
            "More masking lowers diversity faster and to a lower level; masking all first lifts "
            "it, then collapses.",
            (*BY_RHO, "all"),
            diversity_by_mask,
        ),
        (
            "M6",
            "Conditional masking is more stable than none and than all: higher last-window "
            "accuracy, smaller drop from the peak.",
            (*BY_RHO, "all"),
            stability,
        ),
    )
)
