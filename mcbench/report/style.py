"""How arms look: one colour and one dash per arm, the same in every figure and on every page.

Colours are Okabe and Ito's, which stay apart under the common colour-vision deficiencies; the dash
is the second cue, for print and for those who see no hue at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A9099"

# Legible on white and on black alike; pages replace it by the reader's own theme.
NEUTRAL_TEXT = "#7A8089"
NEUTRAL_GRID = "rgba(128,134,144,0.22)"


@dataclass(frozen=True)
class ArmStyle:
    """Name for people, line colour, plotly dash."""

    label: str
    color: str
    dash: str

    def fill(self, alpha: float) -> str:
        """The colour with transparency, as a CSS ``rgba``."""
        red, green, blue = (int(self.color[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{alpha})"


KNOWN = {
    "base": ArmStyle("Not trained", GREY, "solid"),
    "grpo": ArmStyle("GRPO", BLUE, "dot"),
    "grpo_plus": ArmStyle("GRPO+ (DAPO)", ORANGE, "dash"),
    "microcoder": ArmStyle("MicroCoder-GRPO", GREEN, "solid"),
    "deepcoder": ArmStyle("DeepCoder", VERMILLION, "dashdot"),
    "dr_grpo": ArmStyle("Dr. GRPO", PURPLE, "longdash"),
    # arms that differ in what judges the training responses
    "microcoder_rules": ArmStyle("MicroCoder rules", GREEN, "solid"),
    "livecodebench_rules": ArmStyle("LiveCodeBench rules", VERMILLION, "dash"),
    "microcoder_evaluator": ArmStyle("MicroCoder-Evaluator", GREEN, "solid"),
    "process_per_sample": ArmStyle("LiveCodeBench method", VERMILLION, "dash"),
    "single_threaded": ArmStyle("Single-threaded", BLUE, "dot"),
}
_SPARE_COLORS = (SKY, VERMILLION, PURPLE, GREEN, ORANGE, BLUE, YELLOW)
_SPARE_DASHES = ("longdashdot", "longdash", "dashdot", "dash", "dot", "solid")


def arm_styles(arms: Iterable[str]) -> dict[str, ArmStyle]:
    """A style for each arm; arms that are no recipe take spare colours in the order given."""
    styles: dict[str, ArmStyle] = {}
    spare = 0
    for arm in arms:
        if arm in KNOWN:
            styles[arm] = KNOWN[arm]
            continue
        color = _SPARE_COLORS[spare % len(_SPARE_COLORS)]
        styles[arm] = ArmStyle(arm, color, _SPARE_DASHES[spare % len(_SPARE_DASHES)])
        spare += 1
    return styles
