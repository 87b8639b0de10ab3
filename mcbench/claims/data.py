"""Data (paper §3, Fig. 5): D1-D4."""

from __future__ import annotations

from functools import partial

from mcbench.claims.claim import register
from mcbench.claims.evidence import Evidence, Part, difference, part
from mcbench.claims.statistics import area_under_curve, first_window, growth, last_window

ARMS = ("harder", "easier")
claim = partial(register, section="data", experiment="data_quality", source="§3, Fig. 5")


@claim("D1", "The harder set drives clear accuracy gains, the easier set almost none.", ARMS)
def gain(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 minus the untrained model's: above 0 on the harder set, and more than
    twice the easier set's ("almost none" there; the paper's ratio is about three).
    """
    harder, easier = map(evidence.accuracy, ARMS)
    gained = [(1.0, harder, last_window), (-1.0, harder, first_window)]
    twice = [(-2.0, easier, last_window), (2.0, easier, first_window)]
    return [
        part("gain on the harder set", "points", *gained),
        part("gain on the harder set minus twice the easier's", "points", *gained, *twice),
    ]


@claim("D2", "The harder set yields lower training reward.", ARMS)
def reward(evidence: Evidence) -> list[Part]:
    """Mean reward over the run, easier minus harder set."""
    harder, easier = map(evidence.reward, ARMS)
    name = "reward, easier minus harder set"
    return [difference(name, "points", easier, harder, area_under_curve)]


@claim("D3", "Reward grows alike on both sets, test accuracy only on the harder one.", ARMS)
def growth_of_both(evidence: Evidence) -> list[Part]:
    """Growth by the slope over the run. "Alike": the reward on either set grows more than half as
    much as on the other. "Only": pass@1 grows on the harder set, by more than twice the easier's.
    """
    harder, easier = map(evidence.reward, ARMS)
    accurate, little = map(evidence.accuracy, ARMS)
    return [
        part(name, "points", (1, ours, growth), (-factor, other, growth))
        for name, ours, factor, other in (
            ("reward growth, harder minus half the easier's", harder, 0.5, easier),
            ("reward growth, easier minus half the harder's", easier, 0.5, harder),
        )
    ] + [
        part("pass@1 growth on the harder set", "points", (1, accurate, growth)),
        part("pass@1 growth, harder minus twice the easier's", "points", (1, accurate, growth),
             (-2, little, growth)),
    ]  # fmt: skip


@claim(
    "D4",
    "Harder problems make responses grow faster and end longer, though they start similar or "
    "shorter.",
    ARMS,
)
def response_length(evidence: Evidence) -> list[Part]:
    """Growth by the slope and last-window length, harder minus easier set, above 0; at the start
    the harder set's responses are at most a fifth longer ("similar or shorter").
    """
    harder, easier = map(evidence.length, ARMS)
    room = [(1.2, easier, first_window), (-1.0, harder, first_window)]
    return [
        difference("length growth", "tokens", harder, easier, growth),
        difference("length at the end", "tokens", harder, easier, last_window),
        part("room below 1.2 times the easier set's first length", "tokens", *room),
    ]
