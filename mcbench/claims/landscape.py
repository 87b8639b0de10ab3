"""What other systems claim of their tasks and rewards, on tasks of :mod:`mcbench.tasks`.

They are decided by the rules of all claims, on fresh seeds of their own; none is part of the
protocol. A part compares a system with the control that could beat it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mcbench.claims.claim import register
from mcbench.claims.evidence import Evidence, Part, difference, part
from mcbench.claims.margins import MARGINS, POINTS
from mcbench.claims.statistics import Curve, last_window

claim = partial(register, section="landscape", whose="landscape")
repair = partial(claim, experiment="repair")
traced = partial(claim, experiment="execution_traces")
MARGIN = MARGINS[POINTS].value


def higher(evidence: Evidence, what: str, ours: str, other: str, **kind: Any) -> Part:
    """Last-window pass@1 of one arm minus another's."""
    a, b = (evidence.accuracy(arm, **kind) for arm in (ours, other))
    return difference(f"{what} at the end, {ours} minus {other}", POINTS, a, b, last_window)


def no_lower(evidence: Evidence, what: str, ours: str, other: str, **kind: Any) -> Part:
    """How much better than the margin below another arm's pass@1 an arm ends."""
    a, b = (evidence.accuracy(arm, **kind) for arm in (ours, other))
    return part(
        f"{what} at the end, {ours} minus {other}, plus {MARGIN:g}", POINTS,
        (1.0, a, last_window), (-1.0, b, last_window), constant=MARGIN, threshold=True,
    )  # fmt: skip


def base(x: np.ndarray, y: Curve) -> np.ndarray:
    """Before training."""
    return y[..., 0]


def gain(evidence: Evidence, what: str, arm: str, **kind: Any) -> Part:
    """Last-window pass@1 minus that of the base model."""
    curve = evidence.accuracy(arm, **kind)
    return part(
        f"{what}, {arm} at the end minus the base", POINTS,
        (1.0, curve, last_window), (-1.0, curve, base),
    )  # fmt: skip


@repair(
    "S1",
    "A reward of similarity, which runs nothing, repairs more bugs than the base, and no fewer "
    "than a reward of tests.",
    ("tests", "similarity"),
    source="SWE-RL (Wei et al. 2025), section 2.2; the reward of tests is our control",
)
def similarity(evidence: Evidence) -> list[Part]:
    """Share of held-out bugs whose patch passes the tests, by similarity: last window minus the
    base, and minus that of the reward of tests, plus the margin.
    """
    return [
        gain(evidence, "bugs fixed", "similarity", kind="fix"),
        no_lower(evidence, "bugs fixed", "similarity", "tests", kind="fix"),
    ]


@repair(
    "S2",
    "Leaving out first what the base never solved, and letting it join later, fixes more bugs.",
    ("tests", "curriculum"),
    source="Kimi-Dev (Yang et al. 2025), the curriculum of its reinforcement learning",
)
def curriculum(evidence: Evidence) -> list[Part]:
    """Share of held-out bugs fixed, last window: with the curriculum minus without."""
    return [higher(evidence, "bugs fixed", "curriculum", "tests", kind="fix")]


@repair(
    "S3",
    "One model learns both roles: its tests show more bugs, and it fixes no fewer.",
    ("tests", "duo"),
    source="Kimi-Dev (Yang et al. 2025), BugFixer and TestWriter",
)
def both_roles(evidence: Evidence) -> list[Part]:
    """At equal numbers of prompts, last window: share of written tests that show the bug, both
    roles minus the fixer alone; and share of bugs fixed, the same plus the margin.
    """
    return [
        higher(evidence, "bugs shown by a test", "duo", "tests", kind="write"),
        no_lower(evidence, "bugs fixed", "duo", "tests", kind="fix"),
    ]


@repair(
    "S4",
    "The patch that the model's own tests choose fixes more bugs than a single one.",
    ("duo",),
    source="Kimi-Dev (Yang et al. 2025), self-play at test time",
)
def chosen_by_tests(evidence: Evidence) -> list[Part]:
    """Share of held-out bugs fixed by the patch of four that the four written tests choose, minus
    by a patch at random, last window, of the arm with both roles.
    """
    chosen, single = (
        evidence.logged("duo", f"eval/{name}").percent() for name in ("selected", "single")
    )
    name = "bugs fixed at the end, chosen patch minus a random one"
    return [difference(name, POINTS, chosen, single, last_window)]


@traced(
    "X1",
    "A model trained on traces as well ends higher after reinforcement on programs, and gains more "
    "by it, at equal tokens.",
    ("traced", "untraced"),
    source="CWM (Copet et al. 2025), mid-training on execution traces",
)
def traces_help_programs(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 on programs, base trained on traces and programs minus base trained for
    as many tokens on programs alone; and the difference of what reinforcement gained.
    """
    gains = [
        (sign, evidence.accuracy(arm), statistic)
        for arm, sign in (("traced", 1.0), ("untraced", -1.0))
        for sign, statistic in ((sign, last_window), (-sign, base))
    ]
    return [
        higher(evidence, "pass@1", "traced", "untraced"),
        part("gain of reinforcement, traced minus untraced", POINTS, *gains),
    ]


@traced(
    "X2",
    "Reinforcement with 1 or -1 predicts more held-out traces exactly, frame by frame.",
    ("frames",),
    source="CWM (Copet et al. 2025), trace prediction, and the reward of its reinforcement",
)
def exact_traces(evidence: Evidence) -> list[Part]:
    """Share of held-out traces of which every frame is right: last window minus the base; and the
    share of frames that are right place by place, the same.
    """
    frames = evidence.logged("frames", "eval/frames").percent()
    return [
        gain(evidence, "traces exactly right", "frames"),
        part(
            "frames right, at the end minus the base", POINTS,
            (1.0, frames, last_window), (-1.0, frames, base),
        ),
    ]  # fmt: skip
