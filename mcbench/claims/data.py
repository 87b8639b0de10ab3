"""Data (paper §3, Fig. 5): D1-D4."""

from __future__ import annotations

from mcbench.claims.evidence import Evidence, Part, part
from mcbench.claims.statistics import area_under_curve, first_window, growth, last_window
from mcbench.claims.verdict import Insight

HARDER, EASIER = "harder", "easier"
ARMS = (HARDER, EASIER)


def gain(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 minus the untrained model's: above 0 on the harder set, and more than
    twice the easier set's ("almost none" there; the paper's ratio is about three).
    """
    harder, easier = (evidence.accuracy(arm) for arm in ARMS)
    gained = [(1.0, harder, last_window), (-1.0, harder, first_window)]
    twice = [(-2.0, easier, last_window), (2.0, easier, first_window)]
    return [
        part("gain on the harder set", "points", *gained),
        part("gain on the harder set minus twice the easier's", "points", *gained, *twice),
    ]


def reward(evidence: Evidence) -> list[Part]:
    """Mean reward over the run, easier minus harder set."""
    harder, easier = (evidence.reward(arm) for arm in ARMS)
    return [
        part(
            "reward, easier minus harder set",
            "points",
            (1, easier, area_under_curve),
            (-1, harder, area_under_curve),
        )
    ]


def growth_of_both(evidence: Evidence) -> list[Part]:
    """Growth by the slope over the run. "Alike": the reward on either set grows more than half as
    much as on the other. "Only": pass@1 grows on the harder set, by more than twice the easier's.
    """
    harder, easier = (evidence.reward(arm) for arm in ARMS)
    accurate, little = (evidence.accuracy(arm) for arm in ARMS)
    return [
        part(
            "reward growth, harder minus half the easier's",
            "points",
            (1, harder, growth),
            (-0.5, easier, growth),
        ),
        part(
            "reward growth, easier minus half the harder's",
            "points",
            (1, easier, growth),
            (-0.5, harder, growth),
        ),
        part("pass@1 growth on the harder set", "points", (1, accurate, growth)),
        part(
            "pass@1 growth, harder minus twice the easier's",
            "points",
            (1, accurate, growth),
            (-2, little, growth),
        ),
    ]


def response_length(evidence: Evidence) -> list[Part]:
    """Growth by the slope and last-window length, harder minus easier set, above 0; at the start
    the harder set's responses are at most a fifth longer ("similar or shorter").
    """
    harder, easier = (evidence.length(arm) for arm in ARMS)
    return [
        part("length growth", "tokens", (1, harder, growth), (-1, easier, growth)),
        part("length at the end", "tokens", (1, harder, last_window), (-1, easier, last_window)),
        part(
            "room below 1.2 times the easier set's first length",
            "tokens",
            (1.2, easier, first_window),
            (-1, harder, first_window),
        ),
    ]


_SOURCE = "§3, Fig. 5"
INSIGHTS = (
    Insight(
        "D1",
        "data",
        "The harder set drives clear accuracy gains, the easier set almost none.",
        _SOURCE,
        "data_quality",
        ARMS,
        gain,
    ),
    Insight(
        "D2",
        "data",
        "The harder set yields lower training reward.",
        _SOURCE,
        "data_quality",
        ARMS,
        reward,
    ),
    Insight(
        "D3",
        "data",
        "Reward grows alike on both sets, test accuracy only on the harder one.",
        _SOURCE,
        "data_quality",
        ARMS,
        growth_of_both,
    ),
    Insight(
        "D4",
        "data",
        "Harder problems make responses grow faster and end longer, though they start similar or "
        "shorter.",
        _SOURCE,
        "data_quality",
        ARMS,
        response_length,
    ),
)
