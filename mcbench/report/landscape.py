"""The index's section on other systems: what each adds, and what it showed on its nano task."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mcbench.claims import CLAIMS
from mcbench.report.claims import Results, numbers, place_of
from mcbench.report.page import Link, Section, Table
from mcbench.report.paper import OTHERS


@dataclass(frozen=True)
class System:
    """A published system: what it adds, the claims that say so here, and its source where
    :data:`mcbench.report.paper.OTHERS` has none.
    """

    name: str
    adds: str
    claims: tuple[str, ...]
    source: str = ""

    @property
    def where(self) -> Link | str:
        """Its source, as a link where it has an address."""
        url = OTHERS.get(self.name)
        return Link(url.removeprefix("https://"), url) if url else self.source


SYSTEMS = (
    System(
        "SWE-RL",
        "patches rewarded by their similarity to the true one, without running anything",
        ("S1",),
    ),
    System(
        "Kimi-Dev",
        "one model fixes bugs and writes tests; a curriculum; tests choose the patch",
        ("S2", "S3", "S4", "S5", "S6"),
    ),
    System(
        "Self-play SWE-RL",
        "one model writes bugs and fixes them; bugs that are just fixed are worth most",
        ("S7", "S8"),
    ),
    System(
        "CWM",
        "a base trained to predict what programs do, frame by frame, before reinforcement",
        ("X1", "X2", "X3", "X4"),
    ),
    System("CodeRL", "four outcomes, credited to tokens by a critic", ("V1", "V6")),
    System("RLTF", "blame on the line that broke", ("V2", "V7")),
    System("PPOCoder", "likeness to the reference, adaptive KL", ("V3", "V4", "V8", "V9")),
    System("StepCoder", "prefixes that shrink, unexecuted lines masked", ("V5",)),
    System(
        "DeepCoder",
        "difficulty filter, cut answers masked, growing limit",
        ("W1", "W6"),
        source="Luo et al. 2025",
    ),
    System(
        "Polaris",
        "T by diversity, solved prompts and flat groups replaced",
        ("W2", "W7"),
        source="An et al. 2025",
    ),
    System("SRPO", "long searches first; history resampling", ("W3", "W8")),
    System("DAPO", "dynamic sampling, soft overlong punishment", ("W4", "W9", "W11")),
    System("Clip-Cov", "no gradient for a few tokens of high covariance", ("W12",)),
    System(
        "MicroCoder-GRPO",
        "the paper's own recipe beside them",
        ("W5", "W10"),
        source="arXiv 2603.07777",
    ),
    System(
        "RLEF",
        "three attempts at a program, each told which public test the last one failed",
        ("F1", "F5"),
    ),
    System(
        "SDPO",
        "what is said of a failed attempt is distilled into the policy, token by token",
        ("F7",),
        source="Hübotter et al. 2026",
    ),
    System(
        "SkyRL",
        "asynchronous rollouts: episodes sampled by weights that are some generations old",
        ("F2", "F6"),
    ),
    System(
        "SWE-grep",
        "a sub-agent that finds files and lines in few turns of parallel searches",
        ("F3", "F4"),
    ),
    System(
        "Cursor Tab",
        "suggest or stay silent, learned from what users accept",
        ("A1", "A2", "A3", "A4", "A5"),
        source="cursor.com/blog/tab-rl",
    ),
)


def landscape_section(results: Results) -> Section:
    """A row for every system and claim, with the state that the committed runs give it."""
    rows = []
    for system in SYSTEMS:
        for name in system.claims:
            claim = CLAIMS[name]
            found = results.get(name)
            told = {"State": found.state if found else "not run"}
            if found and found.parts:
                told |= numbers(found.effect, *found.interval, found.unit)
            rows.append(
                {
                    "System": system.name,
                    "Source": system.where,
                    "Adds": system.adds,
                    "Claim": Link(f"{name}: {claim.claim}", place_of(claim)),
                    **told,
                    "Seeds": str(found.n_seeds) if found else "–",
                    "Differs from the original": claim.differs,
                    "How the original is known": claim.original,
                }
            )
    return Section(
        "landscape",
        "The landscape",
        "Other systems' tasks and rewards, each on a small task of the same generator, beside a "
        "control that could beat it.",
        [Table(pd.DataFrame(rows), fold="Every system, its claims and what became of them")],
    )
