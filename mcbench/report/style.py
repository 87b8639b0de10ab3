"""How arms look: one colour and one dash per arm, the same in every figure and on every page.

Colours are Okabe and Ito's, which stay apart under the common colour-vision deficiencies; the dash
is the second cue, for print and for those who see no hue at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A9099"

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


KNOWN = {
    "base": ArmStyle("Not trained", GREY, "solid"),
    "grpo": ArmStyle("GRPO", BLUE, "dot"),
    "grpo_plus": ArmStyle("GRPO+ (DAPO)", ORANGE, "dash"),
    "microcoder": ArmStyle("MicroCoder-GRPO", GREEN, "solid"),
    "grpo_per_response": ArmStyle("GRPO per response", SKY, "longdash"),
    "deepcoder": ArmStyle("DeepCoder", VERMILLION, "dashdot"),
    "dr_grpo": ArmStyle("Dr. GRPO, constant normaliser", PURPLE, "longdash"),
    # arms that differ in what judges the training responses
    "microcoder_rules": ArmStyle("MicroCoder rules", GREEN, "solid"),
    "livecodebench_rules": ArmStyle("LiveCodeBench rules", VERMILLION, "dash"),
    "microcoder_evaluator": ArmStyle("MicroCoder-Evaluator", GREEN, "solid"),
    "process_per_sample": ArmStyle("LiveCodeBench method", VERMILLION, "dash"),
    "single_threaded": ArmStyle("Single-threaded", BLUE, "dot"),
    # arms of the sections' experiments
    "older": ArmStyle("older generation", BLUE, "dash"),
    "newer": ArmStyle("newer generation", VERMILLION, "solid"),
    "none": ArmStyle("GRPO+ (no mask)", GREY, "dot"),
    "all": ArmStyle("mask all (DeepCoder)", VERMILLION, "dashdot"),
    "rho_01": ArmStyle("ρ = 0.1", SKY, "solid"),
    "rho_02": ArmStyle("MicroCoder-GRPO (ρ = 0.2)", GREEN, "solid"),
    "rho_03": ArmStyle("ρ = 0.3", BLUE, "dash"),
    "rho_10": ArmStyle("ρ = 1 (ours)", PURPLE, "solid"),
    "token_none": ArmStyle("GRPO+ (no mask), over tokens", GREY, "dot"),
    "token_rho_10": ArmStyle("ρ = 1 (ours), over tokens", PURPLE, "solid"),
    "response_none": ArmStyle("GRPO+ (no mask), per response", SKY, "longdash"),
    "rho_10_loops": ArmStyle("ρ = 1, no loop spared (ours)", PURPLE, "dash"),
    "cut_kept": ArmStyle("every cut answer, tokens kept (ours)", ORANGE, "longdash"),
    "before": ArmStyle("cut answers leave the group", SKY, "dash"),
    "after": ArmStyle("cut answers masked, tokens kept", ORANGE, "longdash"),
    "entropy_03": ArmStyle("T by entropy 0.3", PURPLE, "solid"),
    "soft_overlong": ArmStyle("soft overlong punishment", GREEN, "solid"),
    "soft_overlong_half": ArmStyle("soft overlong punishment, half", GREEN, "dash"),
    "dynamic": ArmStyle("dynamic sampling", ORANGE, "solid"),
    "grpo_no_kl": ArmStyle("GRPO per response, no KL", BLUE, "dot"),
    "gspo": ArmStyle("GSPO, per response", SKY, "solid"),
    "cispo": ArmStyle("CISPO", VERMILLION, "solid"),
    "clip_cov": ArmStyle("Clip-Cov", YELLOW, "solid"),
    "kl_cov": ArmStyle("KL-Cov", YELLOW, "dash"),
    "pass_at_k": ArmStyle("pass@k training", GREEN, "longdashdot"),
    "deepcoder_whole": ArmStyle("DeepCoder whole", VERMILLION, "solid"),
    "polaris": ArmStyle("Polaris whole", PURPLE, "solid"),
    "srpo": ArmStyle("SRPO whole", SKY, "dash"),
    "dapo_whole": ArmStyle("DAPO whole", ORANGE, "solid"),
    "tests": ArmStyle("tests, 1 or 0", GREY, "dot"),
    "outcomes": ArmStyle("four outcomes", BLUE, "dash"),
    "coderl": ArmStyle("CodeRL", GREEN, "solid"),
    "rltf": ArmStyle("RLTF", ORANGE, "solid"),
    "ppocoder": ArmStyle("PPOCoder", VERMILLION, "solid"),
    "stepcoder": ArmStyle("StepCoder", PURPLE, "solid"),
    "similarity": ArmStyle("similarity of patches (SWE-RL)", VERMILLION, "dash"),
    "curriculum": ArmStyle("curriculum (Kimi-Dev)", SKY, "solid"),
    "duo": ArmStyle("fixes and writes tests (Kimi-Dev)", GREEN, "solid"),
    "fixed": ArmStyle("fixed bugs", GREY, "dot"),
    "mutants": ArmStyle("mutants at random", ORANGE, "dash"),
    "unrewarded": ArmStyle("its own bugs, no reward for them", BLUE, "longdash"),
    "self_play": ArmStyle("self-play (SWE-RL)", GREEN, "solid"),
    "traced": ArmStyle("base trained on traces (CWM)", GREEN, "solid"),
    "untraced": ArmStyle("base trained without traces", GREY, "dot"),
    "frames": ArmStyle("rewarded for traces", ORANGE, "dash"),
    "rlef": ArmStyle("told the failing test (RLEF)", GREEN, "solid"),
    "shuffled": ArmStyle("told another problem's", VERMILLION, "dash"),
    "independent": ArmStyle("independent attempts", GREY, "dot"),
    "stale_1": ArmStyle("sampled 1 generation late", SKY, "dash"),
    "stale_2": ArmStyle("sampled 2 generations late", BLUE, "longdash"),
    "stale_3": ArmStyle("sampled 3 generations late", YELLOW, "dashdot"),
    "stale_4": ArmStyle("sampled 4 generations late", PURPLE, "dashdot"),
    "search": ArmStyle("searches for F0.5 (SWE-grep)", GREEN, "solid"),
    "search_solved": ArmStyle("searches for the solver's success", ORANGE, "dash"),
    "on_policy": ArmStyle("its own suggestions", GREEN, "solid"),
    "off_policy": ArmStyle("the base model's suggestions", GREY, "dot"),
    "normalised": ArmStyle("divided by the deviation (GRPO)", SKY, "dashdot"),
    "threshold_45": ArmStyle("threshold 0.45", ORANGE, "dash"),
    "drift": ArmStyle("users who change", VERMILLION, "longdash"),
    "t_d": ArmStyle("our reading of T(D)", SKY, "dash"),
    "kl_0001": ArmStyle("KL 0.001", SKY, "dash"),
    "kl_004": ArmStyle("KL 0.04", BLUE, "dot"),
    "kl_03": ArmStyle("KL 0.3", YELLOW, "dashdot"),
    "no_upper_clip": ArmStyle("no upper clip", GREEN, "longdashdot"),
    "when_correct": ArmStyle("ρ = 0.2, mask correct (ours)", PURPLE, "longdash"),
    "when_non_incorrect": ArmStyle("ρ = 0.2, mask non-incorrect (ours)", ORANGE, "longdashdot"),
    "uncorrected": ArmStyle("noise, no correction (ours)", GREY, "dot"),
    "token_truncate": ArmStyle("noise, weights truncated (ours)", GREEN, "solid"),
    "sequence_mask": ArmStyle("noise, sequences masked (ours)", VERMILLION, "dash"),
    "t_06": ArmStyle("T = 0.6", BLUE, "solid"),
    "t_10": ArmStyle("T = 1.0", GREEN, "dash"),
    "t_12": ArmStyle("T = 1.2", ORANGE, "solid"),
    "t_18": ArmStyle("T = 1.8", VERMILLION, "dashdot"),
    "step_06_12": ArmStyle("T = 0.6, then 1.2", ORANGE, "longdash"),
    "step_06_18": ArmStyle("T = 0.6, then 1.8", VERMILLION, "longdash"),
    "ramp_06_18": ArmStyle("T from 0.6 to 1.8, ramp", GREY, "dot"),
    "t_of_d": ArmStyle("our reading of T(D)", PURPLE, "solid"),
    "kl_low_clip": ArmStyle("KL, low clip", VERMILLION, "dash"),
    "no_kl_high_clip": ArmStyle("GRPO+ (no KL, high clip)", GREEN, "solid"),
    "kl_high_clip": ArmStyle("KL, high clip (ours)", ORANGE, "longdash"),
    "no_kl_low_clip": ArmStyle("no KL, low clip (ours)", BLUE, "dot"),
    "small": ArmStyle("half the batch", SKY, "dot"),
    "medium": ArmStyle("the batch", GREEN, "solid"),
    "large": ArmStyle("twice the batch", VERMILLION, "dash"),
    "short": ArmStyle("half the limit", SKY, "dot"),
    "middle": ArmStyle("three quarters of the limit", ORANGE, "dash"),
    "long": ArmStyle("the limit", GREEN, "solid"),
    "short_early": ArmStyle("half, extended early", BLUE, "longdash"),
    "short_late": ArmStyle("half, extended late", BLUE, "dashdot"),
    "middle_early": ArmStyle("three quarters, extended early", VERMILLION, "longdash"),
    "middle_late": ArmStyle("three quarters, extended late", VERMILLION, "dashdot"),
    "short_masked": ArmStyle("half, conditional mask (ours)", PURPLE, "solid"),
}
# After Okabe and Ito's those of Paul Tol's muted scheme that are unlike them.
_MORE = ("#332288", "#882255", "#999933", "#44AA99", "#AA4499", "#661100")
_SPARE_COLORS = (SKY, VERMILLION, PURPLE, GREEN, ORANGE, BLUE, YELLOW, *_MORE)
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
