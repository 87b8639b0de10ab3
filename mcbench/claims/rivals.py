"""What other papers claim against this one, or beside it: R1-R11, decided by the same rules.

Where a paper says that something does not help, or costs nothing, the claim is that it gains, or
loses, less than the margin of the measure.
"""

from __future__ import annotations

from functools import partial

from mcbench.claims.claim import Claim
from mcbench.claims.contrast import Contrast, higher, no_lower

_rival = partial(Claim, experiment="rivals", whose="rival")


def _sooner_and_higher(arm: str) -> list[Contrast]:
    sooner = f"area({arm}) - area(none)"
    return [
        Contrast("pass@1 at the training length", "pass@1 over the training", sooner),
        *higher(arm, "none"),
    ]


RIVALS: tuple[Claim, ...] = (
    _rival(
        "R1",
        "No rule for cut answers helps: neither leaving them out of their group nor masking them.",
        ("none", "before", "after"),
        "Last-window pass@1 at both lengths: no rule minus either rule, plus the margin, so "
        "that a rule which gains less than that is no help.",
        no_lower("none", "before", "after"),
        source="Skywork-OR1 (He et al. 2025), section 3.2.3, Fig. 8",
    ),
    _rival(
        "R2",
        "Where cut answers leave their group, more answers are cut, and the training reward "
        "ends lower.",
        ("none", "before"),
        "Last-window share of cut answers, without them in the group minus with them, and "
        "reward, with them minus without.",
        [
            Contrast(
                "cut answers",
                "cut answers at the end, before minus none",
                "end(before) - end(none)",
            ),
            Contrast("reward", "reward at the end, none minus before", "end(none) - end(before)"),
        ],
        source="Skywork-OR1 (He et al. 2025), section 3.2.3, Fig. 7",
    ),
    _rival(
        "R3",
        "A temperature at which the sampler's entropy begins near 0.3 ends higher than T = "
        "0.6 and than T = 1.",
        ("none", "entropy_03", "t_06"),
        "Last-window pass@1 at both lengths: entropy 0.3 minus T = 0.6, and minus T = 1.",
        higher("entropy_03", "t_06", "none"),
        source="AceReason-Nemotron 1.1 (Liu et al. 2025), abstract",
    ),
    _rival(
        "R4",
        "Punishing length softly ends higher than no rule, and than masking every cut answer.",
        ("none", "all", "soft_overlong"),
        "Last-window pass@1 at both lengths: soft overlong punishment minus no rule, and "
        "minus masking all.",
        higher("soft_overlong", "none", "all"),
        source="DAPO (Yu et al. 2025), section 3.4, Eq. 13, Table 1",
    ),
    _rival(
        "R5",
        "Replacing groups that fare alike by further prompts raises accuracy sooner, and higher.",
        ("none", "dynamic"),
        "Pass@1 at equal numbers of updates: area under the curve at the training length "
        "(sooner) and last window at both lengths (higher), dynamic sampling minus none. What "
        "the further prompts cost is logged and not counted here.",
        _sooner_and_higher("dynamic"),
        source="DAPO (Yu et al. 2025), section 3.2, Eq. 11, Fig. 6",
    ),
    _rival(
        "R6",
        "Without the divisions by length and by deviation wrong answers stay shorter, and "
        "accuracy does not suffer.",
        ("grpo_no_kl", "dr_grpo"),
        "Last-window length of wrong answers, GRPO without KL averaged per response minus Dr. "
        "GRPO; and last-window pass@1 at both lengths, Dr. GRPO minus that, plus the margin.",
        [
            Contrast(
                "length of wrong answers",
                "length of wrong answers, GRPO per response minus Dr. GRPO",
                "end(grpo_no_kl) - end(dr_grpo)",
            ),
            *no_lower("dr_grpo", "grpo_no_kl"),
        ],
        source="Dr. GRPO (Liu et al. 2025), section 3.2, Fig. 5",
    ),
    _rival(
        "R7",
        "The ratio of whole answers, with its own narrow clip, ends higher than that of tokens.",
        ("grpo_no_kl", "gspo"),
        "Last-window pass@1 at both lengths: GSPO minus GRPO without KL, both averaged per "
        "response.",
        higher("gspo", "grpo_no_kl"),
        source="GSPO (Zheng et al. 2025), Eq. 5 and 7, section 5.1, Fig. 1",
    ),
    _rival(
        "R8",
        "Cutting importance weights and no gradients raises accuracy sooner, and higher, than "
        "DAPO.",
        ("none", "cispo"),
        "Pass@1: area under the curve at the training length (sooner) and last window at both "
        "lengths (higher), CISPO minus the high clip.",
        _sooner_and_higher("cispo"),
        source="CISPO, MiniMax-M1 (Chen et al. 2025), Eq. 4 and 5, Fig. 2; bound 5: ScaleRL "
        "(Khatri et al. 2025)",
    ),
    _rival(
        "R9",
        "Without the gradient of a few tokens of high covariance entropy and accuracy end "
        "higher than with a high clip.",
        ("none", "clip_cov"),
        "Last-window entropy over all answers, and pass@1 at both lengths: Clip-Cov minus the "
        "high clip.",
        [
            Contrast(
                "entropy", "entropy at the end, clip_cov minus none", "end(clip_cov) - end(none)"
            ),
            *higher("clip_cov", "none"),
        ],
        source="Clip-Cov (Cui et al. 2025), Eq. 10 to 12, section 4.3, Fig. 11",
    ),
    _rival(
        "R10",
        "With a KL penalty on the few tokens of highest covariance entropy and accuracy end "
        "higher than with a high clip.",
        ("none", "kl_cov"),
        "Last-window entropy over all answers, and pass@1 at both lengths: KL-Cov minus the "
        "high clip.",
        [
            Contrast("entropy", "entropy at the end, kl_cov minus none", "end(kl_cov) - end(none)"),
            *higher("kl_cov", "none"),
        ],
        source="KL-Cov (Cui et al. 2025), Eq. 10, 13 and 14, section 4.3, Fig. 11",
    ),
    _rival(
        "R11",
        "Training for pass@k solves more problems in several attempts, and costs no pass@1.",
        ("none", "pass_at_k"),
        "Last-window share of problems that any of an evaluation's attempts solves, at both "
        "lengths, pass@k training minus none; and pass@1, plus the margin.",
        [
            Contrast(
                "problems solved by any attempt",
                "problems solved by any attempt, pass_at_k minus none",
                "end(pass_at_k) - end(none)",
            ),
            *no_lower("pass_at_k", "none"),
        ],
        source="Pass@k training (Chen et al. 2025), section 2.4, Eq. 11 to 15, Fig. 1",
    ),
)
