"""What denser rewards than 1 or 0 claim, on programs with a branch (:mod:`mcbench.tasks.dense`)."""

from __future__ import annotations

from functools import partial

from mcbench.claims.claim import register
from mcbench.claims.evidence import Evidence, Part, Series, part
from mcbench.claims.margins import POINTS
from mcbench.claims.statistics import first_window, last_window

claim = partial(register, section="landscape", experiment="dense_rewards", whose="landscape")


def _task(evidence: Evidence, arm: str, name: str) -> Series:
    """A share that the judge told of every generation, in percent."""
    return evidence.logged(arm, f"task/{name}").percent()


def _gain(name: str, series: Series) -> Part:
    return part(name, POINTS, (1.0, series, last_window), (-1.0, series, first_window))


@claim(
    "V1",
    "Credit by a critic, against the greedy answer, ends higher than 1 or 0, and than the same "
    "outcomes without a critic.",
    ("tests", "outcomes", "coderl"),
    source="CodeRL (Le et al. 2022): its critic, and returns against the greedy answer",
)
def critic(evidence: Evidence) -> list[Part]:
    """Last-window pass@1: CodeRL minus the tests' 1 or 0, and minus the four outcomes. Beside them,
    how far the critic's AUROC is above a half on responses that it has not learned from.
    """
    half = evidence.logged("coderl", "task/critic_auroc").percent()
    auroc = part("AUROC of the critic minus 50 %", POINTS, (1.0, half, last_window),
                 constant=-50.0, beside=True)  # fmt: skip
    return [*evidence.higher("coderl", "tests", "outcomes"), auroc]


@claim(
    "V2",
    "Blame on the line that broke ends higher than 1 or 0, with fewer runtime errors.",
    ("tests", "rltf"),
    source="RLTF (Liu et al. 2023): fine-grained feedback",
)
def blame(evidence: Evidence) -> list[Part]:
    """Last-window pass@1, RLTF minus the tests' 1 or 0; and share of responses with a runtime error
    in training, 1 or 0 minus RLTF.
    """
    name = "runtime errors at the end, tests minus rltf"
    fewer = evidence.difference(name, POINTS, "task/runtime_error", ("tests", "rltf"))
    return [*evidence.higher("rltf", "tests"), fewer]


@claim(
    "V3",
    "Likeness to the reference, which runs nothing, ends as high as 1 or 0.",
    ("tests", "ppocoder"),
    source="PPOCoder (Shojaee et al. 2023): matches of syntax trees and of data flow",
)
def likeness(evidence: Evidence) -> list[Part]:
    """Last-window pass@1: PPOCoder minus the tests' 1 or 0, plus the margin."""
    return evidence.no_lower("ppocoder", "tests")


@claim(
    "V4",
    "A reward of likeness is pleased without the task being done: likeness rises, and the pass "
    "rate less than where tests reward.",
    ("tests", "ppocoder"),
    source="the gauge of hacking, ours",
)
def pleased(evidence: Evidence) -> list[Part]:
    """Of PPOCoder in training, last window minus the first generation: likeness of syntax and of
    data flow; and the gain in passing responses where tests reward minus PPOCoder's.
    """
    likeness = [
        _gain(f"{name.replace('_', ' ')}, gain", _task(evidence, "ppocoder", name))
        for name in ("ast_match", "data_flow_match")
    ]
    passed = [_task(evidence, arm, "passed") for arm in ("tests", "ppocoder")]
    less = part("gain in passing, tests minus ppocoder", POINTS, *(
        (sign * factor, series, statistic)
        for sign, series in zip((1.0, -1.0), passed, strict=True)
        for factor, statistic in ((1.0, last_window), (-1.0, first_window))
    ))  # fmt: skip
    return [*likeness, less]


@claim(
    "V5",
    "Prefixes that shrink, and no gradient where no test came, end higher than the same outcomes "
    "without them.",
    ("outcomes", "stepcoder"),
    source="StepCoder (Dou et al. 2024): curriculum of completion (CCCS), and FGO",
)
def steps(evidence: Evidence) -> list[Part]:
    """Last-window pass@1: StepCoder minus the four outcomes, at equal numbers of updates."""
    return evidence.higher("stepcoder", "outcomes")
