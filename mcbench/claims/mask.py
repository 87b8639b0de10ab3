"""Truncation mask (paper §2.3, Fig. 2): M1-M6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mcbench.claims.claim import register
from mcbench.claims.evidence import (
    Evidence,
    Part,
    Series,
    Term,
    Terms,
    alone,
    mean_of,
    part,
    trend_of,
)
from mcbench.claims.margins import TOKENS, UPDATES
from mcbench.claims.statistics import (
    Statistic,
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

    def over(*factors: tuple[Statistic, float]) -> Terms:
        def terms(of: Callable[[str], Series], _: Statistic) -> list[Term]:
            series = [of(arm) for arm in MASKED]
            return [t for statistic, factor in factors for t in mean_of(series, statistic, factor)]

        return terms

    return [
        *evidence.accuracy_parts("rise to the peak", over((rise_to_peak, 1.0)), shape=True),
        *evidence.accuracy_parts("fall from the peak", over((fall_from_peak, 1.0)), shape=True),
        *evidence.accuracy_parts(
            "half the fall minus what the last window still loses",
            over((fall_from_peak, 0.5), (late_fall, -1.0)),
            shape=True,
            threshold=True,
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
        part("length growth, rho 0 to 0.3", TOKENS, *trend_of(series, RHO, growth)),
        part("length at the end, rho 0 to 0.3", TOKENS, *trend_of(series, RHO, last_window)),
        part("growth at rho 0.3 above the middle of none and all", TOKENS, *above, threshold=True),
        part("growth at rho 0.3 below all by as much above", TOKENS, *below, threshold=True),
    ]


def _spacing(evidence: Evidence) -> float:
    steps = evidence.accuracy("all", shape=True).x
    return float(steps[-1] - steps[0]) / max(1, len(steps) - 1)


def _steps(evidence: Evidence, name: str, statistic: Statistic) -> list[Part]:
    """How much less of a statistic that is a step there is, from rho 0.1 to masking all."""
    return [
        replace(one, unit=UPDATES)
        for one in evidence.accuracy_parts(
            name,
            lambda of, _: trend_of([of(arm) for arm in MASKED], ORDER, statistic, -1),
            shape=True,
            resolution=_spacing(evidence),
        )
    ]


@claim("M3", "More masking reaches the first peak sooner.", MASKED)
def first_peak(evidence: Evidence) -> list[Part]:
    """Step of the first maximum of pass@1 that stands out by half of the curve's range: how much
    earlier from rho 0.1 to masking all, by the straight line over the four masked arms in order.
    """
    return _steps(evidence, "first peak sooner", first_peak_step)


@claim("M4", "Less masking reaches a higher peak later.", MASKED)
def higher_and_later(evidence: Evidence) -> list[Part]:
    """Height and step of the highest smoothed pass@1, from masking all down to rho 0.1, by the
    straight line over the four masked arms in order.
    """
    return [
        *evidence.accuracy_parts(
            "higher peak",
            lambda of, _: trend_of([of(arm) for arm in MASKED], ORDER, peak, -1),
            shape=True,
        ),
        *_steps(evidence, "later peak", peak_step),
    ]


@claim(
    "M5",
    "More masking lowers diversity faster and to a lower level; masking all first lifts it, then "
    "collapses.",
    EVERY,
)
def diversity_by_mask(evidence: Evidence) -> list[Part]:
    """Diversity: fall by the slope and low last window from rho 0 to 0.3; under masking all a rise
    above the start and then a fall, with the peak's place found on the other seeds.
    """

    def by_rho(statistic: Statistic) -> Terms:
        return lambda of, _: trend_of([of(arm) for arm in BY_RHO], RHO, statistic, -1)

    return [
        *evidence.diversity_parts("faster fall, rho 0 to 0.3", by_rho(growth)),
        *evidence.diversity_parts("lower end, rho 0 to 0.3", by_rho(last_window)),
        *evidence.diversity_parts("masking all: rise to the peak", alone("all", rise_to_peak)),
        *evidence.diversity_parts("masking all: fall from the peak", alone("all", fall_from_peak)),
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

    def minus_conditional(arm: str, sign: float, statistic: Statistic | None) -> Terms:
        def terms(of: Callable[[str], Series], end: Statistic) -> list[Term]:
            what = statistic or end
            conditional = mean_of([of(one) for one in CONDITIONAL], what, -sign)
            return [(sign, of(arm), what), *conditional]

        return terms

    parts = []
    for arm in ("none", "all"):
        parts += evidence.accuracy_parts(
            f"pass@1 at the end, conditional minus {arm}", minus_conditional(arm, -1.0, None)
        )
        parts += evidence.accuracy_parts(
            f"drop from the peak, {arm} minus conditional",
            minus_conditional(arm, 1.0, drop_from_peak),
            shape=True,
        )
    return parts
