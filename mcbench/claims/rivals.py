"""What other papers claim against this one, or beside it: R1-R11, decided by the same rules.

Where a paper says that something does not help, or costs nothing, the claim is that it gains, or
loses, less than the margin of the measure.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from mcbench.claims.claim import register
from mcbench.claims.curves import ALL_ENTROPY, CUT, REWARD, WRONG_LENGTH, RunCurves
from mcbench.claims.evidence import Evidence, Part, difference, gap
from mcbench.claims.margins import NATS, POINTS, TOKENS
from mcbench.claims.statistics import area_under_curve

claim = partial(register, section="rivals", experiment="rivals", whose="rival")


@claim(
    "R1",
    "No rule for cut answers helps: neither leaving them out of their group nor masking them.",
    ("none", "before", "after"),
    source="Skywork-OR1 (He et al. 2025), section 3.2.3, Fig. 8",
)
def no_rule_helps(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths: no rule minus either rule, plus the margin, so that a
    rule which gains less than that is no help.
    """
    return evidence.no_lower("none", "before", "after")


@claim(
    "R2",
    "Where cut answers leave their group, more answers are cut, and the training reward ends "
    "lower.",
    ("none", "before"),
    source="Skywork-OR1 (He et al. 2025), section 3.2.3, Fig. 7",
)
def more_are_cut(evidence: Evidence) -> list[Part]:
    """Last-window share of cut answers, without them in the group minus with them, and reward, with
    them minus without.
    """
    cut, reward = (
        "cut answers at the end, before minus none",
        "reward at the end, none minus before",
    )
    return [
        evidence.difference(cut, POINTS, CUT, ("before", "none")),
        evidence.difference(reward, POINTS, REWARD, ("none", "before")),
    ]


@claim(
    "R3",
    "A temperature at which the sampler's entropy begins near 0.3 ends higher than T = 0.6 and "
    "than T = 1.",
    ("none", "entropy_03", "t_06"),
    source="AceReason-Nemotron 1.1 (Liu et al. 2025), abstract",
)
def entropy_near_03(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths: entropy 0.3 minus T = 0.6, and minus T = 1."""
    return evidence.higher("entropy_03", "t_06", "none")


@claim(
    "R4",
    "Punishing length softly ends higher than no rule, and than masking every cut answer.",
    ("none", "all", "soft_overlong"),
    source="DAPO (Yu et al. 2025), section 3.4, Eq. 13, Table 1",
)
def soft_punishment(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths: soft overlong punishment minus no rule, and minus masking
    all.
    """
    return evidence.higher("soft_overlong", "none", "all")


def _sooner_and_higher(evidence: Evidence, arm: str) -> list[Part]:
    a, b = (evidence.accuracy(one) for one in (arm, "none"))
    sooner = difference("pass@1 over the training", POINTS, a, b, area_under_curve)
    return [sooner, *evidence.higher(arm, "none")]


@claim(
    "R5",
    "Replacing groups that fare alike by further prompts raises accuracy sooner, and higher.",
    ("none", "dynamic"),
    source="DAPO (Yu et al. 2025), section 3.2, Eq. 11, Fig. 6",
)
def dynamic_sampling(evidence: Evidence) -> list[Part]:
    """Pass@1 at equal numbers of updates: area under the curve at the training length (sooner) and
    last window at both lengths (higher), dynamic sampling minus none. What the further prompts cost
    is logged and not counted here.
    """
    return _sooner_and_higher(evidence, "dynamic")


@claim(
    "R6",
    "Without the divisions by length and by deviation wrong answers stay shorter, and accuracy "
    "does not suffer.",
    ("grpo_no_kl", "dr_grpo"),
    source="Dr. GRPO (Liu et al. 2025), section 3.2, Fig. 5",
)
def done_right(evidence: Evidence) -> list[Part]:
    """Last-window length of wrong answers, GRPO without KL averaged per response minus Dr. GRPO;
    and last-window pass@1 at both lengths, Dr. GRPO minus that, plus the margin.
    """
    arms, name = (
        ("grpo_no_kl", "dr_grpo"),
        "length of wrong answers, GRPO per response minus Dr. GRPO",
    )
    shorter = evidence.difference(name, TOKENS, WRONG_LENGTH, arms)
    return [shorter, *evidence.no_lower("dr_grpo", "grpo_no_kl")]


@claim(
    "R7",
    "The ratio of whole answers, with its own narrow clip, ends higher than that of tokens.",
    ("grpo_no_kl", "gspo"),
    source="GSPO (Zheng et al. 2025), Eq. 5 and 7, section 5.1, Fig. 1",
)
def whole_answers(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths: GSPO minus GRPO without KL, both averaged per
    response.
    """
    return evidence.higher("gspo", "grpo_no_kl")


@claim(
    "R8",
    "Cutting importance weights and no gradients raises accuracy sooner, and higher, than DAPO.",
    ("none", "cispo"),
    source="CISPO, MiniMax-M1 (Chen et al. 2025), Eq. 4 and 5, Fig. 2; bound 5: ScaleRL "
    "(Khatri et al. 2025)",
)
def weights_cut(evidence: Evidence) -> list[Part]:
    """Pass@1: area under the curve at the training length (sooner) and last window at both lengths
    (higher), CISPO minus the high clip.
    """
    return _sooner_and_higher(evidence, "cispo")


def _explores(evidence: Evidence, arm: str) -> list[Part]:
    name = f"entropy at the end, {arm} minus none"
    entropy = evidence.difference(name, NATS, ALL_ENTROPY, (arm, "none"))
    return [entropy, *evidence.higher(arm, "none")]


@claim(
    "R9",
    "Without the gradient of a few tokens of high covariance entropy and accuracy end higher than "
    "with a high clip.",
    ("none", "clip_cov"),
    source="Clip-Cov (Cui et al. 2025), Eq. 10 to 12, section 4.3, Fig. 11",
)
def clip_cov(evidence: Evidence) -> list[Part]:
    """Last-window entropy over all answers, and pass@1 at both lengths: Clip-Cov minus the high
    clip.
    """
    return _explores(evidence, "clip_cov")


@claim(
    "R10",
    "With a KL penalty on the few tokens of highest covariance entropy and accuracy end higher "
    "than with a high clip.",
    ("none", "kl_cov"),
    source="KL-Cov (Cui et al. 2025), Eq. 10, 13 and 14, section 4.3, Fig. 11",
)
def kl_cov(evidence: Evidence) -> list[Part]:
    """Last-window entropy over all answers, and pass@1 at both lengths: KL-Cov minus the high
    clip.
    """
    return _explores(evidence, "kl_cov")


@claim(
    "R11",
    "Training for pass@k solves more problems in several attempts, and costs no pass@1.",
    ("none", "pass_at_k"),
    source="Pass@k training (Chen et al. 2025), section 2.4, Eq. 11 to 15, Fig. 1",
)
def for_several_attempts(evidence: Evidence) -> list[Part]:
    """Last-window share of problems that any of an evaluation's attempts solves, at both lengths,
    pass@k training minus none; and pass@1, plus the margin.
    """
    name = "problems solved by any attempt, pass_at_k minus none"
    any_attempt = [
        one
        for one in _solved(evidence).accuracy_parts(name, gap("pass_at_k", "none"))
        if not one.beside
    ]
    return [*any_attempt, *evidence.no_lower("pass_at_k", "none")]


def _solved(evidence: Evidence) -> Evidence:
    """With 100 for a problem that some attempt solves, and 0 for the others, as pass rates."""

    def any_attempt(run: RunCurves) -> RunCurves:
        rates = {
            how: replace(one, values=100.0 * (np.asarray(one.values) > 0))
            for how, one in run.rates.items()
        }
        return replace(run, rates=rates, shapes={})

    arms = {
        arm: {seed: any_attempt(run) for seed, run in seeds.items()}
        for arm, seeds in evidence.arms.items()
    }
    return replace(evidence, arms=arms)
