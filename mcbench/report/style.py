"""How arms look: one colour and one dash per arm, the same in every figure and on every page.

Colours are Okabe and Ito's, with a violet for their yellow, which cannot be seen on white: they
stay apart under the common colour-vision deficiencies. The dash is the second cue, for print and
for those who see no hue at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

from mcbench.files import rows_beside

ORANGE, SKY, GREEN, VIOLET = "#E69F00", "#56B4E9", "#009E73", "#8422E6"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A9099"
COLORS = {"orange": ORANGE, "sky": SKY, "green": GREEN, "violet": VIOLET}
COLORS |= {"blue": BLUE, "vermillion": VERMILLION, "purple": PURPLE, "grey": GREY}

# Legible on white and on black alike; pages replace it by the reader's own theme.
NEUTRAL_TEXT = "#7A8089"
NEUTRAL_GRID = "rgba(128,134,144,0.22)"

DASHES = {
    "solid": "",
    "dot": "2 3",
    "dash": "7 4",
    "dashdot": "7 3 2 3",
    "longdash": "11 4",
    "longdashdot": "11 3 2 3",
}
"""plotly's dashes as SVG has them."""


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


KNOWN: dict[str, ArmStyle] = {
    arm: ArmStyle(label, COLORS[color], dash)
    for arm, (label, color, dash) in rows_beside(__file__, "arms.toml").items()
}
"""The arms of the experiments, rows of ``arms.toml``."""
# After Okabe and Ito's further ones that stand out on white and on the dark ground alike.
_MORE = ("#A0522D", "#8A9A2B", "#44AA99", "#AA4499", "#B8405E")
_SPARE_COLORS = (SKY, VERMILLION, PURPLE, GREEN, ORANGE, BLUE, VIOLET, *_MORE)
_SPARE_DASHES = ("longdashdot", "longdash", "dashdot", "dash", "dot", "solid")


OWN_ARM = "own/"
"""Begins the name under which an arm of one's own is drawn that is called as a known one is."""


def arm_styles(arms: Iterable[str]) -> dict[str, ArmStyle]:
    """A style for each arm; arms of one's own take spare colours in the order given, at first those
    that no known arm beside them has: as long as there are any, no two arms share one.
    """
    arms = list(dict.fromkeys(arms))
    taken = {KNOWN[arm].color for arm in arms if arm in KNOWN}
    spare = sorted(_SPARE_COLORS, key=lambda color: color in taken)
    looks = zip(cycle(spare), cycle(_SPARE_DASHES))
    return {
        arm: KNOWN[arm] if arm in KNOWN else ArmStyle(arm.removeprefix(OWN_ARM), *next(looks))
        for arm in arms
    }


_IDS = re.compile(
    r"\barms? (?P<listed>\w[\w/]*(?:, \w[\w/]*)*)"
    r"|(?<!from )\b(?P<first>\w+)(?= minus )|(?<= minus )(?P<second>\w+)"
    r"|\b(?P<one>\w+)(?= trained as )|(?<=trained as )(?P<other>\w+)"
    r"|\b(?P<alone>[a-z]+(?:_[a-z0-9]+)+)\b"
)


def spoken(text: str) -> str:
    """A text in which arms have their names for people, not their ids."""

    def named(match: re.Match[str]) -> str:
        ids = [name.split("/")[-1] for name in next(filter(None, match.groups())).split(", ")]
        if not all(name in KNOWN for name in ids):
            return match[0]
        return ", ".join(KNOWN[name].label for name in ids)

    return _IDS.sub(named, text)
