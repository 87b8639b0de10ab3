"""Data (paper §3, Fig. 5): D1-D4."""

from __future__ import annotations

from functools import partial

from mcbench.claims.claim import register
from mcbench.claims.curves import LENGTH, REWARD
from mcbench.claims.evidence import Evidence, Part, alone, part
from mcbench.claims.margins import POINTS, TOKENS
from mcbench.claims.statistics import area_under_curve, first_window, growth

ARMS = ("harder", "easier")
claim = partial(register, section="data", experiment="data_quality", source="§3, Fig. 5")


@claim("D1", "The harder set drives clear accuracy gains, the easier set almost none.", ARMS)
def gain(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 minus the untrained model's: above 0 on the harder set, and more than
    twice the easier set's ("almost none" there; the paper's ratio is about three).
    """
    harder, easier = ARMS
    return [
        *evidence.accuracy_parts(
            "gain on the harder set",
            lambda of, end: [(1.0, of(harder), end), (-1.0, of(harder), first_window)],
        ),
        *evidence.accuracy_parts(
            "gain on the harder set minus twice the easier's",
            lambda of, end: [
                (1.0, of(harder), end),
                (-1.0, of(harder), first_window),
                (-2.0, of(easier), end),
                (2.0, of(easier), first_window),
            ],
            threshold=True,
        ),
    ]


@claim("D2", "The harder set yields lower training reward.", ARMS)
def reward(evidence: Evidence) -> list[Part]:
    """Mean reward over the run, easier minus harder set."""
    name = "reward, easier minus harder set"
    return [evidence.difference(name, POINTS, REWARD, ("easier", "harder"), area_under_curve)]


@claim("D3", "Reward grows alike on both sets, test accuracy only on the harder one.", ARMS)
def growth_of_both(evidence: Evidence) -> list[Part]:
    """Growth by the slope over the run. "Alike": the reward on either set grows more than half as
    much as on the other. "Only": pass@1 grows on the harder set, by more than twice the easier's.
    """
    harder, easier = map(evidence.reward, ARMS)
    return [
        part(name, POINTS, (1, ours, growth), (-factor, other, growth), threshold=True)
        for name, ours, factor, other in (
            ("reward growth, harder minus half the easier's", harder, 0.5, easier),
            ("reward growth, easier minus half the harder's", easier, 0.5, harder),
        )
    ] + [
        *evidence.accuracy_parts(
            "pass@1 growth on the harder set", alone(ARMS[0], growth), shape=True
        ),
        *evidence.accuracy_parts(
            "pass@1 growth, harder minus twice the easier's",
            lambda of, _: [(1, of(ARMS[0]), growth), (-2, of(ARMS[1]), growth)],
            shape=True,
            threshold=True,
        ),
    ]


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
        evidence.difference("length growth", TOKENS, LENGTH, ARMS, growth),
        evidence.difference("length at the end", TOKENS, LENGTH, ARMS),
        part("room below 1.2 times the easier set's first length", TOKENS, *room, threshold=True),
    ]
