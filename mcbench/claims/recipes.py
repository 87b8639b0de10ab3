"""What whole recipes claim: each ends higher than the high clip without KL that they all begin
with, on the same problems and updates; and MicroCoder-GRPO beside them.
"""

from __future__ import annotations

from functools import partial

from mcbench.claims.claim import Measure, register
from mcbench.claims.evidence import Evidence, Part

claim = partial(register, section="landscape", experiment="recipes", whose="landscape")
WHOLE = ("deepcoder_whole", "polaris", "srpo", "dapo_whole")


def _above_none(arm: str) -> Measure:
    def statistic(evidence: Evidence) -> list[Part]:
        return evidence.higher(arm, "none")

    statistic.__doc__ = f"""Last-window pass@1 at both lengths: {arm} minus none."""
    return statistic


for number, (arm, said, source) in enumerate(
    (
        (
            "deepcoder_whole",
            "DeepCoder whole (cut answers masked, problems filtered beforehand, the limit doubled "
            "on the way) ends higher than its high clip alone.",
            "DeepCoder (Luo et al. 2025), GRPO+ and iterative context lengthening",
        ),
        (
            "polaris",
            "Polaris whole (temperature by measured diversity, solved prompts dropped, flat groups "
            "replaced) ends higher than its high clip alone.",
            "Polaris (An et al. 2025), its recipe and repository",
        ),
        (
            "srpo",
            "SRPO whole (long searches first, then everything; solved prompts dropped between "
            "epochs) ends higher than everything at once.",
            "SRPO (Zhang et al. 2025), sections 3.2 and 3.3",
        ),
        (
            "dapo_whole",
            "DAPO whole (dynamic sampling, soft overlong punishment) ends higher than its high "
            "clip alone.",
            "DAPO (Yu et al. 2025), Eq. 8 to 13, Table 1",
        ),
    ),
    start=1,
):
    claim(f"W{number}", said, ("none", arm), source=source)(_above_none(arm))


@claim(
    "W5",
    "MicroCoder-GRPO ends higher than every one of these recipes.",
    ("microcoder", *WHOLE),
    source="MicroCoder-GRPO against others, as in its Fig. 7",
)
def above_the_whole(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths: microcoder minus each whole recipe."""
    return [one for one in evidence.higher("microcoder", *WHOLE) if not one.beside]
